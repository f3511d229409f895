package pgcopy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgcopy/inventory"
)

// addr is an object's address in the catalog: the catalog's table and the row.
type addr struct{ class, id uint32 }

// The catalog's tables whose objects are told apart by the code; their numbers
// are the same on every server.
const (
	classType       = 1247
	classRelation   = 1259
	classConstraint = 2606
	classNamespace  = 2615
	classExtension  = 3079
)

// stage is the earliest part of a copy in which an object can be created.
type stage int

const (
	stageSchema   stage = iota // before the rows
	stageIndexes               // after the rows: indexes, keys
	stageLinks                 // what needs indexes to be there
	stageForeign               // foreign keys
	stageRules                 // what acts on statements: triggers, rules, policies
	stageRefresh               // materialised views
	stageTriggers              // event triggers
)

// item is an object and the way to create it.
type item struct {
	addr
	kind, identity string
	owner          string   // "" if it has none of its own
	ownedBy        string   // the statement that makes it so
	of             addr     // of privileges: the object
	create         []string // statements that create it
	after          []string // its owner, comment and privileges
	draft          []string // of a view: creates one with the same columns, see breakCycle
	stage          stage
	tables         []uint32 // relations that creating it locks
	shared         bool     // the lock lets others do the same
	unsupported    bool     // only described, in create

	needs []*item // objects that must be created first
	shape []*item // those of them that a draft needs
}

func (it *item) String() string { return it.kind + " " + it.identity }

// statements returns what creates the object, completely.
func (it *item) statements() []string { return slices.Concat(it.create, it.after) }

// catalog is everything in a database, as far as it is the user's.
type catalog struct {
	items   []*item
	at      map[addr]*item // by own address
	part    map[addr]addr  // things made with another object: row types, a key's index
	members map[addr]addr  // extension by member
	views   []matview
	leftOut []inventory.Address // what the caller wants to do without
}

// reader fills a catalog.
type reader struct {
	ctx   context.Context
	conn  *pgx.Conn
	owner string // of everything, whoever owns it; "" tells the real owners
	*catalog
}

// readCatalog reads the whole catalog. The settings of scratchSettings are in
// force on conn. owner, if not empty, stands for the owners of everything.
func readCatalog(ctx context.Context, conn *pgx.Conn, owner string) (*catalog, error) {
	r := reader{ctx, conn, owner, &catalog{at: map[addr]*item{}, part: map[addr]addr{}, members: map[addr]addr{}}}
	for _, read := range []func() error{
		r.readParts,
		r.readSchemas, r.readTypes, r.readRoutines, r.readOperators, r.readTextSearch, r.readForeign,
		r.readSequences, r.readTables, r.readViews, r.readOwnedSequences,
		r.readConstraints, r.readIndexes, r.readRules, r.readPublications, r.readTriggers,
		r.readUnsupported, r.readDefaultPrivileges,
		r.readOwners, r.readComments, r.readPrivileges, r.readExtensionLinks,
		r.readDependencies,
	} {
		if err := read(); err != nil {
			return nil, fmt.Errorf("reading the catalog: %w", err)
		}
	}
	slices.SortFunc(r.items, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.identity, b.identity))
	})
	return r.catalog, nil
}

// add adds an object.
func (r *reader) add(it *item) *item {
	r.items = append(r.items, it)
	if it.addr != (addr{}) {
		r.at[it.addr] = it
	}
	return it
}

// query adds an object for each row that a query yields: the catalog's table,
// the row's oid, and any number of statements (null means none). more, if not
// nil, completes it.
func (r *reader) query(st stage, sql string, more func(*item)) error {
	rows, err := r.conn.Query(r.ctx, `
		select q.class::oid, q.id, i.type, i.identity, array_remove(q.statements, null)
		from (`+sql+`) as q (class, id, statements), pg_identify_object(q.class, q.id, 0) i`)
	if err != nil {
		return err
	}
	it := &item{}
	_, err = pgx.ForEachRow(rows, []any{&it.class, &it.id, &it.kind, &it.identity, &it.create}, func() error {
		added := r.add(&item{addr: it.addr, kind: it.kind, identity: it.identity, create: it.create, stage: st})
		it.create = nil
		if more != nil {
			more(added)
		}
		return nil
	})
	return err
}

// pairs calls f with each row of a query of two addresses.
func (r *reader) pairs(sql string, f func(a, b addr)) error {
	rows, err := r.conn.Query(r.ctx, sql)
	if err != nil {
		return err
	}
	var a, b addr
	_, err = pgx.ForEachRow(rows, []any{&a.class, &a.id, &b.class, &b.id}, func() error {
		f(a, b)
		return nil
	})
	return err
}

