package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference is one between a source and its copy.
type Difference struct {
	Catalog, Name string // of the row
	Column        string // "" if one of the two has no such row
	Source, Copy  string // values of the column, or how many such rows there are
}

func (d Difference) String() string {
	what := d.Catalog + " " + d.Name
	switch {
	case d.Column != "":
		return fmt.Sprintf("%s: %s is %s instead of %s", what, d.Column, shown(d.Copy), shown(d.Source))
	case d.Source > d.Copy:
		return what + " is missing"
	}
	return what + " is not in the source"
}

func shown(v string) string {
	if v == missing {
		return "null"
	}
	if len(v) > 100 {
		return fmt.Sprintf("%.97q…", v)
	}
	return fmt.Sprintf("%q", v)
}

// Compare returns the differences of a copy from its source, ordered by catalog
// and name. leaveOut are objects of the source that the copy is to be without.
func Compare(source, target *Inventory, leaveOut ...Address) []Difference {
	var list []Difference
	source.name(leaveOut)
	target.name(nil)
	for _, name := range source.names() {
		a, b := source.catalogs[name], target.catalogs[name]
		if b == nil {
			continue // both are of one server
		}
		want, got := a.byName(source.granted), b.byName(source.granted)
		for _, key := range slices.Sorted(maps.Keys(want)) {
			list = append(list, compareRows(source, target, a, b, key, want[key], got[key])...)
		}
		for _, key := range slices.Sorted(maps.Keys(got)) {
			if len(want[key]) == 0 {
				list = append(list, Difference{name, key, "", "0", fmt.Sprint(len(got[key]))})
			}
		}
	}
	return list
}

// byName returns the rows that are compared by their names; granted tells
// whether those are of which only privileges are.
func (c *catalog) byName(granted bool) map[string][]*row {
	m := make(map[string][]*row, len(c.rows))
	for _, r := range c.rows {
		if r.state == compared || granted && r.state == privilegesOnly {
			m[r.key] = append(m[r.key], r)
		}
	}
	return m
}

func compareRows(source, target *Inventory, a, b *catalog, key string, want, got []*row) []Difference {
	if len(want) != len(got) {
		return []Difference{{a.name, key, "", fmt.Sprint(len(want)), fmt.Sprint(len(got))}}
	}
	if len(want) > 1 {
		for _, list := range [][]*row{want, got} {
			slices.SortFunc(list, func(x, y *row) int { return cmp.Compare(x.plain[0], y.plain[0]) })
		}
	}
	var list []Difference
	for i := range want {
		wantPlain, gotPlain := strings.Split(want[i].plain[0], "\x01"), strings.Split(got[i].plain[0], "\x01")
		plain := 0
		for j, col := range a.columns {
			var x, y string
			if j < len(a.columns)-len(wantPlain) {
				x, y = source.value(a, want[i], col), target.value(b, got[i], col)
			} else {
				x, y = wantPlain[plain], gotPlain[plain]
				plain++
			}
			if source.owner != "" && col.ref == "pg_authid" && strings.HasSuffix(col.name, "owner") && usersOwn(a, want[i]) {
				x = source.owner
			}
			switch {
			case x == y, col.name == number:
			case source.owner != "" && col.name == "typowner" && source.withExtension(a, want[i]):
			case !col.acl && (want[i].state == privilegesOnly || got[i].state == privilegesOnly):
			default:
				list = append(list, Difference{a.name, key, col.name, x, y})
			}
		}
	}
	return list
}

// usersOwn reports whether a row is of an object that has got its owner after
// initdb.
func usersOwn(c *catalog, r *row) bool {
	return !isSystem(r.oid) || c.name == "pg_namespace" && r.oid == "2200" // public
}

// withExtension reports whether a type comes with a type or a table of an
// extension without being a member itself, as arrays before PostgreSQL 18. Who
// creates the extension owns it.
func (inv *Inventory) withExtension(types *catalog, r *row) bool {
	if isArray(r) {
		element := types.index[r.values["typelem"]]
		return element != nil && (element.state == privilegesOnly || inv.withExtension(types, element))
	}
	return slices.ContainsFunc(inv.catalogs["pg_class"].rows, func(table *row) bool {
		return table.key == r.key && table.state == privilegesOnly
	})
}

