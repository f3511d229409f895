package pgcopy

import "github.com/jackc/pgx/v5"

// readSequences reads sequences except those of identity columns.
func (r *reader) readSequences() error {
	err := r.query(stageSchema, `
		select 'pg_class'::regclass, c.oid, array[format('create %ssequence %s as %s %s',
			case c.relpersistence when 'u' then 'unlogged ' end, c.oid::regclass, s.seqtypid::regtype, `+sequenceOptions+`)]
		from pg_class c join pg_sequence s on s.seqrelid = c.oid
		where `+own("pg_class", "c")+" and "+lasting("c.relnamespace")+`
			and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i')`, nil)
	if err != nil {
		return err
	}
	return r.extras(stageSchema, "owned sequence", `
		select c.oid::regclass::text, array[format('alter sequence %s owned by %s.%I', c.oid::regclass, t.oid::regclass, a.attname)],
			'pg_class'::regclass::oid, c.oid, 'pg_class'::regclass::oid, t.oid
		from pg_depend d
		join pg_class c on c.oid = d.objid and d.classid = 'pg_class'::regclass and c.relkind = 'S'
		join pg_class t on t.oid = d.refobjid and d.refclassid = 'pg_class'::regclass
		join pg_attribute a on a.attrelid = t.oid and a.attnum = d.refobjsubid
		where d.deptype = 'a' and `+own("pg_class", "c")+" and "+lasting("c.relnamespace"))
}

// sequenceOptions is an expression for the options of a sequence s.
const sequenceOptions = `concat_ws(' ', 'start with', s.seqstart, 'increment by', s.seqincrement,
	'minvalue', s.seqmin, 'maxvalue', s.seqmax, 'cache', s.seqcache, case when s.seqcycle then 'cycle' end)`

// extras adds parts of objects that are created on their own. sql yields an
// identity, statements, and the addresses of two objects that are needed.
func (r *reader) extras(st stage, kind, sql string) error {
	rows, err := r.conn.Query(r.ctx, sql)
	if err != nil {
		return err
	}
	var identity string
	var create []string
	var a, b addr
	_, err = pgx.ForEachRow(rows, []any{&identity, &create, &a.class, &a.id, &b.class, &b.id}, func() error {
		it := r.add(&item{kind: kind, identity: identity, create: create, stage: st})
		r.require(it, a)
		r.require(it, b)
		create = nil
		return nil
	})
	return err
}

// require makes an object come after another.
func (r *reader) require(it *item, a addr) {
	if p := r.provider(a); p != nil && p != it {
		it.needs = append(it.needs, p)
	}
}

// readTables reads tables, foreign and partitioned ones too. A partition is
// created like a table of its own and attached then, so that its columns keep
// their order. Of another child only the columns of its own are listed.
//
// Conditions on rows are objects of their own, since they may need functions
// that need the table, but not if the table has parents or children: these
// must agree from the beginning.
func (r *reader) readTables() error {
	if err := r.query(stageSchema, tablesSQL, nil); err != nil {
		return err
	}
	return r.query(stageSchema, `
		select 'pg_attrdef'::regclass, d.oid, array[format('alter %s %s alter column %I set default %s',
			case c.relkind when 'v' then 'view' when 'f' then 'foreign table only' else 'table only' end, c.oid::regclass, a.attname, pg_get_expr(d.adbin, d.adrelid))]
		from pg_attrdef d
		join pg_class c on c.oid = d.adrelid
		join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
		where a.attgenerated = '' and `+own("pg_class", "c")+" and "+lasting("c.relnamespace"), nil)
}

