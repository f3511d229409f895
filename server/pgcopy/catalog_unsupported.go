package pgcopy

import "github.com/jackc/pgx/v5"

// readUnsupported reads the objects that only pg_dump can recreate, to name them
// and what needs them.
func (r *reader) readUnsupported() error {
	before := len(r.items)
	for _, sql := range []string{
		`select 'pg_type'::regclass, t.oid, array[format('input %s, output %s, receive %s, send %s, typmod_in %s, typmod_out %s, analyze %s, '
				'length %s, by value %s, alignment %s, storage %s, category %s, preferred %s, delimiter %s, default %s, element %s, collatable %s',
				t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin, t.typmodout, t.typanalyze,
				t.typlen, t.typbyval, t.typalign, t.typstorage, t.typcategory, t.typispreferred, t.typdelim, t.typdefault, nullif(t.typelem, 0)::regtype, t.typcollation <> 0)]
		from pg_type t
		where t.typtype = 'b' and not exists (select from pg_type e where e.typarray = t.oid) and ` + own("pg_type", "t") + " and " + lasting("t.typnamespace"),

		`select 'pg_type'::regclass, t.oid, array[concat_ws(', ', 'subtype ' || format_type(g.rngsubtype, null), 'canonical ' || g.rngcanonical::regproc,
				'subtype_opclass ' || o.opcname, 'collation ' || nullif(g.rngcollation, 0)::regcollation, 'subtype_diff ' || nullif(g.rngsubdiff, 0)::regproc)]
		from pg_type t join pg_range g on g.rngtypid = t.oid join pg_opclass o on o.oid = g.rngsubopc
		where g.rngcanonical <> 0 and ` + own("pg_type", "t") + " and " + lasting("t.typnamespace"),

		`select 'pg_opclass'::regclass, o.oid, array[format('for %s, default %s, family %s.%I, key %s',
			o.opcintype::regtype, o.opcdefault, f.opfnamespace::regnamespace, f.opfname, nullif(o.opckeytype, 0)::regtype)]
		from pg_opclass o join pg_opfamily f on f.oid = o.opcfamily
		where ` + own("pg_opclass", "o"),

		`select 'pg_opfamily'::regclass, f.oid,
			array(select format('operator %s %s%s', amopstrategy, amopopr::regoperator, case when amopsortfamily <> 0 then ' for order by' end) from pg_amop
				where amopfamily = f.oid and not exists (select from pg_depend e where e.classid = 'pg_amop'::regclass and e.objid = pg_amop.oid and e.deptype = 'e')
				order by amopstrategy, amopopr::regoperator::text)
			|| array(select format('function %s (%s, %s) %s', amprocnum, amproclefttype::regtype, amprocrighttype::regtype, amproc::regprocedure) from pg_amproc
				where amprocfamily = f.oid order by amprocnum, amproclefttype::regtype::text, amprocrighttype::regtype::text)
		from pg_opfamily f
		where ` + own("pg_opfamily", "f"),

		`select 'pg_conversion'::regclass, c.oid, array[format('%s to %s by %s, default %s',
			pg_encoding_to_char(c.conforencoding), pg_encoding_to_char(c.contoencoding), c.conproc, c.condefault)]
		from pg_conversion c
		where ` + own("pg_conversion", "c"),

		`select 'pg_language'::regclass, l.oid, array[format('trusted %s, handler %s, inline %s, validator %s',
			l.lanpltrusted, l.lanplcallfoid::regproc, l.laninline::regproc, l.lanvalidator::regproc)]
		from pg_language l
		where ` + own("pg_language", "l"),

		`select 'pg_transform'::regclass, t.oid, array[format('from sql %s, to sql %s', t.trffromsql, t.trftosql)]
		from pg_transform t
		where ` + own("pg_transform", "t"),

		`select 'pg_am'::regclass, a.oid, array[format('type %s, handler %s', a.amtype, a.amhandler)]
		from pg_am a
		where ` + own("pg_am", "a"),

		`select 'pg_ts_parser'::regclass, p.oid, array[format('%s, %s, %s, %s, %s', p.prsstart, p.prstoken, p.prsend, p.prsheadline, p.prslextype)]
		from pg_ts_parser p
		where ` + own("pg_ts_parser", "p"),

		`select 'pg_ts_template'::regclass, t.oid, array[format('%s, %s', t.tmplinit, t.tmpllexize)]
		from pg_ts_template t
		where ` + own("pg_ts_template", "t"),
	} {
		if err := r.query(stageSchema, sql, nil); err != nil {
			return err
		}
	}
	err := r.extras(stageSchema, "security label", `
		select format('%s for %s %s', l.provider, i.type, i.identity), array[l.label], l.classoid, l.objoid, 0::oid, 0::oid
		from pg_seclabel l, pg_identify_object(l.classoid, l.objoid, l.objsubid) i
		where l.classoid <> 'pg_largeobject'::regclass`)
	if err != nil {
		return err
	}
	// Operators and functions added to an extension's or the system's family.
	err = r.extras(stageSchema, "operator family member", `
		select i.identity, array[''], 'pg_opfamily'::regclass::oid, f.oid, 0::oid, 0::oid
		from (select 'pg_amop'::regclass::oid, oid, amopfamily from pg_amop union all select 'pg_amproc'::regclass, oid, amprocfamily from pg_amproc) m (class, oid, family)
		join pg_opfamily f on f.oid = m.family,
		pg_identify_object(m.class, m.oid, 0) i
		where m.oid >= 16384 and not `+own("pg_opfamily", "f")+`
			and not exists (select from pg_depend d where d.classid = m.class and d.objid = m.oid
				and (d.deptype = 'e' or d.deptype in ('i', 'a') and d.refclassid = 'pg_opclass'::regclass))
			and not exists (select from pg_depend e where e.classid = 'pg_opfamily'::regclass and e.objid = f.oid and e.deptype = 'e')`)
	if err != nil {
		return err
	}
	for _, it := range r.items[before:] {
		it.unsupported = true
	}
	return r.unknown()
}

// unknown adds what none of the queries has found: kinds of objects that this
// package does not know of.
func (r *reader) unknown() error {
	rows, err := r.conn.Query(r.ctx, `
		select d.classid, d.objid, i.type, i.identity
		from (
			select distinct classid, objid from pg_depend
			where objid >= 16384 and objsubid = 0 and deptype in ('n', 'a')
				and classid not in ('pg_amop'::regclass, 'pg_amproc'::regclass, 'pg_default_acl'::regclass, 'pg_user_mapping'::regclass,
					'pg_largeobject'::regclass, 'pg_attrdef'::regclass, 'pg_constraint'::regclass, 'pg_trigger'::regclass, 'pg_rewrite'::regclass, 'pg_policy'::regclass)
		) d, pg_identify_object(d.classid, d.objid, 0) i
		where coalesce(i.schema, '') !~ '^pg_(temp|toast)' and i.type not in ('index', 'toast table')
			and not exists (select from pg_depend e where e.classid = d.classid and e.objid = d.objid and e.deptype = 'e')`)
	if err != nil {
		return err
	}
	it := &item{}
	_, err = pgx.ForEachRow(rows, []any{&it.class, &it.id, &it.kind, &it.identity}, func() error {
		if r.provider(it.addr) == nil {
			r.add(&item{addr: it.addr, kind: it.kind, identity: it.identity, unsupported: true})
		}
		return nil
	})
	return err
}

// unsupported returns the names of what cannot be recreated.
func (c *catalog) unsupported() []string {
	var names []string
	for _, it := range c.items {
		if it.unsupported {
			names = append(names, it.String())
		}
	}
	return names
}
