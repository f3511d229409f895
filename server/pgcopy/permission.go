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

// Denied is an object that the role cannot create.
type Denied struct {
	Object string // kind and identity, as [Options.LeaveOut] names it
	Reason string // as "is owned by alice, whose member the role is not"
}

// PermissionError says that the source has objects that the role cannot create
// in a copy. Nothing was copied.
type PermissionError struct {
	Role   string
	Denied []Denied
}

func (e *PermissionError) Error() string {
	var list []string
	for i, d := range e.Denied {
		if i == 10 {
			list = append(list, fmt.Sprintf("and %d more", len(e.Denied)-i))
			break
		}
		list = append(list, d.Object+" "+d.Reason)
	}
	return fmt.Sprintf("the role %s cannot create all objects of a copy: %s (copy without them, or as a role that may create them)",
		e.Role, strings.Join(list, ", "))
}

// Check finds out which objects of the source a copy by the role of o.Source
// would fail at, without copying anything. unsupported are those that the
// built-in reader does not know; they are created by pg_dump only.
func Check(ctx context.Context, o Options) (denied []Denied, unsupported []string, err error) {
	c := &copier{Options: o}
	defer c.close()
	conn, err := c.open(connect(ctx, o.Source, map[string]string{"lock_timeout": shortWait}))
	if err != nil {
		return nil, nil, err
	}
	if err := inOrder(ctx, conn, "begin isolation level repeatable read read only"); err != nil {
		return nil, nil, err
	}
	cat, err := c.read(ctx, conn)
	if err != nil {
		return nil, nil, err
	}
	// Privileges of the system's own objects can be told only beside those of a new database.
	cat.items = slices.DeleteFunc(cat.items, func(it *item) bool { return it.kind == "privileges" })
	_, denied, err = c.findDenied(ctx, conn, cat, nil)
	return denied, cat.unsupported(), err
}

