package compile

import (
	"slices"
	"strconv"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

var (
	errRelatedOrder = fault.New(fault.Invalid, "PGRST118", "a related order is not possible")
	errNoPrimaryKey = fault.New(fault.Invalid, "validation_error", "no primary key")
)

// CompleteOrder returns an order in which no two rows are equal: the primary key is appended as far as it is not in the
// order already. It fails for a relation without a key.
func (c Context) CompleteOrder(rel *introspect.Relation, order []query.Order) ([]query.Order, error) {
	if rel == nil || len(rel.PrimaryKey) == 0 {
		name := "The result"
		if rel != nil {
			name = rel.Name
		}
		return nil, errNoPrimaryKey.Msgf("%s has no primary key: pages by @cursor need one, use limit and offset instead.", name)
	}
	complete := slices.Clip(order)
	for _, key := range rel.PrimaryKey {
		if !slices.ContainsFunc(order, func(o query.Order) bool {
			return o.Embed == "" && len(o.Field.Path) == 0 && o.Field.Name == key.Name
		}) {
			complete = append(complete, query.Order{Field: query.Field{Name: key.Name}})
		}
	}
	return complete, nil
}

// orderByEmbeds makes the embeds give what the level is ordered by.
func (l *level) orderByEmbeds() {
	for _, o := range l.order {
		if o.Embed == "" {
			continue
		}
		e := l.child(o.Embed)
		switch {
		case e == nil:
			l.c.b.fail(notEmbedded(o.Embed))
			return
		case !e.relationship.One:
			err := *errRelatedOrder.Msgf("A related order on '%s' is not possible", o.Embed)
			err.Details = "'" + l.label() + "' and '" + o.Embed + "' do not form a many-to-one or one-to-one relationship"
			l.c.b.fail(&err)
			return
		}
		e.lifted = e.liftsAggregates() && (l.lifted || l.grouped)
		e.prepare()
		if e.grouped {
			l.c.b.fail(errRelatedOrder.Msgf("A related order on '%s' is not possible: it has aggregates", o.Embed))
			return
		}
		if sql := e.field(o.Field).sql; !slices.Contains(e.extras, sql) {
			e.extras = append(e.extras, sql)
		}
		e.joined = true
	}
}

// orderable resolves a field that orders the rows.
func (l *level) orderable(f query.Field) value { return l.operand(f) }

func (l *level) writeOrder() {
	order := l.order
	if l.distinct != nil && len(l.distinct.On) > 0 {
		order = distinctFirst(l.distinct.On, order)
	}
	b := l.c.b
	for i, o := range order {
		if i == 0 {
			b.write(" order by ")
		} else {
			b.write(", ")
		}
		if o.Embed != "" {
			l.writeEmbedOrder(o)
		} else {
			b.write(l.orderable(o.Field).sql)
		}
		if o.Desc {
			b.write(" desc")
		}
		switch o.Nulls {
		case query.NullsFirst:
			b.write(" nulls first")
		case query.NullsLast:
			b.write(" nulls last")
		}
		if b.err != nil {
			return
		}
	}
}

func (l *level) writeEmbedOrder(o query.Order) {
	e := l.child(o.Embed)
	if e == nil {
		l.c.b.fail(notEmbedded(o.Embed))
		return
	}
	sql := e.field(o.Field).sql
	if l.grouped && e.item.Spread {
		// What is selected is grouped by; the extra that is the same is not.
		if i := slices.IndexFunc(e.outputs, func(o output) bool { return o.sql == sql }); i >= 0 {
			l.c.b.writeAll(e.join, ".c", strconv.Itoa(i+1))
			return
		}
	}
	l.c.b.writeAll(e.join, ".o", strconv.Itoa(slices.Index(e.extras, sql)+1))
}

// distinctFirst moves the fields of DISTINCT ON to the front of the order, as PostgreSQL wants it.
func distinctFirst(on []query.Field, order []query.Order) []query.Order {
	sorted := make([]query.Order, 0, len(on)+len(order))
	isOn := func(o query.Order) bool {
		return o.Embed == "" && slices.ContainsFunc(on, func(f query.Field) bool { return equalFields(f, o.Field) })
	}
	for _, o := range order {
		if isOn(o) {
			sorted = append(sorted, o)
		}
	}
	for _, f := range on {
		if !slices.ContainsFunc(sorted, func(o query.Order) bool { return equalFields(f, o.Field) }) {
			sorted = append(sorted, query.Order{Field: f})
		}
	}
	for _, o := range order {
		if !isOn(o) {
			sorted = append(sorted, o)
		}
	}
	return sorted
}

func equalFields(a, b query.Field) bool {
	return a.Name == b.Name && slices.Equal(a.Path, b.Path)
}
