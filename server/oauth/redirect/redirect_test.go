package redirect_test

import (
	"errors"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/oauth/redirect"
)

func parse(t testing.TB, raw string) *redirect.URI {
	t.Helper()
	uri, err := redirect.Parse(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return uri
}

func TestParse(t *testing.T) {
	t.Parallel()
	type seen struct {
		Host     string
		Loopback bool
	}
	for raw, want := range map[string]seen{
		"https://claude.ai/api/mcp/auth_callback":               {"claude.ai", false},
		"https://grok.com/connectors-oauth-exchange-code/":      {"grok.com", false},
		"https://example.com":                                   {"example.com", false},
		"https://example.com:8443/cb?tenant=a%2Fb&x=":           {"example.com", false},
		"https://xn--bcher-kva.example/cb":                      {"xn--bcher-kva.example", false},
		"https://r3---sn-4g5.example.com/a.b/..c/x;y=1/%C3%A9":  {"r3---sn-4g5.example.com", false},
		"https://intranet/cb/@x:y,(z)!$&'+=~%20":                {"intranet", false},
		"https://10.1.2.3/cb":                                   {"10.1.2.3", false},
		"https://[2606:4700::1111]:444/cb":                      {"[2606:4700::1111]", false},
		"https://localhost/cb":                                  {"localhost", true},
		"http://localhost":                                      {"localhost", true},
		"http://localhost:3000/cb":                              {"localhost", true},
		"http://127.0.0.1:65535/":                               {"127.0.0.1", true},
		"http://[::1]:1/cb":                                     {"[::1]", true},
		"com.example.app:/oauth2redirect/cb":                    {"com.example.app:", false},
		"com.example.app:///cb":                                 {"com.example.app:", false},
		"com.example.app://cb":                                  {"com.example.app://cb", false},
		"cursor://anysphere.cursor-mcp/oauth/callback":          {"cursor://anysphere.cursor-mcp", false},
		"cursor://anysphere.cursor-mcp/oauth/user-DB1/callback": {"cursor://anysphere.cursor-mcp", false},
		"vscode://GitHub.copilot_chat/did-authenticate?w=1":     {"vscode://GitHub.copilot_chat", false},
		// A name is no loopback address because an app calls a part of its URI so.
		"cursor://localhost/cb": {"cursor://localhost", false},
	} {
		uri := parse(t, raw)
		if diff := cmp.Diff(want, seen{uri.Host(), uri.Loopback()}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
		if uri.String() != raw {
			t.Errorf("%s has become %s", raw, uri)
		}
	}
	parse(t, "https://example.com/"+strings.Repeat("x", redirect.MaxLength-len("https://example.com/")))
}

// hostile are the URIs that must not be registered, each with a part of what the client is told.
var hostile = map[string]string{
	"":         "is empty",
	"callback": "absolute", "/callback": "absolute", "//claude.ai/cb": "absolute", ":cb": "absolute", "1http://localhost/": "absolute",
	"https:": "has no host", "https:claude.ai/cb": "has no host", "https:/claude.ai/cb": "has no host", "https://": "has no host",
	"https:///claude.ai/cb": "has no host", "https://:443/cb": "has no host", "https://?x=1": "has no host",
	"https://example.com/" + strings.Repeat("x", 2048): "more than 2048",

	// Schemes.
	"javascript:alert(1)": "scheme javascript", "javascript://claude.ai/%0aalert(1)": "scheme javascript", "JavaScript:alert(1)": "lower case",
	"java\tscript:alert(1)": "control character", " javascript:alert(1)": "control character", "javascript&colon;alert(1)": "absolute",
	"data:text/html,x": "scheme data", "DATA:text/html,x": "lower case", "file:///etc/passwd": "scheme file", "vbscript:x": "scheme vbscript",
	"blob:https://claude.ai/1": "scheme blob", "about:blank": "scheme about", "view-source:https://claude.ai/": "scheme view-source",
	"ws://localhost/": "scheme ws", "wss://claude.ai/": "scheme wss", "ftp://claude.ai/": "scheme ftp", "filesystem:https://claude.ai/x": "scheme filesystem",
	"intent://x#Intent;end": "fragment", "ms-settings:network": "scheme ms-settings", "search-ms:query=x": "scheme search-ms", "mailto:a@b.c": "scheme mailto",
	"myapp://callback": "scheme myapp", "HTTPS://claude.ai/cb": "lower case", "Http://localhost/cb": "lower case", "urn:ietf:wg:oauth:2.0:oob": "scheme urn",
	"com.example.app:callback": "path after its scheme", "com.example.app:": "path after its scheme", "com.example.app://": "path after its scheme",
	"com..app:/cb": "scheme com..app", "com.:/cb": "scheme com.", "example.com:443/cb": "path after its scheme",
	"com.example.app://user@x/cb": "user name", "com.example.app://a%2fb/cb": "host with characters", "com.example.app://../cb": "empty label",
	"com.example.app://x/../cb": "dot segments", "com.example.app:/%2e%2e/cb": "percent-encoded in its path", "com.example.app://x:0/cb": "port",

	// http beyond loopback, and loopback in disguise.
	"http://claude.ai/cb": "must use https", "http://127.0.0.2/": "must use https", "http://localhost.example.com/": "must use https",
	"http://sub.localhost/": "must use https", "http://10.0.0.1/": "must use https", "http://0.0.0.0:80/": "no machine", "http://[::]/": "no machine",
	"http://127.1/": "ends in a number", "http://127.0.1/": "ends in a number", "http://0x7f000001/": "ends in a number", "http://2130706433/": "ends in a number",
	"http://0177.0.0.1/": "ends in a number", "http://127.0.0.01/": "ends in a number", "http://0x7f.0.0.0x1/": "ends in a number", "http://127.0.0.0x/": "ends in a number",
	"http://127.0.0.1./": "empty label", "http://localhost./": "empty label", "http://LOCALHOST/": "capital letters", "http://[::ffff:127.0.0.1]/": "IPv6",
	"http://[::ffff:7f00:1]/": "IPv6", "http://[0:0:0:0:0:0:0:1]/": "IPv6", "http://[::1%25lo]/": "IPv6", "http://[::1]]/": "IPv6", "http://[::1/": "IPv6",
	"http://[::1]x/": "IPv6", "http://[127.0.0.1]/": "IPv6", "http://::1/": "has no host", "http://[0::1]/": "IPv6", "http://[2606:4700::1111]/": "must use https",
	"http://localhost:80:80/": "port", "http://ⓛocalhost/": "outside of ASCII",

	// Users, hosts, ports.
	"https://claude.ai@evil.example/cb": "user name", "https://user:pw@claude.ai/cb": "user name", "https://@claude.ai/cb": "user name",
	"https://claude.ai%40evil.example/cb": "letters, digits", "https://claude.ai\\@evil.example/": "backslash", "https:\\\\claude.ai\\cb": "backslash",
	"https://evil.example\\.claude.ai/cb": "backslash", "https://claude.ai\t/cb": "control character", "https://claude.ai/\ncb": "control character",
	"https://claude.ai/cb\x00": "control character", "https://claude.ai/cb ": "control character", "https://claude.ai/\x7f": "control character",
	"https://Claude.ai/cb": "capital letters", "https://claude.ai./cb": "empty label", "https://.claude.ai/cb": "empty label", "https://claude..ai/cb": "empty label",
	"https://claude_.ai/cb": "letters, digits", "https://-claude.ai/cb": "hyphen", "https://claude-.ai/cb": "hyphen", "https://cl%61ude.ai/cb": "letters, digits",
	"https://clаude.ai/cb": "outside of ASCII", "https://claude。ai/cb": "outside of ASCII", "https://evil.example／.claude.ai/": "outside of ASCII",
	"https://claude.ai/\u202ebc": "outside of ASCII", "https://claude.ai/\xff": "outside of ASCII", "https://bücher.example/cb": "outside of ASCII",
	"https://xn--claude-.ai/cb": "hyphen", "https://xn--claude-abc.ai/cb": "punycode", "https://xn--a.example/cb": "punycode", "https://xn--.example/": "hyphen",
	"https://1.2.3/cb": "ends in a number", "https://1.2.3.4.5/cb": "ends in a number", "https://256.1.1.1/cb": "ends in a number", "https://example.0x0/": "ends in a number",
	"https://0.0.0.0/cb": "no machine", "https://224.0.0.1/cb": "no machine", "https://" + strings.Repeat("x", 64) + ".com/": "63 characters",
	"https://" + strings.Repeat("x.", 127) + "com/": "253 characters", "https://claude.ai:/cb": "colon without a port", "https://claude.ai:0/cb": "port",
	"https://claude.ai:0443/cb": "port", "https://claude.ai:65536/cb": "port", "https://claude.ai:+443/cb": "port", "https://claude.ai:443x/cb": "port",
	"https://claude.ai:443:1/cb": "port", "https://claude.ai;evil.example/cb": "letters, digits", "https://claude.ai,evil.example/cb": "letters, digits",
	"https://[claude.ai]/cb": "IPv6", "https://x[::1]/cb": "letters, digits",

	// Paths.
	"https://claude.ai/../cb": "dot segments", "https://claude.ai/a/./cb": "dot segments", "https://claude.ai/cb/..": "dot segments", "https://claude.ai/.": "dot segments",
	"https://claude.ai/..;/cb": "dot segments", "https://claude.ai/.;x=1/cb": "dot segments", "https://claude.ai/%2e%2e/cb": "percent-encoded in its path",
	"https://claude.ai/.%2E/cb": "percent-encoded in its path", "https://claude.ai/a%2fb": "percent-encoded in its path", "https://claude.ai/a%5Cb": "percent-encoded in its path",
	"https://claude.ai/%252e%252e/cb": "percent-encoded in its path", "https://claude.ai/%61pi": "percent-encoded in its path", "https://claude.ai//evil.example": "two slashes",
	"https://claude.ai//": "two slashes", "https://claude.ai/a//cb": "two slashes", "https://claude.ai/%": "two hexadecimal digits", "https://claude.ai/%zz": "two hexadecimal digits",
	"https://claude.ai/%u002e": "two hexadecimal digits", "https://claude.ai/%00": "not printable", "https://claude.ai/%0d%0aset-cookie": "not printable",
	"https://claude.ai/%c0%ae": "not printable", "https://claude.ai/%e2%80%ae": "not printable", "https://claude.ai/%ff": "not printable", "https://claude.ai/a[b]": "brackets",
	"https://claude.ai/a|b": "must be percent-encoded", "https://claude.ai/<script>": "must be percent-encoded", `https://claude.ai/"x`: "must be percent-encoded",
	"https://claude.ai/a`b": "must be percent-encoded", "https://claude.ai/{x}": "must be percent-encoded", "https://claude.ai/a^b": "must be percent-encoded",
	"https://claude.ai/*": "asterisk", "https://*.claude.ai/cb": "asterisk", "http://localhost:*": "asterisk", "https://claude.ai/cb?x=*": "asterisk", "*": "asterisk",

	// Fragments and queries.
	"https://claude.ai/cb#": "fragment", "https://claude.ai/cb#x": "fragment", "https://claude.ai#@evil.example/": "fragment", "https://claude.ai/cb?": "question mark",
	"https://claude.ai/cb?code=1": "parameter code", "https://claude.ai/cb?a=1&state=x": "parameter state", "https://claude.ai/cb?%63ode=1": "parameter code",
	"https://claude.ai/cb?iss": "parameter iss", "https://claude.ai/cb?error=x": "parameter error", "https://claude.ai/cb?a;b": "name=value", "https://claude.ai/cb?a=%": "name=value",
	"https://claude.ai/cb?a=%0a": "not printable", "https://claude.ai/cb?a[]=1": "brackets", "https://evil.example?.claude.ai/cb#": "fragment",
}

func TestParseRefusesWhatParsersDisagreeAbout(t *testing.T) {
	t.Parallel()
	for raw, want := range hostile {
		uri, err := redirect.Parse(raw)
		if uri != nil || !errors.Is(err, redirect.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %q", raw, uri, err, want)
			continue
		}
		// The characters of an error_description (RFC 6749, section 5.2).
		if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
			t.Errorf("%q: the message %q has characters that an answer cannot have", raw, err)
		}
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		registered, requested string
		want                  bool
	}{
		{"https://claude.ai/cb", "https://claude.ai/cb", true},
		{"https://claude.ai/cb", "https://claude.ai/cb/", false},
		{"https://claude.ai/cb", "https://claude.ai:443/cb", false},
		{"https://claude.ai:1/cb", "https://claude.ai:2/cb", false},
		{"https://claude.ai/cb", "https://claude.ai/cb?x=1", false},
		{"http://localhost/cb", "http://localhost:49152/cb", true},
		{"http://localhost:1/cb?x=1", "http://localhost:2/cb?x=1", true},
		{"http://localhost:1/cb", "http://localhost/cb", true},
		{"http://127.0.0.1/cb", "http://127.0.0.1:49152/cb", true},
		{"http://[::1]:5/cb", "http://[::1]:6/cb", true},
		{"https://localhost:5/cb", "https://localhost:6/cb", true},
		{"http://localhost/cb", "https://localhost:1/cb", false},
		{"http://localhost/cb", "http://127.0.0.1/cb", false},
		{"http://127.0.0.1/cb", "http://[::1]/cb", false},
		{"http://localhost/cb", "http://localhost:1/other", false},
		{"http://localhost/cb", "http://localhost:1/cb/x", false},
		{"http://localhost/cb", "http://localhost:1/cb?x=1", false},
		{"http://localhost", "http://localhost:1/", false},
		{"cursor://localhost:1/cb", "cursor://localhost:2/cb", false},
		{"com.example.app:/cb", "com.example.app:///cb", false},
	} {
		if got := redirect.Same(parse(t, c.registered), parse(t, c.requested)); got != c.want {
			t.Errorf("%s for %s: %v, want %v", c.requested, c.registered, got, c.want)
		}
	}
}

// Whatever is parsed means the same to net/url, needs no cleaning, and has nothing to hide behind.
func FuzzParse(f *testing.F) {
	for raw := range hostile {
		f.Add(raw)
	}
	for _, entry := range redirect.Defaults() {
		f.Add(strings.ReplaceAll(entry, "*", "1"))
	}
	f.Fuzz(func(t *testing.T, raw string) {
		uri, err := redirect.Parse(raw)
		if err != nil {
			return
		}
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatalf("net/url does not read %q: %v", raw, err)
		}
		if u.String() != raw && u.Scheme+"://"+u.Host+u.EscapedPath() != strings.SplitN(raw, "?", 2)[0] || uri.String() != raw {
			t.Fatalf("net/url writes %q as %q", raw, u)
		}
		switch web := u.Scheme == "http" || u.Scheme == "https"; {
		case u.User != nil, u.Fragment != "", u.Opaque != "", strings.ContainsAny(raw, "#\\@*") && strings.ContainsAny(u.Host, "#\\@*"):
			t.Fatalf("%q has what is not to be there", raw)
		case u.Scheme == "http" && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname()):
			t.Fatalf("%q is http for %s", raw, u.Hostname())
		case web && strings.Trim(uri.Host(), "[]") != u.Hostname():
			t.Fatalf("%q is shown as %s, and leads to %s", raw, uri.Host(), u.Hostname())
		case slices.Contains([]string{"javascript", "data", "file", "blob", "about", "vbscript", "view-source", "ws", "wss", ""}, u.Scheme):
			t.Fatalf("%q has the scheme %s", raw, u.Scheme)
		}
		if clean := path.Clean("/" + u.Path); u.Path != "" && u.Path != clean && u.Path != clean+"/" {
			t.Fatalf("the path of %q can be shortened to %s", raw, clean)
		}
	})
}
