package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// belongings are the statements that give another role, $2, what the roles $1 own in a database. REASSIGN OWNED does not
// do it: it leaves out what belongs to the role that the cluster was created with. Schemas come first, since an owner
// needs to be let in.
//
// What belongs to an extension stays with it, and with superusers what nobody else may own: event triggers and their
// functions, foreign-data wrappers, publications of all tables.
const belongings = `
	select format('alter %s %s owner to %I', case
			when i.type in ('function', 'procedure', 'aggregate') then 'routine'
			when i.type = 'statistics object' then 'statistics'
			else i.type end, i.identity, $2::text)
	from (
		select 'pg_namespace'::regclass, oid, nspowner from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'
		union all select 'pg_class'::regclass, c.oid, relowner from pg_class c
			where relkind in ('r', 'p', 'v', 'm', 'f', 'S') and relpersistence <> 't'
				and not (relkind = 'S' and exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
					and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')))
		union all select 'pg_type'::regclass, t.oid, typowner from pg_type t
			where typtype in ('b', 'c', 'd', 'e', 'r') and not exists (select from pg_type e where e.typarray = t.oid)
				and (typrelid = 0 or exists (select from pg_class c where c.oid = typrelid and c.relkind = 'c'))
		union all select 'pg_proc'::regclass, p.oid, proowner from pg_proc p
			where not exists (select from pg_event_trigger e where e.evtfoid = p.oid)
		union all select 'pg_operator'::regclass, oid, oprowner from pg_operator
		union all select 'pg_opclass'::regclass, oid, opcowner from pg_opclass
		union all select 'pg_opfamily'::regclass, oid, opfowner from pg_opfamily
		union all select 'pg_collation'::regclass, oid, collowner from pg_collation
		union all select 'pg_conversion'::regclass, oid, conowner from pg_conversion
		union all select 'pg_ts_config'::regclass, oid, cfgowner from pg_ts_config
		union all select 'pg_ts_dict'::regclass, oid, dictowner from pg_ts_dict
		union all select 'pg_statistic_ext'::regclass, oid, stxowner from pg_statistic_ext
		union all select 'pg_foreign_server'::regclass, oid, srvowner from pg_foreign_server
		union all select 'pg_publication'::regclass, oid, pubowner from pg_publication p where not puballtables
			and not exists (select from pg_publication_namespace n where n.pnpubid = p.oid)
		union all select 'pg_largeobject'::regclass, oid, lomowner from pg_largeobject_metadata
	) o (class, id, owner), pg_identify_object(o.class, o.id, 0) i
	where ((o.id >= 16384 or o.class = 'pg_largeobject'::regclass) and pg_get_userbyid(o.owner) = any ($1::text[])
			or o.class = 'pg_namespace'::regclass and o.id = to_regnamespace('public')::oid
				and (pg_get_userbyid(o.owner) = any ($1::text[]) or pg_get_userbyid(o.owner) = 'pg_database_owner'))
		and not exists (select from pg_depend d where d.classid = o.class and d.objid = o.id and d.deptype = 'e')
		and pg_get_userbyid(o.owner) <> $2::text
		and (i.schema is null or i.schema !~ '^pg_(temp|toast)')
	order by o.class <> 'pg_namespace'::regclass, o.class, o.id`

// defaultRights are the statements that give what role $2 creates the privileges that others have on what the roles $1
// create.
const defaultRights = `
	select format('alter default privileges for role %I%s %s', $2::text, ' in schema ' || quote_ident(n.nspname),
		format('grant %s on %s to %s%s', lower(a.privilege_type), k.name, case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end,
			case when a.is_grantable then ' with grant option' else '' end))
	from pg_default_acl d
	cross join aclexplode(d.defaclacl) a
	join (values ('r', 'tables'), ('S', 'sequences'), ('f', 'routines'), ('T', 'types'), ('n', 'schemas')) k (type, name) on k.type = d.defaclobjtype::text
	left join pg_namespace n on n.oid = d.defaclnamespace
	where pg_get_userbyid(d.defaclrole) = any ($1::text[]) and a.grantee not in (d.defaclrole, $2::text::regrole)
		and not exists (
			select from pg_default_acl e, aclexplode(e.defaclacl) b
			where e.defaclrole = $2::text::regrole and e.defaclnamespace = d.defaclnamespace and e.defaclobjtype = d.defaclobjtype
				and b.grantee = a.grantee and b.privilege_type = a.privilege_type and b.is_grantable >= a.is_grantable)
	union all
	select format('alter default privileges for role %I revoke all on %s from public', $2::text, k.name)
	from pg_default_acl d
	join (values ('f', 'routines'), ('T', 'types')) k (type, name) on k.type = d.defaclobjtype::text
	where pg_get_userbyid(d.defaclrole) = any ($1::text[]) and d.defaclnamespace = 0
		and not exists (select from aclexplode(d.defaclacl) a where a.grantee = 0)
		and not exists (select from pg_default_acl e where e.defaclrole = $2::text::regrole and e.defaclnamespace = 0 and e.defaclobjtype = d.defaclobjtype)
	order by 1`

// adopt gives role to what the roles from own in the connection's database. It commits now and then and can be called
// again after it was interrupted. What the connection's role may not do becomes a warning.
func adopt(ctx context.Context, conn *pgx.Conn, from []string, to string) (warnings []string, err error) {
	for _, query := range []string{belongings, defaultRights} {
		statements, err := texts(ctx, conn, query, from, to)
		if err != nil {
			return warnings, fmt.Errorf("reading what belongs to %s: %w", strings.Join(from, ", "), err)
		}
		// Each holds a lock to the end of its transaction, and the server has not many of those.
		for len(statements) > 0 {
			n := min(len(statements), 200)
			more, err := execute(ctx, conn, statements[:n])
			warnings = append(warnings, more...)
			if err != nil {
				return warnings, err
			}
			statements = statements[n:]
		}
	}
	return warnings, nil
}

// execute executes statements in one transaction, or one by one where that fails.
func execute(ctx context.Context, conn *pgx.Conn, statements []string) (warnings []string, err error) {
	_, err = conn.PgConn().Exec(ctx, strings.Join(statements, ";\n")).ReadAll()
	var pgErr *pgconn.PgError
	if err == nil || !errors.As(err, &pgErr) {
		return nil, err
	}
	for _, statement := range statements {
		_, err := conn.Exec(ctx, statement)
		switch {
		case err == nil:
		case hasCode(err, "42704", "42883", "42P01", "3F000"): // dropped meanwhile
		case errors.As(err, &pgErr) && conn.Ping(ctx) == nil:
			warnings = append(warnings, fmt.Sprintf("%s: %s", statement, pgErr.Message))
		default:
			return warnings, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return warnings, nil
}
