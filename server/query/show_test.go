package query_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/boughdb/bough/server/query"
)

// show writes a request in a form that tables of tests can hold: every part that is set, in a fixed order, with values
// in quotes and alternatives after a bar.
func show(r *query.Request) string {
	var parts []string
	if r.Select != nil {
		parts = append(parts, "select="+showItems(r.Select))
	}
	parts = append(parts, showModifiers("", r.Where, r.Order, r.Limit, r.Offset)...)
	if r.Columns != nil {
		parts = append(parts, fmt.Sprintf("columns=%q", r.Columns))
	}
	if r.OnConflict != nil {
		parts = append(parts, fmt.Sprintf("on_conflict=%q", r.OnConflict))
	}
	if r.Cursor != nil {
		parts = append(parts, fmt.Sprintf("@cursor=%q", *r.Cursor))
	}
	if r.Distinct != nil {
		var on []string
		for _, f := range r.Distinct.On {
			on = append(on, showField(f))
		}
		parts = append(parts, "@distinct="+strings.Join(on, ","))
	}
	if r.All {
		parts = append(parts, "@all")
	}
	var keys []string
	for key := range r.Embeds {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		m := r.Embeds[key]
		parts = append(parts, showModifiers("["+strings.Join(m.Path, "/")+"] ", m.Where, m.Order, m.Limit, m.Offset)...)
	}
	for _, a := range r.Args {
		parts = append(parts, fmt.Sprintf("arg %s=%q", a.Name, a.Value))
	}
	return strings.Join(parts, "; ")
}

func showModifiers(prefix string, where []query.Cond, order []query.Order, limit, offset *int64) []string {
	var parts []string
	for _, c := range where {
		parts = append(parts, prefix+showCond(c))
	}
	if order != nil {
		parts = append(parts, prefix+"order="+showOrder(order))
	}
	if limit != nil {
		parts = append(parts, fmt.Sprintf("%slimit=%d", prefix, *limit))
	}
	if offset != nil {
		parts = append(parts, fmt.Sprintf("%soffset=%d", prefix, *offset))
	}
	return parts
}

func showCond(c query.Cond) string {
	switch c := c.(type) {
	case *query.Filter:
		return showFilter(c)
	case *query.Logic:
		var conds []string
		for _, c := range c.Conds {
			conds = append(conds, showCond(c))
		}
		word := "and"
		if c.Or {
			word = "or"
		}
		return not(c.Not) + word + "(" + strings.Join(conds, ", ") + ")"
	}
	return fmt.Sprintf("%T", c)
}

func not(yes bool) string {
	if yes {
		return "not "
	}
	return ""
}

func showFilter(f *query.Filter) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s %s", not(f.Not), showField(f.Field), f.Op)
	b.WriteString([]string{"", "(any)", "(all)"}[f.Quant])
	if f.Config != "" {
		fmt.Fprintf(&b, "(%s)", f.Config)
	}
	switch {
	case f.OtherColumn:
		b.WriteString(" column")
		fallthrough
	case f.List == nil:
		fmt.Fprintf(&b, " %q", f.Value)
	default:
		fmt.Fprintf(&b, " %q", f.List)
	}
	if a := f.Alternative; a != nil {
		fmt.Fprintf(&b, " | [%s] %s", strings.Join(a.Path, "/"), showFilter(&a.Filter))
	}
	return b.String()
}

func showField(f query.Field) string {
	name := f.Name
	for _, s := range f.Path {
		arrow := "->"
		if s.Text {
			arrow = "->>"
		}
		if s.IsIndex {
			name += fmt.Sprintf("%s%d", arrow, s.Index)
		} else {
			name += fmt.Sprintf("%s%q", arrow, s.Key)
		}
	}
	return name
}

func showOrder(order []query.Order) string {
	var terms []string
	for _, o := range order {
		term := showField(o.Field)
		if o.Embed != "" {
			term = o.Embed + "(" + term + ")"
		}
		if o.Desc {
			term += " desc"
		}
		terms = append(terms, term+[]string{"", " nullsfirst", " nullslast"}[o.Nulls])
	}
	return strings.Join(terms, ", ")
}

func showItems(items []query.Item) string {
	var texts []string
	for _, it := range items {
		text := ""
		if it.Alias != "" {
			text = it.Alias + ": "
		}
		switch it.Kind {
		case query.Star:
			text += "*"
		case query.Column:
			text += showField(it.Field) + cast(it.Cast)
		case query.Aggregate:
			text += it.Func + "(" + showField(it.Field) + cast(it.Cast) + ")" + cast(it.FuncCast)
		case query.Embed:
			if it.Spread {
				text += "..."
			}
			text += "embed " + it.Target
			if it.Hint != "" {
				text += " by " + it.Hint
			}
			text += []string{"", " inner", " left"}[it.Join] + " {" + showItems(it.Select) + "}"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

func cast(t string) string {
	if t == "" {
		return ""
	}
	return " as " + t
}
