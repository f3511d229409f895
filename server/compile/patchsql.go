package compile

import (
	"slices"
	"strconv"

	"github.com/boughdb/bough/server/introspect"
)

// patchWriter compiles the operations of a patch on one column.
type patchWriter struct {
	column *introspect.Column
	param  func([]byte) string
}

// compile makes the column's new value of its old one, and the conditions under which all operations are possible.
// One operation on a column becomes an expression. Several become a chain of subqueries, one for each, because the
// expressions name the value before more than once and would double in length with each operation; offset 0 keeps
// PostgreSQL from putting them into each other again.
func (w *patchWriter) compile(ops []PatchOp, old string) (change, error) {
	if len(ops) == 1 {
		return w.opSQL(&ops[0], old)
	}
	from := "select " + old + " as v, true as ok offset 0"
	for i := range ops {
		c, err := w.opSQL(&ops[i], "s.v")
		if err != nil {
			return change{}, err
		}
		ok := "s.ok"
		if c.condition != "" {
			ok += " and coalesce(" + c.condition + ", false)"
		}
		// An operation after one that was not possible is not tried: its failure would hide that nothing is to change.
		from = "select case when " + ok + " then " + c.value + " else s.v end as v, " + ok + " as ok from (" + from +
			") as s offset 0"
	}
	return change{"(select p.v from (" + from + ") as p)", "(select p.ok from (" + from + ") as p)"}, nil
}

func (w *patchWriter) asJSONB(sql string) string {
	if w.column.Type.Underlying().Name == "json" {
		return "(" + sql + ")::jsonb"
	}
	return sql
}

func (w *patchWriter) fromJSONB(sql string) string {
	if w.column.Type.Underlying().Name == "json" {
		return "(" + sql + ")::json"
	}
	return "(" + sql + ")"
}

// change is what an operation makes of an expression: its new value (the same expression for a test), and the condition
// under which the operation is possible, "" for always. Where the condition fails, the row stays as it is.
type change struct{ value, condition string }

// opSQL compiles an operation on a whole column or on a part of a JSON column. before is a short expression of the
// column's value before the operation.
func (w *patchWriter) opSQL(op *PatchOp, before string) (change, error) {
	if len(op.Path) > 1 {
		return w.jsonOp(op, before)
	}
	return w.columnOp(op, before)
}

func (w *patchWriter) columnOp(op *PatchOp, before string) (change, error) {
	t := w.column.Type.Underlying()
	value := func() (string, error) {
		f := formOf(t, false)
		encoded, err := f.encode(op.Value)
		return f.decode(w.param(encoded)+"::"+f.paramType(t), t), err
	}
	switch op.Op {
	case "add", "replace":
		v, err := value()
		return change{value: v}, err
	case "remove":
		return change{value: "null::" + plainType(t)}, nil
	case "test":
		v, err := value()
		if t.Name == "json" && isJSON(t) { // json has no equality of its own
			return change{before, before + "::jsonb is not distinct from " + v + "::jsonb"}, err
		}
		return change{before, before + " is not distinct from " + v}, err
	case "incr":
		if t.Category != 'N' {
			return change{}, w.wrongType(op, "a number")
		}
		if !isNumber(op.Value) {
			return change{}, errPatch.Msgf("The value of incr %s is not a number.", op.pointer())
		}
		return change{value: "coalesce(" + before + ", 0::" + plainType(t) + ") + " + w.param(op.Value) + "::" + plainType(t)}, nil
	}
	return w.appendOp(op, before)
}

