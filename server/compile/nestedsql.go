package compile

import (
	"slices"
	"strconv"

	"github.com/boughdb/bough/server/introspect"
)

// nestedWriter writes a tree of rows as a chain of CTEs: n1, n2 … hold the rows of each node with all values that other
// nodes need, w1, w2 … write them, j1 … write the rows of junctions and d1 … delete. A column's value is called v and
// its position. Constraints are checked when the whole statement is done, so the order of the writes does not matter.
type nestedWriter struct {
	Context
	b    builder
	mode NestedMode
	root *nestedNode
	ctes []string
	// update is true when the root is a row that is there; found is then the condition that finds it.
	update bool
	found  string
}

func (n *nestedNode) source() string { return "n" + strconv.Itoa(n.number) }

func valueName(column *introspect.Column) string { return "v" + strconv.Itoa(column.Position) }

// node writes a node: what its rows refer to, the rows, and what refers to them.
func (w *nestedWriter) node(n *nestedNode) error {
	for _, child := range n.children {
		if child.first() {
			if err := w.node(child); err != nil {
				return err
			}
		}
	}
	var err error
	if n == w.root && w.update {
		err = w.updateRoot(n)
	} else {
		err = w.insertRows(n)
	}
	if err != nil {
		return err
	}
	for _, child := range n.children {
		if child.first() {
			continue
		}
		if err := w.node(child); err != nil {
			return err
		}
		if child.via.Junction != nil {
			w.link(child)
		}
		if w.mode == NestedReplace && w.update && n == w.root {
			w.deleteOthers(child)
		}
	}
	return nil
}

// needed are the columns of a node whose values other nodes, or the reader of the keys, take.
func (w *nestedWriter) needed(n *nestedNode) []*introspect.Column {
	var names []string
	for _, child := range n.children {
		if !child.first() {
			for _, pair := range child.via.Columns {
				names = append(names, pair.From)
			}
		}
	}
	switch {
	case n.via == nil:
	case n.first():
		for _, pair := range n.via.Columns {
			names = append(names, pair.To)
		}
	case n.via.Junction != nil:
		for _, pair := range n.via.JunctionColumns {
			names = append(names, pair.To)
		}
	}
	var columns []*introspect.Column
	for _, name := range names {
		if column := n.rel.Column(name); column != nil && !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
	}
	return columns
}

// nestedValue is a column that is written, with the SQL of its value.
type nestedValue struct {
	column *introspect.Column
	sql    string
	// drawn is true for a default that is drawn because others need it.
	drawn bool
}

// insertRows writes the CTE of a node's rows and the one that inserts them.
func (w *nestedWriter) insertRows(n *nestedNode) error {
	rs, err := n.rowSet()
	if err != nil {
		return err
	}
	from := rs.from("b", w.b.param)
	var values []nestedValue
	always := false
	for i, column := range n.columns {
		if column.Identity == 'a' && w.merges(n) && slices.Contains(n.rel.PrimaryKey, column) {
			always = true // the key names a row that is there
		} else if column.Identity == 'a' {
			return errNested.Msgf("The column '%s' of '%s' is always generated and cannot be given.", column.Name, n.rel.Name)
		}
		sql := rs.value(i, "b")
		if rs.present[i] != nil {
			sql = "case when b.p" + strconv.Itoa(i+1) + " then " + sql + " else " + drawSQL(n.rel, column) + " end"
		}
		values = append(values, nestedValue{column: column, sql: sql})
	}
	if n.via != nil && !n.first() && n.via.Junction == nil {
		from += " join " + n.parent.source() + " as p on p.ord = b.po"
		for _, pair := range n.via.Columns {
			column := n.rel.Column(pair.To)
			if slices.Contains(n.columns, column) {
				return errNested.Msgf("The column '%s' of '%s' comes from the row that it is nested in.", column.Name, n.rel.Name)
			}
			values = append(values, nestedValue{column: column, sql: "p." + valueName(n.parent.rel.Column(pair.From))})
		}
	}
	for _, child := range n.children {
		if !child.first() {
			continue
		}
		alias := "q" + strconv.Itoa(child.number)
		from += " left join " + child.source() + " as " + alias + " on " + alias + ".po = b.ord"
		if values, err = referTo(n, child, alias, values); err != nil {
			return err
		}
	}
	for _, column := range w.needed(n) {
		if slices.ContainsFunc(values, func(v nestedValue) bool { return v.column == column }) {
			continue
		}
		if column.Generated || w.merges(n) && !slices.Contains(n.rel.PrimaryKey, column) {
			return errNested.Msgf("The column '%s' of '%s' must be given: other rows refer to it.", column.Name, n.rel.Name)
		}
		always = always || column.Identity == 'a'
		values = append(values, nestedValue{column: column, sql: drawSQL(n.rel, column), drawn: true})
	}
	w.writeSource(n, values, from)
	return w.writeInsert(n, values, always)
}

// drawSQL is the default of a column that is given in other rows only, or that other rows refer to.
func drawSQL(rel *introspect.Relation, column *introspect.Column) string {
	byDefault := *column
	if column.Identity == 'a' {
		byDefault.Identity = 'd'
	}
	sql := defaultSQL(rel, &byDefault)
	if sql == "" {
		sql = "null"
	}
	return "(" + sql + ")::" + plainType(column.Type)
}

