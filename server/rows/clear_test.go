package rows_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/rows"
)

// leavings are statements that leave something behind with a session, and queries that say t if it is still there.
var leavings = []struct{ name, leave, left string }{
	{"setting of the application", `select set_config('app.tenant', 'acme', false)`, `select coalesce(current_setting('app.tenant', true), '') <> ''`},
	{"setting of the server", `select set_config('statement_timeout', '123s', false)`, `select current_setting('statement_timeout') = '123s'`},
	{"role", `select set_config('role', 'pg_monitor', false)`, `select current_user = 'pg_monitor'`},
	{"SET in a function", `select leave('set search_path = pg_catalog')`, `select current_setting('search_path') = 'pg_catalog'`},
	{"temporary table", `select leave('create temp table secret as select 1 as a')`, `select to_regclass('pg_temp.secret') is not null`},
	{"temporary function", `select leave('create function pg_temp.f() returns int language sql as ''select 1''')`, `select exists (select from pg_proc where pronamespace = pg_my_temp_schema())`},
	{"prepared statement", `select leave('prepare "a ""quoted"" name" as select 1')`, `select exists (select from pg_prepared_statements where from_sql)`},
	{"subscription", `select leave('listen chatter')`, `select exists (select pg_listening_channels())`},
	{"advisory lock", `select pg_advisory_lock(42)`, `select exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())`},
	{"cursor", `select leave('declare held cursor with hold for select 1')`, `select exists (select from pg_cursors where name = 'held')`},
	{"value of a sequence", `select nextval('numbers')`, `select lastval() is not null`},
}

const leaveFunction = `create function leave(command text) returns void language plpgsql as $$ begin execute command; end $$`

func wantNothingLeft(t *testing.T, conn *pgconn.PgConn, left string) {
	t.Helper()
	var v rows.Values
	err := rows.Run(context.Background(), conn, nil, rows.Step{Statement: statement(left, nil, "v"), Sink: &v})
	if err == nil && *v.Rows[0][0] == "t" {
		t.Errorf("it is left to the next request: %s", left)
	}
}

func TestSessionIsClearedForTheNextRequest(t *testing.T) {
	t.Parallel()
	conn := setup(t, leaveFunction, "create sequence numbers")
	ctx := t.Context()
	for _, c := range leavings {
		step := rows.Step{Statement: statement(c.leave, nil, "v")}
		t.Run(c.name, func(t *testing.T) {
			if err := rows.Run(ctx, conn, &rows.Session{Clear: true}, step); err != nil {
				t.Fatal(err)
			}
			wantNothingLeft(t, conn, c.left)
			wantClean(t, conn)
		})
		t.Run(c.name+" in a transaction", func(t *testing.T) {
			for _, end := range []string{"commit", "rollback", "failure"} {
				tx, err := rows.Begin(ctx, conn, &rows.Session{Clear: true}, "")
				if err != nil {
					t.Fatal(err)
				}
				if err := tx.Run(ctx, step); err != nil {
					t.Fatal(err)
				}
				switch end {
				case "commit":
					err = tx.Commit(ctx)
				case "rollback":
					tx.Rollback(ctx)
				case "failure":
					wantCode(t, tx.Run(ctx, rows.Step{Statement: statement("select 1/0", nil, "v")}), "22012")
				}
				if err != nil {
					t.Fatalf("%s: %v", end, err)
				}
				wantNothingLeft(t, conn, c.left)
				wantClean(t, conn)
			}
		})
		t.Run(c.name+" before a failure", func(t *testing.T) {
			err := rows.Run(ctx, conn, &rows.Session{Clear: true}, step, rows.Step{Statement: statement("select 1/0", nil, "v")})
			wantCode(t, err, "22012")
			wantNothingLeft(t, conn, c.left)
			wantClean(t, conn)
		})
	}
	if conn.IsClosed() {
		t.Error("the connection was given up")
	}
}

func TestClearingKeepsPreparedStatementsAndRoundTrips(t *testing.T) {
	t.Parallel()
	conn, trips := counted(t, prepared(t))
	ctx := t.Context()
	session := &rows.Session{Clear: true, Settings: []rows.Setting{{Name: "request.method", Value: "POST"}}}
	run := func() {
		t.Helper()
		if err := rows.Run(ctx, conn, session, rows.Step{Statement: statement("select set_config('app.tenant', 'acme', false)", nil, "v")}); err != nil {
			t.Fatal(err)
		}
	}
	run()
	trips()
	const names = "select coalesce(string_agg(name, ' ' order by name), '') from pg_prepared_statements where name like 'bough%' and statement like '%app.tenant%'"
	before := value(t, conn, nil, names)
	trips()
	run()
	if n := trips(); n != 1 {
		t.Errorf("%d round trips, want 1", n)
	}
	if after := value(t, conn, nil, names); before == "" || after != before {
		t.Errorf("prepared statements are %q, then %q", before, after)
	}
}

// A setting of the connection is not one that a request left.
func TestClearingReturnsToTheSettingsOfTheConnection(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	session := &rows.Session{Clear: true}
	if err := rows.Run(t.Context(), conn, session, rows.Step{Statement: statement("select set_config('intervalstyle', 'iso_8601', false)", nil, "v")}); err != nil {
		t.Fatal(err)
	}
	if got := value(t, conn, nil, "select current_setting('intervalstyle')"); got != "postgres" {
		t.Errorf("intervalstyle is %q", got)
	}
}

// On PostgreSQL 15 a procedure could commit, and go on without the role of the request.
func TestProcedureCannotLeaveItsTransaction(t *testing.T) {
	t.Parallel()
	role := "caller_" + randomName()
	conn := setup(t, "create table notes (owner text)", "insert into notes values ('ann'), ('bob')",
		"create role "+role, "grant select, delete on notes to "+role, "alter table notes enable row level security",
		"create policy own on notes using (owner = current_setting('request.user', true))",
		`create procedure tidy() language plpgsql as $$ begin commit; delete from notes; end $$`,
		`create procedure undo() language plpgsql as $$ begin rollback; delete from notes; end $$`,
		`create procedure mine(inout n int) language plpgsql as $$ begin delete from notes; get diagnostics n = row_count; end $$`)
	t.Cleanup(func() { exec(t, conn, "drop owned by "+role, "drop role "+role) })
	session := &rows.Session{Role: role, Clear: true, Settings: []rows.Setting{{Name: "request.user", Value: "ann"}}}
	call := func(sql string, columns ...string) error {
		st := statement(sql, nil, columns...)
		st.Call = true
		return rows.Run(t.Context(), conn, session, rows.Step{Statement: st})
	}
	for _, sql := range []string{"call tidy()", "call undo()"} {
		wantCode(t, call(sql), "2D000")
		wantClean(t, conn)
		if got := value(t, conn, nil, "select count(*) from notes"); got != "2" {
			t.Fatalf("%s: %s records are left, want 2", sql, got)
		}
	}
	if err := call("call mine(null)", "n"); err != nil {
		t.Fatal(err)
	}
	wantClean(t, conn)
	if got := value(t, conn, nil, "select string_agg(owner, ' ') from notes"); got != "bob" {
		t.Errorf("left are the records of %q, want bob's", got)
	}
}

func TestCallTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	conn, trips := counted(t, prepared(t, "create procedure p() language sql as 'select 1'"))
	st := statement("call p()", nil)
	st.Call = true
	trips()
	if err := rows.Run(t.Context(), conn, &rows.Session{Clear: true}, rows.Step{Statement: st}); err != nil {
		t.Fatal(err)
	}
	if n := trips(); n != 1 {
		t.Errorf("%d round trips, want 1", n)
	}
}
