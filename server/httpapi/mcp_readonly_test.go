package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// attack is SQL that is no business of a tool that only reads.
type attack struct{ sql, says string }

// attacks are what the two tools that take SQL are asked to do, and a part of what they say about it. WITNESS is a file
// that a program on the server's machine would make.
func attacks(witness string) []attack {
	const one, volatile = "one SELECT", "it is volatile"
	list := []attack{
		{"commit; drop table notes", one},
		{"COMMIT; DROP TABLE notes; --", one},
		{"select 1; commit; begin read write; delete from open", one},
		{"rollback; set transaction read write; insert into open values ('x')", one},
		{"end; truncate open; begin", one},
		{"select 1; select 2", one},
		{"set role postgres", one},
		{"SET LOCAL ROLE none", one},
		{"reset role", one},
		{"set session authorization default", one},
		{"set transaction read write", one},
		{"set session characteristics as transaction read write", one},
		{"set local request.jwt.claims = '{\"sub\": \"EVE\"}'", one},
		{"/* harmless */ delete from open", one},
		{"-- harmless\ndelete from open", one},
		{"/* a /* nested */ comment */ insert into open values ('x')", one},
		{"/*! select */ drop table open", one},
		{"\ufeffdelete from open", "syntax error"},
		{"copy notes to program 'touch WITNESS'", one},
		{"copy (select 1) to program 'touch WITNESS'", one},
		{"copy notes to stdout", one},
		{"copy (select body from notes) to '/tmp/x'", one},
		{"copy open from program 'echo x'", one},
		{"do $$ begin execute 'drop table open'; end $$", one},
		{"do language plpgsql 'begin perform pg_sleep(0); end'", one},
		{"prepare p as delete from open", one},
		{"execute p", one},
		{"declare c cursor with hold for select * from notes", one},
		{"listen bough", one},
		{"notify bough_ddl, 'x'", one},
		{"lock table notes in access exclusive mode", one},
		{"call jot(5, 'x')", "jot"},
		{"create table made as select * from notes", one},
		{"create temporary table made (id int)", one},
		{"select * into made from notes", one},
		{"create function f() returns int language sql as 'select 1'", one},
		{"alter table notes disable row level security", one},
		{"drop policy own on notes", one},
		{"grant all on notes to public", one},
		{"truncate open", one},
		{"vacuum full notes", one},
		{"refresh materialized view nothing", one},
		{"insert into open values ('x') returning name", one},
		{"update notes set body = 'x'", one},
		{"delete from open", one},
		{"merge into open using (select 1) x on true when matched then delete", one},
		{"with gone as (delete from open returning name) select * from gone", one},
		{"with more as (insert into open values ('x') returning name) select name from more", one},
		{"with changed as (update notes set body = 'x' returning id) select id from changed", one},
		{"select * from (with gone as (delete from open returning name) select * from gone) g", "WITH"},
		{"explain analyze insert into open values ('x')", one},
		{"explain (analyze) delete from open", one},
		{"select * from notes for update", "lock"},
		{"select * from open for share nowait", "lock"},
		{"select * from (select * from open for no key update skip locked) o", "lock"},

		{"select set_config('role', 'none', true)", "set_config"},
		{"select pg_catalog.set_config('role', 'service_role', false)", "set_config"},
		{`select "set_config"('session_authorization', 'postgres', false)`, "set_config"},
		{"select set_config('request.jwt.claims', '{\"sub\": \"EVE\"}', true), body from notes", "set_config"},
		{"select set_config('request.jwt.claim.sub', 'EVE', true), body from notes", "set_config"},
		{"select set_config('transaction_read_only', 'off', true)", "set_config"},
		{"select set_config('row_security', 'off', true)", "set_config"},
		{"select set_config('search_path', 'auth', false)", "set_config"},
		{"select set_config('ro' || 'le', chr(110) || 'one', true)", "set_config"},
		{`select U&"set\005fconfig"('role', 'none', true)`, "set_config"},
		{`select U&"!0073et_config" uescape '!' ('role', 'none', true)`, "set_config"},
		{"select/**/set_config/* x */('role', 'none', true)", "set_config"},
		{"select case when false then set_config('role', 'none', true) end from notes", "set_config"},
		{"select body from notes order by set_config('role', 'none', true)", "set_config"},
		{"select * from notes, lateral (select set_config('request.jwt.claims', '{\"sub\": \"EVE\"}', true)) x", "set_config"},
		{"with c as materialized (select set_config('request.jwt.claims', '{\"sub\": \"EVE\"}', true)) select notes.* from c, notes", "set_config"},
		{"select query_to_xml('select set_config(''role'', ''none'', true)', true, true, '')", "query_to_xml"},
		{"select query_to_xml('delete from open', true, true, '')", "query_to_xml"},
		{"select query_to_xml_and_xmlschema('select * from notes', true, true, '')", "query_to_xml_and_xmlschema"},
		{"select table_to_xml('notes', true, true, '')", "table_to_xml"},
		{"select schema_to_xml('auth', true, true, '')", "schema_to_xml"},
		{"select database_to_xml(true, true, '')", "database_to_xml"},
		{"select * from ts_stat('select to_tsvector(body) from notes')", "ts_stat"},

		{"select nextval('counter')", "nextval"},
		{"select setval('counter', 1000)", "setval"},
		{"select pg_read_file('/etc/passwd')", "pg_read_file"},
		{"select pg_read_binary_file('postgresql.conf')", "pg_read_binary_file"},
		{"select pg_ls_dir('.')", "pg_ls_dir"},
		{"select pg_stat_file('postgresql.conf')", "pg_stat_file"},
		{"select lo_import('/etc/passwd')", "lo_import"},
		{"select lo_export(1, 'WITNESS')", "lo_export"},
		{"select lo_from_bytea(0, 'x')", "lo_from_bytea"},
		{"select pg_terminate_backend(pg_backend_pid())", "pg_terminate_backend"},
		{"select pg_cancel_backend(pg_backend_pid())", "pg_cancel_backend"},
		{"select pg_reload_conf()", "pg_reload_conf"},
		{"select pg_sleep(100)", "pg_sleep"},
		{"select pg_sleep_for('1 minute')", "pg_sleep_for"},
		{"select pg_notify('bough_ddl', 'x')", "pg_notify"},
		{"select pg_advisory_lock(1)", "pg_advisory_lock"},
		{"select pg_try_advisory_xact_lock(1)", "pg_try_advisory_xact_lock"},
		{"select pg_export_snapshot()", "pg_export_snapshot"},
		{"select pg_current_xact_id()", "pg_current_xact_id"},
		{"select pg_logical_emit_message(true, 'x', 'y')", "pg_logical_emit_message"},
		{"select pg_stat_reset()", "pg_stat_reset"},
		{"select * from dblink('dbname=postgres', 'select 1') d(n int)", "dblink"},
		{"select dblink_exec('dbname=postgres', 'drop table x')", "dblink_exec"},
		{"select jot(5, 'x')", volatile},
		{"select public.jot(5, body) from notes", volatile},
		{"select body from notes where jot(id + 100, 'x') > 0", volatile},
		{"select (select jot(5, 'x'))", volatile},

		{"select * from auth.users", "auth"},
		{"select * from users", "users"},
		{"select * from oauth_tokens", "oauth_tokens"},
		{"select * from api_keys", "api_keys"},
		{"select * from control.public.users", "cross-database"},
		{"select * from bough.branches", "bough"},
		{"select rolpassword from pg_authid", ""},
		{"select passwd from pg_shadow", ""},
		{"select * from pg_stat_get_activity(null)", "pg_stat_get_activity"},
		{"select * from pg_prepared_statements", "pg_prepared_statements"},
		{"select line_number from pg_hba_file_rules", ""},
		{"select setting from pg_file_settings", ""},
	}
	for i := range list {
		list[i].sql = strings.ReplaceAll(list[i].sql, "WITNESS", witness)
	}
	return list
}

