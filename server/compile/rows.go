package compile

import (
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/introspect"
)

// form says how a column's value travels to PostgreSQL. The input function of the column's type reads it in every form,
// from the text that json_to_record would give to it, so that a value means the same whichever statement carries it.
type form byte

const (
	// asText is the plain text of the value.
	asText form = iota
	// asJSON is the value as it stands in the body: for json and jsonb.
	asJSON
	// asArray is an array literal, made of a JSON array or sent as text.
	asArray
	// asRecord is the value in an object under the key v, for json_to_record to take apart: composite types may be sent
	// as JSON objects, and the arrays of foreign types have delimiters of their own. It is the slowest form.
	asRecord
)

// formOf returns the form of a type's values. text is Body.Text.
func formOf(t *introspect.Type, text bool) form {
	t = t.Underlying()
	switch {
	case t.Kind == introspect.Array && t.Elem != nil && !isJSON(t.Elem) && formOf(t.Elem, text) == asText:
		return asArray
	case t.Kind == introspect.Array || t.Kind == introspect.Composite:
		return asRecord
	case isJSON(t):
		if text {
			return asText
		}
		return asJSON
	case t.Kind == introspect.Base && (t.Schema != "pg_catalog" || t.Name == "box"):
		return asRecord
	}
	return asText
}

func isJSON(t *introspect.Type) bool {
	t = t.Underlying()
	return t.Schema == "pg_catalog" && (t.Name == "json" || t.Name == "jsonb")
}

// plainType is the type without domains, as a cast names it when it is to have no length. The domain's constraints are
// checked on assignment, and so are not applied to the NULL that stands for a value that was not sent.
func plainType(t *introspect.Type) string {
	t = t.Underlying()
	if t.Kind == introspect.Array && t.Elem != nil && t.Elem.Kind == introspect.Base {
		return plainType(t.Elem) + "[]"
	}
	if t.Schema == "pg_catalog" {
		switch t.Name {
		case "bpchar", "bit":
			return `"` + t.Name + `"` // character and bit alone are of length 1
		}
	}
	return t.SQL
}

// encode is a value in its form; nil is NULL.
func (f form) encode(raw []byte) ([]byte, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	switch f {
	case asJSON:
		return raw, nil
	case asRecord:
		return concat(`{"v":`, raw, "}"), nil
	case asArray:
		if raw[0] == '[' {
			return arrayLiteral(raw)
		}
		if raw[0] == '{' {
			return nil, errSyntax.Msgf("expected JSON array, found an object")
		}
	}
	return scalarText(raw)
}

// decode is the SQL that makes a value of the type from its form.
func (f form) decode(sql string, t *introspect.Type) string {
	switch f {
	case asRecord:
		return "(select v from json_to_record(" + sql + ") as _(v " + plainType(t) + "))"
	case asArray:
		return sql + "::" + plainType(t)
	}
	return sql
}

// paramType is the type of the parameter that carries one value in this form.
func (f form) paramType(t *introspect.Type) string {
	switch f {
	case asRecord:
		return "json"
	case asArray:
		return "text" // there are no arrays of arrays of different lengths
	}
	return plainType(t)
}

// rowSet is the rows of a body as parameters, one array for each column.
type rowSet struct {
	columns []*introspect.Column
	forms   []form
	values  [][]byte // array literals
	present [][]byte // array literals of booleans: whether the row has the key; nil where every row has it
	parents []byte   // array literal of the numbers of the rows that nested rows belong to; nil where there are none
}

