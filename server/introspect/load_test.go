package introspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/pgtest"
)

const shop = `
	create table customers (id int primary key, name varchar(20) not null default 'x');
	create table orders (id int primary key, customer int references customers);
	create view v as select * from orders;
	create type mood as enum ('a', 'b');
	create table moods (m mood, d int);
	create domain positive as int;
	create function f(a int) returns int language sql as 'select 1'`

// TestVersion changes one thing after the other: each must change the version, and the fingerprint with it.
func TestVersion(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Database(t))
	role := roleFor(t, conn)
	opts := introspect.Options{Schemas: []string{"public", "later"}, Roles: []string{role}}
	execute(t, conn, shop)
	old := loadFrom(t, conn, opts)
	for _, ddl := range []string{
		"alter table customers add column email text",
		"alter table customers drop column email",
		"alter table customers rename column name to title",
		"alter table customers alter column title type varchar(30)",
		"alter table customers alter column title set default 'y'",
		"alter table customers alter column title drop not null",
		"alter table customers add unique (title)",
		"alter table customers rename to clients",
		"comment on column clients.title is 'x'",
		"comment on table clients is 'x'",
		"comment on function f(int) is 'x'",
		"comment on type mood is 'x'",
		"grant select on clients to " + role,
		"grant update (title) on clients to " + role,
		"revoke usage on schema public from public",
		"create index on clients (title) where id > 0; create unique index on clients (title) where id > 0",
		"alter table orders drop constraint orders_customer_fkey",
		"alter table orders add constraint fk foreign key (customer) references clients",
		"create or replace view v as select id, customer from orders; alter view v rename column id to key",
		"alter type mood add value 'c'",
		"alter type mood rename value 'a' to 'z'",
		"alter domain positive set not null; create table of_domain (p positive)",
		"alter domain positive drop not null",
		"create or replace function f(a int) returns int stable language sql as 'select 1'",
		"alter table orders enable row level security",
		"create schema later; create table later.t (a int)",
		"alter table later.t set schema public",
		"drop table t",
		"grant pg_read_all_data to " + role,
		"create procedure p() language sql as ''",
		"create function trig() returns trigger language plpgsql as 'begin return null; end'; create view fixed as select count(*) from orders",
		"create trigger tr instead of insert on fixed for each row execute function trig()",
	} {
		execute(t, conn, ddl)
		same, err := introspect.Unchanged(t.Context(), conn, old)
		if err != nil || same {
			t.Errorf("%s: the fingerprint is unchanged (%v)", ddl, err)
		}
		next := loadFrom(t, conn, opts)
		if next.Version == old.Version {
			t.Errorf("%s: the version is unchanged", ddl)
		}
		old = next
	}

	execute(t, conn, `
		insert into clients select g, g from generate_series(1, 1000) g; analyze; create temp table x (a int primary key, b text default 'y');
		insert into x values (1); create index on x (b); create temp view y as select * from x; drop table x cascade`)
	execute(t, conn, "vacuum full clients")
	execute(t, conn, "vacuum freeze")
	next := loadFrom(t, conn, opts)
	if next.Version != old.Version {
		t.Error("data, temporary tables and maintenance change the version")
	}
	if same, err := introspect.Unchanged(t.Context(), connect(t, conn.Config().ConnString()), next); err != nil || !same {
		t.Errorf("nothing has changed, but unchanged is %t, %v", same, err)
	}
	for _, other := range []introspect.Options{{Schemas: opts.Schemas}, {Schemas: []string{"later", "public"}, Roles: opts.Roles}} {
		if v := loadFrom(t, conn, other).Version; v == next.Version {
			t.Errorf("the version does not depend on the options %+v", other)
		}
	}
}

// TestTemporaryTablesAreNoChange is what a fingerprint must not react to: a session's own tables.
func TestTemporaryTablesAreNoChange(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Database(t))
	execute(t, conn, shop+"; create temp table first (a int)")
	s := loadFrom(t, conn, options)
	execute(t, conn, `
		create temp table x (a int primary key default 1, b text check (b <> '')); create index on x (b); analyze;
		create temp table y (a int references x)`)
	if same, err := introspect.Unchanged(t.Context(), conn, s); err != nil || !same {
		t.Errorf("got %t, %v", same, err)
	}
}