// referTo gives the columns that refer to a nested row its values.
func referTo(n, child *nestedNode, alias string, values []nestedValue) ([]nestedValue, error) {
	for _, pair := range child.via.Columns {
		column := n.rel.Column(pair.From)
		given := slices.Index(n.columns, column)
		if given >= 0 {
			for _, row := range child.rows {
				if of := n.rows[row.parent-1].values; given < len(of) && of[given] != nil {
					return nil, errNested.Msgf("The column '%s' of '%s' comes from the nested '%s': only one of them can be given.",
						column.Name, n.rel.Name, child.name)
				}
			}
		}
		value := alias + "." + valueName(child.rel.Column(pair.To))
		at := slices.IndexFunc(values, func(v nestedValue) bool { return v.column == column })
		other := "null"
		if at >= 0 {
			other = values[at].sql
		} else if sql := defaultSQL(n.rel, column); sql != "" {
			other = "(" + sql + ")::" + plainType(column.Type)
		}
		v := nestedValue{column: column, sql: "case when " + alias + ".ord is not null then " + value + " else " + other + " end"}
		if at >= 0 {
			values[at] = v
		} else {
			values = append(values, v)
		}
	}
	return values, nil
}

// writeSource writes the CTE of a node's rows. It is materialized, because it draws from sequences and is read often.
func (w *nestedWriter) writeSource(n *nestedNode, values []nestedValue, from string) {
	var b builder
	b.writeAll(n.source(), " as materialized (select b.ord, b.po")
	for _, v := range values {
		b.writeAll(", ", v.sql, " as ", valueName(v.column))
	}
	b.writeAll(" from ", from)
	if w.update {
		b.writeAll(" where exists (select from ", quote(w.root.rel.Schema), ".", quote(w.root.rel.Name), " as t where ", w.found, ")")
	}
	b.write(")")
	w.ctes = append(w.ctes, string(b.sql))
}

// merges reports whether rows of the node that are there are updated.
func (w *nestedWriter) merges(n *nestedNode) bool {
	return n != w.root && w.mode != NestedInsert && len(n.rel.PrimaryKey) > 0
}

func (w *nestedWriter) writeInsert(n *nestedNode, values []nestedValue, always bool) error {
	var b builder
	b.writeAll("w", strconv.Itoa(n.number), " as (insert into ")
	b.name(n.rel.Schema, n.rel.Name)
	b.write(" as t")
	list := ""
	for i, v := range values {
		if i == 0 {
			b.write(" (")
		} else {
			b.write(", ")
			list += ", "
		}
		b.ident(v.column.Name)
		list += "n." + valueName(v.column)
	}
	if len(values) > 0 {
		b.write(")")
	}
	if always {
		b.write(" overriding system value")
	}
	b.writeAll(" select ", list, " from ")
	if keyed := hasKey(n.rel, values); w.merges(n) && keyed {
		if err := w.writeMerge(&b, n, values); err != nil {
			return err
		}
	} else {
		b.writeAll(n.source(), " as n order by n.ord")
	}
	if n == w.root {
		if list, _ := keyOutputs(n.rel); list != "" {
			b.writeAll(" returning ", list)
		}
	}
	b.write(")")
	w.ctes = append(w.ctes, string(b.sql))
	return b.err
}

// hasKey reports whether the primary key is among the values, so that they may mean a row that is there.
func hasKey(rel *introspect.Relation, values []nestedValue) bool {
	for _, key := range rel.PrimaryKey {
		if !slices.ContainsFunc(values, func(v nestedValue) bool { return v.column == key && !v.drawn }) {
			return false
		}
	}
	return true
}

// writeMerge writes the rest of an insert that updates rows that are there. The same row may be nested in several
// others; the last one of them counts.
func (w *nestedWriter) writeMerge(b *builder, n *nestedNode, values []nestedValue) error {
	keys := ""
	unique := &introspect.Unique{}
	for i, key := range n.rel.PrimaryKey {
		if i > 0 {
			keys += ", "
		}
		keys += valueName(key)
		unique.Columns = append(unique.Columns, key.Name)
	}
	var set []*introspect.Column
	for _, v := range values {
		if v.drawn || slices.Contains(n.rel.PrimaryKey, v.column) {
			continue
		}
		set = append(set, v.column)
		given := slices.Index(n.columns, v.column)
		for _, row := range n.rows {
			if given >= 0 && (given >= len(row.values) || row.values[given] == nil) {
				return errNested.Msgf("All objects of '%s' must have the key '%s' when rows are merged, or none.",
					n.name, v.column.Name)
			}
		}
	}
	b.writeAll("(select distinct on (", keys, ") * from ", n.source(), " order by ", keys, ", ord desc) as n order by n.ord")
	if len(set) == 0 {
		onConflict(b, unique, ConflictIgnore, nil) // an object with nothing but its key only connects
		return nil
	}
	onConflict(b, unique, ConflictMerge, set)
	return nil
}
