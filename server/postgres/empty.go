package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// emptying is what takes all rows out of a copy of a database and leaves its schema as it is.
type emptying struct {
	superuser, replica bool // whether the session is a superuser's, and may set session_replication_role
	batches            [][]*table
	// obstacles say why the role cannot do it, or why it would harm somebody. None of the rest is complete then.
	obstacles []string
}

// table is an ordinary or partitioned table.
type table struct {
	oid         uint32
	name        string // quoted
	partitioned bool
	locks       int  // that TRUNCATE takes
	filled      bool // has rows, or what is left of rows
	mine        bool // may be truncated
	extension   string
	condition   *string // of an extension's configuration table: which rows are the user's
	foreign     bool    // a partitioned table with a foreign table below it
	parts       []uint32
	triggers    []trigger // that TRUNCATE would fire
}

type trigger struct{ name, enabled string }

// readEmptying finds out how a database can be emptied, and changes nothing.
func (c *Cluster) readEmptying(ctx context.Context, conn *pgx.Conn) (*emptying, error) {
	e := &emptying{}
	err := conn.QueryRow(ctx, `
		select rolsuper, rolsuper or has_parameter_privilege('session_replication_role', 'set')
		from pg_roles where rolname = current_user`).Scan(&e.superuser, &e.replica)
	if err != nil {
		return nil, err
	}
	tables, err := e.readTables(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("listing the tables: %w", err)
	}
	if !e.superuser {
		if err := e.checkRole(ctx, conn, c.caps.ServerVersion); err != nil {
			return nil, err
		}
	}
	references, err := readReferences(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("listing the foreign keys: %w", err)
	}
	var limit int
	err = conn.QueryRow(ctx, `
		select current_setting('max_locks_per_transaction')::int
			* (current_setting('max_connections')::int + current_setting('max_prepared_transactions')::int)`).Scan(&limit)
	if err != nil {
		return nil, err
	}
	e.plan(tables, references, limit/2)
	return e, nil
}

func (e *emptying) object(format string, args ...any) {
	e.obstacles = append(e.obstacles, fmt.Sprintf(format, args...))
}

// readTables lists the tables. A table without rows may still have something of them in its indexes.
func (e *emptying) readTables(ctx context.Context, conn *pgx.Conn) (map[uint32]*table, error) {
	rows, err := conn.Query(ctx, `
		with indexes as materialized (
			select i.indrelid, count(*) as number,
				bool_or(a.amname <> 'btree' or pg_relation_size(i.indexrelid) > current_setting('block_size')::int) as filled
			from pg_index i join pg_class x on x.oid = i.indexrelid join pg_am a on a.oid = x.relam
			where x.relkind = 'i' and x.relpersistence <> 't'
			group by 1
		), members as materialized (
			select d.objid, x.extname, x.extcondition[array_position(x.extconfig, d.objid)] as condition
			from pg_depend d join pg_extension x on x.oid = d.refobjid
			where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
		)
		select c.oid, c.oid::regclass::text, c.relkind = 'p', 1 + coalesce(i.number, 0)::int + case when c.reltoastrelid <> 0 then 2 else 0 end,
			c.relkind = 'r' and (coalesce(i.filled, false) or coalesce(am.amname, '') <> 'heap' or coalesce(pg_relation_size(c.oid) > 0, true)
				or c.reltoastrelid <> 0 and coalesce(pg_relation_size(c.reltoastrelid) > 0, true)),
			pg_has_role(c.relowner, 'usage'), coalesce(m.extname, ''), m.condition,
			c.relkind = 'p' and exists (
				select from pg_partition_tree(c.oid) p join pg_class f on f.oid = p.relid where f.relkind = 'f'),
			case when c.relkind = 'p' then array(select relid::oid from pg_partition_tree(c.oid) where relid <> c.oid) else '{}' end,
			array(select tgname::text from pg_trigger g where g.tgrelid = c.oid and g.tgtype & 32 <> 0 order by g.oid),
			array(select tgenabled::text from pg_trigger g where g.tgrelid = c.oid and g.tgtype & 32 <> 0 order by g.oid)
		from pg_class c
		left join pg_am am on am.oid = c.relam
		left join indexes i on i.indrelid = c.oid
		left join members m on m.objid = c.oid
		where c.relkind in ('r', 'p') and c.relpersistence <> 't'
			and c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)`)
	if err != nil {
		return nil, err
	}
	tables := map[uint32]*table{}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*table, error) {
		t := &table{}
		var names, enabled []string
		err := row.Scan(&t.oid, &t.name, &t.partitioned, &t.locks, &t.filled, &t.mine, &t.extension, &t.condition, &t.foreign, &t.parts, &names, &enabled)
		fires := []string{"O", "A"}
		if e.replica {
			fires = []string{"R", "A"}
		}
		for i, name := range names {
			if slices.Contains(fires, enabled[i]) {
				t.triggers = append(t.triggers, trigger{name, enabled[i]})
			}
		}
		return t, err
	})
	for _, t := range list {
		tables[t.oid] = t
	}
	return tables, err
}

