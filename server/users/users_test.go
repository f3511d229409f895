package users

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var redirectList = []string{"https://app.example.com/callback", "https://app.example.com/in/*", "https://bare.example.com", "http://localhost:3000/*", "myapp://done", "https://q.example.com/?a=1"}

func TestRedirects(t *testing.T) {
	t.Parallel()
	s := &Service{cfg: Config{RedirectURLs: redirectList}}
	for raw, want := range map[string]bool{
		"https://app.example.com/callback":             true,
		"https://APP.example.com/callback":             true,
		"https://app.example.com/in/a/b?x=y":           true,
		"https://app.example.com/in/":                  true,
		"https://bare.example.com":                     true,
		"https://bare.example.com/":                    true,
		"http://localhost:3000/any":                    true,
		"myapp://done":                                 true,
		"https://q.example.com/?a=1":                   true,
		"https://q.example.com/":                       false,
		"https://app.example.com/callback?x=y":         false,
		"https://app.example.com/callback/":            false,
		"https://app.example.com/other":                false,
		"https://app.example.com/in":                   false,
		"https://app.example.com/in/../admin":          false,
		"https://app.example.com/in/%2e%2e/admin":      false,
		"https://app.example.com/in/..%2fadmin":        false,
		"https://app.example.com/in//evil":             false,
		"https://app.example.com:444/callback":         false,
		"http://app.example.com/callback":              false,
		"https://app.example.com.evil.example/in/a":    false,
		"https://app.example.com@evil.example/in/a":    false,
		"https://user@app.example.com/callback":        false,
		"https://evil.example/https://app.example.com": false,
		"https://app.example.com/in/a#fragment":        false,
		"https://app.example.com/in/\\evil.example":    false,
		"https://app.example.com/in/a\r\nX: y":         false,
		"//app.example.com/callback":                   false,
		"/callback":                                    false,
		"javascript:alert(1)":                          false,
		"":                                             false,
		"http://localhost:3001/any":                    false,
		"myapp://other":                                false,
	} {
		err := s.checkRedirect(&raw)
		if (err == nil) != want || err != nil && !errors.Is(err, ErrRedirect) {
			t.Errorf("%q: %v, want allowed %v", raw, err, want)
		}
	}
	for entry, want := range map[string]bool{
		"https://a.example/*": true, "https://a.example/x": true, "myapp://x": true, "https://a.example/x*": false, "*": false,
		"https://*.example/": false, "a.example": false, "https://a.example/?x=*": false, "https://u@a.example/": false,
	} {
		if err := CheckRedirectEntry(entry); (err == nil) != want {
			t.Errorf("entry %q: %v", entry, err)
		}
	}
}

// What is let through leads to a host of the list, however it is spelled.
func FuzzRedirect(f *testing.F) {
	s := &Service{cfg: Config{RedirectURLs: redirectList}}
	for _, seed := range []string{"https://app.example.com/in/a", "https://app.example.com@evil/", "https://app.example.com\\@evil/in/", "http://localhost:3000/%00", "https://app.example.com/in/;x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if s.checkRedirect(&raw) != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatalf("%q was let through, and is no URL: %v", raw, err)
		}
		switch strings.ToLower(u.Host) {
		case "app.example.com", "bare.example.com", "q.example.com", "localhost:3000", "done":
		default:
			t.Fatalf("%q leads to %q", raw, u.Host)
		}
		if strings.ContainsAny(raw, "\\\r\n ") || strings.Contains(u.Path, "/../") {
			t.Fatalf("%q was let through", raw)
		}
	})
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"ada@example.com": "ada@example.com", " Ada@Example.COM\t": "ada@example.com", "ada+x@example.com": "ada+x@example.com",
		"o'neil@example.com": "o'neil@example.com", "grüße@exämple.com": "grüße@exämple.com",
		"": "", "ada": "", "@example.com": "", "ada@": "", "a b@example.com": "", "ada@example.com, eve@example.com": "",
		"Ada <ada@example.com>": "", `"a\"b"@example.com`: "", "ada@example.com\nBcc: eve@example.com": "", "ada\x00@example.com": "",
		"a@[127.0.0.1": "", strings.Repeat("a", 250) + "@example.com": "",
	} {
		got, err := normalize(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.7": "192.0.2.7/32", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "": "unknown", "x": "unknown",
	} {
		if got := (Client{IP: in}).Network(); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := (Client{UserAgent: "a\x00b\xff" + strings.Repeat("é", 200)}).program(); len(got) > 200 || strings.ContainsRune(got, 0) || !strings.HasPrefix(got, "ab") {
		t.Errorf("user agent %q", got)
	}
}

func TestMergeMetadata(t *testing.T) {
	t.Parallel()
	got, err := mergeMetadata("user_metadata", json.RawMessage(`{"a":1,"b":{"c":2}}`), map[string]any{"a": nil, "b": map[string]any{"d": nil}, "e": "x"})
	if diff := cmp.Diff(`{"b":{"d":null},"e":"x"}`, string(got)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := mergeMetadata("user_metadata", json.RawMessage(`{"a":"`+strings.Repeat("x", 3000)+`"}`), map[string]any{"b": strings.Repeat("y", 3000)}); err == nil {
		t.Error("two that are too large together were merged")
	}
}
