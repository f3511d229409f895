// Package inventory compares what two databases of one server hold, by the rows
// of their catalogs. The catalogs themselves say how: pg_attribute has their
// columns, the unique indexes the names by which a row is known, and
// pg_get_catalog_foreign_keys which numbers stand for which rows. Numbers that
// differ between databases are replaced by such names, so that nothing depends
// on a list of the kinds of objects there are.
//
// Expressions are not compared, only whether there is one: PostgreSQL's own text
// of an expression changes when it is read again.
package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Inventory is what the catalogs of a database say.
type Inventory struct {
	catalogs map[string]*catalog
	byOID    map[string]*catalog
	shared   map[string]map[string]string // names of roles and tablespaces, by catalog and oid
	members  map[object]bool              // objects that belong to an extension
	owner    string                       // of everything that is the user's, "" for whoever owns it
	granted  bool                         // privileges on what is the system's or an extension's are compared
	all      bool
	named    bool
}

// Address is the catalog and the row of an object.
type Address struct{ Class, ID uint32 }

// object is an address as the catalogs' text has it.
type object struct{ class, id string }

// catalog is a table of the system's.
type catalog struct {
	name, oid string
	columns   []column // without those that are not compared
	key       []string // columns that name a row
	hasOID    bool

	rows  []*row
	index map[string]*row // by oid, or by the first column of the key
}

// column is a column as it is compared.
type column struct {
	name, sql string // sql yields text
	ref       string // catalog whose rows the numbers stand for, "" if they are plain
	relation  string // column with the relation that the number of a column, if it is one, belongs to
	set       bool   // the order of several does not matter
	acl       bool
}

// row is a row of a catalog. A value that is null is missing.
type row struct {
	oid    string
	values map[string]string // by column: those that names are made of or that hold numbers
	plain  []string          // name and value of all others
	key    string
	state  state
}

// state is what is known of a row's name.
type state int

const (
	unknown state = iota
	compared
	privilegesOnly // an object of the system or of an extension: only who may use it is compared
	ignored        // of another session, or something that copies leave out
)

// number is the column that numbers of columns refer to.
const number = "number"

// missing stands for null.
const missing = "\x02"

// Read reads the inventory of the current database. Without all, it leaves out
// what is the system's or an extension's but for changed privileges, and what
// follows from the rest: dependencies, the triggers of foreign keys.
//
// It sees what the transaction sees. User mappings and subscriptions are never
// part of it, nor are statistics.
func Read(ctx context.Context, conn *pgx.Conn, all bool) (*Inventory, error) {
	return read(ctx, conn, all, "", true)
}

// ReadOwned is Read without all, for a comparison of which everything in the
// copy is to belong to one role: in the inventory of the source it stands for
// the owners of objects, as owners and in privileges. Privileges of objects yet
// to be made are those that are the role's. An owner of "" changes nothing.
// Without granted, who may use what is the system's or an extension's is not
// compared.
func ReadOwned(ctx context.Context, conn *pgx.Conn, owner string, granted bool) (*Inventory, error) {
	return read(ctx, conn, false, owner, granted)
}

func read(ctx context.Context, conn *pgx.Conn, all bool, owner string, granted bool) (*Inventory, error) {
	inv := &Inventory{owner: owner, granted: granted, catalogs: map[string]*catalog{}, byOID: map[string]*catalog{}, shared: map[string]map[string]string{}, members: map[object]bool{}, all: all}
	if err := inv.describe(ctx, conn); err != nil {
		return nil, fmt.Errorf("reading the inventory: %w", err)
	}
	for _, name := range inv.names() {
		c := inv.catalogs[name]
		if err := c.read(ctx, conn, all, owner); err != nil {
			return nil, fmt.Errorf("reading the inventory: %s: %w", name, err)
		}
	}
	for _, table := range []string{"pg_authid", "pg_tablespace"} {
		rows, err := conn.Query(ctx, map[string]string{
			"pg_authid":     "select oid::text, rolname::text from pg_catalog.pg_roles",
			"pg_tablespace": "select oid::text, spcname::text from pg_catalog.pg_tablespace",
		}[table])
		if err != nil {
			return nil, err
		}
		names := map[string]string{}
		var oid, name string
		if _, err := pgx.ForEachRow(rows, []any{&oid, &name}, func() error { names[oid] = name; return nil }); err != nil {
			return nil, err
		}
		inv.shared[table] = names
	}
	return inv, nil
}

