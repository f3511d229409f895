package httpapi_test

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

var sixDigits = regexp.MustCompile(`: ([0-9]{6})\n`)

// mailCode is the code in a mail's text.
func mailCode(t *testing.T, text string) string {
	t.Helper()
	found := sixDigits.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the mail has no code:\n%s", text)
	}
	return found[1]
}

// otherCode is a code that is not the given one.
func otherCode(code string, n int) string {
	return string('0'+(code[0]-'0'+1)%10) + code[1:5] + string(rune('0'+n))
}

func verifyCode(t *testing.T, s *servertest.Server, email, code string) *client.VerifyMagicLinkResponse {
	t.Helper()
	r, err := s.Client(t).VerifyMagicLinkWithResponse(t.Context(), client.VerifyMagicLinkRequest{Email: &email, Code: &code})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMailCodes(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	token := askLink(t, s, client.MagicLinkRequest{Email: ada})
	code := mailCode(t, s.Mails(t)[0])
	if hash := servertest.Value[string](t, s.Control, "select code_hash from mail_tokens"); !strings.HasPrefix(hash, "$argon2id$") {
		t.Errorf("the code is stored as %s", hash)
	}
	for i := range 4 {
		diff(t, "a wrong code", "otp_expired", verifyCode(t, s, ada, otherCode(code, i)).JSON401.Code)
	}
	diff(t, "for another address", "otp_expired", verifyCode(t, s, "eve@example.com", code).JSON401.Code)
	session := verifyCode(t, s, " ADA@example.com", code).JSON200
	if session == nil || session.User.Email != ada {
		t.Fatalf("session %+v", session)
	}
	diff(t, "the code once more", "otp_expired", verifyCode(t, s, ada, code).JSON401.Code)
	diff(t, "the link of the mail", "otp_expired", verify(t, s, token).JSON401.Code)

	// Five tries, in parallel as well; the link is not harmed.
	token = askLink(t, s, client.MagicLinkRequest{Email: ada})
	code = mailCode(t, s.Mails(t)[1])
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if r := verifyCode(t, s, ada, otherCode(code, i)); r.JSON401 == nil {
				t.Errorf("a wrong code: %d", r.StatusCode())
			}
		})
	}
	wg.Wait()
	diff(t, "tries", int32(5), servertest.Value[int32](t, s.Control, "select max(tries) from mail_tokens"))
	diff(t, "the right code after five tries", "otp_expired", verifyCode(t, s, ada, code).JSON401.Code)
	if verify(t, s, token).JSON200 == nil {
		t.Error("the link does not work after wrong codes")
	}

	// The newest mail's code counts, once, until it expires.
	askLink(t, s, client.MagicLinkRequest{Email: ada})
	first := mailCode(t, s.Mails(t)[2])
	askLink(t, s, client.MagicLinkRequest{Email: ada})
	second := mailCode(t, s.Mails(t)[3])
	if first != second {
		diff(t, "the code of an older mail", "otp_expired", verifyCode(t, s, ada, first).JSON401.Code)
	}
	won := make(chan bool, 4)
	for range 4 {
		go func() { won <- verifyCode(t, s, ada, second).JSON200 != nil }()
	}
	n := 0
	for range 4 {
		if <-won {
			n++
		}
	}
	diff(t, "sessions for one code", 1, n)
	askLink(t, s, client.MagicLinkRequest{Email: ada})
	s.Exec(t, s.Control, "update mail_tokens set expires_at = now()")
	diff(t, "an expired code", "otp_expired", verifyCode(t, s, ada, mailCode(t, s.Mails(t)[4])).JSON401.Code)

	for _, body := range []string{
		`{}`, `{"email":"` + ada + `"}`, `{"code":"123456"}`, `{"token":"x","code":"123456"}`, `{"token":"x","email":"` + ada + `"}`,
		`{"email":"` + ada + `","code":"12345"}`, `{"email":"` + ada + `","code":"12345x"}`, `{"email":"` + ada + `","code":123456}`,
	} {
		resp, answer := call(t, s, "POST", verifyPath, body)
		wantError(t, resp, answer, 400, "validation_error")
	}
}

