package httpapi_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jwt"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/servertest"
)

const (
	ada  = "ada@example.com"
	pass = "correct horse battery"
)

func unlimited(cfg *server.Config) { cfg.Auth.RateLimit = false }

func signUp(t *testing.T, s *servertest.Server, email string) *client.Session {
	t.Helper()
	return sessionIn(t, must[*client.SignUpResponse](t, 201)(s.Client(t).SignUpWithResponse(t.Context(), client.SignUpRequest{Email: email, Password: pass})))
}

// sessionIn is the session in the answer to a sign-up.
func sessionIn(t *testing.T, r *client.SignUpResponse) *client.Session {
	t.Helper()
	session, err := r.JSON201.AsSession()
	if err != nil || session.AccessToken == "" {
		t.Fatalf("no session in %s (%v)", r.Body, err)
	}
	return &session
}

func signIn(t *testing.T, s *servertest.Server, email, password string) *client.Session {
	t.Helper()
	return must[*client.SignInResponse](t, 200)(s.Client(t).SignInWithResponse(t.Context(), client.SignInRequest{Email: email, Password: password})).JSON200
}

func bearer(t *testing.T, s *servertest.Server, session *client.Session) *client.ClientWithResponses {
	t.Helper()
	return s.Client(t, client.WithBearerAuth(session.AccessToken))
}

