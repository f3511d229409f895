package httpapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/servertest"
)

// A code becomes tokens, which stand for the user and what she allowed, and for nothing else.
func TestOAuthTokens(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	a := registerApp(t, s, "My editor")
	got := connected(t, s, a, ada, "read:tables", "read:schema")
	diff(t, "lifetime", 3600, got.ExpiresIn)
	diff(t, "scope", "read:tables read:schema", got.Scope)
	p := principalOf(t, s, got.Access)
	diff(t, "scopes", []string{"read:tables", "read:schema"}, p.Scopes)
	if p.ID != userID(t, s, ada) || p.ClientID != a.id || p.GrantID == uuid.Nil || p.Admin || p.Service || p.SessionID != uuid.Nil || p.KeyID != uuid.Nil || p.Role != auth.RoleAuthenticated {
		t.Errorf("principal %+v", p)
	}
	diff(t, "claims", map[string]any{
		"iss": s.URL, "aud": s.URL + "/mcp", "sub": p.ID.String(), "role": "authenticated", "email": ada, "email_verified": false,
		"scope": "read:tables read:schema", "client_id": a.id, "app_metadata": map[string]any{}, "user_metadata": map[string]any{},
	}, p.Claims)

	// None of them is good for the API, whatever header it comes in, and no refresh token is good for anything but a refresh.
	for _, token := range []string{got.Access, got.Refresh} {
		for _, header := range [][]string{{"Authorization", "Bearer " + token}, {"X-Client-Key", token}, {"X-Service-Key", token}, {"apikey", token}} {
			for _, path := range []string{"/api/v1/auth/user", "/api/v1/admin/branches", "/api/v1/auth/applications", "/api/v1/tables/t/records"} {
				resp, body := send(t, http.MethodGet, s.URL+path, "", header...)
				if resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s with a token in %s: %d %s", path, header[0], resp.StatusCode, body)
				}
			}
		}
	}
	if _, err := checked(t, s, got.Refresh); err == nil {
		t.Error("a refresh token is an access token")
	}
}

func TestOAuthTokenRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	a, other := registerApp(t, s, "My editor"), registerApp(t, s, "another")
	// One code and one pair of tokens, which all these requests leave alone.
	v := newVisitor(t, s)
	code := v.code(a, ada)
	have := issued(t, s.URL, a.redemption(v.code(a, ada, "read:tables")))
	unknown := app{id: "mcp_nobodyknowsthisone00", callback: callback, verifier: a.verifier}
	t.Run("requests", func(t *testing.T) {
		for name, c := range map[string]struct {
			form   url.Values
			status int
			code   string
		}{
			"nothing":                            {url.Values{}, 400, "invalid_request"},
			"no grant type":                      {a.redemption(code, "grant_type", ""), 400, "invalid_request"},
			"passwords":                          {url.Values{"grant_type": {"password"}, "client_id": {a.id}, "username": {ada}, "password": {pass}}, 400, "unsupported_grant_type"},
			"the client's own":                   {url.Values{"grant_type": {"client_credentials"}, "client_id": {a.id}}, 400, "unsupported_grant_type"},
			"no client":                          {a.redemption(code, "client_id", ""), 400, "invalid_request"},
			"a client nobody knows":              {unknown.redemption(code), 401, "invalid_client"},
			"a client nobody knows, no code":     {unknown.redemption("x"), 401, "invalid_client"},
			"a client that is no id":             {a.redemption(code, "client_id", "' or true --"), 401, "invalid_client"},
			"no code":                            {a.redemption(""), 400, "invalid_request"},
			"a code nobody gave":                 {a.redemption("mcp_ac_" + newVerifier()), 400, "invalid_grant"},
			"a code that is none":                {a.redemption("' or true --"), 400, "invalid_grant"},
			"an access token for a code":         {a.redemption(have.Access), 400, "invalid_grant"},
			"another client":                     {other.redemption(code, "code_verifier", a.verifier), 400, "invalid_grant"},
			"no verifier":                        {a.redemption(code, "code_verifier", ""), 400, "invalid_request"},
			"another verifier":                   {a.redemption(code, "code_verifier", newVerifier()), 400, "invalid_grant"},
			"the challenge as verifier":          {a.redemption(code, "code_verifier", challenge(a.verifier)), 400, "invalid_grant"},
			"a verifier too short":               {a.redemption(code, "code_verifier", a.verifier[:42]), 400, "invalid_grant"},
			"a verifier too long":                {a.redemption(code, "code_verifier", strings.Repeat(a.verifier, 4)), 400, "invalid_grant"},
			"no redirect":                        {a.redemption(code, "redirect_uri", ""), 400, "invalid_grant"},
			"another redirect":                   {a.redemption(code, "redirect_uri", "http://127.0.0.1:4711/other"), 400, "invalid_grant"},
			"another port":                       {a.redemption(code, "redirect_uri", "http://127.0.0.1:4712/callback?from=bough"), 400, "invalid_grant"},
			"another resource":                   {a.redemption(code, "resource", "https://other.example/mcp"), 400, "invalid_target"},
			"no refresh token":                   {a.renewal(""), 400, "invalid_request"},
			"a refresh token nobody gave":        {a.renewal("mcp_rt_" + newVerifier()), 400, "invalid_grant"},
			"an access token for one":            {a.renewal(have.Access), 400, "invalid_grant"},
			"a refresh token of another client":  {other.renewal(have.Refresh), 400, "invalid_grant"},
			"a refresh token, client unknown":    {unknown.renewal(have.Refresh), 401, "invalid_client"},
			"a refresh token, another resource":  {a.renewal(have.Refresh, "resource", s.URL+"/api/v1"), 400, "invalid_target"},
			"a refresh token, more scopes":       {a.renewal(have.Refresh, "scope", "read:tables read:schema"), 400, "invalid_scope"},
			"a refresh token, a scope that isnt": {a.renewal(have.Refresh, "scope", "everything"), 400, "invalid_scope"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				refused(t, s.URL, c.form, c.status, c.code)
			})
		}
		for _, name := range []string{"grant_type", "code", "redirect_uri", "client_id", "code_verifier"} {
			t.Run(name+" twice", func(t *testing.T) {
				t.Parallel()
				form := a.redemption(code)
				form.Add(name, form.Get(name))
				refused(t, s.URL, form, 400, "invalid_request")
			})
		}
		for name, c := range map[string]struct {
			method, query, body, media string
		}{
			"JSON":                   {"POST", "", `{"grant_type":"authorization_code","code":"` + code + `"}`, "application/json"},
			"no media type":          {"POST", "", a.redemption(code).Encode(), ""},
			"another charset's form": {"POST", "", a.redemption(code).Encode(), "multipart/form-data; boundary=x"},
			"in the URL":             {"POST", "?" + a.redemption(code).Encode(), "", formType},
			"a part in the URL":      {"POST", "?client_id=" + a.id, a.redemption(code).Encode(), formType},
			"no form":                {"POST", "", "grant_type=%zz", formType},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				resp, body := send(t, c.method, s.URL+"/mcp/oauth/token"+c.query, c.body, "Content-Type", c.media)
				wantOAuthError(t, resp, body, 400, "invalid_request")
			})
		}
		t.Run("GET", func(t *testing.T) {
			t.Parallel()
			resp, body := sendBy(t, http.DefaultClient, http.MethodGet, s.URL+"/mcp/oauth/token?"+a.redemption(code).Encode(), "")
			if resp.StatusCode != http.StatusMethodNotAllowed || !strings.Contains(resp.Header.Get("Allow"), "POST") {
				t.Errorf("%d, Allow %q: %s", resp.StatusCode, resp.Header.Get("Allow"), body)
			}
		})
		t.Run("a secret that nobody gave", func(t *testing.T) {
			t.Parallel()
			resp, body := ask(t, s.URL, "token", a.redemption(code), "Authorization", "Basic bWNwOng=")
			wantOAuthError(t, resp, body, http.StatusUnauthorized, "invalid_client")
			if !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic") {
				t.Errorf("WWW-Authenticate %q (RFC 6749, section 5.2)", resp.Header.Get("WWW-Authenticate"))
			}
		})
		t.Run("a large body", func(t *testing.T) {
			t.Parallel()
			resp, body := ask(t, s.URL, "token", a.redemption(code, "padding", strings.Repeat("x", 70<<10)))
			if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(body, `"error"`) {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	})
	// They changed nothing. Parameters that nobody knows are let through, empty ones are as if they were not there.
	issued(t, s.URL, changedTo(a.redemption(code, "audience", "x"), "scope", ""))
	issued(t, s.URL, a.renewal(have.Refresh, "resource", s.URL+"/mcp/"))
	diff(t, "scopes", []string{"read:tables"}, principalOf(t, s, have.Access).Scopes)
}

