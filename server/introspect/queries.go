package introspect

// The catalog is read by a handful of statements over all objects at once. Each begins with the exposed relations; the
// parameters are $1 the schemas, $2 the roles, $3 the relations that another session has locked exclusively, whose
// expressions are left out because reading them would wait for the lock. Numbers that vary without a change of the
// schema stand in the last column of a result, which the schema's version leaves out.
//
// Every statement orders its rows, because the version is a hash of them.

// settings make names come out qualified unless they are in pg_catalog, whatever the session's settings are.
const settings = `
select pg_catalog.set_config('search_path', 'pg_catalog', true), pg_catalog.set_config('jit', 'off', true),
  pg_catalog.set_config('quote_all_identifiers', 'off', true), pg_catalog.set_config('statement_timeout', '0', true),
  pg_catalog.set_config('lock_timeout', '500ms', true)`

// exposed are the relations of the exposed schemas, without those that belong to extensions.
const exposed = `exposed as materialized (
  select c.oid, c.relname, c.relnamespace, n.nspname, c.relkind, c.relispartition, c.relrowsecurity, c.reltype, c.relam,
    c.reltuples
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any ($1::text[])
    and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and c.oid not in (select objid from pg_depend where classid = 'pg_class'::regclass and deptype = 'e')
)`

// callable are the functions that can be called by name. Those with pseudo-types among their arguments have no type to
// which a value of a request could be converted.
const callable = `callable as materialized (
  select p.*, n.nspname
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
  where n.nspname = any ($1::text[])
    and p.prokind in ('f', 'p')
    and p.oid not in (select objid from pg_depend where classid = 'pg_proc'::regclass and deptype = 'e')
    and not exists (
      select from pg_type t
      where t.typtype = 'p'
        and (t.oid = any (p.proargtypes) or t.oid = p.prorettype and t.typname not in ('void', 'record'))
    )
)`

// roles are the roles of requests; oid is null for one that does not exist.
const roles = `roles as materialized (
  select x.ord, r.oid
  from unnest($2::text[]) with ordinality x (name, ord)
  left join pg_roles r on r.rolname = x.name
)`

// sources are the exposed relations and all those that views read: keys of tables in hidden schemas matter too.
const sources = `sources as materialized (
  select oid from exposed
  union
  select d.refobjid from pg_depend d
  where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass and d.refobjid >= 16384
)`

const relationsQuery = `
with ` + exposed + `, ` + roles + `
select c.oid, c.nspname, c.relname, c.relkind, c.relispartition, c.relrowsecurity, c.reltype,
  coalesce((select amname = 'heap' from pg_am where oid = c.relam), false) as heap,
  case
    when c.relkind = 'm' or c.relkind = 'f' and not exists (
      select from pg_foreign_table t
      join pg_foreign_server s on s.oid = t.ftserver
      join pg_foreign_data_wrapper w on w.oid = s.srvfdw
      where t.ftrelid = c.oid and w.fdwhandler <> 0) then 0
    when c.relkind in ('v', 'f') and cardinality($3::oid[]) = 0 then pg_relation_is_updatable(c.oid, true)
    else 28
  end as allowed,
  case when c.relkind = 'v' and cardinality($3::oid[]) = 0 then pg_relation_is_updatable(c.oid, false) else 0 end as auto,
  d.description,
  array_to_string(array(
    select case when has_schema_privilege(r.oid, c.relnamespace, 'usage') then coalesce(
      has_table_privilege(r.oid, c.oid, 'select')::int + 2 * has_table_privilege(r.oid, c.oid, 'insert')::int +
      4 * has_table_privilege(r.oid, c.oid, 'update')::int + 8 * has_table_privilege(r.oid, c.oid, 'delete')::int, 0)
      else 0 end
    from roles r order by r.ord), ',') as grants,
  c.reltuples
from exposed c
left join pg_description d on d.classoid = 'pg_class'::regclass and d.objoid = c.oid and d.objsubid = 0
order by c.oid`

