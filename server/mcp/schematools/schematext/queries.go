package schematext

// settings make names come out qualified and spelled in one way, whatever the session's settings are, and keep the reading
// from waiting long for a session that changes the schema.
const settings = `
select pg_catalog.set_config('search_path', '', true), pg_catalog.set_config('jit', 'off', true),
  pg_catalog.set_config('quote_all_identifiers', 'off', true), pg_catalog.set_config('lock_timeout', '5s', true)`

// base begins every query. The parameters are $1 the viewer, ” for none, and $2 the grantees. What the viewer does not see
// is not in schemas, relations and routines; hidden are the columns of relations that it does not see. The texts of
// indexes, policies and the like that speak of something hidden are found by their dependencies: veiled.
const base = `
with schemas as materialized (
  select n.oid, n.nspname, n.nspacl, n.nspowner
  from pg_namespace n
  where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
    and case when $1::text = '' then true else has_schema_privilege($1, n.oid, 'usage') end
), grantees as materialized (
  select oid, quote_ident(rolname) as name from pg_roles where rolname = any ($2::text[])
  union all
  select 0::oid, 'public'
), owned as materialized (
  select classid, objid from pg_depend where deptype = 'e'
), relations as materialized (
  select c.*, quote_ident(s.nspname) || '.' || quote_ident(c.relname) as name,
    case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' when 'S' then 'sequence'
      else 'table' end as kind
  from pg_class c
  join schemas s on s.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
    and not exists (select from owned o where o.classid = 'pg_class'::regclass and o.objid = c.oid)
    and case
      when $1 = '' then true
      when c.relkind = 'S' then has_sequence_privilege($1, c.oid, 'usage, select, update')
      else has_table_privilege($1, c.oid, 'select, insert, update, delete') or has_any_column_privilege($1, c.oid, 'select, insert, update')
    end
), hidden as materialized (
  select a.attrelid, a.attnum
  from pg_attribute a
  join relations r on r.oid = a.attrelid
  where $1 <> '' and a.attnum > 0 and not a.attisdropped
    and not has_column_privilege($1, a.attrelid, a.attnum, 'select, insert, update')
), veiled as materialized (
  select d.classid, d.objid
  from pg_depend d
  where $1 <> '' and d.refclassid = 'pg_class'::regclass
    and d.classid in ('pg_class'::regclass, 'pg_policy'::regclass, 'pg_trigger'::regclass, 'pg_rewrite'::regclass,
      'pg_constraint'::regclass, 'pg_statistic_ext'::regclass)
    and (d.refobjid not in (select oid from relations) and exists (
        select from pg_class c where c.oid = d.refobjid and c.relkind in ('r', 'p', 'v', 'm', 'f'))
      or (d.refobjid, d.refobjsubid) in (select attrelid, attnum from hidden))
), routines as materialized (
  select p.*, quote_ident(s.nspname) || '.' || quote_ident(p.proname) || '(' || pg_get_function_identity_arguments(p.oid) || ')' as name,
    case p.prokind when 'p' then 'procedure' when 'a' then 'aggregate' else 'function' end as kind
  from pg_proc p
  join schemas s on s.oid = p.pronamespace
  where not exists (select from owned o where o.classid = 'pg_proc'::regclass and o.objid = p.oid)
    and coalesce(obj_description(p.oid, 'pg_proc'), '') !~ '\[bough \d+\]$'
    and case when $1 = '' then true else has_function_privilege($1, p.oid, 'execute') end
), types as materialized (
  select t.*, quote_ident(s.nspname) || '.' || quote_ident(t.typname) as name
  from pg_type t
  join schemas s on s.oid = t.typnamespace
  where t.typtype in ('e', 'd', 'r', 'c')
    and (t.typrelid = 0 or (select relkind from pg_class where oid = t.typrelid) = 'c')
    and not exists (select from owned o where o.classid = 'pg_type'::regclass and o.objid = t.oid)
    and case when $1 = '' then true else has_type_privilege($1, t.oid, 'usage') end
)`

