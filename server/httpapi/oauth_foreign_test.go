package httpapi_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/servertest"
)

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
	t.Run("who should have signed in again", func(t *testing.T) {
		v, _ := ready(t, "read:tables")
		p := v.begin(a, "prompt", "login")
		form, _ := p.form(t)
		form.Set("action", "allow")
		form["scope"] = []string{"read:tables"}
		was := grants()
		got := v.do(http.MethodPost, p.url.String(), form)
		nothing(t, got)
		diff(t, "buttons", []string{"sign-in", "send-code", "deny"}, got.buttons())
		diff(t, "grants", was, grants())
	})
	t.Run("who signs out everywhere meanwhile", func(t *testing.T) {
		session := signUp(t, s, "out@example.com")
		before := connected(t, s, a, "out@example.com")
		v := newVisitor(t, s)
		p := v.signIn(v.begin(a), "out@example.com", pass)
		global := client.SignOutScopeGlobal
		must[*client.SignOutResponse](t, 204)(bearer(t, s, session).SignOutWithResponse(t.Context(), nil, client.SignOutRequest{Scope: &global}))
		got := v.press(p, "allow", nil)
		nothing(t, got)
		diff(t, "buttons", []string{"sign-in", "send-code", "deny"}, got.buttons())
		principalOf(t, s, before.Access) // what she let in before stays, until she shuts it out
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
