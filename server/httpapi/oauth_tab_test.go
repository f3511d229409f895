package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/boughdb/bough/server/servertest"
)

// browserPath is where a browser is; "" where none is installed.
func browserPath() string {
	for _, name := range []string{"chromium-headless-shell", "headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// newBrowser starts a browser without a past. Each tab that openTab opens in it is a person of her own.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	path := browserPath()
	if path == "" {
		t.Skip("no Chromium is installed, so nothing shows how the pages work in a browser; chromium-headless-shell is enough")
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		// There is no world but this machine.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"), chromedp.Flag("no-proxy-server", true),
	)...)
	t.Cleanup(stop)
	browser, end := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		end()
		_ = chromedp.WaitClosed(browser) // it writes to its directory to the last
	})
	if err := chromedp.Do(browser); err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
	return browser
}

// tab is a person's browser window.
type tab struct {
	t   *testing.T
	ctx context.Context
}

func openTab(t *testing.T, browser context.Context) tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	t.Cleanup(cancel)
	return tab{t, ctx}
}

// do takes steps, and says what the page shows when one cannot be taken in time.
func (b tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + ": " + document.body.innerText`))
		b.t.Fatalf("%s: %v; the page is %s", what, err, text)
	}
}

func (b tab) open(to string) { b.t.Helper(); b.do("opening "+to, chromedp.Navigate(to)) }
func (b tab) see(what string) {
	b.t.Helper()
	b.do("waiting for "+what, chromedp.WaitVisible(chromedp.CSS(what)))
}
func (b tab) click(what string) {
	b.t.Helper()
	b.do("clicking "+what, chromedp.Click(chromedp.CSS(what)))
}
func (b tab) press(keys string) { b.t.Helper(); b.do("pressing keys", chromedp.KeyEvent(keys)) }

// fill replaces what is in a field, as a person types.
func (b tab) fill(what, text string) {
	b.t.Helper()
	b.do("filling in "+what, chromedp.Clear(chromedp.CSS(what)), chromedp.SendKeys(chromedp.CSS(what), text))
}

// choose presses the button with that value.
func (b tab) choose(action string) { b.t.Helper(); b.click(`button[value="` + action + `"]`) }

// evaluate returns what a script says of the page.
func evaluate[T any](b tab, script string) T {
	b.t.Helper()
	got, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("%v in %s", err, script)
	}
	return got
}

// listener is an application that waits on loopback for its user to come back.
type listener struct {
	url  string
	came chan url.Values
}

func listen(t *testing.T) listener {
	t.Helper()
	l := listener{came: make(chan url.Values, 10)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cb" {
			l.came <- r.URL.Query()
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>done</title><p id=done>Close this window."))
	}))
	t.Cleanup(server.Close)
	l.url = server.URL + "/cb"
	return l
}

// answer waits for the user to come back.
func (l listener) answer(t *testing.T, s *servertest.Server, state string) url.Values {
	t.Helper()
	select {
	case got := <-l.came:
		diff(t, "iss", []string{s.URL}, got["iss"])
		diff(t, "state", []string{state}, got["state"])
		return got
	case <-time.After(time.Minute):
		t.Fatal("the browser did not come back to the application")
		return nil
	}
}
