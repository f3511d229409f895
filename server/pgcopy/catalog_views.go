package pgcopy

import "github.com/jackc/pgx/v5"

// matview is a materialised view.
type matview struct {
	addr
	name      string // quoted
	populated bool   // refreshed once, at least
}

// readViews reads views and materialised views.
func (r *reader) readViews() error {
	mine := own("pg_class", "c") + " and " + lasting("c.relnamespace")
	const with = `coalesce((select ' with (' || string_agg(format('%I = %L', option_name, option_value), ', ' order by option_name) || ')'
		from pg_options_to_table(c.reloptions)), '')`
	err := r.query(stageSchema, `
		select 'pg_class'::regclass, c.oid, array[format('create or replace view %s', c.oid::regclass) || `+with+`
			|| E' as\n' || rtrim(pg_get_viewdef(c.oid), ';')]
		from pg_class c
		where c.relkind = 'v' and `+mine, nil)
	if err != nil {
		return err
	}
	rows, err := r.conn.Query(r.ctx, `
		select c.oid, format('create view %s as select %s', c.oid::regclass,
			(select string_agg(format('null::%s%s as %I', format_type(a.atttypid, a.atttypmod),
				case when a.attcollation not in (0, b.typcollation) then ' collate ' || a.attcollation::regcollation end, a.attname), ', ' order by a.attnum)
			from pg_attribute a join pg_type b on b.oid = a.atttypid where a.attrelid = c.oid and a.attnum > 0))
		from pg_class c
		where c.relkind = 'v' and `+mine)
	if err != nil {
		return err
	}
	view := addr{class: classRelation}
	var draft string
	_, err = pgx.ForEachRow(rows, []any{&view.id, &draft}, func() error {
		r.at[view].draft = []string{draft}
		return nil
	})
	if err != nil {
		return err
	}

	err = r.query(stageSchema, `
		select 'pg_class'::regclass, c.oid, array[format('create materialized view %s', c.oid::regclass)
				|| coalesce((select format(' using %I', amname) from pg_am where oid = c.relam and amname <> 'heap'), '')
				|| `+with+`
				|| coalesce((select format(' tablespace %I', spcname) from pg_tablespace where oid = c.reltablespace), '')
				|| E' as\n' || rtrim(pg_get_viewdef(c.oid), ';') || E'\nwith no data']
			|| array(
				select format('alter materialized view %s alter column ', c.oid::regclass) || change
				from pg_attribute a
				join pg_type b on b.oid = a.atttypid,
				lateral (values
					(1, case when a.attstorage <> b.typstorage then format('%I set storage %s', a.attname,
						case a.attstorage when 'p' then 'plain' when 'e' then 'external' when 'm' then 'main' else 'extended' end) end),
					(2, case when a.attcompression <> '' then format('%I set compression %s', a.attname,
						case a.attcompression when 'p' then 'pglz' else 'lz4' end) end),
					(3, case when a.attstattarget >= 0 then format('%I set statistics %s', a.attname, a.attstattarget) end),
					(4, (select format('%I set (%s)', a.attname, string_agg(format('%I = %L', option_name, option_value), ', ' order by option_name))
						from pg_options_to_table(a.attoptions) where option_name !~ '^pg_' having count(*) > 0))
				) as changes (number, change)
				where a.attrelid = c.oid and a.attnum > 0 and change is not null
				order by a.attname, number)
		from pg_class c
		where c.relkind = 'm' and `+mine, nil)
	if err != nil {
		return err
	}
	rows, err = r.conn.Query(r.ctx, `
		select c.tableoid::oid, c.oid, c.oid::regclass::text, c.relispopulated
		from pg_class c
		where c.relkind = 'm' and `+mine)
	if err != nil {
		return err
	}
	var m matview
	_, err = pgx.ForEachRow(rows, []any{&m.class, &m.id, &m.name, &m.populated}, func() error {
		r.views = append(r.views, m)
		return nil
	})
	return err
}
