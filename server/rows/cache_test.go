package rows_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/rows"
)

// databaseURL returns the URL of the connection's database.
func databaseURL(t testing.TB, conn *pgconn.PgConn) string {
	t.Helper()
	return pgtest.WithDatabase(pgtest.ServerURL(t), simple(t, conn, "select current_database()"))
}

// simple runs a query without the package under test.
func simple(t testing.TB, conn *pgconn.PgConn, sql string) string {
	t.Helper()
	r, err := conn.Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return string(r[0].Rows[0][0])
}

func run(t testing.TB, conn *pgconn.PgConn, s *rows.Session, steps ...rows.Step) {
	t.Helper()
	if err := rows.Run(t.Context(), conn, s, steps...); err != nil {
		t.Fatal(err)
	}
}

const preparedCount = "select count(*) from pg_prepared_statements"

func TestStatementsArePreparedOnceForEachRole(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	a, b := createRole(t, conn), createRole(t, conn)
	exec(t, conn, fmt.Sprintf(`create role "%s*/x"`, a))
	t.Cleanup(func() { exec(t, conn, fmt.Sprintf(`drop role "%s*/x"`, a)) })
	one := rows.Step{Statement: statement("select 1", nil, "a")}
	for range 3 {
		run(t, conn, nil, one, one)
		run(t, conn, &rows.Session{Role: a}, one)
		run(t, conn, &rows.Session{Role: b}, one, one)
		run(t, conn, &rows.Session{Role: a + "*/x"}, one)
	}
	got := simple(t, conn, "select string_agg(statement, '; ' order by length(statement), statement) from pg_prepared_statements where statement like 'select 1%'")
	want := fmt.Sprintf("select 1; select 1 /* %s */; select 1 /* %s */; select 1 /* %s_/x */", a, b, a)
	if got != want {
		t.Errorf("prepared: %s, want %s", got, want)
	}
	// The four statements, and one for the settings.
	if got := simple(t, conn, preparedCount); got != "5" {
		t.Errorf("%s statements are prepared", got)
	}
}

func TestUnnamedStatementsLeaveNothing(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	s := &rows.Session{Unnamed: true, Settings: []rows.Setting{{"request.path", "/x"}}}
	for range 2 {
		var v rows.Values
		run(t, conn, s, rows.Step{Statement: statement("select $1::int + 1", []string{"2"}, "a")},
			rows.Step{Statement: statement("select current_setting('request.path')", nil, "a"), Sink: &v})
		if *v.Rows[0][0] != "/x" {
			t.Errorf("got %s", *v.Rows[0][0])
		}
	}
	if got := simple(t, conn, preparedCount); got != "0" {
		t.Errorf("%s statements are prepared", got)
	}
}

func TestLeastRecentlyUsedStatementsAreClosed(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	if err := rows.SetCacheSize(conn, 3); err != nil {
		t.Fatal(err)
	}
	n := func(i int) rows.Step {
		return rows.Step{Statement: statement(fmt.Sprintf("select %d", i), nil, "a")}
	}
	names := func() string {
		// An empty run closes what is to be closed.
		run(t, conn, nil)
		return simple(t, conn, "select string_agg(substr(statement, 8), ' ' order by statement) from pg_prepared_statements")
	}
	for _, i := range []int{1, 2, 3, 1, 4} {
		run(t, conn, nil, n(i))
	}
	if got := names(); got != "1 3 4" {
		t.Errorf("prepared: %s", got)
	}
	// One pipeline may have more statements than are kept.
	var steps []rows.Step
	var sums [20]rows.Values
	for i := range sums {
		s := n(i % 10)
		s.Sink = &sums[i]
		steps = append(steps, s)
	}
	for range 2 {
		run(t, conn, nil, steps...)
		for i := range sums {
			if got := *sums[i].Rows[0][0]; got != fmt.Sprint(i%10) {
				t.Errorf("step %d: %s", i, got)
			}
		}
	}
	if got := names(); got != "7 8 9" {
		t.Errorf("prepared: %s", got)
	}
	if err := rows.SetCacheSize(conn, 1); err != nil {
		t.Fatal(err)
	}
	if got := names(); got != "9" {
		t.Errorf("prepared: %s", got)
	}
}

