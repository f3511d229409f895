package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/boughdb/bough/server/introspect"
)

// link writes the junction's rows between a node's rows and their parents.
func (w *nestedWriter) link(n *nestedNode) {
	var b builder
	b.writeAll("j", strconv.Itoa(n.number), " as (insert into ")
	b.name(n.via.Junction.Schema, n.via.Junction.Name)
	b.write(" (")
	list := ""
	for i, pair := range n.via.Columns {
		b.comma(i)
		b.ident(pair.To)
		list += "p." + valueName(n.parent.rel.Column(pair.From)) + ", "
	}
	for _, pair := range n.via.JunctionColumns {
		b.write(", ")
		b.ident(pair.From)
		list += "n." + valueName(n.rel.Column(pair.To)) + ", "
	}
	b.writeAll(") select ", strings.TrimSuffix(list, ", "), " from ", n.source(), " as n join ", n.parent.source(),
		" as p on p.ord = n.po order by n.ord")
	if w.mode != NestedInsert {
		b.write(" on conflict do nothing")
	}
	b.write(")")
	w.ctes = append(w.ctes, string(b.sql))
}

// deleteOthers deletes rows that belong to the root and are not among the node's; with a junction, the links to them.
func (w *nestedWriter) deleteOthers(n *nestedNode) {
	var b builder
	b.writeAll("d", strconv.Itoa(n.number), " as (delete from ")
	target := n.rel
	if n.via.Junction != nil {
		target = n.via.Junction
	}
	b.name(target.Schema, target.Name)
	b.writeAll(" as t using ", n.parent.source(), " as p where ")
	for i, pair := range n.via.Columns {
		if i > 0 {
			b.write(" and ")
		}
		b.writeAll("t.", quote(pair.To), " = p.", valueName(n.parent.rel.Column(pair.From)))
	}
	var kept []string
	if n.via.Junction != nil {
		for _, pair := range n.via.JunctionColumns {
			kept = append(kept, "n."+valueName(n.rel.Column(pair.To))+" = t."+quote(pair.From))
		}
	} else {
		for _, key := range n.rel.PrimaryKey {
			related := slices.ContainsFunc(n.via.Columns, func(p introspect.ColumnPair) bool { return p.To == key.Name })
			if !related && !slices.Contains(n.columns, key) {
				kept = nil // no object can mean a row that is there
				break
			}
			kept = append(kept, "n."+valueName(key)+" = t."+quote(key.Name))
		}
	}
	if kept != nil {
		b.writeAll(" and not exists (select from ", n.source(), " as n where ", strings.Join(kept, " and "), ")")
	}
	b.write(")")
	w.ctes = append(w.ctes, string(b.sql))
}