// findDenied returns the role that creates and what it cannot create of a
// catalog. existing is what is in every new database.
func (c *copier) findDenied(ctx context.Context, conn *pgx.Conn, cat *catalog, existing map[string][]string) (role string, denied []Denied, err error) {
	var super bool
	var version int
	err = conn.QueryRow(ctx, "select current_user, rolsuper, current_setting('server_version_num')::int from pg_roles where rolname = current_user").
		Scan(&role, &super, &version)
	if c.Owner != "" {
		role, super = c.Owner, false
	}
	if err != nil || super {
		return role, nil, err
	}
	kind := "member"
	if version >= 160000 {
		kind = "set"
	}
	var others []string // roles whose objects the role cannot create
	// With an owner for everything, nothing is theirs in the copy.
	err = conn.QueryRow(ctx, "select coalesce(array_agg(rolname::text), '{}') from pg_roles where $2 = '' and not pg_has_role(current_user, oid, $1)", kind, c.Owner).Scan(&others)
	if err != nil {
		return role, nil, err
	}
	reasons := map[*item]string{}
	rows, err := conn.Query(ctx, `
		select 'pg_extension'::regclass::oid, e.oid, 'can be created by superusers only'
		from pg_extension e
		left join pg_available_extension_versions v on v.name = e.extname and v.version = e.extversion
		where coalesce(v.superuser and not v.trusted, true) and e.extname <> 'plpgsql'
		union all
		select 'pg_proc'::regclass, p.oid, case when l.lanpltrusted then 'is leakproof or has a support function, which only superusers can say'
			else format('is in the language %s, which only superusers can use', l.lanname) end
		from pg_proc p join pg_language l on l.oid = p.prolang
		where not l.lanpltrusted and not exists (select from pg_aggregate where aggfnoid = p.oid) or p.proleakproof or p.prosupport <> 0
		union all
		select 'pg_publication'::regclass, p.oid, 'publishes all tables or a schema, which only superusers can say'
		from pg_publication p where p.puballtables or exists (select from pg_publication_namespace where pnpubid = p.oid)
		union all
		select 'pg_cast'::regclass, c.oid, 'has no function, which only superusers can say' from pg_cast c where c.castmethod = 'b'
		union all
		select 'pg_type'::regclass, t.oid, 'can be created by superusers only' from pg_type t where t.typtype = 'b' and t.typcategory <> 'A'`)
	if err != nil {
		return role, nil, err
	}
	var a addr
	var reason string
	if _, err := pgx.ForEachRow(rows, []any{&a.class, &a.id, &reason}, func() error {
		if it := cat.at[a]; it != nil && !slices.Contains(c.Prepared, it.String()) {
			reasons[it] = reason
		}
		return nil
	}); err != nil {
		return role, nil, err
	}
	for _, it := range cat.items {
		if there, ok := existing[it.String()]; ok && slices.Equal(there, it.statements()) {
			continue
		}
		switch it.kind {
		case "foreign-data wrapper", "operator class", "operator family", "access method", "text search parser", "text search template", "language":
			reasons[it] = "can be created by superusers only"
		case "privileges":
			if c.Grant == nil {
				reasons[it] = "belong to an object of the system or an extension"
			}
		}
		if _, known := reasons[it]; !known && it.kind != "event trigger" && slices.Contains(others, it.owner) && it.String() != "schema public" {
			reasons[it] = fmt.Sprintf("is owned by %s, which the role cannot SET ROLE to", it.owner)
		}
	}
	// Of the schema public, which is there, the owner is kept unless another role has been given it.
	for _, it := range cat.items {
		if it.String() == "schema public" && it.owner != "pg_database_owner" && slices.Contains(others, it.owner) {
			reasons[it] = fmt.Sprintf("is owned by %s, which the role cannot SET ROLE to", it.owner)
		}
	}
	// What needs these cannot be created either.
	dependents := map[*item][]*item{}
	var queue []*item
	for _, it := range cat.items {
		for _, n := range it.needs {
			dependents[n] = append(dependents[n], it)
		}
		if reasons[it] != "" {
			queue = append(queue, it)
		}
	}
	for len(queue) > 0 {
		it := queue[0]
		queue = queue[1:]
		for _, d := range dependents[it] {
			if reasons[d] == "" && it.String() != "schema public" {
				reasons[d] = "needs " + it.String()
				queue = append(queue, d)
			}
		}
	}
	for _, it := range cat.items {
		if reasons[it] != "" {
			denied = append(denied, Denied{it.String(), reasons[it]})
		}
	}
	slices.SortFunc(denied, func(a, b Denied) int { return cmp.Compare(a.Object, b.Object) })
	return role, denied, nil
}

// leftOutRelations returns the numbers of the relations that are left out.
func (c *catalog) leftOutRelations() []uint32 {
	ids := []uint32{}
	for _, a := range c.leftOut {
		if a.Class == classRelation {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// leave reports whether the caller wants to do without an object.
func (c *copier) leave(it *item) bool { return slices.Contains(c.LeaveOut, it.String()) }

// granted reports whether privileges on what is the system's or an extension's
// are copied.
func (c *copier) granted() bool { return c.Owner == "" || c.Grant != nil }

// leaveOut removes from a catalog what the caller wants to do without.
func (c *copier) leaveOut(cat *catalog) {
	if !c.granted() {
		cat.items = slices.DeleteFunc(cat.items, func(it *item) bool { return it.kind == "privileges" })
	}
	if len(c.LeaveOut) == 0 {
		return
	}
	cat.items = slices.DeleteFunc(cat.items, func(it *item) bool {
		if !c.leave(it) {
			return false
		}
		for _, a := range []addr{it.addr, it.of} {
			if a != (addr{}) {
				cat.leftOut = append(cat.leftOut, inventory.Address{Class: a.class, ID: a.id})
			}
		}
		return true
	})
	// With their row types, the members of extensions, and so on.
	for _, parts := range []map[addr]addr{cat.part, cat.members} {
		for a := range parts {
			if it := cat.provider(a); it != nil && c.leave(it) {
				cat.leftOut = append(cat.leftOut, inventory.Address{Class: a.class, ID: a.id})
			}
		}
	}
}
