package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Unportable is an object that the connection's role cannot create in a copy, so that only CREATE DATABASE … TEMPLATE
// copies it.
type Unportable struct {
	Object string // kind and identity, as in "extension postgis"
	Reason string
	Needed bool // a copy cannot do without it
}

func (u Unportable) String() string { return u.Object + " (" + u.Reason + ")" }

// UnportableError says what keeps a database from being copied from a snapshot.
type UnportableError struct {
	Objects []Unportable
	Role    string
}

func (e *UnportableError) Error() string {
	var names []string
	optional := true
	for i, o := range e.Objects {
		optional = optional && !o.Needed
		if i < 10 {
			names = append(names, o.String())
		}
	}
	text := fmt.Sprintf("the role %s cannot create in a copy: %s", e.Role, strings.Join(names, ", "))
	if more := len(e.Objects) - len(names); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	if optional {
		text += "; branching.leave-out-unsupported leaves them out"
	}
	return text
}

// unportable lists the objects of a database that only a superuser, or a member of their owner, can create. What belongs
// to an extension comes with it.
const unportable = `
	with members as materialized (
		select classid, objid from pg_depend where deptype = 'e'
	), extensions as (
		select e.oid, e.extname,
			exists (
				select from pg_depend d
				left join pg_depend m on m.deptype = 'e' and m.refclassid = 'pg_extension'::regclass and m.refobjid = e.oid
					and m.classid = d.refclassid and m.objid = d.refobjid
				where (m.objid is not null or d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid) and d.deptype in ('n', 'a', 'x')
					and not exists (
						select from pg_depend o where o.deptype = 'e' and o.classid = d.classid and o.objid = d.objid
							and o.refclassid = 'pg_extension'::regclass and o.refobjid = e.oid)
					and d.classid not in ('pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_constraint'::regclass, 'pg_attrdef'::regclass, 'pg_amop'::regclass, 'pg_amproc'::regclass)
			) as needed
		from pg_extension e
		left join pg_available_extension_versions v on v.name = e.extname and v.version = e.extversion
		where e.extname <> 'plpgsql' and coalesce(v.superuser and not v.trusted, true)
	)
	select 'extension ' || quote_ident(extname) as object, 'only a superuser can create it' as reason, needed from extensions
	union all
	select 'event trigger ' || quote_ident(evtname), 'only a superuser can create it', false from pg_event_trigger
	where evtname <> all ($1) and oid not in (select objid from members where classid = 'pg_event_trigger'::regclass)
	union all
	select 'publication ' || quote_ident(pubname), 'only a superuser can publish all tables or schemas', false from pg_publication
	where puballtables or oid in (select pnpubid from pg_publication_namespace)
	union all
	select 'foreign data wrapper ' || quote_ident(fdwname), 'only a superuser can create it', true from pg_foreign_data_wrapper
	where oid not in (select objid from members where classid = 'pg_foreign_data_wrapper'::regclass)
	union all
	select 'function ' || p.oid::regprocedure, 'only a superuser can create it', true
	from pg_proc p join pg_language l on l.oid = p.prolang
	where p.oid >= 16384 and (not l.lanpltrusted and l.lanname not in ('sql') or p.proleakproof)
		and p.oid not in (select objid from members where classid = 'pg_proc'::regclass)
	union all
	select 'type ' || t.oid::regtype, 'only a superuser can create it', true from pg_type t
	where t.oid >= 16384 and t.typtype = 'b' and t.typelem = 0 and t.oid not in (select objid from members where classid = 'pg_type'::regclass)
	union all
	select 'operator class ' || quote_ident(opcname), 'only a superuser can create it', true from pg_opclass
	where oid >= 16384 and oid not in (select objid from members where classid = 'pg_opclass'::regclass)
	union all
	select case relkind when 'r' then 'table' when 'p' then 'table' when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence'
			when 'f' then 'foreign table' else 'type' end || ' ' || c.oid::regclass,
		'it belongs to ' || pg_get_userbyid(relowner), true
	from pg_class c
	where c.oid >= 16384 and relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c') and relpersistence <> 't' and not pg_has_role(relowner, $2)
		and c.oid not in (select objid from members where classid = 'pg_class'::regclass)
	union all
	select 'schema ' || quote_ident(nspname), 'it belongs to ' || pg_get_userbyid(nspowner), true from pg_namespace
	where oid >= 16384 and nspname !~ '^pg_' and not pg_has_role(nspowner, $2) and oid not in (select objid from members where classid = 'pg_namespace'::regclass)
	union all
	select 'function ' || p.oid::regprocedure, 'it belongs to ' || pg_get_userbyid(proowner), true from pg_proc p
	where p.oid >= 16384 and not pg_has_role(proowner, $2) and p.pronamespace::regnamespace::text <> 'auth'
		and p.oid not in (select objid from members where classid = 'pg_proc'::regclass)
	order by 3 desc, 1`

// Unportable lists what the connection's role cannot create in a copy of a database. A superuser can create all.
func (c *Cluster) Unportable(ctx context.Context, database string) (list []Unportable, err error) {
	if c.caps.Superuser {
		return nil, nil
	}
	err = c.within(ctx, database, "", func(conn *pgx.Conn) error {
		if err := prepareSession(ctx, conn); err != nil {
			return err
		}
		privilege := "member"
		if c.caps.ServerVersion >= 160000 {
			privilege = "set"
		}
		rows, err := conn.Query(ctx, unportable, ddlTriggerNames, privilege)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Unportable])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for what cannot be copied: %w", err)
	}
	return list, nil
}

// leaveOut returns what a copy of the database does without, with a warning for each, or an error if it cannot.
func (c *Cluster) leaveOut(ctx context.Context, database string) (names, warnings []string, err error) {
	list, err := c.Unportable(ctx, database)
	if err != nil {
		return nil, nil, err
	}
	var needed []Unportable
	for _, o := range list {
		if o.Needed {
			needed = append(needed, o)
			continue
		}
		names = append(names, o.Object)
		warnings = append(warnings, "left out: "+o.String())
	}
	switch {
	case len(needed) > 0:
		return nil, nil, &UnportableError{needed, c.caps.Role}
	case len(names) > 0 && !c.cfg.LeaveOutUnsupported:
		return nil, nil, &UnportableError{list, c.caps.Role}
	}
	return names, warnings, nil
}