func refresh(t *testing.T, s *servertest.Server, token string) *client.RefreshSessionResponse {
	t.Helper()
	r, err := s.Client(t).RefreshSessionWithResponse(t.Context(), client.RefreshRequest{RefreshToken: token})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// status is the status that a client gets for its account.
func status(t *testing.T, c *client.ClientWithResponses) int {
	t.Helper()
	r, err := c.GetCurrentUserWithResponse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode()
}

func TestSignUpSignInSignOut(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	made := must[*client.SignUpResponse](t, 201)(s.Client(t).SignUpWithResponse(t.Context(), client.SignUpRequest{
		Email: " Ada@Example.COM ", Password: pass, UserMetadata: &client.Metadata{"name": "Ada"},
	}))
	diff(t, "cache", "no-store", made.HTTPResponse.Header.Get("Cache-Control"))
	session := sessionIn(t, made)
	diff(t, "email", ada, session.User.Email)
	diff(t, "role", client.UserRoleAuthenticated, session.User.Role)
	diff(t, "metadata", client.Metadata{"name": "Ada"}, session.User.UserMetadata)
	diff(t, "lifetime", 900, session.ExpiresIn)
	if left := time.Until(time.Unix(session.ExpiresAt, 0)); left < 14*time.Minute || left > 16*time.Minute {
		t.Errorf("expires_at is in %v", left)
	}
	me := must[*client.GetCurrentUserResponse](t, 200)(bearer(t, s, session).GetCurrentUserWithResponse(t.Context())).JSON200
	diff(t, "user", session.User, *me)

	// What the token says, read as any verifier would who knows the published keys.
	keys := must[*client.GetJWKSResponse](t, 200)(s.Client(t).GetJWKSWithResponse(t.Context()))
	diff(t, "cache of the keys", "public, max-age=300", keys.HTTPResponse.Header.Get("Cache-Control"))
	if strings.Contains(string(keys.Body), `"d"`) {
		t.Fatal("the private key is published")
	}
	set, err := jwk.Parse(keys.Body)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Parse([]byte(session.AccessToken), jwt.WithKeySet(set), jwt.WithIssuer(s.URL), jwt.WithAudience(auth.Audience))
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	for _, name := range []string{"role", "email", "email_verified", "user_metadata", "app_metadata", "aal"} {
		claims[name], _ = token.Get(name)
	}
	diff(t, "claims", map[string]any{
		"role": "authenticated", "email": ada, "email_verified": false, "user_metadata": map[string]any{"name": "Ada"}, "app_metadata": map[string]any{}, "aal": "aal1",
	}, claims)
	has := func(name string) bool { _, ok := token.Get(name); return ok }
	if token.Subject() != me.ID.String() || !has("session_id") || has("is_admin") || !has("iat") || !has("exp") {
		t.Errorf("token %v", token)
	}

	again := signIn(t, s, "ADA@example.com", pass)
	third := signIn(t, s, ada, pass)
	list := must[*client.ListSessionsResponse](t, 200)(bearer(t, s, again).ListSessionsWithResponse(t.Context())).JSON200.Sessions
	if len(list) != 3 || list[0].Current || !list[1].Current || list[1].IP != "127.0.0.1" || list[1].Method != client.SessionEntryMethodPassword {
		t.Errorf("sessions %+v", list)
	}
	must[*client.RevokeSessionResponse](t, 204)(bearer(t, s, again).RevokeSessionWithResponse(t.Context(), list[0].ID))
	must[*client.RevokeSessionResponse](t, 404)(bearer(t, s, again).RevokeSessionWithResponse(t.Context(), list[0].ID))
	diff(t, "after the end of the session", 401, status(t, bearer(t, s, third)))
	diff(t, "its refresh", "session_expired", refresh(t, s, third.RefreshToken).JSON401.Code)

	must[*client.SignOutResponse](t, 204)(bearer(t, s, again).SignOutWithResponse(t.Context(), nil, client.SignOutRequest{}))
	diff(t, "after sign-out", 401, status(t, bearer(t, s, again)))
	diff(t, "the other session", 200, status(t, bearer(t, s, session)))
	fourth := signIn(t, s, ada, pass)
	others, global := client.SignOutScopeOthers, client.SignOutScopeGlobal
	must[*client.SignOutResponse](t, 204)(bearer(t, s, fourth).SignOutWithResponse(t.Context(), &client.SignOutParams{Scope: &others}, client.SignOutRequest{}))
	diff(t, "others after scope others", 401, status(t, bearer(t, s, session)))
	diff(t, "this one after scope others", 200, status(t, bearer(t, s, fourth)))
	must[*client.SignOutResponse](t, 204)(bearer(t, s, fourth).SignOutWithResponse(t.Context(), nil, client.SignOutRequest{Scope: &global}))
	diff(t, "after scope global", 401, status(t, bearer(t, s, fourth)))
	diff(t, "refresh after scope global", 401, refresh(t, s, fourth.RefreshToken).StatusCode())

	for _, secret := range []string{pass, session.RefreshToken, session.AccessToken} {
		for _, table := range []string{"users", "sessions", "refresh_tokens", "river_job"} {
			n := servertest.Value[int64](t, s.Control, "select count(*) from "+table+" x where x::text like '%' || $1 || '%'", secret)
			diff(t, "secrets in clear in "+table, int64(0), n)
		}
	}
}

func TestSignUpRefusals(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	for name, tc := range map[string]struct {
		body, code string
		status     int
	}{
		"no address":            {`{"email":"nobody","password":"` + pass + `"}`, "validation_error", 400},
		"address with a name":   {`{"email":"Ada <ada@example.com>","password":"` + pass + `"}`, "validation_error", 400},
		"address with a break":  {`{"email":"a@b.c\r\nBcc: d@e.f","password":"` + pass + `"}`, "validation_error", 400},
		"address with nul":      {`{"email":"a\u0000@b.c","password":"` + pass + `"}`, "validation_error", 400},
		"no password":           {`{"email":"b@example.com"}`, "validation_error", 400},
		"short password":        {`{"email":"b@example.com","password":"kj4!x"}`, "weak_password", 400},
		"long password":         {`{"email":"b@example.com","password":"` + strings.Repeat("kéj4!x ", 145) + `"}`, "weak_password", 400},
		"common password":       {`{"email":"b@example.com","password":"Passw0rd123"}`, "weak_password", 400},
		"role":                  {`{"email":"b@example.com","password":"` + pass + `","role":"admin"}`, "validation_error", 400},
		"app metadata":          {`{"email":"b@example.com","password":"` + pass + `","app_metadata":{"x":1}}`, "validation_error", 400},
		"metadata no object":    {`{"email":"b@example.com","password":"` + pass + `","user_metadata":[1]}`, "validation_error", 400},
		"metadata too large":    {`{"email":"b@example.com","password":"` + pass + `","user_metadata":{"x":"` + strings.Repeat("y", 5000) + `"}}`, "validation_error", 400},
		"metadata with nul":     {`{"email":"b@example.com","password":"` + pass + `","user_metadata":{"x":"\u0000"}}`, "validation_error", 400},
		"redirect not listed":   {`{"email":"b@example.com","password":"` + pass + `","redirect_to":"https://evil.example/"}`, "redirect_not_allowed", 400},
		"address that is taken": {`{"email":"ADA@example.com","password":"` + pass + `"}`, "email_exists", 409},
	} {
		resp, body := call(t, s, "POST", "/api/v1/auth/signup", tc.body)
		if e := wantError(t, resp, body, tc.status, tc.code); strings.Contains(e.Error, pass) {
			t.Errorf("%s: the answer repeats the password", name)
		}
	}
	resp, body := call(t, s, "POST", "/api/v1/auth/signup", "email=a", "Content-Type", "application/x-www-form-urlencoded")
	wantError(t, resp, body, 415, "unsupported_media_type")
	closed := servertest.Start(t, func(cfg *server.Config) { cfg.Auth.SignUp = false })
	resp, body = call(t, closed, "POST", "/api/v1/auth/signup", `{"email":"b@example.com","password":"`+pass+`"}`)
	wantError(t, resp, body, 403, "signup_disabled")
}

// Whether there is an account is not to be learnt from a sign-in: its answer is the same. Why its time is, too, is
// tested with the service.
func TestSignInTellsNothingOfAccounts(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	// One without a password at all.
	must[*client.CreateUserResponse](t, 201)(s.Service(t).CreateUserWithResponse(t.Context(), client.CreateUserRequest{Email: "mail@example.com"}))
	answers := map[string]string{}
	for _, email := range []string{ada, "mail@example.com", "nobody@example.com"} {
		resp, body := call(t, s, "POST", "/api/v1/auth/signin", `{"email":"`+email+`","password":"wrong horse battery"}`, "X-Request-Id", "same")
		wantError(t, resp, body, 401, "invalid_credentials")
		answers[email] = body
	}
	diff(t, "answer for an unknown address", answers[ada], answers["nobody@example.com"])
	diff(t, "answer for an account without a password", answers[ada], answers["mail@example.com"])
}

func TestRefreshRotates(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	first := signUp(t, s, ada)
	second := refresh(t, s, first.RefreshToken).JSON200
	if second == nil || second.RefreshToken == first.RefreshToken || second.AccessToken == first.AccessToken {
		t.Fatalf("second pair %+v", second)
	}
	diff(t, "new access token", 200, status(t, bearer(t, s, second)))
	diff(t, "old access token until it expires", 200, status(t, bearer(t, s, first)))

	// Once more, at once: a client that asked twice. The session goes on.
	twice := refresh(t, s, first.RefreshToken)
	diff(t, "the token before, while its successor is unused", "refresh_token_already_used", twice.JSON401.Code)
	third := refresh(t, s, second.RefreshToken).JSON200
	if third == nil {
		t.Fatal("the session ended by benign reuse")
	}
	// An older one: stolen. The session ends, with all its tokens.
	stolen := refresh(t, s, first.RefreshToken)
	diff(t, "an older token", "refresh_token_already_used", stolen.JSON401.Code)
	diff(t, "the newest token after theft", "session_expired", refresh(t, s, third.RefreshToken).JSON401.Code)
	diff(t, "the access token after theft", 401, status(t, bearer(t, s, third)))

	// The one before the newest, but not so soon.
	late := signIn(t, s, ada, pass)
	next := refresh(t, s, late.RefreshToken).JSON200
	s.Exec(t, s.Control, "update refresh_tokens set used_at = used_at - interval '61 seconds' where used_at is not null")
	diff(t, "late reuse", 401, refresh(t, s, late.RefreshToken).StatusCode())
	diff(t, "after late reuse", "session_expired", refresh(t, s, next.RefreshToken).JSON401.Code)

	expired := signIn(t, s, ada, pass)
	s.Exec(t, s.Control, "update sessions set expires_at = now() - interval '1 second' where ended_at is null")
	diff(t, "a session that has expired", "session_expired", refresh(t, s, expired.RefreshToken).JSON401.Code)

	// One token does not pass as another.
	live := signIn(t, s, ada, pass)
	diff(t, "access token as refresh token", 400, refresh(t, s, live.AccessToken).StatusCode())
	diff(t, "nonsense as refresh token", "refresh_token_not_found", refresh(t, s, "bough_rt_AAAA").JSON401.Code)
	diff(t, "service key as refresh token", "refresh_token_not_found", refresh(t, s, servertest.ServiceKey).JSON401.Code)
	diff(t, "refresh token as access token", 401, status(t, s.Client(t, client.WithBearerAuth(live.RefreshToken))))
	for _, header := range []string{"X-Service-Key", "X-Client-Key"} {
		resp, body := call(t, s, "GET", "/api/v1/admin/branches", "", header, live.RefreshToken)
		wantError(t, resp, body, 401, "unauthorized")
	}
}

func TestParallelRefreshesGiveOnePair(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	other := *s
	other.Run(t, func(cfg *server.Config) { cfg.PublicBaseURL = s.URL }) // two processes
	session := signUp(t, s, ada)
	for round := range 3 {
		var mu sync.Mutex
		var won []*client.Session
		codes := map[string]int{}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				at := s
				if i%2 == 1 {
					at = &other
				}
				r := refresh(t, at, session.RefreshToken)
				mu.Lock()
				defer mu.Unlock()
				if r.JSON200 != nil {
					won = append(won, r.JSON200)
				} else {
					codes[r.JSON401.Code]++
				}
			})
		}
		wg.Wait()
		diff(t, "answers to the others", map[string]int{"refresh_token_already_used": 19}, codes)
		if len(won) != 1 {
			t.Fatalf("round %d: %d pairs", round, len(won))
		}
		session = won[0]
	}
	diff(t, "sessions that go on", int64(1), servertest.Value[int64](t, s.Control, "select count(*) from sessions where ended_at is null"))
	diff(t, "account", 200, status(t, bearer(t, s, session)))
}

