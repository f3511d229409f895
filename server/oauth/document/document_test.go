package document_test

import (
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/oauth/document"
	"github.com/boughdb/bough/server/safedial"
)

// host is a host of metadata documents on loopback.
type host struct {
	*httptest.Server
	requests atomic.Int32
	opts     safedial.Options // permit loopback and trust the host's certificate
}

func setup(t *testing.T, handler http.HandlerFunc) *host {
	t.Helper()
	h := &host{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.requests.Add(1)
		handler(w, r)
	}))
	h.StartTLS()
	t.Cleanup(h.Close)
	roots := x509.NewCertPool()
	roots.AddCert(h.Certificate())
	h.opts = safedial.Options{AllowLoopback: true, RootCAs: roots}
	return h
}

// fetch gets the document of a client id, "/client.json" on the host where none is given.
func (h *host) fetch(t *testing.T, clientID ...string) (*document.Document, error) {
	t.Helper()
	client := safedial.Client(h.opts)
	t.Cleanup(client.CloseIdleConnections)
	return document.Fetch(t.Context(), client, append(clientID, h.URL+"/client.json")[0])
}

// named returns a client id on the host by one of the names that its certificate is for.
func (h *host) named(name string) string {
	return "https://" + name + ":" + h.URL[strings.LastIndexByte(h.URL, ':')+1:] + "/client.json"
}

func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// members are those of a document that is good, but for what a case puts over it. A nil takes a member away.
func members(r *http.Request, over map[string]any) string {
	m := map[string]any{
		"client_id": "https://" + r.Host + r.URL.RequestURI(), "client_name": "Example", "redirect_uris": []string{"http://127.0.0.1/callback"},
	}
	for name, value := range over {
		if m[name] = value; value == nil {
			delete(m, name)
		}
	}
	body, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(body)
}

