package introspect

import (
	"cmp"
	"slices"
)

// foreignKey is a foreign key constraint between relations that need not be exposed.
type foreignKey struct {
	oid, parent         uint32
	name                string
	from, to            uint32
	columns, referenced []int
}

func (l *loader) foreignKey(r *row) {
	l.foreign = append(l.foreign, &foreignKey{
		oid: r.oid(), name: l.name(r), from: r.oid(), to: r.oid(), columns: r.ints(), referenced: r.ints(), parent: r.oid(),
	})
}

// side is a relation that has the columns at one end of a foreign key: the table itself or a view that shows them.
type side struct {
	*Relation
	columns []string
	path    string // of a view's appearance of the table
	single  bool   // each row of the table appears once at most
}

// sides returns the exposed relations that have these columns of a table.
func (l *loader) sides(table uint32, columns []int) []side {
	var list []side
	if rel := l.schema.byOID[table]; rel != nil {
		s := side{Relation: rel, single: true}
		for _, n := range columns {
			if c := rel.byNumber[n]; c != nil {
				s.columns = append(s.columns, c.Name)
			}
		}
		if len(s.columns) == len(columns) {
			list = append(list, s)
		}
	}
	for _, v := range l.shown[table] {
		if !v.shows(columns) {
			continue
		}
		s := side{Relation: v.view, path: v.path, single: !v.repeated && !v.shared}
		for _, n := range columns {
			s.columns = append(s.columns, v.view.byNumber[v.appearance.columns[n]].Name)
		}
		list = append(list, s)
	}
	return list
}

func (l *loader) buildRelationships() {
	byOID := map[uint32]*foreignKey{}
	for _, k := range l.foreign {
		byOID[k.oid] = k
	}
	for _, k := range l.foreign {
		if byOID[k.parent] == nil {
			l.relate(k)
		} else {
			l.relatePartition(k, byOID)
		}
	}
	l.relateThroughJunctions()
	l.relateByFunctions()
	for _, rel := range l.schema.Relations {
		slices.SortStableFunc(rel.Relationships, compareRelationships)
	}
}

// relate adds the relationships of a foreign key, between all relations that have its columns.
func (l *loader) relate(k *foreignKey) {
	unique := l.isUnique(k.from, k.columns)
	targets := l.sides(k.to, k.referenced)
	for _, from := range l.sides(k.from, k.columns) {
		for _, to := range targets {
			if from.Relation == to.Relation && from.path != to.path {
				continue // both ends are columns of one join view, which has done the join already
			}
			out, in := direct(k, from, to)
			out.One, in.One = to.single, unique && from.single
			from.Relationships = append(from.Relationships, out)
			to.Relationships = append(to.Relationships, in)
		}
	}
}

// relatePartition adds the relationship of a partition's copy of a foreign key. It leads from the partition only: other
// tables are related to the whole.
func (l *loader) relatePartition(k *foreignKey, byOID map[uint32]*foreignKey) {
	root := k
	for byOID[root.parent] != nil {
		root = byOID[root.parent]
	}
	from, to := l.schema.byOID[k.from], l.schema.byOID[k.to]
	if from == nil || to == nil {
		return
	}
	out, in := direct(k, l.sides(k.from, k.columns)[0], l.sides(k.to, k.referenced)[0])
	switch {
	case from.Partition && k.to == root.to:
		out.One = true
		from.Relationships = append(from.Relationships, out)
	case to.Partition && k.from == root.from:
		in.One = l.isUnique(k.from, k.columns)
		to.Relationships = append(to.Relationships, in)
	}
}

// direct returns the two directions of a foreign key.
func direct(k *foreignKey, from, to side) (out, in *Relationship) {
	out = &Relationship{From: from.Relation, To: to.Relation, Name: k.name, Outgoing: true}
	in = &Relationship{From: to.Relation, To: from.Relation, Name: k.name}
	for i := range from.columns {
		out.Columns = append(out.Columns, ColumnPair{from.columns[i], to.columns[i]})
		in.Columns = append(in.Columns, ColumnPair{to.columns[i], from.columns[i]})
	}
	return out, in
}

// isUnique reports whether a table has at most one row for each value of the columns.
func (l *loader) isUnique(table uint32, columns []int) bool {
	return slices.ContainsFunc(l.uniques[table], func(k *key) bool {
		return !k.partial && !slices.ContainsFunc(k.columns, func(c int) bool { return !slices.Contains(columns, c) })
	})
}

// relateThroughJunctions adds many-to-many relationships: through a relation whose primary key holds two foreign keys,
// also through a view that shows such a table.
func (l *loader) relateThroughJunctions() {
	var found []*Relationship
	for _, j := range l.schema.Relations {
		if j.Partition {
			continue
		}
		keys := j.keysInPrimaryKey()
		for _, a := range keys {
			for _, b := range keys {
				if a.Name == b.Name || sameColumns(a, b) {
					continue
				}
				m := &Relationship{From: a.To, To: b.To, Name: a.Name, Junction: j, JunctionName: b.Name, JunctionColumns: b.Columns}
				for _, c := range a.Columns {
					m.Columns = append(m.Columns, ColumnPair{c.To, c.From})
				}
				found = append(found, m)
			}
		}
	}
	for _, m := range found {
		m.From.Relationships = append(m.From.Relationships, m)
	}
}

// keysInPrimaryKey are the relationships by foreign keys that the primary key holds.
func (r *Relation) keysInPrimaryKey() []*Relationship {
	var list []*Relationship
	for _, rel := range r.Relationships {
		if rel.Outgoing && !slices.ContainsFunc(rel.Columns, func(c ColumnPair) bool { return !r.columns[c.From].PrimaryKey }) {
			list = append(list, rel)
		}
	}
	return list
}

func sameColumns(a, b *Relationship) bool {
	return len(a.Columns) == len(b.Columns) && !slices.ContainsFunc(a.Columns, func(c ColumnPair) bool {
		return !slices.ContainsFunc(b.Columns, func(d ColumnPair) bool { return c.From == d.From })
	})
}

// relateByFunctions adds the computed relationships. One that is named like the target, or like a foreign key to it,
// takes the place of the relationships that would go by that name.
func (l *loader) relateByFunctions() {
	for _, f := range l.schema.Functions {
		from := l.computedOf(f)
		if from == nil || f.Relation == nil {
			continue
		}
		if slices.ContainsFunc(from.Relationships, func(r *Relationship) bool { return r.Function != nil && r.Name == f.Name }) {
			continue // of an earlier schema
		}
		from.Relationships = slices.DeleteFunc(from.Relationships, func(r *Relationship) bool {
			return r.Function == nil && r.To == f.Relation && (f.Name == r.To.Name || f.Name == r.Name)
		})
		from.Relationships = append(from.Relationships, &Relationship{From: from, To: f.Relation, Name: f.Name, One: f.SingleRow || !f.ReturnsSet, Function: f})
	}
}

func compareRelationships(a, b *Relationship) int {
	junction := func(r *Relationship) string {
		if r.Junction == nil {
			return ""
		}
		return r.Junction.Name
	}
	return cmp.Or(
		cmp.Compare(a.To.Schema, b.To.Schema), cmp.Compare(a.To.Name, b.To.Name),
		cmp.Compare(a.Name, b.Name), cmp.Compare(junction(a), junction(b)), cmp.Compare(a.JunctionName, b.JunctionName),
		slices.CompareFunc(a.Columns, b.Columns, func(a, b ColumnPair) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
		}),
	)
}