func TestDefaultCacheSize(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	for i := range 300 {
		run(t, conn, nil, rows.Step{Statement: statement(fmt.Sprintf("select %d", i), nil, "a")})
	}
	run(t, conn, nil)
	if got := simple(t, conn, preparedCount); got != "256" {
		t.Errorf("%s statements are prepared", got)
	}
}

func TestStatementsThatFailToParseAreForgotten(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	later := rows.Step{Statement: statement("select count(*) from later", nil, "n")}
	for range 2 {
		wantCode(t, rows.Run(t.Context(), conn, nil, later), "42P01")
	}
	// A statement behind one that fails was never parsed; one before it was.
	before, behind := rows.Step{Statement: statement("select 'before'", nil, "a")}, rows.Step{Statement: statement("select 'behind'", nil, "a")}
	wantCode(t, rows.Run(t.Context(), conn, nil, before, later, behind), "42P01")
	exec(t, conn, "create table later ()")
	run(t, conn, nil, before, later, behind)
	if got := simple(t, conn, preparedCount); got != "3" {
		t.Errorf("%s statements are prepared", got)
	}
	// What was parsed stays, even if its first run failed.
	for _, arg := range []string{"x", "y", "1"} {
		err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: statement("select $1::int", []string{arg}, "a")})
		if arg != "1" {
			wantCode(t, err, "22P02")
		} else if err != nil {
			t.Error(err)
		}
	}
	if got := simple(t, conn, preparedCount); got != "4" {
		t.Errorf("%s statements are prepared", got)
	}
}

