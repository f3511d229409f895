package httpapi_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// toolsOf are the tools for a caller with the scopes, in the order of the list.
func toolsOf(admin bool, scopes ...string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(toolCases)) {
		lacks := slices.ContainsFunc(strings.Fields(toolCases[name].scopes), func(scope string) bool { return !slices.Contains(scopes, scope) })
		if !lacks && (admin || !toolCases[name].admin) {
			names = append(names, name)
		}
	}
	return names
}

// The list has what the caller may call, and no more, whatever she calls with. All of it together is short: it is in the
// context of each conversation.
func TestMCPListsWhatTheCallerMayCall(t *testing.T) {
	t.Parallel()
	w := newToolWorld(t)
	editor := registerApp(t, w.s, "My editor")
	every := append([]string{"read:branches", "write:branches", "write:schema"}, theNine...)
	whole := service(w.s).send(t, "tools/list", "", nil)
	if len(whole.body) >= 40_000 {
		t.Errorf("tools/list has %d bytes", len(whole.body))
	}
	diff(t, "who may keep the list", "private", whole.result["cacheScope"])
	diff(t, "the service's tools", toolsOf(true, every...), service(w.s).tools(t))
	diff(t, "an administrator's tools", toolsOf(true, every...), w.admin.tools(t))
	diff(t, "tools of a token with what a user can allow", toolsOf(false, append([]string{"read:branches"}, theNine...)...), w.user.tools(t))
	diff(t, "tools of the scopes that are asked for by default", toolsOf(false, offered...), allowed(t, w.s, editor, ada).tools(t))
	diff(t, "tools of the scopes that read", toolsOf(false, "read:tables", "read:schema"), allowed(t, w.s, editor, ada, "read:tables", "read:schema", "read:storage", "read:vectors").tools(t))
	diff(t, "tools of a user's key with an administrator's scopes", toolsOf(false, every...), clientKey(t, w.s, w.ada, every...).tools(t))
	for _, scope := range every {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			diff(t, "a user's key", toolsOf(false, scope), clientKey(t, w.s, w.ada, scope).tools(t))
			diff(t, "an administrator's key", toolsOf(true, scope), clientKey(t, w.s, userID(t, w.s, root), scope).tools(t))
		})
	}
}

// A query at the address takes away, and gives nothing.
func TestMCPNarrowing(t *testing.T) {
	t.Parallel()
	w := newToolWorld(t)
	var reading, tables, both []string
	for _, tool := range service(w.s).send(t, "tools/list", "", nil).result["tools"].([]any) {
		tool := tool.(map[string]any)
		name := tool["name"].(string)
		if tool["annotations"].(map[string]any)["readOnlyHint"] == true {
			reading = append(reading, name)
		}
	}
	for _, name := range toolsOf(true, "read:tables", "write:tables") {
		tables = append(tables, name)
		if slices.Contains(reading, name) {
			both = append(both, name)
		}
	}
	for query, want := range map[string][]string{
		"?read_only=true": reading, "?features=tables": tables, "?features=tables&read_only=true": both,
		"?features=schema,branches": toolsOf(true, "read:schema", "read:branches", "write:branches", "write:schema"), "?read_only=false": service(w.s).tools(t),
	} {
		diff(t, "tools at "+query, want, service(w.s).at(query).tools(t))
	}
	diff(t, "a user's tools where more are offered", toolsOf(false, "read:tables"), clientKey(t, w.s, w.ada, "read:tables").at("?features=tables,procedures").tools(t))

	// What is not in the list cannot be called either.
	w.unchanged(t, func() {
		for query, tool := range map[string]string{"?read_only=true": "delete_records", "?features=schema": "delete_records", "?features=tables": "create_branch"} {
			got := service(w.s).at(query).call(t, tool, `{"table": "notes", "filters": [{"column": "id", "op": "gt", "value": 0}], "name": "x"}`)
			if got.code == 0 || !strings.Contains(got.message, tool) {
				t.Errorf("%s at %s was answered %d %s", tool, query, got.status, got.body)
			}
		}
		lab := w.user.at("?branch=lab")
		lab.gives(t, "get_record", `{"table": "notes", "id": 1}`, `{"record": {"body": "lab tea"}}`)
		lab.gives(t, "get_record", `{"table": "notes", "id": 1, "branch": "lab"}`, `{"record": {"body": "lab tea"}}`)
		lab.fails(t, "get_record", `{"table": "notes", "id": 1, "branch": "main"}`, "fixes the branch")
		lab.fails(t, "get_record", `{"table": "notes", "id": 1, "branch": "closed"}`, "fixes the branch")
		w.user.at("?branch=closed").fails(t, "get_record", `{"table": "notes", "id": 1}`, "branch_not_found")
		w.admin.at("?branch=lab").fails(t, "delete_branch", `{"branch": "closed", "confirm": "closed"}`, "fixes the branch")
	})
	for _, query := range []string{"?read_only=yes", "?features=everything", "?branch=", "?read_only=true&read_only=false", "?project=x"} {
		if got := service(w.s).at(query).send(t, "tools/list", "", nil); got.status != http.StatusBadRequest || got.refusal != "invalid_request" {
			t.Errorf("%s was answered %d %s", query, got.status, got.body)
		}
	}
	for _, query := range []string{"?access_token=x", "?service_key=" + servertest.ServiceKey} {
		if got := (assistant{address: w.s.URL + "/mcp"}).at(query).send(t, "tools/list", "", nil); got.status != http.StatusUnauthorized {
			t.Errorf("a credential in the address was answered %d %s", got.status, got.body)
		}
	}
}

