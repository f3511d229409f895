package oauth_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/oauth"
)

func TestRefresh(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	first := w.connect("ada@example.com", client)
	// Its time begins anew with each refresh.
	w.exec("update oauth_tokens set expires_at = now() + interval '1 minute' where kind = 'refresh'")
	w.exec("update oauth_grants set expires_at = now() + interval '1 minute'")
	second := w.renew(client, first.RefreshToken)
	if second.RefreshToken == first.RefreshToken || second.AccessToken == first.AccessToken || second.Scope != first.Scope || second.ExpiresIn != 3600 {
		t.Errorf("%+v", second)
	}
	if n := w.count("select count(*) from oauth_tokens t join oauth_grants g on g.id = t.grant_id where t.rotated_at is null and t.kind = 'refresh' and t.expires_at > now() + interval '167 hours' and g.expires_at > now() + interval '167 hours'"); n != 1 {
		t.Error("the refresh token's time did not begin anew")
	}
	if !w.alive(first) || !w.alive(second) {
		t.Error("an access token ended by the refresh")
	}
	w.renew(client, second.RefreshToken)
}

func TestRefreshRefuses(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client, other := w.register(), w.register()
	tokens := w.connect("ada@example.com", client)
	good := refreshing(client, tokens.RefreshToken)
	for name, c := range map[string]struct {
		change func(*oauth.TokenRequest)
		code   string
		status int
	}{
		"none":                       {func(r *oauth.TokenRequest) { r.RefreshToken = "" }, "invalid_request", 400},
		"an unknown one":             {func(r *oauth.TokenRequest) { r.RefreshToken = "mcp_rt_" + oauth.NewBrowser() }, "invalid_grant", 400},
		"an access token":            {func(r *oauth.TokenRequest) { r.RefreshToken = tokens.AccessToken }, "invalid_grant", 400},
		"another client":             {func(r *oauth.TokenRequest) { r.ClientID = other.ID }, "invalid_grant", 400},
		"an unknown client":          {func(r *oauth.TokenRequest) { r.ClientID = "mcp_unknownunknownunknown" }, "invalid_client", 401},
		"more scope than granted":    {func(r *oauth.TokenRequest) { r.Scope = "read:tables read:schema" }, "invalid_scope", 400},
		"an unknown scope":           {func(r *oauth.TokenRequest) { r.Scope = "read:minds" }, "invalid_scope", 400},
		"another resource":           {func(r *oauth.TokenRequest) { r.Resource = []string{issuer + "/api"} }, "invalid_target", 400},
		"a resource that is no URL":  {func(r *oauth.TokenRequest) { r.Resource = []string{"\x00"} }, "invalid_target", 400},
		"the right one and another":  {func(r *oauth.TokenRequest) { r.Resource = []string{issuer, "urn:x"} }, "invalid_target", 400},
		"a refresh token as a code":  {func(r *oauth.TokenRequest) { *r = redemption(client, tokens.RefreshToken) }, "invalid_grant", 400},
		"a token with a line break":  {func(r *oauth.TokenRequest) { r.RefreshToken += "\n" }, "invalid_grant", 400},
		"a token in other spelling":  {func(r *oauth.TokenRequest) { r.RefreshToken += "=" }, "invalid_grant", 400},
		"a token with its tail gone": {func(r *oauth.TokenRequest) { r.RefreshToken = r.RefreshToken[:49] }, "invalid_grant", 400},
	} {
		r := good
		c.change(&r)
		_, err := w.a.Token(t.Context(), r, here)
		t.Run(name, func(t *testing.T) { wantCode(t, err, c.code, c.status) })
	}
	w.renew(client, tokens.RefreshToken) // none of that spent it
}

// A client may ask for a narrow access token; the refresh token stays as wide as the grant.
func TestRefreshNarrowsTheAccessTokenOnly(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	r := refreshing(client, w.connect("ada@example.com", client).RefreshToken)
	r.Scope = "read:tables offline_access"
	narrow, err := w.a.Token(t.Context(), r, here)
	check(t, err)
	p, err := w.b.Verify(t.Context(), narrow.AccessToken)
	check(t, err)
	if diff := cmp.Diff([]string{"read:tables"}, p.Scopes); diff != "" || narrow.Scope != "read:tables" {
		t.Errorf("scope %q (-want +got):\n%s", narrow.Scope, diff)
	}
	if wide := w.renew(client, narrow.RefreshToken); wide.Scope != "read:tables write:tables" {
		t.Errorf("scope %q", wide.Scope)
	}
}