// leavingQuery finds the exposed relations of which a SELECT (reads) or another statement runs functions that are not
// known to leave nothing behind with the session: those of the owner, and PostgreSQL's own that set, lock or run SQL that is
// in a string. PostgreSQL notes no dependencies on its own functions, so they are looked for in the trees.
const leavingQuery = `
with recursive ` + exposed + `, unsure as materialized (
  select p.oid
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
  where p.oid >= 16384 and p.provolatile <> 'i'
    and not (n.nspname = 'auth' and p.proname in ('uid', 'role', 'email', 'jwt', 'scopes'))
    and p.oid not in (select objid from pg_depend where classid = 'pg_proc'::regclass and deptype = 'e')
), own as materialized (
  select ':funcid (' || string_agg(oid::text, '|') || ') ' as pattern
  from pg_proc
  where oid < 16384 and pronamespace = 'pg_catalog'::regnamespace
    and proname in ('set_config', 'pg_advisory_lock', 'pg_advisory_lock_shared', 'pg_try_advisory_lock', 'pg_try_advisory_lock_shared',
      'query_to_xml', 'query_to_xmlschema', 'query_to_xml_and_xmlschema', 'ts_stat', 'ts_rewrite')
), calling as materialized (
  select distinct classid, objid from pg_depend
  where refclassid = 'pg_proc'::regclass and refobjid in (select oid from unsure)
), direct (rel, reads) as (
  select p.polrelid, p.polcmd in ('r', '*')
  from pg_policy p
  where ('pg_policy'::regclass::oid, p.oid) in (select classid, objid from calling)
    or concat(p.polqual, p.polwithcheck) ~ (select pattern from own)
  union
  select r.ev_class, r.ev_type = '1'
  from pg_rewrite r
  where r.ev_class >= 16384 and (('pg_rewrite'::regclass::oid, r.oid) in (select classid, objid from calling)
    or concat(r.ev_action, r.ev_qual) ~ (select pattern from own))
  union
  select t.tgrelid, false
  from pg_trigger t
  where not t.tgisinternal and t.tgenabled <> 'D' and t.tgfoid >= 16384
    and t.tgfoid not in (select objid from pg_depend where classid = 'pg_proc'::regclass and deptype = 'e')
  union
  select d.adrelid, false
  from pg_attrdef d
  where ('pg_attrdef'::regclass::oid, d.oid) in (select classid, objid from calling) or d.adbin::text ~ (select pattern from own)
  union
  select k.conrelid, false
  from pg_constraint k
  where k.conrelid <> 0 and (('pg_constraint'::regclass::oid, k.oid) in (select classid, objid from calling)
    or k.conbin::text ~ (select pattern from own))
), edges (rel, other, reads) as (
  select p.polrelid, d.refobjid, p.polcmd in ('r', '*')
  from pg_policy p
  join pg_depend d on d.classid = 'pg_policy'::regclass and d.objid = p.oid and d.refclassid = 'pg_class'::regclass
  union
  select r.ev_class, d.refobjid, r.ev_type = '1'
  from pg_rewrite r
  join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
  where r.ev_class >= 16384
  union
  select inhparent, inhrelid, false from pg_inherits
  union
  select confrelid, conrelid, false from pg_constraint
  where contype = 'f' and (confdeltype in ('c', 'n', 'd') or confupdtype in ('c', 'n', 'd'))
), reading (rel) as (
  select rel from direct where reads
  union
  select e.rel from reading r join edges e on e.other = r.rel and e.reads
), writing (rel) as (
  select rel from direct
  union
  select e.rel from writing w join edges e on e.other = w.rel
)
select c.oid, c.oid in (select rel from reading) as reads,
  null as unhashed
from exposed c
where c.oid in (select rel from writing)
order by c.oid`

// columnsQuery gives the privileges only of columns that have some of their own; others have the relation's.
const columnsQuery = `
with ` + exposed + `, ` + roles + `
select a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod) as declared,
  a.attnotnull, a.attidentity, a.attgenerated, a.atthasdef,
  case when c.oid <> all ($3::oid[]) then pg_get_expr(ad.adbin, ad.adrelid) end as expression,
  d.description,
  case when c.relkind = 'v' and cardinality($3::oid[]) = 0 then pg_column_is_updatable(c.oid, a.attnum, false)
    else true end as updatable,
  case when a.attacl is not null then array_to_string(array(
    select case when has_schema_privilege(r.oid, c.relnamespace, 'usage') then coalesce(
      has_column_privilege(r.oid, c.oid, a.attnum, 'select')::int +
      2 * has_column_privilege(r.oid, c.oid, a.attnum, 'insert')::int +
      4 * has_column_privilege(r.oid, c.oid, a.attnum, 'update')::int, 0) else 0 end
    from roles r order by r.ord), ',') end as grants,
  null as unhashed
from exposed c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef ad on ad.adrelid = a.attrelid and ad.adnum = a.attnum
left join pg_description d on d.classoid = 'pg_class'::regclass and d.objoid = c.oid and d.objsubid = a.attnum
order by a.attrelid, a.attnum`

