package compile

import (
	"strconv"

	"github.com/boughdb/bough/server/introspect"
)

// maxMergeObjects bounds the objects of a merge patch: each becomes an expression.
const maxMergeObjects = 500

// mergeWriter compiles a JSON merge patch (RFC 7396) of one jsonb value into an expression.
type mergeWriter struct {
	param   func([]byte) string
	objects int
}

// merge is the SQL of an object patch merged into document, a short expression of type jsonb. Members that are null are
// removed, objects are merged in their turn, all others are set.
func (m *mergeWriter) merge(document string, patch []byte, path []string) (string, error) {
	if m.objects++; m.objects > maxMergeObjects {
		return "", errPatch.Msgf("A merge patch holds at most %d objects.", maxMergeObjects)
	}
	place := m.place(document, path)
	var removed []string
	leaves := []byte{'{'}
	nested := ""
	seen := map[string]bool{}
	s := scanner{data: patch}
	s.peek()
	err := s.object(0, func(raw []byte) error {
		key, err := unescape(raw)
		if err != nil {
			return err
		}
		name := string(key)
		if seen[name] {
			return errBody.Msgf("The merge patch has the key %q twice.", name)
		}
		seen[name] = true
		value, err := s.value(1)
		if err != nil {
			return err
		}
		switch value[0] {
		case '{':
			inner, err := m.merge(document, value, append(path[:len(path):len(path)], name))
			if err != nil {
				return err
			}
			if nested != "" {
				nested += ", "
			}
			nested += m.param(key) + "::text, " + inner
		case 'n':
			removed = append(removed, name)
		default:
			if len(leaves) > 1 {
				leaves = append(leaves, ',')
			}
			leaves = append(append(appendString(leaves, name), ':'), value...)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	sql := "case when jsonb_typeof(" + place + ") = 'object' then " + place + " else '{}'::jsonb end"
	if len(removed) > 0 {
		sql = "(" + sql + ") - " + m.param(textArray(removed)) + "::text[]"
	}
	if len(leaves) > 1 {
		sql = "(" + sql + ") || " + m.param(append(leaves, '}')) + "::jsonb"
	}
	if nested != "" {
		sql = "(" + sql + ") || jsonb_build_object(" + nested + ")"
	}
	return "(" + sql + ")", nil
}

// place is the SQL of the value at a path of keys. A key that is a number would also find an element of an array, which
// an object of a merge patch replaces: such a step needs an object before it.
func (m *mergeWriter) place(document string, path []string) string {
	if len(path) == 0 {
		return document
	}
	place := "(" + document + " #> " + m.param(textArray(path)) + "::text[])"
	conditions := ""
	for i, key := range path {
		if _, err := strconv.Atoi(key); err != nil {
			continue
		}
		if conditions != "" {
			conditions += " and "
		}
		before := document
		if i > 0 {
			before = "(" + document + " #> " + m.param(textArray(path[:i])) + "::text[])"
		}
		conditions += "jsonb_typeof(" + before + ") = 'object'"
	}
	if conditions != "" {
		return "(case when " + conditions + " then " + place + " end)"
	}
	return place
}

// mergeValue is the SQL of a column's value after a merge patch: JSON columns are merged with objects, everything else
// is set.
func mergeValue(column *introspect.Column, old string, raw []byte, param func([]byte) string) (string, error) {
	t := column.Type.Underlying()
	if isJSON(t) && raw[0] == '{' {
		m := mergeWriter{param: param}
		w := patchWriter{column: column, param: param}
		sql, err := m.merge(w.asJSONB(old), raw, nil)
		return w.fromJSONB(sql), err
	}
	f := formOf(t, false)
	encoded, err := f.encode(raw)
	return f.decode(param(encoded)+"::"+f.paramType(t), t), err
}
