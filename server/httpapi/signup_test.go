package httpapi_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

func verified(cfg *server.Config) { cfg.Auth.RequireVerification = true }

// signUpUnconfirmed signs up where addresses must be confirmed.
func signUpUnconfirmed(t *testing.T, s *servertest.Server, email, password string) client.User {
	t.Helper()
	r := must[*client.SignUpResponse](t, 201)(s.Client(t).SignUpWithResponse(t.Context(), client.SignUpRequest{
		Email: email, Password: password, UserMetadata: &client.Metadata{"name": "Ada"},
	}))
	answer, err := r.JSON201.AsUnconfirmedSignUp()
	if err != nil || !answer.ConfirmationRequired || strings.Contains(string(r.Body), "token") {
		t.Fatalf("%s (%v)", r.Body, err)
	}
	return answer.User
}

// signInCode is the code of a refused sign-in.
func signInCode(t *testing.T, s *servertest.Server, email, password string) string {
	t.Helper()
	_, body := call(t, s, "POST", "/api/v1/auth/signin", `{"email":"`+email+`","password":"`+password+`"}`)
	found := regexp.MustCompile(`"code":"([a-z_]+)"`).FindStringSubmatch(body)
	if found == nil {
		return "none"
	}
	return found[1]
}

// What an answer to a sign-up says that is not the same for every address: ids and times.
var peculiar = regexp.MustCompile(`"[0-9a-f-]{36}"|"20[0-9T:.-]+Z"`)

// Whoever signs up or asks for a mail learns nothing of who has an account; the owner of the mailbox does.
func TestMailsTellNothingOfAccounts(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited, verified)
	ask := func(path, body string, status int) string {
		t.Helper()
		resp, answer := call(t, s, "POST", path, body)
		if resp.StatusCode != status {
			t.Fatalf("%d %s", resp.StatusCode, answer)
		}
		return answer
	}
	body := `{"email":"` + ada + `","password":"` + pass + `","options":{"data":{"name":"Ada"}}}`
	fresh := ask("/api/v1/auth/signup", body, 201)
	diff(t, "users until it is confirmed", int64(0), servertest.Value[int64](t, s.Control, "select count(*) from users"))
	diff(t, "sign-in before", "email_not_confirmed", signInCode(t, s, ada, pass))
	diff(t, "sign-in with a wrong password", "invalid_credentials", signInCode(t, s, ada, "wrong horse battery"))
	text, token := s.NextMail(t, 0)
	if !strings.Contains(text, "Subject: Confirm your address") {
		t.Errorf("mail:\n%s", text)
	}
	session := verify(t, s, token).JSON200
	if session == nil || !session.User.EmailVerified || session.User.UserMetadata["name"] != "Ada" || !strings.Contains(fresh, session.User.ID.String()) {
		t.Fatalf("session %+v of the sign-up %s", session, fresh)
	}
	signIn(t, s, ada, pass)

	const other = "some other password"
	known := ask("/api/v1/auth/signup", strings.Replace(body, pass, other, 1), 201)
	diff(t, "sign-up with a known address", peculiar.ReplaceAllString(fresh, "x"), peculiar.ReplaceAllString(known, "x"))
	if strings.Contains(known, session.User.ID.String()) {
		t.Error("the answer tells the id of the account")
	}
	if text, token := s.NextMail(t, 1); token != "" || !strings.Contains(text, "Subject: You already have an account") {
		t.Errorf("mail to the owner:\n%s", text)
	}
	diff(t, "sign-in with its password, as for an unknown address", "email_not_confirmed", signInCode(t, s, ada, other))
	signIn(t, s, ada, pass) // the password of before

	diff(t, "links", ask("/api/v1/auth/magiclink", `{"email":"`+ada+`"}`, 202), ask("/api/v1/auth/magiclink", `{"email":"nobody@example.com","create_user":false}`, 202))
	s.NextMail(t, 2)
	diff(t, "resets", ask("/api/v1/auth/password/reset", `{"email":"`+ada+`"}`, 202), ask("/api/v1/auth/password/reset", `{"email":"nobody@example.com"}`, 202))
	s.NextMail(t, 3)
	time.Sleep(300 * time.Millisecond)
	diff(t, "mails", 4, len(s.Mails(t)))

	// Another address for an account tells as little.
	me, taken := signIn(t, s, ada, pass), "taken@example.com"
	createUser(t, s.Service(t), client.CreateUserRequest{Email: taken})
	current := pass
	for i, next := range []string{taken, "free@example.com"} {
		r := must[*client.UpdateCurrentUserResponse](t, 200)(bearer(t, s, me).UpdateCurrentUserWithResponse(t.Context(), client.UpdateCurrentUserRequest{Email: &next, CurrentPassword: &current}))
		diff(t, "new address", &next, r.JSON200.NewEmail)
		if text, token := s.NextMail(t, 4+i); (token == "") != (next == taken) {
			t.Errorf("mail to %s:\n%s", next, text)
		}
	}

	// An account that an administrator made, unconfirmed: the right password says so, a wrong one does not.
	password, no := pass, false
	createUser(t, s.Service(t), client.CreateUserRequest{Email: "new@example.com", Password: &password, EmailVerified: &no})
	diff(t, "unconfirmed", "email_not_confirmed", signInCode(t, s, "new@example.com", pass))
	diff(t, "unconfirmed, with a wrong password", "invalid_credentials", signInCode(t, s, "new@example.com", "wrong horse battery"))
}

