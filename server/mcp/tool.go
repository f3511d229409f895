package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/boughdb/bough/server/auth"
)

// Feature is a group of tools, resources and prompts that ?features= can choose.
type Feature string

// The features.
const (
	Schema     Feature = "schema"
	Tables     Feature = "tables"
	Procedures Feature = "procedures"
	Branches   Feature = "branches"
)

// features are all of them, in the order of messages.
var features = []Feature{Schema, Tables, Procedures, Branches}

// Tool is a tool that assistants call.
type Tool struct {
	// Name has the form [a-z_]{1,64}; Title and Description are read by people and by models.
	Name, Title, Description string
	Feature                  Feature
	// Scopes must all be the caller's.
	Scopes []string
	// Administrators keeps the tool from everybody else, besides the scopes.
	Administrators bool
	// Hints, as MCP's tool annotations have them. A tool that is not ReadOnly is not offered with ?read_only=true, and
	// needs write access to its branch.
	ReadOnly, Destructive, Idempotent, OpenWorld bool
	// Branched tools work on main or on a branch: they have an argument "branch" besides their own, and their calls come
	// with the database.
	Branched bool

	input, output *jsonschema.Schema
	run           func(ctx context.Context, c *Call, arguments json.RawMessage) (*Result, error)
}

// NewTool completes a tool with what it does. The schemas of its arguments and of its structured result come from In and
// Out: structs with json tags, whose jsonschema tags describe the fields; a field is required unless it has omitempty or
// omitzero. Arguments have been held against the schema when run gets them.
//
// A schema tag says more of a field, as in `schema:"enum=asc|desc,default=asc"` or `schema:"default=50,min=1,max=200"`:
//
//	enum     the values that a text or number may have, or each element of a list
//	default  the value of a field that was left out; for texts, numbers and booleans
//	min, max bounds of a number, of a text's length, of a list's length
//	of       the one JSON type that a json.RawMessage has, or each element of a list of them
//
// Values cannot contain commas. A tag that is wrong panics here, when the program starts. Null for a field that may be left
// out is as if it were left out; where null means something, the field is of type any or json.RawMessage, and numbers in
// fields of type any are json.Number. In results, nil lists and maps are written as empty ones.
func NewTool[In, Out any](t Tool, run func(ctx context.Context, c *Call, in In) (*Result, error)) Tool {
	t.input, t.output = schemaOf[In](false), schemaOf[Out](true)
	if t.Branched {
		if t.input.Properties["branch"] != nil {
			panic(fmt.Errorf("the tool %s is Branched and has an argument branch of its own", t.Name))
		}
		addBranch(t.input)
	}
	t.run = func(ctx context.Context, c *Call, arguments json.RawMessage) (*Result, error) {
		var in In
		if err := decode(arguments, &in); err != nil {
			return nil, err
		}
		return run(ctx, c, in)
	}
	return t
}

// Do calls the tool outside a server, with a call whose branch is chosen already; an argument "branch" is left aside. The
// arguments are held against their schema, as they are for callers, and so is the result, which a server trusts to fit.
func (t Tool) Do(ctx context.Context, c *Call, arguments json.RawMessage) (*Result, error) {
	given, err := t.read(arguments)
	if err != nil {
		return nil, err
	}
	result, err := t.run(ctx, c, given.own)
	if err != nil {
		return nil, err
	}
	written, err := t.render(result)
	if err != nil {
		return nil, err
	}
	return result, t.fits(written.StructuredContent)
}

// Definition returns what tools/list says of the tool, as JSON.
func (t Tool) Definition() (json.RawMessage, error) {
	return json.Marshal(t.offer())
}

// Call is a call of a tool by somebody who may call it.
type Call struct {
	Principal *auth.Principal
	// Branch is the slug of the branch that a Branched tool works on, "main" for main; Database is its database. Access
	// to it has been checked.
	Branch, Database string
	// Tool is the name of the tool, Client the name that the caller's program gives itself ("" for none), for records.
	Tool, Client string
	RequestID    string

	confirm func(question string) (Answer, error)
}

// Answer is what a person said to a question.
type Answer int

// The answers. Unable means that the caller's program cannot ask.
const (
	Unable Answer = iota
	Accepted
	Declined
)

// Confirm asks the person behind the caller's program whether to go on. An error that it returns is returned by the tool
// as it is: the program is to ask, and then calls again. Nothing may have been changed before.
//
// A tool asks at most one question in a call, and asks the same one again in the call with the answer: an answer to
// another question, because what is to be confirmed has changed meanwhile, is refused.
func (c *Call) Confirm(question string) (Answer, error) {
	if c.confirm == nil {
		return Unable, nil
	}
	return c.confirm(question)
}

// Answering returns a copy of the call whose questions are all answered alike, for calls outside a server.
func (c *Call) Answering(a Answer) *Call {
	answered := *c
	answered.confirm = func(string) (Answer, error) { return a, nil }
	return &answered
}

// Result is what a tool returns.
type Result struct {
	// Structured is the result as the output schema has it: a value whose JSON is an object.
	Structured any
	// Summary is a line for the model that says what the result is, and how to go on where it was cut short.
	Summary string
	// Untrusted marks results with data of the database: text that others wrote. Their text is fenced.
	Untrusted bool
}