// rowsOf makes arrays of the columns' values. Keys of the body that are not among the columns are left out.
func rowsOf(body *Body, columns []*introspect.Column) (*rowSet, error) {
	rs := &rowSet{
		columns: columns, forms: make([]form, len(columns)),
		values: make([][]byte, len(columns)), present: make([][]byte, len(columns)),
	}
	index := make(map[string]int, len(columns))
	guess := len(body.JSON)/(len(columns)+1) + 2
	for i, c := range columns {
		index[c.Name] = i
		rs.forms[i] = formOf(c.Type, body.Text)
		rs.values[i] = append(make([]byte, 0, guess), '{')
		rs.present[i] = append(make([]byte, 0, 2*body.Rows+2), '{')
	}
	missing := make([]bool, len(columns))
	last := make([]int, len(columns))
	err := body.each(func(row int, members []member) error {
		for _, m := range members {
			i, ok := index[m.name]
			if !ok {
				continue
			}
			value, err := rs.forms[i].encode(m.raw)
			if err != nil {
				return err
			}
			rs.values[i] = appendElement(rs.values[i], value, row > 0)
			rs.present[i] = appendBool(rs.present[i], true, row > 0)
			last[i] = row + 1
		}
		for i := range columns {
			if last[i] != row+1 {
				missing[i] = true
				rs.values[i] = appendElement(rs.values[i], nil, row > 0)
				rs.present[i] = appendBool(rs.present[i], false, row > 0)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range columns {
		rs.values[i] = append(rs.values[i], '}')
		if !missing[i] {
			rs.present[i] = nil
			continue
		}
		rs.present[i] = append(rs.present[i], '}')
	}
	return rs, nil
}

// from is the FROM item that gives the rows in their order: the columns c1 … cn, p1 … pn for those that are not in
// every row, po where there are parents, and ord, the row's number from 1. param adds a parameter and returns its place holder.
func (rs *rowSet) from(alias string, param func([]byte) string) string {
	var args, names strings.Builder
	for i, c := range rs.columns {
		if i > 0 {
			args.WriteString(", ")
			names.WriteString(", ")
		}
		args.WriteString(param(rs.values[i]) + "::" + rs.forms[i].paramType(c.Type) + "[]")
		names.WriteString("c" + strconv.Itoa(i+1))
	}
	for i := range rs.columns {
		if rs.present[i] != nil {
			args.WriteString(", " + param(rs.present[i]) + "::bool[]")
			names.WriteString(", p" + strconv.Itoa(i+1))
		}
	}
	if rs.parents != nil {
		args.WriteString(", " + param(rs.parents) + "::int8[]")
		names.WriteString(", po")
	}
	return "unnest(" + strings.TrimPrefix(args.String(), ", ") + ") with ordinality as " + alias + "(" + strings.TrimPrefix(names.String()+", ord)", ", ")
}

// value is the SQL of a column's value in a row of the FROM item.
func (rs *rowSet) value(i int, alias string) string {
	return rs.forms[i].decode(alias+".c"+strconv.Itoa(i+1), rs.columns[i].Type)
}

// arrayLiteral makes an array literal of a JSON array, of several dimensions where arrays stand in it.
func arrayLiteral(raw []byte) ([]byte, error) {
	s := scanner{data: raw}
	out := make([]byte, 0, len(raw)+8)
	var array func() error
	array = func() error {
		out = append(out, '{')
		first := true
		err := s.array(0, func() error {
			if s.peek() == '[' {
				if !first {
					out = append(out, ',')
				}
				first = false
				return array()
			}
			value, err := s.value(1)
			if err != nil {
				return err
			}
			text, err := scalarText(value)
			out = appendElement(out, text, !first)
			first = false
			return err
		})
		out = append(out, '}')
		return err
	}
	s.peek()
	err := array()
	return out, err
}

// appendElement appends an element to an array literal, in quotes so that nothing in it has a meaning; nil is NULL.
func appendElement(dst, value []byte, comma bool) []byte {
	if comma {
		dst = append(dst, ',')
	}
	if value == nil {
		return append(dst, "NULL"...)
	}
	dst = append(dst, '"')
	for _, c := range value {
		if c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

func appendBool(dst []byte, value, comma bool) []byte {
	if comma {
		dst = append(dst, ',')
	}
	if value {
		return append(dst, 't')
	}
	return append(dst, 'f')
}
