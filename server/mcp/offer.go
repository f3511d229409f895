package mcp

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// addBranch adds the argument that Branched tools have besides their own.
func addBranch(s *jsonschema.Schema) {
	if s.Properties == nil {
		s.Properties = map[string]*jsonschema.Schema{}
	}
	s.Properties["branch"] = &jsonschema.Schema{Type: "string", Description: "slug or id of the branch; default main"}
	s.PropertyOrder = append(s.PropertyOrder, "branch")
}

// offer is the tool as lists show it.
func (t Tool) offer() *sdk.Tool {
	return &sdk.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description,
		Annotations: &sdk.ToolAnnotations{
			ReadOnlyHint: t.ReadOnly, DestructiveHint: &t.Destructive, IdempotentHint: t.Idempotent, OpenWorldHint: &t.OpenWorld,
		},
		InputSchema: written(t.input), OutputSchema: written(t.output),
	}
}

// written is a schema's JSON, written once for all the lists that have it.
func written(s *jsonschema.Schema) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // inferred schemas have nothing that cannot be written
	}
	return b
}
