package readsql

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/boughdb/bough/server/fault"
)

// param is a parameter of a statement.
type param struct {
	oid       uint32
	name      string // of its type
	array     bool
	delimiter string
}

// The types that take JSON as it is.
const (
	jsonOID  = 114
	jsonbOID = 3802
)

// encode writes the parameters as PostgreSQL reads them; nil stands for NULL.
func (v *verdict) encode(given []json.RawMessage) ([][]byte, error) {
	if len(given) != len(v.params) {
		return nil, fault.Validation("the statement has %d parameters ($1, …), but %d are given", len(v.params), len(given))
	}
	out := make([][]byte, len(given))
	for i, raw := range given {
		text, ok := v.params[i].encode(bytes.TrimSpace(raw))
		if !ok {
			return nil, fault.Validation("parameter $%d is a %s, which cannot be made of %s", i+1, v.params[i].name, clip(raw))
		}
		out[i] = text
	}
	return out, nil
}

// encode writes one parameter. A string for json is JSON that is written as a string.
func (p param) encode(raw json.RawMessage) (text []byte, ok bool) {
	if !json.Valid(raw) {
		return nil, false
	}
	switch raw[0] {
	case 'n':
		return nil, true
	case '"':
		var s string
		if json.Unmarshal(raw, &s) != nil || strings.ContainsRune(s, 0) {
			return nil, false
		}
		return []byte(s), true
	case '[', '{':
		if p.oid == jsonOID || p.oid == jsonbOID {
			return raw, true
		}
		if raw[0] == '{' || !p.array {
			return nil, false
		}
		var b strings.Builder
		ok := p.literal(&b, raw, strings.HasPrefix(p.name, "json"))
		return []byte(b.String()), ok
	}
	return raw, true // a number or a boolean
}

// literal writes an array (PostgreSQL, section 8.15.2). Each element is in quotes, so that it needs no thought. Elements
// that are JSON themselves are written as they are.
func (p param) literal(b *strings.Builder, raw json.RawMessage, elements bool) bool {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return false
	}
	b.WriteByte('{')
	for i, item := range items {
		if i > 0 {
			b.WriteString(p.delimiter)
		}
		text := string(item)
		switch {
		case item[0] == 'n':
			b.WriteString("null")
			continue
		case elements:
		case item[0] == '[':
			if !p.literal(b, item, false) {
				return false
			}
			continue
		case item[0] == '{':
			return false
		case item[0] == '"':
			if json.Unmarshal(item, &text) != nil || strings.ContainsRune(text, 0) {
				return false
			}
		}
		b.WriteString(`"` + quoted.Replace(text) + `"`)
	}
	b.WriteByte('}')
	return true
}

var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func clip(raw json.RawMessage) string {
	if len(raw) > 60 {
		return string(bytes.ToValidUTF8(raw[:60], nil)) + "…"
	}
	return string(raw)
}