// find returns the object that an address belongs to, if it is the user's.
func (c *catalog) find(a addr) *item {
	for range 5 {
		if it := c.at[a]; it != nil {
			return it
		}
		whole, ok := c.part[a]
		if !ok {
			return nil
		}
		a = whole
	}
	return nil
}

// provider is find for dependencies: an extension stands for its members.
func (c *catalog) provider(a addr) *item {
	for range 5 {
		if it := c.at[a]; it != nil {
			return it
		}
		if ext, ok := c.members[a]; ok {
			return c.at[ext]
		}
		whole, ok := c.part[a]
		if !ok {
			return nil
		}
		a = whole
	}
	return nil
}

// own is a condition on a row of a catalog's table: it is neither initdb's nor
// an extension's.
func own(class, alias string) string {
	return strings.NewReplacer("CLASS", class, "X", alias).Replace(
		`(X.oid >= 16384 and not exists (select from pg_depend e where e.classid = 'CLASS'::regclass and e.objid = X.oid and e.deptype = 'e'))`)
}

// lasting is a condition on a namespace: it is not a session's.
func lasting(namespace string) string {
	return namespace + ` not in (select oid from pg_namespace where nspname ~ '^pg_(temp|toast)')`
}

// readParts reads which things come with others.
func (r *reader) readParts() error {
	err := r.pairs(`
		select 'pg_type'::regclass::oid, t.typarray, 'pg_type'::regclass::oid, t.oid from pg_type t
		where t.typarray <> 0 and t.oid >= 16384
		union all
		select 'pg_class'::regclass, c.oid, 'pg_type'::regclass, c.reltype from pg_class c
		where c.relkind = 'c' and c.oid >= 16384
		union all
		select 'pg_type'::regclass, c.reltype, 'pg_class'::regclass, c.oid from pg_class c
		where c.relkind <> 'c' and c.reltype <> 0 and c.oid >= 16384
		union all
		select 'pg_type'::regclass, g.rngmultitypid, 'pg_type'::regclass, g.rngtypid from pg_range g
		where g.rngtypid >= 16384
		union all
		-- a range's constructors, an identity column's sequence, a view's rule, a key's index
		select d.classid, d.objid, d.refclassid, d.refobjid from pg_depend d
		where d.deptype = 'i' and d.objid >= 16384 and d.classid in ('pg_proc'::regclass, 'pg_cast'::regclass, 'pg_class'::regclass, 'pg_rewrite'::regclass)
			and d.refclassid in ('pg_type'::regclass, 'pg_class'::regclass, 'pg_constraint'::regclass)
		union all
		-- a column's default
		select 'pg_attrdef'::regclass, d.oid, 'pg_class'::regclass, d.adrelid from pg_attrdef d
		where d.adrelid >= 16384
		union all
		select 'pg_constraint'::regclass, c.oid, case when c.conrelid <> 0 then 'pg_class'::regclass else 'pg_type'::regclass end, greatest(c.conrelid, c.contypid)
		from pg_constraint c where c.oid >= 16384 and c.contype in ('c', 'n')
		union all
		select 'pg_constraint'::regclass, t.tgconstraint, 'pg_trigger'::regclass, t.oid from pg_trigger t
		join pg_constraint c on c.oid = t.tgconstraint and c.contype = 't'
		union all
		select 'pg_publication_rel'::regclass, p.oid, 'pg_publication'::regclass, p.prpubid from pg_publication_rel p
		union all
		select 'pg_publication_namespace'::regclass, p.oid, 'pg_publication'::regclass, p.pnpubid from pg_publication_namespace p`,
		func(a, b addr) { r.part[a] = b })
	if err != nil {
		return err
	}
	return r.pairs(`
		select d.classid, d.objid, d.refclassid, d.refobjid from pg_depend d
		where d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass`,
		func(a, b addr) { r.members[a] = b })
}

// readSchemas reads schemas and extensions.
func (r *reader) readSchemas() error {
	// The schema public is in every new database, with the number 2200.
	err := r.query(stageSchema, `
		select 'pg_namespace'::regclass, n.oid,
			array[format('create schema %s%I', case when n.nspname = 'public' then 'if not exists ' end, n.nspname)]
		from pg_namespace n
		where (n.nspname = 'public' or n.oid = 2200 or `+own("pg_namespace", "n")+`) and n.nspname !~ '^pg_(temp|toast)'`, nil)
	if err != nil {
		return err
	}
	return r.query(stageSchema, `
		select 'pg_extension'::regclass, e.oid,
			array[format('create extension if not exists %I with schema %I version %L', e.extname, n.nspname, e.extversion)]
		from pg_extension e join pg_namespace n on n.oid = e.extnamespace`, nil)
}
