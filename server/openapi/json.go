package openapi

import (
	"encoding/json"
	"strconv"
)

// object is a JSON object that keeps the order of its members, so that equal schemas give equal bytes.
type object []member

type member struct {
	name  string
	value any
}

// array is a JSON array.
type array []any

// raw is JSON text.
type raw []byte

// add appends a member.
func (o *object) add(name string, value any) { *o = append(*o, member{name, value}) }

// get returns the member of that name; nil for none.
func (o object) get(name string) any {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// ref is a reference to a component.
func ref(section, name string) object {
	return object{{"$ref", "#/components/" + section + "/" + name}}
}

// appendJSON appends a value of the kinds that this package makes. It writes without reflection: a document may have a
// million values.
func appendJSON(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return appendString(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case raw:
		return append(b, v...)
	case object:
		b = append(b, '{')
		for i, m := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, m.name), ':')
			b = appendJSON(b, m.value)
		}
		return append(b, '}')
	case array:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item)
		}
		return append(b, ']')
	}
	panic("openapi: a value of a kind that is not written") // a mistake in this package
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string has a JSON form always
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
