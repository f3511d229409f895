package httpapi_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// hold is what somebody has of an account.
type hold struct {
	password string
	session  *client.Session
	key      string
	app      app
	tokens   tokens // of a connected application
	code     string // of one that the user has just allowed
	links    []string
}

// takeHold signs up with an address and gets everything that there is to get.
func takeHold(t *testing.T, s *servertest.Server, email string) hold {
	t.Helper()
	h := hold{password: pass, session: signUp(t, s, email)}
	h.key = must[*client.CreateKeyResponse](t, 201)(bearer(t, s, h.session).CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{
		Type: client.KeyTypeClient, Name: "mine", Scopes: scopes("read:tables"),
	})).JSON201.Key
	h.app = registerApp(t, s, "Editor")
	h.tokens = connected(t, s, h.app, email, "read:tables")
	h.code = newVisitor(t, s).code(h.app, email, "read:tables")
	h.links = append(h.links, askLink(t, s, client.MagicLinkRequest{Email: email}))
	before, mine, current := len(s.Mails(t)), strings.Replace(email, "@", "+other@", 1), pass
	must[*client.UpdateCurrentUserResponse](t, 200)(bearer(t, s, h.session).UpdateCurrentUserWithResponse(t.Context(), client.UpdateCurrentUserRequest{
		Email: &mine, CurrentPassword: &current,
	}))
	_, link := s.NextMail(t, before)
	h.links = append(h.links, link)
	return h
}

// works tells which of the things open something.
func (h hold) works(t *testing.T, s *servertest.Server, email string) map[string]bool {
	t.Helper()
	key, _ := call(t, s, "GET", "/api/v1/tables/notes", "", "X-Client-Key", h.key)
	mcp, _ := mcpCall(t, s.URL, h.tokens.Access)
	renewed, _ := ask(t, s.URL, "/token", h.app.renewal(h.tokens.Refresh))
	redeemed, _ := ask(t, s.URL, "/token", h.app.redemption(h.code))
	found := map[string]bool{
		"session": status(t, bearer(t, s, h.session)) == 200, "key": key.StatusCode == 200,
		"application": mcp.StatusCode == 200, "its refresh token": renewed.StatusCode == 200, "a code": redeemed.StatusCode == 200,
		"password": signInCode(t, s, email, h.password) == "none", "refresh token": refresh(t, s, h.session.RefreshToken).JSON200 != nil,
	}
	for i, link := range h.links {
		if verify(t, s, link).JSON200 != nil {
			found["link "+string(rune('a'+i))] = true
		}
	}
	return found
}