var tablesSQL = `
with tables as (
	select c.*, exists (select from pg_inherits i where i.inhrelid = c.oid) and not c.relispartition as is_child,
		c.relkind = 'p' or exists (select from pg_inherits i where c.oid in (i.inhrelid, i.inhparent)) as related,
		format('alter %stable only %s alter column ', case c.relkind when 'f' then 'foreign ' end, c.oid::regclass) as alter_column
	from pg_class c
	where c.relkind in ('r', 'p', 'f') and ` + own("pg_class", "c") + " and " + lasting("c.relnamespace") + `
), columns as (
	select a.*, t.is_child, t.relispartition, t.relkind, t.alter_column, b.typstorage, b.typcollation, j.*,
		case when a.attgenerated <> '' then pg_get_expr(d.adbin, d.adrelid) end as generated,
		a.attislocal or t.relispartition or a.attgenerated <> '' and exists (
			select from pg_inherits i
			join pg_attribute p on p.attrelid = i.inhparent and p.attname = a.attname
			left join pg_attrdef pd on pd.adrelid = p.attrelid and pd.adnum = p.attnum
			where i.inhrelid = a.attrelid and pg_get_expr(pd.adbin, pd.adrelid) is distinct from pg_get_expr(d.adbin, d.adrelid)) as listed
	from tables t
	join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
	join pg_type b on b.oid = a.atttypid
	left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
	left join lateral (
		-- from version 18 on
		select n.conname as notnull_name, n.conislocal as notnull_local, n.connoinherit as notnull_no_inherit
		from pg_constraint n
		where n.conrelid = a.attrelid and n.contype = 'n' and n.conkey[1] = a.attnum and n.convalidated
	) j on true
), lines as (
	select attrelid, attnum::int as position, format('%I %s', attname, format_type(atttypid, atttypmod))
		|| ` + options("attfdwoptions") + `
		|| case when attcollation not in (0, typcollation) then ' collate ' || attcollation::regcollation else '' end
		|| case when attgenerated = '' then '' else format(' generated always as (%s) %s', generated, case attgenerated when 's' then 'stored' else 'virtual' end) end
		|| case
			when notnull_name is null then case when attnotnull and current_setting('server_version_num')::int < 180000 then ' not null' else '' end
			when notnull_local or relispartition then format(' constraint %I not null%s', notnull_name, case when notnull_no_inherit then ' no inherit' end)
			else '' end as line
	from columns
	where listed
	union all
	select attrelid, 2000 + attnum, format('constraint %I not null %I', notnull_name, attname)
	from columns
	where not listed and notnull_local
	union all
	select o.conrelid, 4000 + row_number() over (order by o.conname), format('constraint %I %s', o.conname, pg_get_constraintdef(o.oid))
	from pg_constraint o join tables t on t.oid = o.conrelid
	where o.contype = 'c' and o.convalidated and t.related and (o.conislocal or t.relispartition)
)
select 'pg_class'::regclass, t.oid, array[
		format('create %s %s (', case when t.relkind = 'f' then 'foreign table' when t.relpersistence = 'u' then 'unlogged table' else 'table' end, t.oid::regclass)
		|| coalesce((select string_agg(E'\n\t' || line, ',' order by position) || E'\n' from lines where attrelid = t.oid), '') || ')'
		|| case when t.is_child then ' inherits (' ||
			(select string_agg(inhparent::regclass::text, ', ' order by inhseqno) from pg_inherits where inhrelid = t.oid) || ')' else '' end
		|| case when t.relkind = 'p' then ' partition by ' || pg_get_partkeydef(t.oid) else '' end
		|| case when t.relkind = 'f' then (select format(' server %I', s.srvname) || ` + options("f.ftoptions") + `
			from pg_foreign_table f join pg_foreign_server s on s.oid = f.ftserver where f.ftrelid = t.oid) else '' end
		|| coalesce((select format(' using %I', amname) from pg_am where oid = t.relam and amname <> 'heap'), '')
		|| coalesce((select ' with (' || string_agg(format('%s%I = %L', prefix, option_name, option_value), ', ' order by prefix, option_name) || ')'
			from (select '' as prefix, o.* from pg_options_to_table(t.reloptions) o
				union all
				select 'toast.', o.* from pg_class toast, pg_options_to_table(toast.reloptions) o where toast.oid = t.reltoastrelid) o), '')
		|| coalesce((select format(' tablespace %I', spcname) from pg_tablespace where oid = t.reltablespace), ''),
		case when t.reloftype <> 0 then format('alter table %s of %s', t.oid::regclass, t.reloftype::regtype) end
	]
	|| array(
		select format('alter table %s alter column %I add generated %s as identity (sequence name %s %s)', t.oid::regclass, a.attname,
			case a.attidentity when 'a' then 'always' else 'by default' end, s.seqrelid::regclass, ` + sequenceOptions + `)
		from columns a
		join pg_depend d on d.refclassid = 'pg_class'::regclass and d.refobjid = a.attrelid and d.refobjsubid = a.attnum
			and d.classid = 'pg_class'::regclass and d.deptype = 'i'
		join pg_sequence s on s.seqrelid = d.objid
		where a.attrelid = t.oid and a.attidentity <> ''
		order by a.attnum)
	|| array(
		select a.alter_column || change
		from columns a,
		lateral (values
			(1, case when a.attstorage <> a.typstorage or a.is_child then format('%I set storage %s', a.attname,
				case a.attstorage when 'p' then 'plain' when 'e' then 'external' when 'm' then 'main' else 'extended' end) end),
			(2, case when a.attcompression <> '' or a.is_child and a.attstorage <> 'p' and a.relkind <> 'f' then format('%I set compression %s', a.attname,
				case a.attcompression when 'p' then 'pglz' when 'l' then 'lz4' else 'default' end) end),
			(3, case when a.attstattarget >= 0 then format('%I set statistics %s', a.attname, a.attstattarget) end),
			(4, (select format('%I set (%s)', a.attname, string_agg(format('%I = %L', option_name, option_value), ', ' order by option_name))
				-- some releases note versions of their own here, as pg_attver
				from pg_options_to_table(a.attoptions) where option_name !~ '^pg_' having count(*) > 0)),
			(5, case when a.attnotnull and not a.listed and current_setting('server_version_num')::int < 180000
				and not exists (select from pg_inherits i join pg_attribute p on p.attrelid = i.inhparent and p.attname = a.attname and p.attnotnull
					where i.inhrelid = a.attrelid) then format('%I set not null', a.attname) end),
			(6, case when a.is_child and not a.atthasdef
				and exists (select from pg_inherits i join pg_attribute p on p.attrelid = i.inhparent and p.attname = a.attname and p.atthasdef and p.attgenerated = ''
					where i.inhrelid = a.attrelid) then format('%I drop default', a.attname) end)
		) as changes (number, change)
		where a.attrelid = t.oid and change is not null
		order by a.attname, number)
	|| case when t.relispartition then
		array(select format('alter table only %s attach partition %s %s', i.inhparent::regclass, t.oid::regclass, pg_get_expr(t.relpartbound, t.oid))
			from pg_inherits i where i.inhrelid = t.oid and not i.inhdetachpending)
		end
from tables t`
