package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

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
