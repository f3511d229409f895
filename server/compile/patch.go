package compile

import (
	"slices"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// Patch describes a PATCH with a JSON patch or a JSON merge patch.
type Patch struct {
	// Ops are the operations of a JSON patch; nil for a merge patch. Rows in which one of them is not possible, because
	// its test fails or its place is not there, are not changed and not returned.
	Ops []PatchOp
	// Merge is the only object of a merge patch: JSON columns given as objects are merged, others are set.
	Merge   *Body
	Return  Return
	IfMatch *string
	// Tell adds the hidden output of VersionColumn to a representation.
	Tell bool
}

// Patch compiles an update of the rows that the filters of q select.
func (c Context) Patch(rel *introspect.Relation, q *query.Request, p Patch) (*Statement, error) {
	var b builder
	var set assignments
	var err error
	if p.Merge != nil {
		set, err = c.mergeAssignments(&b, rel, p.Merge)
	} else {
		set, err = opAssignments(&b, rel, p.Ops)
	}
	if err != nil {
		return nil, err
	}
	set.more.version = p.Tell
	return c.update(&b, rel, q, set, p.Return, p.IfMatch)
}

func (c Context) mergeAssignments(b *builder, rel *introspect.Relation, body *Body) (assignments, error) {
	if !body.Single {
		return assignments{}, errBody.Msgf("A merge patch is one object.")
	}
	columns, err := c.bodyColumns(rel, body, nil)
	if err != nil {
		return assignments{}, err
	}
	set := assignments{columns: columns, values: make([]string, len(columns))}
	err = body.each(func(_ int, members []member) error {
		for i, column := range columns { // in the order of the keys, which come once each
			set.values[i], err = mergeValue(column, "t."+quote(column.Name), members[i].raw, b.param)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return set, err
}

// opAssignments compiles the operations of a JSON patch. Those on different columns do not depend on each other.
func opAssignments(b *builder, rel *introspect.Relation, ops []PatchOp) (assignments, error) {
	var set assignments
	byColumn := map[string][]PatchOp{}
	for _, op := range ops {
		name := op.Path[0]
		column := rel.Column(name)
		if column == nil {
			return set, noColumn(rel, name)
		}
		if byColumn[name] == nil {
			set.columns = append(set.columns, column)
		}
		byColumn[name] = append(byColumn[name], op)
	}
	columns := set.columns
	set.columns = nil
	for _, column := range columns {
		w := patchWriter{column: column, param: b.param}
		ops := byColumn[column.Name]
		change, err := w.compile(ops, "t."+quote(column.Name))
		if err != nil {
			return set, err
		}
		if change.condition != "" {
			set.conditions = append(set.conditions, "("+change.condition+")")
		}
		if slices.ContainsFunc(ops, func(op PatchOp) bool { return op.Op != "test" }) {
			set.columns = append(set.columns, column)
			set.values = append(set.values, change.value)
		}
	}
	return set, nil
}
