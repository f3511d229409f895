package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// pair is the same server twice: one as it is, and one that leaves everything to the library.
type pair struct {
	quick, slow   *Server
	quicks, slows *recorder
	library       atomic.Int64 // how many requests of the first came to the library
	tools         map[*Server]*bench
}

func newPair(tb testing.TB) *pair {
	tb.Helper()
	p := &pair{tools: map[*Server]*bench{}}
	var quick, slow *bench
	p.quick, quick, p.quicks = newTools(tb)
	p.slow, slow, p.slows = newTools(tb)
	p.tools[p.quick], p.tools[p.slow] = quick, slow
	p.slow.fast = nil
	for to, h := range maps.Clone(p.quick.handlers) {
		p.quick.handlers[to] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.library.Add(1)
			h.ServeHTTP(w, r)
		})
	}
	return p
}

// changing are the parts of answers that are other ones each time: states, marks and ids of requests.
var changing = regexp.MustCompile(`[\w-]{96}|[0-9a-f]{16}`)

// meaning is what a body says: its JSON, or its text where it is none, such as one with events.
func (a answered) meaning() any {
	body := changing.ReplaceAllString(a.body, "changing")
	var v any
	if json.Unmarshal([]byte(body), &v) != nil {
		return body
	}
	return v
}

// same sends a request to both, and reports whether the first one served it past the library.
func (p *pair) same(tb testing.TB, r request) (quick bool) {
	tb.Helper()
	before := p.library.Load()
	got, want := r.to(tb, p.quick), r.to(tb, p.slow)
	got.header.Del("X-Request-Id")
	want.header.Del("X-Request-Id")
	if d := cmp.Diff(want.header, got.header); d != "" || got.status != want.status {
		tb.Errorf("%+v: got %d, want %d; headers (-want +got):\n%s", r, got.status, want.status, d)
	}
	if d := cmp.Diff(want.meaning(), got.meaning()); d != "" {
		tb.Errorf("%+v: (-want +got):\n%s", r, d)
	}
	p.quicks.mu.Lock()
	p.slows.mu.Lock()
	defer p.quicks.mu.Unlock()
	defer p.slows.mu.Unlock()
	if d := cmp.Diff(p.slows.events, p.quicks.events, cmpopts.IgnoreFields(Event{}, "Duration", "RequestID")); d != "" {
		tb.Errorf("%+v: records (-want +got):\n%s", r, d)
	}
	for _, e := range p.quicks.events {
		if e.Duration <= 0 && e.Code != "insufficient_scope" && e.Code != "access_denied" || e.RequestID == "" {
			tb.Errorf("%+v: recorded %+v", r, e)
		}
	}
	p.quicks.events, p.slows.events = nil, nil
	return p.library.Load() == before
}

// meta is a message's _meta, whose program can do what capabilities say.
func meta(capabilities string) string {
	return strings.Replace(modernMeta, `clientCapabilities":{}`, `clientCapabilities":`+capabilities, 1)
}

// What is served past the library is served as the library does: for each tool and list, each caller and each address, in
// both forms.
func TestQuickAnswersAreTheLibrarys(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	arguments := map[string][]string{
		"echo": {`{"text":"a<b>&\u2028 ü","count":3,"lines":[{"column":"x"}]}`, `{}`, `{"text":7,"more":1}`, `[]`, `null`, `"x"`, `{"text":"x","any":12345678901234567890.5}`},
		"rows": {`{}`, `{"branch":"feature"}`, `{"branch":"closed"}`, `{"branch":"none"}`}, "change": {`{"id":1}`, `{"id":1,"branch":"closed"}`},
		"migrate": {`{"id":1}`}, "look": {`{"branch":"feature"}`, `{"branch":"closed"}`}, "big": {`{}`}, "waits": {`{}`}, "panics": {`{}`}, "breaks": {`{}`},
		"empties": {`{}`}, "refuses": {`{}`}, "unknown": {`{}`}, "": {`{}`},
	}
	served := map[string]int{}
	send := func(name, body string, header map[string]string) {
		for _, token := range []string{reader, writer, admin, nothing} {
			for _, query := range []string{"", "?read_only=true", "?features=tables", "?branch=feature", "?branch=0197c0de", "?branch=none"} {
				if query != "" && (name == "waits" || name == "big") {
					continue // these take their time
				}
				if p.same(t, request{token: token, query: query, header: header, body: body}) {
					served[name]++
				}
			}
		}
	}
	for name, all := range arguments {
		p.quick.work, p.slow.work = workLimit, workLimit
		if name == "waits" {
			p.quick.work, p.slow.work = 20*time.Millisecond, 20*time.Millisecond
		}
		for _, args := range all {
			send(name, callBody(name, args), nil)
			for _, capabilities := range []string{`{}`, `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`} {
				send(name, callBody(name, args+","+meta(capabilities)), modern("tools/call", name))
			}
		}
	}
	send("list", listTools, nil)
	send("list", strings.Replace(listTools, `"tools/list"`, `"tools/list","params":{`+modernMeta+`}`, 1), modern("tools/list", ""))
	names := slices.Sorted(maps.Keys(served))
	want := []string{"big", "breaks", "change", "echo", "empties", "list", "look", "migrate", "panics", "refuses", "rows", "waits"}
	// A caller whom the guard refuses comes to the library neither way.
	if d := cmp.Diff(want, slices.DeleteFunc(names, func(n string) bool { return n == "unknown" || n == "" })); d != "" {
		t.Errorf("served past the library (-want +got):\n%s", d)
	}
	if served["unknown"]+served[""] > 0 {
		t.Errorf("served past the library: %v", served)
	}
}

