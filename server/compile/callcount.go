package compile

import (
	"strings"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// CountCall compiles the number of rows that the call of a function gives, whatever limit and offset.
func (c Context) CountCall(fn *introspect.Function, q *query.Request, call Call) (*Statement, error) {
	var b builder
	args, err := callArgs(&b, fn, q, call)
	if err != nil {
		return nil, err
	}
	source := Source{From: quote(fn.Schema) + "." + quote(fn.Name) + "(" + strings.Join(args, ", ") + ")", Args: b.args}
	if fn.Relation == nil {
		source.Attributes = fn.Columns
	}
	return c.CountFrom(source, fn.Relation, q)
}
