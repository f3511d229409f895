package datatools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/tables"
)

type listProceduresInput struct {
	Search string `json:"search,omitempty" jsonschema:"part of a name or comment" schema:"max=100"`
}

type argument struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Optional bool   `json:"optional,omitempty"`
	Variadic bool   `json:"variadic,omitempty" jsonschema:"takes a list"`
}

type procedure struct {
	Name       string     `json:"name"`
	Arguments  []argument `json:"arguments"`
	Returns    string     `json:"returns"`
	Volatility string     `json:"volatility" jsonschema:"volatile ones may change data, stable and immutable ones only read" schema:"enum=immutable|stable|volatile"`
	Comment    string     `json:"comment,omitempty"`
}

type procedureList struct {
	Procedures []procedure `json:"procedures"`
	Truncated  bool        `json:"truncated"`
}

// maxProcedures is how many procedures are listed, and maxComment the bytes of each one's comment.
const (
	maxProcedures = 200
	maxComment    = 300
)

func (s *service) listProcedures() mcp.Tool {
	return mcp.NewTool[listProceduresInput, procedureList](mcp.Tool{
		Name: "list_procedures", Title: "List procedures", Feature: mcp.Procedures, Scopes: []string{auth.ExecuteRPC},
		Description: "List the database functions and procedures that the caller may call with call_procedure.",
		ReadOnly:    true, Idempotent: true, Branched: true,
	}, func(ctx context.Context, c *mcp.Call, in listProceduresInput) (*mcp.Result, error) {
		schema, role, err := s.schemaFor(ctx, c)
		if err != nil {
			return nil, err
		}
		out := &procedureList{Procedures: []procedure{}}
		size := 0
		for _, fn := range schema.Functions {
			if !fn.Grants.Can(role, introspect.Execute) || !matches(fn, in.Search) {
				continue
			}
			p := s.describe(fn)
			data, err := json.Marshal(p)
			if err != nil {
				return nil, fmt.Errorf("writing a procedure: %w", err)
			}
			if size += len(data) + 1; size > maxBytes || len(out.Procedures) == maxProcedures {
				out.Truncated = true
				break
			}
			out.Procedures = append(out.Procedures, p)
		}
		summary := count(int64(len(out.Procedures)), "procedure") + "."
		if out.Truncated {
			summary = fmt.Sprintf("The first %s; use search to find others.", count(int64(len(out.Procedures)), "procedure"))
		}
		return &mcp.Result{Structured: out, Summary: summary, Untrusted: true}, nil
	})
}

// schemaFor is the schema of a call's database, and the index of the caller's role in it.
func (s *service) schemaFor(ctx context.Context, c *mcp.Call) (*introspect.Schema, int, error) {
	name, err := s.Tables.Role(c.Principal)
	if err != nil {
		return nil, 0, err
	}
	schema, err := s.Schemas.Get(ctx, c.Database)
	if err != nil {
		return nil, 0, err
	}
	return schema, schema.Role(name), nil
}

func matches(fn *introspect.Function, search string) bool {
	search = strings.ToLower(search)
	return strings.Contains(strings.ToLower(fn.Name), search) || strings.Contains(strings.ToLower(fn.Comment), search)
}

// describe is a function as a model sees it.
func (s *service) describe(fn *introspect.Function) procedure {
	p := procedure{Name: fn.Name, Arguments: []argument{}, Returns: returns(fn), Volatility: volatility(fn), Comment: fn.Comment}
	if fn.Schema != s.Exposed[0] {
		p.Name = fn.Schema + "." + fn.Name
	}
	if len(p.Comment) > maxComment {
		p.Comment = strings.ToValidUTF8(p.Comment[:maxComment], "") + "…"
	}
	for _, a := range fn.Args {
		p.Arguments = append(p.Arguments, argument{Name: a.Name, Type: a.Type.SQL, Optional: a.HasDefault, Variadic: a.Variadic})
	}
	return p
}

// returns writes the type of a function's result.
func returns(fn *introspect.Function) string {
	out := "nothing"
	switch {
	case fn.Relation != nil:
		out = fn.Relation.Name
	case fn.Columns != nil:
		parts := make([]string, len(fn.Columns))
		for i, c := range fn.Columns {
			parts[i] = c.Name + " " + c.Type.SQL
		}
		out = "(" + strings.Join(parts, ", ") + ")"
	case fn.Returns != nil && fn.Returns.Name != "void":
		out = fn.Returns.SQL
	}
	if fn.ReturnsSet {
		return "set of " + out
	}
	return out
}

func volatility(fn *introspect.Function) string {
	switch fn.Volatility {
	case introspect.Immutable:
		return "immutable"
	case introspect.Stable:
		return "stable"
	}
	return "volatile"
}

type callProcedureInput struct {
	Name string                     `json:"name" jsonschema:"name, or schema.name"`
	Args map[string]json.RawMessage `json:"args,omitempty" jsonschema:"values by the names of the arguments"`
}

type callProcedureResult struct {
	Result    json.RawMessage `json:"result"`
	Truncated bool            `json:"truncated"`
}

// maxResults is how many rows of a set are shown.
const maxResults = 200

