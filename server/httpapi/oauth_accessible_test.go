package httpapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/boughdb/bough/server/servertest"
)

// pale lists the texts, and the edges of fields, whose colour is too near to that of their ground (WCAG 2.2, success
// criteria 1.4.3 and 1.4.11).
const pale = `(() => {
	const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3]));
	const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const ground = e => e ? over(parse(getComputedStyle(e).backgroundColor), ground(e.parentElement)) : [255, 255, 255];
	const contrast = (colour, below) => {
		const one = light(over(parse(colour), below)), two = light(below);
		return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
	};
	const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let n = 0;
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement, text = texts.currentNode.data.trim();
		if (!text || !e.checkVisibility()) continue;
		n++;
		const ratio = contrast(getComputedStyle(e).color, ground(e));
		if (ratio < 4.5) found.push(text + ': ' + ratio.toFixed(2));
	}
	for (const field of document.querySelectorAll('input:not([type=hidden]):not([type=checkbox])')) {
		const ratio = contrast(getComputedStyle(field).borderTopColor, ground(field.parentElement));
		if (ratio < 3) found.push('edge of ' + field.id + ': ' + ratio.toFixed(2));
	}
	return n ? found : ['there is no text'];
})()`

// The pages in both colour schemes and on a phone, read as a screen reader reads them.
func TestOAuthPagesAreAccessible(t *testing.T) {
	t.Parallel()
	browser := newBrowser(t)
	s := servertest.Start(t, unlimited)
	signUp(t, s, ada)
	makeAdmin(t, s, ada)
	const every = "read:tables write:tables execute:functions execute:rpc read:storage write:storage execute:jobs read:vectors read:schema read:branches write:branches write:schema"
	a := registerApp(t, s, "An editor with a name as long as "+strings.Repeat("x", 150), "http://localhost/cb")
	start := func(b tab) {
		b.open(authorizeURL(s, a.query("scope", every)))
		b.see("#email")
	}
	for _, c := range []struct {
		name    string
		goTo    func(b tab)
		title   string
		widgets []string // roles and names of what can be used
	}{
		{"sign-in", start, "Sign in to Bough", []string{
			"textbox E-mail address", "textbox Password", "button Sign in", "button Send me a code by mail instead", "button Cancel",
		}},
		{"wrong", func(b tab) {
			start(b)
			b.fill("#email", ada)
			b.fill("#password", "wrong password")
			b.choose("sign-in")
			b.see("[role=alert]")
		}, "Sign in to Bough", []string{
			"textbox E-mail address", "textbox Password", "button Sign in", "button Send me a code by mail instead", "button Cancel",
		}},
		{"code", func(b tab) {
			start(b)
			b.fill("#email", "nobody@example.com")
			b.choose("send-code")
			b.see("#code")
		}, "Look into your mail", []string{"textbox The six digits from the mail", "button Sign in", "button Start again"}},
		{"consent", func(b tab) {
			start(b)
			b.signIn(ada)
		}, "Let this application use Bough for you?", slices.Concat(slices.Repeat([]string{"checkbox"}, 7), // the other scopes lead to nothing
			[]string{"button Allow", "button Do not allow", "button Not you? Sign in as somebody else"})},
		{"problem", func(b tab) {
			b.open(authorizeURL(s, a.query("client_id", "mcp_nobodyknowsthisone00")))
			b.see("h1")
		}, "The application is not known here", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := openTab(t, browser)
			c.goTo(b)
			diff(t, "language, headings, title", "en 1 "+c.title+" "+c.title, evaluate[string](b,
				`[document.documentElement.lang, document.querySelectorAll('h1').length, document.querySelector('h1').innerText, document.title].join(' ')`))
			diff(t, "fields without a label", 0, evaluate[int](b,
				`[...document.querySelectorAll('input:not([type=hidden])')].filter(e => e.labels.length !== 1 || !e.labels[0].innerText.trim()).length`))
			diff(t, "ids that are there twice", 0, evaluate[int](b,
				`(ids => ids.length - new Set(ids).size)([...document.querySelectorAll('[id]')].map(e => e.id))`))
			diff(t, "descriptions that lead nowhere", 0, evaluate[int](b,
				`[...document.querySelectorAll('[aria-describedby]')].filter(e => !document.getElementById(e.getAttribute('aria-describedby'))?.innerText.trim()).length`))
			checkWidgets(t, b, c.widgets)
			for _, scheme := range []string{"light", "dark"} {
				emulate(t, b, scheme, 1000)
				diff(t, "what is pale in "+scheme, []string{}, evaluate[[]string](b, pale))
				shoot(t, b, c.name+"-"+scheme)
			}
			emulate(t, b, "light", 360)
			diff(t, "width on a phone", 360, evaluate[int](b, `document.documentElement.scrollWidth`))
			small := evaluate[[]string](b, `[...document.querySelectorAll('button, input:not([type=hidden]):not([type=checkbox])')]
				.filter(e => e.getBoundingClientRect().height < 24).map(e => e.innerText || e.id)`)
			diff(t, "what fingers miss (WCAG 2.2, success criterion 2.5.8)", []string{}, small)
			shoot(t, b, c.name+"-phone")
		})
	}
}

// checkWidgets compares what can be used on the page, as assistive technology is told of it. A checkbox's name is what
// the page says of it, and it has a description.
func checkWidgets(t *testing.T, b tab, want []string) {
	t.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	var got, groups []string
	for _, n := range tree.Nodes {
		name := text(n.Name)
		switch role := text(n.Role); role {
		case "textbox", "button":
			got = append(got, role+" "+name)
		case "checkbox":
			got = append(got, role)
			if name == "" || text(n.Description) == "" {
				t.Errorf("a checkbox has the name %q and the description %q", name, text(n.Description))
			}
		case "group":
			groups = append(groups, name)
		}
	}
	diff(t, "widgets", slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got)))
	if slices.Contains(want, "checkbox") {
		diff(t, "groups", []string{"It asks to be allowed to"}, groups)
	}
}

func emulate(t *testing.T, b tab, scheme string, width int64) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.do(fmt.Sprintf("a window of %d pixels", width), chromedp.EmulateViewport(width, 800))
}

// shoot keeps a picture of the page for people to look at, where BOUGH_TEST_SHOTS names a directory.
func shoot(t *testing.T, b tab, name string) {
	t.Helper()
	dir := os.Getenv("BOUGH_TEST_SHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
		t.Fatal(err)
	}
}
