package readsql_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/readsql"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a database with the notes of two users, and a runner of statements in it.
type world struct {
	url    string
	name   string
	admin  *pgx.Conn
	runner *readsql.Runner
}

const fixture = `
	create schema auth;
	create function auth.uid() returns text stable language sql as $$ select current_setting('request.jwt.claims', true)::json->>'sub' $$;
	grant usage on schema auth to public;
	create schema hidden;
	grant usage on schema hidden to reader;
	create table hidden.things (id int);
	insert into hidden.things values (1);
	grant select on hidden.things to reader;
	create function hidden.peek() returns int stable language sql as 'select 1';
	create type mood as enum ('sad', 'happy');
	create table notes (id int primary key, owner text not null default auth.uid(), body text, tags text[], data jsonb, mood mood, at timestamptz);
	create index on notes (body);
	alter table notes enable row level security;
	create policy own on notes using (owner = auth.uid()) with check (owner = auth.uid());
	insert into notes values (1, 'ann', 'hers', '{a,b}', '{"k": 1}', 'happy', '2024-05-01 12:00+00'), (2, 'ann', 'also hers', null, null, null, null),
		(3, 'bob', 'his secret', '{c}', '{"k": 2}', 'sad', null);
	grant select, insert, update, delete on notes to reader;
	create table open_table (id int primary key, name text);
	insert into open_table select i, 'name ' || i from generate_series(1, 1000) i;
	grant all on open_table to reader;
	create sequence counter;
	grant all on counter to reader;
	create table closed (id int);
	create view all_notes as select id, owner from notes;
	create view touched as select nextval('counter') as n, set_config('bough.seen', 'yes', false) as s;
	grant select on all_notes, touched to reader;
	create function twice(n int) returns int immutable language sql as 'select n * 2';
	create function newest() returns setof notes stable language sql as 'select * from notes order by id desc';
	create function dangerous() returns int language plpgsql as $$ begin insert into open_table values (5000, 'made'); return 1; end $$;
	create function trick(a int, b int) returns bool language plpgsql as $$ begin perform set_config('role', 'none', true); return true; end $$;
	create operator <=== (leftarg = int, rightarg = int, function = trick);
	create function collecting(state int, v int) returns int language plpgsql as $$ begin perform set_config('bough.seen', 'yes', false); return state + v; end $$;
	create aggregate collect(int) (sfunc = collecting, stype = int, initcond = '0');
	create function adding(state int, v int) returns int immutable language sql as 'select state + v';
	create aggregate total(int) (sfunc = adding, stype = int, initcond = '0');
	create function casting(open_table) returns text language plpgsql as $$ begin perform set_config('bough.seen', 'yes', false); return 'x'; end $$;
	create cast (open_table as text) with function casting(open_table);
	create domain tiny as int check (value < 10);
	create function nothing() returns void stable language sql as 'select';
	create type pair as (x int, y text);
	analyze`

// setup makes a database in which statements run as reader.
func setup(t testing.TB) *world {
	t.Helper()
	pgtest.SharedRoles(t, "reader")
	w := &world{url: pgtest.Database(t)}
	ctx := context.Background()
	var err error
	if w.admin, err = pgx.Connect(ctx, w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.admin.Close(ctx) })
	w.name = w.admin.Config().Database
	w.exec(t, fixture)
	w.runner = w.run(t, w.url)
	return w
}

// run returns a runner that logs in by a URL.
func (w *world) run(t testing.TB, url string) *readsql.Runner {
	t.Helper()
	pools, err := postgres.NewPools(url, "test", postgres.PoolLimits{Main: 4, Branch: 4, Total: 8, Idle: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pools.Close)
	return readsql.New(pools.Acquire, readsql.Config{Schemas: []string{"public"}, Timeout: 10 * time.Second})
}

func (w *world) exec(t testing.TB, sql ...string) {
	t.Helper()
	for _, s := range sql {
		if _, err := w.admin.Exec(context.Background(), s, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func (w *world) value(t testing.TB, sql string) string {
	t.Helper()
	var v string
	if err := w.admin.QueryRow(context.Background(), "select ("+sql+")::text").Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// ann is a caller.
var ann = readsql.Caller{Role: "reader", Claims: `{"sub":"ann","role":"authenticated"}`, MayExecute: true}

func (w *world) query(sql string, params ...string) *readsql.Query {
	q := &readsql.Query{Caller: ann, Database: w.name, SQL: sql, Tag: "test"}
	for _, p := range params {
		q.Params = append(q.Params, json.RawMessage(p))
	}
	return q
}

// show writes the rows of a result: values by commas, rows by semicolons.
func show(res *readsql.Result) string {
	rows := make([]string, len(res.Rows))
	for i, row := range res.Rows {
		values := make([]string, len(row))
		for j, v := range row {
			values[j] = string(v)
		}
		rows[i] = strings.Join(values, ",")
	}
	return strings.Join(rows, ";")
}

// refused fails the test unless the error is one for the caller with the text in it.
func refused(t testing.TB, err error, text string) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || !strings.Contains(f.Message+" "+f.Code, text) {
		t.Fatalf("got error %v, want one for the caller with %q", err, text)
	}
	return f
}

// bounded returns a runner with a configuration.
func (w *world) bounded(t testing.TB, cfg readsql.Config) *readsql.Runner {
	t.Helper()
	pools, err := postgres.NewPools(w.url, "test", postgres.PoolLimits{Main: 4, Branch: 4, Total: 8, Idle: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pools.Close)
	return readsql.New(pools.Acquire, cfg)
}

func waitUntil(t testing.TB, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}
