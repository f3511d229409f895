package httpapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

const verifyPath = "/api/v1/auth/magiclink/verify"

// askLink asks for a link and returns the token of the mail.
func askLink(t *testing.T, s *servertest.Server, body client.MagicLinkRequest) string {
	t.Helper()
	before := len(s.Mails(t))
	must[*client.RequestMagicLinkResponse](t, 202)(s.Client(t).RequestMagicLinkWithResponse(t.Context(), body))
	text, token := s.NextMail(t, before)
	if token == "" {
		t.Fatalf("the mail has no link:\n%s", text)
	}
	return token
}

func verify(t *testing.T, s *servertest.Server, token string) *client.VerifyMagicLinkResponse {
	t.Helper()
	r, err := s.Client(t).VerifyMagicLinkWithResponse(t.Context(), client.VerifyMagicLinkRequest{Token: &token})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// browse sends a request as a browser does, and follows nothing.
func browse(t *testing.T, s *servertest.Server, method, path, form string, headers ...string) (*http.Response, string) {
	t.Helper()
	headers = append([]string{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, headers...)
	if form != "" {
		headers = append([]string{"Content-Type", "application/x-www-form-urlencoded"}, headers...)
	}
	return call(t, s, method, path, form, headers...)
}

func TestMagicLinkSignsInOnce(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	token := askLink(t, s, client.MagicLinkRequest{Email: "Ada@example.com"})
	diff(t, "users until the link is followed", int64(0), servertest.Value[int64](t, s.Control, "select count(*) from users"))
	for _, table := range []string{"mail_tokens", "river_job"} {
		diff(t, "token in clear in "+table, int64(0), servertest.Value[int64](t, s.Control, "select count(*) from "+table+" x where x::text like '%' || $1 || '%'", token))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var sessions []*client.Session
	for range 10 {
		wg.Go(func() {
			if r := verify(t, s, token); r.JSON200 != nil {
				mu.Lock()
				defer mu.Unlock()
				sessions = append(sessions, r.JSON200)
			} else if r.JSON401 == nil || r.JSON401.Code != "otp_expired" {
				t.Errorf("status %d", r.StatusCode())
			}
		})
	}
	wg.Wait()
	if len(sessions) != 1 {
		t.Fatalf("one link gave %d sessions", len(sessions))
	}
	session := sessions[0]
	diff(t, "user", []any{ada, true}, []any{session.User.Email, session.User.EmailVerified})
	diff(t, "account", 200, status(t, bearer(t, s, session)))
	// In such a session a password can be set without the one of before.
	password := pass
	must[*client.UpdateCurrentUserResponse](t, 200)(bearer(t, s, session).UpdateCurrentUserWithResponse(t.Context(), client.UpdateCurrentUserRequest{Password: &password}))
	signIn(t, s, ada, pass)
	s.Exec(t, s.Control, "update sessions set created_at = created_at - interval '16 minutes'")
	must[*client.UpdateCurrentUserResponse](t, 403)(bearer(t, s, session).UpdateCurrentUserWithResponse(t.Context(), client.UpdateCurrentUserRequest{Password: &password}))

	// A program that says so gets the session from the address in the mail.
	token = askLink(t, s, client.MagicLinkRequest{Email: ada})
	resp, body := call(t, s, "GET", verifyPath+"?token="+token, "", "Accept", "application/json")
	if resp.StatusCode != 200 || !strings.Contains(body, `"refresh_token"`) || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	resp, body = call(t, s, "GET", verifyPath+"?token="+token, "", "Accept", "application/json")
	wantError(t, resp, body, 401, "otp_expired")
	diff(t, "users", int64(1), servertest.Value[int64](t, s.Control, "select count(*) from users"))

	token = askLink(t, s, client.MagicLinkRequest{Email: ada})
	s.Exec(t, s.Control, "update mail_tokens set expires_at = now() where used_at is null")
	diff(t, "an expired link", "otp_expired", verify(t, s, token).JSON401.Code)
	diff(t, "an unknown link", "otp_expired", verify(t, s, "bough_ml_AAAA").JSON401.Code)
	resp, body = call(t, s, "GET", verifyPath, "")
	wantError(t, resp, body, 400, "validation_error")
}

// Programs that look into mails fetch links before people do. They spend nothing.
func TestScannersSpendNoLink(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited, func(cfg *server.Config) {
		cfg.Auth.RedirectURLs = []string{"https://app.example.com/callback", "https://app.example.com/in/*", "myapp://done"}
	})
	redirect := "https://app.example.com/callback?next=%2Fhome"
	must[*client.RequestMagicLinkResponse](t, 400)(s.Client(t).RequestMagicLinkWithResponse(t.Context(), client.MagicLinkRequest{Email: ada, RedirectTo: &redirect}))
	redirect = "https://app.example.com/in/here?next=%2Fhome"
	token := askLink(t, s, client.MagicLinkRequest{Email: ada, RedirectTo: &redirect})
	for _, accept := range []string{"", "*/*", "text/html", "text/html, application/json;q=0.5", "application/json;q=0", "image/png"} {
		resp, body := call(t, s, "GET", verifyPath+"?token="+token, "", "Accept", accept)
		if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || !strings.Contains(body, "ada@example.com") {
			t.Fatalf("Accept %q: %d %s", accept, resp.StatusCode, body)
		}
	}
	if resp, _ := call(t, s, "HEAD", verifyPath+"?token="+token, "", "Accept", "application/json"); resp.StatusCode == 200 {
		t.Error("HEAD was answered like GET")
	}
	resp, body := browse(t, s, "GET", verifyPath+"?token="+token, "")
	policy := resp.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "form-action 'self' https://app.example.com;", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
	diff(t, "referrer", "no-referrer", resp.Header.Get("Referrer-Policy"))
	if strings.Contains(body, "http:") || strings.Contains(body, "https:") || strings.Contains(body, "<script") {
		t.Errorf("the page takes something from elsewhere:\n%s", body)
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(body)[1]
	sum := sha256.Sum256([]byte(style))
	if !strings.Contains(policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
		t.Errorf("the policy %q does not let the style in", policy)
	}
	form := regexp.MustCompile(`name="token" value="([^"]*)"`).FindStringSubmatch(body)
	if form == nil || form[1] != token {
		t.Fatalf("the form does not post the token:\n%s", body)
	}

	// The button. Posted by another site it does nothing.
	data := url.Values{"token": {token}}.Encode()
	resp, body = browse(t, s, "POST", verifyPath, data, "Sec-Fetch-Site", "cross-site")
	wantError(t, resp, body, 403, "access_denied")
	noFollow := func(token string) (*http.Response, error) {
		c := &http.Client{Transport: servertest.Contract(t), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+verifyPath, strings.NewReader(url.Values{"token": {token}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return c.Do(req)
	}
	posted, err := noFollow(token)
	if err != nil {
		t.Fatal(err)
	}
	defer posted.Body.Close()
	location, err := posted.Location()
	if err != nil || posted.StatusCode != 303 {
		t.Fatalf("%d, %v", posted.StatusCode, err)
	}
	code := location.Query().Get("code")
	diff(t, "redirect", "https://app.example.com/in/here next=/home", location.Scheme+"://"+location.Host+location.Path+" next="+location.Query().Get("next"))
	again, err := noFollow(token)
	if err != nil || again.StatusCode != 401 || !strings.HasPrefix(again.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the button once more: %d, %v", again.StatusCode, err)
	}
	// A code is for the application, not for another round.
	if r, err := noFollow(code); err != nil || r.StatusCode != 401 {
		t.Errorf("the code in the form: %d, %v", r.StatusCode, err)
	}
	if r, _ := browse(t, s, "GET", verifyPath+"?token="+code, ""); r.StatusCode != 401 {
		t.Errorf("the code as a link: %d", r.StatusCode)
	}
	session := verify(t, s, code).JSON200
	if session == nil {
		t.Fatal("the code is not redeemed")
	}
	diff(t, "account", 200, status(t, bearer(t, s, session)))
	diff(t, "the code once more", "otp_expired", verify(t, s, code).JSON401.Code)

	// Without a redirect the page shows the code.
	token = askLink(t, s, client.MagicLinkRequest{Email: ada})
	resp, body = browse(t, s, "POST", verifyPath, url.Values{"token": {token}}.Encode())
	shown := regexp.MustCompile(`<code>(bough_ml_[A-Za-z0-9_-]+)</code>`).FindStringSubmatch(body)
	if resp.StatusCode != 200 || shown == nil {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if verify(t, s, shown[1]).JSON200 == nil {
		t.Error("the code of the page is not redeemed")
	}
}

// postForm posts the page's form and returns where the browser is sent.
func postForm(t *testing.T, s *servertest.Server, form url.Values) *url.URL {
	t.Helper()
	c := &http.Client{Transport: servertest.Contract(t), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+verifyPath, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	location, err := resp.Location()
	if err != nil || resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d, %v", resp.StatusCode, err)
	}
	return location
}

// challengeOf is the PKCE challenge of a verifier.
func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func TestPagesEscape(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	evil := `<script>alert(1)</script>"'><b>&`
	resp, body := browse(t, s, "GET", verifyPath+"?"+url.Values{"token": {evil}}.Encode(), "")
	if resp.StatusCode != 401 || strings.Contains(body, "<script") || strings.Contains(body, "<b>") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	// An address may hold what HTML gives a meaning to.
	token := askLink(t, s, client.MagicLinkRequest{Email: "o'neil&co/x=y@example.com"})
	_, body = browse(t, s, "GET", verifyPath+"?token="+token, "")
	if !strings.Contains(body, "o&#39;neil&amp;co/x=y@example.com") {
		t.Errorf("the address is not escaped:\n%s", body)
	}
}

func TestPKCE(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	verifier := strings.Repeat("v1-", 15)
	challenge, method := challengeOf(verifier), client.MagicLinkRequestCodeChallengeMethodS256
	must[*client.RequestMagicLinkResponse](t, 400)(s.Client(t).RequestMagicLinkWithResponse(t.Context(), client.MagicLinkRequest{Email: ada, CodeChallenge: &challenge}))
	ask := client.MagicLinkRequest{Email: ada, CodeChallenge: &challenge, CodeChallengeMethod: &method}
	token := askLink(t, s, ask)
	diff(t, "without the verifier", "code_verifier_required", verify(t, s, token).JSON400.Code)
	resp, body := call(t, s, "GET", verifyPath+"?token="+token, "", "Accept", "application/json")
	wantError(t, resp, body, 400, "code_verifier_required")
	wrong := strings.Repeat("w", 43)
	must[*client.VerifyMagicLinkResponse](t, 400)(s.Client(t).VerifyMagicLinkWithResponse(t.Context(), client.VerifyMagicLinkRequest{Token: &token, CodeVerifier: &wrong}))
	// Through a browser the code is bound in the same way.
	_, body = browse(t, s, "POST", verifyPath, url.Values{"token": {token}}.Encode())
	code := regexp.MustCompile(`<code>([^<]+)</code>`).FindStringSubmatch(body)[1]
	diff(t, "the code without the verifier", "code_verifier_required", verify(t, s, code).JSON400.Code)
	must[*client.VerifyMagicLinkResponse](t, 200)(s.Client(t).VerifyMagicLinkWithResponse(t.Context(), client.VerifyMagicLinkRequest{Token: &code, CodeVerifier: &verifier}))
}

// A mail a minute goes to an address, and five an hour. What strangers ask for does not count for its owner.
func TestMailLimits(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) { cfg.TrustedProxies = []string{"127.0.0.1/32"} })
	ask := func(path, email, ip string) (*http.Response, string) {
		t.Helper()
		return call(t, s, "POST", path, `{"email":"`+email+`"}`, "X-Forwarded-For", ip)
	}
	want := func(resp *http.Response, body string, status int) string {
		t.Helper()
		if resp.StatusCode != status {
			t.Fatalf("%d, want %d: %s", resp.StatusCode, status, body)
		}
		return resp.Header.Get("Retry-After")
	}
	const links, resets = "/api/v1/auth/magiclink", "/api/v1/auth/password/reset"
	resp, body := call(t, s, "POST", "/api/v1/auth/signup", `{"email":"`+ada+`","password":"`+pass+`"}`, "X-Forwarded-For", "192.0.2.1")
	want(resp, body, 201)
	for _, email := range []string{ada, "nobody@example.com"} {
		for i := range 5 {
			resp, body := ask([]string{links, resets}[i%2], email, "198.51.100.7")
			want(resp, body, 202)
			resp, body = ask(links, strings.ToUpper(email), "203.0.113.7")
			wantError(t, resp, body, 429, "too_many_attempts")
			if after := want(resp, body, 429); len(after) != 2 && i < 4 { // up to a minute
				t.Errorf("Retry-After %q", after)
			}
			s.Exec(t, s.Control, "update rate_limits set tat = tat - interval '1 minute'")
		}
		s.Exec(t, s.Control, "update rate_limits set tat = tat - interval '1 minute'")
		resp, body := ask(links, email, "198.51.100.7")
		if after := want(resp, body, 429); len(after) != 3 { // up to twelve minutes
			t.Errorf("Retry-After %q", after)
		}
	}
	resp, body = ask(links, ada, "192.0.2.1")
	want(resp, body, 202)
	resp, body = ask(links, "grace@example.com", "198.51.100.7")
	want(resp, body, 202)
}

// A mail that waits in the queue is sent by the next process.
func TestMailsSurviveARestart(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	outbox := s.Outbox
	s.Outbox = outbox + "/no\x00such"
	stop := s.Run(t, unlimited)
	must[*client.RequestMagicLinkResponse](t, 202)(s.Client(t).RequestMagicLinkWithResponse(t.Context(), client.MagicLinkRequest{Email: ada}))
	eventually(t, "a failed try", func() bool {
		return servertest.Value[int64](t, s.Control, "select count(*) from river_job where kind = 'auth_mail' and array_length(errors, 1) > 0") == 1
	})
	stop()
	s.Outbox = outbox
	s.Exec(t, s.Control, "update river_job set scheduled_at = now() where kind = 'auth_mail'")
	s.Run(t, unlimited)
	_, token := s.NextMail(t, 0)
	if verify(t, s, token).JSON200 == nil {
		t.Error("the link of the second try does not work")
	}
}
