package compile

import (
	"slices"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// NestedMode is what happens to rows of related tables that are there already.
type NestedMode byte

// The modes.
const (
	// NestedInsert inserts all rows; one that is there is a conflict.
	NestedInsert NestedMode = iota
	// NestedMerge updates a related row whose primary key is there.
	NestedMerge
	// NestedReplace is NestedMerge and, in an update, deletes the row's related rows that are not in the body; of a
	// many-to-many relationship it deletes the links to them.
	NestedReplace
)

// Nested describes a write of rows together with related rows: the objects of the body hold them under the name of the
// related table (in the singular or plural), of the constraint, or table!constraint. An object stands for one related
// row, an array for several. Keys that are left out take their columns' defaults.
type Nested struct {
	Body   *Body
	Mode   NestedMode
	Return Return
}

const (
	maxNestedTables = 40
	maxNestedDepth  = 8
)

var errNested = fault.New(fault.Invalid, "validation_error", "invalid nested rows")

// IsNested reports whether a body has a key that is no column but names related rows, so that InsertNested or
// UpdateNested is to write it.
func (c Context) IsNested(rel *introspect.Relation, body *Body) bool {
	return slices.ContainsFunc(body.Columns, func(key string) bool {
		return rel.Column(key) == nil && len(nestedCandidates(rel, key, 0)) > 0
	})
}

// InsertNested compiles an insert of rows with related rows: one statement, in which the keys that rows refer to are
// drawn first, so that each row finds its parent by its place in the body. What a statement writes it cannot read: for
// a representation, read is a second statement, to be run after the first one in the same transaction; nil otherwise.
// The outputs of write are the primary keys of the body's rows.
//
// Constraints see all rows, but a row-level security policy that looks for a related row in its table does not see those
// of the same statement. A trigger that changes a key that was drawn makes the statement fail.
func (c Context) InsertNested(rel *introspect.Relation, q *query.Request, n Nested) (write, read *Statement, err error) {
	p, err := parseNested(rel, n.Body)
	if err != nil {
		return nil, nil, err
	}
	w := nestedWriter{Context: c, mode: n.Mode, root: p.nodes[0]}
	if err := w.node(w.root); err != nil {
		return nil, nil, err
	}
	return w.finish(q, n.Return)
}

// UpdateNested compiles an update of the row with that primary key, and the writing of its related rows. Where there is
// no such row, nothing is written. The results are those of InsertNested.
func (c Context) UpdateNested(rel *introspect.Relation, q *query.Request, key []string, n Nested) (
	write, read *Statement, err error,
) {
	switch {
	case len(rel.PrimaryKey) == 0 || len(key) != len(rel.PrimaryKey):
		return nil, nil, errKeyNeeded.Msgf("The primary key of '%s' has %d columns; %d values were given.",
			rel.Name, len(rel.PrimaryKey), len(key))
	case n.Body.Rows != 1:
		return nil, nil, errBody.Msgf("The body holds %d objects; one is needed.", n.Body.Rows)
	}
	if err := checkWrite(q); err != nil {
		return nil, nil, err
	}
	p, err := parseNested(rel, n.Body)
	if err != nil {
		return nil, nil, err
	}
	err = n.Body.each(func(_ int, members []member) error { return matchKeys(rel, key, members) })
	if err != nil {
		return nil, nil, err
	}
	w := nestedWriter{Context: c, mode: n.Mode, root: p.nodes[0], update: true}
	for i, column := range rel.PrimaryKey {
		if err := checkText(key[i]); err != nil {
			return nil, nil, errKeyNeeded.Msgf("The value of '%s' in the path: %v.", column.Name, err)
		}
		if i > 0 {
			w.found += " and "
		}
		w.found += "t." + quote(column.Name) + " = " + w.b.param([]byte(key[i]))
	}
	if err := w.node(w.root); err != nil {
		return nil, nil, err
	}
	return w.finish(q, n.Return)
}
