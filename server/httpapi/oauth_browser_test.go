package httpapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/boughdb/bough/server/servertest"
)

// inBrowser is a server, a browser, and a user who can sign in.
type inBrowser struct {
	s       *servertest.Server
	browser context.Context
}

// aState is what applications of these tests remember their request by.
const aState = "a state & more"

// begin opens the page of a new application's request.
func (e inBrowser) begin(t *testing.T, changes ...string) (tab, app, listener) {
	t.Helper()
	l := listen(t)
	a := registerApp(t, e.s, "My editor", l.url)
	b := openTab(t, e.browser)
	b.open(authorizeURL(e.s, a.query(changes...)))
	b.see("#email")
	return b, a, l
}

// signIn signs the user in and waits for the question.
func (b tab) signIn(email string) {
	b.t.Helper()
	b.fill("#email", email)
	b.fill("#password", pass)
	b.choose("sign-in")
	b.see("fieldset")
}

func TestOAuthInABrowser(t *testing.T) {
	t.Parallel()
	browser := newBrowser(t)
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	e := inBrowser{s, browser}

	t.Run("with a password", func(t *testing.T) {
		t.Parallel()
		b, a, l := e.begin(t, "scope", "read:tables write:tables read:schema")
		b.fill("#email", ada)
		b.fill("#password", "not her password")
		b.choose("sign-in")
		b.see(".problem")
		diff(t, "focus after a wrong password", "password", evaluate[string](b, `document.activeElement.id`))
		b.signIn(ada)
		b.click(`input[value="write:tables"]`)
		b.choose("allow")
		b.see("#done")
		got := issued(t, s.URL, a.redemption(l.answer(t, s, aState).Get("code")))
		diff(t, "scope", "read:tables read:schema", got.Scope)
		// Back is a page that says what happened, not a form that allows again.
		b.do("going back", chromedp.NavigateBack())
		b.see("h1")
		if n := evaluate[int](b, `document.querySelectorAll('form').length`); n != 0 {
			t.Errorf("going back shows %d forms", n)
		}
	})
	t.Run("with a code from a mail", func(t *testing.T) {
		t.Parallel()
		const grace = "grace@example.com" // her mails are hers alone
		signUp(t, s, grace)
		b, a, l := e.begin(t)
		b.fill("#email", grace)
		b.choose("send-code")
		b.see("#code")
		b.fill("#code", mailCode(t, mailTo(t, s, grace)))
		b.choose("code")
		b.see("fieldset")
		b.choose("allow")
		b.see("#done")
		got := issued(t, s.URL, a.redemption(l.answer(t, s, aState).Get("code")))
		diff(t, "user", any(grace), principalOf(t, s, got.Access).Claims["email"])
	})
	t.Run("who says no", func(t *testing.T) {
		t.Parallel()
		b, _, l := e.begin(t)
		b.choose("deny")
		b.see("#done")
		got := l.answer(t, s, aState)
		if got.Get("error") != "access_denied" || got.Has("code") {
			t.Errorf("answer %v", got)
		}
	})
	t.Run("by keyboard alone", func(t *testing.T) {
		t.Parallel()
		b, a, l := e.begin(t, "scope", "read:tables write:tables")
		focused := func(want string) {
			t.Helper()
			diff(t, "focus", want, evaluate[string](b, `document.activeElement.id || document.activeElement.value || document.activeElement.tagName`))
			if evaluate[string](b, `getComputedStyle(document.activeElement).outlineStyle`) == "none" {
				t.Errorf("nobody sees that %s has the focus", want)
			}
		}
		focused("email")
		b.press(ada)
		b.press(kb.Tab)
		focused("password")
		b.press(pass)
		b.press(kb.Enter)
		b.see("fieldset")
		b.press(kb.Tab)
		focused("read:tables")
		b.press(kb.Tab)
		focused("write:tables")
		b.press(" ")
		b.press(kb.Tab)
		focused("allow")
		b.press(kb.Enter)
		b.see("#done")
		diff(t, "scope", "read:tables", issued(t, s.URL, a.redemption(l.answer(t, s, aState).Get("code"))).Scope)
	})
	t.Run("on to a program with a scheme of its own", func(t *testing.T) {
		t.Parallel()
		const cursor = "cursor://anysphere.cursor-mcp/oauth/callback"
		a := registerApp(t, s, "Cursor", cursor)
		b := openTab(t, browser)
		asked, blocked := make(chan string, 10), make(chan string, 10)
		err := chromedp.Listen(b.ctx, func(event any) {
			switch e := event.(type) {
			case *network.EventRequestWillBeSent:
				if strings.HasPrefix(e.Request.URL, cursor) {
					asked <- e.Request.URL
				}
			case *network.EventLoadingFailed:
				if e.BlockedReason != "" {
					blocked <- string(e.BlockedReason)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		b.open(authorizeURL(s, a.query()))
		b.see("#email")
		b.signIn(ada)
		b.choose("allow")
		select {
		case to := <-asked:
			if answerOf(t, s, to, cursor, aState).Get("code") == "" {
				t.Errorf("no code in %s", to)
			}
		case why := <-blocked:
			t.Errorf("the browser was kept from going there: %s", why)
		case <-time.After(time.Minute):
			t.Error("the browser did not try to go there")
		}
	})
	t.Run("where no script runs", func(t *testing.T) {
		t.Parallel()
		l := listen(t)
		a := registerApp(t, s, `<script>window.ran = 1</script><img src=x onerror="window.ran = 2">`, l.url)
		b := openTab(t, browser)
		b.open(authorizeURL(s, a.query("state", `"><script>window.ran = 3</script>`)))
		b.see("#email")
		stays := func() {
			t.Helper()
			ran := evaluate[string](b, `(() => {
				const found = document.scripts.length + document.images.length;
				const s = document.createElement('script'); s.textContent = 'window.ran = 4'; document.body.append(s); s.remove();
				const d = document.createElement('div'); d.setAttribute('onclick', 'window.ran = 5'); document.body.append(d); d.click(); d.remove();
				return window.ran + ' ' + found;
			})()`)
			diff(t, "what ran, and how many scripts and images there were", "undefined 0", ran)
		}
		stays()
		b.signIn(ada)
		stays()
		b.choose("allow")
		b.see("#done")
	})
}

// mailTo waits for the mail with a code to the address.
func mailTo(t *testing.T, s *servertest.Server, address string) (text string) {
	t.Helper()
	eventually(t, "a mail to "+address, func() bool {
		for _, mail := range s.Mails(t) {
			if strings.Contains(mail, "To: <"+address+">") && sixDigits.MatchString(mail) {
				text = mail
			}
		}
		return text != ""
	})
	return text
}