func TestRefreshTokensHaveTheirTime(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	tokens := w.connect("ada@example.com", client)
	w.exec("update oauth_tokens set expires_at = now() - interval '1 second' where kind = 'refresh'")
	_, err := w.a.Token(t.Context(), refreshing(client, tokens.RefreshToken), here)
	wantCode(t, err, "invalid_grant", 400)
}

// The rules of reuse, each from a family of three tokens of which the first two were used.
func TestRefreshTokenReuse(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Second
	for name, c := range map[string]struct {
		window time.Duration
		token  int           // which of the family comes again
		age    time.Duration // how long ago it was used
		served bool
		ends   bool
		audit  string
	}{
		"at once":                              {0, 1, 0, false, false, "refresh_reuse refused"},
		"within the minute":                    {0, 1, 55 * time.Second, false, false, "refresh_reuse refused"},
		"later":                                {0, 1, 65 * time.Second, false, true, "refresh_reuse revoked"},
		"the one before it, at once":           {0, 0, 0, false, true, "refresh_reuse revoked"},
		"with a window, at once":               {window, 1, 0, true, false, "refresh_reuse served_again"},
		"with a window, after it":              {window, 1, 20 * time.Second, false, false, "refresh_reuse refused"},
		"with a window, later":                 {window, 1, 65 * time.Second, false, true, "refresh_reuse revoked"},
		"with a window, the one before it":     {window, 0, 0, false, true, "refresh_reuse revoked"},
		"with a window of more than a minute":  {time.Hour, 1, 30 * time.Minute, true, false, "refresh_reuse served_again"},
		"after a window of more than a minute": {time.Hour, 1, 2 * time.Hour, false, true, "refresh_reuse revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, func(cfg *oauth.Config) { cfg.RefreshReuseWindow = c.window })
			w.user("ada@example.com", db.UserRoleAuthenticated)
			client := w.register()
			family := []*oauth.TokenResponse{w.connect("ada@example.com", client)}
			family = append(family, w.renew(client, family[0].RefreshToken))
			family = append(family, w.renew(client, family[1].RefreshToken))
			w.exec("update oauth_tokens set rotated_at = rotated_at - make_interval(secs => $1) where rotated_at is not null", c.age.Seconds())
			if !w.alive(family[2]) {
				t.Fatal("the family is dead")
			}
			got, err := w.a.Token(t.Context(), refreshing(client, family[c.token].RefreshToken), here)
			if c.served {
				check(t, err)
				if !w.alive(got) {
					t.Error("what was served is not accepted")
				}
			} else {
				wantCode(t, err, "invalid_grant", 400)
			}
			actions := w.actions()
			if diff := cmp.Diff(c.audit, actions[len(actions)-1]); diff != "" {
				t.Errorf("audit (-want +got):\n%s", diff)
			}
			if c.ends {
				w.eventually("the access tokens have ended", func() bool {
					_, errA := w.a.Verify(t.Context(), family[2].AccessToken)
					_, errB := w.b.Verify(t.Context(), family[2].AccessToken)
					return errA != nil && errB != nil
				})
				_, err := w.b.Token(t.Context(), refreshing(client, family[2].RefreshToken), here)
				wantCode(t, err, "invalid_grant", 400)
				return
			}
			if !w.alive(family[2]) {
				t.Error("the access token has ended")
			}
			w.renew(client, family[2].RefreshToken)
			if c.served {
				w.renew(client, got.RefreshToken)
				// Now that a successor was used, the old one is a thief's.
				_, err := w.a.Token(t.Context(), refreshing(client, family[c.token].RefreshToken), here)
				wantCode(t, err, "invalid_grant", 400)
				w.eventually("the grant has ended", func() bool { _, err := w.b.Verify(t.Context(), got.AccessToken); return err != nil })
			}
		})
	}
}

// With a window, all windows of an application that share a token get tokens that work.
func TestParallelRefreshesWithAWindow(t *testing.T) {
	t.Parallel()
	w := setup(t, func(cfg *oauth.Config) { cfg.RefreshReuseWindow = 30 * time.Second })
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	answers, errs := w.parallel(20, refreshing(client, w.connect("ada@example.com", client).RefreshToken))
	if len(errs) > 0 || len(answers) != 20 {
		t.Fatal(errs)
	}
	for _, tokens := range answers {
		if !w.alive(tokens) {
			t.Error("one of the access tokens is not accepted")
		}
	}
	w.renew(client, answers[7].RefreshToken)
	w.renew(client, answers[3].RefreshToken)
}
