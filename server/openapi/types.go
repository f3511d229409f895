package openapi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/introspect"
)

// maxDepth bounds how far the fields of composite types are followed.
const maxDepth = 5

// plain are the types whose JSON form is a schema of two or three words. They use the formats of the OpenAPI
// specification only: strict validators refuse others, and generators would guess. numeric has none, which generators
// take for a decimal; the one for Go would take it for float32.
var plain = map[string]object{
	"bool":        {{"type", "boolean"}},
	"int2":        {{"type", "integer"}, {"format", "int32"}, {"minimum", -32768}, {"maximum", 32767}},
	"int4":        {{"type", "integer"}, {"format", "int32"}},
	"int8":        {{"type", "integer"}, {"format", "int64"}},
	"float4":      {{"type", "number"}, {"format", "float"}},
	"float8":      {{"type", "number"}, {"format", "double"}},
	"numeric":     {{"type", "number"}, {"x-go-type", "json.Number"}},
	"uuid":        {{"type", "string"}, {"format", "uuid"}},
	"date":        {{"type", "string"}, {"format", "date"}},
	"timestamptz": {{"type", "string"}, {"format", "date-time"}},
	"bytea":       {{"type", "string"}, {"pattern", `^\\x([0-9a-fA-F]{2})*$`}},
	// Types that PostgreSQL turns into JSON objects.
	"hstore":    {{"type", "object"}, {"additionalProperties", object{{"type", "string"}, {"nullable", true}}}},
	"geometry":  {{"type", "object"}, {"additionalProperties", true}},
	"geography": {{"type", "object"}, {"additionalProperties", true}},
}

// explained are the types of which a schema does not say enough.
var explained = map[string]string{
	"numeric":   "An exact number; a client that reads numbers as floating point loses digits.",
	"bytea":     `Bytes in hexadecimal, after \x.`,
	"timestamp": "A date and time without a zone, such as 2026-01-31T12:00:00.",
	"time":      "A time of day without a zone, such as 12:00:00.",
}

// typeSchema is the JSON form of a type's values.
func (b *builder) typeSchema(t *introspect.Type, nullable bool) object {
	return b.typeAt(t, nullable, 0)
}

func (b *builder) typeAt(t *introspect.Type, nullable bool, depth int) object {
	t = t.Underlying()
	var out object
	switch {
	case t.Kind == introspect.Enum && len(t.Labels) > 0 && !slices.ContainsFunc(t.Labels, func(label string) bool { return !plainName(label) }):
		return ref("schemas", b.enum(t, nullable))
	case isJSON(t) || depth > maxDepth || t.Kind == introspect.Pseudo:
		return object{{"description", "Any JSON value."}}
	case t.Kind == introspect.Array && t.Elem != nil:
		out = object{{"type", "array"}, {"items", b.typeAt(t.Elem, false, depth+1)}}
	case t.Kind == introspect.Composite:
		properties := object{}
		for _, a := range t.Attributes {
			if plainName(a.Name) {
				properties.add(a.Name, b.typeAt(a.Type, true, depth+1))
			}
		}
		out = object{{"type", "object"}, {"properties", named(properties)}}
	case t.Kind == introspect.Base && plain[t.Name] != nil:
		out = append(object{}, plain[t.Name]...)
	default:
		out = object{{"type", "string"}}
	}
	if nullable {
		out.add("nullable", true)
	}
	return out
}

// enum is the component of an enum type. One that may be null is a component of its own: in OpenAPI 3.0 null must be
// one of the values.
func (b *builder) enum(t *introspect.Type, nullable bool) string {
	name, ok := b.enums[t.OID]
	if !ok {
		name = b.takeBase([]string{title(t.Name), title(t.Schema) + title(t.Name), title(t.Name) + "Enum"},
			func(base string) []string { return []string{base, base + "OrNull"} }, none)
		b.enums[t.OID] = name
		labels := array{}
		for _, label := range t.Labels {
			labels = append(labels, label)
		}
		schema := object{{"type", "string"}}
		if t.Comment != "" {
			schema.add("description", t.Comment)
		}
		b.schemas.add(name, append(schema, member{"enum", labels}))
		b.schemas.add(name+"OrNull", append(schema[:len(schema):len(schema)],
			member{"nullable", true}, member{"enum", append(labels[:len(labels):len(labels)], nil)}))
	}
	if nullable {
		return name + "OrNull"
	}
	return name
}

func none(string) []string { return nil }

// annotated adds members to a schema; beside a reference they would not count.
func annotated(schema object, members ...member) object {
	if len(members) == 0 {
		return schema
	}
	if len(schema) == 1 && schema[0].name == "$ref" {
		schema = object{{"allOf", array{schema}}}
	}
	for _, m := range members {
		if at := indexOf(schema, m.name); at >= 0 {
			schema = append(object{}, schema...)
			schema[at] = m
			continue
		}
		schema = append(schema[:len(schema):len(schema)], m)
	}
	return schema
}

