package introspect

import (
	"slices"
	"strconv"
)

// origin says which column of a table a view's column shows. path names the appearance of that table in the view's FROM
// clause, down through the views in between: a table joined to itself appears twice.
type origin struct {
	table    uint32
	column   int
	path     string
	nullable bool
	repeated bool // the view returns a row of the table more than once, as far as one can tell
	shared   bool // it may do so
}

// appearance is one appearance of a table in a view.
type appearance struct {
	table    uint32
	path     string
	columns  map[int]int // the first column of the view that shows each column of the table
	nullable bool
	repeated bool
	shared   bool
}

func (l *loader) rule(r *row) {
	oid := r.oid()
	outputs, repeats, err := parseRule(r.text())
	if err != nil {
		// A form of a later PostgreSQL: the view is served without inferred keys and relationships.
		return
	}
	l.queries[oid] = outputs
	if repeats {
		l.repeating[oid] = true
	}
}

// traceViews finds out where the columns of the views come from, and the primary keys that follow.
func (l *loader) traceViews() {
	for _, rel := range l.schema.Relations {
		if rel.Kind != View && rel.Kind != MaterializedView {
			continue
		}
		for _, a := range l.appearances(rel.OID) {
			l.shown[a.table] = append(l.shown[a.table], shown{rel, a})
		}
		if rel.PrimaryKey == nil {
			l.inferPrimaryKey(rel)
		}
	}
}

// trace returns the origins of a view's columns, in their order; the zero origin where there is none.
func (l *loader) trace(view uint32) []origin {
	if t, ok := l.traced[view]; ok {
		return t
	}
	l.traced[view] = nil // views do not contain themselves, but a wrong tree must not hang the server
	outputs := l.queries[view]
	list := make([]origin, len(outputs))
	for i, o := range outputs {
		if o.relation == 0 || o.column <= 0 {
			continue
		}
		from := origin{table: o.relation, column: o.column, path: strconv.Itoa(o.item), nullable: o.nullable}
		if _, isView := l.queries[o.relation]; isView {
			below := l.trace(o.relation)
			if o.column > len(below) || below[o.column-1].table == 0 {
				continue
			}
			from = below[o.column-1]
			from.path = strconv.Itoa(o.item) + "." + from.path
			from.nullable = from.nullable || o.nullable
		}
		from.repeated = from.repeated || l.repeating[view]
		list[i] = from
	}
	l.markJoined(list)
	l.traced[view] = list
	return list
}

// markJoined recognises joins: a table whose rows other tables of the view refer to by a foreign key is on the one side
// of the join, so the view repeats its rows. Of tables that refer to each other, or not at all, nothing is known. The
// join's condition is not looked at; this is a guess that tends to see no key rather than a wrong one.
func (l *loader) markJoined(list []origin) {
	tables := map[string]uint32{}
	for _, o := range list {
		if o.table != 0 {
			tables[o.path] = o.table
		}
	}
	if len(tables) < 2 {
		return
	}
	for i := range list {
		o := &list[i]
		for path, other := range tables {
			if o.table == 0 || path == o.path {
				continue
			}
			refers, referred := l.refers(o.table, other), l.refers(other, o.table)
			o.repeated = o.repeated || referred && !refers
			o.shared = o.shared || referred == refers
		}
	}
}

// refers reports whether there is a path of foreign keys from one table to the other.
func (l *loader) refers(from, to uint32) bool {
	if l.references == nil {
		l.references = map[uint32][]uint32{}
		for _, k := range l.foreign {
			l.references[k.from] = append(l.references[k.from], k.to)
		}
	}
	seen := map[uint32]bool{}
	var walk func(uint32) bool
	walk = func(t uint32) bool {
		if seen[t] {
			return false
		}
		seen[t] = true
		return slices.ContainsFunc(l.references[t], func(next uint32) bool { return next == to || walk(next) })
	}
	return walk(from)
}

// appearances groups a view's columns by the appearance of the table they come from, in the order of their first column.
func (l *loader) appearances(view uint32) []*appearance {
	var list []*appearance
	byPath := map[string]*appearance{}
	for i, o := range l.trace(view) {
		if o.table == 0 {
			continue
		}
		a := byPath[o.path]
		if a == nil {
			a = &appearance{table: o.table, path: o.path, columns: map[int]int{}}
			byPath[o.path] = a
			list = append(list, a)
		}
		if _, ok := a.columns[o.column]; !ok {
			a.columns[o.column] = i + 1
		}
		a.nullable = a.nullable || o.nullable
		a.repeated = a.repeated || o.repeated
		a.shared = a.shared || o.shared
	}
	return list
}

// inferPrimaryKey makes the primary key of the base table a view's key. Where a view shows the keys of several tables
// of which none refers to the other, they form the key together.
func (l *loader) inferPrimaryKey(view *Relation) {
	var names []string
	for _, a := range l.appearances(view.OID) {
		if a.repeated || a.nullable {
			continue
		}
		for _, k := range l.uniques[a.table] {
			if !k.primary || !a.shows(k.columns) {
				continue
			}
			for _, c := range k.columns {
				names = append(names, view.byNumber[a.columns[c]].Name)
			}
		}
	}
	if names != nil {
		view.setPrimaryKey(names)
	}
}

// shows reports whether the view has all these columns of the table.
func (a *appearance) shows(columns []int) bool {
	return !slices.ContainsFunc(columns, func(c int) bool { _, ok := a.columns[c]; return !ok })
}

// shown is a view that shows a table.
type shown struct {
	view *Relation
	*appearance
}
