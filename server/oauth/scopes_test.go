package oauth

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestResources(t *testing.T) {
	t.Parallel()
	for base, path := range map[string]string{"https://bough.example.com": "/mcp", "http://127.0.0.1:8080": "/mcp", "http://[::1]:8080": "/deep/mcp"} {
		s, err := New(nil, nil, Config{Issuer: base, BasePath: path, TokenLifetime: 1, RefreshLifetime: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ours := range []string{base, base + "/", base + path, base + path + "/", strings.ToUpper(base) + path, base + path + "?branch=x"} {
			if !s.isResource(ours) {
				t.Errorf("%s is not accepted for %s", ours, base)
			}
		}
		for _, other := range []string{
			"x", "/", path, base[strings.Index(base, ":")+1:] + path, base + path + "/more", base + path + "//", base + "//" + path, base + "/api", base + strings.ToUpper(path),
			base + path + "#fragment", base + path + "#", base + "1" + path, base + "." + path, "ftp" + base[strings.Index(base, ":"):] + path,
			strings.Replace(base, "//", "//user@", 1) + path, base + "@evil.example.com" + path, base + ".evil.example.com" + path, "https://evil.example.com" + path,
			base + "/%6dcp", base + path + "/..", base + "/x/.." + path, base + path + "\x00", " " + base + path, base + path + "?" + strings.Repeat("x", 3000),
			strings.Replace(base, "//", "/", 1) + path, strings.Replace(base, "//", "", 1) + path, base + `\` + path,
		} {
			if s.isResource(other) {
				t.Errorf("%q is accepted for %s", other, base)
			}
		}
	}
	s, err := New(nil, nil, Config{Issuer: "https://bough.example.com", BasePath: "/mcp", TokenLifetime: 1, RefreshLifetime: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]bool{
		"https://bough.example.com:443/mcp": true, "https://bough.example.com:0443/mcp": false, "https://bough.example.com:80/mcp": false, "http://bough.example.com:443/mcp": false,
	} {
		if s.isResource(value) != want {
			t.Errorf("%s: want %v", value, want)
		}
	}
}

func TestNewChecksTheConfiguration(t *testing.T) {
	t.Parallel()
	good := Config{Issuer: "https://bough.example.com", BasePath: "/mcp", TokenLifetime: 1, RefreshLifetime: 1}
	for name, change := range map[string]func(*Config){
		"no issuer":          func(c *Config) { c.Issuer = "" },
		"a path":             func(c *Config) { c.Issuer += "/path" },
		"a slash":            func(c *Config) { c.Issuer += "/" },
		"a query":            func(c *Config) { c.Issuer += "?" },
		"a user":             func(c *Config) { c.Issuer = "https://user@bough.example.com" },
		"another scheme":     func(c *Config) { c.Issuer = "ftp://bough.example.com" },
		"no lifetime":        func(c *Config) { c.TokenLifetime = 0 },
		"no other lifetime":  func(c *Config) { c.RefreshLifetime = 0 },
		"a negative window":  func(c *Config) { c.RefreshReuseWindow = -1 },
		"nothing to fetch":   func(c *Config) { c.ClientDocuments = true },
		"a pattern too wide": func(c *Config) { c.RedirectURIs = []string{"https://*"} },
	} {
		c := good
		change(&c)
		if _, err := New(nil, nil, c, nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := New(nil, nil, good, nil); err != nil {
		t.Error(err)
	}
}

// Whatever is accepted consists of names that there are, with one space between, and the order does not matter.
func FuzzScopes(f *testing.F) {
	for _, seed := range []string{"", "read:tables", "read:tables write:tables", "write:tables read:tables offline_access", "read:tables  x", "\x00", "read:tables\t", "Read:Tables", "read:tables\u00a0write:tables"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, refused := parseScopes(text)
		if refused != nil {
			if refused.Code != "invalid_scope" || refused.Description == "" || strings.ContainsFunc(refused.Description, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
				t.Errorf("%q is refused by %v", text, refused)
			}
			return
		}
		words := strings.Fields(text)
		if strings.Join(words, " ") != text {
			t.Fatalf("%q is accepted", text)
		}
		for _, word := range words {
			if !slices.Contains(found, word) && !slices.Contains(ignoredScopes, word) {
				t.Fatalf("%q of %q is lost", word, text)
			}
		}
		for _, name := range found {
			if !slices.Contains(words, name) {
				t.Fatalf("%q of %q comes from nowhere", name, text)
			}
		}
		slices.Reverse(words)
		again, refused := parseScopes(strings.Join(words, " "))
		if refused != nil || !slices.Equal(found, again) {
			t.Fatalf("%q is %v, backwards %v", text, found, again)
		}
	})
}

// Whatever is accepted as a resource is read as a URL of this server by another parser's rules, too.
func FuzzResource(f *testing.F) {
	s, err := New(nil, nil, Config{Issuer: "https://bough.example.com", BasePath: "/mcp", TokenLifetime: 1, RefreshLifetime: 1}, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"https://bough.example.com/mcp", "HTTPS://BOUGH.EXAMPLE.COM:443/mcp/?a=b", "https://bough.example.com@evil/mcp", "https:/bough.example.com/mcp", "https://bough.example.com\\@evil/mcp", "https://bough.example.com:/mcp", "https://bough.example.com#@evil/mcp"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if !s.isResource(value) {
			return
		}
		rest, ok := strings.CutPrefix(strings.ToLower(value), "https://bough.example.com")
		if !ok {
			t.Fatalf("%q is accepted", value)
		}
		rest, _, _ = strings.Cut(rest, "?")
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, ":443"), ":")
		switch rest {
		case "", "/", "/mcp", "/mcp/":
		default:
			t.Fatalf("%q is accepted", value)
		}
	})
}

// Whatever an answer says, it says it in the query of the redirect URI, and every parser reads it back.
func FuzzLocation(f *testing.F) {
	s, err := New(nil, nil, Config{Issuer: "https://bough.example.com", BasePath: "/mcp", TokenLifetime: 1, RefreshLifetime: 1}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("state", "code")
	f.Add("a b+c&d=e#f\r\nX: y\x00\xff", "%")
	f.Fuzz(func(t *testing.T, state, code string) {
		for _, uri := range []string{"https://app.example.com/cb", "https://app.example.com/cb?keep=1", "cursor://x/y/callback?", "http://[::1]:1/?a&"} {
			location := s.location(uri, []byte(state), "code", code)
			rest, ok := strings.CutPrefix(location, uri)
			if !ok || strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' || r == '#' || r == '+' }) {
				t.Fatalf("%q", location)
			}
			u, err := url.Parse(location)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			if q.Get("state") != state || q.Get("code") != code || q.Get("iss") != "https://bough.example.com" || len(q["iss"]) != 1 {
				t.Fatalf("%q is read as %v", location, q)
			}
		}
	})
}