func TestEndOfASessionReachesOtherProcesses(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	session := signUp(t, s, ada)
	other := *s
	stop := other.Run(t, func(cfg *server.Config) { cfg.PublicBaseURL = s.URL })
	there := bearer(t, &other, session)
	diff(t, "in the other process", 200, status(t, there))
	must[*client.SignOutResponse](t, 204)(bearer(t, s, session).SignOutWithResponse(t.Context(), nil, client.SignOutRequest{}))
	eventually(t, "the refusal in the other process", func() bool { return status(t, there) == 401 })
	// One that starts afterwards knows it from the beginning.
	stop()
	other.Run(t, func(cfg *server.Config) { cfg.PublicBaseURL = s.URL })
	diff(t, "after a restart", 401, status(t, bearer(t, &other, session)))
}

func TestUserChangesHerAccount(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	session, elsewhere := signUp(t, s, ada), signIn(t, s, ada, pass)
	c := bearer(t, s, session)
	patch := func(body string) (*http.Response, string) {
		return call(t, s, "PATCH", "/api/v1/auth/user", body, "Authorization", "Bearer "+session.AccessToken)
	}
	for field, body := range map[string]string{
		"role": `{"role":"admin"}`, "app_metadata": `{"app_metadata":{"x":1}}`, "email_verified": `{"email_verified":true}`,
		"is_admin": `{"user_metadata":{"x":1},"is_admin":false}`,
	} {
		resp, answer := patch(body)
		if e := wantError(t, resp, answer, 403, "field_not_writable"); e.Fields[field] == "" || !strings.Contains(e.Error, field) {
			t.Errorf("the answer does not name %s: %s", field, answer)
		}
	}
	for _, body := range []string{`{"role":null}`, `{"disabled":false}`, `{"id":"` + uuid.NewString() + `"}`, `{}`, `{"email":"x y"}`, `{"email":7}`} {
		resp, answer := patch(body)
		wantError(t, resp, answer, 400, "validation_error")
	}
	diff(t, "role", "authenticated", servertest.Value[string](t, s.Control, "select role::text from users"))

	update := func(want int, body client.UpdateCurrentUserRequest) *client.UpdateCurrentUserResponse {
		t.Helper()
		return must[*client.UpdateCurrentUserResponse](t, want)(c.UpdateCurrentUserWithResponse(t.Context(), body))
	}
	update(200, client.UpdateCurrentUserRequest{UserMetadata: &client.Metadata{"a": 1.0, "b": "x"}})
	changed := update(200, client.UpdateCurrentUserRequest{UserMetadata: &client.Metadata{"a": nil, "c": true}}).JSON200
	diff(t, "merged metadata", client.Metadata{"b": "x", "c": true}, changed.UserMetadata)

	fresh, wrong, current := "staple battery horse", "no such password", pass
	diff(t, "without the current password", "current_password_required", update(403, client.UpdateCurrentUserRequest{Password: &fresh}).JSON403.Code)
	diff(t, "with a wrong one", "invalid_credentials", update(401, client.UpdateCurrentUserRequest{Password: &fresh, CurrentPassword: &wrong}).JSON401.Code)
	weak := "password1"
	diff(t, "a weak one", "weak_password", update(400, client.UpdateCurrentUserRequest{Password: &weak, CurrentPassword: &current}).JSON400.Code)
	diff(t, "the one of before", "same_password", update(422, client.UpdateCurrentUserRequest{Password: &current, CurrentPassword: &current}).JSON422.Code)
	update(200, client.UpdateCurrentUserRequest{Password: &fresh, CurrentPassword: &current})
	diff(t, "this session after a new password", 200, status(t, c))
	diff(t, "other sessions after a new password", 401, status(t, bearer(t, s, elsewhere)))
	must[*client.SignInResponse](t, 401)(s.Client(t).SignInWithResponse(t.Context(), client.SignInRequest{Email: ada, Password: pass}))
	signIn(t, s, ada, fresh)

	// A new address counts when its mailbox says so.
	before := len(s.Mails(t))
	next := "Countess@Example.com"
	diff(t, "address without the password", "current_password_required", update(403, client.UpdateCurrentUserRequest{Email: &next}).JSON403.Code)
	signUp(t, s, "other@example.com")
	other := "Other@example.com"
	diff(t, "an address that is taken", "email_exists", update(409, client.UpdateCurrentUserRequest{Email: &other, CurrentPassword: &fresh}).JSON409.Code)
	asked := update(200, client.UpdateCurrentUserRequest{Email: &next, CurrentPassword: &fresh}).JSON200
	want := "countess@example.com"
	diff(t, "asked for", &want, asked.NewEmail)
	diff(t, "address until then", ada, asked.Email)
	text, token := s.NextMail(t, before)
	if !strings.HasPrefix(text, "To: <countess@example.com>") {
		t.Errorf("mail:\n%s", text)
	}
	moved := must[*client.VerifyMagicLinkResponse](t, 200)(s.Client(t).VerifyMagicLinkWithResponse(t.Context(), client.VerifyMagicLinkRequest{Token: &token})).JSON200
	diff(t, "new address", want, moved.User.Email)
	diff(t, "confirmed", true, moved.User.EmailVerified)
	diff(t, "sessions of before", 401, status(t, c))
	if text, _ := s.NextMail(t, before+1); !strings.HasPrefix(text, "To: <ada@example.com>\nSubject: Your address was changed") {
		t.Errorf("mail to the old address:\n%s", text)
	}
	// It was the first address that was shown to be theirs, so that the password of before has gone, too.
	diff(t, "the password of before", "invalid_credentials", signInCode(t, s, want, fresh))
}

