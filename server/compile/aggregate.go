package compile

import (
	"slices"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/query"
)

var errAggregates = fault.New(fault.Invalid, "PGRST123", "Use of aggregate functions is not allowed")

// countedRows is the items with count() in the place of a column count that does not exist. PostgreSQL reads t.count as
// count(t) where t has no such column, and clients written for PostgREST rely on it: select=*,comments(count).
func (l *level) countedRows(items []query.Item) []query.Item {
	cloned := false
	for i := range items {
		item := &items[i]
		if item.Kind != query.Column || item.Field.Name != "count" || len(item.Field.Path) > 0 || l.declares("count") {
			continue
		}
		if !cloned {
			items, cloned = slices.Clone(items), true
		}
		items[i] = query.Item{Kind: query.Aggregate, Func: "count", Alias: item.Alias, FuncCast: item.Cast, Position: item.Position}
	}
	return items
}

// aggregate resolves an aggregate of the select list.
func (l *level) aggregate(item *query.Item) output {
	if l.c.DenyAggregates {
		l.c.b.fail(errAggregates)
	}
	var operand value
	if item.Field.Name == "" {
		operand = value{sql: "1", coding: codeNumber}
	} else {
		operand = l.cast(l.field(item.Field), item.Cast)
	}
	if l.lifted {
		return output{name: aggregateName(item), value: operand, lift: item}
	}
	if item.Field.Name == "" && item.Func == "count" {
		operand.sql = "*"
	}
	return output{name: aggregateName(item), value: l.apply(item, operand), aggregate: true}
}

// apply applies an aggregate function to its operand.
func (l *level) apply(item *query.Item, operand value) value {
	var result value
	switch item.Func {
	case "count":
		result.coding = codeNumber
	case "sum", "avg":
		result.coding = codeOther
		if operand.coding == codeNumber {
			result.coding = codeNumber
		}
	case "min", "max":
		result.coding = operand.coding
	default:
		l.c.b.fail(errOperator.Msgf("there is no aggregate function %q", item.Func))
	}
	result.sql = item.Func + "(" + operand.sql + ")"
	return l.cast(result, item.FuncCast)
}

func aggregateName(item *query.Item) string {
	if item.Alias != "" {
		return item.Alias
	}
	return item.Func
}

// aggregateNamed finds the level's own aggregate that is shown under a field's name. A column of that name comes first.
func (l *level) aggregateNamed(f query.Field) *query.Item {
	if len(f.Path) > 0 {
		return nil
	}
	for i := range l.items {
		item := &l.items[i]
		if item.Kind == query.Aggregate && aggregateName(item) == f.Name && !l.has(f.Name) {
			return item
		}
	}
	return nil
}

// aggregateShown is the aggregate, of the level itself or of a spread, that is shown under a field's name; nil for none
// and before the level is resolved.
func (l *level) aggregateShown(f query.Field) *output {
	if !l.grouped || len(f.Path) > 0 || len(l.outputs) == 0 || l.has(f.Name) {
		return nil
	}
	for i := range l.outputs {
		if o := &l.outputs[i]; o.aggregate && o.name == f.Name {
			return o
		}
	}
	return nil
}

// showsAggregate reports whether an aggregate, of the level itself or of a spread, is shown under a name.
func (l *level) showsAggregate(name string) bool {
	for i := range l.items {
		if item := &l.items[i]; item.Kind == query.Aggregate && aggregateName(item) == name {
			return true
		}
	}
	for _, e := range l.embeds {
		if e.liftsAggregates() && e.showsAggregate(name) {
			return true
		}
	}
	return false
}

// ofGroups reports whether a condition is on an aggregate, and so is for HAVING.
func (l *level) ofGroups(c query.Cond) bool {
	switch c := c.(type) {
	case *query.Filter:
		return len(c.Field.Path) == 0 && !l.has(c.Field.Name) && l.showsAggregate(c.Field.Name)
	case *query.Logic:
		return slices.ContainsFunc(c.Conds, l.ofGroups)
	}
	return false
}

// hasHaving reports whether filters are on aggregates.
func (l *level) hasHaving() bool {
	for _, c := range l.where {
		if l.ofGroups(c) {
			return true
		}
	}
	return false
}

// writeGroups writes GROUP BY with everything in the select list that is no aggregate.
func (l *level) writeGroups() {
	if !l.grouped {
		return
	}
	first := true
	for i := range l.outputs {
		o := &l.outputs[i]
		if o.aggregate {
			continue
		}
		if first {
			l.c.b.write(" group by ")
		} else {
			l.c.b.write(", ")
		}
		first = false
		l.c.b.write(o.sql)
	}
}

func (l *level) writeHaving() {
	first := true
	for _, c := range l.where {
		if !l.ofGroups(c) {
			continue
		}
		if first {
			l.c.b.write(" having ")
		} else {
			l.c.b.write(" and ")
		}
		first = false
		l.writeCond(c)
	}
}