func TestOrderOfSchemas(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create schema a; create schema z; create table a.t (x int); create table z.b (x int); create table z.a (x int);
		create function a.f() returns int language sql as 'select 1'; create function z.g() returns int language sql as 'select 1'`,
		introspect.Options{Schemas: []string{"z", "missing", "a"}})
	var got []string
	for _, r := range s.Relations {
		got = append(got, r.Schema+"."+r.Name)
	}
	for _, f := range s.Functions {
		got = append(got, f.Schema+"."+f.Name)
	}
	if list := strings.Join(got, " "); list != "z.a z.b a.t z.g a.f" {
		t.Error("the order is " + list)
	}
}

func TestLoadLeavesTheConnectionAsItWas(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Database(t))
	execute(t, conn, shop+"; set search_path = public; set lock_timeout = '7s'")
	check := func(when string) {
		t.Helper()
		var path, timeout string
		var prepared int
		err := conn.QueryRow(t.Context(), `select current_setting('search_path'), current_setting('lock_timeout'),
			(select count(*) from pg_prepared_statements where statement not like '%pg_prepared_statements%')`).Scan(&path, &timeout, &prepared)
		if err != nil || path != "public" || timeout != "7s" || prepared != 0 {
			t.Errorf("%s: search_path %s, lock_timeout %s, %d prepared statements, %v", when, path, timeout, prepared, err)
		}
	}
	loadFrom(t, conn, options)
	check("after a load")
	if _, err := introspect.Load(t.Context(), conn, introspect.Options{Schemas: []string{"a\x00b"}}); err == nil {
		t.Error("a schema's name with a zero byte is accepted")
	}
	check("after a failed load")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := introspect.Load(ctx, conn, options); err == nil {
		t.Error("a cancelled load gives a schema")
	}
}

// TestLockedTableDoesNotBlock introspects while another session changes a table and does not come to an end.
func TestLockedTableDoesNotBlock(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	conn, other := connect(t, url), connect(t, url)
	execute(t, conn, shop)
	before := loadFrom(t, conn, options)
	execute(t, other, "begin; alter table customers add column later int default 3; alter table orders add column later int")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := introspect.Load(ctx, conn, options)
	if err != nil {
		t.Fatal(err)
	}
	if c := relation(t, s, "customers").Column("name"); c == nil || !c.HasDefault || relation(t, s, "customers").Column("later") != nil {
		t.Errorf("got %+v", c)
	}
	if v := relation(t, s, "v"); !v.Insertable || len(v.Relationships) != 1 {
		t.Errorf("got %+v", v)
	}
	execute(t, other, "rollback")
	if after := loadFrom(t, conn, options); after.Version != before.Version {
		t.Error("the version is another one after the change was rolled back")
	}
}

// TestBrokenForeignTable shows that a wrapper without a handler hides nothing else.
func TestBrokenForeignTable(t *testing.T) {
	t.Parallel()
	s := load(t, shop+`;
		create foreign data wrapper none; create server away foreign data wrapper none;
		create foreign table far (a int) server away; create view v_far as select a from far`, options)
	if len(s.Relations) != 6 || relation(t, s, "v").PrimaryKey == nil || relation(t, s, "far").Insertable {
		t.Errorf("got %d relations", len(s.Relations))
	}
}

// large is a schema of many tables that refer to each other.
func large(tables int) string {
	var b strings.Builder
	for i := range tables {
		fmt.Fprintf(&b, `create table table_%d (id bigint generated always as identity primary key, name varchar(100) not null,
			email text unique, at timestamptz not null default now(), price numeric(10,2), tags text[], data jsonb default '{}',
			active boolean default true, count int default 0, note text, parent bigint references table_%d, other bigint references table_%d);
			comment on table table_%d is 'The table number %d'; create index on table_%d (parent);
			grant select on table_%d to public;`, i, max(0, i-1), i/2, i, i, i, i)
		if i%10 == 0 {
			fmt.Fprintf(&b, "create view view_%d as select * from table_%d;", i, i)
		}
	}
	return b.String()
}

func TestLargeSchema(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Database(t))
	execute(t, conn, large(500))
	for range 3 {
		start := time.Now()
		s := loadFrom(t, conn, options)
		loaded := time.Since(start)
		start = time.Now()
		same, err := introspect.Unchanged(t.Context(), conn, s)
		if err != nil || !same {
			t.Errorf("got %t, %v", same, err)
		}
		if len(s.Relations) != 550 {
			t.Errorf("got %d relations", len(s.Relations))
		}
		t.Logf("500 tables of 12 columns: loaded in %v, found unchanged in %v", loaded, time.Since(start))
	}
}

func BenchmarkLoad(b *testing.B) {
	conn := connect(b, pgtest.Database(b))
	execute(b, conn, large(500))
	execute(b, conn, "analyze")
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			loadFrom(b, conn, options)
		}
	})
	s := loadFrom(b, conn, options)
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			if same, err := introspect.Unchanged(b.Context(), conn, s); err != nil || !same {
				b.Fatal(same, err)
			}
		}
	})
	b.Run("similar", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.SimilarRelation("public", "tabel_4x")
		}
	})
}
