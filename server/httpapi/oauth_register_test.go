package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// The whole answer to a registration, of a client that says more than anybody asked, and that would like a secret.
func TestOAuthRegistration(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	uris := []string{"http://localhost:33418/callback", "cursor://anysphere.cursor-mcp/oauth/callback", "https://claude.ai/api/mcp/auth_callback"}
	resp, body := register(t, s, map[string]any{
		"client_name": "  My\teditor\u202e \u0000", "redirect_uris": uris, "scope": "read:tables offline_access tea read:schema",
		"client_uri": "https://editor.example/", "logo_uri": "https://editor.example/logo.png", "software_id": "7f2a", "software_version": "1.2",
		"token_endpoint_auth_method": "client_secret_basic", "grant_types": []string{"authorization_code", "refresh_token", "implicit"},
		"response_types": []string{"code"}, "application_type": "native", "contacts": []string{"a@editor.example"}, "jwks": map[string]any{"keys": []any{}},
		"tls_client_certificate_bound_access_tokens": false, "client_id": "mine", "client_secret": "mine",
	})
	diff(t, "status", http.StatusCreated, resp.StatusCode)
	diff(t, "cache", "no-store", resp.Header.Get("Cache-Control"))
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if id, _ := got["client_id"].(string); !strings.HasPrefix(id, "mcp_") || len(id) < 20 {
		t.Errorf("client_id %v", got["client_id"])
	}
	if at, _ := got["client_id_issued_at"].(float64); time.Since(time.Unix(int64(at), 0)).Abs() > time.Minute {
		t.Errorf("client_id_issued_at %v", got["client_id_issued_at"])
	}
	delete(got, "client_id")
	delete(got, "client_id_issued_at")
	diff(t, "registration", map[string]any{
		"client_name": "My editor", "redirect_uris": list(uris...), "scope": "read:tables read:schema", "client_uri": "https://editor.example/",
		"logo_uri": "https://editor.example/logo.png", "software_id": "7f2a", "software_version": "1.2", "token_endpoint_auth_method": "none",
		"grant_types": list("authorization_code", "refresh_token"), "response_types": list("code"),
	}, got)

	var one, two struct {
		ClientID string `json:"client_id"`
	}
	for _, into := range []any{&one, &two} {
		_, body := register(t, s, map[string]any{"redirect_uris": uris})
		if err := json.Unmarshal([]byte(body), into); err != nil {
			t.Fatal(err)
		}
	}
	if one.ClientID == two.ClientID {
		t.Error("two registrations have one id")
	}
}

func TestOAuthRegistrationIsRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	ok := []string{callback}
	for _, c := range []struct {
		name     string
		metadata any
		code     string
	}{
		{"no redirect URI", map[string]any{"client_name": "x"}, "invalid_redirect_uri"},
		{"an empty list of them", map[string]any{"redirect_uris": []string{}}, "invalid_redirect_uri"},
		{"too many of them", map[string]any{"redirect_uris": slices.Repeat(ok, 21)}, "invalid_redirect_uri"},
		{"one that is no text", map[string]any{"redirect_uris": []any{1}}, "invalid_client_metadata"},
		{"them as a text", map[string]any{"redirect_uris": callback}, "invalid_client_metadata"},
		{"an array", []any{map[string]any{"redirect_uris": ok}}, "invalid_client_metadata"},
		{"null", nil, "invalid_redirect_uri"},
		{"a name that is no text", map[string]any{"redirect_uris": ok, "client_name": 5}, "invalid_client_metadata"},
		{"a name too long", map[string]any{"redirect_uris": ok, "client_name": strings.Repeat("é", 201)}, "invalid_client_metadata"},
		{"another grant only", map[string]any{"redirect_uris": ok, "grant_types": []string{"client_credentials"}}, "invalid_client_metadata"},
		{"another response only", map[string]any{"redirect_uris": ok, "response_types": []string{"token"}}, "invalid_client_metadata"},
		{"scope without end", map[string]any{"redirect_uris": ok, "scope": strings.Repeat("read:tables ", 400)}, "invalid_client_metadata"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			resp, body := register(t, s, c.metadata)
			wantOAuthError(t, resp, body, http.StatusBadRequest, c.code)
		})
	}
	for _, c := range []struct{ name, body, media, code string }{
		{"no JSON", `{"redirect_uris": [`, "application/json", "invalid_client_metadata"},
		{"nothing", ``, "application/json", "invalid_client_metadata"},
		{"more behind it", `{"redirect_uris": ["` + callback + `"]} {}`, "application/json", "invalid_client_metadata"},
		{"a form", `redirect_uris=` + callback, formType, "invalid_client_metadata"},
		{"no media type", `{"redirect_uris": ["` + callback + `"]}`, "", "invalid_client_metadata"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			resp, body := send(t, http.MethodPost, s.URL+"/mcp/oauth/register", c.body, "Content-Type", c.media)
			wantOAuthError(t, resp, body, http.StatusBadRequest, c.code)
		})
	}
	t.Run("a large body", func(t *testing.T) {
		t.Parallel()
		resp, body := register(t, s, map[string]any{"redirect_uris": ok, "padding": strings.Repeat("x", 70<<10)})
		var e struct{ Error string }
		if err := json.Unmarshal([]byte(body), &e); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || e.Error == "" {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	})
}