// checkRole looks for what only a superuser, or the owner, can take out of a copy.
func (e *emptying) checkRole(ctx context.Context, conn *pgx.Conn, version int) error {
	statistics := "true"
	if version >= 180000 {
		// pg_clear_attribute_stats clears the rest.
		statistics = "exists (select from pg_statistic_ext where stxnamespace not in " + temporary + ")"
	}
	var sampled bool
	if err := conn.QueryRow(ctx, "select "+statistics).Scan(&sampled); err != nil {
		return err
	}
	switch {
	case version < 180000:
		e.object("planner statistics hold sampled values, and before PostgreSQL 18 only a superuser can delete them")
	case sampled:
		e.object("extended statistics hold sampled values, which only a superuser can delete")
	}
	owned, err := texts(ctx, conn, `
		select 'the materialized view ' || oid::regclass || ' belongs to ' || pg_get_userbyid(relowner) from pg_class
			where relkind = 'm' and not pg_has_role(relowner, 'usage')
		union all
		select 'the sequence ' || oid::regclass || ' belongs to ' || pg_get_userbyid(relowner) from pg_class
			where case relkind when 'S' then not has_sequence_privilege(oid, 'update') else false end
		union all
		select 'large objects belong to ' || pg_get_userbyid(lomowner) from pg_largeobject_metadata
			where not pg_has_role(lomowner, 'usage') group by lomowner
		union all
		select 'user mappings of the server ' || quote_ident(s.srvname) || ', which belongs to ' || pg_get_userbyid(s.srvowner) from pg_foreign_server s
			where not pg_has_role(s.srvowner, 'usage') and exists (select from pg_user_mappings m where m.srvid = s.oid)
		order by 1 limit 20`)
	e.obstacles = append(e.obstacles, owned...)
	return err
}

// references maps a table to those that must be truncated with it, as PostgreSQL demands: the ones whose foreign keys
// refer to it, whatever part of partitioned tables either of them is.
func readReferences(ctx context.Context, conn *pgx.Conn) (map[uint32][]uint32, error) {
	rows, err := conn.Query(ctx, `
		with recursive roots (oid, root) as (
			select oid, oid from pg_constraint where contype = 'f' and conparentid = 0
			union all
			select c.oid, r.root from pg_constraint c join roots r on c.conparentid = r.oid where c.contype = 'f'
		)
		select r.root, c.conrelid, c.confrelid from pg_constraint c join roots r on r.oid = c.oid`)
	if err != nil {
		return nil, err
	}
	type key struct{ from, to []uint32 }
	keys := map[uint32]*key{}
	var root, from, to uint32
	if _, err := pgx.ForEachRow(rows, []any{&root, &from, &to}, func() error {
		k := keys[root]
		if k == nil {
			k = &key{}
			keys[root] = k
		}
		k.from, k.to = append(k.from, from), append(k.to, to)
		return nil
	}); err != nil {
		return nil, err
	}
	out := map[uint32][]uint32{}
	for _, k := range keys {
		slices.Sort(k.from)
		slices.Sort(k.to)
		from := slices.Compact(k.from)
		for _, to := range slices.Compact(k.to) {
			out[to] = append(out[to], from...)
		}
	}
	return out, nil
}