// A stranger's password for an address is worth nothing, unless the owner follows the link of that very sign-up.
func TestSignUpsWithSomebodyElsesAddress(t *testing.T) {
	t.Parallel()
	const victim, strangers = "victim@example.com", "the stranger's one"
	for name, confirm := range map[string]func(*testing.T, *servertest.Server) *client.Session{
		"by her own sign-up": func(t *testing.T, s *servertest.Server) *client.Session {
			signUpUnconfirmed(t, s, victim, "the owner's one")
			_, token := s.NextMail(t, 1)
			return verify(t, s, token).JSON200
		},
		"by magic link": func(t *testing.T, s *servertest.Server) *client.Session {
			return verify(t, s, askLink(t, s, client.MagicLinkRequest{Email: victim})).JSON200
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, unlimited, verified)
			signUpUnconfirmed(t, s, victim, strangers)
			_, link := s.NextMail(t, 0)
			session := confirm(t, s)
			if session == nil || !session.User.EmailVerified {
				t.Fatalf("session %+v", session)
			}
			diff(t, "the stranger's link afterwards", "otp_expired", verify(t, s, link).JSON401.Code)
			if code := signInCode(t, s, victim, strangers); code == "none" {
				t.Error("the stranger signs in")
			}
		})
	}
}

func TestWeakPasswordsHaveReasons(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	resp, body := call(t, s, "POST", "/api/v1/auth/signup", `{"email":"`+ada+`","password":"12345678"}`)
	diff(t, "reasons", &[]client.ErrorReasons{"common", "sequence"}, reasons(wantError(t, resp, body, 400, "weak_password")))
	resp, body = call(t, s, "POST", "/api/v1/auth/signup", `{"email":"nobody","password":"`+pass+`"}`)
	diff(t, "fields", map[string]string{"email": "must be an e-mail address"}, wantError(t, resp, body, 400, "validation_error").Fields)
	resp, body = call(t, s, "POST", "/api/v1/auth/signup", `{"email":"`+ada+`"}`)
	diff(t, "fields", map[string]string{"password": "is required"}, wantError(t, resp, body, 400, "validation_error").Fields)
	resp, body = call(t, s, "POST", "/api/v1/auth/signup", `{"email":"`+ada+`","password":"`+pass+`","user_metadata":{},"options":{"data":{}}}`)
	wantError(t, resp, body, 400, "validation_error")
}

func reasons(e client.Error) *[]client.ErrorReasons { return &e.Reasons }

// A change of address that was asked for with an old password ends with that password.
func TestNewPasswordCancelsChangeOfAddress(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	session, old, fresh, evil := signUp(t, s, ada), pass, "staple battery horse", "evil@example.com"
	update := func(body client.UpdateCurrentUserRequest) *client.User {
		t.Helper()
		return must[*client.UpdateCurrentUserResponse](t, 200)(bearer(t, s, session).UpdateCurrentUserWithResponse(t.Context(), body)).JSON200
	}
	update(client.UpdateCurrentUserRequest{Email: &evil, CurrentPassword: &old})
	_, token := s.NextMail(t, 0)
	diff(t, "new address", nil, update(client.UpdateCurrentUserRequest{Password: &fresh, CurrentPassword: &old}).NewEmail)
	diff(t, "the link", "otp_expired", verify(t, s, token).JSON401.Code)
	diff(t, "address", ada, servertest.Value[string](t, s.Control, "select email from users"))
}

// Keys are taken as bearer tokens where keys are taken, and nowhere else.
func TestKeysAsBearerTokens(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, "create table notes (id int primary key); grant select on notes to authenticated, service_role")
	user := uuid.New()
	made := must[*client.CreateKeyResponse](t, 201)(s.Service(t).CreateKeyWithResponse(t.Context(), client.CreateKeyRequest{
		Type: client.KeyTypeClient, Name: "web", Scopes: []client.Scope{"read:tables"}, UserID: &user,
	})).JSON201
	for name, key := range map[string]string{"service": servertest.ServiceKey, "client": made.Key} {
		for _, path := range []string{"/api/v1/tables/notes", "/rest/v1/notes"} {
			resp, body := call(t, s, "GET", path, "", "apikey", key, "Authorization", "Bearer "+key)
			if resp.StatusCode != 200 {
				t.Errorf("%s key at %s: %d %s", name, path, resp.StatusCode, body)
			}
		}
		resp, _ := call(t, s, "GET", "/api/v1/auth/user", "", "Authorization", "Bearer "+key)
		diff(t, name+" key for an account", 401, resp.StatusCode)
		resp, _ = call(t, s, "GET", "/rest/v1/notes", "", "Authorization", "Bearer "+key+"x")
		diff(t, name+" key with a letter more", 401, resp.StatusCode)
		resp, _ = call(t, s, "GET", "/rest/v1/notes", "", "Authorization", "Basic "+key)
		diff(t, name+" key in another scheme", 401, resp.StatusCode)
	}
	resp, _ := call(t, s, "GET", "/rest/v1/notes", "", "Authorization", "Bearer "+made.Key, "X-Service-Key", servertest.ServiceKey)
	diff(t, "two keys", 400, resp.StatusCode)
	must[*client.RevokeKeyResponse](t, 204)(s.Service(t).RevokeKeyWithResponse(t.Context(), made.ID))
	resp, _ = call(t, s, "GET", "/rest/v1/notes", "", "Authorization", "Bearer "+made.Key)
	diff(t, "a revoked key", 401, resp.StatusCode)
}
