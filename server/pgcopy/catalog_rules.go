package pgcopy

// readRules reads what changes the meaning of statements: rules, triggers and
// row security.
func (r *reader) readRules() error {
	mine := own("pg_class", "c") + " and " + lasting("c.relnamespace")
	err := r.query(stageRules, `
		select 'pg_rewrite'::regclass, w.oid, array[rtrim(pg_get_ruledef(w.oid), ';'),
			`+enabled("'alter table ' || c.oid::regclass", "w.ev_enabled", "format(' rule %I', w.rulename)")+`]
		from pg_rewrite w
		join pg_class c on c.oid = w.ev_class
		where (w.rulename <> '_RETURN' or c.relkind not in ('v', 'm')) and `+mine, nil)
	if err != nil {
		return err
	}
	err = r.query(stageRules, `
		select 'pg_trigger'::regclass, t.oid, array[pg_get_triggerdef(t.oid),
			`+enabled("'alter table ' || case when c.relkind <> 'p' then 'only ' else '' end || c.oid::regclass", "t.tgenabled", "format(' trigger %I', t.tgname)")+`]
		from pg_trigger t
		join pg_class c on c.oid = t.tgrelid
		where not t.tgisinternal and t.tgparentid = 0 and `+mine, nil)
	if err != nil {
		return err
	}
	// A trigger of a partitioned table is also one of its partitions, but may
	// be switched there. It has to happen after the switch of the whole.
	err = r.extras(stageRefresh, "partition trigger", `
		select format('%I on %s', t.tgname, c.oid::regclass), array[format('alter table only %s %s trigger %I', c.oid::regclass,
				case t.tgenabled when 'D' then 'disable' when 'R' then 'enable replica' when 'A' then 'enable always' else 'enable' end, t.tgname)],
			'pg_class'::regclass::oid, c.oid, 'pg_trigger'::regclass::oid, p.oid
		from pg_trigger t
		join pg_trigger p on p.oid = t.tgparentid
		join pg_class c on c.oid = t.tgrelid
		where not t.tgisinternal and t.tgenabled <> p.tgenabled and `+mine)
	if err != nil {
		return err
	}
	err = r.extras(stageRules, "row security", `
		select c.oid::regclass::text, array_remove(array[
				case when c.relrowsecurity then format('alter table %s enable row level security', c.oid::regclass) end,
				case when c.relforcerowsecurity then format('alter table only %s force row level security', c.oid::regclass) end], null),
			'pg_class'::regclass::oid, c.oid, 0::oid, 0::oid
		from pg_class c
		where (c.relrowsecurity or c.relforcerowsecurity) and `+mine)
	if err != nil {
		return err
	}
	return r.query(stageRules, `
		select 'pg_policy'::regclass, p.oid, array[format('create policy %I on %s', p.polname, c.oid::regclass)
			|| case when p.polpermissive then '' else ' as restrictive' end
			|| case p.polcmd when 'r' then ' for select' when 'a' then ' for insert' when 'w' then ' for update' when 'd' then ' for delete' else '' end
			|| ' to ' || (select string_agg(case o when 0 then 'public' else quote_ident(pg_get_userbyid(o)) end, ', ' order by pg_get_userbyid(o)) from unnest(p.polroles) o)
			|| coalesce(' using (' || pg_get_expr(p.polqual, p.polrelid) || ')', '')
			|| coalesce(' with check (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', '')]
		from pg_policy p
		join pg_class c on c.oid = p.polrelid
		where `+mine, nil)
}

// enabled is an expression for the statement that switches a rule or trigger,
// or null if it is as usual.
func enabled(alter, state, what string) string {
	return `case when ` + state + ` <> 'O' then ` + alter + ` || ' ' ||
		case ` + state + ` when 'D' then 'disable' when 'R' then 'enable replica' else 'enable always' end || ` + what + ` end`
}

// readPublications reads publications with their tables and schemas.
func (r *reader) readPublications() error {
	return r.query(stageRules, `
		select 'pg_publication'::regclass, p.oid, array[format('create publication %I%s with (publish = %L, publish_via_partition_root = %s%s)', p.pubname,
				case when p.puballtables then ' for all tables' end,
				concat_ws(', ', case when p.pubinsert then 'insert' end, case when p.pubupdate then 'update' end,
					case when p.pubdelete then 'delete' end, case when p.pubtruncate then 'truncate' end),
				p.pubviaroot::text,
				case when to_jsonb(p)->>'pubgencols' = 's' then ', publish_generated_columns = stored' end)]
			|| array(
				select format('alter publication %I add table only %s', p.pubname, t.prrelid::regclass)
					|| coalesce((select ' (' || string_agg(quote_ident(a.attname), ', ' order by a.attname) || ')'
						from pg_attribute a where a.attrelid = t.prrelid and a.attnum = any (t.prattrs)), '')
					|| coalesce(' where (' || pg_get_expr(t.prqual, t.prrelid) || ')', '')
				from pg_publication_rel t
				where t.prpubid = p.oid
				order by t.prrelid::regclass::text)
			|| array(
				select format('alter publication %I add tables in schema %s', p.pubname, s.pnnspid::regnamespace)
				from pg_publication_namespace s
				where s.pnpubid = p.oid
				order by s.pnnspid::regnamespace::text)
		from pg_publication p
		where `+own("pg_publication", "p"), nil)
}

// readTriggers reads event triggers, which come last of all.
func (r *reader) readTriggers() error {
	return r.query(stageTriggers, `
		select 'pg_event_trigger'::regclass, t.oid, array[format('create event trigger %I on %I%s execute function %s()', t.evtname, t.evtevent,
				(select ' when tag in (' || string_agg(quote_literal(tag), ', ' order by tag) || ')' from unnest(t.evttags) tag),
				t.evtfoid::regproc),
			`+enabled("format('alter event trigger %I', t.evtname)", "t.evtenabled", "''")+`]
		from pg_event_trigger t
		where `+own("pg_event_trigger", "t"), nil)
}