// value returns the value of a column that may hold numbers of rows, with these
// replaced by names.
func (inv *Inventory) value(c *catalog, r *row, col column) string {
	v := r.values[col.name]
	switch {
	case v == missing:
		return v
	case slices.Contains(addresses, col.name):
		return "" // part of the name
	case col.ref == "":
		if nameless(c, r, col.name) {
			return ""
		}
		return v
	}
	parts := strings.FieldsFunc(v, func(r rune) bool { return r == ' ' || r == ',' || r == '{' || r == '}' })
	for i, p := range parts {
		if col.relation != "" {
			parts[i] = inv.columnName(r.values[col.relation], p)
		} else {
			parts[i] = inv.rowName(col.ref, p)
		}
	}
	if col.set {
		slices.Sort(parts)
	}
	return strings.Join(parts, ", ")
}

// addresses are the columns with the addresses of objects of any kind.
var addresses = []string{"classid", "objid", "objsubid", "refclassid", "refobjid", "refobjsubid", "classoid", "objoid"}

// nameless reports whether a column is a name that PostgreSQL makes up.
func nameless(c *catalog, r *row, name string) bool {
	switch c.name + "." + name {
	case "pg_type.typname":
		return isArray(r)
	case "pg_trigger.tgname":
		return r.values["tgisinternal"] == "true"
	case "pg_constraint.conname":
		return isChildKey(r)
	}
	return false
}

func isArray(r *row) bool { return r.values["typcategory"] == "A" && r.values["typelem"] != "0" }

// isChildKey reports whether a row is a foreign key that follows from that of a
// partitioned table.
func isChildKey(r *row) bool { return r.values["contype"] == "f" && r.values["conparentid"] != "0" }

// name names all rows but those left out, and what belongs to them.
func (inv *Inventory) name(leaveOut []Address) {
	if inv.named {
		return
	}
	inv.named = true
	if c := inv.catalogs["pg_depend"]; c != nil {
		for _, r := range c.rows {
			if r.values["deptype"] == "e" {
				inv.members[object{r.values["classid"], r.values["objid"]}] = true
			}
		}
	}
	for _, a := range leaveOut {
		if c := inv.byOID[fmt.Sprint(a.Class)]; c != nil {
			if r := c.index[fmt.Sprint(a.ID)]; r != nil {
				r.state, r.key = ignored, "left out"
			}
		}
	}
	// An index that a failed CREATE INDEX CONCURRENTLY has left is not copied.
	for _, r := range inv.catalogs["pg_index"].rows {
		if x := inv.catalogs["pg_class"].index[r.values["indexrelid"]]; x != nil && x.values["relkind"] == "i" && r.values["indisvalid"] != "true" {
			x.state, x.key = ignored, "invalid index"
		}
	}
	for _, c := range inv.catalogs {
		for _, r := range c.rows {
			inv.nameRow(c, r)
		}
	}
}

