package compile

import (
	"maps"
	"slices"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/query"
)

// maxDepth of embeds, and how many there may be: each is a join or a subquery that PostgreSQL has to plan.
const (
	maxEmbedDepth = 16
	maxEmbeds     = 64
)

var errTooComplex = fault.New(fault.Invalid, "validation_error", "too many embeds")

// plan makes the levels of a request's embeds, below the outermost one, and hands out the filters and modifiers.
func (l *level) plan(q *query.Request) {
	l.embedItems(0)
	if l.c.b.err != nil {
		return
	}
	if len(q.Embeds) > 0 {
		for _, key := range sortedKeys(q.Embeds) {
			l.modify(q.Embeds[key])
		}
	}
	l.settle(l)
}

func sortedKeys(embeds map[string]*query.Modifiers) []string { return slices.Sorted(maps.Keys(embeds)) }

func (l *level) embedItems(depth int) {
	l.items = l.countedRows(l.items)
	for i := range l.items {
		item := &l.items[i]
		if item.Kind != query.Embed {
			continue
		}
		r := l.relationship(item)
		if r == nil {
			return
		}
		n := l.c.alias()
		if depth == maxEmbedDepth || l.c.aliases > maxEmbeds {
			l.c.b.fail(errTooComplex.Msgf("A request may have at most %d embeds, nested at most %d deep.", maxEmbeds, maxEmbedDepth))
			return
		}
		e := &embed{item: item, parent: l, relationship: r, join: "e" + n}
		e.level = level{c: l.c, rel: r.To, alias: "t" + n, items: item.Select, embed: e}
		if !r.One {
			e.maxRows = l.c.MaxRows
		}
		if r.Junction != nil {
			e.junction = "j" + n
		}
		l.embeds = append(l.embeds, e)
		e.embedItems(depth + 1)
		if l.c.b.err != nil {
			return
		}
	}
}

// find follows a path of embeds; nil where it leads nowhere.
func (l *level) find(path []string) *level {
	for _, name := range path {
		e := l.child(name)
		if e == nil {
			return nil
		}
		l = &e.level
	}
	return l
}

// modify hands the modifiers of an embed to its level. Where there is no such embed, its filters may have another
// reading.
func (l *level) modify(m *query.Modifiers) {
	if target := l.find(m.Path); target != nil {
		target.where = append(target.where, m.Where...)
		// An embed may be named by its alias in one place and by its target in another.
		if m.Order != nil {
			target.order = m.Order
		}
		if m.Limit != nil {
			target.limit = m.Limit
		}
		if m.Offset != nil {
			target.offset = m.Offset
		}
		return
	}
	if len(m.Where) == 0 || m.Order != nil || m.Limit != nil || m.Offset != nil {
		l.c.b.fail(notEmbedded(m.Path[len(m.Path)-1]))
		return
	}
	for _, c := range m.Where {
		f, ok := c.(*query.Filter)
		if !ok || !l.readOtherwise(f) {
			l.c.b.fail(notEmbedded(m.Path[len(m.Path)-1]))
			return
		}
	}
}

// readOtherwise applies the other reading of a filter; false where that makes no sense either.
func (l *level) readOtherwise(f *query.Filter) bool {
	if f.Alternative == nil {
		return false
	}
	target := l.find(f.Alternative.Path)
	if target == nil || !target.knows(f.Alternative.Filter.Field.Name) {
		return false
	}
	target.where = append(slices.Clip(target.where), &f.Alternative.Filter)
	return true
}

// knows reports whether a filter can be on that name.
func (l *level) knows(name string) bool {
	return l.has(name) || l.child(name) != nil || l.showsAggregate(name)
}

// settle replaces filters on names that do not exist by their other reading, in all levels. l is the outermost.
func (l *level) settle(at *level) {
	for i := 0; i < len(at.where); {
		f, ok := at.where[i].(*query.Filter)
		if !ok || f.Alternative == nil || at.knows(f.Field.Name) || !l.readOtherwise(f) {
			i++
			continue
		}
		at.where = slices.Delete(slices.Clone(at.where), i, i+1)
	}
	for _, e := range at.embeds {
		l.settle(&e.level)
	}
}
