package schematools

var performanceAdvisors = []advisor{
	// An index helps when its first columns are the key's, in whatever order.
	{"performance", "warning", "unindexed_foreign_key", `
select r.oid, r.name, format('foreign key %I (%s) has no index: joins by it, and deletes and updates of %s, read the whole table', k.conname, x.columns, k.confrelid::regclass),
  format('create index on %s (%s)', r.name, x.columns),
  case when r.relkind = 'r' and r.reltuples between 0 and 1000 then 'info' else '' end
from relations r
join pg_constraint k on k.conrelid = r.oid and k.contype = 'f' and k.conparentid = 0
cross join lateral (
  select string_agg(quote_ident(a.attname), ', ' order by u.ord) as columns
  from unnest(k.conkey) with ordinality u (attnum, ord)
  join pg_attribute a on a.attrelid = k.conrelid and a.attnum = u.attnum
) x
where not exists (
  select from pg_index i
  where i.indrelid = r.oid and i.indisvalid and i.indpred is null and i.indnkeyatts >= cardinality(k.conkey)
    and (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey)`},

	{"performance", "warning", "invalid_index", `
select r.oid, i.indexrelid::regclass::text, 'the index on ' || r.name || ' is not used by queries and still slows writes down: building it failed or is under way',
  'reindex index ' || i.indexrelid::regclass || '; or drop index ' || i.indexrelid::regclass, ''
from relations r
join pg_index i on i.indrelid = r.oid and not i.indisvalid
where r.relkind in ('r', 'm')`},

	// Of equal indexes the one that a constraint needs stays, else the first by name.
	{"performance", "warning", "duplicate_index", `
select r.oid, x.drop::regclass::text, 'the index on ' || r.name || ' is the same as ' || x.keep::regclass,
  'drop index ' || x.drop::regclass, ''
from relations r
cross join lateral (
  select i.indexrelid as drop, first_value(i.indexrelid) over same as keep, row_number() over same as place,
    exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x')) as needed
  from pg_index i
  join pg_class c on c.oid = i.indexrelid
  where i.indrelid = r.oid and i.indisvalid and not c.relispartition
  window same as (
    partition by c.relam, i.indkey::text, i.indclass::text, i.indcollation::text, i.indoption::text, i.indnkeyatts,
      pg_get_expr(i.indexprs, i.indrelid), pg_get_expr(i.indpred, i.indrelid)
    order by exists (select from pg_constraint k where k.conindid = i.indexrelid and k.contype in ('p', 'u', 'x')) desc, i.indisunique desc, c.relname)
) x
where x.place > 1 and not x.needed`},

	// A table that is hardly used says nothing about its indexes.
	{"performance", "info", "unused_index", `
select r.oid, s.indexrelid::regclass::text, format('the index on %s was not used%s, while the table was read %s times; it takes %s and slows writes down', r.name,
    coalesce(' since ' || to_char(d.stats_reset, 'YYYY-MM-DD'), ''), t.seq_scan + coalesce(t.idx_scan, 0), pg_size_pretty(pg_relation_size(s.indexrelid))),
  'drop index ' || s.indexrelid::regclass || ', if replicas do not use it either', ''
from relations r
join pg_stat_user_tables t on t.relid = r.oid
join pg_stat_user_indexes s on s.relid = r.oid and s.idx_scan = 0
join pg_index i on i.indexrelid = s.indexrelid and i.indisvalid and not i.indisunique
left join pg_stat_database d on d.datname = current_database()
where t.seq_scan + coalesce(t.idx_scan, 0) >= 100 and pg_relation_size(s.indexrelid) > 65536
  and not exists (select from pg_constraint k where k.conindid = i.indexrelid)`},

	{"performance", "warning", "no_primary_key", `
select r.oid, r.name, 'the table has no primary key: single records cannot be addressed, and logical replication cannot update them',
  'alter table ' || r.name || ' add column id bigint generated always as identity primary key', ''
from relations r
where r.relkind in ('r', 'p') and not r.relispartition and not exists (select from pg_index i where i.indrelid = r.oid and i.indisprimary)`},

	// The column that a sequence belongs to may be narrower than the sequence.
	{"performance", "warning", "sequence_near_end", `
select coalesce(o.refobjid, 0), s.seqrelid::regclass::text, format('the sequence has given out %s of %s numbers', q.last_value, x.most),
  case when s.seqcycle then 'see that the numbers that come again are free'
    when o.refobjid is null then format('alter sequence %s as bigint', s.seqrelid::regclass)
    else format('alter table %s alter column %I type bigint; alter sequence %s as bigint', o.refobjid::regclass, a.attname, s.seqrelid::regclass) end,
  case when q.last_value::numeric / x.most >= 0.9 then 'error' else '' end
from pg_sequence s
join pg_class c on c.oid = s.seqrelid
join pg_namespace n on n.oid = c.relnamespace
join pg_sequences q on q.schemaname = n.nspname and q.sequencename = c.relname
left join pg_depend o on o.classid = 'pg_class'::regclass and o.objid = c.oid and o.deptype in ('a', 'i') and o.refclassid = 'pg_class'::regclass and o.refobjsubid > 0
left join pg_attribute a on a.attrelid = o.refobjid and a.attnum = o.refobjsubid
cross join lateral (
  select least(s.seqmax, case a.atttypid when 'int4'::regtype then 2147483647 when 'int2'::regtype then 32767 else s.seqmax end) as most
) x
where n.nspname = any ($1::text[]) and s.seqincrement > 0 and q.last_value::numeric / x.most >= 0.75`},

	{"performance", "warning", "dead_rows", `
select r.oid, r.name, format('%s of %s rows are dead and not yet removed%s', t.n_dead_tup, t.n_live_tup + t.n_dead_tup,
    coalesce(', last vacuum ' || to_char(greatest(t.last_vacuum, t.last_autovacuum), 'YYYY-MM-DD HH24:MI'), ', never vacuumed')),
  'vacuum (analyze) ' || r.name || ', outside of a transaction; look for transactions that have been open for long', ''
from relations r
join pg_stat_user_tables t on t.relid = r.oid
where t.n_dead_tup > 10000 and t.n_dead_tup > 0.2 * (t.n_live_tup + t.n_dead_tup)`},

	{"performance", "info", "never_analyzed", `
select r.oid, r.name, 'the planner knows nothing about the rows of the table', 'analyze ' || r.name, ''
from relations r
join pg_stat_user_tables t on t.relid = r.oid
where r.relkind = 'r' and r.reltuples < 0 and pg_relation_size(r.oid) > 0 and t.last_analyze is null and t.last_autoanalyze is null and t.n_live_tup >= 1000`},

	{"performance", "warning", "transaction_ids", `
select r.oid, r.name, format('the oldest transaction id of the table is %s back, of 2.1 billion at most: autovacuum does not keep up', age(r.relfrozenxid)),
  'vacuum (freeze) ' || r.name || ', outside of a transaction', case when age(r.relfrozenxid) > 1500000000 then 'error' else '' end
from relations r
where r.relkind in ('r', 'm') and age(r.relfrozenxid) > 1000000000`},

	{"performance", "info", "constraint_not_validated", `
select r.oid, r.name, format('constraint %I was not checked for the rows that were there before it, and the planner does not rely on it', k.conname),
  format('alter table %s validate constraint %I', r.name, k.conname), ''
from relations r
join pg_constraint k on k.conrelid = r.oid and not k.convalidated`},

	// A function in a policy is called once a row, unless a subquery makes it once a statement.
	{"performance", "info", "policy_calls_per_row", `
select r.oid, r.name, format('policy %I computes who the caller is for each row: %s', p.polname, left(x.expression, 200)),
  'write (select auth.uid()) instead of auth.uid(), and likewise for auth.jwt(), auth.role() and current_setting(…)', ''
from relations r
join pg_policy p on p.polrelid = r.oid
cross join lateral (select concat_ws(' ', pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)) as expression) x
where regexp_replace(x.expression, 'select\s+(auth\.(uid|jwt|role|email|scopes)\(\)|current_setting\()', '', 'gi') ~ '(auth\.(uid|jwt|role|email|scopes)\(\)|current_setting\()'`},

	{"performance", "info", "many_permissive_policies", `
select r.oid, r.name, format('%s permissive policies for %s apply to %s at once; each is computed for each row', count(*), c.command, x.name),
  'join ' || string_agg(quote_ident(p.polname), ', ' order by p.polname) || ' into one policy with or', ''
from relations r
cross join (values ('r'::"char", 'select'), ('a', 'insert'), ('w', 'update'), ('d', 'delete')) c (cmd, command)
cross join callers x
join pg_policy p on p.polrelid = r.oid and p.polpermissive and p.polcmd in (c.cmd, '*') and (0 = any (p.polroles) or x.oid = any (p.polroles))
where r.relrowsecurity
group by r.oid, r.name, c.command, x.name
having count(*) > 1`},
}
