package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
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
	for i, column := range n.columns {
		if column.Identity == 'a' {
			return errNested.Msgf("The column '%s' of '%s' is always generated and cannot be given.", column.Name, n.rel.Name)
		}
		sql := rs.value(i, "b")
		if rs.present[i] != nil {
			other := defaultSQL(n.rel, column)
			if other == "" {
				other = "null"
			}
			sql = "case when b.p" + strconv.Itoa(i+1) + " then " + sql + " else (" + other + ")::" + plainType(column.Type) + " end"
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
	always := false
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

// drawSQL is the default of a column that other rows refer to.
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

// hasKey reports whether the primary key is among the values.
func hasKey(rel *introspect.Relation, values []nestedValue) bool {
	for _, key := range rel.PrimaryKey {
		if !slices.ContainsFunc(values, func(v nestedValue) bool { return v.column == key }) {
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
	onConflict(b, unique, ConflictMerge, set)
	return nil
}

// link writes the junction's rows between a node's rows and their parents.
func (w *nestedWriter) link(n *nestedNode) {
	var b builder
	b.writeAll("j", strconv.Itoa(n.number), " as (insert into ")
	b.name(n.via.Junction.Schema, n.via.Junction.Name)
	b.write(" (")
	list := ""
	for i, pair := range n.via.Columns {
		b.comma(i)
		b.ident(pair.To)
		list += "p." + valueName(n.parent.rel.Column(pair.From)) + ", "
	}
	for _, pair := range n.via.JunctionColumns {
		b.write(", ")
		b.ident(pair.From)
		list += "n." + valueName(n.rel.Column(pair.To)) + ", "
	}
	b.writeAll(") select ", strings.TrimSuffix(list, ", "), " from ", n.source(), " as n join ", n.parent.source(),
		" as p on p.ord = n.po order by n.ord")
	if w.mode != NestedInsert {
		b.write(" on conflict do nothing")
	}
	b.write(")")
	w.ctes = append(w.ctes, string(b.sql))
}

// deleteOthers deletes rows that belong to the root and are not among the node's; with a junction, the links to them.
func (w *nestedWriter) deleteOthers(n *nestedNode) {
	var b builder
	b.writeAll("d", strconv.Itoa(n.number), " as (delete from ")
	target := n.rel
	if n.via.Junction != nil {
		target = n.via.Junction
	}
	b.name(target.Schema, target.Name)
	b.writeAll(" as t using ", n.parent.source(), " as p where ")
	for i, pair := range n.via.Columns {
		if i > 0 {
			b.write(" and ")
		}
		b.writeAll("t.", quote(pair.To), " = p.", valueName(n.parent.rel.Column(pair.From)))
	}
	var kept []string
	if n.via.Junction != nil {
		for _, pair := range n.via.JunctionColumns {
			kept = append(kept, "n."+valueName(n.rel.Column(pair.To))+" = t."+quote(pair.From))
		}
	} else {
		for _, key := range n.rel.PrimaryKey {
			related := slices.ContainsFunc(n.via.Columns, func(p introspect.ColumnPair) bool { return p.To == key.Name })
			if !related && !slices.Contains(n.columns, key) {
				kept = nil // no object can mean a row that is there
				break
			}
			kept = append(kept, "n."+valueName(key)+" = t."+quote(key.Name))
		}
	}
	if kept != nil {
		b.writeAll(" and not exists (select from ", n.source(), " as n where ", strings.Join(kept, " and "), ")")
	}
	b.write(")")
	w.ctes = append(w.ctes, string(b.sql))
}

// updateRoot writes the update of the root's row, and a CTE of what others need of it.
func (w *nestedWriter) updateRoot(n *nestedNode) error {
	var b builder
	set := 0
	assign := func(column *introspect.Column, sql string) {
		b.comma(set)
		set++
		b.writeAll(quote(column.Name), " = ", sql)
	}
	for i, column := range n.columns {
		if slices.Contains(n.rel.PrimaryKey, column) {
			continue
		}
		f := formOf(column.Type, false)
		value, err := f.encode(n.rows[0].values[i])
		if err != nil {
			return err
		}
		assign(column, f.decode(w.b.param(value)+"::"+f.paramType(column.Type), column.Type))
	}
	for _, child := range n.children {
		if !child.first() {
			continue
		}
		if len(child.rows) == 0 { // null: the row is to refer to none
			for _, pair := range child.via.Columns {
				assign(n.rel.Column(pair.From), "null")
			}
			continue
		}
		if _, err := referTo(n, child, "q", nil); err != nil {
			return err
		}
		for _, pair := range child.via.Columns {
			assign(n.rel.Column(pair.From), "(select q."+valueName(child.rel.Column(pair.To))+" from "+child.source()+" as q)")
		}
	}
	target := quote(n.rel.Schema) + "." + quote(n.rel.Name) + " as t"
	list, _ := keyOutputs(n.rel)
	all, values := list, "1::int8 as ord"
	for _, column := range w.needed(n) {
		all += ", t." + quote(column.Name) + " as " + valueName(column)
		values += ", w1." + valueName(column)
	}
	if set == 0 {
		w.ctes = append(w.ctes, "w1 as (select "+all+" from "+target+" where "+w.found+")")
	} else {
		w.ctes = append(w.ctes, "w1 as (update "+target+" set "+string(b.sql)+" where "+w.found+" returning "+all+")")
	}
	w.ctes = append(w.ctes, n.source()+" as materialized (select "+values+" from w1)")
	return nil
}

// nestedSetting carries the keys from the statement that writes to the one that reads, within the transaction.
const nestedSetting = "bough.nested"

func (w *nestedWriter) finish(q *query.Request, ret Return) (write, read *Statement, err error) {
	rel := w.root.rel
	list := ""
	_, outputs := keyOutputs(rel)
	for i, column := range rel.PrimaryKey {
		if i > 0 {
			list += ", "
		}
		list += "w1." + quote(column.Name)
	}
	w.b.writeAll("with ", strings.Join(w.ctes, ", "))
	switch {
	case list == "" && ret == ReturnRepresentation:
		return nil, nil, errKeyNeeded.Msgf("The rows cannot be read again: '%s' has no primary key.", rel.Name)
	case list == "":
		w.b.write(" select where false")
	case ret != ReturnRepresentation:
		w.b.writeAll(" select ", list, " from w1")
	default:
		w.b.writeAll(" select set_config('", nestedSetting, "', (select coalesce(json_agg(k), '[]')::text from (select ", list,
			" from w1) as k), true)")
		outputs = []Output{{Name: nestedSetting, Hidden: true}}
		if read, err = w.reading(q); err != nil {
			return nil, nil, err
		}
	}
	write, err = w.b.statement(outputs)
	return write, read, err
}

// reading compiles the statement that reads the rows that were written.
func (w *nestedWriter) reading(q *query.Request) (*Statement, error) {
	rel := w.root.rel
	types, names, on := "", "", ""
	for i, column := range rel.PrimaryKey {
		if i > 0 {
			types, names, on = types+", ", names+", ", on+" and "
		}
		alias := "k" + strconv.Itoa(i+1)
		types += quote(column.Name) + " " + plainType(column.Type)
		names += alias
		on += "t." + quote(column.Name) + " = k." + alias
	}
	list, has := w.readable(rel)
	source := Source{
		With: "with " + written + " as (select " + list + " from " + quote(rel.Schema) + "." + quote(rel.Name) +
			" as t join rows from (json_to_recordset(current_setting('" + nestedSetting + "')::json) as (" + types +
			")) with ordinality as k(" + names + ", ord) on " + on + " order by k.ord)",
		From: written, Has: has,
	}
	again := *q
	again.Where = nil
	c := w.Context
	c.MaxRows = 0
	return c.SelectFrom(source, rel, &again, Options{})
}
