package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// Shape is what a function's result is, for the one who writes it out.
type Shape byte

// The shapes.
const (
	Rows      Shape = iota // any number of rows
	Row                    // exactly one row
	Scalar                 // one value, without a name
	ScalarSet              // one value a row, without a name
	Void                   // nothing
)

// Call is what a function is called with. Without a body, the arguments are those of the query string.
type Call struct {
	// Body is one object, the keys of which are names of arguments; nil for none.
	Body *Body
	// Columns are the keys of the body that are arguments; nil for all.
	Columns []string
	// Raw is the whole body, for a function whose single argument has no name; nil for other functions.
	Raw []byte
}

// Call compiles the call of a function that PickOverload returned. Rows can be filtered, ordered, limited and embedded
// into like those of a table; of a set of values, limit and offset choose a part.
func (c Context) Call(fn *introspect.Function, q *query.Request, call Call) (*Statement, Shape, error) {
	var b builder
	args, err := callArgs(&b, fn, q, call)
	if err != nil {
		return nil, Void, err
	}
	if fn.Procedure {
		return callProcedure(&b, fn, args)
	}
	text := quote(fn.Schema) + "." + quote(fn.Name) + "(" + strings.Join(args, ", ") + ")"
	switch {
	case fn.Relation != nil || fn.Columns != nil:
		shape := Row
		if fn.ReturnsSet {
			shape = Rows
		}
		source := Source{From: text, Args: b.args}
		if fn.Relation == nil {
			source.Attributes = fn.Columns
		}
		statement, err := c.SelectFrom(source, fn.Relation, q, Options{})
		return statement, shape, err
	case isVoid(fn.Returns):
		b.writeAll("select ", text)
		statement, err := b.statement([]Output{{Name: fn.Name, Hidden: true}})
		return statement, Void, err
	}
	code := codingOf(fn.Returns)
	if fn.Returns.Kind == introspect.Pseudo && fn.Returns.Name == "record" {
		// In FROM its columns would have to be defined.
		text = "(select " + text + " as v)"
	}
	value := "r.v"
	if code.wrap {
		value = "to_json(r.v)"
	}
	b.writeAll("select ", value, " from ", text, " as r(v)")
	shape := Scalar
	if fn.ReturnsSet {
		shape = ScalarSet
		c.limitValues(&b, q)
	}
	statement, err := b.statement([]Output{{Name: fn.Name, Encoding: code.encoding, Wrapped: code.wrap}})
	return statement, shape, err
}

func isVoid(t *introspect.Type) bool {
	return t == nil || t.Kind == introspect.Pseudo && t.Name == "void"
}

func (c Context) limitValues(b *builder, q *query.Request) {
	limit := q.Limit
	if c.MaxRows > 0 && (limit == nil || *limit > c.MaxRows) {
		limit = &c.MaxRows
	}
	if limit != nil {
		b.write(" limit ")
		b.limit(*limit)
	}
	if q.Offset != nil {
		b.writeAll(" offset ", b.param(strconv.AppendInt(nil, *q.Offset, 10)))
	}
}

// callArgs writes the arguments by name, each as a parameter of its own type.
func callArgs(b *builder, fn *introspect.Function, q *query.Request, call Call) ([]string, error) {
	switch {
	case call.Raw != nil:
		if len(fn.Args) != 1 || fn.Args[0].Name != "" {
			return nil, errBody.Msgf("The function '%s' does not take a whole body.", fn.Name)
		}
		return []string{b.param(rawArgument(fn, call.Raw)) + "::" + argumentType(fn.Args[0].Type)}, nil
	case call.Body == nil:
		return queryArgs(b, fn, q.Args)
	case call.Body.Rows != 1:
		return nil, errBody.Msgf("A function is called with one object; the body holds %d.", call.Body.Rows)
	}
	var args []string
	err := call.Body.each(func(_ int, members []member) error {
		for _, m := range members {
			if call.Columns != nil && !slices.Contains(call.Columns, m.name) {
				continue
			}
			arg := argument(fn, m.name)
			if arg == nil {
				return errNoFunction.Msgf("The function '%s' has no argument '%s'.", fn.Name, m.name)
			}
			f := formOf(arg.Type, call.Body.Text)
			value, err := f.encode(m.raw)
			if err != nil {
				return err
			}
			var sql string
			if f == asRecord {
				sql = "(select v from json_to_record(" + b.param(value) + "::json) as _(v " + argumentType(arg.Type) + "))"
			} else {
				sql = b.param(value) + "::" + argumentType(arg.Type)
			}
			args = appendNamed(args, arg, sql)
		}
		return nil
	})
	return args, err
}