// plan puts together what has to be truncated together, in batches that take at most so many locks.
func (e *emptying) plan(tables map[uint32]*table, references map[uint32][]uint32, locks int) {
	together := map[uint32]uint32{} // a union-find: each table's representative
	var find func(uint32) uint32
	find = func(oid uint32) uint32 {
		if p, ok := together[oid]; ok && p != oid {
			p = find(p)
			together[oid] = p
			return p
		}
		return oid
	}
	var todo []uint32
	include := func(oid uint32) {
		if _, seen := together[oid]; !seen && tables[oid] != nil {
			together[oid] = oid
			todo = append(todo, oid)
		}
	}
	for oid, t := range tables {
		switch {
		case !t.filled:
		case t.extension == "", t.condition != nil && *t.condition == "":
			include(oid)
		case t.condition == nil:
			// Nobody but the extension knows whether they are its own or say something of the user's rows.
			e.object("the extension %s keeps rows in its table %s", ident(t.extension), t.name)
		}
	}
	for len(todo) > 0 {
		oid := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, other := range slices.Concat(tables[oid].parts, references[oid]) {
			include(other)
			if tables[other] != nil {
				together[find(other)] = find(oid)
			}
		}
	}
	groups := map[uint32][]*table{}
	for oid := range together {
		t := tables[oid]
		switch {
		case t.foreign:
			e.object("truncating %s would truncate a foreign table", t.name)
		case !t.mine:
			e.object("the table %s belongs to another role", t.name)
		case t.extension != "" && (t.condition == nil || *t.condition != ""):
			e.object("the extension %s refers to tables of the schema in its table %s", ident(t.extension), t.name)
		}
		groups[find(oid)] = append(groups[find(oid)], t)
	}
	weight := func(group []*table) (n int) {
		for _, t := range group {
			n += t.locks
		}
		return n
	}
	var batch []*table
	used := 0
	for _, group := range groups {
		n := weight(group)
		if n > locks {
			e.object("%d tables that foreign keys connect take %d locks in one transaction, of which the server has %d "+
				"(max_locks_per_transaction)", len(group), n, 2*locks)
		}
		if used > 0 && used+n > locks/2 {
			e.batches = append(e.batches, batch)
			batch, used = nil, 0
		}
		batch, used = append(batch, group...), used+n
	}
	if len(batch) > 0 {
		e.batches = append(e.batches, batch)
	}
	// Configuration of extensions, as CREATE EXTENSION leaves it.
	for _, t := range tables {
		if t.filled && t.condition != nil && *t.condition != "" {
			e.batches = append(e.batches, []*table{t})
			if !t.mine {
				e.object("the table %s belongs to another role", t.name)
			}
		}
	}
	slices.Sort(e.obstacles)
}

// empty takes all rows out of the database that conn is connected to, with what is known of them: large objects, the
// state of sequences, contents of materialized views, samples in planner statistics. The files have nothing of them
// either. It returns what is not as it would be in the source with its rows gone.
func (c *Cluster) empty(ctx context.Context, conn *pgx.Conn) (warnings []string, err error) {
	if err := c.quiet(ctx, conn); err != nil {
		return nil, err
	}
	mapped, err := dropUserMappings(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := c.truncate(ctx, conn); err != nil {
		return nil, err
	}
	large, err := unlinkLargeObjects(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("removing large objects: %w", err)
	}
	// The sequences of an extension are part of it, unless it calls them configuration.
	_, err = conn.Exec(ctx, `
		select setval(s.seqrelid::regclass, s.seqstart, false)
		from pg_sequence s join pg_class c on c.oid = s.seqrelid
		where c.relpersistence <> 't'
			and (not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
				or exists (select from pg_extension e where c.oid = any (e.extconfig)))`)
	if err != nil {
		return nil, fmt.Errorf("restarting sequences: %w", err)
	}
	if warnings, err = refreshViews(ctx, conn); err != nil {
		return warnings, err
	}
	rewrite, err := c.clearStatistics(ctx, conn)
	if err != nil {
		return warnings, fmt.Errorf("deleting planner statistics: %w", err)
	}
	if mapped {
		rewrite = append(rewrite, "pg_catalog.pg_user_mapping")
	}
	if large {
		rewrite = append(rewrite, "pg_catalog.pg_largeobject", "pg_catalog.pg_largeobject_metadata")
	}
	// What was deleted is in the files until they are written again.
	for _, name := range rewrite {
		if _, err := conn.Exec(ctx, "vacuum full "+name); err != nil {
			return warnings, fmt.Errorf("rewriting %s: %w", name, err)
		}
	}
	// A function that a materialized view or an event trigger calls may have written something.
	if err := c.truncate(ctx, conn); err != nil {
		return warnings, err
	}
	return warnings, c.proveEmpty(ctx, conn)
}

// quiet keeps the user's triggers from being called where the role may.
func (c *Cluster) quiet(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `
		set search_path = ''; set statement_timeout = 0; set lock_timeout = 0; set idle_session_timeout = 0; set client_min_messages = error;
		set synchronous_commit = off; set default_transaction_read_only = off; set row_security = off;
		select set_config('session_replication_role', 'replica', false)
		where has_parameter_privilege('session_replication_role', 'set');
		select set_config('event_triggers', 'off', false)
		where current_setting('event_triggers', true) is not null and has_parameter_privilege('event_triggers', 'set')`)
	return err
}

