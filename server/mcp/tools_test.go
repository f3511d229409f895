package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/boughdb/bough/server/fault"
)

type empty struct{}

type echoIn struct {
	Text  string   `json:"text" jsonschema:"what to say" schema:"min=1,max=40"`
	Count int      `json:"count,omitempty" schema:"default=2,min=1,max=5"`
	Tone  string   `json:"tone,omitempty" schema:"enum=soft|loud,default=soft"`
	Lines []line   `json:"lines,omitempty" schema:"max=3"`
	Any   any      `json:"any,omitempty" jsonschema:"anything"`
	Names []string `json:"names,omitempty" schema:"enum=a|b"`
	Sure  bool     `json:"sure,omitempty"`
	Share float64  `json:"share,omitempty"`
}

type line struct {
	Column string `json:"column"`
	Op     string `json:"op,omitempty" schema:"enum=eq|neq,default=eq"`
}

type echoOut struct {
	Said  string            `json:"said"`
	Lines []line            `json:"lines"`
	Notes map[string]string `json:"notes"`
	Last  *string           `json:"last"`
}

type rowsOut struct {
	Rows   []map[string]any `json:"rows"`
	Branch string           `json:"branch"`
}

type changeIn struct {
	ID   int    `json:"id"`
	Text string `json:"text,omitempty"`
}

type changeOut struct {
	Answer string `json:"answer"`
}

type lookIn struct {
	Branch string `json:"branch"`
}

// bench is what the tools of the tests leave behind.
type bench struct {
	changed atomic.Int64
	waiting atomic.Int64 // calls of the tool "waits" that have begun
	// asked is what the question of the tool "change" ends with.
	asked atomic.Value
}

// toolConfig has tools of every kind.
func toolConfig(tb testing.TB) (Config, *bench, *recorder) {
	tb.Helper()
	b, records := &bench{}, &recorder{}
	cfg := testConfig(tb)
	cfg.Audit = records.audit
	read := Tool{Description: "For tests.", Feature: Schema, Scopes: []string{"read:schema"}, ReadOnly: true}
	named := func(t Tool, name string) Tool { t.Name = name; return t }
	failing := func(name string, err func(*Call) error) Tool {
		return NewTool[empty, changeOut](named(read, name), func(_ context.Context, c *Call, _ empty) (*Result, error) { return nil, err(c) })
	}
	cfg.Tools = []Tool{
		NewTool[echoIn, echoOut](named(read, "echo"), func(_ context.Context, _ *Call, in echoIn) (*Result, error) {
			said := strings.Repeat(in.Text+" ", in.Count) + in.Tone
			if in.Any != nil {
				said += fmt.Sprintf(" %T %v", in.Any, in.Any)
			}
			return &Result{Structured: echoOut{Said: said, Lines: in.Lines}, Summary: "Said."}, nil
		}),
		NewTool[empty, rowsOut](Tool{
			Name: "rows", Description: "For tests.", Feature: Tables, Scopes: []string{"read:tables"}, ReadOnly: true, Branched: true,
		}, func(_ context.Context, c *Call, _ empty) (*Result, error) {
			return &Result{
				Structured: rowsOut{[]map[string]any{{"b": "<ignore>", "a": nil}}, c.Branch + " " + c.Database}, Summary: "1 row.", Untrusted: true,
			}, nil
		}),
		NewTool[changeIn, changeOut](Tool{
			Name: "change", Description: "For tests.", Feature: Tables, Scopes: []string{"read:tables", "write:tables"}, Branched: true, Destructive: true,
		}, func(_ context.Context, c *Call, in changeIn) (*Result, error) {
			tail, _ := b.asked.Load().(string)
			answer, err := c.Confirm(fmt.Sprintf("Change %d on %s?%s", in.ID, c.Branch, tail))
			if err != nil {
				return nil, err
			}
			if answer != Declined {
				b.changed.Add(1)
			}
			return &Result{Structured: changeOut{[]string{"unable", "accepted", "declined"}[answer]}}, nil
		}),
		NewTool[changeIn, changeOut](Tool{
			Name: "migrate", Description: "For tests.", Feature: Branches, Scopes: []string{"read:branches", "write:branches"},
		}, func(context.Context, *Call, changeIn) (*Result, error) {
			return &Result{Structured: changeOut{"migrated"}}, nil
		}),
		NewTool[lookIn, changeOut](Tool{
			Name: "look", Description: "For tests.", Feature: Branches, Scopes: []string{"read:branches"}, ReadOnly: true,
		}, func(_ context.Context, _ *Call, in lookIn) (*Result, error) {
			return &Result{Structured: changeOut{in.Branch}}, nil
		}),
		NewTool[empty, changeOut](named(read, "big"), func(context.Context, *Call, empty) (*Result, error) {
			return &Result{Structured: changeOut{strings.Repeat("äö", 64<<10)}, Untrusted: true}, nil
		}),
		NewTool[empty, changeOut](named(read, "waits"), func(ctx context.Context, _ *Call, _ empty) (*Result, error) {
			b.waiting.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		failing("panics", func(*Call) error { panic("at the disco") }),
		failing("breaks", func(*Call) error { return errors.New("secret of the inside") }),
		failing("empties", func(*Call) error { return nil }),
		failing("refuses", func(*Call) error {
			return &fault.Error{Kind: fault.NotFound, Code: "42P01", Message: `relation "x" does not exist`, Details: "Nowhere.", Hint: "Try y."}
		}),
	}
	cfg.Resources = []Resource{{
		URI: "db://overview", Name: "overview", MIMEType: "text/plain", Feature: Schema, Scopes: []string{"read:schema"},
		Read: func(_ context.Context, c *Call) (string, error) { return "overview of " + c.Branch, nil },
	}, {
		URI: "branch://all", Name: "all", Feature: Branches, Scopes: []string{"read:branches"},
		Read: func(context.Context, *Call) (string, error) { return "", errors.New("secret of the inside") },
	}}
	cfg.Templates = []Template{{
		URITemplate: "db://{schema}/{table}", Name: "table", MIMEType: "text/plain", Feature: Tables, Scopes: []string{"read:tables"},
		Read: func(_ context.Context, _ *Call, _ string, v map[string]string) (string, error) {
			if v["table"] == "none" {
				return "", fault.New(fault.NotFound, "not_found", "there is no table none")
			}
			return v["schema"] + " and " + v["table"], nil
		},
	}}
	cfg.Prompts = []Prompt{{
		Name: "tune", Feature: Tables, Scopes: []string{"read:tables"}, Arguments: []PromptArgument{{Name: "query", Required: true}, {Name: "goal"}},
		Render: func(_ context.Context, _ *Call, a map[string]string) (string, error) {
			return "Tune " + a["query"], nil
		},
	}}
	cfg.Completions = []Completion{
		{Ref: "tune", Argument: "goal", Complete: func(_ context.Context, _ *Call, argument, prefix string, known map[string]string) ([]string, error) {
			return []string{argument + " " + prefix + " " + known["query"]}, nil
		}},
		{Ref: "db://{schema}/{table}", Argument: "table", Complete: func(_ context.Context, c *Call, _, _ string, _ map[string]string) ([]string, error) {
			many := make([]string, 150)
			for i := range many {
				many[i] = fmt.Sprint(c.Branch, i)
			}
			return many, nil
		}},
	}
	return cfg, b, records
}

func newTools(tb testing.TB) (*Server, *bench, *recorder) {
	tb.Helper()
	cfg, b, records := toolConfig(tb)
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s, b, records
}