// What an assistant may read it reads, and nothing makes run_sql_query and explain_query do more: not for a user, whose
// rights end with her rows, and not for the service, whose rights do not.
func TestMCPReadOnlySQL(t *testing.T) {
	t.Parallel()
	w := newToolWorld(t)
	w.s.Exec(t, w.s.Main, "create extension dblink; insert into open values ('stays')")
	byKey := clientKey(t, w.s, w.ada, "read:tables", "execute:rpc")
	byKey.forAda = true
	witness := filepath.Join(os.TempDir(), "bough-witness-"+w.ada.String())
	t.Cleanup(func() { _ = os.Remove(witness) })
	list := attacks(witness)
	eavesdropper := connect(t, w.s.Main)
	for _, channel := range []string{"bough", "bough_ddl"} {
		if _, err := eavesdropper.Exec(t.Context(), "listen "+channel); err != nil {
			t.Fatal(err)
		}
	}
	locks := "select count(*)::text from pg_locks l join pg_database d on d.oid = l.database where locktype = 'advisory' and datname = current_database()"
	before := one(t, w.main, locks)
	for name, who := range map[string]assistant{"user": w.user, "client key": byKey, "service": service(w.s)} {
		t.Run(name, func(t *testing.T) { // one after the other
			w.unchanged(t, func() {
				for _, a := range list {
					sql, err := json.Marshal(w.ids.Replace(a.sql))
					if err != nil {
						t.Fatal(err)
					}
					who.fails(t, "run_sql_query", fmt.Sprintf(`{"sql": %s}`, sql), a.says)
					who.fails(t, "explain_query", fmt.Sprintf(`{"sql": %s, "analyze": true}`, sql), a.says)
				}
			})
			diff(t, "advisory locks", before, one(t, w.main, locks))
			// The sessions that were attacked serve the next one as if nothing had been.
			want := `{"rows": [["authenticated", "on", "` + w.ada.String() + `", 4]]}`
			if name == "service" {
				want = `{"rows": [["service_role", "on", null, 6]]}`
			}
			for range 3 {
				who.gives(t, "run_sql_query", `{"sql": "select current_user, current_setting('transaction_read_only'), auth.uid(), (select count(*) from notes)"}`, want)
			}
		})
	}
	if _, err := os.Stat(witness); err == nil {
		t.Error("a program ran on the server")
	}
	if got := notified(t, eavesdropper); got != "" {
		t.Errorf("a message was sent: %s", got)
	}
}

