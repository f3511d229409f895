package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// metadata reads a well-known document, byte for byte what a client sees.
func metadata(t *testing.T, url string) map[string]any {
	t.Helper()
	resp, body := send(t, http.MethodGet, url, "")
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		t.Fatalf("%s answered %d %s %s", url, resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func list(values ...string) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

func TestOAuthDiscovery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path string
		change     func(*server.Config)
	}{
		{"as it is", "/mcp", func(*server.Config) {}},
		{"elsewhere", "/assist/v2", func(c *server.Config) { c.MCP.BasePath = "/assist/v2" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, c.change)
			resource := s.URL + c.path
			diff(t, "authorization server", map[string]any{
				"issuer":                                         s.URL,
				"authorization_endpoint":                         resource + "/oauth/authorize",
				"token_endpoint":                                 resource + "/oauth/token",
				"registration_endpoint":                          resource + "/oauth/register",
				"revocation_endpoint":                            resource + "/oauth/revoke",
				"scopes_supported":                               list(append(slices.Clone(theNine), "read:branches", "write:branches", "write:schema")...),
				"response_types_supported":                       list("code"),
				"response_modes_supported":                       list("query"),
				"grant_types_supported":                          list("authorization_code", "refresh_token"),
				"token_endpoint_auth_methods_supported":          list("none"),
				"revocation_endpoint_auth_methods_supported":     list("none"),
				"code_challenge_methods_supported":               list("S256"),
				"authorization_response_iss_parameter_supported": true,
				"client_id_metadata_document_supported":          true,
				"protected_resources":                            list(resource),
			}, metadata(t, s.URL+"/.well-known/oauth-authorization-server"))
			want := map[string]any{
				"resource": resource, "authorization_servers": list(s.URL), "scopes_supported": list(offered...),
				"bearer_methods_supported": list("header"), "resource_name": "Bough",
			}
			diff(t, "resource, at the root", want, metadata(t, s.URL+"/.well-known/oauth-protected-resource"))
			diff(t, "resource, at its path", want, metadata(t, s.URL+"/.well-known/oauth-protected-resource"+c.path))

			// Where clients guess and nothing is, they need a plain 404, not a page or a document of another issuer.
			for _, guess := range []string{
				"/.well-known/openid-configuration", "/.well-known/openid-configuration" + c.path, c.path + "/.well-known/openid-configuration",
				"/.well-known/oauth-authorization-server" + c.path, c.path + "/.well-known/oauth-authorization-server",
				c.path + "/.well-known/oauth-protected-resource", "/authorize", "/token", "/register",
			} {
				resp, body := send(t, http.MethodGet, s.URL+guess, "")
				wantError(t, resp, body, http.StatusNotFound, "not_found")
			}
			if c.path != "/mcp" {
				for _, gone := range []string{"/mcp/oauth/authorize", "/.well-known/oauth-protected-resource/mcp"} {
					resp, body := sendBy(t, http.DefaultClient, http.MethodGet, s.URL+gone, "")
					wantError(t, resp, body, http.StatusNotFound, "not_found")
				}
			}
		})
	}
}