func dropUserMappings(ctx context.Context, conn *pgx.Conn) (dropped bool, err error) {
	statements, err := texts(ctx, conn, `
		select format('drop user mapping for %s server %I', case when umuser = 0 then 'public' else quote_ident(usename) end, srvname)
		from pg_user_mappings`)
	if err != nil {
		return false, err
	}
	for _, stmt := range statements {
		if _, err := conn.Exec(ctx, stmt); err != nil {
			return false, fmt.Errorf("%s: %w", stmt, err)
		}
	}
	return len(statements) > 0, nil
}

// truncate truncates the tables that have rows. Most often there are none the second time.
func (c *Cluster) truncate(ctx context.Context, conn *pgx.Conn) error {
	e, err := c.readEmptying(ctx, conn)
	if err != nil {
		return err
	}
	if len(e.obstacles) > 0 {
		return &obstacleError{e.obstacles}
	}
	for _, batch := range e.batches {
		if t := batch[0]; len(batch) == 1 && t.condition != nil && *t.condition != "" {
			if err := deleteConfiguration(ctx, conn, t); err != nil {
				return err
			}
			continue
		}
		var names, before, after []string
		for _, t := range batch {
			name := t.name
			if !t.partitioned {
				name = "only " + name
			}
			names = append(names, name)
			for _, g := range t.triggers {
				before = append(before, "alter table only "+t.name+" disable trigger "+ident(g.name))
				enable := map[string]string{"O": "enable", "A": "enable always", "R": "enable replica"}[g.enabled]
				after = append(after, "alter table only "+t.name+" "+enable+" trigger "+ident(g.name))
			}
		}
		statements := slices.Concat(before, []string{"truncate table " + strings.Join(names, ", ")}, after)
		// One message is one transaction.
		if _, err := conn.PgConn().Exec(ctx, strings.Join(statements, ";\n")).ReadAll(); err != nil {
			return fmt.Errorf("truncating %s: %w", batch[0].name, err)
		}
	}
	return nil
}

// deleteConfiguration deletes the rows of an extension's configuration table that are the user's.
func deleteConfiguration(ctx context.Context, conn *pgx.Conn, t *table) error {
	tag, err := conn.Exec(ctx, "delete from only "+t.name+" "+*t.condition)
	if err == nil && tag.RowsAffected() > 0 {
		_, err = conn.Exec(ctx, "vacuum full "+t.name)
	}
	if err != nil {
		return fmt.Errorf("emptying the configuration table %s: %w", t.name, err)
	}
	return nil
}

func unlinkLargeObjects(ctx context.Context, conn *pgx.Conn) (some bool, err error) {
	for {
		var n int
		// Each takes a lock.
		err := conn.QueryRow(ctx, "select count(lo_unlink(oid)) from (select oid from pg_largeobject_metadata limit 1000) l").Scan(&n)
		if err != nil {
			return some, err
		}
		if n == 0 {
			// They may have been removed before, and be in the file all the same.
			var left bool
			if err := conn.QueryRow(ctx, "select pg_relation_size('pg_catalog.pg_largeobject') > 0").Scan(&left); err != nil {
				return some, err
			}
			return some || left, nil
		}
		some = true
	}
}

// refreshViews fills the materialized views that were filled from what the tables hold now: nothing. One that cannot be
// computed without rows becomes unpopulated.
func refreshViews(ctx context.Context, conn *pgx.Conn) (warnings []string, err error) {
	rows, err := conn.Query(ctx, `
		select c.oid, c.oid::regclass::text, c.relkind = 'm' and c.relispopulated,
			array(
				select distinct d.refobjid
				from pg_rewrite r
				join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
				where r.ev_class = c.oid and d.refobjid <> c.oid)
		from pg_class c
		where c.relkind in ('v', 'm') and c.relpersistence <> 't' and c.relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
		order by c.oid`)
	if err != nil {
		return nil, err
	}
	type view struct {
		OID       uint32
		Name      string
		Populated bool
		Needs     []uint32
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[view])
	if err != nil {
		return nil, fmt.Errorf("listing materialized views: %w", err)
	}
	views := map[uint32]view{}
	for _, v := range list {
		views[v.OID] = v
	}
	var order []string
	seen := map[uint32]bool{}
	var visit func(uint32)
	visit = func(oid uint32) {
		if seen[oid] {
			return
		}
		seen[oid] = true
		for _, n := range views[oid].Needs {
			visit(n)
		}
		if v := views[oid]; v.Populated {
			order = append(order, v.Name)
		}
	}
	for _, v := range list {
		visit(v.OID)
	}
	if len(order) == 0 {
		return nil, nil
	}
	// Functions in the views may rely on the database's own search path.
	if _, err := conn.Exec(ctx, "reset search_path"); err != nil {
		return nil, err
	}
	for _, name := range order {
		_, err := conn.Exec(ctx, "refresh materialized view "+name)
		var pgErr *pgconn.PgError
		if errors.As(err, &pgErr) && pgErr.Code[:2] != "57" && pgErr.Code[:2] != "53" { // operator intervention, insufficient resources
			warnings = append(warnings, fmt.Sprintf("the materialized view %s is not populated, since refreshing it without rows fails: %s", name, pgErr.Message))
			_, err = conn.Exec(ctx, "refresh materialized view "+name+" with no data")
		}
		if err != nil {
			return warnings, fmt.Errorf("refreshing the materialized view %s: %w", name, err)
		}
	}
	_, err = conn.Exec(ctx, "set search_path = ''")
	return warnings, err
}

