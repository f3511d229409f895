package httpapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/servertest"
)

// revoke posts a revocation that is to be taken.
func revoke(t *testing.T, base string, form ...string) {
	t.Helper()
	resp, body := ask(t, base, "revoke", changed(url.Values{}, form...))
	if resp.StatusCode != http.StatusOK || body != "" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("revoking was answered %d %q, Cache-Control %q", resp.StatusCode, body, resp.Header.Get("Cache-Control"))
	}
}

func TestOAuthRevocation(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	a, other := registerApp(t, s, "My editor"), registerApp(t, s, "another")
	t.Run("of an access token ends that token", func(t *testing.T) {
		t.Parallel()
		for _, extra := range [][]string{nil, {"client_id", a.id}, {"token_type_hint", "access_token"}, {"token_type_hint", "refresh_token", "client_id", a.id}, {"token_type_hint", "tea"}} {
			got := connected(t, s, a, ada)
			revoke(t, s.URL, append([]string{"token", got.Access}, extra...)...)
			wantDead(t, s, got.Access)
			revoke(t, s.URL, "token", got.Access)
			principalOf(t, s, issued(t, s.URL, a.renewal(got.Refresh)).Access)
		}
	})
	t.Run("of a refresh token ends the grant", func(t *testing.T) {
		t.Parallel()
		for _, extra := range [][]string{nil, {"client_id", a.id}, {"token_type_hint", "access_token"}} {
			got, beside := connected(t, s, a, ada), connected(t, s, a, ada)
			next := issued(t, s.URL, a.renewal(got.Refresh))
			revoke(t, s.URL, append([]string{"token", next.Refresh}, extra...)...)
			wantDead(t, s, got.Access)
			wantDead(t, s, next.Access)
			refused(t, s.URL, a.renewal(next.Refresh), 400, "invalid_grant")
			principalOf(t, s, beside.Access)
		}
	})
	t.Run("of one that was used ends the grant as well", func(t *testing.T) {
		t.Parallel()
		got := connected(t, s, a, ada)
		next := issued(t, s.URL, a.renewal(got.Refresh))
		revoke(t, s.URL, "token", got.Refresh)
		wantDead(t, s, next.Access)
	})
	t.Run("of what is not the client's does nothing", func(t *testing.T) {
		t.Parallel()
		got := connected(t, s, a, ada)
		for _, token := range []string{got.Access, got.Refresh, "mcp_at_" + newVerifier(), "mcp_rt_" + newVerifier(), "x", strings.Repeat("x", 9000), "bough_sk_x"} {
			revoke(t, s.URL, "token", token, "client_id", other.id)
		}
		principalOf(t, s, got.Access)
		issued(t, s.URL, a.renewal(got.Refresh))
	})
	t.Run("is refused", func(t *testing.T) {
		t.Parallel()
		twice := url.Values{"token": {"a", "b"}}
		for name, c := range map[string]struct {
			form   url.Values
			status int
			code   string
		}{
			"without a token":        {url.Values{"client_id": {a.id}}, 400, "invalid_request"},
			"of nothing":             {url.Values{"token": {""}}, 400, "invalid_request"},
			"of two":                 {twice, 400, "invalid_request"},
			"by a client nobody has": {url.Values{"token": {"x"}, "client_id": {"mcp_nobodyknowsthisone00"}}, 401, "invalid_client"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				resp, body := ask(t, s.URL, "revoke", c.form)
				wantOAuthError(t, resp, body, c.status, c.code)
			})
		}
		resp, body := send(t, http.MethodPost, s.URL+"/mcp/oauth/revoke", `{"token":"x"}`, "Content-Type", "application/json")
		wantOAuthError(t, resp, body, 400, "invalid_request")
	})
}

