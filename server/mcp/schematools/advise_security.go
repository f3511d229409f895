package schematools

var securityAdvisors = []advisor{
	{"security", "error", "rls_disabled", `
select r.oid, r.name, 'row-level security is off, so that every caller reaches all rows: ' || x.may,
  'alter table ' || r.name || ' enable row level security; then create policies that say who may reach which rows', ''
from relations r
join reached x on x.oid = r.oid
where r.relkind in ('r', 'p') and not r.relrowsecurity and not r.relispartition
  and not exists (select from pg_policy p where p.polrelid = r.oid)`},

	{"security", "error", "policies_without_rls", `
select r.oid, r.name, 'the table has policies, but they are not used since row-level security is off: '
    || (select string_agg(quote_ident(p.polname), ', ' order by p.polname) from pg_policy p where p.polrelid = r.oid),
  'alter table ' || r.name || ' enable row level security', ''
from relations r
where r.relkind in ('r', 'p') and not r.relrowsecurity
  and exists (select from pg_policy p where p.polrelid = r.oid)`},

	// A partition reached by its own name is not protected by the policies of its table.
	{"security", "error", "partition_rls_disabled", `
select r.oid, r.name, 'the partitioned table has row-level security, this partition has none and is reached past it: ' || x.may,
  'alter table ' || r.name || ' enable row level security', ''
from relations r
join reached x on x.oid = r.oid
join pg_inherits i on i.inhrelid = r.oid
join pg_class parent on parent.oid = i.inhparent
where r.relispartition and not r.relrowsecurity and parent.relrowsecurity`},

	{"security", "info", "rls_without_policies", `
select r.oid, r.name, 'row-level security is on and there is no policy: nobody but service keys reaches a row, although ' || x.may,
  'create policy own_rows on ' || r.name || ' to ' || (select string_agg(name, ', ' order by name) from callers) || ' using ((select auth.uid()) = user_id); or revoke the privileges', ''
from relations r
join reached x on x.oid = r.oid
where r.relkind in ('r', 'p') and r.relrowsecurity and not r.relispartition
  and not exists (select from pg_policy p where p.polrelid = r.oid)`},

	{"security", "warning", "policy_always_true", `
select r.oid, r.name, format('policy %I lets everybody it applies to %s every row', p.polname,
    case p.polcmd when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'change' end),
  format('alter policy %I on %s %s', p.polname, r.name,
    case p.polcmd when 'a' then 'with check (…)' else 'using (…)' end), ''
from relations r
join reached x on x.oid = r.oid and x.changes
join pg_policy p on p.polrelid = r.oid
where p.polpermissive and p.polcmd <> 'r' and (0 = any (p.polroles) or p.polroles && array(select oid from callers))
  and coalesce(pg_get_expr(p.polqual, p.polrelid), 'true') = 'true' and coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'true') = 'true'`},

	// A view reads as its owner unless it says otherwise. The tables are found through views on views.
	{"security", "error", "view_bypasses_rls", `
, reads as (
  with recursive direct as (
    select distinct w.ev_class as view, d.refobjid as relation
    from pg_rewrite w
    join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid and d.refclassid = 'pg_class'::regclass and d.refobjid <> w.ev_class
  ), walk as (
    select view, relation from direct
    union
    select w.view, d.relation from walk w join direct d on d.view = w.relation
  )
  select w.view, string_agg(w.relation::regclass::text, ', ' order by w.relation::regclass::text) as tables
  from walk w
  join pg_class t on t.oid = w.relation
  where t.relrowsecurity
  group by w.view
)
select r.oid, r.name,
  case when r.relkind = 'm' then 'a materialized view keeps rows of tables whose row-level security does not apply to it (' else
    'the view reads as its owner, past the row-level security of ' || x.tables || ' (' end || s.may || ')',
  case when r.relkind = 'm' then 'revoke all on ' || r.name || ' from ' || (select string_agg(name, ', ' order by name) from callers)
    else 'alter view ' || r.name || ' set (security_invoker = true)' end,
  case when r.relkind = 'm' then 'warning' else '' end
from relations r
join reached s on s.oid = r.oid
join reads x on x.view = r.oid
where r.relkind = 'm' or r.relkind = 'v' and not exists (
  select from unnest(r.reloptions) o where lower(o) in ('security_invoker=true', 'security_invoker=on', 'security_invoker=1', 'security_invoker=yes'))`},

	// PostgreSQL may evaluate a caller's condition before those of the view (PostgreSQL, section 39.5).
	{"security", "warning", "view_without_barrier", `
select r.oid, r.name, 'the view hides rows but has no security_barrier: conditions of callers may see the rows that it hides, and tell of them by errors and durations (' || x.may || ')',
  'alter view ' || r.name || ' set (security_barrier = true)', ''
from relations r
join reached x on x.oid = r.oid
where r.relkind = 'v' and pg_get_viewdef(r.oid) ~ '\m(WHERE|HAVING|JOIN|DISTINCT|LIMIT|FETCH|EXCEPT|INTERSECT)\M' and not exists (
  select from unnest(r.reloptions) o where o ~* '^security_(barrier|invoker)=(t|tr|tru|true|on|1|y|ye|yes)$')`},

	{"security", "warning", "foreign_table_reached", `
select r.oid, r.name, 'a foreign table knows no row-level security: ' || x.may,
  'revoke all on ' || r.name || ' from ' || (select string_agg(name, ', ' order by name) from callers), ''
from relations r
join reached x on x.oid = r.oid
where r.relkind = 'f'`},

	{"security", "warning", "security_definer_search_path", `
select p.oid, p.oid::regprocedure::text, 'the function runs as its owner, with the search_path of whoever calls it: what it calls can be replaced'
    || case when x.callable then '; ' || x.names || ' may execute it' else '' end,
  'alter ' || case p.prokind when 'p' then 'procedure ' else 'function ' end || p.oid::regprocedure || ' set search_path = '''', with names in it qualified',
  case when x.callable then '' else 'info' end
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
cross join lateral (
  select count(*) > 0 as callable, string_agg(c.name, ', ' order by c.name) as names
  from callers c where has_schema_privilege(c.oid, n.oid, 'usage') and has_function_privilege(c.oid, p.oid, 'execute')
) x
where n.nspname = any ($1::text[]) and p.prosecdef and p.prokind in ('f', 'p')
  and not exists (select from unnest(p.proconfig) o where o like 'search_path=%')
  and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')`},

	{"security", "error", "schema_create", `
select 0::oid, quote_ident(n.nspname), 'may create objects in the schema, which others then call by mistake: ' || string_agg(x.name, ', ' order by x.name),
  'revoke create on schema ' || quote_ident(n.nspname) || ' from ' || string_agg(x.name, ', ' order by x.name), ''
from pg_namespace n
cross join lateral aclexplode(n.nspacl) a
join (select oid, name from callers union all select 0::oid, 'public') x on x.oid = a.grantee
where n.nspname = any ($1::text[]) and a.privilege_type = 'CREATE' and a.grantee <> n.nspowner
group by n.nspname`},
}
