package mcp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	metadata     = `resource_metadata="https://bough.example/.well-known/oauth-protected-resource/mcp"`
	listTools    = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	modernMeta   = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"probe","version":"1"}}`
	callTemplate = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"NAME","arguments":ARGS}}`
)

func callBody(name, args string) string {
	return strings.NewReplacer("NAME", name, "ARGS", args).Replace(callTemplate)
}

func modern(method, name string) map[string]string {
	h := map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if name != "" {
		h["Mcp-Name"] = name
	}
	return h
}

// What the guard refuses, it refuses with the right status, tells why in the right form, and challenges where a token would
// help.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	const bare = `Bearer realm="bough", ` + metadata + `, scope="read:tables read:schema"`
	const invalidToken = `Bearer realm="bough", error="invalid_token", error_description=`
	for _, c := range []struct {
		name      string
		r         request
		status    int
		challenge string // the beginning of WWW-Authenticate; "" for none
		body      string // part of it
	}{
		{"no credential", request{body: listTools}, 401, bare, `"error":"unauthorized"`},
		{"no credential and no message", request{body: "{"}, 401, bare, `"error":"unauthorized"`},
		{"no credential at the address of a feature", request{query: "?features=tables", body: listTools}, 401, `Bearer realm="bough", ` + metadata + `, scope="read:tables write:tables"`, ""},
		{"no credential on GET", request{method: "GET"}, 401, bare, `"error":"unauthorized"`},
		{"wrong token", request{token: "x", body: listTools}, 401, invalidToken + `"the credentials are not valid", ` + metadata, `"error":"invalid_token"`},
		{"token in the address", request{query: "?access_token=reader", body: listTools}, 401, invalidToken, `not taken from the address`},
		{"token in the address besides", request{query: "?api_key=x", token: reader, body: listTools}, 401, invalidToken, `not taken from the address`},
		{"unverifiable", request{token: broken, body: listTools}, 500, "", `internal error (request id `},
		{"unavailable", request{token: limited, body: listTools}, 503, "", `the database is away`},
		{"foreign origin", request{token: reader, header: map[string]string{"Origin": "https://evil.example"}, body: listTools}, 403, "", `"error":"access_denied"`},
		{"foreign origin without credential", request{header: map[string]string{"Origin": "https://evil.example"}, body: listTools}, 403, "", `"error":"access_denied"`},
		{"origin of the host", request{token: reader, header: map[string]string{"Origin": "http://example.com"}, body: listTools}, 403, "", `"error":"access_denied"`},
		{"opaque origin", request{token: reader, header: map[string]string{"Origin": "null"}, body: listTools}, 403, "", `"error":"access_denied"`},
		{"origin with a loopback name in it", request{token: reader, header: map[string]string{"Origin": "http://localhost.evil.example"}, body: listTools}, 403, "", `"error":"access_denied"`},
		{"large body", request{token: reader, body: strings.Repeat(" ", maxBody+1)}, 413, "", `"error":"too_large"`},
		{"other media type", request{token: reader, header: map[string]string{"Content-Type": "text/plain"}, body: listTools}, 415, "", `application/json`},
		{"unknown query parameter", request{query: "?readonly=true", token: reader, body: listTools}, 400, "", `readonly`},
		{"query parameter twice", request{query: "?branch=a&branch=b", token: reader, body: listTools}, 400, "", `2 times`},
		{"unknown feature", request{query: "?features=tables,storage", token: reader, body: listTools}, 400, "", `features are schema, tables, procedures, branches`},
		{"empty branch", request{query: "?branch=", token: reader, body: listTools}, 400, "", `slug`},
		{"unreadable query", request{query: "?branch=a;b", token: reader, body: listTools}, 400, "", `cannot be read`},
		{"read_only neither", request{query: "?read_only=1", token: reader, body: listTools}, 400, "", `true or false`},
		{"scope", request{token: nothing, body: callBody("change", "{}")}, 403,
			`Bearer realm="bough", error="insufficient_scope", error_description="the tool change needs read:tables write:tables", ` + metadata + `, scope="read:tables write:tables"`,
			`"error":"insufficient_scope"`},
		{"scope in part", request{token: reader, body: callBody("change", "{}")}, 403, `Bearer realm="bough", error="insufficient_scope"`, `read:tables write:tables`},
		{"scope of a document", request{token: reader, body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"branch://all"}}`}, 403, `Bearer realm="bough", error="insufficient_scope"`, `read:branches`},
		{"scope of a template", request{token: nothing, body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"db://public/users"}}`}, 403, `Bearer realm="bough", error="insufficient_scope"`, `read:tables`},
		{"scope of a prompt", request{token: nothing, body: `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"tune"}}`}, 403, `Bearer realm="bough", error="insufficient_scope"`, `read:tables`},
		{"scope within a batch", request{token: nothing, body: "[" + listTools + "," + callBody("rows", "{}") + "," + callBody("echo", "{}") + "]"}, 403, `Bearer realm="bough", error="insufficient_scope", error_description="the tool rows needs read:tables read:schema"`, `insufficient_scope`},
		{"header that says another tool", request{token: nothing, header: modern("tools/call", "echo"), body: callBody("rows", "{},"+modernMeta)}, 403, `Bearer realm="bough", error="insufficient_scope"`, `read:tables`},
		{"for administrators", request{token: writer, body: callBody("migrate", `{"id":1}`)}, 403, "", `the tool migrate is for administrators`},
		{"GET without session", request{method: "GET", token: reader}, 405, "", `method_not_allowed`},
		{"DELETE without session", request{method: "DELETE", token: reader}, 405, "", `method_not_allowed`},
		{"GET since 2026-07-28", request{method: "GET", token: reader, header: map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Session-Id": "x"}}, 405, "", `method_not_allowed`},
		{"PUT", request{method: "PUT", token: reader}, 405, "", `method_not_allowed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := c.r.to(t, s)
			if got.status != c.status || !strings.Contains(got.body, c.body) {
				t.Errorf("got %d %s; want %d with %s", got.status, got.body, c.status, c.body)
			}
			challenge := got.header.Get("WWW-Authenticate")
			if !strings.HasPrefix(challenge, c.challenge) || (c.challenge == "") != (challenge == "") {
				t.Errorf("got challenge %q, want %q", challenge, c.challenge)
			}
			if got.header.Get("Content-Type") != "application/json" {
				t.Errorf("got Content-Type %q", got.header.Get("Content-Type"))
			}
			if body := got.json(t); body["jsonrpc"] != nil || body["error_description"] == nil {
				t.Errorf("got body %s, want that of an OAuth error", got.body)
			}
			if got.status == 405 && got.header.Get("Allow") == "" || got.status == 503 && got.header.Get("Retry-After") == "" {
				t.Errorf("%d lacks its header: %v", got.status, got.header)
			}
		})
	}
}

// Messages that are none get the answer of JSON-RPC, with the id where there is one.
func TestBadMessages(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	for _, c := range []struct {
		name, body string
		header     map[string]string
		status     int
		code       float64
		id         any
	}{
		{"nothing", "", nil, 400, -32700, nil},
		{"half", `{"jsonrpc":`, nil, 400, -32700, nil},
		{"two", `{} {}`, nil, 400, -32700, nil},
		{"empty", `{}`, nil, 400, -32600, nil},
		{"text", `"x"`, nil, 400, -32600, nil},
		{"null", `null`, nil, 400, -32600, nil},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":3,"method":"ping"}`, nil, 400, -32600, 3.0},
		{"other case", `{"JSONRPC":"2.0","id":3,"method":"ping"}`, nil, 400, -32600, 3.0},
		{"no method", `{"jsonrpc":"2.0","id":3}`, nil, 400, -32600, 3.0},
		{"method no text", `{"jsonrpc":"2.0","id":3,"method":4}`, nil, 400, -32600, 3.0},
		{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, -32600, nil},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, nil, 400, -32600, nil},
		{"id fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, -32600, nil},
		{"params list", `{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}`, nil, 400, -32602, "a"},
		{"request without id", `{"jsonrpc":"2.0","method":"tools/list"}`, nil, 400, -32600, nil},
		{"notification with id", `{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`, nil, 400, -32600, 1.0},
		{"response to nothing", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400, -32600, nil},
		{"request and response", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, nil, 400, -32600, 1.0},
		{"no messages", `[]`, nil, 400, -32600, nil},
		{"bad batch", `[` + listTools + `,1]`, nil, 400, -32600, nil},
		{"initialize in a batch", `[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}]`, nil, 400, -32600, 1.0},
		{"batch after its time", `[` + listTools + `]`, map[string]string{"MCP-Protocol-Version": "2025-06-18"}, 400, -32600, nil},
		{"batch today", `[` + listTools + `]`, map[string]string{"MCP-Protocol-Version": "2026-07-28"}, 400, -32600, nil},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"tools/guess"}`, nil, 200, -32601, 1.0},
		{"unknown method today", `{"jsonrpc":"2.0","id":1,"method":"tools/guess","params":{` + modernMeta + `}}`, modern("tools/guess", ""), 404, -32601, 1.0},
		{"method of another time", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + modernMeta + `}}`, modern("ping", ""), 404, -32601, 1.0},
		{"unknown revision", listTools, map[string]string{"MCP-Protocol-Version": "2024-01-01"}, 400, -32600, 1.0},
		{"unknown tool", callBody("guess", "{}"), nil, 200, -32602, 1.0},
		{"unknown tool today", callBody("guess", "{},"+modernMeta), modern("tools/call", "guess"), 400, -32602, 1.0},
		{"without meta today", listTools, modern("tools/list", ""), 400, -32602, 1.0},
		{"another tool in the header", callBody("echo", "{},"+modernMeta), modern("tools/call", "rows"), 400, -32020, 1.0},
		{"unknown session", listTools, map[string]string{"Mcp-Session-Id": "x"}, 404, -32600, 1.0},
		{"unknown document", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"db://x/none"}}`, nil, 200, -32602, 1.0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := request{token: everything, header: c.header, body: c.body}.to(t, s)
			body := got.json(t)
			e, _ := body["error"].(map[string]any)
			if got.status != c.status || body["jsonrpc"] != "2.0" || e["code"] != c.code || e["message"] == "" {
				t.Errorf("got %d %s; want %d with %v", got.status, got.body, c.status, c.code)
			}
			if diff := cmp.Diff(c.id, body["id"]); diff != "" {
				t.Errorf("id (-want +got):\n%s", diff)
			}
		})
	}
}

