package schematools_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/mcp/schematools"
)

// serve serves the tools and all that belongs to them to one caller.
func (b *bundle) serve(t *testing.T, p *auth.Principal) string {
	t.Helper()
	s, err := mcp.New(mcp.Config{
		Tools: schematools.Tools(b.deps), Resources: schematools.Resources(b.deps), Templates: schematools.Templates(b.deps),
		Prompts: schematools.Prompts(b.deps), Completions: schematools.Completions(b.deps), Instructions: schematools.Instructions, Version: "1",
		Authenticate: func(*http.Request) (*auth.Principal, error) { return p, nil },
		Route: func(ctx context.Context, p *auth.Principal, branch string, write bool) (string, string, error) {
			r, err := b.deps.Branches.Route(ctx, p, branch, write)
			return r.Slug, r.Database, err
		},
		ResourceURL: "http://127.0.0.1/mcp", StateKey: []byte(strings.Repeat("k", 32)), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	return web.URL
}

// connect connects a client whose person says answer to every question, and adds them to asked.
func connect(t *testing.T, address, answer string, asked *[]string) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			*asked = append(*asked, r.Params.Message)
			return &sdk.ElicitResult{Action: answer, Content: map[string]any{}}, nil
		},
	})
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: address, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// Clients find and use everything through the server.
func TestServed(t *testing.T) {
	t.Parallel()
	b := setup(t, drafts, blog, draftsKey)
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	address := b.serve(t, b.service)
	c := connect(t, address, "accept", new([]string))
	tools, err := c.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != len(b.tools) {
		t.Fatalf("%v: %+v", err, tools)
	}
	for _, uri := range []string{"db://overview", "db://public/posts", "branch://work", "openapi://document"} {
		r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if err != nil || len(r.Contents) != 1 || r.Contents[0].MIMEType != "application/json" || !strings.HasPrefix(r.Contents[0].Text, "{") {
			t.Errorf("%s: %v: %+v", uri, err, r)
		}
	}
	p, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "design_migration", Arguments: map[string]string{"goal": "tags"}})
	if err != nil || len(p.Messages) != 1 {
		t.Errorf("%v: %+v", err, p)
	}
	values, err := c.Complete(t.Context(), &sdk.CompleteParams{
		Ref:      &sdk.CompleteReference{Type: "ref/resource", URI: "db://{schema}/{table}"},
		Argument: sdk.CompleteParamsArgument{Name: "table", Value: "po"}, Context: &sdk.CompleteContext{Arguments: map[string]string{"schema": "public"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"posts"}, values.Completion.Values); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "apply_migration", Arguments: map[string]any{"name": "x", "sql": "create table tags (); commit", "branch": "work"}})
	if err != nil || !r.IsError {
		t.Errorf("%v: %+v", err, r)
	}
	r, err = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "apply_migration", Arguments: map[string]any{"name": "x", "sql": "create table tags ()", "branch": "work"}})
	if err != nil || r.IsError {
		t.Errorf("%v: %+v", err, r)
	}
	fixed := connect(t, address+"?branch=work", "accept", new([]string))
	for tool, arguments := range map[string]map[string]any{
		"apply_migration": {"name": "x", "sql": "create table more ()", "branch": "main"}, "get_branch": {"branch": "main"}, "list_tables": {"branch": "main"},
	} {
		if r, err := fixed.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments}); err != nil || !r.IsError {
			t.Errorf("%s on another branch: %v: %+v", tool, err, r)
		}
	}
	if _, err := fixed.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "branch://main"}); err == nil {
		t.Error("another branch's document was read")
	}
}

// Who can be asked need not say confirm, and nothing happens against her will.
func TestDestructiveToolsAsk(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.deps.AllowMigrateMain = true
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	address := b.serve(t, b.service)
	for _, tc := range []struct {
		tool, question string
		arguments      map[string]any
		happened       func() bool
	}{
		{"apply_migration", `Apply migration "x" (1 statements) to main?`, map[string]any{"name": "x", "sql": "create table made ()"}, func() bool {
			return value[bool](t, b.main, "select exists (select from pg_class where relname = 'made')")
		}},
		{"reset_branch", `Reset branch "work"?`, map[string]any{"branch": "work"}, func() bool {
			return b.call(t, b.service, "get_branch", "", `{"branch":"work"}`).get("reset_at") != nil
		}},
		{"delete_branch", `Delete branch "work" and its data`, map[string]any{"branch": "work"}, func() bool {
			_, err := b.try(t, b.service, "get_branch", "", `{"branch":"work"}`)
			return err != nil
		}},
	} {
		for _, answer := range []string{"decline", "accept"} {
			var asked []string
			r, err := connect(t, address, answer, &asked).CallTool(t.Context(), &sdk.CallToolParams{Name: tc.tool, Arguments: tc.arguments})
			if err != nil {
				t.Fatal(err)
			}
			if len(asked) != 1 || !strings.HasPrefix(asked[0], tc.question) {
				t.Errorf("%s asked %q", tc.tool, asked)
			}
			if want := answer == "accept"; r.IsError == want || tc.happened() != want {
				t.Errorf("%s, %s: %+v", tc.tool, answer, r.Content)
			}
		}
	}
}
