package datatools

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/boughdb/bough/server/fault"
)

// filter is a condition on a column; several must all hold.
type filter struct {
	Column string          `json:"column" jsonschema:"a column, or a part of a JSON one: data->>key"`
	Op     string          `json:"op" schema:"enum=eq|neq|gt|gte|lt|lte|like|ilike|in|is"`
	Value  json.RawMessage `json:"value" jsonschema:"for in a list; for is null, not_null, true or false; for like a pattern with % and _"`
}

// sorting is one term of an order.
type sorting struct {
	Column    string `json:"column"`
	Direction string `json:"direction,omitempty" schema:"enum=asc|desc,default=asc"`
}

// parameters builds a query string in the language of the tables.
type parameters struct{ parts []string }

func (p *parameters) add(key, value string) {
	p.parts = append(p.parts, url.QueryEscape(key)+"="+url.QueryEscape(value))
}

func (p *parameters) String() string { return strings.Join(p.parts, "&") }

// quote puts a name in quotes, so that it is nothing but a name.
func quote(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// column writes a column, or a part of a JSON column.
func column(name string) string {
	if name, path, ok := strings.Cut(name, "->"); ok {
		return quote(strings.TrimSpace(name)) + "->" + path
	}
	return quote(name)
}

// columns adds a list of columns. Items with parentheses are related records, written as the tables have them.
func (p *parameters) columns(key string, names []string) {
	if len(names) == 0 {
		return
	}
	items := make([]string, len(names))
	for i, name := range names {
		switch {
		case name == "*" || strings.HasSuffix(name, ")") && key == "select":
			items[i] = name
		default:
			items[i] = column(name)
		}
	}
	p.add(key, strings.Join(items, ","))
}

func (p *parameters) order(terms []sorting) {
	items := make([]string, len(terms))
	for i, t := range terms {
		items[i] = column(t.Column) + "." + t.Direction
		if t.Direction == "" {
			items[i] = column(t.Column) + ".asc"
		}
	}
	if len(items) > 0 {
		p.add("order", strings.Join(items, ","))
	}
}

// filters adds conditions.
func (p *parameters) filters(filters []filter) error {
	for _, f := range filters {
		value, err := f.operand()
		if err != nil {
			return err
		}
		p.add(column(f.Column)+"."+f.Op, value)
	}
	return nil
}

// operand writes the value of a filter.
func (f *filter) operand() (string, error) {
	switch kind := kindOf(f.Value); {
	case f.Op == "in":
		return f.list()
	case f.Op == "is" && kind == 'n':
		return "null", nil
	case f.Op == "is" && kind == 's':
		text, _ := scalar(f.Value)
		return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), " ", "_"), nil
	case kind == 'n':
		return "", fault.Validation("the filter on %s compares with null, which never holds", f.Column).
			WithHint(`use {"op": "is", "value": null}, or {"op": "is", "value": "not_null"}`)
	}
	text, ok := scalar(f.Value)
	if !ok {
		return "", fault.Validation("the filter on %s needs one value: a text, a number or a boolean", f.Column).
			WithHint(`a list of values is for the operator in`)
	}
	return text, nil
}

// list writes the values of in.
func (f *filter) list() (string, error) {
	var values []json.RawMessage
	if kindOf(f.Value) != 'a' || json.Unmarshal(f.Value, &values) != nil {
		return "", fault.Validation("the filter on %s needs a list: the operator is in", f.Column).WithHint(`such as {"op": "in", "value": [1, 2]}`)
	}
	items := make([]string, len(values))
	for i, v := range values {
		text, ok := scalar(v)
		if !ok || kindOf(v) == 'n' {
			return "", fault.Validation("the list of the filter on %s has something else in it than texts, numbers and booleans", f.Column)
		}
		items[i] = quote(text)
	}
	return "(" + strings.Join(items, ",") + ")", nil
}

// kindOf tells what a JSON value is: n null, s text, b boolean, d number, a list, o object; 0 for nothing at all.
func kindOf(raw json.RawMessage) byte {
	if len(raw) == 0 {
		return 0
	}
	switch raw[0] {
	case '"':
		return 's'
	case '[':
		return 'a'
	case '{':
		return 'o'
	case 't', 'f':
		return 'b'
	case 'n':
		return 'n'
	}
	return 'd'
}

// scalar is a JSON value as text; ok is false for lists and objects.
func scalar(raw json.RawMessage) (text string, ok bool) {
	switch kindOf(raw) {
	case 's':
		ok = json.Unmarshal(raw, &text) == nil
		return text, ok
	case 'd', 'b', 'n':
		return string(raw), true
	}
	return "", false
}
