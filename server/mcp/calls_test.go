package mcp

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The revisions of the two eras, as a client asks for them.
var revisions = []string{"2026-07-28", "2025-11-25"}

type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// connect returns a client of a revision; answer answers questions, nil is a client that cannot ask.
func connect(tb testing.TB, address, revision, token string, answer func(string) string) *sdk.ClientSession {
	tb.Helper()
	o := &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}}
	if answer != nil {
		o.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: answer(r.Params.Message), Content: map[string]any{}}, nil
		}
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "1"}, o)
	session, err := c.Connect(tb.Context(), &sdk.StreamableClientTransport{
		Endpoint: address, HTTPClient: &http.Client{Transport: withToken(token)}, MaxRetries: -1,
	}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = session.Close() })
	return session
}

func textOfResult(r *sdk.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// Tools, documents, prompts and completions work for clients of both eras, and their results say what they are.
func TestBothEras(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	address := listen(t, s)
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			c := connect(t, address, revision, admin, nil)
			if got := c.InitializeResult(); got.ProtocolVersion != revision || got.Instructions != "Look before you leap." {
				t.Errorf("got %+v", got)
			}
			r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hi", "count": 1}})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"said": "hi soft", "lines": []any{}, "notes": map[string]any{}, "last": nil}
			if diff := cmp.Diff(want, r.StructuredContent); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff("Said.\n"+`{"said":"hi soft","lines":[],"notes":{},"last":null}`, textOfResult(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			doc, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "db://public/my%20table"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("public and my table", doc.Contents[0].Text); diff != "" || doc.Contents[0].MIMEType != "text/plain" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			p, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "tune", Arguments: map[string]string{"query": "select 1"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Messages[0].Content.(*sdk.TextContent).Text; got != "Tune select 1" {
				t.Errorf("got %q", got)
			}
			for _, arguments := range []map[string]string{nil, {"query": "x", "other": "y"}} {
				if _, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "tune", Arguments: arguments}); err == nil {
					t.Errorf("a prompt with the arguments %v", arguments)
				}
			}
			done, err := c.Complete(t.Context(), &sdk.CompleteParams{
				Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "tune"}, Argument: sdk.CompleteParamsArgument{Name: "goal", Value: "f"},
				Context: &sdk.CompleteContext{Arguments: map[string]string{"query": "q"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"goal f q"}, done.Completion.Values); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			done, err = c.Complete(t.Context(), &sdk.CompleteParams{
				Ref: &sdk.CompleteReference{Type: "ref/resource", URI: "db://{schema}/{table}"}, Argument: sdk.CompleteParamsArgument{Name: "table"},
			})
			if err != nil || len(done.Completion.Values) != 100 || !done.Completion.HasMore || done.Completion.Total != 150 {
				t.Errorf("got %v, %v", done, err)
			}
			if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "branch://all"}); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Simple clients send one line, without a handshake or headers, and get one line back.
func TestBareMessages(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	for name, body := range map[string]string{
		"message": listTools, "batch": "[" + listTools + `,{"jsonrpc":"2.0","method":"notifications/guess"}]`,
	} {
		got := request{token: reader, body: body}.to(t, s)
		if got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") || !strings.Contains(got.body, `"name":"echo"`) {
			t.Errorf("%s: got %d %v %.200s", name, got.status, got.header, got.body)
		}
	}
	if got := (request{token: reader, body: `{"jsonrpc":"2.0","method":"notifications/guess"}`}).to(t, s); got.status != 202 || got.body != "" {
		t.Errorf("a notification: got %d %q", got.status, got.body)
	}
	// Lists are for this caller alone, and for a minute.
	got := request{token: reader, header: modern("tools/list", ""), body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`}.to(t, s)
	if !strings.Contains(got.body, `"cacheScope":"private"`) || !strings.Contains(got.body, `"ttlMs":60000`) {
		t.Errorf("got %.300s", got.body)
	}
}

// names are what the lists of a caller have.
func names(tb testing.TB, s *Server, token, query string) []string {
	tb.Helper()
	var all []string
	for method, key := range map[string][2]string{
		"tools/list": {"tools", "name"}, "resources/list": {"resources", "uri"},
		"resources/templates/list": {"resourceTemplates", "uriTemplate"}, "prompts/list": {"prompts", "name"},
	} {
		got := request{token: token, query: query, body: `{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`}.to(tb, s)
		result, _ := got.json(tb)["result"].(map[string]any)
		items, ok := result[key[0]].([]any)
		if !ok {
			tb.Fatalf("%s: got %s", method, got.body)
		}
		for _, item := range items {
			all = append(all, item.(map[string]any)[key[1]].(string))
		}
	}
	slices.Sort(all)
	return all
}

// Lists show what the caller may use at this address, and no more.
func TestLists(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	ofSchema := []string{"big", "breaks", "db://overview", "echo", "empties", "panics", "refuses", "waits"}
	ofTables := []string{"db://{schema}/{table}", "rows", "tune"}
	with := func(lists ...[]string) []string {
		all := slices.Concat(lists...)
		slices.Sort(all)
		return all
	}
	all := with(ofSchema, ofTables, []string{"change", "migrate", "look", "branch://all"})
	for _, c := range []struct {
		token, query string
		want         []string
	}{
		{nothing, "", []string{}},
		{reader, "", with(ofSchema, ofTables)},
		{writer, "", with(ofSchema, ofTables, []string{"change", "look", "branch://all"})},
		{admin, "", all},
		{everything, "", all},
		{everything, "?read_only=false", all},
		{everything, "?read_only=true", with(ofSchema, ofTables, []string{"look", "branch://all"})},
		{everything, "?features=tables", with(ofTables, []string{"change"})},
		{everything, "?features=tables&read_only=true", ofTables},
		{everything, "?features=tables,branches", with(ofTables, []string{"change", "migrate", "look", "branch://all"})},
		{everything, "?features=procedures", []string{}},
		{reader, "?features=branches", []string{}},
	} {
		if diff := cmp.Diff(c.want, names(t, s, c.token, c.query), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s%s (-want +got):\n%s", c.token, c.query, diff)
		}
	}
}

// The address narrows what tools do, too, and never widens it.
func TestNarrowing(t *testing.T) {
	t.Parallel()
	s, b, _ := newTools(t)
	for _, c := range []struct{ name, token, query, tool, args, want string }{
		{"main by default", reader, "", "rows", `{}`, `main main`},
		{"a branch", reader, "", "rows", `{"branch":"feature"}`, `feature branch_feature`},
		{"no such branch", reader, "", "rows", `{"branch":"guess"}`, `there is no branch guess\nCode: branch_not_found`},
		{"a branch to read", writer, "", "rows", `{"branch":"closed"}`, `closed branch_closed`},
		{"a branch to write", writer, "", "change", `{"id":1,"branch":"closed"}`, `this needs write access to branch`},
		{"the branch of the address", reader, "?branch=feature", "rows", `{}`, `feature branch_feature`},
		{"the same one", reader, "?branch=feature", "rows", `{"branch":"feature"}`, `feature branch_feature`},
		{"the same one by its id", reader, "?branch=feature", "rows", `{"branch":"0197c0de"}`, `feature branch_feature`},
		{"the same one by its slug", reader, "?branch=0197c0de", "rows", `{"branch":"feature"}`, `feature branch_feature`},
		{"another one", reader, "?branch=feature", "rows", `{"branch":"main"}`, `fixes the branch \"feature\"`},
		{"none", reader, "?branch=feature", "rows", `{"branch":"guess"}`, `fixes the branch \"feature\"`},
		{"another one to look at", writer, "?branch=feature", "look", `{"branch":"main"}`, `fixes the branch \"feature\"`},
		{"the one to look at", writer, "?branch=feature", "look", `{"branch":"feature"}`, `feature`},
		{"an address of no branch", reader, "?branch=guess", "rows", `{}`, `there is no branch guess`},
		{"changes at a read-only address", writer, "?read_only=true", "change", `{"id":1}`, `not offered at this address`},
		{"another feature", reader, "?features=schema", "rows", `{}`, `not offered at this address`},
	} {
		got := request{token: c.token, query: c.query, body: callBody(c.tool, c.args)}.to(t, s)
		if !strings.Contains(got.body, c.want) {
			t.Errorf("%s: got %s, want %s", c.name, got.body, c.want)
		}
	}
	got := request{token: reader, query: "?branch=feature", body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"db://overview"}}`}.to(t, s)
	if !strings.Contains(got.body, "overview of feature") {
		t.Errorf("got %s", got.body)
	}
	got = request{token: reader, query: "?features=tables", body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"db://overview"}}`}.to(t, s)
	if !strings.Contains(got.body, "not offered") {
		t.Errorf("got %s", got.body)
	}
	if n := b.changed.Load(); n != 0 {
		t.Errorf("%d changes", n)
	}
}

