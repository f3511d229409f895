package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

// rowAlias is the alias of the rows of the request's own relation.
const rowAlias = "t"

// compiler is the state of one statement.
type compiler struct {
	Context
	b       *builder
	aliases int
}

// alias returns a new number for the aliases of an embed.
func (c *compiler) alias() string {
	c.aliases++
	return strconv.Itoa(c.aliases)
}

// level is one SELECT of a statement: that of the request's own relation, or that of an embed.
type level struct {
	c *compiler
	// rel is what the rows are of; nil for results of functions that belong to no relation. They have attributes.
	rel        *introspect.Relation
	attributes []introspect.Attribute
	// source is where the rows come from; nil for the relation itself.
	source *Source
	alias  string

	items         []query.Item
	where         []query.Cond
	order         []query.Order
	limit, offset *int64
	distinct      *query.Distinct
	embeds        []*embed
	// embed is the level's place in another; nil for the outermost.
	embed *embed
	// maxRows bounds the rows, 0 for no bound.
	maxRows int64

	// outputs are filled in by resolve.
	outputs []output
	// grouped is true where aggregates make groups of the rows.
	grouped bool
	// lifted is true for a spread whose aggregates are the parent's.
	lifted bool
	// early is true where the rows are limited in a subquery, before anything is embedded into them.
	early bool
	// outside is true while SQL is made that stands outside of that subquery. What it uses must be selected inside.
	outside  bool
	used     []string
	wholeRow bool
	// extras are expressions that the parent orders by.
	extras []string
}

// output is a value that a level gives.
type output struct {
	name string
	value
	// aggregate is true for what need not be grouped by.
	aggregate bool
	// lift is the aggregate that the parent is to apply to the value; nil for none.
	lift *query.Item
	// list is the embed whose rows are the value, until the value is made.
	list *embed
	// hidden is true for what is not for the client.
	hidden bool
}

// use notes that a column is wanted outside of the early subquery.
func (l *level) use(name string) {
	if !slices.Contains(l.used, name) {
		l.used = append(l.used, name)
	}
}

// prepare decides how the level is written. Its embeds must be there.
func (l *level) prepare() {
	l.grouped = !l.lifted && l.hasAggregates()
	if len(l.embeds) == 0 || l.grouped || l.distinct != nil || !l.bounded() {
		return
	}
	for _, o := range l.order {
		if o.Embed != "" {
			return
		}
	}
	for _, e := range l.embeds {
		if e.shows() {
			l.early, l.outside = true, true
			return
		}
	}
}

// bounded reports whether a limit or an offset applies.
func (l *level) bounded() bool {
	return l.limit != nil || l.maxRows > 0 || l.offset != nil && *l.offset > 0
}

// hasAggregates reports whether the level has aggregates, its own or of a spread.
func (l *level) hasAggregates() bool {
	for i := range l.items {
		if l.items[i].Kind == query.Aggregate {
			return true
		}
	}
	for _, e := range l.embeds {
		if e.liftsAggregates() && e.hasAggregates() {
			return true
		}
	}
	return false
}

// resolve finds out what the level gives.
func (l *level) resolve() {
	l.prepare()
	l.orderByEmbeds()
	l.outputs = make([]output, 0, len(l.items))
	next := 0
	for i := range l.items {
		item := &l.items[i]
		switch item.Kind {
		case query.Star:
			l.star()
		case query.Column:
			name := item.Alias
			if name == "" {
				name = fieldName(item.Field)
			}
			l.outputs = append(l.outputs, output{name: name, value: l.cast(l.field(item.Field), item.Cast)})
		case query.Aggregate:
			l.outputs = append(l.outputs, l.aggregate(item))
		case query.Embed:
			if next < len(l.embeds) {
				l.embeds[next].give()
			}
			next++
		}
		if l.c.b.err != nil {
			return
		}
	}
	if l.distinct != nil && len(l.outputs) == 0 { // there is no empty SELECT DISTINCT
		l.outputs = append(l.outputs, output{value: value{sql: "true"}, hidden: true})
	}
	if len(l.items) > 1 {
		l.outputs = lastOfEachName(l.outputs)
	}
	// Not before it is known that they are needed: PostgreSQL refuses parameters that a statement does not use.
	for i := range l.outputs {
		if o := &l.outputs[i]; o.list != nil {
			o.value = o.list.list()
		}
	}
	if l.grouped || l.distinct != nil && len(l.distinct.On) == 0 {
		for i := range l.outputs {
			if o := &l.outputs[i]; o.incomparable && !o.aggregate {
				o.sql, o.coding = "("+o.sql+")::jsonb", codeJSONB
			}
		}
	}
}

// star adds the columns that the role may read. If it may read none, all of them: PostgreSQL says what is wrong.
func (l *level) star() {
	if l.rel == nil {
		for _, a := range l.attributes {
			l.outputs = append(l.outputs, output{name: a.Name, value: l.column(a.Name)})
		}
		return
	}
	start := len(l.outputs)
	l.outputs = slices.Grow(l.outputs, len(l.rel.Columns)+1) // one more for the version
	for _, all := range [...]bool{false, true} {
		for _, c := range l.rel.Columns {
			if (all || c.Grants.Can(l.c.Role, introspect.Select)) && (l.source == nil || l.has(c.Name)) {
				l.outputs = append(l.outputs, output{name: c.Name, value: value{coding: codingOf(c.Type), typ: c.Type}})
			}
		}
		if len(l.outputs) > start {
			break
		}
	}
	l.nameAll(l.outputs[start:])
}

// nameAll makes the SQL of columns, as ref does for one, in one piece of memory.
func (l *level) nameAll(columns []output) {
	b := l.c.b
	all := b.capture(func() {
		for i := range columns {
			b.writeAll(l.alias, ".")
			b.ident(columns[i].name)
		}
	})
	for i := range columns {
		name := columns[i].name
		size := len(l.alias) + len(name) + len(`.""`) + strings.Count(name, `"`)
		columns[i].sql, all = all[:size], all[size:]
		if l.outside {
			l.use(name)
		}
	}
}

// lastOfEachName leaves out outputs that a later one of the same name hides, as readers of JSON do.
func lastOfEachName(outputs []output) []output {
	if len(outputs) <= 16 {
		for i := 0; i < len(outputs)-1; {
			if slices.ContainsFunc(outputs[i+1:], func(o output) bool { return o.name == outputs[i].name }) {
				outputs = slices.Delete(outputs, i, i+1)
				continue
			}
			i++
		}
		return outputs
	}
	last := make(map[string]int, len(outputs))
	for i := range outputs {
		last[outputs[i].name] = i
	}
	if len(last) == len(outputs) {
		return outputs
	}
	kept := outputs[:0]
	for i := range outputs {
		if last[outputs[i].name] == i {
			kept = append(kept, outputs[i])
		}
	}
	return kept
}
