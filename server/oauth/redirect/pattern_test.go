package redirect_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/oauth/redirect"
)

func pattern(t testing.TB, entry string) redirect.Pattern {
	t.Helper()
	p, err := redirect.ParsePattern(entry)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPattern(t *testing.T) {
	t.Parallel()
	for entry, c := range map[string]struct{ yes, no []string }{
		"https://claude.ai/api/mcp/auth_callback": {
			yes: []string{"https://claude.ai/api/mcp/auth_callback"},
			no: []string{
				"https://claude.ai/api/mcp/auth_callback/", "https://claude.ai/api/mcp/auth_callbac", "https://claude.ai/api/mcp",
				"https://claude.ai/api/mcp/auth_callback?x=1", "https://claude.ai:443/api/mcp/auth_callback", "https://claude.ai:8443/api/mcp/auth_callback",
				"https://www.claude.ai/api/mcp/auth_callback", "https://claude.ai.evil.example/api/mcp/auth_callback",
				"https://notclaude.ai/api/mcp/auth_callback", "https://evil.example/claude.ai/api/mcp/auth_callback",
				"https://claude.ai/API/mcp/auth_callback", "http://localhost/api/mcp/auth_callback", "claude.ai://api/mcp/auth_callback",
			},
		},
		"https://*.example.com/cb": {
			yes: []string{"https://a.example.com/cb", "https://xn--bcher-kva.example.com/cb"},
			no: []string{
				"https://example.com/cb", "https://a.b.example.com/cb", "https://a-example.com/cb", "https://aexample.com/cb",
				"https://a.example.com.evil.example/cb", "https://a.example.com/cb/x", "https://a.example.com:1/cb", "https://a.example.org/cb",
			},
		},
		"https://example.com:*/cb": {
			yes: []string{"https://example.com/cb", "https://example.com:1/cb", "https://example.com:65535/cb"},
			no:  []string{"https://example.com:1", "https://example.com:1/cb/x", "https://a.example.com:1/cb"},
		},
		// Without a path there is no path, but for loopback.
		"https://example.com:*": {
			yes: []string{"https://example.com", "https://example.com:8443"},
			no:  []string{"https://example.com/", "https://example.com:8443/cb", "https://example.com?x=1"},
		},
		"cursor://anysphere.cursor-mcp/oauth/*/callback": {
			yes: []string{"cursor://anysphere.cursor-mcp/oauth/user-db/callback", "cursor://anysphere.cursor-mcp/oauth/%20/callback"},
			no: []string{
				"cursor://anysphere.cursor-mcp/oauth/callback", "cursor://anysphere.cursor-mcp/oauth/a/b/callback", "cursor://anysphere.cursor-mcp/oauth/a/callback/",
				"cursor://anysphere.cursor-mcp/oauth/a/callback?x=1", "cursor://anysphere.cursor-mcp:1/oauth/a/callback",
				"cursor://evil.extension/oauth/a/callback", "cursor:///oauth/a/callback", "vscode://anysphere.cursor-mcp/oauth/a/callback",
			},
		},
		"https://chatgpt.com/connector/oauth/*": {
			yes: []string{"https://chatgpt.com/connector/oauth/kDmjx77UnKOM"},
			no:  []string{"https://chatgpt.com/connector/oauth", "https://chatgpt.com/connector/oauth/", "https://chatgpt.com/connector/oauth/a/b"},
		},
		"https://example.com/cb-*-x?tenant=1": {
			yes: []string{"https://example.com/cb-1-x?tenant=1", "https://example.com/cb---x?tenant=1"},
			no: []string{
				"https://example.com/cb--x?tenant=1", "https://example.com/cb-x?tenant=1", "https://example.com/cb-1-x", "https://example.com/cb-1-x?tenant=2",
				"https://example.com/cb-1-y?tenant=1", "https://example.com/b-1-x?tenant=1", "https://example.com/cb-1-x?tenant=1&x=2",
			},
		},
		"http://localhost:*": {
			yes: []string{
				"http://localhost", "http://localhost/", "http://localhost/callback", "http://localhost:1", "http://localhost:49152/a/b?c=d", "http://localhost?x=1",
			},
			no: []string{"https://localhost:1/", "http://127.0.0.1:1/", "http://[::1]:1/", "https://localhost.example.com/", "cursor://localhost:1/"},
		},
		"http://localhost:*/callback": {
			yes: []string{"http://localhost/callback", "http://localhost:1/callback"},
			no:  []string{"http://localhost:1/", "http://localhost:1/callback/x", "http://localhost:1/callback?x=1"},
		},
		"http://127.0.0.1:*":      {yes: []string{"http://127.0.0.1:1/x"}, no: []string{"http://localhost:1/x", "https://127.0.0.2:1/x"}},
		"http://[::1]:*":          {yes: []string{"http://[::1]/x", "http://[::1]:1/x"}, no: []string{"http://127.0.0.1:1/x", "https://[::2]:1/x"}},
		"http://localhost:3000":   {yes: []string{"http://localhost:3000"}, no: []string{"http://localhost:3000/", "http://localhost:3001"}},
		"com.example.app:/*":      {yes: []string{"com.example.app:/cb"}, no: []string{"com.example.app:///cb", "com.example.app://cb", "com.example.app:/a/b"}},
		"https://x.example.com/*": {yes: []string{"https://x.example.com/a.b"}, no: []string{"https://x.example.com/", "https://x.example.com"}},
	} {
		p := pattern(t, entry)
		for want, uris := range map[bool][]string{true: c.yes, false: c.no} {
			for _, raw := range uris {
				if got := p.Match(parse(t, raw)); got != want {
					t.Errorf("%s allows %s: %v, want %v", entry, raw, got, want)
				}
			}
		}
	}
	if (redirect.Pattern{}).Match(parse(t, "https://example.com")) {
		t.Error("the zero pattern matches")
	}
}

func TestParsePatternRefusesWhatAllowsTooMuch(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"": "is empty", "*": "cannot stand for a scheme", "*://*": "cannot stand for a scheme", "*:/cb": "cannot stand for a scheme", "http*://localhost/": "cannot stand for a scheme",
		"https://*": "whole left-most label", "https://*/cb": "whole left-most label", "https://*:*": "whole left-most label", "https://**": "whole left-most label",
		"https://a*.example.com": "whole left-most label", "https://*a.example.com": "whole left-most label", "https://a.*.example.com": "whole left-most label",
		"https://*.*.example.com": "whole left-most label", "https://example.*": "whole left-most label", "https://claude.ai*": "whole left-most label",
		"https://claude.ai*/cb": "whole left-most label", "http://localhost*": "whole left-most label", "http://127.0.0.*": "whole left-most label", "cursor://*": "whole left-most label",
		"https://*@claude.ai/": "user name", "https://[*]/": "whole left-most label",
		"https://*.com": "directly below com", "https://*.com/cb": "directly below com", "https://*.co.uk": "directly below co.uk", "https://*.github.io/cb": "directly below github.io",
		"https://*.vercel.app": "directly below vercel.app", "https://*.internal": "directly below internal", "https://*.localhost": "directly below localhost",
		"https://*.ck": "directly below ck", "https://*.kawasaki.jp": "directly below kawasaki.jp",
		"https://*.": "whole left-most label", "https://*.0.0.1": "ends in a number", "https://*.Example.com": "capital letters", "https://*.example.com.": "empty label",
		"http://*.example.com": "only in the hosts of https", "http://*.localhost:*": "only in the hosts of https", "cursor://*.cursor-mcp/cb": "only in the hosts of https",
		"http://localhost:3*": "whole port", "http://localhost:**": "whole port", "cursor://anysphere.cursor-mcp:*/cb": "whole port",
		"https://example.com/**": "no **", "https://example.com/a*b*c": "no **", "https://example.com/a/**/b": "no **",
		"https://example.com/cb?x=*": "in a query", "https://example.com/cb?*": "in a query", "https://example.com/cb#*": "fragment",
		"javascript:*": "scheme javascript", "javascript://*.example.com": "only in the hosts of https", "data:/*": "scheme data", "file:///*": "scheme file", "myapp://cb/*": "scheme myapp",
		"http://example.com/cb": "must use https", "http://example.com:*": "must use https", "https://example.com/../*": "dot segments", "https://example.com/%2*": "hexadecimal",
		"https://example.com//*": "two slashes", "https://user@example.com/": "user name", "https://example.com/\\*": "backslash", "https://example.com/ *": "space",
		"HTTPS://example.com/*": "lower case", "https://example.com:": "colon without a port", "https://example.com/cb?code=1": "parameter code",
	} {
		_, err := redirect.ParsePattern(entry)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "allowed redirect URI ") {
			t.Errorf("%q: %v, want an error with %q", entry, err, want)
		}
	}
}

