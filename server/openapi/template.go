package openapi

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// The schemas of the templates that stand for what only the database knows.
const (
	anyRecord    = "Record"
	anyRecords   = "RecordOrRecords"
	anyArguments = "Arguments"
	anyResult    = "AnyResult"
)

// concrete says what the placeholders are for one relation or function.
type concrete map[string]any

// operation is a template's operation for one relation or function.
type operation struct {
	template *openapi3.Operation
	id, tag  string
	summary  string
	// description stands in place of the template's where it isn't "".
	description string
	// profile is the schema that a header must name; "" for none.
	profile string
	// filters stand in place of the template's parameter for filters.
	filters array
	// body is the request's body; nil for none.
	body any
	// response gives the response of a status in place of the template's; nil results keep it.
	response func(status, component string) any
	// without are statuses that cannot happen.
	without []string
}

// operation writes an operation.
func (b *builder) operation(o operation) object {
	t := o.template
	out := object{{"operationId", o.id}, {"tags", array{o.tag}}, {"summary", o.summary}}
	if o.description != "" {
		out.add("description", o.description)
	} else if t.Description != "" {
		out.add("description", t.Description)
	}
	params := array{}
	for _, p := range t.Parameters {
		switch v := p.Value; {
		case v.In == openapi3.ParameterInQuery && v.Name == "filters":
			params = append(params, o.filters...)
		case o.profile != "" && strings.HasSuffix(v.Name, "-Profile"):
			params = append(params, b.profileParameter(v, o.profile))
		default:
			params = append(params, b.json(p))
		}
	}
	if len(params) > 0 {
		out.add("parameters", params)
	}
	if o.body != nil {
		out.add("requestBody", o.body)
	}
	responses := object{}
	all := t.Responses.Map()
	for _, status := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(o.without, status) {
			continue
		}
		template := all[status]
		var response any
		if o.response != nil {
			response = o.response(status, strings.TrimPrefix(template.Ref, "#/components/responses/"))
		}
		if response == nil {
			response = b.json(template)
		}
		responses.add(status, response)
	}
	out.add("responses", responses)
	out.add("security", b.security(t))
	return out
}

// generic tells whether a template's component holds one of the placeholders.
func (b *builder) generic(component string) bool {
	response := b.contract.Components.Responses[component]
	if response == nil {
		return false
	}
	text := b.json(response.Value)
	for _, placeholder := range []string{anyRecord, anyRecords, anyResult} {
		if bytes.Contains(text, placeholderRef(placeholder)) {
			return true
		}
	}
	return false
}

func placeholderRef(name string) []byte {
	return []byte(`{"$ref":"#/components/schemas/` + name + `"}`)
}

// fill is a part of a template with schemas in place of the placeholders.
func fill(text raw, meaning concrete) raw {
	for _, name := range []string{anyRecord, anyRecords, anyArguments, anyResult} {
		if schema, ok := meaning[name]; ok && bytes.Contains(text, placeholderRef(name)) {
			text = bytes.ReplaceAll(text, placeholderRef(name), appendJSON(nil, schema))
		}
	}
	return text
}

// profileParameter is the header that must name a schema other than the first.
func (b *builder) profileParameter(template *openapi3.Parameter, profile string) object {
	key := template.Name + " " + profile
	name, ok := b.shared[key]
	if !ok {
		name = b.components.take(title(template.Name) + title(profile))
		b.shared[key] = name
		b.parameters.add(name, object{
			{"name", template.Name}, {"in", "header"}, {"required", true},
			{"description", "The database schema."},
			{"schema", object{{"type", "string"}, {"enum", array{profile}}}},
		})
	}
	return ref("parameters", name)
}

// pathParameters are the parameters of a template's path without the one that its place in the path has filled.
func (b *builder) pathParameters(item *openapi3.PathItem, id object) array {
	out := array{}
	for _, p := range item.Parameters {
		switch {
		case p.Value.In != openapi3.ParameterInPath:
			out = append(out, b.json(p))
		case p.Value.Name == "id":
			out = append(out, id)
		}
	}
	return out
}

// fields are the names that the parameters of templates have in generated code.
func (b *builder) fields(paths ...string) names {
	taken := names{}
	for _, path := range paths {
		item := b.contract.Paths.Value(path)
		lists := []openapi3.Parameters{item.Parameters}
		for _, op := range item.Operations() {
			lists = append(lists, op.Parameters)
		}
		for _, list := range lists {
			for _, p := range list {
				taken.add(title(p.Value.Name))
			}
		}
	}
	return taken
}

// parameter takes a parameter's name in generated code.
func (n names) parameter(param object) object {
	if name := n.goName(param.get("name").(string)); name != "" {
		param.add("x-go-name", name)
	}
	return param
}

// methods are the methods of the templates in the order of the document.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
