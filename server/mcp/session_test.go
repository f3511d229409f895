package mcp

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/boughdb/bough/server/auth"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`

// begin begins a session and returns its id.
func begin(tb testing.TB, s *Server, token, query string) string {
	tb.Helper()
	got := request{token: token, query: query, body: initialize}.to(tb, s)
	id := got.header.Get("Mcp-Session-Id")
	if got.status != 200 || id == "" {
		tb.Fatalf("initialize: got %d %v %s", got.status, got.header, got.body)
	}
	inSession(id, request{token: token, query: query, body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`}).to(tb, s)
	return id
}

func inSession(id string, r request) request {
	r.header = map[string]string{"Mcp-Session-Id": id, "MCP-Protocol-Version": "2025-11-25"}
	return r
}

// A session is its caller's; to others it does not exist.
func TestSessionsBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	id := begin(t, s, reader, "")
	for token, want := range map[string]int{reader: 200, other: 404, everything: 404, sponsored: 404} {
		if got := inSession(id, request{token: token, body: listTools}).to(t, s); got.status != want {
			t.Errorf("%s: got %d %s, want %d", token, got.status, got.body, want)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		if got := inSession(id, request{method: method, token: other}).to(t, s); got.status != 404 {
			t.Errorf("%s of another caller: got %d", method, got.status)
		}
	}
	unknown := inSession("x", request{token: other, body: listTools}).to(t, s)
	if got := inSession(id, request{token: other, body: listTools}).to(t, s); got.body != unknown.body {
		t.Errorf("another's session says %s, an unknown one %s", got.body, unknown.body)
	}
	if got := inSession(id, request{method: "DELETE", token: reader}).to(t, s); got.status != 204 {
		t.Errorf("DELETE: got %d", got.status)
	}
	if got := inSession(id, request{token: reader, body: listTools}).to(t, s); got.status != 404 {
		t.Errorf("after DELETE: got %d", got.status)
	}
}

// Within a session it counts who each request is from, what its token may and what its address says, not how the session
// began.
func TestSessionsTrustNothingOfTheirBeginning(t *testing.T) {
	t.Parallel()
	cfg, _, records := toolConfig(t)
	strong, weak := *callers[writer], *callers[writer]
	weak.Scopes = []string{"read:schema"}
	current := &strong
	cfg.Authenticate = func(*http.Request) (*auth.Principal, error) { return current, nil }
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	id := begin(t, s, writer, "")
	call := func(query, name, args string) answered {
		return inSession(id, request{token: writer, query: query, body: callBody(name, args)}).to(t, s)
	}
	if got := call("", "rows", "{}"); !strings.Contains(got.body, "main main") {
		t.Errorf("got %s", got.body)
	}
	if got := call("?branch=feature", "rows", "{}"); !strings.Contains(got.body, "feature branch_feature") {
		t.Errorf("with a branch: got %s", got.body)
	}
	current = &weak
	if got := call("", "rows", "{}"); got.status != 403 {
		t.Errorf("with a weaker token: got %d %s", got.status, got.body)
	}
	if got := inSession(id, request{token: writer, body: listTools}).to(t, s); strings.Contains(got.body, `"rows"`) {
		t.Errorf("with a weaker token, lists have: %s", got.body)
	}
	if e := records.all()[0]; e.Client != "old" {
		t.Errorf("recorded %+v", e)
	}
}

// A caller has so many sessions: a new one ends the oldest.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	first := begin(t, s, reader, "")
	foreign := begin(t, s, other, "")
	second := ""
	for i := range maxSessions {
		if id := begin(t, s, reader, ""); i == 0 {
			second = id
		}
	}
	s.sessions.ending.Wait()
	for name, c := range map[string]struct {
		token, id string
		want      int
	}{"the oldest": {reader, first, 404}, "the second": {reader, second, 200}, "another's": {other, foreign, 200}} {
		if got := inSession(c.id, request{token: c.token, body: listTools}).to(t, s); got.status != c.want {
			t.Errorf("%s: got %d, want %d", name, got.status, c.want)
		}
	}
}

// Sessions that have ended make room, also when nobody was told.
func TestEndedSessionsMakeRoom(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	id := begin(t, s, reader, "")
	live := func(n int) func(func(*sdk.ServerSession) bool) {
		return func(yield func(*sdk.ServerSession) bool) {
			for session := range s.sdk.Sessions() {
				if n--; n < 0 || !yield(session) {
					return
				}
			}
		}
	}
	s.sessions.mu.Lock()
	one := s.sessions.owned[identity(callers[reader])][0]
	for range maxAllSessions {
		s.sessions.owned["somebody"] = append(s.sessions.owned["somebody"], one)
	}
	s.sessions.mu.Unlock()
	if !s.sessions.full(live(1)) {
		t.Error("there is room")
	}
	if s.sessions.full(live(0)) || len(s.sessions.owned) != 0 {
		t.Error("there is no room")
	}
	if got := inSession(id, request{token: reader, body: listTools}).to(t, s); got.status != 200 {
		t.Errorf("got %d", got.status)
	}
}

// A session's stream ends with the server.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	address := listen(t, s)
	id := begin(t, s, reader, "")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Mcp-Session-Id", id)
	r.Header.Set("Authorization", "Bearer "+reader)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("got %d %v", res.StatusCode, res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() {
		t.Fatal("the stream says nothing")
	}
	ended := make(chan struct{})
	go func() {
		for lines.Scan() {
		}
		close(ended)
	}()
	s.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the stream goes on")
	}
}

// A client that opens with initialize gets on, whatever revision it names.
func TestInitializeWithTheNewRevision(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	got := request{token: reader, header: map[string]string{"MCP-Protocol-Version": "2026-07-28"}, body: strings.Replace(initialize, "2025-11-25", "2026-07-28", 1)}.to(t, s)
	result, _ := got.json(t)["result"].(map[string]any)
	if got.status != 200 || result["protocolVersion"] != "2025-11-25" {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

// Clients of the present have no sessions, and an id that they send means nothing.
func TestNoSessionsToday(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	h := modern("tools/list", "")
	h["Mcp-Session-Id"] = "x"
	got := request{token: reader, header: h, body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`}.to(t, s)
	if got.status != 200 || got.header.Get("Mcp-Session-Id") != "" {
		t.Errorf("got %d %v", got.status, got.header)
	}
	for session := range s.sdk.Sessions() {
		t.Errorf("there is a session: %q", session.ID())
	}
}

// What the SDK reads is checked again by what stands before its methods, should the guard have read something else.
func TestSecondCheck(t *testing.T) {
	t.Parallel()
	s, b, _ := newTools(t)
	body := callBody("change", `{"id":1}`)
	for token, want := range map[string]int64{reader: 0, writer: 1} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.dispatch(w, r, &caller{principal: callers[token], requestID: "r"}, bare, []byte(body), []message{{method: "tools/list"}})
		if n := b.changed.Swap(0); n != want || strings.Contains(w.Body.String(), `"code":403`) != (want == 0) {
			t.Errorf("%s: %d changes; got %s", token, n, w.Body)
		}
	}
}
