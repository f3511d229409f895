package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

// What goes wrong with documents, prompts and completions is told as an error of the protocol, with a code that says whose
// fault it is; a panic ends none but its request.
func TestFailuresOfDocuments(t *testing.T) {
	t.Parallel()
	cfg, _, _ := toolConfig(t)
	var failure error
	fail := func() error {
		if failure == nil {
			panic("at the disco")
		}
		return failure
	}
	cfg.Fault = func(err error) *fault.Error {
		if strings.Contains(err.Error(), io.ErrUnexpectedEOF.Error()) {
			return fault.New(fault.Unavailable, "unavailable", "the database cannot be reached")
		}
		return nil
	}
	cfg.Resources[0].Read = func(context.Context, *Call) (string, error) { return "", fail() }
	cfg.Prompts[0].Render = func(context.Context, *Call, map[string]string) (string, error) { return "", fail() }
	cfg.Completions[0].Complete = func(context.Context, *Call, string, string, map[string]string) ([]string, error) { return nil, fail() }
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{
		"document":   `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"db://overview"}}`,
		"prompt":     `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"tune","arguments":{"query":"q"}}}`,
		"completion": `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"tune"},"argument":{"name":"goal","value":""}}}`,
	}
	for _, c := range []struct {
		failure error
		code    float64
		message string
	}{
		{nil, -32603, "internal error (request id r-4)"},
		{io.ErrClosedPipe, -32603, "internal error (request id r-4)"},
		{io.ErrUnexpectedEOF, -32603, "the database cannot be reached\nCode: unavailable"},
		{fault.Validation("no such thing"), -32602, "no such thing\nCode: validation_error"},
		{auth.ErrDenied, 403, "the caller may not do this\nCode: access_denied"},
	} {
		failure = c.failure
		for name, body := range bodies {
			got := request{token: reader, body: body}.withID(t, s, "r-4")
			e, _ := got.json(t)["error"].(map[string]any)
			if e["code"] != c.code || e["message"] != c.message {
				t.Errorf("%s, %v: got %s", name, c.failure, got.body)
			}
		}
	}
}

// Who may not use a prompt or a template is told no names by its completion, and there is none of what there is not.
func TestCompletionsAreForThoseWhoMay(t *testing.T) {
	t.Parallel()
	s, _, _ := newTools(t)
	complete := func(token, query, ref string) answered {
		return request{token: token, query: query, body: `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":` + ref +
			`,"argument":{"name":"table","value":""}}}`}.to(t, s)
	}
	const table = `{"type":"ref/resource","uri":"db://{schema}/{table}"}`
	for _, c := range []struct{ token, query, ref, want string }{
		{reader, "", table, `"main0"`},
		{reader, "?branch=feature", table, `"feature0"`},
		{nothing, "", table, `"values":[]`},
		{reader, "?features=schema", table, `"values":[]`},
		{reader, "", `{"type":"ref/prompt","name":"tune"}`, `"values":[]`},
		{reader, "", `{"type":"ref/prompt","name":"db://{schema}/{table}"}`, `-32602`},
		{reader, "", `{"type":"ref/resource","uri":"tune"}`, `-32602`},
		{reader, "?branch=guess", table, `there is no branch guess`},
	} {
		if got := complete(c.token, c.query, c.ref); !strings.Contains(got.body, c.want) {
			t.Errorf("%s%s %s: got %.300s, want %s", c.token, c.query, c.ref, got.body, c.want)
		}
	}
}

// What Authenticate says of a caller becomes an answer of its kind.
func TestFaultsOfCallers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{fault.Validation("send one credential, not 2"), 400, "invalid_request"},
		{auth.ErrDenied, 403, "access_denied"},
		{fault.New(fault.RateLimited, "rate_limited", "slowly"), 429, "rate_limited"},
		{io.ErrUnexpectedEOF, 503, "temporarily_unavailable"},
		{io.ErrClosedPipe, 500, "server_error"},
	} {
		cfg, _, _ := toolConfig(t)
		cfg.Authenticate = func(*http.Request) (*auth.Principal, error) { return nil, c.err }
		cfg.Fault = func(err error) *fault.Error {
			if strings.Contains(err.Error(), io.ErrUnexpectedEOF.Error()) {
				return fault.New(fault.Unavailable, "unavailable", "the database cannot be reached")
			}
			return nil
		}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		got := request{token: reader, body: listTools}.to(t, s)
		if got.status != c.status || got.json(t)["error"] != c.code {
			t.Errorf("%v: got %d %s", c.err, got.status, got.body)
		}
	}
}

// Outside a server, a tool's question is answered by the test.
func TestAnswering(t *testing.T) {
	t.Parallel()
	cfg, b, _ := toolConfig(t)
	got := map[Answer]string{}
	for _, answer := range []Answer{Unable, Accepted, Declined} {
		r, err := cfg.Tools[2].Do(t.Context(), (&Call{Branch: "main"}).Answering(answer), json.RawMessage(`{"id":1,"branch":"main"}`))
		if err != nil {
			t.Fatal(err)
		}
		got[answer] = r.Structured.(changeOut).Answer
	}
	if diff := cmp.Diff(map[Answer]string{Unable: "unable", Accepted: "accepted", Declined: "declined"}, got); diff != "" || b.changed.Load() != 2 {
		t.Errorf("%d changes, (-want +got):\n%s", b.changed.Load(), diff)
	}
	if answer, err := (&Call{}).Confirm("?"); answer != Unable || err != nil {
		t.Errorf("got %v, %v", answer, err)
	}
}

// Numbers and booleans have constants, too.
func TestConstants(t *testing.T) {
	t.Parallel()
	type in struct {
		Level int     `json:"level,omitempty" schema:"enum=1|2,default=2"`
		Share float64 `json:"share,omitempty" schema:"default=0.5,max=1"`
		On    bool    `json:"on,omitempty" schema:"default=true"`
	}
	tool := NewTool[in, in](Tool{Name: "x"}, func(_ context.Context, _ *Call, v in) (*Result, error) { return &Result{Structured: v}, nil })
	r, err := tool.Do(t.Context(), &Call{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in{2, 0.5, true}, r.Structured); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for args, want := range map[string]string{
		`{"level":3}`: "level must be 1 or 2, not 3", `{"share":1.5}`: "share must be at most 1, not 1.5",
	} {
		if _, err := tool.Do(t.Context(), &Call{}, json.RawMessage(args)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}