func TestFetch(t *testing.T) {
	t.Parallel()
	type wanted = document.Document
	for name, c := range map[string]struct {
		over map[string]any
		want wanted
	}{
		"the least": {nil, wanted{ClientName: "Example", RedirectURIs: []string{"http://127.0.0.1/callback"}}},
		"all": {
			map[string]any{
				"client_uri": "https://example.com/", "logo_uri": "https://example.com/logo.png", "scope": "read:tables write:tables", "token_endpoint_auth_method": "none",
				"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "x": map[string]any{"client_id": "y", "z": []int{1}},
			},
			wanted{
				ClientName: "Example", RedirectURIs: []string{"http://127.0.0.1/callback"}, ClientURI: "https://example.com/", LogoURI: "https://example.com/logo.png",
				Scope: "read:tables write:tables",
			},
		},
		// ChatGPT's, which can do without the authentication that it prefers.
		"another method is preferred": {
			map[string]any{
				"client_name": "ChatGPT", "redirect_uris": []string{"https://chatgpt.com/connector_platform_oauth_redirect"}, "token_endpoint_auth_method": "private_key_jwt",
				"token_endpoint_auth_methods_supported": []string{"none", "private_key_jwt"}, "jwks_uri": "https://chatgpt.com/oauth/jwks.json",
			},
			wanted{ClientName: "ChatGPT", RedirectURIs: []string{"https://chatgpt.com/connector_platform_oauth_redirect"}},
		},
		"odd entries": {
			map[string]any{
				"redirect_uris": []string{"javascript:alert(1)", "https://a.example/cb", "", "https://a.example/cb", "http://a.example/cb", "cursor://a/cb", "https://*.example/"},
				"client_uri":    "javascript:alert(1)", "logo_uri": "http://localhost/logo.png",
			},
			wanted{ClientName: "Example", RedirectURIs: []string{"https://a.example/cb", "cursor://a/cb"}},
		},
		"no name":    {map[string]any{"client_name": nil}, wanted{ClientName: "127.0.0.1", RedirectURIs: []string{"http://127.0.0.1/callback"}}},
		"blank name": {map[string]any{"client_name": " "}, wanted{ClientName: "127.0.0.1", RedirectURIs: []string{"http://127.0.0.1/callback"}}},
		"other script": {
			map[string]any{"client_name": " Bücher 書籍 ", "scope": nil},
			wanted{ClientName: "Bücher 書籍", RedirectURIs: []string{"http://127.0.0.1/callback"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := setup(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "public, max-age=3600")
				answer(w, members(r, c.over))
			})
			c.want.ClientID = h.URL + "/client.json"
			c.want.Expires = time.Now().Add(time.Hour)
			doc, err := h.fetch(t)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, doc, cmpopts.EquateApproxTime(time.Minute)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFetchAsksPlainly(t *testing.T) {
	t.Parallel()
	var got http.Header
	h := setup(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("Content-Type", "application/cimd+json; charset=UTF-8")
		w.Header().Set("Set-Cookie", "x=1")
		_, _ = io.WriteString(w, members(r, nil))
	})
	if _, err := h.fetch(t, h.URL+"/clients/1.json?v=1"); err != nil {
		t.Fatal(err)
	}
	want := http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"Bough (OAuth client metadata)"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("header of the request (-want +got):\n%s", diff)
	}
}

func TestFetchRefusesDocuments(t *testing.T) {
	t.Parallel()
	with := func(over map[string]any) func(*http.Request) string {
		return func(r *http.Request) string { return members(r, over) }
	}
	// raw puts JSON before the members of a good document.
	raw := func(s string) func(*http.Request) string {
		return func(r *http.Request) string { return strings.Replace(members(r, nil), "{", "{"+s+",", 1) }
	}
	is := func(s string) func(*http.Request) string { return func(*http.Request) string { return s } }
	for name, c := range map[string]struct {
		body func(r *http.Request) string
		want string
	}{
		"empty":                  {is(""), "not a JSON object"},
		"not JSON":               {is("<html>"), "not a JSON object"},
		"an array":               {is("[]"), "not a JSON object"},
		"null":                   {is("null"), "not a JSON object"},
		"cut off":                {is(`{"client_id":"x"`), "not a JSON object"},
		"two values":             {func(r *http.Request) string { return members(r, nil) + "{}" }, "not a JSON object"},
		"a byte order mark":      {func(r *http.Request) string { return "\ufeff" + members(r, nil) }, "not a JSON object"},
		"deep":                   {is(strings.Repeat("[", 5000)), "not a JSON object"},
		"not UTF-8":              {raw("\"x\":\"\xff\""), "not UTF-8"},
		"a member twice":         {raw(`"client_name":"Other"`), "a member twice"},
		"a member twice, below":  {raw(`"x":[{"a":1,"a":2}]`), "a member twice"},
		"a member twice, hidden": {raw(`"client\u005fid":"x"`), "a member twice"},
		"no client_id":           {with(map[string]any{"client_id": nil}), "another client_id"},
		"another client_id":      {with(map[string]any{"client_id": "https://claude.ai/client.json"}), "another client_id"},
		"longer client_id": {func(r *http.Request) string {
			return members(r, map[string]any{"client_id": "https://" + r.Host + "/client.json/"})
		}, "another client_id"},
		"client_id in capitals": {func(r *http.Request) string {
			return members(r, map[string]any{"client_id": "HTTPS://" + r.Host + "/client.json"})
		}, "another client_id"},
		"CLIENT_ID":                {func(r *http.Request) string { return strings.Replace(members(r, nil), "client_id", "CLIENT_ID", 1) }, "another client_id"},
		"client_id is a number":    {with(map[string]any{"client_id": 1}), "a client_id that is not a string"},
		"client_name is an object": {with(map[string]any{"client_name": map[string]any{}}), "a client_name that is not a string"},
		"scope is an array":        {with(map[string]any{"scope": []string{"read:tables"}}), "a scope that is not a string"},
		"client_name turns text":   {with(map[string]any{"client_name": "Claude\u202egro.live"}), "client_name that cannot be shown"},
		"client_name has lines":    {with(map[string]any{"client_name": "Claude\nApproved"}), "client_name that cannot be shown"},
		"client_name is long":      {with(map[string]any{"client_name": strings.Repeat("é", 121)}), "client_name that cannot be shown"},
		"client_secret":            {with(map[string]any{"client_secret": "x"}), "the member client_secret"},
		"client_secret is null":    {raw(`"client_secret":null`), "the member client_secret"},
		"client_secret_expires_at": {with(map[string]any{"client_secret_expires_at": 0}), "the member client_secret_expires_at"},
		"client_secret_basic":      {with(map[string]any{"token_endpoint_auth_method": "client_secret_basic"}), "must be none"},
		"private_key_jwt":          {with(map[string]any{"token_endpoint_auth_method": "private_key_jwt"}), "must be none"},
		"only other methods":       {with(map[string]any{"token_endpoint_auth_methods_supported": []string{"private_key_jwt"}}), "must be none"},
		"method is an array":       {with(map[string]any{"token_endpoint_auth_method": []string{"none"}}), "not a string"},
		"no redirect_uris":         {with(map[string]any{"redirect_uris": nil}), "no redirect_uris"},
		"empty redirect_uris":      {with(map[string]any{"redirect_uris": []string{}}), "no redirect_uris"},
		"redirect_uris is null":    {with(map[string]any{"redirect_uris": json.RawMessage("null")}), "no redirect_uris"},
		"redirect_uris is text":    {with(map[string]any{"redirect_uris": "https://a.example/"}), "array of strings"},
		"redirect_uris of numbers": {with(map[string]any{"redirect_uris": []any{"https://a.example/", 1}}), "array of strings"},
		"no usable redirect_uris":  {with(map[string]any{"redirect_uris": []string{"data:,x", "http://a.example/"}}), "must use https"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := setup(t, func(w http.ResponseWriter, r *http.Request) { answer(w, c.body(r)) })
			doc, err := h.fetch(t)
			refused(t, doc, err, document.ErrInvalid, c.want)
		})
	}
}