// A page may call if it is of the server's own origin, of a loopback name or of an allowed one, and can read refusals.
func TestOrigins(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	for _, origin := range []string{
		"https://bough.example", "https://app.example", "HTTPS://app.example", "http://localhost:6274", "http://127.0.0.1", "https://[::1]:8080", "http://127.8.9.1:1",
	} {
		got := request{token: "x", header: map[string]string{"Origin": origin}, body: listTools}.to(t, s)
		if got.status != 401 || got.header.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("%s: got %d %v", origin, got.status, got.header)
		}
		if exposed := got.header.Get("Access-Control-Expose-Headers"); !strings.Contains(exposed, "WWW-Authenticate") {
			t.Errorf("%s: exposed are %q", origin, exposed)
		}
	}
	got := request{method: "OPTIONS", header: map[string]string{
		"Origin": "https://app.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "mcp-param-region, x-evil, mcp-param-\u00e4",
	}}.to(t, s)
	headers := got.header.Get("Access-Control-Allow-Headers")
	if got.status != 204 || !strings.HasSuffix(headers, "traceparent, mcp-param-region") || got.header.Get("Access-Control-Allow-Methods") != "GET, POST, DELETE" {
		t.Errorf("preflight: got %d %v", got.status, got.header)
	}
	if got := (request{method: "OPTIONS", header: map[string]string{"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}}).to(t, s); got.status != 403 {
		t.Errorf("foreign preflight: got %d", got.status)
	}
}

// A body without a length is bounded, too, and is not read for strangers.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	for token, want := range map[string]int{reader: http.StatusRequestEntityTooLarge, "stranger": http.StatusUnauthorized} {
		body := &endless{}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", body)
		r.ContentLength = -1
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want || body.read > maxBody+1<<20 || token == "stranger" && body.read > 0 {
			t.Errorf("%s: got %d after %d bytes, want %d", token, w.Code, body.read, want)
		}
	}
}

