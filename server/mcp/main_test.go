package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

// Credentials of the tests, each for another caller.
const (
	everything = "service"   // a service key
	reader     = "reader"    // a user with read:schema and read:tables
	other      = "other"     // another user with the same
	nothing    = "nothing"   // a user with a scope that nothing here needs
	writer     = "writer"    // a user with all scopes, no administrator
	admin      = "admin"     // an administrator with all scopes
	limited    = "limited"   // a user of whom Authenticate says that she is to wait
	broken     = "broken"    // a credential that cannot be verified, as the database is away
	sponsored  = "sponsored" // the same user as reader, by a key
)

var callers = map[string]*auth.Principal{
	everything: {Service: true, Admin: true, ID: uuid.New(), KeyID: uuid.New()},
	reader:     {ID: uuid.New(), Scopes: []string{"read:schema", "read:tables"}},
	other:      {ID: uuid.New(), Scopes: []string{"read:schema", "read:tables"}},
	nothing:    {ID: uuid.New(), Scopes: []string{"read:vectors"}},
	writer:     {ID: uuid.New(), Scopes: []string{"read:schema", "read:tables", "write:tables", "read:branches", "write:branches"}},
	admin:      {ID: uuid.New(), Admin: true, Scopes: []string{"read:schema", "read:tables", "write:tables", "read:branches", "write:branches"}},
}

func init() {
	p := *callers[reader]
	p.KeyID = uuid.New()
	callers[sponsored] = &p
}

// authenticate knows the callers by their names.
func authenticate(r *http.Request) (*auth.Principal, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if key := r.Header.Get("X-Service-Key"); key != "" {
		token, ok = key, true
	}
	switch {
	case !ok:
		return nil, auth.ErrMissingCredentials
	case token == broken:
		return nil, io.ErrUnexpectedEOF
	case token == limited:
		return nil, fault.New(fault.Unavailable, "unavailable", "the database is away")
	}
	if p := callers[token]; p != nil {
		return p, nil
	}
	return nil, auth.ErrInvalidCredentials
}

// route knows main, and the branches "feature" and "closed", which only administrators may write to.
func route(_ context.Context, p *auth.Principal, branch string, write bool) (slug, database string, err error) {
	switch branch {
	case "", "main":
		return "main", "main", nil
	case "feature", "0197c0de":
		return "feature", "branch_feature", nil
	case "closed":
		if write && !p.Admin {
			return "", "", auth.ErrDenied.Msgf("this needs write access to branch %q", branch)
		}
		return "closed", "branch_closed", nil
	}
	return "", "", fault.New(fault.NotFound, "branch_not_found", "there is no branch "+branch)
}

// recorder keeps what Audit is told.
type recorder struct {
	mu     sync.Mutex
	events []Event
}

func (r *recorder) audit(_ context.Context, e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) all() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func testConfig(tb testing.TB) Config {
	tb.Helper()
	return Config{
		Authenticate: authenticate, Route: route, Version: "1.2.3", Instructions: "Look before you leap.",
		ResourceURL: "https://bough.example/mcp", ResourceMetadataURL: "https://bough.example/.well-known/oauth-protected-resource/mcp",
		DefaultScopes: []string{"read:tables", "read:schema"}, StateKey: bytes.Repeat([]byte("k"), 32),
		AllowedOrigins: []string{"https://app.example"}, Log: slog.New(slog.DiscardHandler),
	}
}

// listen serves a handler over HTTP.
func listen(tb testing.TB, s *Server) string {
	tb.Helper()
	h := httptest.NewServer(s.Handler())
	tb.Cleanup(func() { s.Close(); h.Close() })
	return h.URL
}

// request is a request to a server.
type request struct {
	method, query, token string
	header               map[string]string
	body                 string
}

// answered is what came back.
type answered struct {
	status int
	header http.Header
	body   string
}

func (r request) to(tb testing.TB, h http.Handler) answered {
	tb.Helper()
	return r.within(tb.Context(), h)
}

// within sends the request of a client that goes away when ctx ends.
func (r request) within(ctx context.Context, h http.Handler) answered {
	method := r.method
	if method == "" {
		method = http.MethodPost
	}
	req := httptest.NewRequestWithContext(ctx, method, "/mcp"+r.query, strings.NewReader(r.body))
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return answered{w.Code, w.Header(), w.Body.String()}
}

// json decodes a body, that of an event stream, too.
func (a answered) json(tb testing.TB) map[string]any {
	tb.Helper()
	body := a.body
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			body = data
		}
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		tb.Fatalf("status %d, no JSON: %v\n%s", a.status, err, a.body)
	}
	return out
}