// Each credential is good for what it was given for.
func TestMCPCredentials(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, withMCP)
	session := signUp(t, s, ada)
	token := connected(t, s, registerApp(t, s, "My editor"), ada, "read:tables").Access
	refuse := func(name string, a assistant, says string) {
		t.Helper()
		got := a.send(t, "tools/list", "", nil)
		challenge := got.header.Get("WWW-Authenticate")
		if got.status != http.StatusUnauthorized || !strings.Contains(challenge, `resource_metadata="`+metadataOf(s, "/mcp")+`"`) || !strings.Contains(challenge, `scope="`+strings.Join(offered, " ")+`"`) {
			t.Errorf("%s was answered %d %s, %v", name, got.status, got.body, got.header)
		}
		if !strings.Contains(challenge, says) || says == "" && strings.Contains(challenge, "error=") {
			t.Errorf("%s: challenge %s", name, challenge)
		}
	}
	refuse("nobody", assistant{address: s.URL + "/mcp"}, "")
	refuse("a token of a sign-in", withAccess(s, session.AccessToken), `error="invalid_token"`)
	refuse("a refresh token", withAccess(s, session.RefreshToken), `error="invalid_token"`)
	refuse("a made-up token", withAccess(s, "mcp_at_"+newVerifier()), `error="invalid_token"`)
	refuse("a made-up key", assistant{address: s.URL + "/mcp", headers: []string{"X-Service-Key", "bough_sk_" + newVerifier()}}, `error="invalid_token"`)

	for _, path := range []string{"/api/v1/tables/notes", "/api/v1/admin/branches", "/api/v1/auth/applications", "/rest/v1/notes", "/api/v1/admin/audit"} {
		resp, body := send(t, http.MethodGet, s.URL+path, "", "Authorization", "Bearer "+token)
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s answered an access token of the MCP server with %d %s", path, resp.StatusCode, body)
		}
	}
	got := (assistant{address: s.URL + "/mcp", headers: []string{"Authorization", "Bearer " + token, "X-Service-Key", servertest.ServiceKey}}).send(t, "tools/list", "", nil)
	diff(t, "two credentials", http.StatusBadRequest, got.status)
	withAccess(s, token).tools(t)
}

// Pages of the server's own origin, of loopback ones and of those that are configured may call; others learn why not, and
// nothing is done for them.
func TestMCPOrigins(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, withMCP, func(c *server.Config) { c.MCP.AllowedOrigins = []string{"https://inspector.example"} })
	s.Exec(t, s.Main, "create table notes (id int primary key)")
	for origin, may := range map[string]bool{
		s.URL: true, "http://localhost:6274": true, "http://127.0.0.1": true, "http://[::1]:3000": true, "https://inspector.example": true, "": true,
		"https://evil.example": false, "null": false, "https://inspector.example.evil.example": false, "http://inspector.example": false, "https://localhost.evil.example": false,
	} {
		a := service(s)
		if origin != "" {
			a.headers = append(a.headers, "Origin", origin)
		}
		got := a.call(t, "query_table", `{"table": "notes"}`)
		if (got.status == http.StatusOK) != may || !may && got.status != http.StatusForbidden {
			t.Errorf("a page of %q was answered %d %s", origin, got.status, got.body)
		}
		if allows := got.header.Get("Access-Control-Allow-Origin"); origin != "" && may != (allows == origin || allows == "*") {
			t.Errorf("a page of %q: Access-Control-Allow-Origin %q", origin, allows)
		}
		if origin == "" {
			continue
		}
		resp, _ := send(t, http.MethodOptions, s.URL+"/mcp", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,mcp-protocol-version,mcp-method,mcp-name")
		if headers := strings.ToLower(resp.Header.Get("Access-Control-Allow-Headers")); may != (strings.Contains(headers, "mcp-name") && strings.Contains(headers, "authorization")) {
			t.Errorf("a page of %q may send %q", origin, headers)
		}
	}
}

// past sends a request past the contract, which says nothing of this server.
func past(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	return sendBy(t, http.DefaultClient, method, url, body, headers...)
}

