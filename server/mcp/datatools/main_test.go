package datatools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/mcp/datatools"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/readsql"
	"github.com/boughdb/bough/server/tables"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// ann and bob are users; each has notes that the other may not see.
var (
	ann = user("00000000-0000-4000-8000-00000000000a")
	bob = user("00000000-0000-4000-8000-00000000000b")
)

func user(id string) *auth.Principal {
	return &auth.Principal{ID: uuid.MustParse(id), Role: auth.RoleAuthenticated}
}

const fixture = `
	create schema auth;
	create function auth.uid() returns uuid stable language sql as $$ select (current_setting('request.jwt.claims', true)::json->>'sub')::uuid $$;
	grant usage on schema auth to public;
	create table authors (id int primary key, name text not null unique);
	insert into authors values (1, 'Ann'), (2, 'Bob');
	create table notes (
		id int primary key, owner uuid not null default auth.uid(), author_id int references authors, title text not null,
		price numeric, data jsonb, "odd ""name, really" text, done bool);
	alter table notes enable row level security;
	create policy own on notes using (owner = auth.uid()) with check (owner = auth.uid());
	insert into notes values
		(1, '00000000-0000-4000-8000-00000000000a', 1, 'first', 1.5, '{"tag": "a"}', 'x,y', true),
		(2, '00000000-0000-4000-8000-00000000000a', 1, 'second, "quoted"', 2.5, '{"tag": "b"}', null, false),
		(3, '00000000-0000-4000-8000-00000000000a', null, 'third', null, null, null, null),
		(4, '00000000-0000-4000-8000-00000000000b', 2, 'his', 100, null, null, true);
	create table pairs (a int, b text, v int, primary key (a, b));
	insert into pairs values (1, 'x,y', 10), (1, 'z', 20);
	create table many (id int primary key, body text);
	insert into many select i, repeat('x', 1000) from generate_series(1, 300) i;
	create table secret (id int);
	create schema second;
	create table second.things (id int primary key, name text);
	insert into second.things values (1, 'thing');
	grant usage on schema second to tool_user;
	grant select, insert, update, delete on notes, authors, pairs, many, second.things to tool_user;
	create function add_note(id int, title text) returns notes language sql as $$ insert into notes (id, title) values ($1, $2) returning * $$;
	comment on function add_note is 'Adds a note of the caller.';
	create function twice(n int) returns int immutable language sql as 'select n * 2';
	create function titles(min_price numeric default 0) returns setof text stable language sql as $$ select title from notes where price >= min_price order by id $$;
	create function whoami() returns text stable language sql as $$ select auth.uid() || ' ' || current_setting('transaction_read_only') $$;
	create function total(numbers int[]) returns bigint immutable language sql as 'select sum(n) from unnest(numbers) n';
	create function page(size int, "limit" int) returns setof int immutable language sql as 'select * from generate_series(1, least(size, "limit"))';
	create function nothing() returns void stable language sql as 'select';
	create function of_null(n int) returns text immutable language sql as $$ select coalesce(n::text, 'null') $$;
	create function numbers() returns setof int immutable language sql as 'select * from generate_series(1, 1000)';
	create procedure clean(ident int) language sql as 'delete from notes where id = ident';
	create function forbidden() returns int stable language sql as 'select 1';
	revoke execute on function forbidden() from public;
	analyze`

// world is a database with the tools for it.
type world struct {
	name  string
	admin *pgx.Conn
	tools map[string]mcp.Tool
}

func setup(t testing.TB) *world {
	t.Helper()
	return bounded(t, 0)
}

// bounded is setup with a bound on the rows of the tables' answers.
func bounded(t testing.TB, maxRows int64) *world {
	t.Helper()
	url, ctx := pgtest.Database(t), context.Background()
	admin, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close(ctx) })
	w := &world{name: admin.Config().Database, admin: admin, tools: map[string]mcp.Tool{}}
	pgtest.SharedRoles(t, "tool_user")
	w.exec(t, fixture)
	pools, err := postgres.NewPools(url, "test", postgres.PoolLimits{Main: 4, Branch: 4, Total: 8, Idle: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pools.Close)
	exposed := []string{"public", "second"}
	schemas := introspect.NewCache(introspect.CacheConfig{
		Acquire: func(ctx context.Context, database string) (*pgx.Conn, func(), error) {
			c, err := pools.Acquire(ctx, database)
			if err != nil {
				return nil, nil, err
			}
			return c.Conn.Conn(), c.Release, nil
		},
		Options: introspect.Options{Schemas: exposed, Roles: []string{"tool_user"}},
	})
	t.Cleanup(schemas.Close)
	service := tables.New(tables.Config{Schemas: exposed, MaxBody: 1 << 20, MaxRows: maxRows, StatementTimeout: 10 * time.Second, Roles: postgres.DataRoles{Authenticated: "tool_user"}},
		schemas, pools.Acquire, slog.New(slog.DiscardHandler))
	sql := readsql.New(pools.Acquire, readsql.Config{Schemas: exposed, Timeout: 10 * time.Second, Version: func(ctx context.Context, database string) (string, error) {
		s, err := schemas.Get(ctx, database)
		if err != nil {
			return "", err
		}
		return s.Version, nil
	}})
	for _, tool := range datatools.Tools(datatools.Deps{Tables: service, SQL: sql, Schemas: schemas, Exposed: exposed, MaxRows: maxRows}) {
		w.tools[tool.Name] = tool
	}
	return w
}

func (w *world) exec(t testing.TB, sql string) {
	t.Helper()
	if _, err := w.admin.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) value(t testing.TB, sql string) string {
	t.Helper()
	var v string
	if err := w.admin.QueryRow(context.Background(), "select coalesce(("+sql+")::text, '')").Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// call is a call of a tool on main.
func (w *world) call(p *auth.Principal) *mcp.Call {
	return &mcp.Call{Principal: p, Branch: "main", Database: w.name, RequestID: "req-1"}
}

// do calls a tool as somebody, who is not asked anything.
func (w *world) do(t testing.TB, p *auth.Principal, tool, arguments string) (*mcp.Result, error) {
	t.Helper()
	return w.answer(t, w.call(p), tool, arguments)
}

func (w *world) answer(t testing.TB, c *mcp.Call, tool, arguments string) (*mcp.Result, error) {
	t.Helper()
	tl, ok := w.tools[tool]
	if !ok {
		t.Fatalf("there is no tool %s", tool)
	}
	c.Tool = tool
	return tl.Do(context.Background(), c, json.RawMessage(arguments))
}

// structured is the result of a call as JSON.
func structured(t testing.TB, r *mcp.Result, err error) string {
	t.Helper()
	if err != nil {
		var f *fault.Error
		if errors.As(err, &f) {
			t.Fatalf("%s (%s; %s)", f.Message, f.Details, f.Hint)
		}
		t.Fatal(err)
	}
	data, err := json.Marshal(r.Structured)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, data); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// refused fails the test unless the error is one for the caller with the text in its message, details or hint.
func refused(t testing.TB, err error, text string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || !strings.Contains(f.Message+"\n"+f.Details+"\n"+f.Hint, text) {
		t.Errorf("got error %#v, want one for the caller with %q", err, text)
	}
}