// typesQuery follows the types of columns, arguments and results to those they are made of.
const typesQuery = `
with recursive ` + exposed + `, ` + callable + `, direct (oid) as (
  select a.atttypid from exposed c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  union select reltype from exposed where reltype <> 0
  union select prorettype from callable
  union select unnest(coalesce(proallargtypes, proargtypes::oid[])) from callable
), used (oid) as (
  select oid from direct
  union
  select x.oid
  from used u
  join pg_type t on t.oid = u.oid
  cross join lateral (
    select t.typelem where t.typelem <> 0
    union all select t.typbasetype where t.typbasetype <> 0
    union all select a.atttypid from pg_attribute a
      where t.typrelid <> 0 and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
  ) x (oid)
)
select t.oid, n.nspname, t.typname, format_type(t.oid, -1) as sql, t.typtype,
  t.typsubscript = 'array_subscript_handler'::regproc as is_array, t.typcategory, t.typelem, t.typbasetype,
  t.typnotnull, t.typtypmod, t.typdefault, t.typrelid,
  case when t.typtype = 'e' then array_to_json(array(
    select e.enumlabel from pg_enum e where e.enumtypid = t.oid order by e.enumsortorder)) end as labels,
  case when t.typrelid <> 0 and t.typrelid not in (select oid from exposed) then array_to_json(array(
    select json_build_array(a.attname, a.atttypid::text) from pg_attribute a
    where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped order by a.attnum)) end as attributes,
  d.description,
  null as unhashed
from used u
join pg_type t on t.oid = u.oid
join pg_namespace n on n.oid = t.typnamespace
left join pg_description d on d.classoid = 'pg_type'::regclass and d.objoid = t.oid and d.objsubid = 0
order by t.oid`

// uniquesQuery leaves out indexes with expressions, which say nothing about columns, and those being built.
const uniquesQuery = `
with ` + exposed + `, ` + sources + `
select i.indrelid, x.relname, array_to_string((i.indkey::int2[])[0:i.indnkeyatts - 1], ',') as columns, i.indisprimary,
  case when i.indpred is not null and i.indrelid <> all ($2::oid[]) then pg_get_expr(i.indpred, i.indrelid) end as predicate,
  i.indpred is not null as partial, i.indnullsnotdistinct, i.indimmediate,
  null as unhashed
from sources s
join pg_index i on i.indrelid = s.oid
join pg_class x on x.oid = i.indexrelid
where i.indisunique and i.indisvalid and i.indisready and i.indexprs is null
  and (i.indisprimary or not i.indisexclusion)
order by i.indrelid, not i.indisprimary, x.relname`

// foreignKeysQuery leaves out keys over periods, whose columns are not compared by equality.
const foreignKeysQuery = `
with ` + exposed + `, ` + sources + `
select k.oid, k.conname, k.conrelid, k.confrelid, array_to_string(k.conkey, ',') as columns,
  array_to_string(k.confkey, ',') as referenced, k.conparentid,
  null as unhashed
from pg_constraint k
where k.contype = 'f'
  and k.conrelid in (select oid from sources) and k.confrelid in (select oid from sources)
  and coalesce(to_jsonb(k) ->> 'conperiod', 'false') = 'false'
order by k.oid`

// rulesQuery reads the queries of the exposed views and of the views that other views read.
const rulesQuery = `
with ` + exposed + `, ` + sources + `
select r.ev_class, r.ev_action,
  null as unhashed
from pg_rewrite r
join pg_class c on c.oid = r.ev_class
where r.rulename = '_RETURN' and c.relkind in ('v', 'm') and r.ev_class in (select oid from sources)
order by r.ev_class`

const functionsQuery = `
with ` + callable + `, ` + roles + `
select p.oid, p.nspname, p.proname, p.prokind, p.provolatile, p.proretset, p.proretset and p.prorows = 1 as single,
  p.prorettype, p.pronargdefaults,
  array_to_string(coalesce(p.proallargtypes, p.proargtypes::oid[]), ',') as types,
  array_to_string(p.proargmodes, '') as modes,
  array_to_json(p.proargnames) as names,
  d.description,
  array_to_string(array(
    select case when has_schema_privilege(r.oid, p.pronamespace, 'usage')
      then coalesce(16 * has_function_privilege(r.oid, p.oid, 'execute')::int, 0) else 0 end
    from roles r order by r.ord), ',') as grants,
  null as unhashed
from callable p
left join pg_description d on d.classoid = 'pg_proc'::regclass and d.objoid = p.oid and d.objsubid = 0
order by p.oid`

// lockedQuery finds the relations that a session is changing.
const lockedQuery = `
select l.relation
from pg_catalog.pg_locks l
where l.locktype = 'relation' and l.mode = 'AccessExclusiveLock' and l.granted
  and l.database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())`
