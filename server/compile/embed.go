package compile

import (
	"slices"
	"strconv"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// embed is a level inside another: the related rows of each of its rows.
//
// Related rows of which there is one at most are joined: "left join lateral (select …) e1 on true". PostgreSQL makes a
// plain join of that, since nothing in the subquery keeps it from being pulled up. Lists are scalar subqueries in the
// select list, which are not evaluated for rows that a limit cuts off. Whether there are related rows is always asked by
// exists, which PostgreSQL turns into semi and anti joins.
type embed struct {
	level
	item         *query.Item
	parent       *level
	relationship *introspect.Relationship
	// join is the alias of the lateral join, or of the subquery that makes a list.
	join string
	// junction is the alias of the junction table.
	junction string
	joined   bool
}

// keyLimit is the greatest length of an identifier in bytes. PostgreSQL cuts longer ones off.
const keyLimit = 63

// pairLimit is how many keys json_build_object takes: a function has at most 100 arguments.
const pairLimit = 50

func (e *embed) inner() bool { return e.item.Join == query.InnerJoin }

// liftsAggregates reports whether aggregates inside are the parent's: they are in the spread of one row.
func (e *embed) liftsAggregates() bool { return e.item.Spread && e.relationship.One }

// asRecord reports whether rows become objects as records, whose column names are the keys. Names that are no
// identifiers, and columns beside the keys, need an object that is built.
func (e *embed) asRecord() bool {
	if e.item.Spread || len(e.extras) > 0 {
		return false
	}
	for i := range e.outputs {
		if name := e.outputs[i].name; name == "" || len(name) > keyLimit {
			return false
		}
	}
	return true
}

// give adds to the parent's outputs what the embed shows; an empty one shows nothing.
func (e *embed) give() {
	if !e.shows() {
		return
	}
	p := e.parent
	if !e.item.Spread && !e.relationship.One {
		p.outputs = append(p.outputs, output{name: e.key(), list: e})
		return
	}
	e.lifted = e.liftsAggregates() && (p.lifted || p.grouped)
	e.resolve()
	if e.c.b.err != nil {
		return
	}
	e.joined = e.joined || !e.item.Spread || len(e.outputs) > 0
	switch {
	case e.item.Spread:
		e.spread()
	case e.asRecord():
		p.outputs = append(p.outputs, output{name: e.key(), value: value{sql: "row_to_json(" + e.join + ".*)", coding: codeJSON}})
	default:
		p.outputs = append(p.outputs, output{name: e.key(), value: value{sql: e.join + ".j", coding: codeJSON}})
	}
}

// shows reports whether anything is selected, in the embed or in one inside it.
func (e *embed) shows() bool {
	return slices.ContainsFunc(e.items, func(i query.Item) bool { return i.Kind != query.Embed }) || slices.ContainsFunc(e.embeds, (*embed).shows)
}

// list is the value of an embed that is an array of objects.
func (e *embed) list() value {
	e.resolve()
	return value{sql: e.c.b.capture(e.writeList), coding: codeJSON}
}

// key is the embed's name in the result.
func (e *embed) key() string {
	if e.item.Alias != "" {
		return e.item.Alias
	}
	return e.item.Target
}

// spread makes the embed's outputs the parent's: as they are, or as an array each.
func (e *embed) spread() {
	p := e.parent
	for i := range e.outputs {
		o := output{name: e.outputs[i].name, value: e.outputs[i].value, lift: e.outputs[i].lift}
		o.sql = e.join + ".c" + strconv.Itoa(i+1)
		o.notNull = false
		switch {
		case !e.relationship.One:
			o.sql = "coalesce(" + o.sql + ", '[]')"
			o.value = value{sql: o.sql, coding: codeJSON}
		case o.lift != nil && !p.lifted:
			o.value, o.aggregate, o.lift = p.apply(o.lift, o.value), true, nil
		}
		p.outputs = append(p.outputs, o)
	}
}

// writeList writes the scalar subquery that makes an array of the related rows.
func (e *embed) writeList() {
	b := e.c.b
	record := e.asRecord()
	b.write("(select coalesce(json_agg(")
	if record {
		b.writeAll("row_to_json(", e.join, ".*)")
	} else {
		e.writeObject()
	}
	b.write("), '[]') from (")
	e.write(listMode(record))
	b.writeAll(") ", e.join, ")")
}

func listMode(record bool) mode {
	if record {
		return recordMode
	}
	return columnMode
}

// writeJoin writes the lateral join of the embed, where it has one.
func (e *embed) writeJoin() {
	if !e.joined {
		return
	}
	b := e.c.b
	if e.joinsInner() {
		b.write(" join lateral (")
	} else {
		b.write(" left join lateral (")
	}
	switch {
	case e.item.Spread && !e.relationship.One:
		b.write("select ")
		for i := range e.outputs {
			if i > 0 {
				b.write(", ")
			}
			n := strconv.Itoa(i + 1)
			b.writeAll("json_agg(", e.join, ".c", n, ") as c", n)
		}
		b.write(" from (")
		e.write(columnMode)
		b.writeAll(") ", e.join)
	case e.item.Spread:
		e.write(columnMode)
	case e.asRecord():
		e.write(recordMode)
	default:
		b.write("select ")
		e.writeObject()
		b.write(" as j")
		for i := range e.extras {
			b.writeAll(", ", e.join, ".o", strconv.Itoa(i+1))
		}
		b.write(" from (")
		e.write(columnMode)
		b.writeAll(") ", e.join)
	}
	b.writeAll(") ", e.join, " on true")
}

// joinsInner reports whether the embed's join keeps only the rows that have a related one. Where it does not, the
// parent has a condition.
func (e *embed) joinsInner() bool {
	return e.inner() && e.joined && e.relationship.One && !e.parent.early && !e.grouped
}

// writeObject writes the object of a row of the subquery that selects the outputs as c1 … cn.
func (e *embed) writeObject() {
	b := e.c.b
	pair := func(i int, between, before, after string) {
		b.literal(e.outputs[i].name)
		b.writeAll(between, before, e.join, ".c", strconv.Itoa(i+1), after)
	}
	if len(e.outputs) <= pairLimit {
		b.write("json_build_object(")
		for i := range e.outputs {
			if i > 0 {
				b.write(", ")
			}
			pair(i, ", ", "", "")
		}
		b.write(")")
		return
	}
	b.write("(select json_object_agg(o.k, o.v) from (values ")
	for i := range e.outputs {
		if i > 0 {
			b.write(", ")
		}
		b.write("(")
		pair(i, ", ", "to_json(", ")")
		b.write(")")
	}
	b.write(") as o(k, v))")
}

// writeExists writes the condition that there are related rows.
func (e *embed) writeExists() {
	b := e.c.b
	outside := e.outside
	e.outside = false // here the rows are not limited first
	defer func() { e.outside = outside }()
	b.write("exists (select from ")
	e.writeFrom()
	having := e.hasHaving()
	if having {
		if e.outputs == nil {
			e.resolve()
		}
		e.writeJoins()
	}
	e.writeWhere(having)
	if having {
		e.writeGroups()
		e.writeHaving()
	}
	b.write(")")
}

// writeRelated writes the FROM clause of the related rows.
func (e *embed) writeRelated() {
	b, r := e.c.b, e.relationship
	if r.Function != nil {
		b.name(r.Function.Schema, r.Function.Name)
		b.writeAll("(", e.parent.row(), ") ", e.alias)
		return
	}
	b.name(r.To.Schema, r.To.Name)
	b.writeAll(" ", e.alias)
	if r.Junction == nil {
		return
	}
	b.write(" join ")
	b.name(r.Junction.Schema, r.Junction.Name)
	b.writeAll(" ", e.junction, " on ")
	for i, pair := range r.JunctionColumns {
		if i > 0 {
			b.write(" and ")
		}
		b.writeAll(e.junction, ".", quote(pair.From), " = ", e.alias, ".", quote(pair.To))
	}
}

// writeLink writes the condition that rows are related to the parent's row.
func (e *embed) writeLink(and func()) {
	b, r := e.c.b, e.relationship
	here := e.alias
	if r.Junction != nil {
		here = e.junction
	}
	if r.Function != nil && !r.Function.ReturnsSet {
		// One that returns NULL makes a row of NULLs in FROM.
		and()
		b.writeAll("not (", here, ".* is null)")
	}
	for _, pair := range r.Columns {
		and()
		b.writeAll(here, ".", quote(pair.To), " = ", e.parent.ref(pair.From))
	}
}

// unbounded reports whether nothing but a promise keeps the related rows to one: a function with ROWS 1 may break it, and
// would multiply the parent's rows.
func (e *embed) unbounded() bool {
	return e.relationship.One && e.relationship.Function != nil
}