// What well-known clients register is allowed out of the box, and what resembles it is not.
func TestDefaults(t *testing.T) {
	t.Parallel()
	var patterns []redirect.Pattern
	for _, entry := range redirect.Defaults() {
		patterns = append(patterns, pattern(t, entry))
	}
	var allowed []string
	clients := []string{
		"https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback", // Claude
		"http://localhost/callback", "http://127.0.0.1/callback", "http://localhost:54545/callback", // Claude Code, Codex, OpenCode
		"https://chatgpt.com/connector_platform_oauth_redirect", "https://chatgpt.com/connector/oauth/IbUR3zxyNQ16",
		"http://127.0.0.1:33418", "http://127.0.0.1:33418/", "http://localhost:33418/", "https://vscode.dev/redirect", "https://insiders.vscode.dev/redirect",
		"cursor://anysphere.cursor-mcp/oauth/callback", "https://www.cursor.com/agents/mcp/oauth/callback", "http://localhost:8787/callback",
		"cursor://anysphere.cursor-retrieval/oauth/user-bough/callback", "cursor://anysphere.cursor-mcp/oauth/user-bough/callback",
		"http://localhost:6274/oauth/callback", "http://localhost:6274/oauth/callback/debug", "http://[::1]:8080/callback",
	}
	for _, raw := range slices.Concat(clients, []string{
		"https://claude.ai/cb", "https://claude.ai.evil.example/api/mcp/auth_callback", "https://api.claude.ai/api/mcp/auth_callback", "https://chatgpt.com/g/evil",
		"https://vscode.dev/redirect/x", "https://evil.vscode.dev/redirect", "cursor://evil.extension/oauth/callback", "vscode://evil.extension/cb",
		"https://localhost/cb", "com.example.app:/cb", "https://example.com/",
	}) {
		uri := parse(t, raw)
		if slices.ContainsFunc(patterns, func(p redirect.Pattern) bool { return p.Match(uri) }) {
			allowed = append(allowed, raw)
		}
	}
	if diff := cmp.Diff(clients, allowed); diff != "" {
		t.Errorf("allowed (-want +got):\n%s", diff)
	}
}