func TestCredentialsOfTheWrongKind(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	user := signUp(t, s, ada)
	for _, path := range []string{"GET /api/v1/auth/user", "GET /api/v1/auth/sessions", "POST /api/v1/auth/signout"} {
		method, path, _ := strings.Cut(path, " ")
		resp, body := call(t, s, method, path, "", "X-Service-Key", servertest.ServiceKey)
		wantError(t, resp, body, 401, "unauthorized")
		resp, body = call(t, s, method, path, "")
		wantError(t, resp, body, 401, "unauthorized")
	}
	// Somebody whose token is good but who has no account.
	diff(t, "unknown user", 401, status(t, s.User(t, uuid.New())))
	// Users manage no users.
	must[*client.ListUsersResponse](t, 403)(bearer(t, s, user).ListUsersWithResponse(t.Context(), nil))
	admin := client.UserRoleAdmin
	must[*client.UpdateUserResponse](t, 403)(bearer(t, s, user).UpdateUserWithResponse(t.Context(), user.User.ID, client.UpdateUserRequest{Role: &admin}))
	must[*client.RotateSigningKeysResponse](t, 403)(bearer(t, s, user).RotateSigningKeysWithResponse(t.Context(), nil))
}

func TestHashParametersAreRenewedAtSignIn(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	stop := s.Run(t)
	signUp(t, s, ada)
	hash := func() string { return servertest.Value[string](t, s.Control, "select password_hash from users") }
	old := hash()
	stop()
	s.Run(t, func(cfg *server.Config) { cfg.Auth.HashIterations = 2 })
	signIn(t, s, ada, pass)
	if renewed := hash(); renewed == old || !strings.HasPrefix(renewed, "$argon2id$v=19$m=7168,t=2,p=1$") {
		t.Errorf("hash %.40s, was %.40s", renewed, old)
	}
	signIn(t, s, ada, pass)
}

