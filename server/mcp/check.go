package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// Most problems that are told at once.
const maxProblems = 5

// checker holds values against schemas that schemaOf made; it knows what stands in those and no more. It is here since its
// messages are for models: they name the argument, what is wrong with it and what would be right.
type checker struct {
	problems []string
}

func (c *checker) problem(format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// object checks an object, and fills in the defaults of what it lacks.
func (c *checker) object(s *jsonschema.Schema, object map[string]any, path string) {
	closed := s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil
	for _, name := range slices.Sorted(maps.Keys(object)) {
		p, ok := s.Properties[name]
		switch {
		case ok && object[name] == nil && p.Type != "" && !slices.Contains(s.Required, name):
			delete(object, name)
		case ok:
			object[name] = c.value(p, object[name], join(path, name))
		case closed:
			c.problem("there is no argument %s; there is %s", join(path, name), cmp.Or(strings.Join(s.PropertyOrder, ", "), "none"))
		case s.AdditionalProperties != nil:
			object[name] = c.value(s.AdditionalProperties, object[name], join(path, name))
		}
	}
	for _, name := range s.Required {
		if _, ok := object[name]; !ok {
			c.problem("%s is missing%s", join(path, name), expected(s.Properties[name]))
		}
	}
	for name, p := range s.Properties {
		if _, ok := object[name]; !ok && p.Default != nil {
			object[name] = p.Default
		}
	}
}

// value checks a value and returns it, in the form that Go's decoder takes.
func (c *checker) value(s *jsonschema.Schema, v any, path string) any {
	switch s.Type {
	case "object":
		if object, ok := v.(map[string]any); ok {
			c.object(s, object, path)
			return v
		}
	case "array":
		if list, ok := v.([]any); ok {
			c.list(s, list, path)
			return v
		}
	case "string":
		if text, ok := v.(string); ok {
			c.text(s, text, path)
			return v
		}
	case "boolean":
		if _, ok := v.(bool); ok {
			return v
		}
	case "integer", "number":
		if n, ok := v.(json.Number); ok {
			return c.number(s, n, path)
		}
	default:
		return v
	}
	c.problem("%s must be %s, not %s", path, article[s.Type], kindOf(v))
	return v
}

func (c *checker) list(s *jsonschema.Schema, list []any, path string) {
	if s.MinItems != nil && len(list) < *s.MinItems {
		c.problem("%s must have at least %d elements, not %d", path, *s.MinItems, len(list))
	}
	if s.MaxItems != nil && len(list) > *s.MaxItems {
		c.problem("%s must have at most %d elements, not %d", path, *s.MaxItems, len(list))
	}
	for i := range list {
		if s.Items == nil || len(c.problems) >= maxProblems {
			return
		}
		list[i] = c.value(s.Items, list[i], path+"["+strconv.Itoa(i)+"]")
	}
}

func (c *checker) text(s *jsonschema.Schema, text, path string) {
	n := utf8.RuneCountInString(text)
	switch {
	case s.Enum != nil && !slices.Contains(s.Enum, any(text)):
		c.problem("%s must be %s, not %q", path, alternatives(s.Enum), shorten(text))
	case s.MinLength != nil && n < *s.MinLength && *s.MinLength == 1:
		c.problem("%s must not be empty", path)
	case s.MinLength != nil && n < *s.MinLength:
		c.problem("%s must have at least %d characters, not %d", path, *s.MinLength, n)
	case s.MaxLength != nil && n > *s.MaxLength:
		c.problem("%s must have at most %d characters, not %d", path, *s.MaxLength, n)
	}
}

// number checks a number. An integer may be written as 10.0 or 1e3, which Go's decoder does not take for one.
func (c *checker) number(s *jsonschema.Schema, n json.Number, path string) any {
	f, err := n.Float64()
	if err != nil {
		c.problem("%s is a number out of range: %s", path, shorten(n.String()))
		return n
	}
	if s.Type == "integer" {
		_, err := n.Int64()
		switch {
		case err == nil:
		case f == math.Trunc(f) && math.Abs(f) <= 1<<53:
			n = json.Number(strconv.FormatInt(int64(f), 10))
		default:
			c.problem("%s must be an integer of at most 64 bits, not %s", path, shorten(n.String()))
			return n
		}
	}
	switch {
	case s.Enum != nil && !slices.Contains(s.Enum, any(f)):
		c.problem("%s must be %s, not %s", path, alternatives(s.Enum), n)
	case s.Minimum != nil && f < *s.Minimum:
		c.problem("%s must be at least %s, not %s", path, plainNumber(*s.Minimum), n)
	case s.Maximum != nil && f > *s.Maximum:
		c.problem("%s must be at most %s, not %s", path, plainNumber(*s.Maximum), n)
	}
	return n
}

var article = map[string]string{
	"object": "an object", "array": "a list", "string": "a text", "boolean": "true or false", "integer": "an integer", "number": "a number",
}

// kindOf names what kind of JSON value v is.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "the number " + shorten(v.String())
	case string:
		return "the text " + strconv.Quote(shorten(v))
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a " + reflect.TypeOf(v).String()
}

// expected says what a missing argument is to be.
func expected(s *jsonschema.Schema) string {
	switch {
	case s == nil:
		return ""
	case s.Enum != nil:
		return "; it must be " + alternatives(s.Enum)
	case s.Type != "":
		return "; it must be " + article[s.Type]
	}
	return ""
}

func alternatives(values []any) string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	if n := len(out); n > 1 {
		return strings.Join(out[:n-1], ", ") + " or " + out[n-1]
	}
	return out[0]
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func shorten(s string) string {
	if len(s) <= 60 {
		return s
	}
	return strings.ToValidUTF8(s[:60], "") + "…"
}

func plainNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
