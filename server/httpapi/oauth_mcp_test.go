package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// What an application does with its token: as the user, and no more than she allowed.
func TestOAuthTokensAtTheMCPServer(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	s.Exec(t, s.Main, "create table notes (id int primary key, owner uuid, text text)")
	s.Run(t, unlimited)
	session := signUp(t, s, ada)
	s.Exec(t, s.Main, `alter table notes enable row level security; create policy own on notes to authenticated using (owner = auth.uid());
		grant select, insert on notes to authenticated`)
	s.Exec(t, s.Main, "insert into notes values (1, $1, 'this is mine'), (2, gen_random_uuid(), 'nobody knows')", session.User.ID)
	a := registerApp(t, s, "My assistant")
	got := connected(t, s, a, ada, "read:tables", "read:schema")

	type rpc struct {
		Result struct {
			Tools []struct{ Name string }
		}
	}
	ask := func(token, body string) (*http.Response, string) {
		t.Helper()
		return sendBy(t, http.DefaultClient, http.MethodPost, s.URL+"/mcp", body,
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Authorization", "Bearer "+token)
	}
	call := func(tool, arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`
	}
	resp, body := mcpCall(t, s.URL, got.Access)
	var listed rpc
	if err := json.Unmarshal([]byte(body), &listed); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	var names []string
	for _, tool := range listed.Result.Tools {
		names = append(names, tool.Name)
	}
	if !slices.Contains(names, "query_table") || !slices.Contains(names, "describe_table") || slices.Contains(names, "insert_records") {
		t.Errorf("tools of who may read: %q", names)
	}
	if resp, body := ask(got.Access, call("query_table", `{"table":"notes"}`)); resp.StatusCode != http.StatusOK || !strings.Contains(body, "this is mine") || strings.Contains(body, "nobody knows") {
		t.Errorf("the user's rows: %d %s", resp.StatusCode, body)
	}
	resp, body = ask(got.Access, call("insert_records", `{"table":"notes","records":[{"id":3}]}`))
	if challenge := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusForbidden || !strings.Contains(challenge, "insufficient_scope") || !strings.Contains(challenge, "write:tables") {
		t.Errorf("a scope that was not allowed: %d %s %s", resp.StatusCode, challenge, body)
	}

	// Nothing else gets in, and who is refused learns where to ask.
	for name, token := range map[string]string{
		"a refresh token": got.Refresh, "a sign-in": session.AccessToken, "nobody's": "mcp_at_" + newVerifier(), "a code": "mcp_ac_" + newVerifier(),
	} {
		resp, body := mcpCall(t, s.URL, token)
		challenge := resp.Header.Get("WWW-Authenticate")
		if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(challenge, `error="invalid_token"`) ||
			!strings.Contains(challenge, `resource_metadata="`+s.URL+`/.well-known/oauth-protected-resource/mcp"`) {
			t.Errorf("%s: %d %s %s", name, resp.StatusCode, challenge, body)
		}
	}
	for where, path := range map[string]string{"nowhere": "/mcp", "in the URL": "/mcp?access_token=" + got.Access} {
		resp, body = sendBy(t, http.DefaultClient, http.MethodPost, s.URL+path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Content-Type", "application/json")
		challenge := resp.Header.Get("WWW-Authenticate")
		// Who shows nothing has made no mistake (RFC 6750, section 3.1).
		if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(challenge, "resource_metadata=") || where == "nowhere" && strings.Contains(challenge, "error=") {
			t.Errorf("a token %s: %d %s %s", where, resp.StatusCode, challenge, body)
		}
	}

	// What the assistant did is on record under the user's name.
	area := client.AuditAreaMCP
	eventually(t, "the call on record", func() bool {
		for _, e := range must[*client.ListAuditResponse](t, 200)(s.Service(t).ListAuditWithResponse(t.Context(), &client.ListAuditParams{Area: &area})).JSON200.Entries {
			if e.Action == "query_table" && e.Outcome == "ok" && e.UserID != nil && *e.UserID == session.User.ID && e.ClientID != nil && *e.ClientID == a.id {
				return true
			}
		}
		return false
	})
}

// Two installations do not take each other's tokens, even where one's database is a copy of the other's.
func TestOAuthTokensAreForOneResource(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	s.Run(t, unlimited)
	first := s.URL
	signUp(t, s, ada)
	got := connected(t, s, registerApp(t, s, "My editor"), ada)
	s.Run(t, unlimited, func(c *server.Config) { c.PublicBaseURL = "https://bough.example" })
	if resp, _ := mcpCall(t, first, got.Access); resp.StatusCode != http.StatusOK {
		t.Errorf("at home: %d", resp.StatusCode)
	}
	resp, body := mcpCall(t, s.URL, got.Access)
	if challenge := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized ||
		!strings.Contains(challenge, `resource_metadata="https://bough.example/.well-known/oauth-protected-resource/mcp"`) {
		t.Errorf("elsewhere: %d %s %s", resp.StatusCode, challenge, body)
	}
}

// With TLS, browsers keep the cookie of the pages from everybody else.
func TestOAuthCookies(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	s.Run(t, unlimited)
	for _, c := range []struct{ public, want string }{
		{"https://bough.example", "__Host-bough_oauth=; Path=/; HttpOnly; Secure; SameSite=Lax"}, {"", "bough_oauth=; Path=/; HttpOnly; SameSite=Lax"},
	} {
		s.Run(t, unlimited, func(cfg *server.Config) { cfg.PublicBaseURL = c.public })
		resp, _ := send(t, http.MethodGet, authorizeURL(s, registerApp(t, s, "My editor").query()), "")
		name, rest, _ := strings.Cut(resp.Header.Get("Set-Cookie"), "=")
		secret, attributes, _ := strings.Cut(rest, ";")
		diff(t, "cookie", c.want, name+"=;"+attributes)
		if len(secret) != 43 {
			t.Errorf("the secret has %d characters", len(secret))
		}
	}
}
