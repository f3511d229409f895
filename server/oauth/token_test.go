package oauth_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/oauth"
	"github.com/boughdb/bough/server/users"
)

func TestTokenForACode(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	tokens := w.connect(user.Email, client)
	if tokens.TokenType != "Bearer" || tokens.ExpiresIn != 3600 || tokens.Scope != "read:tables write:tables" ||
		!strings.HasPrefix(tokens.AccessToken, oauth.AccessTokenPrefix) || len(tokens.AccessToken) != len("mcp_at_")+43 || !strings.HasPrefix(tokens.RefreshToken, "mcp_rt_") {
		t.Errorf("%+v", tokens)
	}
	if !w.alive(tokens) {
		t.Error("the access token is not accepted")
	}
	for _, secret := range []string{tokens.AccessToken, tokens.RefreshToken} {
		if n := w.count("select count(*) from oauth_tokens t where t::text like '%' || $1 || '%'", strings.TrimLeft(secret, "mcp_art")); n != 0 {
			t.Error("a token is stored readable")
		}
	}
	if diff := cmp.Diff([]string{"client_registered", "grant"}, w.actions()); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

// What is refused neither spends the code nor ends anything: it can still be redeemed.
func TestTokenForACodeRefuses(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client, other := w.register(), w.register("https://app.example.com/callback")
	code := w.approve("ada@example.com", query(client))
	good := redemption(client, code)
	for name, c := range map[string]struct {
		change func(*oauth.TokenRequest)
		code   string
		status int
	}{
		"no grant type":           {func(r *oauth.TokenRequest) { r.GrantType = "" }, "invalid_request", 400},
		"another grant type":      {func(r *oauth.TokenRequest) { r.GrantType = "client_credentials" }, "unsupported_grant_type", 400},
		"no client":               {func(r *oauth.TokenRequest) { r.ClientID = "" }, "invalid_request", 400},
		"an unknown client":       {func(r *oauth.TokenRequest) { r.ClientID = "mcp_unknownunknownunknown" }, "invalid_client", 401},
		"a nonsensical client":    {func(r *oauth.TokenRequest) { r.ClientID = "\x00" }, "invalid_client", 401},
		"an unread document":      {func(r *oauth.TokenRequest) { r.ClientID = "https://app.example.com/client.json" }, "invalid_client", 401},
		"another client":          {func(r *oauth.TokenRequest) { r.ClientID = other.ID }, "invalid_grant", 400},
		"no code":                 {func(r *oauth.TokenRequest) { r.Code = "" }, "invalid_request", 400},
		"an unknown code":         {func(r *oauth.TokenRequest) { r.Code = "mcp_ac_" + oauth.NewBrowser() }, "invalid_grant", 400},
		"a nonsensical code":      {func(r *oauth.TokenRequest) { r.Code = "\x00" }, "invalid_grant", 400},
		"neither is known":        {func(r *oauth.TokenRequest) { r.Code, r.ClientID = "x", "mcp_x" }, "invalid_client", 401},
		"no verifier":             {func(r *oauth.TokenRequest) { r.CodeVerifier = "" }, "invalid_request", 400},
		"another verifier":        {func(r *oauth.TokenRequest) { r.CodeVerifier = strings.Repeat("x", 43) }, "invalid_grant", 400},
		"a short verifier":        {func(r *oauth.TokenRequest) { r.CodeVerifier = verifier[:42] }, "invalid_grant", 400},
		"a long verifier":         {func(r *oauth.TokenRequest) { r.CodeVerifier = strings.Repeat("x", 129) }, "invalid_grant", 400},
		"the challenge":           {func(r *oauth.TokenRequest) { r.CodeVerifier = challenge(verifier) }, "invalid_grant", 400},
		"no redirect URI":         {func(r *oauth.TokenRequest) { r.RedirectURI = "" }, "invalid_grant", 400},
		"another redirect URI":    {func(r *oauth.TokenRequest) { r.RedirectURI += "/" }, "invalid_grant", 400},
		"another port":            {func(r *oauth.TokenRequest) { r.RedirectURI = "http://127.0.0.1:7778/callback" }, "invalid_grant", 400},
		"another resource":        {func(r *oauth.TokenRequest) { r.Resource = []string{"https://evil.example.com/mcp"} }, "invalid_target", 400},
		"a refresh token as code": {func(r *oauth.TokenRequest) { r.Code = "mcp_rt_" + oauth.NewBrowser() }, "invalid_grant", 400},
	} {
		r := good
		c.change(&r)
		_, err := w.a.Token(t.Context(), r, here)
		t.Run(name, func(t *testing.T) { wantCode(t, err, c.code, c.status) })
	}
	good.Resource = []string{issuer}
	_, err := w.b.Token(t.Context(), good, here)
	check(t, err)
}

func TestCodesHaveTheirTime(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	code := w.approve("ada@example.com", query(client))
	if n := w.count("select extract(epoch from expires_at - now())::int from oauth_codes"); n < 590 || n > 600 {
		t.Errorf("a code is good for %d seconds", n)
	}
	w.exec("update oauth_codes set expires_at = now() - interval '1 second'")
	_, err := w.a.Token(t.Context(), redemption(client, code), here)
	wantCode(t, err, "invalid_grant", 400)
}

// A request that named no redirect URI, since there is only one, needs none for the token either.
func TestRedirectURIThatWasNotNamed(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	for _, uri := range []string{"", callback} {
		r := redemption(client, w.approve("ada@example.com", with(query(client), "redirect_uri")))
		r.RedirectURI = uri
		_, err := w.a.Token(t.Context(), r, here)
		check(t, err)
	}
	r := redemption(client, w.approve("ada@example.com", with(query(client), "redirect_uri")))
	r.RedirectURI = "http://127.0.0.1:1/callback"
	_, err := w.a.Token(t.Context(), r, here)
	wantCode(t, err, "invalid_grant", 400)
}

func TestCodeReplayEndsTheGrant(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client, thief := w.register(), w.register()
	code := w.approve("ada@example.com", query(client))
	tokens, err := w.a.Token(t.Context(), redemption(client, code), here)
	check(t, err)
	renewed := w.renew(client, tokens.RefreshToken)
	// Another client cannot end it.
	stolen := redemption(client, code)
	stolen.ClientID = thief.ID
	_, err = w.b.Token(t.Context(), stolen, here)
	wantCode(t, err, "invalid_grant", 400)
	if !w.alive(tokens) || !w.alive(renewed) {
		t.Fatal("another client ended the grant")
	}
	_, err = w.b.Token(t.Context(), redemption(client, code), here)
	wantCode(t, err, "invalid_grant", 400)
	w.eventually("all tokens have ended in both processes", func() bool {
		for _, s := range []*oauth.Service{w.a, w.b} {
			for _, token := range []*oauth.TokenResponse{tokens, renewed} {
				if _, err := s.Verify(t.Context(), token.AccessToken); err == nil {
					return false
				}
			}
		}
		return true
	})
	_, err = w.a.Token(t.Context(), refreshing(client, renewed.RefreshToken), here)
	wantCode(t, err, "invalid_grant", 400)
	if diff := cmp.Diff([]string{"client_registered", "client_registered", "grant", "code_replay"}, w.actions()); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

// A code that comes again is a replay whatever else is wrong with it: too late, or without the verifier.
func TestCodeReplayIsSeenFirst(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	for name, change := range map[string]func(*oauth.TokenRequest){
		"too late":         func(*oauth.TokenRequest) { w.exec("update oauth_codes set expires_at = now() - interval '1 day'") },
		"another verifier": func(r *oauth.TokenRequest) { r.CodeVerifier = strings.Repeat("x", 43) },
		"another redirect": func(r *oauth.TokenRequest) { r.RedirectURI = "http://127.0.0.1/" },
	} {
		r := redemption(client, w.approve("ada@example.com", query(client)))
		tokens, err := w.a.Token(t.Context(), r, here)
		check(t, err)
		change(&r)
		_, err = w.a.Token(t.Context(), r, here)
		wantCode(t, err, "invalid_grant", 400)
		if _, err := w.a.Verify(t.Context(), tokens.AccessToken); err == nil {
			t.Errorf("%s: the grant goes on", name)
		}
	}
}

// parallel asks both processes for the same thing at once, and returns the answers and the errors.
func (w *world) parallel(n int, r oauth.TokenRequest) (answers []*oauth.TokenResponse, errs []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			got, err := []*oauth.Service{w.a, w.b}[i%2].Token(context.Background(), r, here)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			answers = append(answers, got)
		})
	}
	close(begin)
	all.Wait()
	return answers, errs
}

