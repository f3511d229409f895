package readsql_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/readsql"
)

func TestResultsAreCutShort(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := []struct {
		name, sql       string
		limit, maxBytes int
		rows            int
		reason          string
	}{
		{"all rows", "select * from generate_series(1, 100)", 0, 0, 100, ""},
		{"one row more", "select * from generate_series(1, 101)", 0, 0, 100, "rows"},
		{"exactly the limit", "select * from generate_series(1, 5)", 5, 0, 5, ""},
		{"a batch more than the limit", "select * from open_table", 150, 0, 150, "rows"},
		{"several batches", "select * from open_table", 1000, 0, 1000, ""},
		{"a billion rows", "select generate_series(1, 1000000000)", 3, 0, 3, "rows"},
		{"many bytes", "select repeat('x', 997) from generate_series(1, 50)", 0, 10_000, 10, "bytes"},
		{"a huge row", "select repeat('x', i) from unnest(array[1, 100000000, 1]) i", 0, 1000, 1, "bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			q := w.query(c.sql)
			q.Limit, q.MaxBytes = c.limit, c.maxBytes
			res, err := w.runner.Run(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Rows) != c.rows || res.Reason != c.reason || res.Truncated != (c.reason != "") {
				t.Errorf("got %d rows, truncated: %v %q; want %d, %q", len(res.Rows), res.Truncated, res.Reason, c.rows, c.reason)
			}
		})
	}
	q := w.query("select repeat('x', 100000)")
	_, err := w.runner.Run(t.Context(), q)
	refused(t, err, "the first row of the result alone has more than 65536 bytes")
}