func (w *patchWriter) appendOp(op *PatchOp, before string) (change, error) {
	t := w.column.Type.Underlying()
	switch {
	case isJSON(t):
		return change{value: w.fromJSONB("coalesce(" + w.asJSONB(before) + ", '[]') || jsonb_build_array(" +
			w.param(op.Value) + "::jsonb)")}, nil
	case t.Kind == introspect.Array && len(op.Value) > 0 && op.Value[0] == '[':
		f := formOf(t, false)
		encoded, err := f.encode(op.Value)
		return change{value: "array_cat(" + before + ", " + f.decode(w.param(encoded)+"::"+f.paramType(t), t) + ")"}, err
	case t.Kind == introspect.Array && t.Elem != nil:
		f := formOf(t.Elem, false)
		encoded, err := f.encode(op.Value)
		return change{value: "array_append(" + before + ", " +
			f.decode(w.param(encoded)+"::"+f.paramType(t.Elem), t.Elem) + ")"}, err
	case t.Category == 'S' || t.Name == "bytea":
		text, err := scalarText(op.Value)
		if err == nil && (text == nil || op.Value[0] != '"') {
			err = errPatch.Msgf("The value of append %s is not a string.", op.pointer())
		}
		kind := "text"
		if t.Name == "bytea" {
			kind = "bytea"
		}
		return change{value: "coalesce(" + before + "::" + kind + ", '') || " + w.param(text) + "::" + kind}, err
	}
	return change{}, w.wrongType(op, "a text, an array or JSON")
}

// jsonOp compiles an operation on a place inside a JSON column.
func (w *patchWriter) jsonOp(op *PatchOp, column string) (change, error) {
	if !isJSON(w.column.Type) {
		return change{}, w.wrongType(op, "JSON")
	}
	before := w.asJSONB(column)
	steps := op.Path[1:]
	path := w.param(textArray(steps)) + "::text[]"
	here := "(" + before + " #> " + path + ")"
	parent := func() string {
		if len(steps) == 1 {
			return before
		}
		return "(" + before + " #> " + w.param(textArray(steps[:len(steps)-1])) + "::text[])"
	}
	value := func() string { return w.param(op.Value) + "::jsonb" }
	set := func(value string) string {
		return w.fromJSONB("jsonb_set(" + before + ", " + path + ", " + value + ")")
	}
	switch op.Op {
	case "add":
		return w.jsonAdd(steps, before, path, parent(), value()), nil
	case "replace":
		return change{set(value()), here + " is not null"}, nil
	case "remove":
		return change{w.fromJSONB(before + " #- " + path), here + " is not null"}, nil
	case "test":
		return change{column, here + " = " + value()}, nil
	}
	inside := "jsonb_typeof(" + parent() + ") in ('object', 'array')"
	if op.Op == "incr" {
		if !isNumber(op.Value) {
			return change{}, errPatch.Msgf("The value of incr %s is not a number.", op.pointer())
		}
		return change{set("to_jsonb(coalesce((" + before + " #>> " + path + ")::numeric, 0) + " + w.param(op.Value) +
			"::numeric)"), inside}, nil
	}
	v := value()
	list := "coalesce(" + here + ", '[]') || jsonb_build_array(" + v + ")"
	if op.Value[0] != '"' {
		return change{set(list), inside}, nil
	}
	text := "to_jsonb((" + before + " #>> " + path + ") || (" + v + " #>> '{}'))"
	return change{set("case jsonb_typeof(" + here + ") when 'string' then " + text + " else " + list + " end"), inside}, nil
}

// jsonAdd sets the key of an object, or puts an element before the index of an array; the index - is the end.
func (w *patchWriter) jsonAdd(steps []string, before, path, parent, value string) change {
	last := steps[len(steps)-1]
	_, err := strconv.ParseUint(last, 10, 31)
	if err != nil && last != "-" {
		return change{
			w.fromJSONB("jsonb_set(" + before + ", " + path + ", " + value + ")"),
			"jsonb_typeof(" + parent + ") = 'object'",
		}
	}
	place := path + ", " + value
	if last == "-" {
		end := slices.Concat(steps[:len(steps)-1], []string{"-1"})
		place = w.param(textArray(end)) + "::text[], " + value + ", true"
	}
	return change{
		w.fromJSONB("case jsonb_typeof(" + parent + ") when 'array' then jsonb_insert(" + before + ", " + place +
			") else jsonb_set(" + before + ", " + path + ", " + value + ") end"),
		"jsonb_typeof(" + parent + ") in ('object', 'array')",
	}
}

func isNumber(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

func (w *patchWriter) wrongType(op *PatchOp, want string) error {
	return errPatch.Msgf("The operation %s %s needs %s; the column %q is of type %s.",
		op.Op, op.pointer(), want, w.column.Name, w.column.TypeSQL)
}
