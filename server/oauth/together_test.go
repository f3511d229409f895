package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/oauth"
)

// Whatever happens at once, everybody gets an answer that is meant for callers: no deadlock, no broken constraint.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	expected := func(what string, err error) {
		var answer *oauth.Error
		var page *oauth.PageError
		var caller *fault.Error
		if err != nil && ctx.Err() == nil && !errors.As(err, &answer) && !errors.As(err, &page) && !errors.As(err, &caller) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			service := []*oauth.Service{w.a, w.b}[i%2]
			for n := 0; ctx.Err() == nil; n++ {
				email := fmt.Sprintf("user-%d-%d@example.com", i, n)
				user, err := w.users.Create(ctx, admin, changeOf(email, secret, db.UserRoleAuthenticated))
				if ctx.Err() != nil {
					return
				}
				check(t, err)
				client, err := service.Register(ctx, oauth.Registration{RedirectURIs: []string{callback}}, here)
				if ctx.Err() != nil {
					return
				}
				check(t, err)
				w.quarrel(ctx, service, client, user.Email, expected, []func() error{
					func() error { return w.users.Delete(ctx, admin, user.ID) },
					func() error { return w.a.RevokeClient(ctx, admin, client.ID) },
				}[n%2])
			}
		})
	}
	for _, service := range []*oauth.Service{w.a, w.b} {
		all.Go(func() {
			for ctx.Err() == nil {
				expected("sweeping", service.Sweep(ctx))
			}
		})
	}
	all.Wait()
}

// quarrel connects a client, and has its tokens used, renewed and revoked, and more approved, while end ends something.
func (w *world) quarrel(ctx context.Context, s *oauth.Service, client oauth.Client, email string, expected func(string, error), end func() error) {
	browser := oauth.NewBrowser()
	first, err := s.Begin(ctx, query(client), browser, here)
	expected("beginning", err)
	if err != nil {
		return
	}
	second, err := s.Begin(ctx, query(client), browser, here)
	expected("beginning again", err)
	if err != nil {
		return
	}
	browser, err = s.SignIn(ctx, first.ID, browser, email, secret, here)
	expected("signing in", err)
	location, err := s.Approve(ctx, first.ID, browser, []string{"read:tables"}, here)
	expected("approving", err)
	if err != nil {
		return
	}
	code := answer(w.t, location).Get("code")
	tokens, err := s.Token(ctx, redemption(client, code), here)
	expected("redeeming", err)
	if err != nil {
		return
	}
	var all sync.WaitGroup
	for what, do := range map[string]func() error{
		"renewing":       func() error { _, err := w.a.Token(ctx, refreshing(client, tokens.RefreshToken), here); return err },
		"renewing again": func() error { _, err := w.b.Token(ctx, refreshing(client, tokens.RefreshToken), here); return err },
		"replaying":      func() error { _, err := w.b.Token(ctx, redemption(client, code), here); return err },
		"verifying":      func() error { _, err := w.a.Verify(ctx, tokens.AccessToken); return err },
		"revoking":       func() error { return w.b.Revoke(ctx, tokens.AccessToken, "", client.ID, here) },
		"revoking all":   func() error { return w.a.Revoke(ctx, tokens.RefreshToken, "", client.ID, here) },
		"approving another": func() error {
			_, err := w.b.Approve(ctx, second.ID, browser, []string{"read:tables"}, here)
			return err
		},
		"signing in again": func() error { _, err := w.a.SignIn(ctx, second.ID, browser, email, secret, here); return err },
		"ending":           end,
	} {
		all.Go(func() { expected(what, do()) })
	}
	all.Wait()
}

// What the operator allows counts at once, also for clients that registered when more was allowed.
func TestTheListOfRedirectURIsCountsForOldClients(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	client := w.register("https://app.example.com/callback")
	narrow, err := oauth.New(w.pool, w.users, oauth.Config{Issuer: issuer, BasePath: "/mcp", TokenLifetime: time.Hour, RefreshLifetime: time.Hour, RedirectURIs: []string{"http://localhost:*"}}, nil)
	check(t, err)
	if _, err := narrow.Begin(t.Context(), query(client), oauth.NewBrowser(), here); !isPage(err) {
		t.Errorf("a redirect URI that is not allowed any more: %v", err)
	}
	_, err = w.a.Begin(t.Context(), query(client), oauth.NewBrowser(), here)
	check(t, err)
}
