package oauth_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/oauth"
	"github.com/boughdb/bough/server/users"
)

// A browser that was there before the sign-in is not signed in by it.
func TestSignInGivesTheBrowserAnotherSecret(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	planted := oauth.NewBrowser()
	request, err := w.a.Begin(t.Context(), query(client), planted, here)
	check(t, err)
	second, err := w.a.Begin(t.Context(), query(client), planted, here)
	check(t, err)
	if _, err := w.a.SignIn(t.Context(), request.ID, planted, user.Email, "wrong password", here); !errors.Is(err, users.ErrInvalidLogin) {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := w.a.SignIn(t.Context(), request.ID, oauth.NewBrowser(), user.Email, secret, here); !isPage(err) {
		t.Errorf("another browser: %v", err)
	}
	browser, err := w.a.SignIn(t.Context(), request.ID, planted, user.Email, secret, here)
	check(t, err)
	if browser == planted {
		t.Error("the secret is the old one")
	}
	for _, id := range []uuid.UUID{request.ID, second.ID} {
		found, err := w.b.Request(t.Context(), id, browser)
		check(t, err)
		if found.User == nil || found.User.ID != user.ID {
			t.Errorf("signed in is %v", found.User)
		}
		if _, err := w.b.Request(t.Context(), id, planted); !isPage(err) {
			t.Errorf("the planted secret still sees the request: %v", err)
		}
	}
	// Signing in once more replaces the secret once more.
	third, err := w.b.SignIn(t.Context(), request.ID, browser, user.Email, secret, here)
	check(t, err)
	if _, err := w.a.Approve(t.Context(), request.ID, browser, []string{"read:tables"}, here); !isPage(err) {
		t.Errorf("the secret of before approves: %v", err)
	}
	_, err = w.a.Approve(t.Context(), request.ID, third, []string{"read:tables"}, here)
	check(t, err)
	if n := w.count("select count(*) from oauth_browsers"); n != 1 {
		t.Errorf("%d browsers are signed in", n)
	}
	if n := w.count("select count(*) from refresh_tokens"); n != 0 {
		t.Errorf("%d refresh tokens of browsers' sessions are left", n)
	}
}

func TestSignInWithCode(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.deliver()
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	browser := oauth.NewBrowser()
	request, err := w.a.Begin(t.Context(), query(w.register()), browser, here)
	check(t, err)
	if err := w.a.SendCode(t.Context(), request.ID, oauth.NewBrowser(), user.Email, here); !isPage(err) {
		t.Errorf("another browser: %v", err)
	}
	check(t, w.a.SendCode(t.Context(), request.ID, browser, user.Email, here))
	var code string
	w.eventually("the mail was sent", func() bool { m, ok := w.mails.last(); code = m.Code; return ok })
	if _, err := w.b.SignInWithCode(t.Context(), request.ID, browser, user.Email, wrongCode(code), here); !errors.Is(err, users.ErrLinkExpired) {
		t.Errorf("a wrong code: %v", err)
	}
	browser, err = w.b.SignInWithCode(t.Context(), request.ID, browser, user.Email, code, here)
	check(t, err)
	found, err := w.a.Request(t.Context(), request.ID, browser)
	check(t, err)
	if found.User == nil || found.User.ID != user.ID {
		t.Errorf("signed in is %v", found.User)
	}
	// Nobody gets an account by it.
	check(t, w.a.SendCode(t.Context(), request.ID, browser, "eve@example.com", here))
	if n := w.count("select count(*) from mail_tokens where email = 'eve@example.com' and create_user"); n != 0 {
		t.Error("the code would make an account")
	}
}

func wrongCode(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}

func TestCSRF(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	browser, id := oauth.NewBrowser(), uuid.New()
	token := w.a.CSRF(browser, id)
	check(t, w.b.CheckCSRF(browser, id, token))
	for name, err := range map[string]error{
		"another browser":    w.a.CheckCSRF(oauth.NewBrowser(), id, token),
		"another request":    w.a.CheckCSRF(browser, uuid.New(), token),
		"another token":      w.a.CheckCSRF(browser, id, token+"A"),
		"none":               w.a.CheckCSRF(browser, id, ""),
		"no browser at all":  w.a.CheckCSRF("", id, w.a.CSRF("", id)),
		"a nonsense browser": w.a.CheckCSRF("x", id, w.a.CSRF("x", id)),
	} {
		if !isPage(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestApproveGrantsWhatWasAskedAndMayBe(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	w.user("root@example.com", db.UserRoleAdmin)
	client := w.register()
	everything := names(oauth.Scopes())
	for name, c := range map[string]struct {
		email, asked string
		granted      []string
		shown, want  []string // nil: access_denied
	}{
		"some":                     {"ada@example.com", "read:tables write:tables", []string{"read:tables"}, []string{"read:tables", "write:tables"}, []string{"read:tables"}},
		"more than was asked":      {"ada@example.com", "read:tables", everything, []string{"read:tables"}, []string{"read:tables"}},
		"nonsense":                 {"ada@example.com", "read:tables", []string{"x", "read:tables", "read:tables"}, []string{"read:tables"}, []string{"read:tables"}},
		"what only admins may":     {"ada@example.com", "write:schema read:schema", []string{"write:schema", "read:schema"}, []string{"read:schema"}, []string{"read:schema"}},
		"only what only admins do": {"ada@example.com", "write:schema", []string{"write:schema"}, []string{}, nil},
		"an administrator":         {"root@example.com", "write:schema read:schema", everything, []string{"read:schema", "write:schema"}, []string{"read:schema", "write:schema"}},
		"nothing":                  {"root@example.com", "write:schema", nil, []string{"write:schema"}, nil},
		"what was not asked":       {"root@example.com", "write:schema", []string{"read:tables"}, []string{"write:schema"}, nil},
	} {
		browser := oauth.NewBrowser()
		request, err := w.a.Begin(t.Context(), with(query(client), "scope", c.asked), browser, here)
		check(t, err)
		browser, err = w.a.SignIn(t.Context(), request.ID, browser, c.email, secret, here)
		check(t, err)
		request, err = w.a.Request(t.Context(), request.ID, browser)
		check(t, err)
		if diff := cmp.Diff(c.shown, names(request.Scopes)); diff != "" {
			t.Errorf("%s: shown (-want +got):\n%s", name, diff)
		}
		location, err := w.b.Approve(t.Context(), request.ID, browser, c.granted, here)
		check(t, err)
		got := answer(t, location)
		if got.Get("state") != stateValue {
			t.Errorf("%s: %s", name, location)
		}
		if c.want == nil {
			if got.Get("error") != "access_denied" || got.Has("code") {
				t.Errorf("%s: %s", name, location)
			}
			continue
		}
		tokens, err := w.a.Token(t.Context(), redemption(client, got.Get("code")), here)
		check(t, err)
		p, err := w.b.Verify(t.Context(), tokens.AccessToken)
		check(t, err)
		if diff := cmp.Diff(c.want, p.Scopes); diff != "" {
			t.Errorf("%s: granted (-want +got):\n%s", name, diff)
		}
	}
}

func TestRequestsAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	browser := oauth.NewBrowser()
	begin := func() uuid.UUID {
		request, err := w.a.Begin(t.Context(), query(client), browser, here)
		check(t, err)
		return request.ID
	}
	id := begin()
	if _, err := w.a.Approve(t.Context(), id, browser, []string{"read:tables"}, here); !isPage(err) || err.(*oauth.PageError).Status != 401 {
		t.Errorf("approved by nobody: %v", err)
	}
	fresh, err := w.a.SignIn(t.Context(), id, browser, "ada@example.com", secret, here)
	check(t, err)
	browser = fresh
	if _, err := w.a.Approve(t.Context(), id, oauth.NewBrowser(), []string{"read:tables"}, here); !isPage(err) {
		t.Errorf("approved in another browser: %v", err)
	}
	var approved atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			service := []*oauth.Service{w.a, w.b}[i%2]
			if _, err := service.Approve(context.Background(), id, browser, []string{"read:tables"}, here); err == nil {
				approved.Add(1)
			} else if !isPage(err) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if approved.Load() != 1 {
		t.Errorf("approved %d times", approved.Load())
	}
	if _, err := w.a.Deny(t.Context(), id, browser); !isPage(err) {
		t.Errorf("denied after that: %v", err)
	}
	if _, err := w.a.Request(t.Context(), id, browser); !isPage(err) {
		t.Errorf("shown after that: %v", err)
	}
	id = begin()
	if _, err := w.a.Deny(t.Context(), id, oauth.NewBrowser()); !isPage(err) {
		t.Errorf("denied in another browser: %v", err)
	}
	_, err = w.a.Deny(t.Context(), id, browser)
	check(t, err)
	if _, err := w.a.Approve(t.Context(), id, browser, []string{"read:tables"}, here); !isPage(err) {
		t.Errorf("approved after that: %v", err)
	}
	id = begin()
	w.exec("update oauth_requests set expires_at = now() where id = $1", id)
	if _, err := w.a.Approve(t.Context(), id, browser, []string{"read:tables"}, here); !isPage(err) {
		t.Errorf("approved after its time: %v", err)
	}
	if n := w.count("select count(*) from oauth_grants"); n != 1 {
		t.Errorf("%d grants", n)
	}
}

// The browser is signed in as long as the session is; grants go on without it.
func TestBrowserEndsWithTheSession(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	user := w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	tokens := w.connect(user.Email, client)
	for name, end := range map[string]func(browser string){
		"signing out in the browser": func(browser string) { check(t, w.b.SignOut(t.Context(), browser)) },
		"signing out everywhere": func(string) {
			check(t, w.users.SignOut(t.Context(), &auth.Principal{ID: user.ID}, users.Global))
		},
		"another password": func(string) {
			pass := secret
			_, err := w.users.Update(t.Context(), admin, user.ID, users.Change{Password: &pass})
			check(t, err)
		},
		"twelve hours":           func(string) { w.exec("update oauth_browsers set expires_at = now()") },
		"the session's own time": func(string) { w.exec("update sessions set expires_at = now()") },
	} {
		browser := oauth.NewBrowser()
		request, err := w.a.Begin(t.Context(), query(client), browser, here)
		check(t, err)
		browser, err = w.a.SignIn(t.Context(), request.ID, browser, user.Email, secret, here)
		check(t, err)
		end(browser)
		request, err = w.a.Request(t.Context(), request.ID, browser)
		check(t, err)
		if request.User != nil {
			t.Errorf("signed in after %s", name)
		}
		if _, err := w.a.Approve(t.Context(), request.ID, browser, []string{"read:tables"}, here); !isPage(err) {
			t.Errorf("approved after %s: %v", name, err)
		}
	}
	if !w.alive(tokens) {
		t.Error("the grant ended with a session")
	}
	if n := w.count("select count(*) from sessions where ended_at is null and expires_at > now() + interval '12 hours'"); n != 0 {
		t.Errorf("%d sessions of browsers outlive them", n)
	}
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	w := setup(t, nil)
	w.user("ada@example.com", db.UserRoleAuthenticated)
	client := w.register()
	browser := oauth.NewBrowser()
	request, err := w.a.Begin(t.Context(), query(client), browser, here)
	check(t, err)
	browser, err = w.a.SignIn(t.Context(), request.ID, browser, "ada@example.com", secret, here)
	check(t, err)
	request, err = w.a.Begin(t.Context(), query(client), browser, here)
	check(t, err)
	if request.User == nil {
		t.Error("the browser is signed in, and the user must sign in again")
	}
	_, err = w.a.Begin(t.Context(), with(query(client), "prompt", "none"), browser, here)
	if refused := new(oauth.RedirectError); !errors.As(err, &refused) || refused.Code != "consent_required" {
		t.Errorf("nobody is to be asked: %v", err)
	}
	request, err = w.a.Begin(t.Context(), with(query(client), "prompt", "login consent"), browser, here)
	check(t, err)
	if request.User != nil {
		t.Error("the user need not sign in again")
	}
	if _, err := w.a.Approve(t.Context(), request.ID, browser, []string{"read:tables"}, here); !isPage(err) {
		t.Errorf("approved without signing in again: %v", err)
	}
	browser, err = w.a.SignIn(t.Context(), request.ID, browser, "ada@example.com", secret, here)
	check(t, err)
	_, err = w.a.Approve(t.Context(), request.ID, browser, []string{"read:tables"}, here)
	check(t, err)
}
