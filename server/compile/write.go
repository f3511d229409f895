package compile

import "strconv"

// mode is how a level's outputs are written.
type mode byte

const (
	// rowMode is for the statement's result: text where its JSON is known, else JSON; without names.
	rowMode mode = iota
	// recordMode names the values by the keys of the object that the row becomes.
	recordMode
	// columnMode names the values c1 … cn.
	columnMode
)

// write writes the level's SELECT. It must be resolved.
func (l *level) write(m mode) {
	b := l.c.b
	b.write("select ")
	l.writeDistinct()
	l.writeOutputs(m)
	if !l.early {
		b.write(" from ")
		l.writeFrom()
		l.writeJoins()
		l.writeWhere(true)
		l.writeGroups()
		l.writeHaving()
		l.writeOrder()
		l.writeBounds()
		return
	}
	b.write(" from (select ")
	start := len(b.sql)
	l.outside = false
	b.write(" from ")
	l.writeFrom()
	l.writeWhere(false)
	l.writeOrder()
	l.writeBounds()
	l.outside = true
	b.writeAll(") ", l.alias)
	l.writeJoins()
	// A join need not keep the order of the rows.
	l.writeOrder()
	l.insertUsed(start)
}

// insertUsed writes the select list of the early subquery, when it is known what the rest uses.
func (l *level) insertUsed(at int) {
	b := l.c.b
	rest := string(b.sql[at:])
	b.sql = b.sql[:at]
	for i, name := range l.used {
		if i > 0 {
			b.write(", ")
		}
		b.writeAll(l.alias, ".", quote(name))
	}
	if l.wholeRow {
		if len(l.used) > 0 {
			b.write(", ")
		}
		b.writeAll(l.castRow(), " as bough_row")
	}
	b.write(rest)
}

func (l *level) writeOutputs(m mode) {
	b := l.c.b
	for i := range l.outputs {
		o := &l.outputs[i]
		if i > 0 {
			b.write(", ")
		}
		switch m {
		case rowMode:
			b.write(o.text())
		case recordMode:
			b.writeAll(o.sql, " as ")
			b.ident(o.name)
		case columnMode:
			b.writeAll(o.sql, " as c", strconv.Itoa(i+1))
		}
	}
	for i, extra := range l.extras {
		if i > 0 || len(l.outputs) > 0 {
			b.write(", ")
		}
		b.writeAll(extra, " as o", strconv.Itoa(i+1))
	}
}

// text is the value as it is sent.
func (v value) text() string {
	if v.wrap {
		return "to_json(" + v.sql + ")"
	}
	return v.sql
}

func (l *level) writeFrom() {
	b := l.c.b
	switch {
	case l.embed != nil:
		l.embed.writeRelated()
	case l.source == nil:
		b.name(l.rel.Schema, l.rel.Name)
		b.writeAll(" ", l.alias)
	default:
		b.writeAll(l.source.From, " ", l.alias)
		if l.rel == nil && len(l.attributes) > 0 {
			// A function's result is named after the alias otherwise when it is a scalar.
			b.write("(")
			for i, a := range l.attributes {
				if i > 0 {
					b.write(", ")
				}
				b.ident(a.Name)
			}
			b.write(")")
		}
	}
}

func (l *level) writeJoins() {
	for _, e := range l.embeds {
		e.writeJoin()
	}
}

// writeWhere writes the level's filters. joined tells that the joins are written as well, some of which are filters.
func (l *level) writeWhere(joined bool) {
	b := l.c.b
	first := true
	and := func() {
		if first {
			b.write(" where ")
		} else {
			b.write(" and ")
		}
		first = false
	}
	if l.embed != nil {
		l.embed.writeLink(and)
	}
	for _, c := range l.where {
		switch {
		case !l.ofGroups(c):
			and()
			l.writeCond(c)
		case l.lifted:
			b.fail(errOperator.Msgf("The aggregates of '%s' are the parent's, because it is spread: filter by their names alone.",
				l.embed.item.Target))
		}
	}
	for _, e := range l.embeds {
		if e.inner() && (!joined || !e.joinsInner()) {
			and()
			e.writeExists()
		}
	}
}

// writeBounds writes LIMIT and OFFSET.
func (l *level) writeBounds() {
	b := l.c.b
	limit := l.limit
	if l.maxRows > 0 && (limit == nil || *limit > l.maxRows) {
		limit = &l.maxRows
	}
	if l.embed != nil && l.embed.unbounded() && (limit == nil || *limit > 1) {
		one := int64(1)
		limit = &one
	}
	if limit != nil {
		b.write(" limit ")
		b.limit(*limit)
	}
	if l.offset != nil && *l.offset > 0 {
		b.write(" offset ")
		b.value(strconv.FormatInt(*l.offset, 10))
	}
}

func (l *level) writeDistinct() {
	if l.distinct == nil {
		return
	}
	b := l.c.b
	b.write("distinct ")
	if len(l.distinct.On) == 0 {
		return
	}
	b.write("on (")
	for i, f := range l.distinct.On {
		if i > 0 {
			b.write(", ")
		}
		b.write(l.orderable(f).sql)
	}
	b.write(") ")
}

// child finds an embed by its name in the request: the alias, or else what was written as its target.
func (l *level) child(name string) *embed {
	for _, e := range l.embeds {
		if e.item.Alias == name {
			return e
		}
	}
	for _, e := range l.embeds {
		if e.item.Target == name {
			return e
		}
	}
	return nil
}