// What is not plain comes to the library, and is answered by it.
func TestQuickAnswersOnlyWhatIsPlain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	call := func(id, params string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + params + `}}`
	}
	const rows = `"name":"rows"`
	plain := modern("tools/call", "rows")
	with := func(name, value string) map[string]string {
		h := maps.Clone(plain)
		h[name] = value
		return h
	}
	version := func(v string) map[string]string { return map[string]string{"MCP-Protocol-Version": v} }
	info := func(v string) string {
		return strings.Replace(modernMeta, `{"name":"probe","version":"1"}`, v, 1)
	}
	for _, c := range []struct {
		name, body string
		header     map[string]string
		quick      bool
	}{
		{"id text", call(`"a\"<\u00e4"`, rows), nil, true},
		{"id empty", call(`""`, rows), nil, true},
		{"id nothing", call(`0`, rows), nil, true},
		{"id negative", call(`-7`, rows), nil, true},
		{"id of no UTF-8", call("\"\xff\"", rows), nil, false},
		{"spaces", " \n" + strings.ReplaceAll(call("1", rows), ":", " :\t") + "\n", nil, true},
		{"older revision", call("1", rows), version("2025-06-18"), true},
		{"oldest revision", call("1", rows), version("2024-11-05"), true},
		{"unknown revision", call("1", rows), version("2023-01-01"), false},
		{"later revision", call("1", rows+","+modernMeta), with("MCP-Protocol-Version", "2027-01-01"), false},
		{"later revision in both", call("1", rows+","+strings.Replace(modernMeta, "2026-07-28", "2027-01-01", 1)), with("MCP-Protocol-Version", "2027-01-01"), false},
		{"older revision in both", call("1", rows+","+strings.Replace(modernMeta, "2026-07-28", "2025-06-18", 1)), with("MCP-Protocol-Version", "2025-06-18"), false},
		{"older revision in the header", call("1", rows+","+modernMeta), with("MCP-Protocol-Version", "2025-06-18"), false},
		{"no revision in the header", call("1", rows+","+modernMeta), map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "rows"}, false},
		{"no meta", call("1", rows), plain, false},
		{"meta without revision", call("1", rows+`,"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}`), nil, false},
		{"empty meta", call("1", rows+`,"_meta":{}`), nil, false},
		{"meta null", call("1", rows+`,"_meta":null`), plain, false},
		{"meta list", call("1", rows+`,"_meta":[]`), plain, false},
		{"meta twice", call("1", rows+`,"_meta":{"x":1},`+modernMeta), plain, true},
		{"more in meta", call("1", rows+","+strings.Replace(modernMeta, "{", `{"traceparent":"00-1","io.modelcontextprotocol/logLevel":7,`, 1)), plain, true},
		{"a number in meta that is none", call("1", rows+","+strings.Replace(modernMeta, "{", `{"x":1e999,`, 1)), plain, false},
		{"no capabilities", call("1", rows+","+strings.Replace(modernMeta, "clientCapabilities", "x", 1)), plain, false},
		{"capabilities null", call("1", rows+","+meta("null")), plain, false},
		{"capabilities list", call("1", rows+","+meta("[]")), plain, false},
		{"capabilities of another type", call("1", rows+","+meta(`{"elicitation":7}`)), plain, false},
		{"roots of another type", call("1", rows+","+meta(`{"roots":7}`)), plain, false},
		{"roots", call("1", rows+","+meta(`{"roots":{"listChanged":true},"sampling":{},"extensions":{"a":{}}}`)), plain, true},
		{"no program", call("1", rows+","+strings.Replace(modernMeta, "clientInfo", "x", 1)), plain, true},
		{"program null", call("1", rows+","+info("null")), plain, false},
		{"program text", call("1", rows+","+info(`"x"`)), plain, false},
		{"program without name", call("1", rows+","+info(`{}`)), plain, true},
		{"program with everything", call("1", rows+","+info(`{"name":"x","title":"X","version":"1","icons":[{"src":"a"}]}`)), plain, true},
		{"program named by no text", call("1", rows+","+info(`{"name":7}`)), plain, false},
		{"progress", call("1", rows+","+strings.Replace(modernMeta, "{", `{"progressToken":1,`, 1)), plain, false},
		{"other method in the header", call("1", rows+","+modernMeta), with("Mcp-Method", "tools/list"), false},
		{"no method in the header", call("1", rows+","+modernMeta), with("Mcp-Method", ""), false},
		{"other name in the header", call("1", rows+","+modernMeta), with("Mcp-Name", "echo"), false},
		{"no name in the header", call("1", rows+","+modernMeta), with("Mcp-Name", ""), false},
		{"name of another case in the header", call("1", rows+","+modernMeta), with("Mcp-Name", "Rows"), false},
		{"answer to no question", call("1", rows+`,"inputResponses":{"confirm":{"action":"accept"}},"requestState":"x",`+modernMeta), plain, false},
		{"empty state", call("1", rows+`,"requestState":"",`+modernMeta), plain, false},
		{"more parameters", call("1", rows+`,"task":{}`), nil, false},
		{"name twice", call("1", `"name":"echo","Name":"x",`+rows), nil, false},
		{"no name", call("1", `"arguments":{}`), nil, false},
		{"name no text", call("1", `"name":["rows"]`), nil, false},
		{"no arguments", call("1", rows), nil, true},
		{"deep arguments", call("1", `"name":"echo","arguments":{"text":"x","any":`+strings.Repeat("[", 1100)+strings.Repeat("]", 1100)+`}`), nil, false},
		{"arguments of no UTF-8", call("1", `"name":"echo","arguments":{"text":"`+"\xff"+`"}`), nil, false},
		{"no parameters", `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, nil, false},
		{"list with a cursor", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, nil, false},
		{"list with parameters", `{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{}}`, nil, true},
		{"list with an argument", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"rows"}}`, nil, false},
		{"batch of one", "[" + call("1", rows) + "]", nil, false},
		{"batch with what is ignored", "[" + call("1", rows) + `,{"jsonrpc":"2.0","method":"x"}]`, nil, false},
		{"another method", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil, false},
		{"session", call("1", rows), map[string]string{"Mcp-Session-Id": "x"}, false},
		{"session since 2026-07-28", call("1", rows+","+modernMeta), with("Mcp-Session-Id", "x"), true},
		{"event since 2026-07-28", call("1", rows+","+modernMeta), with("Last-Event-Id", "x"), true},
		{"other Accept", call("1", rows+","+modernMeta), with("Accept", "text/html"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if quick := p.same(t, request{token: writer, header: c.header, body: c.body}); quick != c.quick {
				t.Errorf("served past the library: %t, want %t", quick, c.quick)
			}
		})
	}
	// Where the library makes another number of an id, it is given back as it came.
	if got := (request{token: writer, body: call("9007199254740993", rows)}).to(t, p.quick); !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","id":9007199254740993,"result":`) {
		t.Errorf("got %s", got.body)
	}
}