// rawArgument is a whole body as a parameter. Bytes travel in their hexadecimal text form.
func rawArgument(fn *introspect.Function, raw []byte) []byte {
	if fn.Args[0].Type.Name != "bytea" {
		return raw
	}
	text := append(make([]byte, 0, 2*len(raw)+2), `\x`...)
	for _, c := range raw {
		text = append(text, hexDigits[c>>4], hexDigits[c&15])
	}
	return text
}

// queryArgs are the arguments of a query string. A variadic argument may come several times; of others, the last counts.
func queryArgs(b *builder, fn *introspect.Function, given []query.Arg) ([]string, error) {
	var args []string
	var done []string
	for _, g := range given {
		if slices.Contains(done, g.Name) {
			continue
		}
		done = append(done, g.Name)
		arg := argument(fn, g.Name)
		if arg == nil {
			return nil, errNoFunction.Msgf("The function '%s' has no argument '%s'.", fn.Name, g.Name)
		}
		var values []string
		for _, other := range given {
			if other.Name != g.Name {
				continue
			}
			if err := checkText(other.Value); err != nil {
				return nil, errBody.Msgf("The argument '%s': %v.", g.Name, err)
			}
			values = append(values, other.Value)
		}
		value := []byte(values[len(values)-1])
		if arg.Variadic {
			value = textArray(values)
		}
		args = appendNamed(args, arg, b.param(value)+"::"+argumentType(arg.Type))
	}
	return args, nil
}

func argument(fn *introspect.Function, name string) *introspect.Argument {
	for i := range fn.Args {
		if fn.Args[i].Name == name && (name != "" || len(fn.Args) == 1) {
			return &fn.Args[i]
		}
	}
	return nil
}

// appendNamed adds an argument. The variadic one must be the last: others go to the front.
func appendNamed(args []string, arg *introspect.Argument, sql string) []string {
	if arg.Name != "" { // the only one may have no name
		sql = quote(arg.Name) + " => " + sql
	}
	if arg.Variadic {
		return append(args, "variadic "+sql)
	}
	return slices.Insert(args, 0, sql)
}

// argumentType is the type that an argument is cast to.
func argumentType(t *introspect.Type) string {
	if t.Kind == introspect.Domain {
		return t.SQL
	}
	return plainType(t)
}

// callProcedure calls a procedure, the output arguments of which are its result. Arguments that it only returns must be
// given, too; their values do not matter.
func callProcedure(b *builder, fn *introspect.Function, args []string) (*Statement, Shape, error) {
	for _, out := range fn.Outs {
		null := "null::" + argumentType(out.Type)
		if out.Name != "" {
			null = quote(out.Name) + " => " + null
		}
		args = append(args, null)
	}
	var output []Output
	for _, column := range fn.Columns {
		code := codingOf(column.Type)
		if code.wrap {
			code = codeString // CALL has no place for to_json
		}
		output = append(output, Output{Name: column.Name, Encoding: code.encoding, Wrapped: code.wrap})
	}
	b.writeAll("call ", quote(fn.Schema), ".", quote(fn.Name), "(", strings.Join(args, ", "), ")")
	statement, err := b.statement(output)
	if err != nil {
		return nil, Void, err
	}
	statement.Call = true
	if output == nil {
		return statement, Void, nil
	}
	return statement, Row, nil
}
