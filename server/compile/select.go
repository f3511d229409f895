package compile

import (
	"strconv"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// Options are what a statement gives besides the rows that were asked for.
type Options struct {
	// ETag adds a hidden output xmin, the row's version, where the relation's rows have one and the role may read it.
	ETag bool
	// Cursor adds hidden outputs with the values of an order's fields, in the text form, from which the cursor of the
	// next page is made.
	Cursor []query.Order
}

// Source is where rows come from that are not read from their relation: the result of a data-modifying statement or of
// a function.
type Source struct {
	// With is the WITH clause; "" for none.
	With string
	// Args are the parameters of With and From; they come first in the statement.
	Args [][]byte
	// From is the item of the FROM clause, without an alias: the quoted name of a CTE, a function call, a subquery.
	From string
	// Has tells which columns of the relation the rows have; nil stands for all.
	Has func(column string) bool
	// Attributes are the columns of rows that belong to no relation.
	Attributes []introspect.Attribute
	// Name is what messages call the rows that belong to no relation.
	Name string
}

var errCursor = fault.New(fault.Invalid, "validation_error", "pages by @cursor cannot be made of groups")

// Select compiles a request that reads a relation's rows.
func (c Context) Select(rel *introspect.Relation, q *query.Request, o Options) (*Statement, error) {
	l := c.level(nil, rel, q)
	return l.statement(q, o)
}

// SelectFrom compiles what a request shows of rows that come from elsewhere. rel is nil for rows of no relation. The
// request's filters apply to the rows: a caller whose source has filtered already leaves them out.
func (c Context) SelectFrom(src Source, rel *introspect.Relation, q *query.Request, o Options) (*Statement, error) {
	l := c.level(&src, rel, q)
	return l.statement(q, o)
}

// Returning compiles the select list of a RETURNING clause; the statement's target has the alias t. It reports false
// for a request that needs more than that, and so SelectFrom.
func (c Context) Returning(rel *introspect.Relation, q *query.Request) (list string, outputs []Output, ok bool, err error) {
	if q.Order != nil || q.Limit != nil || q.Offset != nil || q.Distinct != nil || len(q.Embeds) > 0 {
		return "", nil, false, nil
	}
	l := c.level(nil, rel, &query.Request{Select: q.Select})
	for _, item := range l.countedRows(l.items) {
		if item.Kind == query.Embed || item.Kind == query.Aggregate {
			return "", nil, false, nil
		}
	}
	l.resolve()
	if len(l.outputs) == 0 && l.c.b.err == nil {
		return "", nil, false, nil // there is no empty RETURNING
	}
	l.writeOutputs(rowMode)
	s, err := l.c.b.statement(l.described())
	if err != nil {
		return "", nil, false, err
	}
	return s.SQL, s.Output, true, nil
}

// Count compiles the exact number of the rows of a request, whatever its limit and offset.
func (c Context) Count(rel *introspect.Relation, q *query.Request) (*Statement, error) {
	return c.level(nil, rel, q).count(q)
}

// CountFrom is Count for rows that come from elsewhere.
func (c Context) CountFrom(src Source, rel *introspect.Relation, q *query.Request) (*Statement, error) {
	return c.level(&src, rel, q).count(q)
}

var star = []query.Item{{Kind: query.Star}}

// level makes the outermost level of a statement.
func (c Context) level(src *Source, rel *introspect.Relation, q *query.Request) *level {
	b := &builder{}
	l := &level{
		c: &compiler{Context: c, b: b}, rel: rel, source: src, alias: rowAlias, items: q.Select, where: q.Where,
		order: q.Order, limit: q.Limit, offset: q.Offset, distinct: q.Distinct, maxRows: c.MaxRows,
	}
	if q.Select == nil {
		l.items = star
	}
	if src != nil {
		b.args = append(b.args, src.Args...)
		if rel == nil {
			l.attributes = src.Attributes
		}
	}
	return l
}

func (l *level) statement(q *query.Request, o Options) (*Statement, error) {
	b := l.c.b
	l.plan(q)
	if b.err != nil {
		return nil, b.err
	}
	b.sql = make([]byte, 0, 512)
	l.writeWith()
	l.resolve()
	output := l.hide(l.described(), o)
	if b.err != nil {
		return nil, b.err
	}
	if l.distinct == nil || len(l.distinct.On) > 0 || !l.wraps() {
		l.write(rowMode)
		return b.statement(output)
	}
	// JSON has no equality: rows are compared first.
	b.write("select ")
	for i := range l.outputs {
		if i > 0 {
			b.write(", ")
		}
		column := l.outputs[i].value
		column.sql = "d.c" + strconv.Itoa(i+1)
		b.write(column.text())
	}
	b.write(" from (")
	l.write(columnMode)
	b.write(") d")
	return b.statement(output)
}

func (l *level) writeWith() {
	if l.source != nil && l.source.With != "" {
		l.c.b.writeAll(l.source.With, " ")
	}
}

// wraps reports whether an output is turned into JSON by PostgreSQL.
func (l *level) wraps() bool {
	for i := range l.outputs {
		if l.outputs[i].wrap {
			return true
		}
	}
	return false
}

// described is the outputs for the reader of the result.
func (l *level) described() []Output {
	described := make([]Output, len(l.outputs), len(l.outputs)+1)
	for i := range l.outputs {
		described[i] = Output{Name: l.outputs[i].name, Encoding: l.outputs[i].encoding, Wrapped: l.outputs[i].wrap, Hidden: l.outputs[i].hidden}
	}
	return described
}

// hide adds the hidden outputs.
func (l *level) hide(described []Output, o Options) []Output {
	grouped := l.grouped || l.distinct != nil
	add := func(name, sql string) {
		described = append(described, Output{Name: name, Hidden: true})
		l.outputs = append(l.outputs, output{value: value{sql: sql}})
	}
	// A role that may not read the whole table must not read the row's version.
	if o.ETag && !grouped && l.rel != nil && l.rel.HasXmin && l.source == nil && l.rel.Grants.Can(l.c.Role, introspect.Select) {
		add("xmin", l.ref("xmin"))
	}
	if o.Cursor != nil && grouped {
		l.c.b.fail(errCursor.Msgf("Pages by @cursor cannot be made of groups or different rows: leave out @cursor, or the aggregates and @distinct."))
	}
	for _, term := range o.Cursor {
		if term.Embed != "" {
			l.c.b.fail(errKeyset.Msgf("Pages by @cursor cannot be ordered by columns of the embed '%s'.", term.Embed))
			return described
		}
		add(fieldName(term.Field), l.field(term.Field).sql)
	}
	return described
}

func (l *level) count(q *query.Request) (*Statement, error) {
	b := l.c.b
	l.plan(q)
	if b.err != nil {
		return nil, b.err
	}
	l.order, l.limit, l.offset, l.maxRows = nil, nil, nil, 0
	begin, end := "select count(*) from (", ") d"
	if l.c.CountPlan {
		b.write("explain (format json) ")
		begin, end = "", ""
	}
	l.writeWith()
	switch {
	case l.distinct != nil || l.hasAggregates():
		l.resolve()
		b.write(begin)
		l.write(columnMode)
		b.write(end)
	case l.c.CountMost > 0 || l.c.CountPlan:
		b.writeAll(begin, "select from ")
		l.writeFrom()
		l.writeWhere(false)
		if l.c.CountMost > 0 {
			b.writeAll(" limit ", strconv.FormatInt(l.c.CountMost, 10))
		}
		b.write(end)
	default:
		b.write("select count(*) from ")
		l.writeFrom()
		l.writeWhere(false)
	}
	return b.statement([]Output{{Name: "count", Encoding: Number}})
}
