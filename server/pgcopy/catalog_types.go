package pgcopy

// readTypes reads types and collations.
func (r *reader) readTypes() error {
	lastingOwn := own("pg_type", "t") + " and " + lasting("t.typnamespace")

	err := r.query(stageSchema, `
		select 'pg_type'::regclass, t.oid, array[format('create type %s as enum (%s)', t.oid::regtype,
			(select string_agg(quote_literal(enumlabel), ', ' order by enumsortorder) from pg_enum where enumtypid = t.oid))]
		from pg_type t
		where t.typtype = 'e' and `+lastingOwn, nil)
	if err != nil {
		return err
	}
	err = r.query(stageSchema, `
		select 'pg_type'::regclass, t.oid, array[format(E'create type %s as (\n\t%s\n)', t.oid::regtype,
			(select string_agg(format('%I %s%s', a.attname, format_type(a.atttypid, a.atttypmod), c2.clause), E',\n\t' order by a.attnum)
			from pg_attribute a
			join pg_type b on b.oid = a.atttypid
			cross join lateral (select case when a.attcollation not in (0, b.typcollation) then
				' collate ' || a.attcollation::regcollation end) as c2 (clause)
			where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped))]
		from pg_type t
		join pg_class c on c.oid = t.typrelid
		where t.typtype = 'c' and c.relkind = 'c' and `+lastingOwn, nil)
	if err != nil {
		return err
	}
	// Constraints that rows need not satisfy yet come later, as objects of
	// their own. From version 17 on NOT NULL has a row in pg_constraint.
	err = r.query(stageSchema, `
		select 'pg_type'::regclass, t.oid, array[format('create domain %s as %s', t.oid::regtype, format_type(t.typbasetype, t.typtypmod))
			|| case when t.typcollation <> b.typcollation then ' collate ' || t.typcollation::regcollation else '' end
			|| coalesce(' default ' || pg_get_expr(t.typdefaultbin, 'pg_type'::regclass), '')
			|| case when t.typnotnull then coalesce(
				(select format(' constraint %I', conname) from pg_constraint where contypid = t.oid and contype = 'n'), '') || ' not null' else '' end
			|| coalesce((select string_agg(format(E'\n\tconstraint %I %s', conname, pg_get_constraintdef(oid)), '' order by conname)
				from pg_constraint where contypid = t.oid and contype = 'c' and convalidated), '')]
		from pg_type t
		join pg_type b on b.oid = t.typbasetype
		where t.typtype = 'd' and `+lastingOwn, nil)
	if err != nil {
		return err
	}
	err = r.query(stageIndexes, `
		select 'pg_constraint'::regclass, c.oid,
			array[format('alter domain %s add constraint %I %s', t.oid::regtype, c.conname, pg_get_constraintdef(c.oid))]
		from pg_constraint c join pg_type t on t.oid = c.contypid
		where c.contype = 'c' and not c.convalidated and `+lastingOwn, nil)
	if err != nil {
		return err
	}
	err = r.query(stageSchema, `
		select 'pg_type'::regclass, t.oid, array[format('create type %s as range (%s)', t.oid::regtype, concat_ws(', ',
			'subtype = ' || format_type(g.rngsubtype, null),
			case when not o.opcdefault then format('subtype_opclass = %s.%I', o.opcnamespace::regnamespace, o.opcname) end,
			case when g.rngcollation not in (0, s.typcollation) then 'collation = ' || g.rngcollation::regcollation end,
			case when g.rngsubdiff <> 0 then 'subtype_diff = ' || g.rngsubdiff::regproc end,
			'multirange_type_name = ' || g.rngmultitypid::regtype))]
		from pg_type t
		join pg_range g on g.rngtypid = t.oid
		join pg_type s on s.oid = g.rngsubtype
		join pg_opclass o on o.oid = g.rngsubopc
		where g.rngcanonical = 0 and `+lastingOwn, nil)
	if err != nil {
		return err
	}
	err = r.query(stageSchema, `
		select 'pg_type'::regclass, t.oid, array[format('create type %s', t.oid::regtype)]
		from pg_type t
		where t.typtype = 'p' and not t.typisdefined and `+lastingOwn, nil)
	if err != nil {
		return err
	}
	// The columns' names depend on the version, hence the detour.
	return r.query(stageSchema, `
		select 'pg_collation'::regclass, c.oid, array[format('create collation %s (%s)', c.oid::regcollation, concat_ws(', ',
			'provider = ' || case c.collprovider when 'i' then 'icu' when 'b' then 'builtin' when 'c' then 'libc' else 'default' end,
			'locale = ' || quote_literal(coalesce(j->>'colllocale', j->>'colliculocale')),
			'lc_collate = ' || quote_literal(c.collcollate),
			'lc_ctype = ' || quote_literal(c.collctype),
			'rules = ' || quote_literal(j->>'collicurules'),
			case when not c.collisdeterministic then 'deterministic = false' end))]
		from pg_collation c, to_jsonb(c) j
		where `+own("pg_collation", "c")+" and "+lasting("c.collnamespace"), nil)
}
