package mcp

import (
	"context"
	"strings"
	"testing"
)

// What the program got wrong is told when it starts, all at once.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good, _, _ := toolConfig(t)
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	bad := good
	noop := func(context.Context, *Call, empty) (*Result, error) { return &Result{}, nil }
	tool := func(t Tool) Tool { return NewTool[empty, empty](t, noop) }
	bad.Tools = append([]Tool{
		tool(Tool{Name: "echo", Description: "d", Feature: Schema, Scopes: []string{"s"}}),
		tool(Tool{Name: "Dotted.name", Description: "d", Feature: Schema, Scopes: []string{"s"}}),
		tool(Tool{Name: "free", Description: "d", Feature: Schema}),
		tool(Tool{Name: "nowhere", Description: "d", Feature: "weather", Scopes: []string{"s"}}),
		tool(Tool{Name: "silent", Feature: Schema, Scopes: []string{"s"}}),
		{Name: "idle", Description: "d", Feature: Schema, Scopes: []string{"s"}},
	}, good.Tools...)
	bad.Templates = append([]Template{{URITemplate: "db://{", Name: "x", Feature: Schema, Scopes: []string{"s"}, Read: good.Templates[0].Read}}, good.Templates...)
	bad.Completions = append([]Completion{{Ref: "guess", Argument: "x", Complete: good.Completions[0].Complete}}, good.Completions...)
	bad.StateKey = []byte("short")
	bad.Authenticate = nil
	_, err := New(bad)
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, want := range []string{
		`two of the tool "echo"`, `"Dotted.name" is not of the form`, `"free" lacks`, `"nowhere" lacks`, `"silent" lacks`, `"idle" lacks`,
		`the template "db://{"`, `nothing to complete "x" of "guess"`, "StateKey", "Authenticate",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %s:\n%s", want, err)
		}
	}
}
