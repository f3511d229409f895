package fidelity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgcopy/inventory"
)

// mode says what a copy keeps.
type mode struct {
	rows  bool // and large objects, and where sequences are
	exact bool // the catalogs are PostgreSQL's own copies
}

// state is everything in a database.
type state struct {
	conn        *pgx.Conn
	inventory   *inventory.Inventory
	definitions map[string]*definition
	contents    map[string]string
}

func stateOf(t *testing.T, url string) *state {
	t.Helper()
	conn := connect(t, url)
	return &state{conn, read(t, conn), definitions(t, conn), contents(t, conn)}
}

// compare fails the test for each difference between a database and its copy.
func compare(t *testing.T, source *state, target string, m mode) {
	t.Helper()
	from, to := connect(t, source.conn.Config().ConnString()), stateOf(t, target)
	for _, d := range inventory.Compare(source.inventory, to.inventory) {
		if reason := excuse(d, m); reason == "" {
			t.Errorf("catalogs: %v", d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(source.definitions)) {
		switch w, g := source.definitions[name], to.definitions[name]; {
		case g == nil:
			t.Errorf("definitions: %s is missing", name)
		case w.text == g.text:
		case m.exact:
			t.Errorf("definitions: %s is\n%s\ninstead of\n%s", name, g.text, w.text)
		case w.normal(t, from) != g.normal(t, to.conn):
			t.Errorf("definitions: %s is\n%s\ninstead of\n%s", name, g.normal(t, to.conn), w.normal(t, from))
		}
	}
	for name := range to.definitions {
		if source.definitions[name] == nil {
			t.Errorf("definitions: %s is not in the source", name)
		}
	}
	for name, w := range source.contents {
		g := to.contents[name]
		isView, isTable := strings.HasPrefix(name, "view "), strings.HasPrefix(name, "table ")
		switch {
		case m.rows || isView && strings.HasSuffix(name, " filled"):
			if w != g {
				t.Errorf("rows: %s has %q instead of %q", name, g, w)
			}
		case isTable && !strings.HasPrefix(g, "0 rows"), name == "large objects" && g != "":
			t.Errorf("rows: %s has %q, though only the schema was copied", name, g)
		}
	}
}

func read(t *testing.T, conn *pgx.Conn) *inventory.Inventory {
	t.Helper()
	inv, err := inventory.Read(t.Context(), conn, true)
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// excuse returns why PostgreSQL itself makes a difference, or "".
func excuse(d inventory.Difference, m mode) string {
	if d.Catalog == "pg_largeobject_metadata" && !m.rows {
		return "a schema has no rows"
	}
	if m.exact {
		return ""
	}
	switch d.Catalog + "." + d.Column {
	case "pg_depend.":
		// Expressions depend on what they name; the texts of PostgreSQL name more or less than what was parsed at
		// first. What can be set by statements is compared in any case: see package inventory.
		if !strings.HasSuffix(d.Name, " x") && !strings.HasSuffix(d.Name, " e") {
			return "dependencies follow from the definitions, which are compared"
		}
	case "pg_init_privs.", "pg_init_privs.initprivs":
		return "what an extension's script has granted counts from the copy's CREATE EXTENSION on; the public schema's are as in a new database"
	case "pg_trigger.tgenabled":
		if strings.Contains(d.Name, "RI_FKey") {
			return "pg_dump does not keep DISABLE TRIGGER ALL for foreign keys"
		}
	}
	return ""
}

// definition is the text of an expression or a whole object.
type definition struct {
	text string
	// again are statements that create it again from its text, and read it in the last.
	again func(text string) []string
}

// normal reads the text and writes it again until it stays the same.
func (d *definition) normal(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	text := d.text
	for range 6 {
		next := text
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			statements := d.again(text)
			for _, s := range statements[:len(statements)-1] {
				if _, err := tx.Exec(t.Context(), s); err != nil {
					return fmt.Errorf("%s: %w", s, err)
				}
			}
			if err := tx.QueryRow(t.Context(), statements[len(statements)-1]).Scan(&next); err != nil {
				return err
			}
			return errRollback
		})
		if err != errRollback {
			return text + "\n(not read again: " + err.Error() + ")"
		}
		if next == text {
			break
		}
		text = next
	}
	return text
}

type rollback struct{}

func (rollback) Error() string { return "rolled back" }

var errRollback = rollback{}

// overRelation normalises an expression over the columns of a relation.
func overRelation(relation string) func(string) []string {
	return func(text string) []string {
		if !strings.HasPrefix(text, " SELECT ") {
			text = "select " + text + " as x from only " + relation
		}
		return asView(text)
	}
}

func asView(text string) []string {
	return []string{"create temp view fidelity_normal as " + text, "select pg_get_viewdef('pg_temp.fidelity_normal'::regclass)"}
}

// trees are the columns that hold expressions, each compared as a definition. A
// version of PostgreSQL with others needs a query for these.
var trees = []string{
	"pg_attrdef.adbin", "pg_class.relpartbound", "pg_constraint.conbin", "pg_index.indexprs", "pg_index.indpred",
	"pg_partitioned_table.partexprs", "pg_policy.polqual", "pg_policy.polwithcheck", "pg_proc.proargdefaults", "pg_proc.prosqlbody",
	"pg_publication_rel.prqual", "pg_rewrite.ev_action", "pg_rewrite.ev_qual", "pg_statistic_ext.stxexprs", "pg_trigger.tgqual", "pg_type.typdefaultbin",
}

const mine = `>= 16384 and %[1]s not in (select objid from pg_depend where deptype = 'e' and classid = %[2]s::regclass)`

// definitions reads all expressions. The first column names one, the second is
// its text; for expressions over a relation the third is that.
func definitions(t *testing.T, conn *pgx.Conn) map[string]*definition {
	t.Helper()
	known := query[[]string](t, conn, `
		select array_agg(c.relname || '.' || a.attname order by c.relname, a.attname) from pg_attribute a join pg_class c on c.oid = a.attrelid
		where a.atttypid = 'pg_node_tree'::regtype and c.relnamespace = 'pg_catalog'::regnamespace and c.relkind = 'r'`)
	if diff := cmp.Diff(trees, known); diff != "" {
		t.Fatalf("columns with expressions (-known +found):\n%s", diff)
	}
	all := map[string]*definition{}
	add := func(kind, sql string, again func(name, relation string) func(string) []string) {
		rows, err := conn.Query(t.Context(), sql)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		var name, relation string
		var text *string
		if _, err := pgx.ForEachRow(rows, []any{&name, &text, &relation}, func() error {
			if text != nil {
				all[kind+" "+name] = &definition{*text, again(name, relation)}
			}
			return nil
		}); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	own := func(class, id string) string { return id + " " + fmt.Sprintf(mine, id, "'"+class+"'") }
	over := func(_, relation string) func(string) []string { return overRelation(relation) }
	asIs := func(string, string) func(string) []string { // has no expression, or one that stays the same
		return func(text string) []string { return []string{"select " + literal(text)} }
	}
	add("default", `select format('%s.%I', d.adrelid::regclass, a.attname), pg_get_expr(d.adbin, d.adrelid), d.adrelid::regclass::text
		from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum where `+own("pg_class", "d.adrelid"), over)
	add("check", `select format('%I on %s', conname, conrelid::regclass), pg_get_expr(conbin, conrelid), conrelid::regclass::text
		from pg_constraint where conrelid <> 0 and contype = 'c' and `+own("pg_class", "conrelid"), over)
	add("constraint", `select format('%I on %s', conname, conrelid::regclass), regexp_replace(pg_get_constraintdef(oid), '(CHECK|WHERE) .*', '\1'), ''
		from pg_constraint where conrelid <> 0 and (contype <> 'f' or conparentid = 0) and `+own("pg_class", "conrelid"), asIs)
	add("domain check", `select format('%I on %s', conname, contypid::regtype), pg_get_constraintdef(oid), contypid::regtype::text
		from pg_constraint where contypid <> 0 and `+own("pg_type", "contypid"), func(name, domain string) func(string) []string {
		constraint := strings.TrimSuffix(name, " on "+domain)
		return func(text string) []string {
			return []string{
				"create domain pg_temp.fidelity_normal as " + domain + " constraint normal " + strings.TrimSuffix(text, " NOT VALID"),
				"select pg_get_constraintdef(oid)" + notValid(text) + " from pg_constraint where conname = 'normal' and contypid = 'pg_temp.fidelity_normal'::regtype -- " + constraint,
			}
		}
	})
	add("domain default", `select oid::regtype::text, pg_get_expr(typdefaultbin, 0), '' from pg_type where typdefaultbin is not null and `+own("pg_type", "oid"),
		func(string, string) func(string) []string {
			return func(text string) []string {
				if !strings.HasPrefix(text, " SELECT ") {
					text = "select " + text + " as x"
				}
				return asView(text)
			}
		})
	// Of an index the parts, since they are in different syntax.
	add("index", `select indexrelid::regclass::text, regexp_replace(regexp_replace(pg_get_indexdef(indexrelid), ' WHERE .*', ''), ' USING (\w+) .*', ' USING \1'), ''
		from pg_index where indrelid not in (select oid from pg_class where relkind = 't') and `+own("pg_class", "indrelid"), asIs)
	add("index column", `select indexrelid::regclass::text || ' ' || n, pg_get_indexdef(indexrelid, n, false), indrelid::regclass::text
		from pg_index, generate_series(1, indnkeyatts) n where indexprs is not null and `+own("pg_class", "indrelid"), over)
	add("index condition", `select indexrelid::regclass::text, pg_get_expr(indpred, indrelid), indrelid::regclass::text
		from pg_index where indpred is not null and `+own("pg_class", "indrelid"), over)
	add("view", `select oid::regclass::text, pg_get_viewdef(oid), '' from pg_class where relkind in ('v', 'm') and relnamespace <> 'pg_catalog'::regnamespace and `+own("pg_class", "oid"),
		func(string, string) func(string) []string { return func(text string) []string { return asView(text) } })
	add("rule", `select format('%I on %s', rulename, ev_class::regclass), pg_get_ruledef(oid), ev_class::regclass::text
		from pg_rewrite where rulename <> '_RETURN' and `+own("pg_class", "ev_class"), func(name, relation string) func(string) []string {
		return func(text string) []string {
			return []string{
				strings.Replace(text, "CREATE RULE", "CREATE OR REPLACE RULE", 1),
				"select pg_get_ruledef(oid) from pg_rewrite where format('%I on %s', rulename, ev_class::regclass) = " + literal(name),
			}
		}
	})
	add("trigger", `select format('%I on %s', tgname, tgrelid::regclass), pg_get_triggerdef(oid), ''
		from pg_trigger where not tgisinternal and `+own("pg_class", "tgrelid"), func(name, _ string) func(string) []string {
		return func(text string) []string {
			return []string{
				strings.Replace(text, "CREATE TRIGGER", "CREATE OR REPLACE TRIGGER", 1),
				"select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal and format('%I on %s', tgname, tgrelid::regclass) = " + literal(name),
			}
		}
	})
	add("policy using", `select format('%I on %s', polname, polrelid::regclass), pg_get_expr(polqual, polrelid), polrelid::regclass::text from pg_policy where polqual is not null`, over)
	add("policy check", `select format('%I on %s', polname, polrelid::regclass), pg_get_expr(polwithcheck, polrelid), polrelid::regclass::text from pg_policy where polwithcheck is not null`, over)
	add("function", `select oid::regprocedure::text, pg_get_functiondef(oid), ''
		from pg_proc where prokind <> 'a' and pronamespace not in (select oid from pg_namespace where nspname ~ '^pg_') and `+own("pg_proc", "oid"), func(name, _ string) func(string) []string {
		return func(text string) []string {
			return []string{text, "select pg_get_functiondef(" + literal(name) + "::regprocedure)"}
		}
	})
	add("aggregate", `select oid::regprocedure::text, pg_get_function_arguments(oid), '' from pg_proc where prokind = 'a' and `+own("pg_proc", "oid"), asIs)
	add("partition", `select oid::regclass::text, pg_get_expr(relpartbound, oid), '' from pg_class where relpartbound is not null and `+own("pg_class", "oid"), asIs)
	add("partitioning", `select partrelid::regclass::text, pg_get_partkeydef(partrelid), '' from pg_partitioned_table where `+own("pg_class", "partrelid"), asIs)
	add("statistics", `select format('%s.%I %s', s.stxnamespace::regnamespace, s.stxname, n), e, s.stxrelid::regclass::text
		from pg_statistic_ext s, unnest(pg_get_statisticsobjdef_expressions(s.oid)) with ordinality e (e, n)`, over)
	add("published rows", `select format('%s in %I', r.prrelid::regclass, p.pubname), pg_get_expr(r.prqual, r.prrelid), r.prrelid::regclass::text
		from pg_publication_rel r join pg_publication p on p.oid = r.prpubid where r.prqual is not null`, over)
	return all
}

func notValid(text string) string {
	if strings.HasSuffix(text, " NOT VALID") {
		return " || ' NOT VALID'"
	}
	return ""
}

// contents returns a digest for each table and materialised view, the state of
// each sequence, and the large objects.
func contents(t *testing.T, conn *pgx.Conn) map[string]string {
	t.Helper()
	found, err := conn.Query(t.Context(), `
		select c.oid::regclass::text, c.relkind::text, c.relispopulated,
			(select coalesce(string_agg(quote_ident(attname), ', ' order by attname), '') from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped)
		from pg_class c
		where c.relkind in ('r', 'S', 'm') and c.oid >= 16384 and c.relpersistence <> 't'`)
	if err != nil {
		t.Fatal(err)
	}
	type relation struct {
		Name, Kind string
		Populated  bool
		Columns    string
	}
	relations, err := pgx.CollectRows(found, pgx.RowToStructByPos[relation])
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range relations {
		switch r.Kind {
		case "m":
			all["view "+r.Name+" filled"] = fmt.Sprint(r.Populated)
			if r.Populated {
				all["view "+r.Name] = query[string](t, conn, "select count(*) || ' rows, ' || coalesce(sum(hashtextextended(row("+r.Columns+")::text, 0)), 0) from only "+r.Name)
			}
		case "S":
			all["sequence "+r.Name] = query[string](t, conn, "select last_value || ', called ' || is_called from "+r.Name)
		default:
			all["table "+r.Name] = query[string](t, conn, "select count(*) || ' rows, ' || coalesce(sum(hashtextextended(row("+r.Columns+")::text, 0)), 0) from only "+r.Name)
		}
	}
	all["large objects"] = query[string](t, conn, "select coalesce(string_agg(oid || ' ' || md5(lo_get(oid)), ', ' order by oid), '') from pg_largeobject_metadata")
	return all
}

func literal(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
}

// connect opens a session whose texts do not depend on settings.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["search_path"] = ""
	config.RuntimeParams["datestyle"] = "ISO, YMD"
	config.RuntimeParams["timezone"] = "UTC"
	config.RuntimeParams["jit"] = "off"
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gone(t, conn) })
	return conn
}

func query[T any](t *testing.T, conn *pgx.Conn, sql string) (value T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}
