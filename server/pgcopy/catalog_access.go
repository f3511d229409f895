package pgcopy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// readOwners reads who owns what.
func (r *reader) readOwners() error {
	rows, err := r.conn.Query(r.ctx, `
		select o.class::oid, o.id, w.name, format('alter %s %s owner to %I', `+keyword+`, i.identity, w.name)
		from (
			select 'pg_class'::regclass, oid, relowner from pg_class where relkind in ('r', 'p', 'f', 'v', 'm', 'S')
			union all select 'pg_type'::regclass, oid, typowner from pg_type
			union all select 'pg_proc'::regclass, oid, proowner from pg_proc
			union all select 'pg_operator'::regclass, oid, oprowner from pg_operator
			union all select 'pg_collation'::regclass, oid, collowner from pg_collation
			union all select 'pg_namespace'::regclass, oid, nspowner from pg_namespace
			union all select 'pg_ts_config'::regclass, oid, cfgowner from pg_ts_config
			union all select 'pg_ts_dict'::regclass, oid, dictowner from pg_ts_dict
			union all select 'pg_statistic_ext'::regclass, oid, stxowner from pg_statistic_ext
			union all select 'pg_publication'::regclass, oid, pubowner from pg_publication
			union all select 'pg_event_trigger'::regclass, oid, evtowner from pg_event_trigger
			union all select 'pg_foreign_data_wrapper'::regclass, oid, fdwowner from pg_foreign_data_wrapper
			union all select 'pg_foreign_server'::regclass, oid, srvowner from pg_foreign_server
		) o (class, id, owner), pg_identify_object(o.class, o.id, 0) i, coalesce(nullif($1, ''), pg_get_userbyid(o.owner)::text) w (name)
		where o.id >= 16384 or (o.class = 'pg_namespace'::regclass and o.id = 2200) -- public, or how it is called now`, r.owner)
	if err != nil {
		return err
	}
	var a addr
	var owner, statement string
	_, err = pgx.ForEachRow(rows, []any{&a.class, &a.id, &owner, &statement}, func() error {
		if it := r.at[a]; it != nil {
			it.owner, it.ownedBy = owner, statement
			it.after = append(it.after, statement)
		}
		return nil
	})
	return err
}

// keyword is an expression that turns the type of an object i, as
// pg_identify_object names it, into the one of SQL.
const keyword = `case
	when i.type like '% column' then 'column'
	when i.type in ('function', 'procedure', 'aggregate') then 'routine'
	when i.type = 'statistics object' then 'statistics'
	when i.type = 'foreign-data wrapper' then 'foreign data wrapper'
	when i.type in ('table constraint', 'domain constraint') then 'constraint'
	else i.type end`

// readComments reads comments. The schema public and the extension plpgsql have
// one in a new database, which is why that of the source is always set.
func (r *reader) readComments() error {
	rows, err := r.conn.Query(r.ctx, `
		select d.classoid, d.objoid, format('comment on %s %s is %L', `+keyword+`,
			case i.type when 'domain constraint' then
				(select format('%I on domain %s', conname, contypid::regtype) from pg_constraint where oid = d.objoid)
			else i.identity end, d.description)
		from (
			select classoid, objoid, objsubid, description from pg_description where objoid >= 16384 and classoid <> 'pg_largeobject'::regclass
			union all
			select 'pg_namespace'::regclass, oid, 0, obj_description(oid, 'pg_namespace') from pg_namespace where nspname = 'public'
			union all
			select 'pg_extension'::regclass, oid, 0, obj_description(oid, 'pg_extension') from pg_extension where extname = 'plpgsql'
			union all
			select classoid, objoid, objsubid, description from pg_description where classoid = 'pg_namespace'::regclass and objoid = 2200
		) d, pg_identify_object(d.classoid, d.objoid, d.objsubid) i
		order by d.classoid, i.identity`)
	if err != nil {
		return err
	}
	var a addr
	var statement string
	_, err = pgx.ForEachRow(rows, []any{&a.class, &a.id, &statement}, func() error {
		if it := r.find(a); it != nil && !slices.Contains(it.after, statement) {
			it.after = append(it.after, statement)
		}
		return nil
	})
	return err
}

// readExtensionLinks reads what is dropped with an extension that it does not
// belong to.
func (r *reader) readExtensionLinks() error {
	rows, err := r.conn.Query(r.ctx, `
		select d.classid, d.objid, format('alter %s %s depends on extension %I', `+keyword+`, i.identity, e.extname)
		from pg_depend d
		join pg_extension e on e.oid = d.refobjid and d.refclassid = 'pg_extension'::regclass,
		pg_identify_object(d.classid, d.objid, 0) i
		where d.deptype = 'x'
		order by e.extname`)
	if err != nil {
		return err
	}
	var a addr
	var statement string
	_, err = pgx.ForEachRow(rows, []any{&a.class, &a.id, &statement}, func() error {
		if it := r.find(a); it != nil {
			it.after = append(it.after, statement)
		}
		return nil
	})
	return err
}

// grant is one privilege of one role, as in an aclitem.
type grant struct {
	Grantor, Grantee, Privilege string
	Grantable                   bool
}