// Of parallel redemptions one is served. The others are replays by the same client, so that what it got is dead, too.
func TestParallelRedemptions(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	answers, errs := w.parallel(50, redemption(client, w.approve("ada@example.com", query(client))))
	if len(answers) != 1 || len(errs) != 49 {
		t.Fatalf("%d were served, %d refused", len(answers), len(errs))
	}
	for _, err := range errs {
		wantCode(t, err, "invalid_grant", 400)
	}
	w.eventually("what the winner got has ended", func() bool {
		_, errA := w.a.Verify(t.Context(), answers[0].AccessToken)
		_, errB := w.b.Verify(t.Context(), answers[0].AccessToken)
		return errA != nil && errB != nil
	})
	if n := w.count("select count(*) from oauth_tokens"); n != 2 {
		t.Errorf("%d tokens were issued", n)
	}
	if n := w.count("select count(*) from audit_log where action = 'code_replay'"); n != 1 {
		t.Errorf("%d ends are on record", n)
	}
}

func TestParallelRefreshes(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	first := w.connect("ada@example.com", client)
	answers, errs := w.parallel(50, refreshing(client, first.RefreshToken))
	if len(answers) != 1 || len(errs) != 49 {
		t.Fatalf("%d were served, %d refused", len(answers), len(errs))
	}
	for _, err := range errs {
		wantCode(t, err, "invalid_grant", 400)
	}
	if !w.alive(answers[0]) || !w.alive(first) {
		t.Error("what the winner has was ended")
	}
	w.renew(client, answers[0].RefreshToken)
	if n := w.count("select count(*) from oauth_tokens where kind = 'refresh' and rotated_at is null"); n != 1 {
		t.Errorf("%d refresh tokens can be used", n)
	}
}