// refused checks that there is an error of the kind, with a message that says what is wanted and that can be told.
func refused(t *testing.T, doc *document.Document, err error, kind *fault.Error, want string) {
	t.Helper()
	var f *fault.Error
	if doc != nil || !errors.Is(err, kind) || !errors.As(err, &f) || !strings.Contains(f.Message, want) {
		t.Errorf("%v, %v; want %s with %q", doc, err, kind.Code, want)
		return
	}
	if strings.ContainsFunc(f.Message, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		t.Errorf("the message %q has characters that an answer cannot have", f.Message)
	}
}

func TestFetchRefusesAnswers(t *testing.T) {
	t.Parallel()
	typed := func(types ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = types
			_, _ = io.WriteString(w, members(r, nil))
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			if code != http.StatusNoContent && code != http.StatusNotModified {
				_, _ = io.WriteString(w, members(r, nil))
			}
		}
	}
	redirectTo := func(target string, code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, code) }
	}
	const large, other = "larger than 5120 bytes", "another type"
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		kind    *fault.Error
		want    string
	}{
		"301":            {redirectTo("/other.json", 301), document.ErrInvalid, "redirects"},
		"302":            {redirectTo("https://claude.ai/client.json", 302), document.ErrInvalid, "redirects"},
		"307":            {redirectTo("http://169.254.169.254/latest/meta-data", 307), document.ErrInvalid, "redirects"},
		"304":            {status(304), document.ErrInvalid, "redirects"},
		"201":            {status(201), document.ErrInvalid, "status 201"},
		"204":            {status(204), document.ErrInvalid, "status 204"},
		"404":            {status(404), document.ErrInvalid, "status 404"},
		"403":            {status(403), document.ErrInvalid, "status 403"},
		"429":            {status(429), document.ErrUnreachable, "status 429"},
		"500":            {status(500), document.ErrUnreachable, "status 500"},
		"503":            {status(503), document.ErrUnreachable, "status 503"},
		"no type":        {typed(), document.ErrInvalid, "no type"},
		"two types":      {typed("application/json", "text/html"), document.ErrInvalid, "no type"},
		"html":           {typed("text/html"), document.ErrInvalid, other},
		"text/json":      {typed("text/json"), document.ErrInvalid, other},
		"text/x+json":    {typed("text/x+json"), document.ErrInvalid, other},
		"jsonp":          {typed("application/javascript"), document.ErrInvalid, other},
		"application/*":  {typed("application/*"), document.ErrInvalid, other},
		"malformed type": {typed("application/json; ="), document.ErrInvalid, other},
		"UTF-16":         {typed("application/json; charset=utf-16"), document.ErrInvalid, other},
		"large, with its length": {func(w http.ResponseWriter, r *http.Request) {
			answer(w, members(r, map[string]any{"x": strings.Repeat("x", 5120)}))
		}, document.ErrInvalid, large},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, strings.Repeat(" ", 4096)); err != nil {
					return
				}
			}
		}, document.ErrInvalid, large},
		"cut off": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			answer(w, members(r, nil))
			panic(http.ErrAbortHandler)
		}, document.ErrUnreachable, "cannot be reached"},
		// A few bytes that unpack to a megabyte.
		"compressed": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "application/json")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, members(r, map[string]any{"x": strings.Repeat("x", 1<<20)}))
			_ = z.Close()
		}, document.ErrInvalid, "compressed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := setup(t, c.handler)
			doc, err := h.fetch(t)
			refused(t, doc, err, c.kind, c.want)
			// A client that would follow redirects, unpack and read on is not let.
			doc, err = document.Fetch(t.Context(), h.Client(), h.URL+"/client.json")
			refused(t, doc, err, c.kind, c.want)
			if n := h.requests.Load(); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

