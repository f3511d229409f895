package pgcopy

// readRoutines reads functions, procedures and aggregates.
func (r *reader) readRoutines() error {
	// The constructors of a range type come with it.
	mine := own("pg_proc", "p") + " and " + lasting("p.pronamespace") + `
		and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'i')`
	err := r.query(stageSchema, `
		select 'pg_proc'::regclass, p.oid, array[pg_get_functiondef(p.oid)]
		from pg_proc p
		where p.prokind <> 'a' and `+mine, nil)
	if err != nil {
		return err
	}
	return r.query(stageSchema, `
		select 'pg_proc'::regclass, p.oid, array[format(E'create aggregate %s.%I(%s) (\n\t%s\n)',
			p.pronamespace::regnamespace, p.proname,
			coalesce(nullif(pg_get_function_arguments(p.oid), ''), '*'),
			concat_ws(E',\n\t',
				'sfunc = ' || a.aggtransfn::regproc,
				'stype = ' || format_type(a.aggtranstype, null),
				'sspace = ' || nullif(a.aggtransspace, 0),
				'finalfunc = ' || nullif(a.aggfinalfn, 0)::regproc,
				case when a.aggfinalextra then 'finalfunc_extra' end,
				case when a.aggfinalfn <> 0 then 'finalfunc_modify = ' || case a.aggfinalmodify when 'r' then 'read_only' when 's' then 'shareable' else 'read_write' end end,
				'combinefunc = ' || nullif(a.aggcombinefn, 0)::regproc,
				'serialfunc = ' || nullif(a.aggserialfn, 0)::regproc,
				'deserialfunc = ' || nullif(a.aggdeserialfn, 0)::regproc,
				'initcond = ' || quote_literal(a.agginitval),
				'msfunc = ' || nullif(a.aggmtransfn, 0)::regproc,
				'minvfunc = ' || nullif(a.aggminvtransfn, 0)::regproc,
				'mstype = ' || format_type(nullif(a.aggmtranstype, 0), null),
				'msspace = ' || nullif(a.aggmtransspace, 0),
				'mfinalfunc = ' || nullif(a.aggmfinalfn, 0)::regproc,
				case when a.aggmfinalextra then 'mfinalfunc_extra' end,
				case when a.aggmfinalfn <> 0 then 'mfinalfunc_modify = ' || case a.aggmfinalmodify when 'r' then 'read_only' when 's' then 'shareable' else 'read_write' end end,
				'minitcond = ' || quote_literal(a.aggminitval),
				(select format('sortop = operator(%s.%s)', o.oprnamespace::regnamespace, o.oprname) from pg_operator o where o.oid = a.aggsortop),
				case p.proparallel when 's' then 'parallel = safe' when 'r' then 'parallel = restricted' end,
				case when a.aggkind = 'h' then 'hypothetical' end))]
		from pg_proc p join pg_aggregate a on a.aggfnoid = p.oid
		where `+mine, nil)
}

// readOperators reads operators and casts. An operator that was only named as
// the commutator or negator of another has no function and comes with that.
func (r *reader) readOperators() error {
	err := r.query(stageSchema, `
		select 'pg_operator'::regclass, o.oid, array[format(E'create operator %s.%s (\n\t%s\n)',
			o.oprnamespace::regnamespace, o.oprname, concat_ws(E',\n\t',
				'function = ' || o.oprcode::regproc,
				'leftarg = ' || format_type(nullif(o.oprleft, 0), null),
				'rightarg = ' || format_type(nullif(o.oprright, 0), null),
				(select format('commutator = operator(%s.%s)', c.oprnamespace::regnamespace, c.oprname) from pg_operator c where c.oid = o.oprcom),
				(select format('negator = operator(%s.%s)', c.oprnamespace::regnamespace, c.oprname) from pg_operator c where c.oid = o.oprnegate),
				'restrict = ' || nullif(o.oprrest, 0)::regproc,
				'join = ' || nullif(o.oprjoin, 0)::regproc,
				case when o.oprcanhash then 'hashes' end,
				case when o.oprcanmerge then 'merges' end))]
		from pg_operator o
		where o.oprcode <> 0 and `+own("pg_operator", "o")+" and "+lasting("o.oprnamespace"), nil)
	if err != nil {
		return err
	}
	return r.query(stageSchema, `
		select 'pg_cast'::regclass, c.oid, array[format('create cast (%s as %s) %s%s',
			format_type(c.castsource, null), format_type(c.casttarget, null),
			case c.castmethod when 'f' then 'with function ' || c.castfunc::regprocedure when 'i' then 'with inout' else 'without function' end,
			case c.castcontext when 'a' then ' as assignment' when 'i' then ' as implicit' end)]
		from pg_cast c
		where `+own("pg_cast", "c")+`
			and not exists (select from pg_depend d where d.classid = 'pg_cast'::regclass and d.objid = c.oid and d.deptype = 'i')`, nil)
}