// queries give the kind and the name of an object and some lines of it. The lines of one object follow the order of the
// queries, and within one the order of its rows; the first query that knows an object makes it.
var queries = []string{
	schemasQuery, extensionsQuery, typesQuery, relationsQuery, columnsQuery, constraintsQuery, indexesQuery, statisticsQuery,
	policiesQuery, triggersQuery, rulesQuery, viewsQuery, sequencesQuery, routinesQuery, eventTriggersQuery,
	privilegesQuery, columnPrivilegesQuery, commentsQuery,
}

const schemasQuery = `
select 'schema', quote_ident(s.nspname), 'create schema ' || quote_ident(s.nspname)
from schemas s
where coalesce(obj_description(s.oid, 'pg_namespace'), '') !~ '\[bough \d+\]$'
  and not exists (select from owned o where o.classid = 'pg_namespace'::regclass and o.objid = s.oid)
order by s.nspname`

const extensionsQuery = `
select 'extension', quote_ident(e.extname), format('create extension %I schema %I version %L', e.extname, n.nspname, e.extversion)
from pg_extension e
join pg_namespace n on n.oid = e.extnamespace
order by e.extname`

const typesQuery = `
select 'type', t.name, x.line
from types t
cross join lateral (
  select 0::float8 as place, 'enum ' || quote_literal(e.enumlabel) as line, e.enumsortorder::float8 as ord
  from pg_enum e where e.enumtypid = t.oid
  union all
  select 0, 'domain over ' || format_type(t.typbasetype, t.typtypmod)
    || coalesce((select ' collate ' || c.oid::regcollation from pg_collation c, pg_type b
      where c.oid = t.typcollation and b.oid = t.typbasetype and t.typcollation <> b.typcollation), '')
    || case when t.typnotnull then ' not null' else '' end || coalesce(' default ' || t.typdefault, ''), 0
  where t.typtype = 'd'
  union all
  select 1, format('constraint %I %s', k.conname, pg_get_constraintdef(k.oid)), row_number() over (order by k.conname)
  from pg_constraint k where k.contypid = t.oid and k.contype = 'c'
  union all
  select 0, format('field %I %s', a.attname, format_type(a.atttypid, a.atttypmod)), a.attnum
  from pg_attribute a where t.typrelid <> 0 and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
  union all
  select 0, 'range over ' || format_type(r.rngsubtype, null), 0
  from pg_range r where r.rngtypid = t.oid
) x
order by t.name, x.place, x.ord`

const relationsQuery = `
select r.kind, r.name, concat_ws(' ',
  case r.relpersistence when 'u' then 'unlogged' end, r.kind,
  (select 'of ' || r.reloftype::regtype where r.reloftype <> 0),
  (select case when r.relispartition then 'partition of ' else 'inherits ' end || string_agg(i.inhparent::regclass::text, ', ' order by i.inhseqno)
    from pg_inherits i where i.inhrelid = r.oid and ($1 = '' or i.inhparent in (select oid from relations))),
  pg_get_expr(r.relpartbound, r.oid),
  case when r.relkind = 'p' then 'partition by ' || pg_get_partkeydef(r.oid) end,
  case case when r.relkind in ('r', 'p') then r.relreplident end when 'n' then 'replica identity nothing' when 'f' then 'replica identity full'
    when 'i' then 'replica identity index' end,
  (select 'with (' || string_agg(o, ', ' order by o) || ')' from unnest(r.reloptions) o),
  (select 'server ' || quote_ident(s.srvname) from pg_foreign_table f join pg_foreign_server s on s.oid = f.ftserver where f.ftrelid = r.oid))
from relations r
where r.relkind <> 'S'
order by r.name`