func TestSignInLimits(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) { cfg.TrustedProxies = []string{"127.0.0.1/32"} })
	try := func(email, password, ip string) (*http.Response, string) {
		t.Helper()
		return call(t, s, "POST", "/api/v1/auth/signin", `{"email":"`+email+`","password":"`+password+`"}`, "X-Forwarded-For", ip)
	}
	resp, body := call(t, s, "POST", "/api/v1/auth/signup", `{"email":"`+ada+`","password":"`+pass+`"}`, "X-Forwarded-For", "192.0.2.1")
	if resp.StatusCode != 201 {
		t.Fatal(body)
	}
	// A stranger guesses, from one network: for the account, then for an unknown one, alike.
	for _, email := range []string{ada, "nobody@example.com"} {
		for i := range 10 {
			resp, body := try(email, "wrong horse battery", "198.51.100.7")
			if resp.StatusCode != 401 {
				t.Fatalf("try %d for %s: %d %s", i, email, resp.StatusCode, body)
			}
		}
		resp, body = try(email, "wrong horse battery", "198.51.100.7")
		wantError(t, resp, body, 429, "too_many_attempts")
		if after := resp.Header.Get("Retry-After"); after == "" || len(after) > 2 {
			t.Errorf("Retry-After %q", after)
		}
	}
	resp, body = try(ada, pass, "198.51.100.7")
	wantError(t, resp, body, 429, "too_many_attempts")
	// IPv6: all of a household's network.
	for i := range 10 {
		if resp, body := try(ada, "wrong horse battery", "2001:db8::"+string(rune('a'+i%6))); resp.StatusCode != 401 {
			t.Fatalf("IPv6 try %d: %s", i, body)
		}
	}
	resp, body = try(ada, "wrong horse battery", "2001:db8::ffff:1")
	wantError(t, resp, body, 429, "too_many_attempts")
	// From many networks: the account becomes slow for strangers, not for its owner.
	s.Exec(t, s.Control, "update rate_limits set tat = tat + interval '2 hours'")
	limited := false
	for i := range 3 {
		resp, _ := try(ada, "wrong horse battery", "203.0.113."+string(rune('1'+i)))
		limited = limited || resp.StatusCode == 429
	}
	if !limited {
		t.Error("strangers from new networks are not slowed down")
	}
	// The first lines of that are each network's own; 192.0.2.1 has not been heard of since the sign-up.
	if resp, body := try(ada, pass, "192.0.2.1"); resp.StatusCode != 200 {
		t.Errorf("owner: %d %s", resp.StatusCode, body)
	}
	// A limit runs out by itself.
	s.Exec(t, s.Control, "update rate_limits set tat = now() - interval '1 second'")
	if resp, body := try(ada, pass, "198.51.100.7"); resp.StatusCode != 200 {
		t.Errorf("after the wait: %d %s", resp.StatusCode, body)
	}
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	kid := func(token string) string {
		header, _, _ := strings.Cut(token, ".")
		var h struct{ Kid string }
		data, err := jwkDecode(header)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &h); err != nil {
			t.Fatal(err)
		}
		return h.Kid
	}
	published := func() []string {
		var out []string
		for _, k := range must[*client.GetJWKSResponse](t, 200)(s.Client(t).GetJWKSWithResponse(t.Context())).JSON200.Keys {
			out = append(out, k.Kid)
		}
		slices.Sort(out)
		return out
	}
	session := signUp(t, s, ada)
	first := kid(session.AccessToken)
	diff(t, "published at first", []string{first}, published())
	keys := must[*client.RotateSigningKeysResponse](t, 200)(s.Service(t).RotateSigningKeysWithResponse(t.Context(), nil)).JSON200.Keys
	if len(keys) != 2 || keys[1].Kid != first || keys[1].RetiredAt == nil || keys[0].RetiredAt != nil {
		t.Fatalf("keys %+v", keys)
	}
	if wait := time.Until(*keys[0].ActivatesAt); wait < 4*time.Minute || wait > 6*time.Minute {
		t.Errorf("the new key signs in %v", wait)
	}
	if keys[1].RetiredAt.Sub(*keys[0].ActivatesAt) < 15*time.Minute {
		t.Errorf("the old key is retired at %v, before its last token expires", keys[1].RetiredAt)
	}
	if got := published(); len(got) != 2 {
		t.Errorf("published after rotation: %v", got)
	}
	diff(t, "key until the new one is known", first, kid(signIn(t, s, ada, pass).AccessToken))
	s.Exec(t, s.Control, "update signing_key_secrets set activates_at = now() where activates_at > now()")
	s.Exec(t, s.Control, "update signing_keys set created_at = created_at")
	eventually(t, "tokens of the new key", func() bool { return kid(signIn(t, s, ada, pass).AccessToken) == keys[0].Kid })
	diff(t, "a token of the old key", 200, status(t, bearer(t, s, session)))

	now := true
	must[*client.RotateSigningKeysResponse](t, 200)(s.Service(t).RotateSigningKeysWithResponse(t.Context(), &client.RotateSigningKeysParams{Immediately: &now}))
	diff(t, "a token after the key was given up", 401, status(t, bearer(t, s, session)))
	renewed := refresh(t, s, session.RefreshToken).JSON200
	if renewed == nil || kid(renewed.AccessToken) == first {
		t.Fatal("the session does not go on with the new key")
	}
	diff(t, "with the new key", 200, status(t, bearer(t, s, renewed)))
	diff(t, "published at last", []string{kid(renewed.AccessToken)}, published())
}

