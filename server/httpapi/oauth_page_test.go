package httpapi_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/boughdb/bough/gen/client"
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

// The pages belong to one browser and one request, and do one thing.
func TestOAuthPagesAreNobodyElses(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	signUp(t, s, "eve@example.com")
	a := registerApp(t, s, "My editor")
	grants := func() int64 {
		t.Helper()
		return servertest.Value[int64](t, s.Control, "select count(*) from oauth_grants")
	}
	ready := func(t *testing.T, scopes string) (*visitor, *page) {
		t.Helper()
		v := newVisitor(t, s)
		return v, v.signIn(v.begin(a, "scope", scopes), ada, pass)
	}
	nothing := func(t *testing.T, p *page) {
		t.Helper()
		if p.status < 400 || p.location != "" {
			t.Errorf("it was answered %d, location %q", p.status, p.location)
		}
	}
	t.Run("forms without their token", func(t *testing.T) {
		v, p := ready(t, "read:tables")
		was := grants()
		_, other := ready(t, "read:tables")
		foreign, _ := other.form(t)
		for name, token := range map[string]string{"none": "", "of nobody": newVerifier(), "of another browser": foreign.Get("csrf")} {
			for _, action := range []string{"allow", "deny", "sign-out", "sign-in"} {
				got := v.press(p, "allow", url.Values{"csrf": {token}, "action": {action}})
				wantProblem(t, got, http.StatusForbidden, "")
				if got.location != "" {
					t.Errorf("%s with a token %s", action, name)
				}
			}
		}
		diff(t, "grants", was, grants())
		if got := v.open(p.url.String()); !slices.Contains(got.buttons(), "allow") {
			t.Errorf("the request is gone or the browser signed out: %d", got.status)
		}
	})
	t.Run("forms of other sites", func(t *testing.T) {
		v, p := ready(t, "read:tables")
		form, _ := p.form(t)
		form.Set("action", "allow")
		for _, headers := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"},
		} {
			nothing(t, v.do(http.MethodPost, p.url.String(), form, headers...))
		}
		if got := v.do(http.MethodPost, p.url.String(), form, "Sec-Fetch-Site", "same-origin", "Origin", "null"); got.location == "" {
			t.Errorf("the page's own form, of which browsers say no origin, was answered %d: %s", got.status, got.content())
		}
	})
	t.Run("another browser", func(t *testing.T) {
		v, p := ready(t, "read:tables")
		form, _ := p.form(t)
		form.Set("action", "allow")
		stranger := newVisitor(t, s)
		nothing(t, stranger.open(p.url.String()))
		nothing(t, stranger.do(http.MethodPost, p.url.String(), form))
		eve, hers := newVisitor(t, s), registerApp(t, s, "hers")
		q := eve.signIn(eve.begin(hers), "eve@example.com", pass)
		nothing(t, eve.open(p.url.String()))
		nothing(t, eve.do(http.MethodPost, p.url.String(), form))
		own, _ := q.form(t)
		own.Set("action", "allow")
		nothing(t, eve.do(http.MethodPost, p.url.String(), own))
		if got := v.press(p, "allow", nil); got.location == "" {
			t.Errorf("the request is gone: %d", got.status)
		}
	})
	t.Run("a cookie from before signing in", func(t *testing.T) {
		v := newVisitor(t, s)
		p := v.begin(a)
		planted := v.http.Jar.Cookies(p.url)
		q := v.signIn(p, ada, pass)
		if after := v.http.Jar.Cookies(p.url); len(planted) == 0 || len(after) != len(planted) || after[0].Value == planted[0].Value {
			t.Fatalf("the cookie is the same before and after: %v %v", planted, after)
		}
		thief := newVisitor(t, s)
		thief.http.Jar.SetCookies(p.url, planted)
		nothing(t, thief.open(q.url.String()))
		if got := thief.begin(a); !slices.Contains(got.buttons(), "sign-in") {
			t.Error("the cookie from before signs in")
		}
	})
	t.Run("a form that was sent before", func(t *testing.T) {
		v, p := ready(t, "read:tables")
		if got := v.press(p, "allow", nil); got.location == "" {
			t.Fatalf("%d", got.status)
		}
		was := grants()
		for _, action := range []string{"allow", "deny"} {
			nothing(t, v.press(p, action, nil))
		}
		nothing(t, v.open(p.url.String()))
		diff(t, "grants", was, grants())
	})
	t.Run("a request that waited too long", func(t *testing.T) {
		v, p := ready(t, "read:tables")
		id := p.url.Path[strings.LastIndex(p.url.Path, "/")+1:]
		s.Exec(t, s.Control, "update oauth_requests set expires_at = now() - interval '1 second' where id = $1", id)
		was := grants()
		for _, action := range []string{"allow", "deny"} {
			nothing(t, v.press(p, action, nil))
		}
		got := v.open(p.url.String())
		nothing(t, got)
		wantSafePage(t, got)
		diff(t, "grants", was, grants())
	})
	t.Run("more than was asked for", func(t *testing.T) {
		v, p := ready(t, "read:tables read:schema")
		got := v.press(p, "allow", url.Values{
			"scope": {"read:schema", "write:tables", "write:schema", "all"}, "client_id": {"mcp_other"}, "redirect_uri": {"https://evil.example/"}, "resource": {"https://evil.example"},
		})
		code := answerOf(t, s, got.location, callback+"&", "a state & more").Get("code")
		diff(t, "scope", "read:schema", issued(t, s.URL, a.redemption(code)).Scope)
		v, p = ready(t, "read:tables")
		got = v.press(p, "allow", url.Values{"scope": {"write:tables"}})
		diff(t, "only more", "access_denied", answerOf(t, s, got.location, callback+"&", "a state & more").Get("error"))
	})
	t.Run("what is no request", func(t *testing.T) {
		v := newVisitor(t, s)
		v.begin(a) // it has a cookie
		for _, id := range []string{"01890000-0000-7000-8000-000000000000", "x", "..%2f..", "%00", "' or true"} {
			got := v.open(s.URL + "/mcp/oauth/authorize/" + url.PathEscape(id))
			nothing(t, got)
		}
	})
	t.Run("who is disabled meanwhile", func(t *testing.T) {
		signUp(t, s, "off@example.com")
		v := newVisitor(t, s)
		p := v.signIn(v.begin(a), "off@example.com", pass)
		disabled := true
		must[*client.UpdateUserResponse](t, 200)(s.Service(t).UpdateUserWithResponse(t.Context(), userID(t, s, "off@example.com"), client.UpdateUserRequest{Disabled: &disabled}))
		got := v.press(p, "allow", nil)
		nothing(t, got)
		got = v.signIn(v.begin(a), "off@example.com", pass)
		if slices.Contains(got.buttons(), "allow") {
			t.Error("a disabled user may sign in")
		}
		wantAlert(t, got)
	})
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