// columnsQuery leaves the columns of views to their definitions, unless these are not shown.
const columnsQuery = `
select r.kind, r.name, concat_ws(' ', 'column', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
  (select 'collate ' || c.oid::regcollation from pg_collation c, pg_type t
    where c.oid = a.attcollation and t.oid = a.atttypid and a.attcollation <> t.typcollation),
  case when a.attnotnull then 'not null' end,
  case when a.attidentity = 'a' then 'generated always as identity'
    when a.attidentity = 'd' then 'generated by default as identity'
    when a.attgenerated <> '' then 'generated always as (' || pg_get_expr(d.adbin, d.adrelid) || case a.attgenerated when 's' then ') stored' else ') virtual' end
    when d.adbin is not null then 'default ' || pg_get_expr(d.adbin, d.adrelid) end)
from relations r
join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where r.relkind <> 'S' and (r.relkind not in ('v', 'm') or $1 <> '') and (a.attrelid, a.attnum) not in (select attrelid, attnum from hidden)
order by r.name, a.attnum`

// constraintsQuery leaves out what a partition or a child has from its parent, and the not-null constraints of PostgreSQL
// 18, which the columns tell of.
const constraintsQuery = `
select r.kind, r.name, format('constraint %I %s', k.conname, pg_get_constraintdef(k.oid))
from relations r
join pg_constraint k on k.conrelid = r.oid
where k.contype in ('c', 'f', 'p', 'u', 'x') and k.conparentid = 0 and (k.conislocal or k.coninhcount = 0)
  and ($1 = '' or k.confrelid = 0 or k.confrelid in (select oid from relations))
  and not exists (select from veiled v where v.classid = 'pg_constraint'::regclass and v.objid = k.oid)
order by r.name, position(k.contype in 'puxcf'), k.conname`

const indexesQuery = `
select r.kind, r.name, pg_get_indexdef(i.indexrelid) || case when i.indisvalid or r.relkind = 'p' then '' else ' (invalid)' end
  || case when i.indisreplident then ' (replica identity)' else '' end
from relations r
join pg_index i on i.indrelid = r.oid
join pg_class x on x.oid = i.indexrelid
where not x.relispartition and r.relkind in ('r', 'p', 'm')
  and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.conrelid = r.oid and k.contype in ('p', 'u', 'x'))
  and not exists (select from veiled v where v.classid = 'pg_class'::regclass and v.objid = i.indexrelid)
order by r.name, x.relname`

const statisticsQuery = `
select r.kind, r.name, pg_get_statisticsobjdef(s.oid)
from relations r
join pg_statistic_ext s on s.stxrelid = r.oid
where not exists (select from veiled v where v.classid = 'pg_statistic_ext'::regclass and v.objid = s.oid)
order by r.name, s.stxname`

const policiesQuery = `
select r.kind, r.name, x.line
from relations r
cross join lateral (
  select 'row level security ' || case when r.relrowsecurity then 'enabled' else 'off' end
    || case when r.relforcerowsecurity then ', forced' else '' end as line, '' as sort
  where r.relrowsecurity or r.relforcerowsecurity
  union all
  select concat_ws(' ', 'policy', quote_ident(p.polname), case when not p.polpermissive then 'as restrictive' end,
    'for', case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
    'to', (select string_agg(case when o = 0 then 'public' else quote_ident(pg_get_userbyid(o)) end, ', ' order by pg_get_userbyid(o)) from unnest(p.polroles) o),
    'using (' || pg_get_expr(p.polqual, p.polrelid) || ')', 'with check (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')'), 'policy ' || p.polname
  from pg_policy p
  where p.polrelid = r.oid and not exists (select from veiled v where v.classid = 'pg_policy'::regclass and v.objid = p.oid)
    and ($1 = '' or 0 = any (p.polroles) or exists (select from pg_roles m where m.rolname = $1 and m.oid = any (p.polroles)))
) x
where r.relkind in ('r', 'p')
order by r.name, x.sort`