// Where users may be sent: what looks like an address of the list and is another leads nowhere.
func TestOAuthRedirectURIsOfRegistrations(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	for _, uri := range []string{
		"javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "file:///etc/passwd", "vbscript:x", "about:blank", "blob:https://claude.ai/x",
		"https://evil.example/cb", "http://evil.example/cb", "https://claude.ai/api/mcp/auth_callback/../x", "https://claude.ai/api/mcp/auth_callback#f",
		"https://claude.ai@evil.example/api/mcp/auth_callback", "https://claude.ai.evil.example/api/mcp/auth_callback", "https://claude.ai:444/api/mcp/auth_callback",
		"http://claude.ai/api/mcp/auth_callback", "https://CLAUDE.ai/api/mcp/auth_callback", "https://claude.ai/api/mcp/auth_callback?x=1",
		"http://localhost.evil.example/cb", "http://localhost:1@evil.example/cb", "http://localhost:80\\@evil.example/cb", "http://127.0.0.1.evil.example/",
		"http://127.1:80/", "http://2130706433/", "http://0x7f000001/", "http://0.0.0.0/", "http://[::ffff:127.0.0.1]/", "https://localhost:99999/", "http://localhost:0/",
		"http://localhost/cb\r\nLocation: https://evil.example", "http://localhost/c b", "//localhost/cb", "localhost/cb", "/cb", "", "*", "http://localhost:*",
		"cursor://anysphere.cursor-mcp.evil/oauth/callback", "cursor://anysphere.cursor-mcp/oauth/a/b/callback", "myapp://x/cb",
		"http://localhost/cb\u0000", "http://localhost/\u202ecb", "http://löcalhost/cb", "http://user:pw@localhost/cb", "http://localhost/#", "http://localhost/cb?code=mine",
	} {
		t.Run(fmt.Sprintf("%q", uri), func(t *testing.T) {
			t.Parallel()
			resp, body := register(t, s, map[string]any{"redirect_uris": []string{callback, uri}})
			wantOAuthError(t, resp, body, http.StatusBadRequest, "invalid_redirect_uri")
		})
	}
	for _, uri := range []string{
		"http://localhost/cb", "http://localhost:8080/cb?x=1", "http://127.0.0.1/", "http://[::1]:33418/cb", "https://vscode.dev/redirect",
		"cursor://anysphere.cursor-mcp/oauth/user-bough/callback", "https://chatgpt.com/connector/oauth/abc123", "http://127.0.0.1:33418",
	} {
		t.Run(uri, func(t *testing.T) {
			t.Parallel()
			resp, body := register(t, s, map[string]any{"redirect_uris": []string{uri}})
			if resp.StatusCode != http.StatusCreated {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
}

// Strangers can register, but not without end; they hear when to come again.
func TestOAuthRegistrationIsLimited(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(c *server.Config) { c.Auth.RateLimit = true })
	for range 60 {
		resp, body := register(t, s, map[string]any{"redirect_uris": []string{callback}})
		if resp.StatusCode == http.StatusCreated {
			continue
		}
		var e struct{ Error string }
		if err := json.Unmarshal([]byte(body), &e); err != nil || resp.StatusCode != http.StatusTooManyRequests || e.Error == "" || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%d %s, Retry-After %q", resp.StatusCode, body, resp.Header.Get("Retry-After"))
		}
		return
	}
	t.Error("60 registrations in a row were served")
}