func TestPrivateKeysAreEncrypted(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	stop := s.Run(t) // without a key at first
	session := signUp(t, s, ada)
	diff(t, "readable by default", false, servertest.Value[bool](t, s.Control, "select encrypted from signing_key_secrets"))
	url := s.URL
	stop()
	withKey := func(cfg *server.Config) {
		cfg.PublicBaseURL, cfg.Auth.EncryptionKey = url, "0123456789abcdef0123456789abcdef"
	}
	stop = s.Run(t, withKey)
	diff(t, "encrypted from then on", true, servertest.Value[bool](t, s.Control, "select encrypted from signing_key_secrets"))
	if raw := servertest.Value[[]byte](t, s.Control, "select private_jwk from signing_key_secrets"); bytes.Contains(raw, []byte(`"d"`)) {
		t.Error("the private key is still readable")
	}
	diff(t, "a token of before", 200, status(t, bearer(t, s, session)))
	diff(t, "a new token", 200, status(t, bearer(t, s, signIn(t, s, ada, pass))))
	stop()
	for _, key := range []string{"", "another key another key another key"} {
		cfg := servertest.Config(t, s.Main, s.Control, withKey, func(cfg *server.Config) { cfg.Auth.EncryptionKey = key })
		if err := server.Run(t.Context(), cfg, quiet, server.Hooks{}); err == nil || !strings.Contains(err.Error(), "auth.encryption_key") {
			t.Errorf("with the encryption key %q: %v", key, err)
		}
	}
}

// A stranger's token, or one of ours for something else, opens nothing; TestAccessTokens has the long list.
func TestForeignSession(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	signUp(t, s, ada)
	build := func(session any) string {
		token, err := jwt.NewBuilder().Issuer(s.URL).Audience([]string{auth.Audience}).Subject(uuid.NewString()).
			IssuedAt(time.Now()).Expiration(time.Now().Add(time.Hour)).Claim("session_id", session).Build()
		if err != nil {
			t.Fatal(err)
		}
		return servertest.Sign(t, token, jwa.ES256, s.SigningKey(t), auth.TokenType)
	}
	for _, session := range []any{7, "x", nil, map[string]any{}} {
		resp, body := call(t, s, "GET", "/api/v1/admin/branches", "", "Authorization", "Bearer "+build(session))
		wantError(t, resp, body, 401, "unauthorized")
	}
	resp, _ := call(t, s, "GET", "/api/v1/admin/branches", "", "Authorization", "Bearer "+build(uuid.NewString()))
	diff(t, "a session that nobody ended", 200, resp.StatusCode)
}