// What users and administrators see of applications and may do about them.
func TestOAuthApplications(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	adas, eves := bearer(t, s, signUp(t, s, ada)), bearer(t, s, signUp(t, s, "eve@example.com"))
	a, b := registerApp(t, s, "My editor"), registerApp(t, s, "My assistant")
	first := connected(t, s, a, ada, "read:tables")
	second := connected(t, s, b, ada, "read:schema")
	hers := connected(t, s, a, "eve@example.com")
	newVisitor(t, s).code(b, "eve@example.com") // allowed, but never fetched

	list := func(c *client.ClientWithResponses) []client.Application {
		t.Helper()
		return must[*client.ListApplicationsResponse](t, 200)(c.ListApplicationsWithResponse(t.Context())).JSON200.Applications
	}
	mine := list(adas)
	if len(mine) != 2 {
		t.Fatalf("%d applications: %+v", len(mine), mine)
	}
	for i, want := range []struct {
		app
		name, scope string
	}{{b, "My assistant", "read:schema"}, {a, "My editor", "read:tables"}} {
		got := mine[i]
		if got.ClientID != want.id || got.ClientName != want.name || strings.Join(got.Scopes, " ") != want.scope || got.LastUsedAt == nil || got.CreatedAt.IsZero() {
			t.Errorf("application %+v", got)
		}
	}
	diff(t, "applications of another", 1, len(list(eves)))

	// Only she who let an application in, and administrators, can shut it out; keys and applications see nothing.
	must[*client.RevokeApplicationResponse](t, 404)(eves.RevokeApplicationWithResponse(t.Context(), mine[0].ID))
	must[*client.RevokeApplicationResponse](t, 404)(adas.RevokeApplicationWithResponse(t.Context(), uuid.New()))
	must[*client.ListApplicationsResponse](t, 401)(s.Client(t).ListApplicationsWithResponse(t.Context()))
	principalOf(t, s, second.Access)
	must[*client.RevokeApplicationResponse](t, 204)(adas.RevokeApplicationWithResponse(t.Context(), mine[0].ID))
	must[*client.RevokeApplicationResponse](t, 404)(adas.RevokeApplicationWithResponse(t.Context(), mine[0].ID))
	wantDead(t, s, second.Access)
	refused(t, s.URL, b.renewal(second.Refresh), 400, "invalid_grant")
	principalOf(t, s, first.Access)
	diff(t, "applications left", 1, len(list(adas)))

	// Clients are for administrators.
	clients := func(c *client.ClientWithResponses) *client.OAuthClientList {
		t.Helper()
		return must[*client.ListOAuthClientsResponse](t, 200)(c.ListOAuthClientsWithResponse(t.Context(), nil)).JSON200
	}
	must[*client.ListOAuthClientsResponse](t, 403)(adas.ListOAuthClientsWithResponse(t.Context(), nil))
	must[*client.ListOAuthClientsResponse](t, 401)(s.Client(t).ListOAuthClientsWithResponse(t.Context(), nil))
	must[*client.RevokeOAuthClientResponse](t, 403)(adas.RevokeOAuthClientWithResponse(t.Context(), a.id))
	must[*client.ListAuditResponse](t, 403)(adas.ListAuditWithResponse(t.Context(), nil))
	all := clients(s.Service(t))
	diff(t, "clients", 2, all.Total)
	if got := all.Clients[1]; got.ClientID != a.id || got.Grants != 2 || got.Kind != client.OAuthClientKindRegistered || got.ClientName != "My editor" || got.LastUsedAt == nil ||
		len(got.RedirectURIs) != 1 || got.RedirectURIs[0] != callback {
		t.Errorf("client %+v", got)
	}
	one, skip := int32(1), int32(1)
	page := must[*client.ListOAuthClientsResponse](t, 200)(s.Service(t).ListOAuthClientsWithResponse(t.Context(), &client.ListOAuthClientsParams{Limit: &one, Offset: &skip})).JSON200
	if page.Total != 2 || len(page.Clients) != 1 || page.Clients[0].ClientID != a.id {
		t.Errorf("second page %+v", page)
	}
	must[*client.RevokeOAuthClientResponse](t, 204)(s.Service(t).RevokeOAuthClientWithResponse(t.Context(), a.id))
	must[*client.RevokeOAuthClientResponse](t, 404)(s.Service(t).RevokeOAuthClientWithResponse(t.Context(), a.id))
	wantDead(t, s, first.Access)
	wantDead(t, s, hers.Access)
	refused(t, s.URL, a.renewal(first.Refresh), 401, "invalid_client")
	wantProblem(t, newVisitor(t, s).open(authorizeURL(s, a.query())), http.StatusBadRequest, "not known")
	diff(t, "clients left", 1, clients(s.Service(t)).Total)

	var got []string
	for _, e := range actions(t, s) {
		who := ""
		if e.UserID != nil {
			who = map[uuid.UUID]string{userID(t, s, ada): " ada", userID(t, s, "eve@example.com"): " eve"}[*e.UserID]
		}
		got = append(got, e.Action+" "+e.Outcome+who)
		if e.ClientID == nil || e.ClientName == nil || e.At.IsZero() || e.IP == nil && e.Action == "grant" {
			t.Errorf("entry %+v", e)
		}
		if e.Action == "grant" && (e.Details["grant_id"] == nil || e.Details["scopes"] == nil) {
			t.Errorf("details of a grant: %v", e.Details)
		}
	}
	diff(t, "audit log", []string{
		"client_registered ok", "client_registered ok", "grant ok ada", "grant ok ada", "grant ok eve", "grant ok eve", "revoke ok ada", "client_revoked ok",
	}, got)
	for _, e := range actions(t, s) {
		for _, secret := range []string{first.Access, first.Refresh, "mcp_ac_"} {
			if strings.Contains(fmt.Sprint(e), secret) {
				t.Errorf("the audit log has a secret: %+v", e)
			}
		}
	}
}