func TestLostStatementsArePreparedAgain(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	session := &rows.Session{Settings: []rows.Setting{{"request.path", "/x"}}}
	var v rows.Values
	step := rows.Step{Statement: statement("select current_setting('request.path')", nil, "a"), Sink: &v}
	for _, lose := range []string{"discard all", "deallocate all", "select 1"} {
		run(t, conn, session, step, step)
		exec(t, conn, lose)
		run(t, conn, session, step, step)
		if len(v.Rows) != 1 || *v.Rows[0][0] != "/x" {
			t.Errorf("got %v", v.Rows)
		}
		exec(t, conn, lose)
		tx, err := rows.Begin(t.Context(), conn, session, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Run(t.Context(), step); err != nil {
			t.Error(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	}
	wantClean(t, conn)
}

// A change of a column's type makes prepared statements invalid.
func TestSchemaChangesDoNotFailRequests(t *testing.T) {
	t.Parallel()
	conn := setup(t, "create table t (id int primary key, v int)", "insert into t values (1, 1), (2, 2)", "create table log (n int)")
	ctx := t.Context()
	types := []string{"bigint", "text", "numeric"}
	first := rows.Step{Statement: statement("insert into log values (1) returning n", nil, "n:n")}
	all := rows.Step{Statement: statement("select * from t order by id", nil, "id:n", "v")}
	other := rows.Step{Statement: statement("select v from t where id = $1", []string{"2"}, "v")}
	inserts := 0
	check := func(what string, run func(steps ...rows.Step) error) {
		t.Helper()
		for _, typ := range types {
			// All are prepared, and become invalid together.
			for range 2 {
				if err := rows.Run(ctx, conn, nil, all, other); err != nil {
					t.Fatal(err)
				}
			}
			exec(t, conn, "alter table t alter v type "+typ+" using v::text::"+typ)
			body := rows.NewBody(nil, false)
			a, b := all, other
			a.Sink, b.Sink = rows.NewObjects(body, all.Statement.Output, rows.Options{}), rows.NewObjects(body, other.Statement.Output, rows.Options{})
			if err := run(first, a, b); err != nil {
				t.Fatalf("%s, %s: %v", what, typ, err)
			}
			inserts++
			if got, want := string(body.Bytes()), `[{"id":1,"v":"1"},{"id":2,"v":"2"}][{"v":"2"}]`; got != want {
				t.Errorf("%s, %s: got %s", what, typ, got)
			}
			body.Release()
			wantClean(t, conn)
		}
	}
	check("run", func(steps ...rows.Step) error { return rows.Run(ctx, conn, nil, steps...) })
	check("first statements of a transaction", func(steps ...rows.Step) error {
		tx, err := rows.Begin(ctx, conn, nil, "")
		if err != nil {
			return err
		}
		if err := tx.Run(ctx, steps...); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	check("later statements of a transaction", func(steps ...rows.Step) error {
		tx, err := rows.Begin(ctx, conn, nil, "")
		if err != nil {
			return err
		}
		for _, s := range steps {
			if err := tx.Run(ctx, s); err != nil {
				return err
			}
		}
		return tx.Commit(ctx)
	})
	if got := simple(t, conn, "select count(*) from log"); got != fmt.Sprint(inserts) {
		t.Errorf("%s rows were inserted in %d transactions", got, inserts)
	}
}

// Within a transaction a statement is parsed once, even though those of earlier ones are not trusted.
func TestLaterStatementsAreReusedInTheirTransaction(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	step := rows.Step{Statement: statement("select $1::int", []string{"1"}, "a")}
	names := func() string {
		return simple(t, conn, "select string_agg(replace(prepare_time::text, ' ', 'T'), ' ') from pg_prepared_statements where statement like 'select $1%'")
	}
	run(t, conn, nil, step)
	before := names()
	tx, err := rows.Begin(t.Context(), conn, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	var seen []string
	for range 4 {
		if err := tx.Run(t.Context(), rows.Step{Statement: statement("select 1", nil, "a")}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Run(t.Context(), step); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, names())
	}
	// The old one is closed before the one that takes its place and its name is parsed.
	if seen[1] == before || seen[1] != seen[2] || seen[2] != seen[3] || strings.Contains(seen[1], " ") {
		t.Errorf("prepared before: %s, then %q", before, seen)
	}
}

// 0A000 is the code of other errors, too.
func TestOtherErrorsAreNotRetried(t *testing.T) {
	t.Parallel()
	conn := setup(t, "create sequence s", `create function f() returns int language plpgsql as $$
		begin perform nextval('s'); raise exception 'cached plan must not change result type' using errcode = '0A000'; end $$`)
	step := rows.Step{Statement: statement("select f()", nil, "a")}
	for range 2 {
		wantCode(t, rows.Run(t.Context(), conn, nil, step), "0A000")
	}
	if got := simple(t, conn, "select last_value from s"); got != "2" {
		t.Errorf("the function ran %s times instead of 2", got)
	}
}

// Behind a pooler a session may hold statements that another connection prepared, or lack those that this one did.
func TestStatementsOfOtherConnectionsAreInNobodysWay(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	var v rows.Values
	step := rows.Step{Statement: statement("select 'mine'", nil, "a"), Sink: &v}
	run(t, conn, nil, step)
	name := simple(t, conn, "select name from pg_prepared_statements where statement like 'select ''mine%'")
	check := func(what string, err error) {
		t.Helper()
		if err != nil || len(v.Rows) != 1 || *v.Rows[0][0] != "mine" {
			t.Errorf("%s: %v, error %v", what, v.Rows, err)
		}
	}
	other := connect(t, databaseURL(t, conn))
	exec(t, other, `prepare "`+name+`" as select 'other'`)
	check("prepared by another one", rows.Run(t.Context(), other, nil, step))
	// In a transaction nothing can be tried again.
	third := connect(t, databaseURL(t, conn))
	exec(t, third, `prepare "`+name+`" as select 'other'`)
	tx, err := rows.Begin(t.Context(), third, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if err := tx.Run(t.Context(), rows.Step{Statement: statement("select 1", nil, "a")}); err != nil {
		t.Fatal(err)
	}
	check("prepared by another one, in a transaction", tx.Run(t.Context(), step))
	// One that is missing again and again is not prepared any more.
	for range 5 {
		exec(t, other, "deallocate all")
		check("lost", rows.Run(t.Context(), other, nil, step))
	}
	run(t, other, nil, step, step)
	if got := simple(t, other, preparedCount); got != "0" {
		t.Errorf("%s statements are prepared", got)
	}
	// Another role, schema or text has another name.
	role := createRole(t, conn)
	run(t, conn, &rows.Session{Role: role}, step)
	run(t, conn, &rows.Session{Schema: "other"}, step)
	if got := simple(t, conn, `select count(*) from pg_prepared_statements where name = '`+name+`'`); got != "0" {
		t.Errorf("%s statements of an outdated schema are kept", got)
	}
}