// The server is where it is said to be, in all that says so, and nowhere when it is switched off.
func TestMCPIsWhereItIsSaidToBe(t *testing.T) {
	t.Parallel()
	paths := func(s *servertest.Server) (found []string) {
		doc, _ := document(t, s)
		for path := range doc.Paths.Map() {
			if !strings.HasPrefix(path, "/api/") && (strings.Contains(path, "mcp") || strings.Contains(path, "oauth")) {
				found = append(found, path)
			}
		}
		slices.Sort(found)
		return found
	}
	t.Run("by default", func(t *testing.T) {
		t.Parallel()
		s := servertest.Start(t, withMCP)
		for _, path := range []string{"/mcp", "/mcp/oauth/token", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"} {
			if !slices.Contains(paths(s), path) {
				t.Errorf("the document lacks %s; it has %q", path, paths(s))
			}
		}
		resp, _ := send(t, http.MethodGet, s.URL+"/mcp", "", serviceKey()...)
		diff(t, "GET without a session", http.StatusMethodNotAllowed, resp.StatusCode)
		diff(t, "Allow", "POST", resp.Header.Get("Allow"))
		resp, _ = send(t, http.MethodPost, s.URL+"/mcp/", "{}", serviceKey()...)
		diff(t, "with a slash at the end", http.StatusNotFound, resp.StatusCode)
	})
	t.Run("elsewhere", func(t *testing.T) {
		t.Parallel()
		s := servertest.Start(t, withMCP, func(c *server.Config) { c.MCP.BasePath = "/assist/mcp2" })
		a := service(s)
		a.address = s.URL + "/assist/mcp2"
		diff(t, "tools", toolsOf(true, append([]string{"read:branches", "write:branches", "write:schema"}, theNine...)...), a.tools(t))
		a.headers = nil
		if got := a.send(t, "tools/list", "", nil); got.status != 401 || !strings.Contains(got.header.Get("WWW-Authenticate"), metadataOf(s, "/assist/mcp2")) {
			t.Errorf("answered %d, %v", got.status, got.header)
		}
		about := metadata(t, metadataOf(s, "/assist/mcp2"))
		diff(t, "resource", any(s.URL+"/assist/mcp2"), about["resource"])
		resp, _ := past(t, http.MethodPost, s.URL+"/mcp", "{}", serviceKey()...)
		diff(t, "the old path", http.StatusNotFound, resp.StatusCode)
		for _, path := range []string{"/assist/mcp2", "/assist/mcp2/oauth/token", "/.well-known/oauth-protected-resource/assist/mcp2"} {
			if !slices.Contains(paths(s), path) {
				t.Errorf("the document lacks %s; it has %q", path, paths(s))
			}
		}
	})
	t.Run("switched off", func(t *testing.T) {
		t.Parallel()
		s := servertest.Start(t, func(c *server.Config) { c.MCP.Enabled = false })
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			resp, body := past(t, method, s.URL+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, append(serviceKey(), "Content-Type", "application/json")...)
			wantError(t, resp, body, 404, "not_found")
		}
		for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/mcp/oauth/authorize"} {
			resp, _ := past(t, http.MethodGet, s.URL+path, "")
			diff(t, path, http.StatusNotFound, resp.StatusCode)
		}
		if found := paths(s); len(found) != 0 {
			t.Errorf("the document has %q", found)
		}
	})
}

// What ends a grant, or its user, ends what goes on with it, at every process and within sessions.
func TestMCPAccessEnds(t *testing.T) {
	t.Parallel()
	s, second := replicas(t)
	adas := bearer(t, s, signUp(t, s, ada))
	editor := registerApp(t, s, "My editor")
	yes := true
	for _, end := range []struct {
		name   string
		atOnce bool // at the process that is told; others hear of it
		by     func()
	}{
		{"the user ends the grant", true, func() {
			for _, grant := range must[*client.ListApplicationsResponse](t, 200)(adas.ListApplicationsWithResponse(t.Context())).JSON200.Applications {
				must[*client.RevokeApplicationResponse](t, 204)(adas.RevokeApplicationWithResponse(t.Context(), grant.ID))
			}
		}},
		{"the user is disabled", false, func() {
			must[*client.UpdateUserResponse](t, 200)(s.Service(t).UpdateUserWithResponse(t.Context(), userID(t, s, ada), client.UpdateUserRequest{Disabled: &yes}))
		}},
	} {
		here := withAccess(s, connected(t, s, editor, ada, "read:schema").Access)
		there := here
		there.address = second + "/mcp"
		sessions := []*legacySession{beginSession(t, here), beginSession(t, there)}
		for _, open := range sessions {
			open.wantTools(t, toolsOf(false, "read:schema"))
		}
		here.tools(t)
		there.tools(t)
		end.by()
		if status := here.send(t, "tools/list", "", nil).status; end.atOnce && status != http.StatusUnauthorized {
			t.Errorf("%s: the process that ended it answered %d", end.name, status)
		}
		eventually(t, end.name+": the end", func() bool { return here.send(t, "tools/list", "", nil).status == http.StatusUnauthorized })
		eventually(t, end.name+": the end at the other process", func() bool {
			return there.send(t, "tools/list", "", nil).status == http.StatusUnauthorized
		})
		for _, open := range sessions {
			if status, body := open.list(t); status != http.StatusUnauthorized {
				t.Errorf("%s: its session was answered %d %s", end.name, status, body)
			}
		}
	}
}
