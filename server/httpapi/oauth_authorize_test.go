package httpapi_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/servertest"
)

// wantProblem checks that the page says what is wrong, is not one that other sites can use, and leads nowhere.
func wantProblem(t *testing.T, p *page, status int, says string) {
	t.Helper()
	if p.status != status || p.location != "" {
		t.Errorf("status %d, location %q, want a page with status %d:\n%s", p.status, p.location, status, p.text)
	}
	if !strings.Contains(p.content(), says) {
		t.Errorf("the page does not say %q: %s", says, p.content())
	}
	wantSafePage(t, p)
}

// wantSafePage checks what every page of the flow has to have.
func wantSafePage(t *testing.T, p *page) {
	t.Helper()
	diff(t, "media type", "text/html; charset=utf-8", p.header.Get("Content-Type"))
	diff(t, "cache", "no-store", p.header.Get("Cache-Control"))
	diff(t, "frames", "DENY", p.header.Get("X-Frame-Options"))
	diff(t, "sniffing", "nosniff", p.header.Get("X-Content-Type-Options"))
	diff(t, "referrer", "no-referrer", p.header.Get("Referrer-Policy"))
	policy := p.header.Get("Content-Security-Policy")
	for _, directive := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, directive) {
			t.Errorf("the policy lacks %s: %s", directive, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
		t.Errorf("the policy lets scripts or any style in: %s", policy)
	}
	if lower := strings.ToLower(p.text); strings.Contains(lower, "<script") || strings.Contains(lower, " on") && strings.Contains(lower, "onload=") {
		t.Errorf("the page has a script:\n%s", p.text)
	}
}

// What is wrong with the client or with where it wants its user back, the user reads; the client hears nothing (RFC 6749,
// section 4.1.2.1).
func TestOAuthRequestsThatEndOnAPage(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	a := registerApp(t, s, "one")
	two := registerApp(t, s, "two", "http://localhost/cb", "http://localhost/other")
	exact := registerApp(t, s, "site", "https://claude.ai/api/mcp/auth_callback")
	doubled := func(name string) url.Values {
		q := a.query()
		q.Add(name, q.Get(name))
		return q
	}
	for name, c := range map[string]struct {
		query url.Values
		says  string
	}{
		"no client":                       {a.query("client_id", ""), "client_id is missing"},
		"a client nobody knows":           {a.query("client_id", "mcp_nobodyknowsthisone00"), "not known"},
		"a client that is no id":          {a.query("client_id", "' or true --"), "not known"},
		"a client as long as a book":      {a.query("client_id", "mcp_"+strings.Repeat("a", 9000)), "not known"},
		"a document that is not https":    {a.query("client_id", "http://app.example/client.json"), "not known"},
		"a document on this machine":      {a.query("client_id", "https://127.0.0.1/client.json"), ""},
		"a document in this network":      {a.query("client_id", "https://10.0.0.1/client.json"), ""},
		"a document under a local name":   {a.query("client_id", "https://localhost/client.json"), ""},
		"a document without a path":       {a.query("client_id", "https://app.example"), "not known"},
		"client twice":                    {doubled("client_id"), "client_id more than once"},
		"redirect twice":                  {doubled("redirect_uri"), "redirect_uri more than once"},
		"redirect of nobody":              {a.query("redirect_uri", "https://evil.example/cb"), "invalid_redirect_uri"},
		"redirect of another client":      {a.query("redirect_uri", "http://localhost/cb"), "invalid_redirect_uri"},
		"another path":                    {a.query("redirect_uri", "http://127.0.0.1:4711/other?from=bough"), "invalid_redirect_uri"},
		"another query":                   {a.query("redirect_uri", "http://127.0.0.1:4711/callback?from=evil"), "invalid_redirect_uri"},
		"no query":                        {a.query("redirect_uri", "http://127.0.0.1:4711/callback"), "invalid_redirect_uri"},
		"another loopback host":           {a.query("redirect_uri", "http://localhost:4711/callback?from=bough"), "invalid_redirect_uri"},
		"a user in it":                    {a.query("redirect_uri", "http://127.0.0.1:4711@evil.example/callback?from=bough"), "invalid_redirect_uri"},
		"a script":                        {a.query("redirect_uri", "javascript:alert(1)"), "invalid_redirect_uri"},
		"another port that is not local":  {exact.query("redirect_uri", "https://claude.ai:8443/api/mcp/auth_callback"), "invalid_redirect_uri"},
		"not said, and there are two":     {two.query("redirect_uri", ""), "redirect_uri is missing"},
		"wrong in two ways: no challenge": {a.query("redirect_uri", "https://evil.example/cb", "code_challenge", ""), "invalid_redirect_uri"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, newVisitor(t, s).open(authorizeURL(s, c.query)), http.StatusBadRequest, c.says)
		})
	}
}