// nameRow gives a row its name and state.
func (inv *Inventory) nameRow(c *catalog, r *row) {
	if r.state != unknown {
		return
	}
	r.state = compared
	if !inv.all && c.hasOID && c.name != "pg_namespace" && c.name != "pg_extension" &&
		(isSystem(r.oid) || inv.members[object{c.oid, r.oid}]) {
		r.state = privilegesOnly
	}
	var parts []string
	part := func(col string) {
		v := r.values[col]
		i := slices.IndexFunc(c.columns, func(k column) bool { return k.name == col })
		if i < 0 || c.columns[i].ref == "" {
			parts = append(parts, v)
			return
		}
		for _, oid := range strings.Fields(v) {
			if col := c.columns[i]; col.relation != "" {
				parts = append(parts, inv.columnName(r.values[col.relation], oid))
				continue
			}
			name, state := inv.reference(c.columns[i].ref, oid)
			parts = append(parts, name)
			switch {
			case state == ignored:
				r.state = ignored
			case state == privilegesOnly && (!c.hasOID || partOf[c.name] == c.columns[i].name) && r.state == compared:
				r.state = privilegesOnly
			}
		}
	}
	switch {
	case c.name == "pg_type" && isArray(r):
		part("typelem")
		parts = append(parts, "[]")
	case c.name == "pg_constraint" && isChildKey(r):
		for _, col := range []string{"conparentid", "conrelid", "confrelid"} {
			part(col)
		}
	case c.name == "pg_trigger" && r.values["tgisinternal"] == "true":
		for _, col := range []string{"tgrelid", "tgconstraint", "tgfoid"} {
			part(col)
		}
		if !inv.all {
			r.state = ignored
		}
	default:
		for _, col := range c.key {
			switch col {
			case "objid", "objoid":
				name, state := inv.address(r.values[strings.Replace(strings.Replace(col, "objid", "classid", 1), "objoid", "classoid", 1)], r.values[col], r.values["objsubid"])
				parts = append(parts, name)
				if state == ignored || state == privilegesOnly && r.values["deptype"] != "e" && c.name != "pg_init_privs" {
					r.state = ignored
				}
			case "refobjid":
				name, state := inv.address(r.values["refclassid"], r.values[col], r.values["refobjsubid"])
				parts = append(parts, name)
				if state == ignored {
					r.state = ignored
				}
			case "classoid", "objsubid":
			default:
				part(col)
			}
		}
	}
	if r.values["conindid"] != "" && r.values["conindid"] != "0" {
		if _, state := inv.reference("pg_class", r.values["conindid"]); state == ignored {
			r.state = ignored
		}
	}
	if n := len(parts); n > 1 && n == len(c.key) && parts[1] != "[]" && strings.HasSuffix(c.key[n-1], "namespace") {
		parts = append([]string{parts[n-1] + "." + parts[0]}, parts[1:n-1]...)
	}
	r.key = strings.Join(parts, " ")
	if len(c.key) == 0 {
		r.key = r.oid
	}
}

// isSystem reports whether a number is of an object that initdb has created.
func isSystem(oid string) bool { return len(oid) < 5 || len(oid) == 5 && oid < "16384" }

// partOf are the columns that say which object a row with an oid of its own is
// a part of.
var partOf = map[string]string{
	"pg_constraint": "conrelid", "pg_trigger": "tgrelid", "pg_rewrite": "ev_class", "pg_policy": "polrelid", "pg_attrdef": "adrelid",
	"pg_enum": "enumtypid", "pg_amop": "amopfamily", "pg_amproc": "amprocfamily",
}

// reference returns the name and state of the row that a number stands for.
func (inv *Inventory) reference(table, oid string) (string, state) {
	if oid == "0" {
		return "-", compared
	}
	if names, ok := inv.shared[table]; ok {
		return names[oid], compared
	}
	c := inv.catalogs[table]
	if c == nil {
		return "#" + oid, compared
	}
	r := c.index[oid]
	switch {
	case r != nil:
		inv.nameRow(c, r)
		return r.key, r.state
	case c.name != "pg_namespace" && isSystem(oid):
		// The system's own has one number everywhere.
		return "#" + oid, privilegesOnly
	}
	return "?", ignored
}

func (inv *Inventory) rowName(table, oid string) string {
	name, _ := inv.reference(table, oid)
	return name
}

func (inv *Inventory) columnName(relation, number string) string {
	if number == "0" {
		return "-"
	}
	if r := inv.catalogs["pg_attribute"].index[relation+"."+number]; r != nil {
		return r.values["attname"]
	}
	return "#" + number
}

// address returns the name and state of an object, or of a column.
func (inv *Inventory) address(class, oid, sub string) (string, state) {
	c := inv.byOID[class]
	if c == nil {
		return "#" + oid, ignored // of a catalog that is not compared
	}
	name, state := inv.reference(c.name, oid)
	name = strings.TrimPrefix(c.name, "pg_") + " " + name
	if sub != "0" && sub != "" {
		name += "." + inv.columnName(oid, sub)
	}
	return name, state
}
