package httpapi_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/boughdb/bough/server/servertest"
)

// visitor is a person with a browser that runs no scripts: it keeps cookies, follows redirects within the server and
// fills in forms.
type visitor struct {
	t    *testing.T
	s    *servertest.Server
	http *http.Client
}

// page is what the visitor sees, or, with a location, where another site is about to be seen.
type page struct {
	status   int
	header   http.Header
	url      *url.URL
	text     string
	doc      *html.Node
	location string
}

func newVisitor(t *testing.T, s *servertest.Server) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	home, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t, s, &http.Client{Transport: servertest.Contract(t), Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Scheme != home.Scheme || r.URL.Host != home.Host {
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

func (v *visitor) do(method, to string, form url.Values, headers ...string) *page {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, to, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", formType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := v.http.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	p := &page{status: resp.StatusCode, header: resp.Header, url: resp.Request.URL, text: string(data), location: resp.Header.Get("Location")}
	if p.doc, err = html.Parse(strings.NewReader(p.text)); err != nil {
		v.t.Fatal(err)
	}
	return p
}

func (v *visitor) open(to string) *page {
	v.t.Helper()
	return v.do(http.MethodGet, to, nil)
}

// begin goes where the application sends its user.
func (v *visitor) begin(a app, changes ...string) *page {
	v.t.Helper()
	p := v.open(authorizeURL(v.s, a.query(changes...)))
	if p.status != http.StatusOK {
		v.t.Fatalf("the application's request was answered %d, location %q:\n%s", p.status, p.location, p.text)
	}
	return p
}

// press presses the button of the page's form with that value. values replace what the form has.
func (v *visitor) press(p *page, action string, values url.Values) *page {
	v.t.Helper()
	form, to := p.form(v.t)
	for name, all := range values {
		form[name] = all
	}
	form.Set("action", action)
	if !slices.Contains(p.buttons(), action) {
		v.t.Fatalf("there is no button %q; there are %q:\n%s", action, p.buttons(), p.text)
	}
	return v.do(http.MethodPost, p.url.ResolveReference(to).String(), form)
}

// signIn signs in on the page that asks for it.
func (v *visitor) signIn(p *page, email, password string) *page {
	v.t.Helper()
	return v.press(p, "sign-in", url.Values{"email": {email}, "password": {password}})
}

// code lets the visitor sign in with the password of all test users and allow the scopes, all that are asked for where
// none are named. It returns the code that the application gets.
func (v *visitor) code(a app, email string, scopes ...string) string {
	v.t.Helper()
	p := v.begin(a, "scope", strings.Join(scopes, " "))
	if slices.Contains(p.buttons(), "sign-in") {
		p = v.signIn(p, email, pass)
	}
	p = v.press(p, "allow", nil)
	if p.location == "" {
		v.t.Fatalf("allowing was answered %d:\n%s", p.status, p.text)
	}
	answer := answerOf(v.t, v.s, p.location, a.callback, a.query().Get("state"))
	if answer.Get("code") == "" {
		v.t.Fatalf("no code in %s", p.location)
	}
	return answer.Get("code")
}

// nodes are the elements of that kind.
func (p *page) nodes(kind atom.Atom) (found []*html.Node) {
	for n := range p.doc.Descendants() {
		if n.Type == html.ElementNode && n.DataAtom == kind {
			found = append(found, n)
		}
	}
	return found
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func hasAttribute(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// form is what a browser would send of the page's one form, without a button, and where to.
func (p *page) form(t *testing.T) (url.Values, *url.URL) {
	t.Helper()
	forms := p.nodes(atom.Form)
	if len(forms) != 1 || !strings.EqualFold(attribute(forms[0], "method"), "post") {
		t.Fatalf("the page of status %d has %d forms, not one that posts:\n%s", p.status, len(forms), p.text)
	}
	to, err := url.Parse(attribute(forms[0], "action"))
	if err != nil {
		t.Fatal(err)
	}
	values := url.Values{}
	for _, in := range p.nodes(atom.Input) {
		if attribute(in, "type") == "checkbox" && !hasAttribute(in, "checked") {
			continue
		}
		values.Add(attribute(in, "name"), attribute(in, "value"))
	}
	return values, to
}

// buttons are what the page's buttons stand for.
func (p *page) buttons() (values []string) {
	for _, b := range p.nodes(atom.Button) {
		values = append(values, attribute(b, "value"))
	}
	return values
}

// offered are the scopes that the page has boxes for.
func (p *page) offered() (scopes []string) {
	for _, in := range p.nodes(atom.Input) {
		if attribute(in, "type") == "checkbox" {
			scopes = append(scopes, attribute(in, "value"))
		}
	}
	return scopes
}

// content is the text that people read.
func (p *page) content() string {
	var b strings.Builder
	for _, m := range p.nodes(atom.Main) {
		for n := range m.Descendants() {
			if n.Type == html.TextNode {
				b.WriteString(n.Data + " ")
			}
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
