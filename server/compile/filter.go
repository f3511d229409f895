package compile

import (
	"slices"
	"strings"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// For the statements that write: a builder (builder.go) is shared by all parts of a statement, so that parameters are
// numbered through. own checks that a write's filters are on its own columns, and where appends them to the builder;
// the statement gives the alias to its target, as in "update posts as t set …". Context.Returning's list uses the alias t
// (rowAlias). Errors stay in builder.err.

var (
	errOperator    = fault.New(fault.Invalid, "PGRST100", "invalid filter")
	errNotEmbedded = fault.New(fault.Invalid, "PGRST108", "not an embedded resource in this request")
	errEmbedFilter = fault.New(fault.Invalid, "PGRST120", "bad operator on an embedded resource")
)

// where appends " where …" with filters on the relation's own columns; nothing where there are none.
func (c Context) where(b *builder, rel *introspect.Relation, conds []query.Cond, alias string) {
	l := &level{c: &compiler{Context: c, b: b}, rel: rel, alias: alias, where: conds}
	l.writeWhere(false)
}

// own returns the filters that choose the rows which a request writes: those on the relation's own columns. Filters on
// what select embeds are for the answer. Others are refused, unless they can be read as filters on columns whose names
// hold a dot: a filter that is dropped would let the request write more than was meant.
func (c Context) own(rel *introspect.Relation, q *query.Request) ([]query.Cond, error) {
	l := &level{rel: rel}
	conds := q.Where
	for _, key := range sortedKeys(q.Embeds) {
		m := q.Embeds[key]
		if slices.ContainsFunc(q.Select, func(i query.Item) bool {
			return i.Kind == query.Embed && (i.Alias == m.Path[0] || i.Target == m.Path[0])
		}) {
			continue
		}
		for _, cond := range m.Where {
			f, ok := cond.(*query.Filter)
			if !ok || f.Alternative == nil || len(f.Alternative.Path) > 0 || !l.has(f.Alternative.Filter.Field.Name) {
				return nil, notEmbedded(m.Path[len(m.Path)-1])
			}
			conds = append(conds[:len(conds):len(conds)], &f.Alternative.Filter)
		}
	}
	return conds, nil
}

// Filtered reports whether a request to update or delete says which rows it means.
func (c Context) Filtered(rel *introspect.Relation, q *query.Request) (bool, error) {
	conds, err := c.own(rel, q)
	return len(conds) > 0, err
}

func notEmbedded(name string) error {
	return errNotEmbedded.Msgf("'%s' is not an embedded resource in this request", name).
		WithHint("Verify that '" + name + "' is included in the 'select' query parameter.")
}

// writeCond writes a condition so that it can stand beside and, or and not.
func (l *level) writeCond(c query.Cond) {
	switch c := c.(type) {
	case *query.Filter:
		l.writeFilter(c)
	case *query.Logic:
		l.writeLogic(c)
	case *query.Keyset:
		l.writeKeyset(c)
	}
}

func (l *level) writeLogic(c *query.Logic) {
	b := l.c.b
	if c.Not {
		b.write("not ")
	}
	b.write("(")
	for i, inner := range c.Conds {
		if i > 0 && c.Or {
			b.write(" or ")
		} else if i > 0 {
			b.write(" and ")
		}
		l.writeCond(inner)
	}
	if len(c.Conds) == 0 && c.Or {
		b.write("false")
	} else if len(c.Conds) == 0 {
		b.write("true")
	}
	b.write(")")
}

// operators are written between two operands.
var operators = map[query.Op]string{
	query.Eq: "=", query.Neq: "<>", query.Gt: ">", query.Gte: ">=", query.Lt: "<", query.Lte: "<=",
	query.Like: "like", query.ILike: "ilike", query.Match: "~", query.IMatch: "~*",
	query.IsDistinct: "is distinct from",
	query.Contains:   "@>", query.Contained: "<@", query.Overlaps: "&&",
	query.StrictLeft: "<<", query.StrictRt: ">>", query.NotRight: "&<", query.NotLeft: "&>", query.Adjacent: "-|-",
}

// searches are the functions that make a text search query.
var searches = map[query.Op]string{
	query.FTS: "to_tsquery", query.PlFTS: "plainto_tsquery", query.PhFTS: "phraseto_tsquery",
	query.WFTS: "websearch_to_tsquery",
}

// truths are the operands of is.
var truths = map[string]string{
	"null": " is null", "not_null": " is not null", "true": " is true", "false": " is false", "unknown": " is unknown",
}

func (l *level) writeFilter(f *query.Filter) {
	b := l.c.b
	if l.writeNullEmbed(f) {
		return
	}
	operand := l.operand(f.Field)
	if b.err != nil {
		return
	}
	if f.Not {
		b.write("not ")
	}
	b.write("(")
	switch listed := f.Op == query.In || f.Quant != query.NoQuantifier; {
	case searches[f.Op] != "":
		l.writeSearch(f, operand)
	case listed && operand.isArray():
		l.writeEach(f, operand)
	default:
		b.write(operand.sql)
		l.writeComparison(f)
	}
	b.write(")")
}

func (l *level) writeComparison(f *query.Filter) {
	b := l.c.b
	switch f.Op {
	case query.Is:
		truth, ok := truths[strings.ToLower(f.Value)]
		if !ok {
			b.fail(errOperator.Msgf("is needs null, not_null, true, false or unknown, not %q", f.Value))
		}
		b.write(truth)
	case query.In:
		b.write(" = any(")
		b.bytes(textArray(f.List))
		b.write(")")
	default:
		l.writeOperator(f)
	}
}

// writeEach writes the comparison with a list for an array, since there are no arrays of arrays: one comparison for each
// of the list.
func (l *level) writeEach(f *query.Filter, operand value) {
	b := l.c.b
	one := query.Filter{Op: f.Op}
	if f.Op == query.In {
		one.Op = query.Eq
	}
	all := f.Quant == query.All
	for i, text := range f.List {
		if i > 0 && all {
			b.write(" and ")
		} else if i > 0 {
			b.write(" or ")
		}
		one.Value = text
		b.write(operand.sql)
		l.writeOperator(&one)
	}
	if len(f.List) == 0 && all {
		b.write("true")
	} else if len(f.List) == 0 {
		b.write("false")
	}
}

func (v value) isArray() bool { return v.typ != nil && v.typ.Underlying().Kind == introspect.Array }

func (l *level) writeOperator(f *query.Filter) {
	b := l.c.b
	operator, ok := operators[f.Op]
	if !ok {
		b.fail(errOperator.Msgf("there is no operator %q", f.Op))
	}
	b.writeAll(" ", operator, " ")
	switch {
	case f.OtherColumn:
		b.write(l.operand(query.Field{Name: f.Value}).sql)
	case f.Quant == query.NoQuantifier:
		b.value(f.Value)
	default:
		if f.Quant == query.Any {
			b.write("any(")
		} else {
			b.write("all(")
		}
		b.bytes(textArray(f.List))
		b.write(")")
	}
}

// writeSearch writes a full-text match. What is no tsvector is made one.
func (l *level) writeSearch(f *query.Filter, operand value) {
	b := l.c.b
	config := ""
	if f.Config != "" {
		config = b.param([]byte(f.Config)) + "::regconfig"
	}
	call := func(function string, argument func()) {
		b.writeAll(function, "(")
		if config != "" {
			b.writeAll(config, ", ")
		}
		argument()
		b.write(")")
	}
	if t := operand.typ; t != nil && t.Underlying().Schema == "pg_catalog" && t.Underlying().Name == "tsvector" {
		b.write(operand.sql)
	} else {
		call("to_tsvector", func() { b.write(operand.sql) })
	}
	b.write(" @@ ")
	call(searches[f.Op], func() {
		if f.OtherColumn {
			b.write(l.operand(query.Field{Name: f.Value}).sql)
			return
		}
		b.value(f.Value)
	})
}

// operand resolves the field of a filter: a column of the rows, or an aggregate by the name it is shown under.
func (l *level) operand(f query.Field) value {
	if o := l.aggregateShown(f); o != nil {
		return o.value
	}
	if item := l.aggregateNamed(f); item != nil {
		return l.aggregate(item).value
	}
	return l.field(f)
}

// writeNullEmbed writes a filter that asks whether there are related rows, if the filter is one. A column of the embed's
// name is meant by every other operator.
func (l *level) writeNullEmbed(f *query.Filter) bool {
	if len(l.embeds) == 0 || len(f.Field.Path) > 0 {
		return false
	}
	e := l.child(f.Field.Name)
	if e == nil {
		return false
	}
	isNull := f.Op == query.Is && strings.EqualFold(f.Value, "null")
	notNull := f.Op == query.Is && strings.EqualFold(f.Value, "not_null")
	if !isNull && !notNull {
		if !l.has(f.Field.Name) {
			err := *errEmbedFilter.Msgf("Bad operator on the '%s' embedded resource", f.Field.Name)
			err.Details = "Only is null or not is null filters are allowed on embedded resources"
			l.c.b.fail(&err)
			return true
		}
		return false
	}
	if isNull != f.Not {
		l.c.b.write("not ")
	}
	e.writeExists()
	return true
}