func TestColumnsHaveNamesAndTypes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	res, err := w.runner.Run(t.Context(), w.query("select id, id, body::varchar(3) as b, mood, tags, 1.5::numeric(4,1), null from notes where id = 1"))
	if err != nil {
		t.Fatal(err)
	}
	want := []readsql.Column{{Name: "id", Type: "integer"}, {Name: "id", Type: "integer"}, {Name: "b", Type: "character varying(3)"}, {Name: "mood", Type: "mood"},
		{Name: "tags", Type: "text[]"}, {Name: "numeric", Type: "numeric(4,1)"}, {Name: "?column?", Type: "text"}}
	if d := cmp.Diff(want, res.Columns); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(`1,1,"her","happy",["a","b"],1.5,null`, show(res)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestCallersLearnWhatIsWrongWithAStatement(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := []struct {
		sql     string
		params  []string
		kind    fault.Kind
		code    string
		message string
		details string
	}{
		{"select ärger,\n  nope from notes", nil, fault.Invalid, "42703", `column "ärger" does not exist`, "line 1, column 8, at: ärger,"},
		{"select body,\n  nope from notes", nil, fault.Invalid, "42703", `column "nope" does not exist`, "line 2, column 3, at: nope from notes"},
		{"select from from", nil, fault.Invalid, "42601", `syntax error at or near "from"`, "line 1, column 13, at: from"},
		{"select * from closed", nil, fault.Forbidden, "42501", "permission denied for table closed", ""},
		{"select 1 / 0", nil, fault.Invalid, "22012", "division by zero", ""},
		{"select $1::int", []string{`"x"`}, fault.Invalid, "22P02", `invalid input syntax for type integer: "x"`, ""},
		{"select $1", []string{`"x"`, "1"}, fault.Invalid, "validation_error", "the statement has 1 parameters ($1, …), but 2 are given", ""},
		{"select $1::int", []string{`{"a": 1}`}, fault.Invalid, "validation_error", `parameter $1 is a integer, which cannot be made of {"a": 1}`, ""},
		{"select $1::int[]", []string{`[{"a": 1}]`}, fault.Invalid, "validation_error", `parameter $1 is a integer[], which cannot be made of [{"a": 1}]`, ""},
		{"select $2", []string{"1", "2"}, fault.Invalid, "42P18", "could not determine data type of parameter $1", ""},
		{"select '" + strings.Repeat("x", 70_000) + "'", nil, fault.Invalid, "validation_error", "the statement has 70009 bytes; at most 65536 are run", ""},
		{"select 1\x00", nil, fault.Invalid, "validation_error", "the statement has a zero byte in it", ""},
		{"select '11'::tiny", nil, fault.Invalid, "23514", `value for domain tiny violates check constraint "tiny_check"`, ""},
		{strings.Repeat("(", 20_000) + "select 1" + strings.Repeat(")", 20_000), nil, fault.Invalid, "42601", `memory exhausted at or near "("`, ""},
	}
	for _, c := range cases {
		t.Run(c.message, func(t *testing.T) {
			t.Parallel()
			_, err := w.runner.Run(t.Context(), w.query(c.sql, c.params...))
			f := refused(t, err, "")
			got := []any{f.Kind, f.Code, f.Message}
			if d := cmp.Diff([]any{c.kind, c.code, c.message}, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if !strings.HasPrefix(f.Details, c.details) {
				t.Errorf("details %q, want %q", f.Details, c.details)
			}
		})
	}
}

func TestFunctionsNeedTheirScope(t *testing.T) {
	t.Parallel()
	w := setup(t)
	q := w.query("select twice(2), auth.uid(), lower('A')")
	q.Caller.MayExecute = false
	for range 2 {
		_, err := w.runner.Run(t.Context(), q)
		refused(t, err, "the statement calls twice(integer), for which the scope execute:rpc is needed")
	}
	q.SQL = "select auth.uid(), lower('A')"
	if _, err := w.runner.Run(t.Context(), q); err != nil {
		t.Error(err)
	}
	w.exec(t, "revoke execute on function twice from public")
	_, err := w.runner.Run(t.Context(), w.query("select twice(2)"))
	refused(t, err, "permission denied for function twice")
}

func TestSlowStatementsAreGivenUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	pools, err := postgres.NewPools(w.url, "test", postgres.PoolLimits{Main: 1, Branch: 1, Total: 4, Idle: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pools.Close)
	runner := readsql.New(pools.Acquire, readsql.Config{Schemas: []string{"public"}, Timeout: 300 * time.Millisecond})
	_, err = runner.Run(t.Context(), w.query("select count(*) from generate_series(1, 1000000000)"))
	if f := refused(t, err, "took too long"); f.Kind != fault.Unavailable || f.Code != "57014" {
		t.Errorf("kind %v, code %s", f.Kind, f.Code)
	}
	// The only connection of the pool is of use for the next one.
	res, err := runner.Run(t.Context(), w.query("select count(*), current_user from notes"))
	if err != nil || show(res) != `2,"reader"` {
		t.Errorf("got %v, %v", res, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := runner.Run(ctx, w.query("select count(*) from generate_series(1, 1000000000)")); err == nil {
		t.Error("a statement was not given up with its context")
	}
}

func TestPlansDoNotTellOfHiddenRows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	explain := func(q *readsql.Query, analyze bool) string {
		t.Helper()
		plan, err := w.runner.Explain(t.Context(), q, analyze)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(plan) {
			t.Fatalf("not JSON: %s", plan)
		}
		return string(plan)
	}
	const secret = "select id from notes where body = 'his secret'"
	for _, sql := range []string{secret, "with x as (" + secret + ") select 1 from x", "select 1 from all_notes where owner = 'bob'"} {
		plan := explain(w.query(sql), true)
		if strings.Contains(plan, "Removed") || strings.Count(plan, "Actual Rows") != 1 || !strings.Contains(plan, "Execution Time") {
			t.Errorf("%s: the plan is %s", sql, plan)
		}
	}
	if plan := explain(w.query("select name from open_table where id <> $1", "3"), true); !strings.Contains(plan, `"Rows Removed by Filter": 1`) {
		t.Errorf("the plan of an open table is %s", plan)
	}
	service := w.query(secret)
	service.Caller.Role = ""
	if plan := explain(service, true); !strings.Contains(plan, `"Actual Rows": 1`) {
		t.Errorf("the service's plan is %s", plan)
	}
	if plan := explain(w.query(secret), false); strings.Contains(plan, "Actual") || !strings.Contains(plan, `"Plan Rows"`) {
		t.Errorf("the plan is %s", plan)
	}
}

// A login role without rights of its own can check statements, unless it may not make temporary things.
func TestALoginRoleThatIsNoSuperuser(t *testing.T) {
	t.Parallel()
	w := setup(t)
	u, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	plain := pgtest.Role(t, "login noinherit in role reader password 'plain'")
	u.User = url.UserPassword(plain, "plain")
	runner := w.run(t, u.String())
	res, err := runner.Run(t.Context(), w.query("select id, current_user from notes order by id"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(`1,"reader";2,"reader"`, show(res)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	_, err = runner.Run(t.Context(), w.query("select set_config('role', 'none', true)"))
	refused(t, err, "set_config")
	w.exec(t, "revoke temporary on database "+w.name+" from public")
	_, err = runner.Run(t.Context(), w.query("select 2"))
	if f := refused(t, err, "SQL statements cannot be checked in this database"); f.Hint != "the operator can allow it: grant temporary on database "+w.name+" to "+plain {
		t.Errorf("hint %q", f.Hint)
	}
	w.exec(t, "grant temporary on database "+w.name+" to "+plain)
	if _, err = runner.Run(t.Context(), w.query("select 2")); err != nil {
		t.Error(err)
	}
}

// The check makes a function, but nobody is told, and nothing of it stays.
func TestChecksAreNotAnnounced(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(t, "create function tell() returns event_trigger language plpgsql as $$ begin perform pg_notify('bough_ddl', ''); end $$",
		"create event trigger telling on ddl_command_end execute function tell()")
	listener, err := pgx.Connect(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close(context.Background())
	if _, err := listener.Exec(t.Context(), "listen bough_ddl"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.runner.Run(t.Context(), w.query("select 42")); err != nil {
		t.Fatal(err)
	}
	w.exec(t, "notify bough_ddl, 'the end'")
	n, err := listener.WaitForNotification(t.Context())
	if err != nil || n.Payload != "the end" {
		t.Errorf("got %v, %v", n, err)
	}
	if n := w.value(t, "select count(*) from pg_proc where proname like 'bough%'"); n != "0" {
		t.Errorf("%s functions are left", n)
	}
}

// JSON's newer functions and others of later versions are known.
func TestStatementsOfLaterVersions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := []struct {
		version   int
		sql, want string
	}{
		{160000, "select json_array(1, 2), json_object('a': 1), json_arrayagg(id order by id), json_objectagg(id: body), body is json from notes where id = 1 group by body", `[1, 2],{"a" : 1},[1],{ "1" : "hers" },false`},
		{170000, "select json_value('{\"a\": 1}'::jsonb, '$.a' returning int default 3 on error), json_query('{}'::jsonb, '$.a' passing 1 as z), json_exists('{}'::jsonb, '$.a'), json_scalar(1), json_serialize('{}'), json('{}')", `1,null,false,1,"{}",{}`},
		{170000, "select * from json_table('[{\"a\": 1, \"b\": [{\"c\": 2}]}]'::jsonb, '$[*]' columns (n for ordinality, a int path '$.a', nested path '$.b[*]' columns (c int)))", "1,1,2"},
		{180000, "select uuid_extract_version(uuidv7()), random(5, 5)", "7,5"},
	}
	version := 0
	if err := w.admin.QueryRow(t.Context(), "select current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.version > version {
			continue
		}
		res, err := w.runner.Run(t.Context(), w.query(c.sql))
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
		} else if d := cmp.Diff(c.want, show(res)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.sql, d)
		}
	}
	if version < 170000 {
		return
	}
	_, err := w.runner.Run(t.Context(), w.query("select json_value('{}'::jsonb, '$.a' default set_config('role', 'none', true) on empty)"))
	refused(t, err, "")
	_, err = w.runner.Run(t.Context(), w.query("select * from json_table(jsonb '[1]', '$[*]' passing set_config('role', 'none', true) as x columns (a int path '$'))"))
	refused(t, err, "set_config")
}

func TestExtensions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, name := range []string{"pg_trgm", "hstore", "citext", "ltree", "unaccent", "intarray", "uuid-ossp", "fuzzystrmatch"} {
		if w.value(t, "select count(*) from pg_available_extensions where name = '"+name+"'") == "1" {
			w.exec(t, `create extension "`+name+`"`)
		}
	}
	for sql, want := range map[string]string{
		"select similarity('abc', 'abd') > 0, 'word' % 'words'":               "true,true",
		"select 'a=>1'::hstore -> 'a', 'ABC'::citext = 'abc', 'a=>1'::hstore": `"1",true,{"a": "1"}`,
		"select 'a.b'::ltree <@ 'a', unaccent('é'), sort(array[2, 1])":        `true,"e",[1,2]`,
		"select length(uuid_generate_v4()::text), levenshtein('a', 'b')":      "36,1",
	} {
		res, err := w.runner.Run(t.Context(), w.query(sql))
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		} else if d := cmp.Diff(want, show(res)); d != "" {
			t.Errorf("%s (-want +got):\n%s", sql, d)
		}
	}
	_, err := w.runner.Run(t.Context(), w.query("select set_limit(0.5)"))
	refused(t, err, "set_limit(real) is not allowed in a query: it is volatile")
}

func BenchmarkRun(b *testing.B) {
	w := setup(b)
	b.Run("warm", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.runner.Run(b.Context(), w.query("select * from notes order by id")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cold", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			if _, err := w.runner.Run(b.Context(), w.query("select * from notes order by id -- "+strings.Repeat("x", n%5000))); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Who administers the database sees what may have secrets in it.
func TestAdministratorsSeeSourceText(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, sql := range []string{"select prosrc from pg_proc where proname = 'twice'", "select count(pg_get_functiondef(oid)) from pg_proc where proname = 'twice'"} {
		q := w.query(sql)
		for _, unbound := range []bool{false, true, false} {
			q.Caller.Unbound = unbound
			_, err := w.runner.Run(t.Context(), q)
			if unbound && err != nil {
				t.Error(err)
			} else if !unbound {
				refused(t, err, "there may be secrets in")
			}
		}
	}
	q := w.query("select set_config('role', 'none', true)")
	q.Caller.Unbound = true
	_, err := w.runner.Run(t.Context(), q)
	refused(t, err, "set_config")
}
