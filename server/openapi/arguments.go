package openapi

import (
	"maps"
	"slices"

	"github.com/boughdb/bough/server/introspect"
)

// argumentParameters are the arguments as query parameters. Of several functions an argument is required where all have
// it without a default.
func (b *builder) argumentParameters(functions []*introspect.Function) array {
	type parameter struct {
		introspect.Argument
		count int
	}
	var all []*parameter
	for _, f := range functions {
		for _, a := range f.Args {
			at := slices.IndexFunc(all, func(p *parameter) bool { return p.Name == a.Name })
			if at < 0 {
				all = append(all, &parameter{Argument: a})
				at = len(all) - 1
			}
			if !a.HasDefault && !a.Variadic {
				all[at].count++
			}
		}
	}
	out := array{}
	taken := b.fields(functionPath)
	for _, p := range all {
		param := object{{"name", p.Name}, {"in", "query"}}
		if p.count == len(functions) {
			param.add("required", true)
		}
		schema := b.typeSchema(p.Type, false)
		switch kind := schema.get("type"); {
		case p.Variadic && kind == "array":
			param.add("description", "Repeat the parameter for several values.")
		case kind == "array":
			schema = object{{"type", "string"}}
			param.add("description", "An array in PostgreSQL's form: {1,2}.")
		case kind == "object", kind == nil && schema.get("$ref") == nil:
			schema = object{{"type", "string"}}
			param.add("description", "The text form of a value of type "+p.Type.Name+".")
		}
		param.add("schema", schema)
		out = append(out, taken.parameter(param))
	}
	return out
}

// argumentsBody is the body of a call; nil where the functions have no arguments.
func (b *builder) argumentsBody(g *overloads) any {
	var variants array
	content := map[string]object{}
	required := true
	for _, f := range g.functions {
		switch mediaType := wholeBody(f); {
		case mediaType == "application/json":
			content[mediaType] = object{{"description", "Any JSON value."}}
			variants = nil
		case mediaType != "":
			content[mediaType] = object{{"type", "string"}}
			if mediaType == "application/octet-stream" {
				content[mediaType] = object{{"type", "string"}, {"format", "binary"}}
			}
		default:
			if schema := b.argumentsSchema(g, f); schema != nil {
				variants = append(variants, schema)
			}
		}
		required = required && slices.ContainsFunc(f.Args, func(a introspect.Argument) bool { return !a.HasDefault && !a.Variadic })
	}
	switch {
	case content["application/json"] != nil:
	case len(variants) == 1:
		content["application/json"] = variants[0].(object)
	case len(variants) > 1:
		content["application/json"] = object{{"anyOf", variants}}
	}
	if len(content) == 0 {
		return nil
	}
	out := object{}
	for _, mediaType := range slices.Sorted(maps.Keys(content)) {
		out.add(mediaType, object{{"schema", content[mediaType]}})
	}
	return object{{"required", required}, {"content", out}}
}

// argumentsSchema adds the component with a function's arguments; nil where it has none.
func (b *builder) argumentsSchema(g *overloads, f *introspect.Function) any {
	if len(f.Args) == 0 {
		return nil
	}
	var required array
	properties := object{}
	for _, a := range f.Args {
		properties.add(a.Name, b.typeSchema(a.Type, true))
		if !a.HasDefault && !a.Variadic {
			required = append(required, a.Name)
		}
	}
	schema := object{{"type", "object"}}
	if len(required) > 0 {
		schema.add("required", required)
	}
	schema.add("properties", named(properties))
	name := g.base + "Arguments"
	if b.schemas.get(name) != nil {
		name = b.components.take(name)
	}
	b.schemas.add(name, schema)
	return ref("schemas", name)
}