func (s *service) callProcedure() mcp.Tool {
	return mcp.NewTool[callProcedureInput, callProcedureResult](mcp.Tool{
		Name: "call_procedure", Title: "Call a procedure", Feature: mcp.Procedures, Scopes: []string{auth.ExecuteRPC},
		Description: "Call a database function or procedure. Volatile ones may change data; stable and immutable ones only read. list_procedures has names and arguments.",
		Destructive: true, Branched: true,
	}, func(ctx context.Context, c *mcp.Call, in callProcedureInput) (*mcp.Result, error) {
		schema, _, err := s.schemaFor(ctx, c)
		if err != nil {
			return nil, err
		}
		fn := s.pick(schema, in)
		if fn == nil { // it may have been made a moment ago
			if schema, err = s.Schemas.RefreshUnlessFresh(ctx, c.Database, schema); err != nil {
				return nil, err
			}
			fn = s.pick(schema, in)
		}
		reads := fn == nil || !fn.Procedure && fn.Volatility != introspect.Volatile
		if !reads {
			if err := ask(c, fmt.Sprintf("Call the procedure %s on branch %s? It may change data.", in.Name, c.Branch)); err != nil {
				return nil, err
			}
		}
		call, err := s.procedureCall(in, fn, reads)
		if err != nil {
			return nil, err
		}
		a, err := s.serve(ctx, c, *call)
		if err != nil {
			return nil, err
		}
		return resultOf(a, fn)
	})
}

// pick is the function that a call means, as far as its being volatile or a set goes: of those that know all of the
// arguments, one that is volatile if there is any. nil where there is none, which the tables will explain.
func (s *service) pick(schema *introspect.Schema, in callProcedureInput) *introspect.Function {
	namespace, name := s.named(in.Name)
	if namespace == "" {
		namespace = s.Exposed[0]
	}
	var found *introspect.Function
	for _, fn := range schema.Overloads(namespace, name) {
		known := 0
		for _, a := range fn.Args {
			if _, ok := in.Args[a.Name]; ok && a.Name != "" {
				known++
			}
		}
		if whole := len(fn.Args) == 1 && fn.Args[0].Name == ""; known < len(in.Args) && !whole {
			continue // one argument without a name may take the whole object
		}
		if found == nil || fn.Procedure || fn.Volatility == introspect.Volatile {
			found = fn
		}
	}
	return found
}

// procedureCall is the request for a call. Functions that only read are called in a read-only transaction, by GET. Where
// its query string cannot say what an argument is, they are called by POST, and what they may have done is rolled back. So
// is a call of what is not there, for the message that says what is.
func (s *service) procedureCall(in callProcedureInput, fn *introspect.Function, reads bool) (*tables.Call, error) {
	namespace, name := s.named(in.Name)
	call := &tables.Call{Function: name, AcceptProfile: namespace, ContentProfile: namespace}
	p := &parameters{}
	if fn != nil && fn.ReturnsSet && !hasArgument(fn, "limit") { // by GET an argument of that name would get the value
		p.add("limit", strconv.Itoa(maxResults+1))
	}
	if q, ok := inQuery(p, in.Args); reads && ok && fn != nil && (len(fn.Args) == 0 || fn.Args[0].Name != "") {
		call.Method, call.Query = "GET", q
		return call, nil
	}
	args := in.Args
	if args == nil {
		args = map[string]json.RawMessage{}
	}
	data, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("writing arguments: %w", err)
	}
	call.Method, call.Query, call.Body = "POST", p.String(), bytes.NewReader(data)
	if reads {
		call.Prefer = []string{"tx=rollback"}
	}
	return call, nil
}

func hasArgument(fn *introspect.Function, name string) bool {
	return slices.ContainsFunc(fn.Args, func(a introspect.Argument) bool { return a.Name == name })
}

// inQuery writes arguments into a query string; ok is false where they are not all texts, numbers and booleans.
func inQuery(p *parameters, args map[string]json.RawMessage) (q string, ok bool) {
	with := &parameters{parts: append([]string{}, p.parts...)}
	for name, raw := range args {
		text, ok := scalar(raw)
		if !ok || kindOf(raw) == 'n' {
			return "", false
		}
		with.add(quote(name), text)
	}
	return with.String(), true
}

// resultOf is the result of a call: a list for sets, which may be cut short, else one value.
func resultOf(a *answer, fn *introspect.Function) (*mcp.Result, error) {
	out := callProcedureResult{}
	if fn == nil || !fn.ReturnsSet || !bytes.HasPrefix(a.body.Bytes(), []byte("[")) { // a set of ROWS 1 is one value too
		value, err := a.value()
		if err != nil {
			return nil, err
		}
		out.Result = value
		return &mcp.Result{Structured: out, Untrusted: true}, nil
	}
	rows, err := a.records()
	if err != nil {
		return nil, err
	}
	if out.Truncated = a.cut || len(rows) > maxResults; len(rows) > maxResults {
		rows = rows[:maxResults]
	}
	if out.Result, err = json.Marshal(rows); err != nil {
		return nil, fmt.Errorf("writing a result: %w", err)
	}
	summary := ""
	if out.Truncated {
		summary = fmt.Sprintf("The first %s of the result; there are more. Give arguments that ask for less.", count(int64(len(rows)), "row"))
	}
	return &mcp.Result{Structured: out, Summary: summary, Untrusted: true}, nil
}