// Clients that are pages of other sites read metadata, register and get tokens; the pages that ask users are not theirs
// to read.
func TestOAuthForClientsInBrowsers(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	a := registerApp(t, s, "a page")
	preflight := func(path, method string) http.Header {
		t.Helper()
		resp, _ := send(t, http.MethodOptions, s.URL+path, "", "Origin", "https://app.example", "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", "content-type,mcp-protocol-version")
		return resp.Header
	}
	for path, method := range map[string]string{
		"/.well-known/oauth-authorization-server": "GET", "/.well-known/oauth-protected-resource": "GET", "/.well-known/oauth-protected-resource/mcp": "GET",
		"/mcp/oauth/register": "POST", "/mcp/oauth/token": "POST", "/mcp/oauth/revoke": "POST",
	} {
		h := preflight(path, method)
		if h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Credentials") != "" ||
			!strings.Contains(strings.ToLower(h.Get("Access-Control-Allow-Headers")), "mcp-protocol-version") {
			t.Errorf("a page may not ask %s: %v", path, h)
		}
	}
	for _, path := range []string{"/mcp/oauth/authorize", "/mcp/oauth/authorize/01890000-0000-7000-8000-000000000000"} {
		if h := preflight(path, "POST"); h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("pages of other sites may read %s", path)
		}
	}
	resp, body := ask(t, s.URL, "token", a.redemption("mcp_ac_none"), "Origin", "https://app.example")
	wantOAuthError(t, resp, body, 400, "invalid_grant")
	diff(t, "origin of an error", "*", resp.Header.Get("Access-Control-Allow-Origin"))
	resp, _ = ask(t, s.URL, "token", app{id: "mcp_unknown", callback: callback, verifier: newVerifier()}.redemption("x"), "Origin", "https://app.example")
	if resp.StatusCode != 401 || !strings.Contains(strings.ToLower(resp.Header.Get("Access-Control-Expose-Headers")), "www-authenticate") {
		t.Errorf("a page cannot read WWW-Authenticate of a %d: %v", resp.StatusCode, resp.Header)
	}
	resp, _ = send(t, http.MethodGet, s.URL+"/.well-known/oauth-authorization-server", "", "Origin", "null")
	diff(t, "origin of metadata", "*", resp.Header.Get("Access-Control-Allow-Origin"))
}

func TestOAuthSettings(t *testing.T) {
	t.Parallel()
	t.Run("no registration, no documents", func(t *testing.T) {
		t.Parallel()
		s := servertest.Start(t, func(c *server.Config) { c.MCP.OAuth.Registration, c.MCP.OAuth.ClientDocuments = false, false })
		resp, body := register(t, s, map[string]any{"redirect_uris": []string{callback}})
		wantOAuthError(t, resp, body, http.StatusForbidden, "registration_not_supported")
		got := metadata(t, s.URL+"/.well-known/oauth-authorization-server")
		if _, there := got["registration_endpoint"]; there || got["client_id_metadata_document_supported"] != false {
			t.Errorf("metadata %v", got)
		}
		p := newVisitor(t, s).open(authorizeURL(s, app{id: "https://app.example/client.json", callback: callback}.query()))
		wantProblem(t, p, http.StatusBadRequest, "not known")
	})
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		s := servertest.Start(t, func(c *server.Config) { c.MCP.OAuth.Enabled = false })
		for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/mcp/oauth/authorize"} {
			resp, body := sendBy(t, http.DefaultClient, http.MethodGet, s.URL+path, "")
			wantError(t, resp, body, http.StatusNotFound, "not_found")
		}
		for _, path := range []string{"register", "token", "revoke"} {
			resp, body := ask(t, s.URL, path, app{id: "mcp_x"}.redemption("x"))
			wantError(t, resp, body, http.StatusNotFound, "not_found")
		}
		// A token of before is not good any more, and no reason to fall over.
		resp, body := mcpCall(t, s.URL, "mcp_at_"+newVerifier())
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("a token without OAuth was answered %d %s", resp.StatusCode, body)
		}
	})
	t.Run("redirect URIs of this installation", func(t *testing.T) {
		t.Parallel()
		s := servertest.Start(t, func(c *server.Config) {
			c.MCP.OAuth.AllowedRedirectURIs = []string{"https://*.corp.example/cb", "com.corp.editor://auth/*"}
		})
		registerApp(t, s, "web", "https://tools.corp.example/cb")
		registerApp(t, s, "editor", "com.corp.editor://auth/done")
		for _, uri := range []string{callback, "https://corp.example/cb", "https://a.b.corp.example/cb", "com.corp.editor://auth/a/b", "https://tools.corp.example/cb?x=1"} {
			resp, body := register(t, s, map[string]any{"redirect_uris": []string{uri}})
			wantOAuthError(t, resp, body, http.StatusBadRequest, "invalid_redirect_uri")
		}
	})
}