// What is wrong with anything else goes back to the client, with state and iss.
func TestOAuthRequestsThatAreSentBack(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	a := registerApp(t, s, "one")
	twice := func(name string) url.Values {
		q := a.query()
		q.Add(name, "again")
		return q
	}
	for name, c := range map[string]struct {
		query url.Values
		code  string
		state string
	}{
		"no response_type":           {a.query("response_type", ""), "invalid_request", "a state & more"},
		"implicit":                   {a.query("response_type", "token"), "unsupported_response_type", "a state & more"},
		"hybrid":                     {a.query("response_type", "code id_token"), "unsupported_response_type", "a state & more"},
		"no challenge":               {a.query("code_challenge", ""), "invalid_request", "a state & more"},
		"no method":                  {a.query("code_challenge_method", ""), "invalid_request", "a state & more"},
		"plain":                      {a.query("code_challenge_method", "plain"), "invalid_request", "a state & more"},
		"method in the wrong case":   {a.query("code_challenge_method", "s256"), "invalid_request", "a state & more"},
		"a challenge too short":      {a.query("code_challenge", "abc"), "invalid_request", "a state & more"},
		"a challenge too long":       {a.query("code_challenge", challenge(a.verifier)+"A"), "invalid_request", "a state & more"},
		"a challenge not of base64":  {a.query("code_challenge", strings.Repeat("!", 43)), "invalid_request", "a state & more"},
		"a scope nobody knows":       {a.query("scope", "read:tables drop:everything"), "invalid_scope", "a state & more"},
		"a scope that is no name":    {a.query("scope", `read:tables "x"`), "invalid_scope", "a state & more"},
		"another resource":           {a.query("resource", "https://other.example/mcp"), "invalid_target", "a state & more"},
		"another path of the server": {a.query("resource", s.URL+"/api/v1"), "invalid_target", "a state & more"},
		"a resource with a fragment": {a.query("resource", s.URL+"/mcp#x"), "invalid_target", "a state & more"},
		"response_mode fragment":     {a.query("response_mode", "fragment"), "invalid_request", "a state & more"},
		"a request object":           {a.query("request", "e30."), "request_not_supported", "a state & more"},
		"a request object elsewhere": {a.query("request_uri", "https://app.example/r"), "request_uri_not_supported", "a state & more"},
		"nobody may be asked":        {a.query("prompt", "none"), "login_required", "a state & more"},
		"none and more":              {a.query("prompt", "none login"), "invalid_request", "a state & more"},
		"scope twice":                {twice("scope"), "", ""},
		"challenge twice":            {twice("code_challenge"), "invalid_request", "a state & more"},
		"state twice":                {twice("state"), "invalid_request", ""},
		"no state":                   {a.query("state", "", "response_type", "token"), "unsupported_response_type", ""},
		"a state with everything":    {a.query("state", "&=#?%00 é\r\nSet-Cookie: x=y", "response_type", "token"), "unsupported_response_type", "&=#?%00 é\r\nSet-Cookie: x=y"},
	} {
		if c.code == "" { // a parameter that the request of all cases does not have
			c.query.Add("scope", "read:schema")
			c.code, c.state = "invalid_request", "a state & more"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newVisitor(t, s).open(authorizeURL(s, c.query))
			diff(t, "status", http.StatusSeeOther, p.status)
			diff(t, "cache", "no-store", p.header.Get("Cache-Control"))
			answer := answerOf(t, s, p.location, callback+"&", c.state)
			diff(t, "error", c.code, answer.Get("error"))
			if answer.Get("error_description") == "" || answer.Has("code") {
				t.Errorf("answer %v", answer)
			}
			if (c.state == "") != !answer.Has("state") {
				t.Errorf("state of %s", p.location)
			}
			if p.header.Get("Set-Cookie") != "" && strings.Contains(p.header.Get("Set-Cookie"), "x=y") {
				t.Error("a state became a header")
			}
		})
	}
}