type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	e.read += len(b)
	return len(b), nil
}

// Each caller has so many requests a minute; a batch costs what it holds.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	cfg, _, _ := toolConfig(t)
	cfg.RateLimit = RateLimit{PerMinute: 60, Burst: 3}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.limiter.now = func() time.Time { return now }
	statuses := func(token, body string, n int) (got []int) {
		for range n {
			got = append(got, request{token: token, body: body}.to(t, s).status)
		}
		return got
	}
	if diff := cmp.Diff([]int{200, 200, 200, 429}, statuses(reader, listTools, 4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := (request{token: reader, body: listTools}).to(t, s); got.header.Get("Retry-After") != "1" {
		t.Errorf("got %d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
	if diff := cmp.Diff([]int{200}, statuses(other, listTools, 1)); diff != "" {
		t.Errorf("another caller (-want +got):\n%s", diff)
	}
	now = now.Add(time.Second)
	if diff := cmp.Diff([]int{200, 429}, statuses(reader, listTools, 2)); diff != "" {
		t.Errorf("a second later (-want +got):\n%s", diff)
	}
	now = now.Add(time.Minute)
	if diff := cmp.Diff([]int{200, 429}, statuses(reader, "["+listTools+","+strings.Replace(listTools, ":1", ":2", 1)+"]", 2)); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

// What is remembered of callers is bounded.
func TestRatesAreForgotten(t *testing.T) {
	t.Parallel()
	l := newLimiter(RateLimit{PerMinute: 60})
	now := time.Now()
	l.now = func() time.Time { return now }
	for i := range 3 * maxLimited {
		now = now.Add(time.Millisecond)
		l.take(string(rune(i)), 1)
	}
	if len(l.callers) > maxLimited {
		t.Errorf("%d callers are remembered", len(l.callers))
	}
}

// After Close there is no service.
func TestClosed(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	s.Close()
	if got := (request{token: reader, body: listTools}).to(t, s); got.status != 503 {
		t.Errorf("got %d", got.status)
	}
}