// readPrivileges reads privileges that are not those that an object has from
// its creation. Members of extensions and the system's own objects may have got
// other ones too; these are objects of their own here.
func (r *reader) readPrivileges() error {
	rows, err := r.conn.Query(r.ctx, `
		with objects (class, id, sub, type, owner, acl) as (
			select 'pg_class'::regclass, oid, 0, (case relkind when 'S' then 's' else 'r' end)::"char", relowner, relacl
			from pg_class where relkind in ('r', 'p', 'f', 'v', 'm', 'S')
			union all
			select 'pg_class'::regclass, a.attrelid, a.attnum, 'c', c.relowner, a.attacl
			from pg_attribute a join pg_class c on c.oid = a.attrelid
			where not a.attisdropped and (a.attacl is not null or exists (select from pg_init_privs p
				where p.classoid = 'pg_class'::regclass and p.objoid = a.attrelid and p.objsubid = a.attnum))
			union all select 'pg_namespace'::regclass, oid, 0, 'n', nspowner, nspacl from pg_namespace
			union all select 'pg_proc'::regclass, oid, 0, 'f', proowner, proacl from pg_proc
			union all select 'pg_type'::regclass, oid, 0, 'T', typowner, typacl from pg_type
			union all select 'pg_foreign_data_wrapper'::regclass, oid, 0, 'F', fdwowner, fdwacl from pg_foreign_data_wrapper
			union all select 'pg_foreign_server'::regclass, oid, 0, 'S', srvowner, srvacl from pg_foreign_server
			union all select 'pg_language'::regclass, oid, 0, 'l', lanowner, lanacl from pg_language
		), changed as materialized (
			select o.*, p.initprivs, coalesce(o.class = 'pg_namespace'::regclass and o.id = to_regnamespace('public')::oid, false) as is_public
			from objects o
			left join pg_init_privs p on p.classoid = o.class and p.objoid = o.id and p.objsubid = o.sub and o.id <> 2200
			where o.acl is distinct from p.initprivs or o.class = 'pg_namespace'::regclass
		), acls as materialized (
			-- the schema public lets everybody in from the beginning
			select class, id, sub, type, owner, is_public, coalesce(acl, acldefault(type, owner)) as acl,
				case when is_public then acldefault('n', owner) || makeaclitem(0, owner, 'USAGE', false)
					else coalesce(initprivs, acldefault(type, owner)) end as base
			from changed
		)
		select class::oid, id, id = 2200 or id >= 16384, target,
			case when sub > 0 then (select quote_ident(attname) from pg_attribute where attrelid = id and attnum = sub) end,
			quote_ident(coalesce(nullif($1, ''), pg_get_userbyid(owner))), `+exploded("base", "owner")+`, `+exploded("acl", "owner")+`
		from acls, lateral (select case type
			when 's' then 'sequence ' || id::regclass
			when 'n' then 'schema ' || id::regnamespace
			when 'f' then 'routine ' || id::regprocedure
			when 'T' then 'type ' || id::regtype
			when 'F' then (select format('foreign data wrapper %I', fdwname) from pg_foreign_data_wrapper where oid = id)
			when 'S' then (select format('foreign server %I', srvname) from pg_foreign_server where oid = id)
			when 'l' then (select format('language %I', lanname) from pg_language where oid = id)
			else 'table ' || id::regclass end) t (target)
		where acl <> base
		order by class, target, sub`, r.owner)
	if err != nil {
		return err
	}
	var a addr
	var mine bool
	var target, owner string
	var column *string
	var base, acl []grant
	_, err = pgx.ForEachRow(rows, []any{&a.class, &a.id, &mine, &target, &column, &owner, &base, &acl}, func() error {
		identity, columns := "on "+target, ""
		if column != nil {
			columns = " (" + *column + ")"
			identity += columns
		}
		statements := grants(target, columns, owner, base, acl)
		base, acl = nil, nil
		if len(statements) == 0 {
			return nil
		}
		if it := r.find(a); mine && it != nil {
			it.after = append(it.after, statements...)
			return nil
		}
		ext, isMember := r.members[a]
		if !isMember && a.id >= 16384 {
			return nil // a session's
		}
		it := r.add(&item{kind: "privileges", identity: identity, create: statements, of: a})
		if isMember {
			r.require(it, ext)
		}
		return nil
	})
	return err
}

// exploded is an expression for an ACL as an array of grants. The object's owner
// goes by the name of the parameter $1, unless that is empty.
func exploded(acl, owner string) string {
	name := func(role string) string {
		return `quote_ident(case when ` + role + ` = ` + owner + ` then coalesce(nullif($1, ''), pg_get_userbyid(` + role + `)) else pg_get_userbyid(` + role + `) end)`
	}
	return `(select coalesce(jsonb_agg(jsonb_build_object('Grantor', ` + name("e.grantor") + `,
		'Grantee', case e.grantee when 0 then 'public' else ` + name("e.grantee") + ` end,
		'Privilege', e.privilege_type, 'Grantable', e.is_grantable)), '[]') from aclexplode(` + acl + `) e)`
}