func indexOf(o object, name string) int {
	for i, m := range o {
		if m.name == name {
			return i
		}
	}
	return -1
}

// named gives properties whose names a generator would make the same Go field of names of their own.
func named(properties object) object {
	taken := names{}
	for i, p := range properties {
		if name := taken.goName(p.name); name != "" {
			schema, _ := p.value.(object)
			properties[i].value = annotated(schema, member{"x-go-name", name})
		}
	}
	return properties
}

func isJSON(t *introspect.Type) bool {
	return t.Kind == introspect.Base && (t.Name == "json" || t.Name == "jsonb")
}

// example is a value of the type; nil where there is none that fits surely.
func example(t *introspect.Type, maxLength int) any {
	t = t.Underlying()
	switch t.Kind {
	case introspect.Enum:
		if len(t.Labels) > 0 {
			return t.Labels[0]
		}
		return nil
	case introspect.Array:
		if t.Elem != nil {
			if item := example(t.Elem, 0); item != nil {
				return array{item}
			}
		}
		return array{}
	case introspect.Composite:
		return object{}
	case introspect.Range:
		return "empty"
	case introspect.Multirange:
		return "{}"
	}
	if value, ok := examples[t.Name]; ok && t.Kind == introspect.Base {
		return value
	}
	text := "text"
	if t.Category != 'S' {
		return nil
	}
	if maxLength > 0 && maxLength < len(text) {
		text = text[:maxLength]
	}
	return text
}

var examples = map[string]any{
	"bool": true, "int2": 1, "int4": 1, "int8": 1, "float4": raw("1.5"), "float8": raw("1.5"), "numeric": raw("1.5"),
	"uuid": "0191d9a0-5f0e-7c5e-9a52-6f6f3a2b1c4d", "date": "2026-01-31", "timestamptz": "2026-01-31T12:00:00+00:00",
	"timestamp": "2026-01-31T12:00:00", "time": "12:00:00", "timetz": "12:00:00+00", "interval": "1 day",
	"bytea": `\x00ff`, "json": object{}, "jsonb": object{}, "hstore": object{}, "money": "$1.00",
	"inet": "192.0.2.1", "cidr": "192.0.2.0/24", "macaddr": "00:00:5e:00:53:01", "bit": "1", "varbit": "1",
	"point": "(1,2)", "oid": "1", "tsvector": "'text'", "xml": "<a/>",
}

// constant is the value of a default that is a literal, such as 'draft'::text or 0.
func constant(t *introspect.Type, maxLength int, expr string) (value any, ok bool) {
	t = t.Underlying()
	text, ok := literal(expr)
	if !ok {
		return nil, false
	}
	switch {
	case t.Kind == introspect.Enum:
		for _, label := range t.Labels {
			if label == text {
				return text, true
			}
		}
	case t.Kind != introspect.Base:
	case t.Name == "bool" && (text == "true" || text == "false"):
		return text == "true", true
	case t.Name == "int2" || t.Name == "int4" || t.Name == "int8":
		n, err := strconv.Atoi(text)
		return n, err == nil
	case t.Name == "float4" || t.Name == "float8" || t.Name == "numeric":
		return raw(text), isNumber(text)
	case t.Category == 'S' && plain[t.Name] == nil:
		return text, maxLength == 0 || len([]rune(text)) <= maxLength
	}
	return nil, false
}

// literal is the text of a constant in PostgreSQL's way to write expressions: in quotes or not, with a cast or not.
func literal(expr string) (string, bool) {
	if rest, ok := strings.CutPrefix(expr, "'"); ok {
		for i := 0; i < len(rest); i++ {
			if rest[i] != '\'' {
				continue
			}
			if i+1 < len(rest) && rest[i+1] == '\'' {
				i++
				continue
			}
			return strings.ReplaceAll(rest[:i], "''", "'"), isCast(rest[i+1:])
		}
		return "", false
	}
	value, cast, found := strings.Cut(expr, "::")
	value = strings.TrimSuffix(strings.TrimPrefix(value, "("), ")")
	return value, (value == "true" || value == "false" || isNumber(value)) && (!found || isCast("::"+cast))
}

// isCast tells whether text is nothing, or a cast to one type and nothing else.
func isCast(text string) bool {
	if text == "" {
		return true
	}
	name, ok := strings.CutPrefix(text, "::")
	if !ok {
		return false
	}
	quoted := false
	for _, r := range name {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted, r == '_', r == '.', r == ' ', r == '(', r == ')', r == ',', r > '~':
		case isWord(r):
		default:
			return false
		}
	}
	return true
}

// isNumber tells whether text is a number in JSON.
func isNumber(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	whole, fraction, dot := strings.Cut(digits, ".")
	return allDigits(whole) && (len(whole) == 1 || whole[0] != '0') && (!dot || allDigits(fraction))
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