// Whatever is sent, it is answered alike both ways.
func FuzzQuick(f *testing.F) {
	p := newPair(f)
	for _, body := range []string{
		listTools, callBody("rows", "{}"), callBody("echo", `{"text":"a"},`+modernMeta), callBody("change", `{"id":1},`+meta(`{"elicitation":{}}`)),
		strings.Replace(listTools, `"tools/list"`, `"tools/list","params":{`+modernMeta+`}`, 1),
	} {
		for _, version := range []string{"", "2025-06-18", "2026-07-28"} {
			f.Add([]byte(body), version, "tools/call", "echo")
		}
	}
	var id = regexp.MustCompile(`^"[ -~]*"$|^-?[0-9]{1,15}$`)
	f.Fuzz(func(t *testing.T, body []byte, version, method, name string) {
		messages, _, wrong := parse(body)
		for i := range messages {
			if wrong == nil && !id.Match(messages[i].id) {
				return // the library gives large ids back as others, and texts of no UTF-8
			}
			if messages[i].method == "initialize" || messages[i].method == "subscriptions/listen" || messages[i].name == "waits" {
				return // these take their time
			}
		}
		p.same(t, request{token: everything, body: string(body), header: map[string]string{
			"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name,
		}})
	})
}

// A client that goes away stops its call since 2026-07-28; before, it may just have lost its connection.
func TestQuickCallsEndAsTheLibrarysDo(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for _, c := range []struct {
		name, body, code string
		header           map[string]string
		work             time.Duration
	}{
		{"bare", callBody("waits", "{}"), "timeout", nil, 300 * time.Millisecond},
		{"today", callBody("waits", "{},"+modernMeta), "canceled", modern("tools/call", "waits"), workLimit},
	} {
		p.quick.work, p.slow.work = c.work, c.work
		for s, records := range map[*Server]*recorder{p.quick: p.quicks, p.slow: p.slows} {
			before, begun := len(records.all()), p.tools[s].waiting.Load()
			ctx, cancel := context.WithCancel(t.Context())
			go func() { // the client goes away while the tool is at work
				defer cancel()
				for p.tools[s].waiting.Load() == begun && t.Context().Err() == nil {
					time.Sleep(time.Millisecond)
				}
			}()
			request{token: reader, header: c.header, body: c.body}.within(ctx, s)
			events := records.all()
			for ; len(events) == before && t.Context().Err() == nil; events = records.all() {
				time.Sleep(time.Millisecond)
			}
			if last := events[len(events)-1]; last.Outcome != Failed || last.Code != c.code {
				t.Errorf("%s: recorded %+v, want the code %s", c.name, last, c.code)
			}
		}
	}
	if n := p.library.Load(); n != 0 {
		t.Errorf("%d calls came to the library", n)
	}
}