// What clients may write in more than one way.
func TestOAuthRequestsThatAreTaken(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	a := registerApp(t, s, "one")
	local := registerApp(t, s, "local", "http://localhost/cb")
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	for name, c := range map[string]struct {
		app     app
		query   url.Values
		back    string
		offered []string
	}{
		"nothing but what must be":      {a, a.query(), callback, offered},
		"redirect not said":             {a, a.query("redirect_uri", ""), callback, offered},
		"an empty scope":                {a, changedTo(a.query(), "scope", ""), callback, offered},
		"two scopes, in any order":      {a, a.query("scope", "read:schema read:tables read:schema"), callback, []string{"read:tables", "read:schema"}},
		"scopes of OpenID Connect":      {a, a.query("scope", "openid offline_access profile email"), callback, offered},
		"the resource":                  {a, a.query("resource", s.URL+"/mcp"), callback, offered},
		"the resource with a slash":     {a, a.query("resource", s.URL+"/mcp/"), callback, offered},
		"the origin":                    {a, a.query("resource", s.URL), callback, offered},
		"the origin with a slash":       {a, a.query("resource", s.URL+"/"), callback, offered},
		"the scheme in capitals":        {a, a.query("resource", "HTTP://127.0.0.1:"+port+"/mcp"), callback, offered},
		"the resource, twice the same":  {a, changedTo(a.query(), "resource", s.URL+"/mcp", s.URL), callback, offered},
		"any port on loopback":          {a, a.query("redirect_uri", "http://127.0.0.1:61234/callback?from=bough"), "http://127.0.0.1:61234/callback?from=bough", offered},
		"a port where none was said":    {local, local.query("redirect_uri", "http://localhost:5000/cb"), "http://localhost:5000/cb", offered},
		"parameters that mean nothing":  {a, a.query("nonce", "x", "display", "popup", "ui_locales", "de"), callback, offered},
		"to be asked again":             {a, a.query("prompt", "consent"), callback, offered},
		"without state":                 {a, a.query("state", ""), callback, offered},
		"response_mode query":           {a, a.query("response_mode", "query"), callback, offered},
		"scopes that only admins allow": {a, a.query("scope", "read:branches write:branches write:schema"), callback, []string{"read:branches"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVisitor(t, s)
			p := v.open(authorizeURL(s, c.query))
			diff(t, "status", http.StatusOK, p.status)
			wantSafePage(t, p)
			p = v.signIn(p, ada, pass)
			diff(t, "boxes", c.offered, p.offered())
			wantSafePage(t, p)
			p = v.press(p, "allow", nil)
			answer := answerOf(t, s, p.location, c.back, c.query.Get("state"))
			got := issued(t, s.URL, c.app.redemption(answer.Get("code"), "redirect_uri", c.query.Get("redirect_uri")))
			diff(t, "scope", strings.Join(c.offered, " "), got.Scope)
		})
	}
}

func changedTo(q url.Values, name string, values ...string) url.Values {
	q[name] = values
	return q
}

// Users are asked for what there is. What is built later is not open to applications whose users never heard of it.
func TestScopesForWhichThereIsNothing(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	a := registerApp(t, s, "Editor")
	v := newVisitor(t, s)
	p := v.begin(a, "scope", strings.Join(theNine, " "))
	p = v.signIn(p, ada, pass)
	for _, scope := range theNine {
		if strings.Contains(p.text, scope) != slices.Contains(offered, scope) {
			t.Errorf("the page has %s or lacks it:\n%s", scope, p.text)
		}
	}
	// A form that says more than the page.
	p = v.press(p, "allow", url.Values{"scope": theNine})
	code := answerOf(t, s, p.location, a.callback, a.query().Get("state")).Get("code")
	diff(t, "scope", strings.Join(offered, " "), issued(t, s.URL, a.redemption(code)).Scope)
	// An application that asks for nothing else hears of it.
	resp, _ := send(t, http.MethodGet, authorizeURL(s, a.query("scope", "read:storage execute:jobs")), "")
	answer := answerOf(t, s, resp.Header.Get("Location"), a.callback, a.query().Get("state"))
	if answer.Get("error") != "invalid_scope" || !strings.Contains(answer.Get("error_description"), "read:storage execute:jobs") {
		t.Errorf("answer %v", answer)
	}
}