func (inv *Inventory) names() []string {
	var names []string
	for name := range inv.catalogs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// left are catalogs that are not compared: statistics, rows of large objects,
// and what acts on other servers.
var left = []string{
	"pg_statistic", "pg_statistic_ext_data", "pg_largeobject", "pg_user_mapping", "pg_subscription_rel",
}

// onlyAll are those that are compared only with all.
var onlyAll = []string{"pg_init_privs", "pg_largeobject_metadata"}

// describe reads how the catalogs are made.
func (inv *Inventory) describe(ctx context.Context, conn *pgx.Conn) error {
	skip := left
	if !inv.all {
		skip = slices.Concat(left, onlyAll)
	}
	rows, err := conn.Query(ctx, `
		select c.relname::text, c.oid::text, a.attname::text, format_type(a.atttypid, null),
			coalesce(f.pktable::regclass::oid::text, ''), coalesce(f.pkname, ''), coalesce(f.relation, '')
		from pg_catalog.pg_class c
		join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0
		left join lateral (
			-- a column may stand for a row, or with a relation for one of its columns
			select k.pktable, p.relname::text as pkname, case when cardinality(k.fkcols) = 2 then k.fkcols[1] end as relation
			from pg_catalog.pg_get_catalog_foreign_keys() k
			join pg_catalog.pg_class p on p.oid = k.pktable
			where k.fktable = c.oid and k.fkcols[cardinality(k.fkcols)] = a.attname
			limit 1
		) f on true
		where c.relnamespace = 'pg_catalog'::regnamespace and c.relkind = 'r' and not c.relisshared and c.relname <> all ($1)
		order by c.relname, a.attnum`, skip)
	if err != nil {
		return err
	}
	var name, oid, attribute, kind, refOID, ref, relation string
	_, err = pgx.ForEachRow(rows, []any{&name, &oid, &attribute, &kind, &refOID, &ref, &relation}, func() error {
		c := inv.catalogs[name]
		if c == nil {
			c = &catalog{name: name, oid: oid, index: map[string]*row{}}
			inv.catalogs[name], inv.byOID[oid] = c, c
		}
		if attribute == "oid" {
			c.hasOID = true
			return nil
		}
		if col, ok := newColumn(name, attribute, kind, ref, relation, inv.owner); ok {
			c.columns = append(c.columns, col)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// The first unique index by name that is not over the oid.
	rows, err = conn.Query(ctx, `
		select distinct on (t.relname) t.relname::text,
			(select array_agg(a.attname::text order by k.n) from unnest(i.indkey::int2[]) with ordinality k (attnum, n)
			join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attnum = k.attnum)
		from pg_catalog.pg_index i
		join pg_catalog.pg_class t on t.oid = i.indrelid
		join pg_catalog.pg_class x on x.oid = i.indexrelid
		where i.indisunique and t.relnamespace = 'pg_catalog'::regnamespace
			and not exists (select from unnest(i.indkey::int2[]) k (attnum)
				join pg_catalog.pg_attribute a on a.attrelid = t.oid and a.attnum = k.attnum and a.attname = 'oid')
		order by t.relname, x.relname`)
	if err != nil {
		return err
	}
	var key []string
	_, err = pgx.ForEachRow(rows, []any{&name, &key}, func() error {
		if c := inv.catalogs[name]; c != nil {
			c.key = key
		}
		key = nil
		return nil
	})
	for name, key := range keys {
		if c := inv.catalogs[name]; c != nil {
			c.key = key
		}
	}
	return err
}

// read reads the rows of a catalog.
func (c *catalog) read(ctx context.Context, conn *pgx.Conn, all bool, owner string) error {
	var named, plain []column
	if c.name == "pg_attribute" {
		named = append(named, column{name: number, sql: "x.attnum::text"})
	}
	for _, col := range c.columns {
		if col.ref != "" || slices.Contains(c.key, col.name) || slices.Contains(names[c.name], col.name) {
			named = append(named, col)
		} else {
			plain = append(plain, col)
		}
	}
	oid := "''"
	if c.hasOID {
		oid = "x.oid::text"
	}
	list := []string{oid}
	for _, col := range named {
		list = append(list, "coalesce("+col.sql+", E'\\x02')")
	}
	for _, col := range plain {
		list = append(list, "coalesce("+col.sql+", E'\\x02')")
	}
	where := "true"
	if w, ok := always[c.name]; ok {
		where = w
	}
	if w := c.users(); !all && w != "" {
		where += " and (" + w + ")"
	}
	if owner != "" && c.name == "pg_default_acl" {
		where += " and pg_catalog.pg_get_userbyid(x.defaclrole) = " + quoted(owner)
	}
	// One value for all that is plain: there are many rows.
	statement := "select " + strings.Join(list[:1+len(named)], ", ")
	if len(plain) > 0 {
		statement += ", concat_ws(E'\\x01', " + strings.Join(list[1+len(named):], ", ") + ")"
	} else {
		statement += ", ''"
	}
	rows, err := conn.Query(ctx, statement+" from pg_catalog."+c.name+" x where "+where)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		raw := rows.RawValues()
		r := &row{oid: string(raw[0]), values: make(map[string]string, len(named))}
		for i, col := range named {
			r.values[col.name] = string(raw[1+i])
		}
		r.plain = []string{string(raw[len(raw)-1])}
		c.rows = append(c.rows, r)
		switch {
		case c.hasOID:
			c.index[r.oid] = r
		case c.name == "pg_attribute":
			c.index[r.values["attrelid"]+"."+r.values[number]] = r
		case len(c.key) == 1:
			c.index[r.values[c.key[0]]] = r
		}
	}
	c.columns = slices.Concat(named, plain)
	return rows.Err()
}

// users is a condition for the rows that are the user's, or may have been
// changed by them.
func (c *catalog) users() string {
	if w, ok := users[c.name]; ok {
		return w
	}
	id := "x.oid"
	if !c.hasOID {
		id = "x." + c.key[0]
	}
	where := id + " >= 16384"
	if c.hasOID {
		where += " or x.oid in (select objid from pg_catalog.pg_depend where deptype = 'e' and classid = " + c.oid + ")"
	}
	for _, col := range c.columns {
		if col.acl {
			where += " or x." + col.name + " is not null"
		}
	}
	return where
}