const triggersQuery = `
select r.kind, r.name, case when $1 = '' then pg_get_triggerdef(t.oid) else concat(quote_ident(t.tgname), ' ', case when t.tgtype & 64 > 0 then 'instead of' when t.tgtype & 2 > 0 then 'before' else 'after' end, ' ',
      concat_ws(' or ', case when t.tgtype & 4 > 0 then 'insert' end, case when t.tgtype & 16 > 0 then 'update' end, case when t.tgtype & 8 > 0 then 'delete' end,
        case when t.tgtype & 32 > 0 then 'truncate' end), case when t.tgtype & 1 > 0 then ' for each row' else ' for each statement' end)
    || ' (hash ' || md5(pg_get_triggerdef(t.oid)) || ')' end || case t.tgenabled when 'D' then ' (disabled)' when 'R' then ' (on replicas only)' when 'A' then ' (always)' else '' end
from relations r
join pg_trigger t on t.tgrelid = r.oid
where not t.tgisinternal and t.tgparentid = 0
  and not exists (select from veiled v where v.classid = 'pg_trigger'::regclass and v.objid = t.oid)
order by r.name, t.tgname`

const rulesQuery = `
select r.kind, r.name, pg_get_ruledef(w.oid)
from relations r
join pg_rewrite w on w.ev_class = r.oid
where w.rulename <> '_RETURN'
  and not exists (select from veiled v where v.classid = 'pg_rewrite'::regclass and v.objid = w.oid)
order by r.name, w.rulename`

const viewsQuery = `
select r.kind, r.name, case when $1 = '' then 'as' || chr(10) || pg_get_viewdef(r.oid) else 'as (hash ' || md5(pg_get_viewdef(r.oid)) || ')' end
from relations r
where r.relkind in ('v', 'm')
order by r.name`

// sequencesQuery leaves out those of identity columns, which the columns tell of.
const sequencesQuery = `
select r.kind, r.name, concat_ws(' ', 'sequence as', s.seqtypid::regtype, 'increment', s.seqincrement, 'from', s.seqmin, 'to', s.seqmax,
  'start', s.seqstart, 'cache', s.seqcache, case when s.seqcycle then 'cycle' end,
  (select 'owned by ' || a.attrelid::regclass || '.' || quote_ident(a.attname)
    from pg_depend d join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
    where d.classid = 'pg_class'::regclass and d.objid = r.oid and d.deptype = 'a' and d.refclassid = 'pg_class'::regclass
      and ($1 = '' or a.attrelid in (select oid from relations))))
from relations r
join pg_sequence s on s.seqrelid = r.oid
where not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = r.oid and d.deptype = 'i')
order by r.name`

const routinesQuery = `
select p.kind, p.name,
  case
    when p.prokind = 'a' then 'aggregate returning ' || format_type(p.prorettype, null) || (
      select format(' (sfunc %s, stype %s, finalfunc %s, initcond %L)', a.aggtransfn, format_type(a.aggtranstype, null), a.aggfinalfn, a.agginitval)
      from pg_aggregate a where a.aggfnoid = p.oid)
    when $1 = '' then pg_get_functiondef(p.oid)
    else concat_ws(' ', 'returns ' || pg_get_function_result(p.oid), 'language', l.lanname,
      case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
      case when p.prosecdef then 'security definer' end, '(hash ' || md5(pg_get_functiondef(p.oid)) || ')')
  end
from routines p
join pg_language l on l.oid = p.prolang
order by p.name`

const eventTriggersQuery = `
select 'event trigger', quote_ident(e.evtname), concat_ws(' ', 'on', e.evtevent, 'when tag in (' || array_to_string(e.evttags, ', ') || ')',
  'execute function', e.evtfoid::regproc, case e.evtenabled when 'D' then '(disabled)' end)
from pg_event_trigger e
where $1 = '' and e.evtname !~ '^bough_ddl_' and not exists (select from owned o where o.classid = 'pg_event_trigger'::regclass and o.objid = e.oid)
order by e.evtname`

