package compile

import (
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// Delete describes a DELETE.
type Delete struct {
	Return Return
	// IfMatch is the xmin that a row must have to be deleted; nil for any.
	IfMatch *string
}

// Delete compiles the deletion of the rows that the filters of q select; without filters that is all of them.
func (c Context) Delete(rel *introspect.Relation, q *query.Request, d Delete) (*Statement, error) {
	if err := checkWrite(q); err != nil {
		return nil, err
	}
	var b builder
	b.write("delete from ")
	b.name(rel.Schema, rel.Name)
	b.write(" as t")
	if err := c.writeWhere(&b, rel, q, nil, d.IfMatch); err != nil {
		return nil, err
	}
	return c.answer(&b, rel, q, d.Return, extras{})
}