// readTextSearch reads the configurations and dictionaries of text search.
func (r *reader) readTextSearch() error {
	err := r.query(stageSchema, `
		select 'pg_ts_dict'::regclass, d.oid, array[format('create text search dictionary %s (template = %s.%I%s)',
			d.oid::regdictionary, t.tmplnamespace::regnamespace, t.tmplname, ', ' || d.dictinitoption)]
		from pg_ts_dict d join pg_ts_template t on t.oid = d.dicttemplate
		where `+own("pg_ts_dict", "d")+" and "+lasting("d.dictnamespace"), nil)
	if err != nil {
		return err
	}
	return r.query(stageSchema, `
		select 'pg_ts_config'::regclass, c.oid,
			format('create text search configuration %s (parser = %s.%I)', c.oid::regconfig, p.prsnamespace::regnamespace, p.prsname)
			|| array(
				select format('alter text search configuration %s add mapping for %I with %s', c.oid::regconfig, k.alias,
					string_agg(m.mapdict::regdictionary::text, ', ' order by m.mapseqno))
				from pg_ts_config_map m join ts_token_type(c.cfgparser) k on k.tokid = m.maptokentype
				where m.mapcfg = c.oid
				group by k.alias, k.tokid
				order by k.tokid)
		from pg_ts_config c join pg_ts_parser p on p.oid = c.cfgparser
		where `+own("pg_ts_config", "c")+" and "+lasting("c.cfgnamespace"), nil)
}

// options is an expression for the OPTIONS clause of foreign objects.
func options(array string) string {
	return `coalesce((select ' options (' || string_agg(format('%I %L', option_name, option_value), ', ' order by position) || ')'
		from pg_options_to_table(` + array + `) with ordinality o (option_name, option_value, position)), '')`
}

// readForeign reads foreign-data wrappers and servers. User mappings hold
// passwords and are left out.
func (r *reader) readForeign() error {
	err := r.query(stageSchema, `
		select 'pg_foreign_data_wrapper'::regclass, w.oid, array[format('create foreign data wrapper %I', w.fdwname)
			|| coalesce(' handler ' || nullif(w.fdwhandler, 0)::regproc, '')
			|| coalesce(' validator ' || nullif(w.fdwvalidator, 0)::regproc, '')
			|| `+options("w.fdwoptions")+`]
		from pg_foreign_data_wrapper w
		where `+own("pg_foreign_data_wrapper", "w"), nil)
	if err != nil {
		return err
	}
	return r.query(stageSchema, `
		select 'pg_foreign_server'::regclass, s.oid, array[format('create server %I', s.srvname)
			|| coalesce(' type ' || quote_literal(s.srvtype), '')
			|| coalesce(' version ' || quote_literal(s.srvversion), '')
			|| format(' foreign data wrapper %I', w.fdwname)
			|| `+options("s.srvoptions")+`]
		from pg_foreign_server s join pg_foreign_data_wrapper w on w.oid = s.srvfdw
		where `+own("pg_foreign_server", "s"), nil)
}