func TestDisabledUsersGetNoTokens(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	tokens := w.connect(user.Email, client)
	code := w.approve(user.Email, query(client))
	set := func(disabled bool) {
		_, err := w.users.Update(t.Context(), admin, user.ID, users.Change{Disabled: &disabled})
		check(t, err)
	}
	set(true)
	_, err := w.a.Token(t.Context(), redemption(client, code), here)
	wantCode(t, err, "invalid_grant", 400)
	_, err = w.a.Token(t.Context(), refreshing(client, tokens.RefreshToken), here)
	wantCode(t, err, "invalid_grant", 400)
	w.eventually("her access token is refused", func() bool { _, err := w.a.Verify(t.Context(), tokens.AccessToken); return err != nil })
	// Neither was spent: she goes on where she was.
	set(false)
	w.renew(client, tokens.RefreshToken)
	_, err = w.a.Token(t.Context(), redemption(client, code), here)
	check(t, err)
	w.eventually("her access token is accepted", func() bool { _, err := w.a.Verify(t.Context(), tokens.AccessToken); return err == nil })
}

func TestFormerAdministrators(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("root@example.com", db.UserRoleAdmin)
	client := w.register()
	q := with(query(client), "scope", "read:tables write:schema")
	tokens, err := w.a.Token(t.Context(), redemption(client, w.approve(user.Email, q)), here)
	check(t, err)
	code := w.approve(user.Email, q)
	only := w.approve(user.Email, with(q, "scope", "write:schema"))
	p, err := w.b.Verify(t.Context(), tokens.AccessToken)
	check(t, err)
	if diff := cmp.Diff([]string{"read:tables", "write:schema"}, p.Scopes); diff != "" || !p.Admin || p.Claims["is_admin"] != true {
		t.Errorf("admin %v (-want +got):\n%s", p.Admin, diff)
	}
	role := db.UserRoleAuthenticated
	_, err = w.users.Update(t.Context(), admin, user.ID, users.Change{Role: &role})
	check(t, err)
	w.eventually("the access token has no force left for administrators", func() bool {
		p, err := w.b.Verify(t.Context(), tokens.AccessToken)
		check(t, err)
		return !p.Admin && p.Claims["is_admin"] == nil && cmp.Equal(p.Scopes, []string{"read:tables"}) && p.Require("write:schema") != nil
	})
	for _, r := range []oauth.TokenRequest{redemption(client, code), refreshing(client, tokens.RefreshToken)} {
		got, err := w.a.Token(t.Context(), r, here)
		check(t, err)
		if got.Scope != "read:tables" {
			t.Errorf("%s gave %q", r.GrantType, got.Scope)
		}
	}
	_, err = w.a.Token(t.Context(), redemption(client, only), here)
	wantCode(t, err, "invalid_grant", 400)
}

func TestTokenIsLimited(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *oauth.Config) { c.RateLimit = true })
	client := w.register()
	for i := range 900 {
		_, err := w.a.Token(t.Context(), refreshing(client, "x"), here)
		if errors.Is(err, oauth.ErrTooManyRequests) {
			if e := err.(*oauth.Error); i < 600 || e.RetryAfter <= 0 || e.Status != 429 {
				t.Errorf("after %d: %+v", i, e)
			}
			_, err = w.a.Token(t.Context(), refreshing(client, "x"), oauth.Where{IP: "192.0.2.8"})
			wantCode(t, err, "invalid_grant", 400)
			return
		}
		wantCode(t, err, "invalid_grant", 400)
	}
	t.Error("900 attempts passed")
}