// expression says with a regular expression what a pattern matches, without a look at the parts of either.
func expression(entry string) *regexp.Regexp {
	s := regexp.QuoteMeta(entry)
	if _, rest, _ := strings.Cut(entry, "://"); strings.HasSuffix(entry, ":*") && slices.Contains([]string{"localhost:*", "127.0.0.1:*", "[::1]:*"}, rest) {
		s = strings.TrimSuffix(s, `:\*`) + `(:[0-9]+)?([/?].*)?`
	}
	s = strings.Replace(s, `://\*\.`, `://[^./?:@]+\.`, 1)
	s = strings.Replace(s, `:\*`, `(:[0-9]+)?`, 1)
	return regexp.MustCompile(`^` + strings.ReplaceAll(s, `\*`, `[^/?]+`) + `$`)
}

// A pattern matches what its regular expression does: no more and no less.
func FuzzMatch(f *testing.F) {
	for _, entry := range append(redirect.Defaults(), "https://*.example.com:*/a-*/b?x=1", "com.example.app:/*", "https://example.com/:*") {
		f.Add(entry, strings.ReplaceAll(entry, "*", "1"))
		f.Add(entry, strings.ReplaceAll(strings.ReplaceAll(entry, ":*", ":1/cb"), "*", "a.b"))
		f.Add(entry, strings.ReplaceAll(entry, ":*", ""))
	}
	f.Fuzz(func(t *testing.T, entry, raw string) {
		p, err := redirect.ParsePattern(entry)
		if err != nil {
			return
		}
		// A path can have a colon before its asterisk, which is no port's.
		if _, rest, _ := strings.Cut(entry, "://"); strings.Contains(rest[strings.IndexByte(rest+"/", '/'):], ":*") {
			return
		}
		uri, err := redirect.Parse(raw)
		if err != nil {
			return
		}
		if want := expression(entry).MatchString(raw); p.Match(uri) != want {
			t.Errorf("%s matches %s: %v, want %v", entry, raw, !want, want)
		}
	})
}