// Whoever signs up with somebody else's address has nothing of the account any more when the owner comes, however they
// come and wherever from.
func TestFirstProofOfAnAddressEndsWhatCameBefore(t *testing.T) {
	t.Parallel()
	const chosen = "what the owner chose"
	for name, tc := range map[string]struct {
		come     func(t *testing.T, s *servertest.Server, email string) *client.Session
		password bool // the owner has chosen one
	}{
		"link": {come: func(t *testing.T, s *servertest.Server, email string) *client.Session {
			return verify(t, s, askLink(t, s, client.MagicLinkRequest{Email: email})).JSON200
		}},
		"code": {come: func(t *testing.T, s *servertest.Server, email string) *client.Session {
			before := len(s.Mails(t))
			must[*client.RequestMagicLinkResponse](t, 202)(s.Client(t).RequestMagicLinkWithResponse(t.Context(), client.MagicLinkRequest{Email: email}))
			text, _ := s.NextMail(t, before)
			return verifyCode(t, s, email, mailCode(t, text)).JSON200
		}},
		"link in a browser": {come: func(t *testing.T, s *servertest.Server, email string) *client.Session {
			token := askLink(t, s, client.MagicLinkRequest{Email: email})
			resp, body := browse(t, s, "POST", verifyPath, "token="+token)
			if resp.StatusCode >= 400 {
				t.Fatalf("%d %s", resp.StatusCode, body)
			}
			return nil
		}},
		"password reset": {password: true, come: func(t *testing.T, s *servertest.Server, email string) *client.Session {
			before := len(s.Mails(t))
			must[*client.RequestPasswordResetResponse](t, 202)(s.Client(t).RequestPasswordResetWithResponse(t.Context(), client.PasswordResetRequest{Email: email}))
			_, token := s.NextMail(t, before)
			return must[*client.ConfirmPasswordResetResponse](t, 200)(s.Client(t).ConfirmPasswordResetWithResponse(t.Context(), client.ConfirmPasswordResetRequest{
				Token: &token, Password: chosen,
			})).JSON200
		}},
		"password reset by the page": {password: true, come: func(t *testing.T, s *servertest.Server, email string) *client.Session {
			before := len(s.Mails(t))
			must[*client.RequestPasswordResetResponse](t, 202)(s.Client(t).RequestPasswordResetWithResponse(t.Context(), client.PasswordResetRequest{Email: email}))
			_, token := s.NextMail(t, before)
			resp, body := browse(t, s, "POST", "/api/v1/auth/password/confirm", "token="+token+"&password="+strings.ReplaceAll(chosen, " ", "+"))
			if resp.StatusCode != 200 {
				t.Fatalf("%d %s", resp.StatusCode, body)
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, unlimited)
			s.Exec(t, s.Main, "create table notes (id int primary key); grant select on notes to authenticated")
			const email = "owner@example.com"
			stranger := takeHold(t, s, email)
			other := *s
			other.Run(t, unlimited, atURL(s))
			for _, at := range []*servertest.Server{s, &other} { // both processes remember the key and the token
				call(t, at, "GET", "/api/v1/tables/notes", "", "X-Client-Key", stranger.key)
				mcpCall(t, at.URL, stranger.tokens.Access)
			}
			session := tc.come(t, s, email)
			works := stranger.works(t, s, email)
			diff(t, "what works of the stranger's, in this process", nothingOf(works), works)
			eventually(t, "the refusal in the other process", func() bool {
				key, _ := call(t, &other, "GET", "/api/v1/tables/notes", "", "X-Client-Key", stranger.key)
				mcp, _ := mcpCall(t, other.URL, stranger.tokens.Access)
				return key.StatusCode == 401 && mcp.StatusCode == 401
			})
			if session != nil {
				diff(t, "the owner's session", 200, status(t, bearer(t, s, session)))
			}
			if tc.password {
				signIn(t, s, email, chosen)
			}
			diff(t, "address asked for", (*string)(nil), servertest.Value[*string](t, s.Control, "select new_email from users where email = $1", email))
			// What the owner gets from now on stays when they come again, from whatever network.
			owner := session
			if owner == nil {
				owner = verify(t, s, askLink(t, s, client.MagicLinkRequest{Email: email})).JSON200
			}
			key := must[*client.CreateKeyResponse](t, 201)(bearer(t, s, owner).CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{
				Type: client.KeyTypeClient, Name: "mine", Scopes: scopes("read:tables"),
			})).JSON201.Key
			verify(t, s, askLink(t, s, client.MagicLinkRequest{Email: email}))
			resp, _ := call(t, s, "GET", "/api/v1/tables/notes", "", "X-Client-Key", key)
			diff(t, "the owner's key", 200, resp.StatusCode)
			diff(t, "the owner's session after another link", 200, status(t, bearer(t, s, owner)))
			entries := 0
			for _, e := range actions(t, s) {
				if e.Action == "revoke" && e.Details["reason"] == "address_proved" {
					entries++
				}
			}
			diff(t, "grants on record as revoked", 2, entries)
		})
	}
}

func maxKeys(n int) func(*server.Config) {
	return func(cfg *server.Config) { cfg.Auth.MaxClientKeys = n }
}

// atURL makes another process one of the same installation.
func atURL(s *servertest.Server) func(*server.Config) {
	url := s.URL
	return func(cfg *server.Config) { cfg.PublicBaseURL = url }
}

func nothingOf(found map[string]bool) map[string]bool {
	none := map[string]bool{}
	for name := range found {
		none[name] = false
	}
	return none
}

// A first address that is confirmed in place of one that never was counts as well.
func TestFirstProofByAChangeOfAddress(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	s.Exec(t, s.Main, "create table notes (id int primary key); grant select on notes to authenticated")
	stranger := takeHold(t, s, ada)
	moved := verify(t, s, stranger.links[1]).JSON200
	if moved == nil || moved.User.Email != "ada+other@example.com" || !moved.User.EmailVerified {
		t.Fatalf("session %+v", moved)
	}
	stranger.links = nil // the other one leads to whoever has the first mailbox, and to another account
	works := stranger.works(t, s, moved.User.Email)
	diff(t, "what works of before", nothingOf(works), works)
	// A later change ends the sessions, not the password.
	fresh := "staple battery horse"
	must[*client.UpdateCurrentUserResponse](t, 200)(bearer(t, s, moved).UpdateCurrentUserWithResponse(t.Context(), client.UpdateCurrentUserRequest{Password: &fresh}))
	before, next := len(s.Mails(t)), "countess@example.com"
	must[*client.UpdateCurrentUserResponse](t, 200)(bearer(t, s, moved).UpdateCurrentUserWithResponse(t.Context(), client.UpdateCurrentUserRequest{Email: &next, CurrentPassword: &fresh}))
	// Mails of before may come late.
	for confirmed := false; !confirmed; before++ {
		if _, token := s.NextMail(t, before); token != "" {
			session := verify(t, s, token).JSON200
			confirmed = session != nil && session.User.Email == next
		}
	}
	diff(t, "the session of before", 401, status(t, bearer(t, s, moved)))
	signIn(t, s, next, fresh)
}

