package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/boughdb/bough/server/introspect"
)

// overloads are the functions of one name.
type overloads struct {
	functions           []*introspect.Function
	path, base, profile string
}

// addFunctions adds the functions that the role may call.
func (b *builder) addFunctions() {
	var groups []*overloads
	for _, namespace := range b.namespaces() {
		var last *overloads
		for _, f := range b.schema.Functions {
			if f.Schema != namespace || !f.Grants.Can(b.opts.Role, introspect.Execute) || !callable(f) {
				continue
			}
			if last != nil && last.path == f.Name {
				last.functions = append(last.functions, f)
				continue
			}
			if b.usedPaths[functionPath+f.Name] {
				continue
			}
			b.usedPaths[functionPath+f.Name] = true
			last = &overloads{path: f.Name, profile: b.profile(namespace), functions: []*introspect.Function{f}}
			groups = append(groups, last)
		}
	}
	for _, g := range groups {
		name := title(g.path)
		if g.profile != "" {
			name = title(g.profile) + name
		}
		g.base = b.takeBase([]string{name, name + "Function"}, func(base string) []string {
			return []string{base + "Arguments", base + "Result"}
		}, func(base string) []string { return []string{"call" + base, "call" + base + "ReadOnly"} })
	}
	for _, g := range groups {
		b.addFunction(g)
	}
}

// callable tells whether a function can be called over HTTP at all: its arguments have names, or it has one that takes
// the whole body.
func callable(f *introspect.Function) bool {
	if f.Returns != nil && (f.Returns.Name == "trigger" || f.Returns.Name == "event_trigger" || f.Returns.Name == "internal") {
		return false
	}
	return wholeBody(f) != "" || !slices.ContainsFunc(f.Args, func(a introspect.Argument) bool { return a.Name == "" || !plainName(a.Name) })
}

// wholeBody is the media type of a body that is the function's one unnamed argument; "" where it has no such argument.
func wholeBody(f *introspect.Function) string {
	if len(f.Args) != 1 || f.Args[0].Name != "" {
		return ""
	}
	switch f.Args[0].Type.Name {
	case "json", "jsonb":
		return "application/json"
	case "text":
		return "text/plain"
	case "bytea":
		return "application/octet-stream"
	}
	return ""
}

func (b *builder) addFunction(g *overloads) {
	template := b.contract.Paths.Value(functionPath)
	item := object{{"parameters", b.pathParameters(template, nil)}}
	summary, description := "Call "+g.path, ""
	if comment := g.functions[0].Comment; comment != "" {
		first, rest, _ := strings.Cut(comment, "\n")
		summary, description = first, strings.TrimSpace(rest)
	}
	result := b.resultSchema(g)
	for _, method := range methods {
		op := template.GetOperation(method)
		readOnly := method == http.MethodGet
		functions := g.functions
		if readOnly {
			functions = slices.DeleteFunc(slices.Clone(functions), func(f *introspect.Function) bool {
				return f.Volatility == introspect.Volatile || f.Procedure || wholeBody(f) != ""
			})
		}
		if op == nil || len(functions) == 0 {
			continue
		}
		out := operation{
			template: op, id: "call" + g.base, tag: b.functionTag(op), summary: summary, description: description, profile: g.profile,
			response: func(_, component string) any { return b.functionResponse(g, component, result) },
			without:  impossible(g),
		}
		if out.description == "" {
			out.description = op.Description
		}
		if readOnly {
			out.id += "ReadOnly"
			out.filters = b.argumentParameters(functions)
		} else {
			out.body = b.argumentsBody(g)
		}
		out.filters = append(out.filters, b.rowParameters(g, out.filters)...)
		item.add(strings.ToLower(method), b.operation(out))
	}
	if len(item) > 1 {
		b.paths.add("/api/v1/rpc/"+segment(g.path), item)
	}
}

// functionTag is the template's: functions are listed together.
func (b *builder) functionTag(op *openapi3.Operation) string {
	if len(op.Tags) > 0 {
		return op.Tags[0]
	}
	return "functions"
}

