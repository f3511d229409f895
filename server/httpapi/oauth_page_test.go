package httpapi_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/boughdb/bough/server/servertest"
)

// From the application's request to its answer, over every page that a person may see.
func TestOAuthConsent(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	a := registerApp(t, s, "My editor")
	v := newVisitor(t, s)
	p := v.begin(a, "scope", "read:tables write:tables read:schema")
	diff(t, "buttons", []string{"sign-in", "send-code", "deny"}, p.buttons())
	for _, says := range []string{"My editor", "127.0.0.1"} {
		if !strings.Contains(p.content(), says) {
			t.Errorf("the page to sign in does not name %s: %s", says, p.content())
		}
	}
	if strings.Contains(p.header.Get("Content-Security-Policy"), "form-action") {
		t.Error("browsers hold form-action against the redirect to the client, so that nobody could cancel")
	}

	p = v.signIn(p, ada, "not her password")
	diff(t, "status of a wrong password", http.StatusUnauthorized, p.status)
	wantSafePage(t, p)
	wantAlert(t, p)
	if form, _ := p.form(t); form.Get("email") != ada || form.Get("password") != "" {
		t.Errorf("after a wrong password the form has %v", form)
	}
	p = v.press(p, "sign-in", url.Values{"email": {""}, "password": {pass}})
	diff(t, "status without an address", http.StatusBadRequest, p.status)
	wantAlert(t, p)

	p = v.signIn(p, "Ada@Example.com ", pass)
	diff(t, "status", http.StatusOK, p.status)
	diff(t, "boxes", []string{"read:tables", "write:tables", "read:schema"}, p.offered())
	for _, says := range []string{ada, "My editor", "a program on this computer", "changes things"} {
		if !strings.Contains(p.content(), says) {
			t.Errorf("the question does not say %s: %s", says, p.content())
		}
	}
	if strings.Contains(p.header.Get("Content-Security-Policy"), "form-action") {
		t.Error("browsers hold form-action against the redirect to the client as well")
	}
	p = v.press(p, "allow", url.Values{"scope": nil})
	diff(t, "status with nothing ticked", http.StatusBadRequest, p.status)
	wantAlert(t, p)
	p = v.press(p, "allow", url.Values{"scope": {"read:tables", "read:schema"}})
	diff(t, "status", http.StatusSeeOther, p.status)
	diff(t, "cache of the code", "no-store", p.header.Get("Cache-Control"))
	diff(t, "referrer of the code", "no-referrer", p.header.Get("Referrer-Policy"))
	answer := answerOf(t, s, p.location, callback+"&", "a state & more")
	if len(answer) != 4 { // from, code, state, iss
		t.Errorf("answer %v", answer)
	}
	diff(t, "scope", "read:tables read:schema", issued(t, s.URL, a.redemption(answer.Get("code"))).Scope)

	// The browser stays signed in, and is asked all the same, for this application as for another.
	for _, next := range []app{a, registerApp(t, s, "another")} {
		p = v.begin(next, "scope", "read:tables")
		diff(t, "boxes", []string{"read:tables"}, p.offered())
		p = v.press(p, "deny", nil)
		answer = answerOf(t, s, p.location, callback+"&", "a state & more")
		diff(t, "error", "access_denied", answer.Get("error"))
		if answer.Has("code") {
			t.Error("a code for a no")
		}
	}
	p = v.open(authorizeURL(s, a.query("prompt", "none")))
	diff(t, "asked for no question", "consent_required", answerOf(t, s, p.location, callback+"&", "a state & more").Get("error"))
	p = v.begin(a, "prompt", "login")
	diff(t, "asked to sign in again", []string{"sign-in", "send-code", "deny"}, p.buttons())
	p = v.signIn(p, ada, pass)
	diff(t, "and then to allow", []string{"allow", "deny", "sign-out"}, p.buttons())
	p = v.press(p, "sign-out", nil)
	diff(t, "somebody else", []string{"sign-in", "send-code", "deny"}, p.buttons())
	p = v.press(p, "deny", nil)
	diff(t, "without signing in", "access_denied", answerOf(t, s, p.location, callback+"&", "a state & more").Get("error"))
}

func wantAlert(t *testing.T, p *page) {
	t.Helper()
	if !slices.ContainsFunc(p.nodes(atom.P), func(n *html.Node) bool { return attribute(n, "role") == "alert" && n.FirstChild != nil }) {
		t.Errorf("nothing on the page says what was wrong:\n%s", p.text)
	}
}

