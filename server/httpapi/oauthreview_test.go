package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/servertest"
)

// A parameter that cannot be read is not left out: without its state an application could not tell its own answer from
// another's, and without its redirect URI the user would be sent where it did not ask.
func TestOAuthParametersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	a := registerApp(t, s, "editor")
	whole := authorizeURL(s, a.query("state", ""))
	for name, more := range map[string]string{
		"percent sign": "&state=%zz", "end": "&state=%", "semicolon": ";state=x", "in a name": "&sta%te=x", "two in one": "&x=1;redirect_uri=https://evil.example",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, newVisitor(t, s).open(whole+more), http.StatusBadRequest, "not encoded as they should be")
		})
	}
	if p := newVisitor(t, s).open(whole); p.status != http.StatusOK {
		t.Errorf("without them: %d %s", p.status, p.text)
	}
}

// A cookie that the server never made is replaced: nobody would get rid of it otherwise.
func TestOAuthCookieOfSomebodyElse(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	a := registerApp(t, s, "editor")
	for _, value := range []string{"", "x", strings.Repeat("!", 43), strings.Repeat("A", 42) + "B", strings.Repeat("A", 44)} {
		resp, body := send(t, http.MethodGet, authorizeURL(s, a.query()), "", "Cookie", "bough_oauth="+value)
		if resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 1 {
			t.Errorf("with the cookie %q: %d, cookies %v\n%s", value, resp.StatusCode, resp.Cookies(), body)
		}
	}
}

// The step of the code says what to do when it is sent without one.
func TestOAuthCodeIsMissing(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	v := newVisitor(t, s)
	p := v.press(v.begin(registerApp(t, s, "editor")), "send-code", map[string][]string{"email": {"ada@example.com"}})
	p = v.press(p, "code", map[string][]string{"code": {" "}})
	wantProblem(t, p, http.StatusBadRequest, "Enter the six digits from the mail.")
}

// Who asks for the header alone gets it (RFC 9110, section 9.3.2).
func TestOAuthMetadataWithoutItsBody(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	for _, path := range []string{"oauth-authorization-server", "oauth-protected-resource", "oauth-protected-resource/mcp"} {
		resp, body := sendBy(t, http.DefaultClient, http.MethodHead, s.URL+"/.well-known/"+path, "")
		if resp.StatusCode != http.StatusOK || body != "" || resp.Header.Get("Cache-Control") != "public, max-age=300" {
			t.Errorf("%s: %d %v %q", path, resp.StatusCode, resp.Header, body)
		}
	}
}

// Text that PostgreSQL cannot hold is nobody's id, and no fault of the server.
func TestOAuthIDsThatCannotBe(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{http.MethodDelete, "/api/v1/admin/oauth/clients/%00", http.StatusBadRequest, "client_id is not UTF-8"},
		{http.MethodDelete, "/api/v1/admin/oauth/clients/mcp_%ff", http.StatusBadRequest, "client_id is not UTF-8"},
		{http.MethodDelete, "/api/v1/admin/branches/%00", http.StatusBadRequest, "the path parameter"},
		{http.MethodGet, "/api/v1/admin/audit?client_id=mcp_%00", http.StatusBadRequest, "client_id is not valid UTF-8"},
		{http.MethodGet, "/api/v1/admin/audit?client_id=%ff", http.StatusBadRequest, "client_id is not valid UTF-8"},
		{http.MethodGet, "/api/v1/admin/audit?action=%00", http.StatusBadRequest, "action is not valid UTF-8"},
	} {
		resp, body := send(t, c.method, s.URL+c.path, "", "X-Service-Key", servertest.ServiceKey)
		if resp.StatusCode != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d %s, want %d and %q", c.method, c.path, resp.StatusCode, body, c.status, c.says)
		}
	}
}

// What an administrator does by the API has no address in the audit log, rather than an empty one.
func TestOAuthAuditWithoutAddress(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	a := registerApp(t, s, "editor")
	if resp, body := send(t, http.MethodDelete, s.URL+"/api/v1/admin/oauth/clients/"+a.id, "", "X-Service-Key", servertest.ServiceKey); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("removing a client: %d %s", resp.StatusCode, body)
	}
	log := actions(t, s)
	if len(log) != 2 || log[0].IP == nil || *log[0].IP == "" || log[1].Action != "client_revoked" || log[1].IP != nil {
		t.Errorf("the audit log has %+v", log)
	}
}

// Clients on the web open the flow in a window of its own and wait for it. With an opener policy of its own the page would
// cut the window off: ChatGPT takes that for the user's closing it.
func TestOAuthInAWindowThatAPageOpened(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, "ada@example.com")
	v := newVisitor(t, s)
	first := v.begin(registerApp(t, s, "a site", "https://claude.ai/api/mcp/auth_callback"))
	second := v.signIn(first, "ada@example.com", pass)
	third := v.press(second, "allow", nil)
	if third.location == "" {
		t.Fatalf("allowing was answered %d", third.status)
	}
	for i, p := range []*page{first, second, third, v.open(s.URL + "/mcp/oauth/authorize")} {
		if got := p.header.Get("Cross-Origin-Opener-Policy"); got != "" && got != "unsafe-none" {
			t.Errorf("page %d has the opener policy %q", i, got)
		}
	}
}