// Codes and grants end when their time or their user's comes.
func TestOAuthGrantsThatEnded(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	a := registerApp(t, s, "My editor")
	v := newVisitor(t, s)
	t.Run("a code after ten minutes", func(t *testing.T) {
		code := v.code(a, ada)
		s.Exec(t, s.Control, "update oauth_codes set expires_at = now() - interval '1 second' where used_at is null")
		refused(t, s.URL, a.redemption(code), 400, "invalid_grant")
	})
	t.Run("a code that is used again", func(t *testing.T) {
		code := v.code(a, ada)
		first := issued(t, s.URL, a.redemption(code))
		second := issued(t, s.URL, a.renewal(first.Refresh))
		// Another client that found it, and one without the verifier, end nothing.
		other := registerApp(t, s, "a thief")
		refused(t, s.URL, other.redemption(code, "code_verifier", a.verifier), 400, "invalid_grant")
		principalOf(t, s, second.Access)
		refused(t, s.URL, a.redemption(code), 400, "invalid_grant")
		for _, token := range []string{first.Access, second.Access} {
			wantDead(t, s, token)
		}
		refused(t, s.URL, a.renewal(second.Refresh), 400, "invalid_grant")
	})
	t.Run("tokens after their time", func(t *testing.T) {
		got := connected(t, s, a, ada)
		s.Exec(t, s.Control, "update oauth_tokens set expires_at = now() - interval '1 second' where kind = 'access'")
		wantDead(t, s, got.Access)
		next := issued(t, s.URL, a.renewal(got.Refresh))
		s.Exec(t, s.Control, "update oauth_tokens set expires_at = now() - interval '1 second' where kind = 'refresh'")
		refused(t, s.URL, a.renewal(next.Refresh), 400, "invalid_grant")
		principalOf(t, s, next.Access)
	})
	t.Run("a user who is disabled, and comes back", func(t *testing.T) {
		got := connected(t, s, a, ada)
		set := func(disabled bool) {
			t.Helper()
			must[*client.UpdateUserResponse](t, 200)(s.Service(t).UpdateUserWithResponse(t.Context(), userID(t, s, ada), client.UpdateUserRequest{Disabled: &disabled}))
		}
		code := v.code(a, ada)
		set(true)
		wantDead(t, s, got.Access)
		refused(t, s.URL, a.renewal(got.Refresh), 400, "invalid_grant")
		refused(t, s.URL, a.redemption(code), 400, "invalid_grant")
		set(false)
		issued(t, s.URL, a.renewal(got.Refresh))
	})
	t.Run("a user who is deleted", func(t *testing.T) {
		signUp(t, s, "gone@example.com")
		got := connected(t, s, a, "gone@example.com")
		must[*client.DeleteUserResponse](t, 204)(s.Service(t).DeleteUserWithResponse(t.Context(), userID(t, s, "gone@example.com")))
		wantDead(t, s, got.Access)
		refused(t, s.URL, a.renewal(got.Refresh), 400, "invalid_grant")
	})
}