// ofRows are the relations whose planner statistics hold values that are not the schema's.
const ofRows = "(%[1]s >= 16384 or %[1]s in ('pg_catalog.pg_largeobject'::regclass, 'pg_catalog.pg_largeobject_metadata'::regclass, 'pg_catalog.pg_user_mapping'::regclass))"

// clearStatistics deletes the most common values, histograms and the like, and returns the catalogs that held them.
func (c *Cluster) clearStatistics(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	e := `delete from pg_catalog.pg_statistic where ` + fmt.Sprintf(ofRows, "starelid") + `; delete from pg_catalog.pg_statistic_ext_data`
	rewrite := []string{"pg_catalog.pg_statistic", "pg_catalog.pg_statistic_ext_data"}
	var superuser bool
	if err := conn.QueryRow(ctx, "select rolsuper from pg_roles where rolname = current_user").Scan(&superuser); err != nil {
		return nil, err
	}
	if !superuser {
		// pg_stats does not show the rows of tables that the role may not read.
		e = `
			select pg_clear_attribute_stats(schemaname, tablename, attname, inherited) from pg_stats
			where ` + fmt.Sprintf(ofRows, "(quote_ident(schemaname) || '.' || quote_ident(tablename))::regclass") + `;
			select pg_clear_attribute_stats(n.nspname, c.relname, a.attname, i.inherited)
			from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid,
				(values (false), (true)) i (inherited)
			where c.relkind in ('r', 'p', 'm', 'f') and c.relpersistence <> 't' and c.oid >= 16384 and a.attnum > 0 and not a.attisdropped
				and pg_has_role(c.relowner, 'usage') and (c.relforcerowsecurity or not has_column_privilege(c.oid, a.attnum, 'select'))`
		rewrite = rewrite[:1]
	}
	_, err := conn.PgConn().Exec(ctx, e).ReadAll()
	return rewrite, err
}

// proveEmpty returns an error if there are rows that are not an extension's own.
func (c *Cluster) proveEmpty(ctx context.Context, conn *pgx.Conn) error {
	e, err := c.readEmptying(ctx, conn)
	if err != nil {
		return err
	}
	for _, batch := range e.batches {
		for _, t := range batch {
			if !t.filled {
				continue
			}
			condition := ""
			if t.condition != nil {
				condition = *t.condition
			}
			var rows bool
			if err := conn.QueryRow(ctx, "select exists (select from only "+t.name+" "+condition+")").Scan(&rows); err != nil {
				return err
			}
			if rows {
				return fmt.Errorf("the table %s still has rows after it was truncated", t.name)
			}
		}
	}
	var objects, samples int
	err = conn.QueryRow(ctx, `
		select (select count(*) from pg_largeobject_metadata),
			(select count(*) from pg_stats where `+fmt.Sprintf(ofRows, "(quote_ident(schemaname) || '.' || quote_ident(tablename))::regclass")+`
				and (most_common_vals is not null or histogram_bounds is not null) and tablename not in (select matviewname from pg_matviews))`).Scan(&objects, &samples)
	if err == nil && objects+samples > 0 {
		err = fmt.Errorf("%d large objects and the planner statistics of %d columns are left", objects, samples)
	}
	return err
}

// obstacleError says why a database cannot be emptied.
type obstacleError struct{ obstacles []string }

func (e *obstacleError) Error() string {
	list := e.obstacles
	more := ""
	if len(list) > 5 {
		list, more = list[:5], fmt.Sprintf(", and %d more", len(e.obstacles)-5)
	}
	return "the copy cannot be emptied: " + strings.Join(list, ", ") + more
}