func TestOAuthSignInByMail(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	before := len(s.Mails(t))
	a := registerApp(t, s, "My editor")
	v := newVisitor(t, s)
	p := v.press(v.begin(a), "send-code", url.Values{"email": {ada}})
	diff(t, "buttons", []string{"code", "sign-out"}, p.buttons())
	wantSafePage(t, p)
	text, _ := s.NextMail(t, before)
	code := mailCode(t, text)
	wrong := "000000"
	if code == wrong {
		wrong = "000001"
	}
	p = v.press(p, "code", url.Values{"code": {wrong}})
	if p.status < 400 || p.status > 499 || !slices.Contains(p.buttons(), "code") {
		t.Errorf("a wrong code: %d, buttons %q", p.status, p.buttons())
	}
	wantAlert(t, p)
	p = v.press(p, "code", url.Values{"code": {" " + code + " "}})
	diff(t, "buttons", []string{"allow", "deny", "sign-out"}, p.buttons())

	// An address that nobody has looks the same, and no mail goes out.
	other := newVisitor(t, s)
	q := other.press(other.begin(a), "send-code", url.Values{"email": {"nobody@example.com"}})
	diff(t, "status for nobody", http.StatusOK, q.status)
	diff(t, "buttons for nobody", []string{"code", "sign-out"}, q.buttons())
	diff(t, "start again", []string{"sign-in", "send-code", "deny"}, other.press(q, "sign-out", nil).buttons())
	diff(t, "mails", before+1, len(s.Mails(t)))
	// The code of somebody's browser is good in another, as a code is; but not twice.
	third := newVisitor(t, s)
	r := third.press(third.begin(a), "send-code", url.Values{"email": {"nobody@example.com"}})
	r = third.press(r, "code", url.Values{"email": {ada}, "code": {code}})
	if slices.Contains(r.buttons(), "allow") {
		t.Error("a code from a mail was good twice")
	}
}

// Some scopes only administrators can allow; others are not even asked.
func TestOAuthScopesOfAdministrators(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	signUp(t, s, "root@example.com")
	makeAdmin(t, s, "root@example.com")
	a := registerApp(t, s, "My editor")
	const asked = "read:tables read:branches write:branches write:schema"
	v := newVisitor(t, s)
	p := v.signIn(v.begin(a, "scope", asked), ada, pass)
	diff(t, "boxes of a user", []string{"read:tables", "read:branches"}, p.offered())
	p = v.press(p, "allow", url.Values{"scope": strings.Fields(asked)})
	code := answerOf(t, s, p.location, callback+"&", "a state & more").Get("code")
	diff(t, "scope of a user", "read:tables read:branches", issued(t, s.URL, a.redemption(code)).Scope)
	p = v.begin(a, "scope", "write:schema")
	diff(t, "nothing to allow", []string{"deny", "sign-out"}, p.buttons())
	wantAlert(t, p)

	admin := newVisitor(t, s)
	p = admin.signIn(admin.begin(a, "scope", asked), "root@example.com", pass)
	diff(t, "boxes of an administrator", strings.Fields(asked), p.offered())
	p = admin.press(p, "allow", nil)
	code = answerOf(t, s, p.location, callback+"&", "a state & more").Get("code")
	got := issued(t, s.URL, a.redemption(code))
	diff(t, "scope of an administrator", asked, got.Scope)
	// She is no administrator any more: what only they may is gone at the next refresh, and from the token at once.
	s.Exec(t, s.Control, "update users set role = 'authenticated' where email = 'root@example.com'")
	diff(t, "scopes of the token", []string{"read:tables", "read:branches"}, principalOf(t, s, got.Access).Scopes)
	diff(t, "scope after the refresh", "read:tables read:branches", issued(t, s.URL, a.renewal(got.Refresh)).Scope)
}

// Whatever strangers write is text on the page.
func TestOAuthPagesShowTextAsText(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>'{{.}}`
	a := registerApp(t, s, evil, "http://localhost:1/cb?a=%3Cscript%3E")
	v := newVisitor(t, s)
	p := v.begin(a, "state", evil)
	wantNoMarkup := func(p *page) {
		t.Helper()
		if len(p.nodes(atom.Script)) > 0 || len(p.nodes(atom.Img)) > 0 {
			t.Errorf("the page has a stranger's elements:\n%s", p.text)
		}
		wantSafePage(t, p)
	}
	wantNoMarkup(p)
	if !strings.Contains(p.content(), evil) {
		t.Errorf("the name is not shown as it is: %s", p.content())
	}
	p = v.signIn(p, evil+"@example.com", pass)
	wantNoMarkup(p)
	p = v.press(p, "send-code", url.Values{"email": {`"><img src=x>@example.com`}})
	wantNoMarkup(p)
	p = v.signIn(v.begin(a, "state", evil), ada, pass)
	wantNoMarkup(p)
	p = v.press(p, "allow", nil)
	answerOf(t, s, p.location, "http://localhost:1/cb?a=%3Cscript%3E&", evil)
	for _, q := range []url.Values{a.query("client_id", evil), a.query("redirect_uri", "http://localhost/"+evil)} {
		wantNoMarkup(v.open(authorizeURL(s, q)))
	}
}

// Passwords cannot be guessed on the page, and requests not made without end; a person reads when to come again.
func TestOAuthPagesAreLimited(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	a := registerApp(t, s, "My editor")
	until := func(what string, most int, once func() *page) {
		t.Helper()
		for range most {
			p := once()
			if p.status != http.StatusTooManyRequests {
				continue
			}
			wantSafePage(t, p)
			if p.header.Get("Retry-After") == "" || p.content() == "" {
				t.Errorf("%s: Retry-After %q: %s", what, p.header.Get("Retry-After"), p.content())
			}
			return
		}
		t.Errorf("%s: %d times in a row", what, most)
	}
	v := newVisitor(t, s)
	p := v.begin(a)
	until("a wrong password", 60, func() *page { return v.signIn(p, ada, "guess") })
	until("a code by mail", 60, func() *page { return v.press(p, "send-code", url.Values{"email": {ada}}) })
	until("a request", 300, func() *page { return v.open(authorizeURL(s, a.query())) })
}