func TestPasswordReset(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited, func(cfg *server.Config) { cfg.Auth.RedirectURLs = []string{"https://app.example.com/reset"} })
	session := signUp(t, s, ada)
	mails := 0
	ask := func(redirect *string) (text, token string) {
		t.Helper()
		must[*client.RequestPasswordResetResponse](t, 202)(s.Client(t).RequestPasswordResetWithResponse(t.Context(), client.PasswordResetRequest{Email: ada, RedirectTo: redirect}))
		text, token = s.NextMail(t, mails)
		mails++
		return text, token
	}
	confirm := func(body client.ConfirmPasswordResetRequest) *client.ConfirmPasswordResetResponse {
		t.Helper()
		r, err := s.Client(t).ConfirmPasswordResetWithResponse(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	text, token := ask(nil)
	if !strings.Contains(text, "Subject: Set a new password") || !strings.Contains(text, s.URL+"/api/v1/auth/password/confirm?token=") {
		t.Errorf("mail:\n%s", text)
	}
	_, second := ask(nil)
	// For nothing else is it good.
	diff(t, "as a magic link", "otp_expired", verify(t, s, token).JSON401.Code)
	if resp, _ := browse(t, s, "GET", verifyPath+"?token="+token, ""); resp.StatusCode != 401 {
		t.Errorf("on the page of magic links: %d", resp.StatusCode)
	}
	diff(t, "weak", "weak_password", confirm(client.ConfirmPasswordResetRequest{Token: &token, Password: "12345678"}).JSON400.Code)
	diff(t, "the one of before", "same_password", confirm(client.ConfirmPasswordResetRequest{Token: &token, Password: pass}).JSON422.Code)
	const fresh = "staple battery horse"
	done := confirm(client.ConfirmPasswordResetRequest{Token: &token, Password: fresh})
	if done.JSON200 == nil || !done.JSON200.User.EmailVerified {
		t.Fatalf("%d %s", done.StatusCode(), done.Body)
	}
	diff(t, "the new session", 200, status(t, bearer(t, s, done.JSON200)))
	diff(t, "the sessions of before", 401, status(t, bearer(t, s, session)))
	diff(t, "the old password", "invalid_credentials", signInCode(t, s, ada, pass))
	signIn(t, s, ada, fresh)
	for _, used := range []string{token, second, "bough_ml_AAAA"} {
		diff(t, "a link of before", "otp_expired", confirm(client.ConfirmPasswordResetRequest{Token: &used, Password: "another good one"}).JSON401.Code)
	}

	// By the code.
	text, _ = ask(nil)
	email, code, wrong := ada, mailCode(t, text), otherCode(mailCode(t, text), 1)
	diff(t, "a wrong code", "otp_expired", confirm(client.ConfirmPasswordResetRequest{Email: &email, Code: &wrong, Password: pass}).JSON401.Code)
	diff(t, "its code as one to sign in", "otp_expired", verifyCode(t, s, ada, code).JSON401.Code)
	if r := confirm(client.ConfirmPasswordResetRequest{Email: &email, Code: &code, Password: pass}); r.JSON200 == nil {
		t.Fatalf("%d %s", r.StatusCode(), r.Body)
	}

	// By the page, which asks again for a weak password.
	_, token = ask(nil)
	const path = "/api/v1/auth/password/confirm"
	resp, body := browse(t, s, "GET", path+"?token="+token, "")
	if resp.StatusCode != 200 || !strings.Contains(body, `type="password"`) || !strings.Contains(body, token) || resp.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	post := func(password string, headers ...string) (int, string) {
		t.Helper()
		resp, body := browse(t, s, "POST", path, url.Values{"token": {token}, "password": {password}}.Encode(), headers...)
		return resp.StatusCode, body
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}} {
		if status, body := post(fresh, headers...); status != 403 {
			t.Errorf("%s: %d %s", headers, status, body)
		}
	}
	if status, body := post("12345678"); status != 400 || !strings.Contains(body, "most common") || !strings.Contains(body, token) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := post(fresh, "Origin", "null", "Sec-Fetch-Site", "same-origin"); status != 200 || !strings.Contains(body, "Your password was changed") {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := post(pass); status != 401 {
		t.Errorf("the form once more: %d", status)
	}
	signIn(t, s, ada, fresh)

	// By a page of the application.
	redirect, evil := "https://app.example.com/reset", "https://evil.example/"
	must[*client.RequestPasswordResetResponse](t, 400)(s.Client(t).RequestPasswordResetWithResponse(t.Context(), client.PasswordResetRequest{Email: ada, RedirectTo: &evil}))
	if text, _ := ask(&redirect); !strings.Contains(text, "https://app.example.com/reset?token=bough_ml_") {
		t.Errorf("mail:\n%s", text)
	}
	// Who is shut out does not come in so.
	_, token = ask(nil)
	disabled := true
	must[*client.UpdateUserResponse](t, 200)(s.Service(t).UpdateUserWithResponse(t.Context(), session.User.ID, client.UpdateUserRequest{Disabled: &disabled}))
	diff(t, "a disabled user", "otp_expired", confirm(client.ConfirmPasswordResetRequest{Token: &token, Password: "another good one"}).JSON401.Code)
}

// An application trades the code that a browser brings, where it began the sign-in.
func TestExchangeOfCodes(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited, func(cfg *server.Config) { cfg.Auth.RedirectURLs = []string{"https://app.example.com/in"} })
	verifier := strings.Repeat("v1-", 15)
	challenge, method := challengeOf(verifier), client.MagicLinkRequestCodeChallengeMethodS256
	token := askLink(t, s, client.MagicLinkRequest{Email: ada, CodeChallenge: &challenge, CodeChallengeMethod: &method})
	exchange := func(code string, verifier *string) *client.ExchangeCodeResponse {
		t.Helper()
		r, err := s.Client(t).ExchangeCodeWithResponse(t.Context(), client.ExchangeCodeRequest{AuthCode: code, CodeVerifier: verifier})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	diff(t, "a link's token", "otp_expired", exchange(token, &verifier).JSON401.Code)
	// The page takes the redirect of its address, if that is on the list.
	const evil, app = "https://evil.example/", "https://app.example.com/in"
	resp, body := browse(t, s, "GET", verifyPath+"?"+url.Values{"token": {token}, "redirect_to": {evil}}.Encode(), "")
	wantError(t, resp, body, 400, "redirect_not_allowed")
	resp, body = browse(t, s, "POST", verifyPath, url.Values{"token": {token}, "redirect_to": {evil}}.Encode())
	wantError(t, resp, body, 400, "redirect_not_allowed")
	resp, body = browse(t, s, "GET", verifyPath+"?"+url.Values{"token": {token}, "redirect_to": {app}}.Encode(), "")
	if resp.StatusCode != 200 || !strings.Contains(body, `name="redirect_to" value="`+app+`"`) || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "https://app.example.com") {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	location := postForm(t, s, url.Values{"token": {token}, "redirect_to": {app}})
	code := location.Query().Get("code")
	diff(t, "redirect", "app.example.com/in", location.Host+location.Path)
	wrong := strings.Repeat("w", 43)
	diff(t, "without the verifier", "code_verifier_required", exchange(code, nil).JSON400.Code)
	diff(t, "with a wrong one", "code_verifier_required", exchange(code, &wrong).JSON400.Code)
	done := exchange(code, &verifier)
	if done.JSON200 == nil {
		t.Fatalf("%d %s", done.StatusCode(), done.Body)
	}
	diff(t, "cache", "no-store", done.HTTPResponse.Header.Get("Cache-Control"))
	diff(t, "account", 200, status(t, bearer(t, s, done.JSON200)))
	diff(t, "once more", "otp_expired", exchange(code, &verifier).JSON401.Code)
}