// Tools fail with words for the model; what is inside stays inside, and nothing ends the program.
func TestFailures(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	for name, want := range map[string]string{
		"refuses": "relation \"x\" does not exist\nNowhere.\nHint: Try y.\nCode: 42P01",
		"breaks":  "internal error (request id r-1)",
		"panics":  "internal error (request id r-1)",
		"empties": "internal error (request id r-1)",
		"echo":    "text is missing; it must be a text\nCode: validation_error",
	} {
		w := request{token: reader, body: callBody(name, "{}")}.withID(t, s, "r-1")
		result, _ := w.json(t)["result"].(map[string]any)
		content, _ := result["content"].([]any)
		if result["isError"] != true || len(content) != 1 {
			t.Errorf("%s: got %s", name, w.body)
			continue
		}
		if diff := cmp.Diff(want, content[0].(map[string]any)["text"]); diff != "" || strings.Contains(w.body, "secret") {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// A failure of a document is told as an error, since it has no result.
	got := request{token: everything, body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"branch://all"}}`}.withID(t, s, "r-2")
	if e, _ := got.json(t)["error"].(map[string]any); e["code"] != -32603.0 || e["message"] != "internal error (request id r-2)" {
		t.Errorf("got %s", got.body)
	}
}

func (r request) withID(tb testing.TB, s *Server, id string) answered {
	tb.Helper()
	return r.to(tb, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", id)
		s.ServeHTTP(w, r)
	}))
}

// A tool that takes too long is given up.
func TestToolsEnd(t *testing.T) {
	t.Parallel()
	s, _, records := newTools(t)
	s.work = 20 * time.Millisecond
	got := request{token: reader, body: callBody("waits", "{}")}.to(t, s)
	if !strings.Contains(got.body, `this took longer than 20ms and was given up`) || records.all()[0].Code != "timeout" {
		t.Errorf("got %s, recorded %+v", got.body, records.all())
	}
}

// Tools never see the credential of their call.
func TestCredentialsStopAtTheGuard(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testConfig(t))
	f.add("headers", nil, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return says("%v %s", req.Extra.Header, req.Extra.TokenInfo.UserID), nil
	})
	got := request{token: reader, header: map[string]string{"Cookie": "a=" + reader}, body: callBody("headers", "{}")}.to(t, f)
	if got.status != 200 || strings.Contains(got.body, reader) || !strings.Contains(got.body, callers[reader].ID.String()) {
		t.Errorf("got %s", got.body)
	}
	got = request{header: map[string]string{"X-Service-Key": everything}, body: callBody("headers", "{}")}.to(t, f)
	if got.status != 200 || strings.Contains(got.body, everything) {
		t.Errorf("got %s", got.body)
	}
}

// A client that goes away stops what it asked for.
func TestCancellation(t *testing.T) {
	t.Parallel()
	s, b, records := newTools(t)
	c := connect(t, listen(t, s), "2026-07-28", reader, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for b.waiting.Load() == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "waits"}); err == nil {
		t.Fatal("the tool ended")
	}
	for deadline := time.Now().Add(20 * time.Second); len(records.all()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the tool goes on")
		}
	}
	if e := records.all()[0]; e.Outcome != Failed || e.Code != "canceled" {
		t.Errorf("got %+v", e)
	}
}

// Data of the database is fenced in the text, by a mark that changes; the text is bounded.
func TestFence(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	marks := map[string]bool{}
	for range 2 {
		result, _ := request{token: reader, body: callBody("rows", "{}")}.to(t, s).json(t)["result"].(map[string]any)
		lines := strings.Split(result["content"].([]any)[0].(map[string]any)["text"].(string), "\n")
		if len(lines) != 5 || lines[0] != "1 row." || lines[2] != lines[4] || len(lines[2]) != 16 || !strings.Contains(lines[1], lines[2]) ||
			lines[3] != `{"rows":[{"a":null,"b":"<ignore>"}],"branch":"main main"}` {
			t.Errorf("got %q", lines)
		}
		marks[lines[2]] = true
		if diff := cmp.Diff(map[string]any{"rows": []any{map[string]any{"a": nil, "b": "<ignore>"}}, "branch": "main main"}, result["structuredContent"]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if len(marks) != 2 {
		t.Error("the mark is the same each time")
	}
	result, _ := request{token: reader, body: callBody("big", "{}")}.to(t, s).json(t)["result"].(map[string]any)
	text := result["content"].([]any)[0].(map[string]any)["text"].(string)
	if len(text) > maxText || !strings.HasSuffix(text, "ask for less.") || strings.Contains(text, "\ufffd") {
		t.Errorf("got %d bytes, ending in %q", len(text), text[len(text)-60:])
	}
}

// Each call is recorded once, refused ones too, with who called what from where and how it ended.
func TestAudit(t *testing.T) {
	t.Parallel()
	s, _, records := newTools(t)
	for _, r := range []request{
		{token: reader, body: callBody("rows", `{"branch":"feature"}`)},
		{token: reader, body: callBody("refuses", `{}`)},
		{token: reader, body: callBody("breaks", `{}`)},
		{token: reader, body: callBody("echo", `{}`)},
		{token: reader, body: callBody("guess", `{}`)},
		{token: reader, query: "?features=schema", body: callBody("rows", `{}`)},
		{token: nothing, header: modern("tools/call", "rows"), body: callBody("rows", `{},`+modernMeta)},
		{token: reader, body: listTools},
	} {
		r.withID(t, s, "r-3")
	}
	want := []Event{
		{Principal: callers[reader], Tool: "rows", Branch: "feature", Outcome: Succeeded},
		{Principal: callers[reader], Tool: "refuses", Outcome: Failed, Code: "42P01"},
		{Principal: callers[reader], Tool: "breaks", Outcome: Failed, Code: "internal_error"},
		{Principal: callers[reader], Tool: "echo", Outcome: Failed, Code: "validation_error"},
		{Principal: callers[reader], Tool: "guess", Outcome: Refused, Code: "not_found"},
		{Principal: callers[reader], Tool: "rows", Outcome: Refused, Code: "access_denied"},
		{Principal: callers[nothing], Tool: "rows", Client: "probe", Outcome: Refused, Code: "insufficient_scope"},
	}
	for i := range want {
		want[i].RequestID = "r-3"
	}
	if diff := cmp.Diff(want, records.all(), cmpopts.IgnoreFields(Event{}, "Duration")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Many callers at once do not see each other's things.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	address := listen(t, s)
	tokens := []string{reader, writer, admin, everything}
	counts := map[string]int{reader: 8, writer: 10, admin: 11, everything: 11}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			token := tokens[i%len(tokens)]
			c := connect(t, address, revisions[i/len(tokens)%2], token, nil)
			for range 10 {
				list, err := c.ListTools(t.Context(), nil)
				if err != nil || len(list.Tools) != counts[token] {
					t.Errorf("%s: got %v tools, want %d; %v", token, list, counts[token], err)
					return
				}
				r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"text": token, "count": 1}})
				if err != nil || r.StructuredContent.(map[string]any)["said"] != token+" soft" {
					t.Errorf("%s: got %v, %v", token, r, err)
				}
			}
		})
	}
	wg.Wait()
}