// grants returns the statements that turn one ACL of an object into another.
// target is "schema app"; columns is empty or the column of a table: " (a)".
func grants(target, columns, owner string, base, acl []grant) []string {
	per := func(list []grant) map[string]map[grant]bool {
		m := map[string]map[grant]bool{}
		for _, g := range list {
			if m[g.Grantee] == nil {
				m[g.Grantee] = map[grant]bool{}
			}
			m[g.Grantee][g] = true
		}
		return m
	}
	before, want := per(base), per(acl)
	// A role must have got the right to grant before it grants.
	depth := map[string]int{owner: 0}
	for range acl {
		for _, g := range acl {
			if d, ok := depth[g.Grantor]; ok && g.Grantable {
				if old, known := depth[g.Grantee]; !known || old > d+1 {
					depth[g.Grantee] = d + 1
				}
			}
		}
	}
	var statements []string
	for _, grantee := range slices.Sorted(maps.Keys(before)) {
		if !maps.Equal(before[grantee], want[grantee]) {
			statements = append(statements, fmt.Sprintf("revoke all%s on %s from %s", columns, target, grantee))
		}
	}
	type group struct {
		grantor, grantee string
		grantable        bool
	}
	groups := map[group][]string{}
	for grantee, list := range want {
		if maps.Equal(before[grantee], list) {
			continue
		}
		for g := range list {
			k := group{g.Grantor, g.Grantee, g.Grantable}
			groups[k] = append(groups[k], strings.ToLower(g.Privilege)+columns)
		}
	}
	order := slices.SortedFunc(maps.Keys(groups), func(a, b group) int {
		grantable := func(g group) int {
			if g.grantable {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(depth[a.grantor], depth[b.grantor]), cmp.Compare(a.grantor, b.grantor),
			cmp.Compare(a.grantee, b.grantee), cmp.Compare(grantable(a), grantable(b)))
	})
	for _, g := range order {
		slices.Sort(groups[g])
		statement := fmt.Sprintf("grant %s on %s to %s", strings.Join(groups[g], ", "), target, g.grantee)
		if g.grantable {
			statement += " with grant option"
		}
		if g.grantor == owner {
			statements = append(statements, statement)
		} else {
			statements = append(statements, "set role "+g.grantor, statement, "reset role")
		}
	}
	return statements
}

// readDefaultPrivileges reads the privileges of objects yet to be made. They
// come when everything is made.
func (r *reader) readDefaultPrivileges() error {
	rows, err := r.conn.Query(r.ctx, `
		select format('%s%s', owner, ' in schema ' || schema), kind, schema, owner,
			case when schema is null then `+exploded("acldefault(case type when 'S' then 's' else type end, defaclrole)", "defaclrole")+` else '[]' end, `+exploded("defaclacl", "defaclrole")+`
		from (
			select d.*, d.defaclobjtype as type, quote_ident(pg_get_userbyid(d.defaclrole)) as owner, nullif(d.defaclnamespace, 0)::regnamespace::text as schema,
				case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions' when 'T' then 'types'
					when 'n' then 'schemas' when 'L' then 'large objects' end as kind
			from pg_default_acl d
			where $1 in ('', pg_get_userbyid(d.defaclrole)::text)
		) d`, r.owner)
	if err != nil {
		return err
	}
	var identity, kind, owner string
	var schema *string
	var base, acl []grant
	_, err = pgx.ForEachRow(rows, []any{&identity, &kind, &schema, &owner, &base, &acl}, func() error {
		prefix := "alter default privileges for role " + owner
		if schema != nil {
			prefix += " in schema " + *schema
		}
		statements := grants(kind, "", owner, base, acl)
		for i, s := range statements {
			statements[i] = prefix + " " + s
		}
		r.add(&item{kind: "default privileges", identity: identity + " on " + kind, create: statements, stage: stageRefresh})
		base, acl = nil, nil
		return nil
	})
	return err
}

// readDependencies reads what needs what, and what creating an object locks.
func (r *reader) readDependencies() error {
	err := r.pairs(`
		select distinct d.classid, d.objid, d.refclassid, d.refobjid
		from pg_depend d
		where d.objid >= 16384 and d.refobjid >= 16384 and d.deptype <> 'e'
			-- a sequence that a column owns is created before the column
			and not (d.deptype = 'a' and d.classid = 'pg_class'::regclass and exists (select from pg_class c where c.oid = d.objid and c.relkind = 'S'))`,
		func(a, b addr) {
			it := r.find(a)
			if it == nil {
				return
			}
			r.require(it, b)
			if p := r.provider(b); it.draft != nil && a == it.addr && p != nil && p != it {
				it.shape = append(it.shape, p)
			}
		})
	if err != nil {
		return err
	}
	for _, it := range r.items {
		slices.SortFunc(it.needs, func(a, b *item) int {
			return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.identity, b.identity))
		})
		it.needs = slices.Compact(it.needs)
		for _, n := range append([]*item{it}, it.needs...) {
			if n.class == classRelation && n.kind != "index" && n.kind != "sequence" {
				it.tables = append(it.tables, n.id)
			}
		}
	}
	return nil
}
