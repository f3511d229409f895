package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// ungranted are the objects in the schemas $1 that role $2 has not all privileges on, although the connection's role
// could grant them, with the statement that does. What belongs to an extension is the extension's affair.
const ungranted = `
	select format('grant all on %s %s to %I', case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass, $2::text) as statement
	from pg_class c
	join pg_namespace n on n.oid = c.relnamespace
	where n.nspname = any ($1::text[]) and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S') and pg_has_role(c.relowner, 'usage')
		and not exists (select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = c.oid and e.deptype = 'e')
		and not case c.relkind
			when 'S' then has_sequence_privilege($2::name, c.oid, 'usage') and has_sequence_privilege($2::name, c.oid, 'select')
				and has_sequence_privilege($2::name, c.oid, 'update')
			else has_table_privilege($2::name, c.oid, 'select') and has_table_privilege($2::name, c.oid, 'insert')
				and has_table_privilege($2::name, c.oid, 'update') and has_table_privilege($2::name, c.oid, 'delete') end
	union all
	select format('grant execute on routine %s to %I', p.oid::regprocedure, $2::text)
	from pg_proc p
	join pg_namespace n on n.oid = p.pronamespace
	where n.nspname = any ($1::text[]) and pg_has_role(p.proowner, 'usage') and not has_function_privilege($2::name, p.oid, 'execute')
		and not exists (select from pg_depend e where e.classid = 'pg_proc'::regclass and e.objid = p.oid and e.deptype = 'e')`

// missingGrants returns the statements that let all data roles into the exposed schemas, and the service role at
// everything in them, what is yet to be made included. Tables are opened to the other roles by the user alone: one
// that she forgot is closed.
func (c *Cluster) missingGrants(ctx context.Context, q querier) ([]string, error) {
	schemas, roles := c.cfg.DataPlane.Schemas, c.roles.All()
	if c.separation.Requests != "" {
		roles = append(roles, c.separation.Requests) // statements are analysed as this role
	}
	statements, err := texts(ctx, q, `
		select format('grant usage on schema %I to %I', n.nspname, r.rolname)
		from pg_namespace n, pg_roles r
		where n.nspname = any ($1::text[]) and r.rolname = any ($2::text[]) and pg_has_role(n.nspowner, 'usage')
			and not has_schema_privilege(r.oid, n.oid, 'usage')
		order by 1`, schemas, roles)
	if err != nil || c.roles.Service == "" {
		return statements, err
	}
	more, err := texts(ctx, q, ungranted+" order by 1", schemas, c.roles.Service)
	if err != nil {
		return nil, err
	}
	statements = append(statements, more...)
	// Things are made by the connection's role and by the owner; the defaults of other roles are not Bough's to change.
	more, err = texts(ctx, q, `
		select format('alter default privileges for role %I in schema %I grant all on %s to %I', maker.rolname, n.nspname, kind.name, service.rolname)
		from pg_namespace n, (values ('r', 'tables'), ('S', 'sequences'), ('f', 'routines')) kind (type, name), pg_roles maker, pg_roles service
		where n.nspname = any ($1::text[]) and service.rolname = $2::text and maker.rolname in (current_user, $3::text) and maker.rolname !~ '^pg_'
			and maker.oid <> service.oid and pg_has_role(maker.oid, 'usage') and has_schema_privilege(maker.oid, n.oid, 'create')
			and not exists (
				select from pg_default_acl d, aclexplode(d.defaclacl) a
				where d.defaclrole = maker.oid and d.defaclnamespace = n.oid and d.defaclobjtype::text = kind.type and a.grantee = service.oid)
		order by 1`, schemas, c.roles.Service, c.objectOwner())
	return append(statements, more...), err
}

func texts(ctx context.Context, q querier, sql string, args ...any) ([]string, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