// A key that is created while the owner comes is either revoked or refused.
func TestKeyCreatedDuringFirstProof(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	s.Exec(t, s.Main, "create table notes (id int primary key); grant select on notes to authenticated")
	for round := range 5 {
		email := strings.Replace(ada, "@", "+"+string(rune('a'+round))+"@", 1)
		stranger := bearer(t, s, signUp(t, s, email))
		link := askLink(t, s, client.MagicLinkRequest{Email: email})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 5 {
					r, err := stranger.CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "quick", Scopes: scopes("read:tables")})
					if err != nil || r.StatusCode() != http.StatusCreated && r.StatusCode() != http.StatusUnauthorized {
						t.Errorf("%v %v", r, err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			if verify(t, s, link).JSON200 == nil {
				t.Error("the owner does not come in")
			}
		})
		wg.Wait()
		diff(t, "keys that work", int64(0), servertest.Value[int64](t, s.Control, "select count(*) from api_keys where type = 'client' and revoked_at is null"))
	}
}

// An access token whose session has ended in the database creates no key, whether this process has heard of it or not.
func TestEndedSessionCreatesNoKey(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	session := signUp(t, s, ada)
	s.Exec(t, s.Control, "update sessions set ended_at = now()") // no notification comes of it
	r := must[*client.CreateKeyResponse](t, 401)(bearer(t, s, session).CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{
		Type: client.KeyTypeClient, Name: "late", Scopes: scopes("read:tables"),
	}))
	diff(t, "code", "unauthorized", r.JSON401.Code)
	diff(t, "keys", int64(0), servertest.Value[int64](t, s.Control, "select count(*) from api_keys where type = 'client'"))
}

func TestClientKeysOfAUserAreLimited(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited, maxKeys(3))
	other := *s
	other.Run(t, unlimited, maxKeys(3), atURL(s))
	session := signUp(t, s, ada)
	body := client.CreateKeyRequest{Type: client.KeyTypeClient, Name: "one of many", Scopes: scopes("read:tables")}
	var mu sync.Mutex
	var made []uuid.UUID
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			at := s
			if i%2 == 1 {
				at = &other
			}
			r, err := bearer(t, at, session).CreateKeyWithResponse(t.Context(), body)
			switch {
			case err != nil:
				t.Error(err)
			case r.JSON201 != nil:
				mu.Lock()
				defer mu.Unlock()
				made = append(made, r.JSON201.ID)
			case r.JSON403 == nil || r.JSON403.Code != "max_keys_reached" || r.JSON403.Hint == nil || !strings.Contains(r.JSON403.Error, "3"):
				t.Errorf("%d %s", r.StatusCode(), r.Body)
			}
		})
	}
	wg.Wait()
	if len(made) != 3 {
		t.Fatalf("%d keys were created, of 3", len(made))
	}
	// Others do not count, and neither do keys that have ended, of which the newest stay listed.
	must[*client.CreateKeyResponse](t, 201)(bearer(t, s, signUp(t, s, "b@example.com")).CreateKeyWithResponse(t.Context(), body))
	last := made[0]
	for range 6 {
		must[*client.RevokeKeyResponse](t, 204)(bearer(t, s, session).RevokeKeyWithResponse(t.Context(), last))
		last = must[*client.CreateKeyResponse](t, 201)(bearer(t, s, session).CreateKeyWithResponse(t.Context(), body)).JSON201.ID
	}
	s.Exec(t, s.Control, "update api_keys set expires_at = now() where id = $1", last)
	must[*client.CreateKeyResponse](t, 201)(bearer(t, s, session).CreateKeyWithResponse(t.Context(), body))
	diff(t, "keys that are kept", 6, must[*client.ListKeysResponse](t, 200)(bearer(t, s, session).ListKeysWithResponse(t.Context(), nil)).JSON200.Total)
	// Operators are not bound.
	body.UserID = &session.User.ID
	must[*client.CreateKeyResponse](t, 201)(s.Service(t).CreateKeyWithResponse(t.Context(), body))
	must[*client.CreateKeyResponse](t, 403)(bearer(t, s, session).CreateKeyWithResponse(t.Context(), body))
}

// Policies on auth.email() are for those who have shown that the address is theirs, by whatever credential they come.
func TestPoliciesOnTheAddress(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	s.Exec(t, s.Main, `create table notes (id int primary key, owner text not null); grant select on notes to authenticated;
		alter table notes enable row level security; create policy mine on notes using (owner = (select auth.email()));
		insert into notes values (1, '`+ada+`')`)
	count := func(headers ...string) string {
		t.Helper()
		resp, body := call(t, s, "GET", "/api/v1/tables/notes?select=id", "", headers...)
		if resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		return body
	}
	stranger := signUp(t, s, ada)
	diff(t, "rows of whoever signed up", "[]", count("Authorization", "Bearer "+stranger.AccessToken))
	owner := verify(t, s, askLink(t, s, client.MagicLinkRequest{Email: ada})).JSON200
	diff(t, "rows of the owner", `[{"id":1}]`, count("Authorization", "Bearer "+owner.AccessToken))
}