// A document of exactly the size that is allowed is read.
func TestFetchReadsUpToTheLimit(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]error{5120: nil, 5121: document.ErrInvalid} {
		h := setup(t, func(w http.ResponseWriter, r *http.Request) {
			body := members(r, nil)
			answer(w, body+strings.Repeat(" ", size-len(body)))
		})
		if _, err := h.fetch(t); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
}

func TestFetchEndsInTime(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	wait := func(r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	h := setup(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/body.json" {
			_, _ = io.WriteString(w, "{")
			w.(http.Flusher).Flush()
		}
		wait(r)
	})
	t.Cleanup(func() { close(release) })
	h.opts.Timeout = 200 * time.Millisecond
	for _, path := range []string{"/header.json", "/body.json"} {
		doc, err := h.fetch(t, h.URL+path)
		refused(t, doc, err, document.ErrUnreachable, "takes too long")
	}
	// It is the caller who gives up.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := document.Fetch(ctx, safedial.Client(h.opts), h.URL+"/header.json"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, document.ErrUnreachable) {
		t.Errorf("%v, want the context's error", err)
	}
}

// transport is a round tripper that looks at the request instead of sending it.
type transport func(*http.Request)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return nil, net.ErrClosed
}

// Whatever the client allows, there are five seconds.
func TestFetchHasALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	var limit, called time.Time
	client := &http.Client{Transport: transport(func(r *http.Request) {
		limit, _ = r.Context().Deadline()
		called = time.Now()
	})}
	began := time.Now()
	doc, err := document.Fetch(t.Context(), client, "https://example.com/client.json")
	refused(t, doc, err, document.ErrUnreachable, "cannot be reached")
	if limit.Before(began.Add(5*time.Second)) || limit.After(called.Add(5*time.Second)) {
		t.Errorf("between %s and %s are left, want 5 s", limit.Sub(called), limit.Sub(began))
	}
}
