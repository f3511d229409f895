package pgcopy

// inTablespace wraps a statement that cannot name its index's tablespace.
func inTablespace(statement, tablespace string) string {
	return `array[
		(select format('set default_tablespace = %I', spcname) from pg_tablespace where oid = ` + tablespace + `),
		` + statement + `,
		(select 'set default_tablespace = ''''' from pg_tablespace where oid = ` + tablespace + `)]`
}

// indexColumns is an expression for the statements that set what the definition
// of the index x does not say.
const indexColumns = `array(
	select format('alter index %s alter column %s set statistics %s', x.oid::regclass, a.attnum, a.attstattarget)
	from pg_attribute a
	where a.attrelid = x.oid and a.attstattarget >= 0
	order by a.attnum)`

// readConstraints reads the constraints of tables that are not part of the
// table's or domain's definition.
func (r *reader) readConstraints() error {
	mine := own("pg_class", "c") + " and " + lasting("c.relnamespace")
	err := r.query(stageIndexes, `
		select 'pg_constraint'::regclass, o.oid,
			`+inTablespace(`format('alter table only %s add constraint %I %s', c.oid::regclass, o.conname, pg_get_constraintdef(o.oid))`, "x.reltablespace")+`
			|| (format('alter index %s set (', x.oid::regclass) || `+storageOptions("", "x.reloptions")+` || ')')
			|| `+indexColumns+`
		from pg_constraint o
		join pg_class c on c.oid = o.conrelid
		join pg_class x on x.oid = o.conindid
		join pg_index i on i.indexrelid = x.oid
		where o.contype in ('p', 'u', 'x') and (i.indisvalid or c.relkind = 'p') and `+mine, nil)
	if err != nil {
		return err
	}
	// A constraint of a table with children recurses to them, hence no ONLY.
	err = r.query(stageForeign, `
		select 'pg_constraint'::regclass, o.oid,
			array[format('alter table %s%s add constraint %I %s', case when c.relkind <> 'p' then 'only ' end,
				c.oid::regclass, o.conname, pg_get_constraintdef(o.oid))]
		from pg_constraint o
		join pg_class c on c.oid = o.conrelid
		where o.contype = 'f' and o.conparentid = 0 and `+mine, nil)
	if err != nil {
		return err
	}
	related := `(c.relkind = 'p' or exists (select from pg_inherits i where c.oid in (i.inhrelid, i.inhparent)))`
	add := `
		select 'pg_constraint'::regclass, o.oid,
			array[format('alter table %s add constraint %I %s', c.oid::regclass, o.conname, pg_get_constraintdef(o.oid))]
		from pg_constraint o
		join pg_class c on c.oid = o.conrelid
		where o.conislocal and ` + mine
	if err := r.query(stageSchema, add+` and o.contype = 'c' and o.convalidated and not `+related, nil); err != nil {
		return err
	}
	return r.query(stageForeign, add+` and o.contype in ('c', 'n') and not o.convalidated`, nil)
}

// readIndexes reads indexes that are not a constraint's, and what refers to
// indexes. Invalid ones, left by a failed or unfinished CREATE INDEX
// CONCURRENTLY, are skipped; those of partitioned tables are invalid as long as
// some partition has none.
func (r *reader) readIndexes() error {
	mine := own("pg_class", "c") + " and " + lasting("c.relnamespace")
	err := r.query(stageIndexes, `
		select 'pg_class'::regclass, x.oid, `+inTablespace(`pg_get_indexdef(x.oid)`, "x.reltablespace")+` || `+indexColumns+`
		from pg_index i
		join pg_class x on x.oid = i.indexrelid
		join pg_class c on c.oid = i.indrelid
		where (i.indisvalid or c.relkind = 'p') and i.indisready and i.indislive and `+mine+`
			and not exists (select from pg_constraint o where o.conindid = x.oid and o.conrelid = c.oid and o.contype in ('p', 'u', 'x'))`,
		func(it *item) { it.shared = true })
	if err != nil {
		return err
	}
	err = r.extras(stageLinks, "index attachment", `
		select x.oid::regclass::text, array[format('alter index %s attach partition %s', h.inhparent::regclass, x.oid::regclass)],
			'pg_class'::regclass::oid, x.oid, 'pg_class'::regclass::oid, h.inhparent
		from pg_inherits h
		join pg_class x on x.oid = h.inhrelid and x.relkind in ('i', 'I')
		join pg_index i on i.indexrelid = x.oid
		join pg_class c on c.oid = i.indrelid
		where (i.indisvalid or c.relkind = 'p') and `+mine)
	if err != nil {
		return err
	}
	err = r.extras(stageLinks, "clustering", `
		select c.oid::regclass::text, array[format('alter %s %s cluster on %I', case c.relkind when 'm' then 'materialized view' else 'table' end, c.oid::regclass, x.relname)],
			'pg_class'::regclass::oid, c.oid, 'pg_class'::regclass::oid, x.oid
		from pg_index i
		join pg_class x on x.oid = i.indexrelid
		join pg_class c on c.oid = i.indrelid
		where i.indisclustered and i.indisvalid and `+mine)
	if err != nil {
		return err
	}
	err = r.extras(stageLinks, "replica identity", `
		select c.oid::regclass::text, array[format('alter table only %s replica identity %s', c.oid::regclass,
				case c.relreplident when 'n' then 'nothing' when 'f' then 'full' else format('using index %I', x.relname) end)],
			'pg_class'::regclass::oid, c.oid, 'pg_class'::regclass::oid, coalesce(x.oid, 0)
		from pg_class c
		left join pg_index i on i.indrelid = c.oid and i.indisreplident and c.relreplident = 'i'
		left join pg_class x on x.oid = i.indexrelid
		where c.relkind in ('r', 'p') and c.relreplident <> 'd' and (c.relreplident <> 'i' or x.oid is not null) and `+mine)
	if err != nil {
		return err
	}
	return r.query(stageIndexes, `
		select 'pg_statistic_ext'::regclass, s.oid, array[pg_get_statisticsobjdef(s.oid),
			case when s.stxstattarget >= 0 then format('alter statistics %s.%I set statistics %s', s.stxnamespace::regnamespace, s.stxname, s.stxstattarget) end]
		from pg_statistic_ext s
		join pg_class c on c.oid = s.stxrelid
		where `+mine, func(it *item) { it.shared = true })
}