// privilegesQuery tells of a privilege that nobody granted as of one that was: acldefault is what an object begins with.
const privilegesQuery = `
select x.kind, x.name, format('grant %s to %s', string_agg(lower(a.privilege_type) || case when a.is_grantable then '*' else '' end, ', ' order by a.privilege_type), g.name)
from (
  select r.kind, r.name, coalesce(r.relacl, acldefault(case r.relkind when 'S' then 's' else 'r' end::"char", r.relowner)) as acl, r.relowner as owner
  from relations r
  where not (r.relkind = 'S' and exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = r.oid and d.deptype = 'i'))
  union all
  select p.kind, p.name, coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner from routines p
  union all
  select 'type', t.name, coalesce(t.typacl, acldefault('T', t.typowner)), t.typowner from types t
  union all
  select 'schema', quote_ident(s.nspname), coalesce(s.nspacl, acldefault('n', s.nspowner)), s.nspowner
  from schemas s
  where coalesce(obj_description(s.oid, 'pg_namespace'), '') !~ '\[bough \d+\]$'
    and not exists (select from owned o where o.classid = 'pg_namespace'::regclass and o.objid = s.oid)
) x
cross join lateral aclexplode(x.acl) a
join grantees g on g.oid = a.grantee
where a.grantee <> x.owner
group by x.kind, x.name, g.name
order by x.kind, x.name, g.name`

const columnPrivilegesQuery = `
select r.kind, r.name, format('grant %s (%s) to %s', lower(a.privilege_type) || case when a.is_grantable then '*' else '' end,
  string_agg(quote_ident(c.attname), ', ' order by c.attname), g.name)
from relations r
join pg_attribute c on c.attrelid = r.oid and c.attacl is not null and not c.attisdropped
cross join lateral aclexplode(c.attacl) a
join grantees g on g.oid = a.grantee
where (c.attrelid, c.attnum) not in (select attrelid, attnum from hidden)
group by r.kind, r.name, g.name, a.privilege_type, a.is_grantable
order by r.kind, r.name, g.name, a.privilege_type`

const commentsQuery = `
select x.kind, x.name, 'comment' || x.what || ' is ' || quote_literal(d.description)
from (
  select r.kind, r.name, ''::text as what, 'pg_class'::regclass as class, r.oid, 0 as sub from relations r
  union all
  select r.kind, r.name, ' on column ' || quote_ident(a.attname), 'pg_class'::regclass, r.oid, a.attnum
  from relations r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
  where (a.attrelid, a.attnum) not in (select attrelid, attnum from hidden)
  union all
  select r.kind, r.name, ' on index ' || quote_ident(c.relname), 'pg_class'::regclass, c.oid, 0
  from relations r join pg_index i on i.indrelid = r.oid join pg_class c on c.oid = i.indexrelid
  union all
  select r.kind, r.name, ' on constraint ' || quote_ident(k.conname), 'pg_constraint'::regclass, k.oid, 0
  from relations r join pg_constraint k on k.conrelid = r.oid
  union all
  select r.kind, r.name, ' on trigger ' || quote_ident(t.tgname), 'pg_trigger'::regclass, t.oid, 0
  from relations r join pg_trigger t on t.tgrelid = r.oid
  union all
  select r.kind, r.name, ' on policy ' || quote_ident(p.polname), 'pg_policy'::regclass, p.oid, 0
  from relations r join pg_policy p on p.polrelid = r.oid
  union all
  select p.kind, p.name, '', 'pg_proc'::regclass, p.oid, 0 from routines p
  union all
  select 'type', t.name, '', 'pg_type'::regclass, t.oid, 0 from types t
  union all
  select 'schema', quote_ident(s.nspname), '', 'pg_namespace'::regclass, s.oid, 0 from schemas s
) x
join pg_description d on d.classoid = x.class and d.objoid = x.oid and d.objsubid = x.sub
where d.description !~ '\[bough \d+\]$'
  and not exists (select from owned o where o.classid = x.class and o.objid = x.oid)
  and not exists (select from veiled v where v.classid = x.class and v.objid = x.oid)
order by x.kind, x.name, x.what`