// notified is what a connection that listens has heard.
func notified(t *testing.T, conn *pgx.Conn) (heard string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "select 1"); err != nil { // with its answer comes what there is
		t.Fatal(err)
	}
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		n, err := conn.WaitForNotification(ctx)
		cancel()
		if err != nil {
			return heard
		}
		heard += n.Channel + " " + n.Payload + "\n"
	}
}

// Answers end where they are long enough, statements where they take too long.
func TestMCPSQLIsBounded(t *testing.T) {
	t.Parallel()
	w := newToolWorld(t)
	for name, who := range map[string]assistant{"user": w.user, "service": service(w.s)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for args, says := range map[string]string{
				`{"sql": "select generate_series(1, 1000000000)", "limit": 1000}`:                              "there are more",
				`{"sql": "select repeat('x', 1000), generate_series(1, 1000000)", "limit": 1000}`:              "more would be too large",
				`{"sql": "with recursive r as (select 1 as n union all select n + 1 from r) select n from r"}`: "there are more",
			} {
				got := who.works(t, "run_sql_query", args)
				if !strings.Contains(got.text, says) || len(got.body) > 200_000 {
					t.Errorf("%s was answered with %d bytes: %.300s", args, len(got.body), got.text)
				}
			}
			who.fails(t, "run_sql_query", `{"sql": "select repeat('x', 1000000)"}`, "too_large")
			who.fails(t, "run_sql_query", `{"sql": "select repeat(repeat('x', 1000000), 1000000)"}`, "")
		})
	}
	// It may take fifteen seconds, and others are served meanwhile.
	done := make(chan toolAnswer)
	endless := `{"sql": "select count(*) as endless from pg_class a, pg_class b, pg_class c, pg_class d, pg_class e"}`
	go func() { done <- w.user.call(t, "run_sql_query", endless) }()
	service(w.s).works(t, "query_table", `{"table": "notes"}`)
	got := <-done
	if !got.failed || !strings.Contains(got.text, "took too long") {
		t.Errorf("an endless statement was answered %s", got.body)
	}
	running := "select count(*)::text from pg_stat_activity where query like '%endless%' and state = 'active' and pid <> pg_backend_pid()"
	diff(t, "statements that still run", "0", one(t, w.main, running))
}
