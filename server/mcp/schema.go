package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"
)

// known are the schemas of types whose JSON is not what their Go type says.
var known = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[json.Number]():     {Type: "number"},
	reflect.TypeFor[uuid.UUID]():       {Type: "string", Format: "uuid"},
	reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
}

// schemaOf returns the schema of T's JSON in a form that all clients take: one type a property, and anyOf only for values
// of any type and for results that may be null, never at the top.
// Schemas belong to the program, so a wrong tag is a panic, at start.
func schemaOf[T any](output bool) *jsonschema.Schema {
	t := reflect.TypeFor[T]()
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err != nil {
		panic(fmt.Errorf("the schema of %s: %w", t, err))
	}
	plain(s)
	tagged(t, s, output)
	if s.Type != "object" {
		panic(fmt.Errorf("the schema of %s: arguments and results are objects, not %q", t, s.Type))
	}
	return s
}

// plain makes nullable types plain ones: clients that turn a schema into that of a model's provider know one type.
func plain(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if i := slices.Index(s.Types, "null"); i >= 0 {
		rest := slices.Delete(slices.Clone(s.Types), i, i+1)
		s.Types, s.Type = nil, rest[0]
	}
	for _, p := range s.Properties {
		plain(p)
		nonEmpty(p)
	}
	plain(s.Items)
	nonEmpty(s.Items)
	if a := s.AdditionalProperties; a != nil && a.Not == nil {
		plain(a)
		if reflect.ValueOf(*a).IsZero() {
			s.AdditionalProperties = nil // as the default is
		}
	}
}

// nonEmpty spells out what a schema without a word allows, every value: some clients do not take true for a schema, and
// others want the types.
func nonEmpty(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	words := *s
	words.Description = ""
	if reflect.ValueOf(words).IsZero() {
		for _, t := range []string{"string", "number", "boolean", "null", "array", "object"} {
			s.AnyOf = append(s.AnyOf, &jsonschema.Schema{Type: t})
		}
	}
}

// tagged puts what the schema tags say into the schema of a type.
func tagged(t reflect.Type, s *jsonschema.Schema, output bool) {
	if s == nil || known[t] != nil {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		tagged(t.Elem(), s, output)
	case reflect.Slice, reflect.Array:
		tagged(t.Elem(), s.Items, output)
	case reflect.Map:
		tagged(t.Elem(), s.AdditionalProperties, output)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			p := s.Properties[name]
			if f.Anonymous || p == nil || !f.IsExported() {
				continue
			}
			tagged(f.Type, p, output)
			required := slices.Contains(s.Required, name)
			if tag, ok := f.Tag.Lookup("schema"); ok {
				if err := applyTag(p, tag, required); err != nil {
					panic(fmt.Errorf("the schema tag of %s.%s: %w", t, f.Name, err))
				}
			}
			if output && required && f.Type.Kind() == reflect.Pointer {
				p.AnyOf, p.Type = []*jsonschema.Schema{{Type: p.Type, Format: p.Format}, {Type: "null"}}, ""
				p.Format = ""
			}
		}
	}
}

// applyTag puts a schema tag, such as "enum=a|b,default=a" or "min=1,max=200", into a property's schema.
func applyTag(p *jsonschema.Schema, tag string, required bool) error {
	for part := range strings.SplitSeq(tag, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("%q is not of the form key=value", part)
		}
		var err error
		switch key {
		case "enum":
			err = applyEnum(p, value)
		case "default":
			if required {
				return fmt.Errorf("a required field has no default; give it omitempty")
			}
			p.Default, err = constant(p.Type, value)
		case "of":
			if p.Type == "array" {
				p.Items.AnyOf, p.Items.Type = nil, value
			} else {
				p.AnyOf, p.Type = nil, value
			}
		case "min", "max":
			err = applyBound(p, key, value)
		default:
			return fmt.Errorf("there is no key %q; enum, default, min, max and of are", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applyEnum says what a property, or each element of a list, may be.
func applyEnum(p *jsonschema.Schema, value string) error {
	if p.Type == "array" {
		p = p.Items
	}
	for one := range strings.SplitSeq(value, "|") {
		text, err := constant(p.Type, one)
		if err != nil {
			return err
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			return err
		}
		p.Enum = append(p.Enum, v)
	}
	return nil
}

// applyBound bounds a number, a text's length or a list's length.
func applyBound(p *jsonschema.Schema, key, value string) error {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return err
	}
	whole := int(n)
	number := map[string]**float64{"min": &p.Minimum, "max": &p.Maximum}
	length := map[string]map[string]**int{
		"string": {"min": &p.MinLength, "max": &p.MaxLength},
		"array":  {"min": &p.MinItems, "max": &p.MaxItems},
	}
	switch p.Type {
	case "integer", "number":
		*number[key] = &n
	case "string", "array":
		*length[p.Type][key] = &whole
	default:
		return fmt.Errorf("%s is for numbers, texts and lists, not for %q", key, p.Type)
	}
	return nil
}

// constant is the JSON of a value that a tag names.
func constant(typ, value string) (json.RawMessage, error) {
	switch typ {
	case "string":
		return json.Marshal(value)
	case "integer":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, err
		}
		return json.Marshal(n)
	case "number":
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, err
		}
		return json.Marshal(n)
	case "boolean":
		b, err := strconv.ParseBool(value)
		if err != nil {
			return nil, err
		}
		return json.Marshal(b)
	}
	return nil, fmt.Errorf("a field of type %q has no constants", typ)
}