// impossible are the statuses that these functions never answer with.
func impossible(g *overloads) []string {
	all := func(is func(*introspect.Function) bool) bool {
		return !slices.ContainsFunc(g.functions, func(f *introspect.Function) bool { return !is(f) })
	}
	switch {
	case all(returnsNothing):
		return []string{"200", "206", "416"}
	case all(func(f *introspect.Function) bool { return !f.ReturnsSet }):
		return []string{"206", "416"}
	}
	return nil
}

func returnsNothing(f *introspect.Function) bool {
	return f.Returns == nil || f.Returns.Name == "void" && len(f.Columns) == 0
}

// rowParameters are the parameters of a list, for functions that return rows of a table.
func (b *builder) rowParameters(g *overloads, arguments array) array {
	f := g.functions[0]
	if len(g.functions) > 1 || f.Relation == nil || !f.ReturnsSet {
		return nil
	}
	taken := map[any]bool{}
	for _, a := range arguments {
		taken[a.(object).get("name")] = true
	}
	var out array
	for _, p := range b.contract.Paths.Value(tablePath).Get.Parameters {
		if p.Value.In == openapi3.ParameterInQuery && p.Value.Name != "filters" && !taken[p.Value.Name] && !strings.HasPrefix(p.Value.Name, "@") {
			out = append(out, b.json(p))
		}
	}
	if r := b.relations[f.Relation]; r != nil {
		for _, filter := range r.filters {
			if !taken[filter.key] {
				out = append(out, ref("parameters", filter.component))
			}
		}
	}
	return out
}

// resultSchema is what the functions return: of several, any of their results.
func (b *builder) resultSchema(g *overloads) any {
	var variants array
	var seen []string
	for _, f := range g.functions {
		if returnsNothing(f) {
			continue
		}
		schema := b.rowOrValue(g, f)
		if f.ReturnsSet {
			schema = object{{"type", "array"}, {"items", schema}}
		}
		if text := string(appendJSON(nil, schema)); !slices.Contains(seen, text) {
			seen = append(seen, text)
			variants = append(variants, schema)
		}
	}
	switch len(variants) {
	case 0:
		return nil
	case 1:
		return variants[0]
	}
	return object{{"anyOf", variants}}
}

// rowOrValue is the schema of one row or of a scalar that a function returns.
func (b *builder) rowOrValue(g *overloads, f *introspect.Function) object {
	if r := b.relations[f.Relation]; r != nil {
		return ref("schemas", r.base)
	}
	if len(f.Columns) == 0 {
		return b.typeSchema(f.Returns, true)
	}
	properties := object{}
	for _, c := range f.Columns {
		if plainName(c.Name) {
			properties.add(c.Name, b.typeSchema(c.Type, true))
		}
	}
	schema := object{{"type", "object"}, {"properties", named(properties)}}
	name := g.base + "Result"
	if b.schemas.get(name) != nil {
		name = b.components.take(name)
	}
	b.schemas.add(name, schema)
	return ref("schemas", name)
}

// functionResponse is a template's response with the functions' result, in the media types that it can have.
func (b *builder) functionResponse(g *overloads, component string, result any) any {
	if component == "" || !b.generic(component) {
		return nil
	}
	template := *b.contract.Components.Responses[component].Value
	content := openapi3.Content{}
	for mediaType, media := range template.Content {
		if possible(g, mediaType) {
			content[mediaType] = media
		}
	}
	template.Content = content
	text, err := json.Marshal(&template)
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("writing the response %s: %w", component, err)
	}
	return fill(text, concrete{anyResult: result})
}

// possible tells whether a result can have a media type: text and bytes are for functions that return one.
func possible(g *overloads, mediaType string) bool {
	return slices.ContainsFunc(g.functions, func(f *introspect.Function) bool {
		switch {
		case returnsNothing(f):
			return false
		case mediaType == "text/plain":
			return !f.ReturnsSet && f.Returns.Category == 'S'
		case mediaType == "application/octet-stream":
			return !f.ReturnsSet && f.Returns.Name == "bytea"
		case mediaType == "text/csv":
			return f.ReturnsSet || len(f.Columns) > 0
		}
		return true
	})
}
