package postgres_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/server/postgres"
)

// Each statement that changes the schema gives it another version, also in a copy of it.
func TestSchemaVersionFollowsTheSchema(t *testing.T) {
	t.Parallel()
	reader := role(t, "")
	f := setup(t) // is dropped before the role
	execute(t, f.url, `
		create table t (id int primary key, v text, w numeric default 1) with (fillfactor = 90);
		create table p (id int) partition by range (id);
		create table p1 partition of p for values from (0) to (10);
		create sequence s;
		create table base (id int);
		create view w as select * from base;
		create materialized view m as select * from base;
		create function f() returns int language sql as 'select 1';
		create function fired() returns trigger language plpgsql as 'begin return null; end';
		create type e as enum ('a', 'b');
		create type c as (a int, b text);
		create domain d as int;
		create extension citext`)
	version := f.version(t, f.Main())
	for _, sql := range []string{
		"create table x ()", "create index on t (v)", "alter table t add u int", "alter table t alter w set default 2", "alter table t alter v set not null",
		"alter table t alter v type varchar(20)", "alter table t rename v to vv", "alter table t drop u", "alter table t alter vv set statistics 7",
		"alter table t alter vv set storage external", "alter table t alter w set (n_distinct = 5)",
		"alter table t add check (id > 0)", "alter table t add constraint l unique (vv)", "alter table t drop constraint l",
		"alter table t set (fillfactor = 80)", "alter table t set (toast.autovacuum_enabled = off)", "alter table t enable row level security",
		"alter table t force row level security", "create policy one on t using (true)", "alter policy one on t using (false)",
		"drop policy one on t", "alter table t replica identity full", "create trigger tr before insert on t execute function fired()",
		"alter table t disable trigger tr", "comment on table t is 'x'", "comment on column t.id is 'x'",
		"grant select on t to " + reader, "grant update (vv) on t to " + reader, "revoke select on t from " + reader,
		"alter view w owner to " + reader, "alter table p detach partition p1", "alter table p attach partition p1 for values from (0) to (20)",
		"alter sequence s increment 7", "alter sequence s owned by t.id", "alter sequence s owned by none",
		"create or replace view w as select *, 1 as one from base", "alter view w set (security_barrier)",
		"create or replace function f() returns int language sql as 'select 2'", "alter function f() depends on extension citext",
		"alter function f() no depends on extension citext", "alter type e add value 'c'", "alter type c add attribute d int", "alter domain d set not null",
		"create statistics st on id, w from t", "alter statistics st set statistics 5", "create rule r as on update to base do instead nothing",
		"create publication pub for table t", "alter publication pub drop table t", "create schema elsewhere", "alter table x set schema elsewhere",
		"alter default privileges grant select on tables to " + reader, "alter extension citext drop function texticnlike(citext, text)",
		"create collation german (provider = icu, locale = 'de')", "create cast (text as c) with inout", "create operator === (leftarg = int, rightarg = int, function = int4eq)",
		"create aggregate total (int) (sfunc = int4pl, stype = int)", "create text search dictionary dict (template = simple)",
		"create foreign data wrapper w", "create server sv foreign data wrapper w", "create function evt() returns event_trigger language plpgsql as 'begin end'", "create event trigger et on sql_drop execute function evt()",
		"create unlogged table un ()", "alter table un set logged", "create table like_t (like t including all)", "create table child () inherits (t)",
		"drop table like_t", "refresh materialized view m with no data", "drop schema elsewhere cascade",
	} {
		execute(t, f.url, sql)
		next := f.version(t, f.Main())
		if next == version {
			t.Errorf("%s: the version stays", sql)
		}
		version = next
	}
	execute(t, f.url, "alter view w owner to current_user", "drop owned by "+reader)
	version = f.version(t, f.Main())
	for _, s := range []postgres.Strategy{postgres.StrategyWALLog, postgres.StrategyFileCopy} {
		target := f.target(t, string(s))
		execute(t, f.in("postgres"), fmt.Sprintf("create database %s template %s strategy %s", quote(target), quote(f.Main()), s))
		if got := f.version(t, target); got != version {
			t.Errorf("the version of a copy by %s is another one", s)
		}
	}
	other := setupAt(t, f.url)
	other.config.Installation = uuid.New()
	if got := other.version(t, f.Main()); got != version {
		t.Error("another session reads another version")
	}
}

// Rows come and go without another version.
func TestSchemaVersionIgnoresRows(t *testing.T) {
	t.Parallel()
	f := setup(t)
	execute(t, f.url, `
		create table p (id int primary key, v text);
		create table t (id bigint generated always as identity primary key, p int references p, v text, j jsonb);
		create index on t using gin (j);
		create table parts (id int, v text) partition by hash (id);
		create table part0 partition of parts for values with (modulus 1, remainder 0);
		create materialized view m as select * from t;
		create unique index on m (id);
		create statistics st on id, v from t;
		create sequence s`)
	version := f.version(t, f.Main())
	for _, sql := range []string{
		"insert into p select g, repeat('x', 10000) from generate_series(1, 100) g", "insert into t (p, v) select id, v from p",
		"insert into parts select id, v from p", "analyze", "vacuum", "vacuum (freeze, analyze)", "update t set v = v || '!'", "delete from t where id > 50",
		"vacuum full t", "refresh materialized view m", "refresh materialized view concurrently m", "cluster t using t_pkey", "truncate t restart identity",
		"truncate p cascade", "reindex table t", "select nextval('s'), setval('s', 500)", "select lo_from_bytea(0, 'x')", "checkpoint",
		"create temporary table tt (id int generated always as identity primary key, v text check (v <> ''), w text default 'x'); " +
			"create index on tt (v); create temporary view tv as select * from tt; create function pg_temp.f() returns int language sql as 'select 1'",
		"delete from p", "vacuum p, t",
	} {
		if sql == "cluster t using t_pkey" {
			execute(t, f.url, sql) // marks the index, once
			version = f.version(t, f.Main())
		}
		conn := connect(t, f.url)
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		// While the session lives, and after it.
		during := f.version(t, f.Main())
		gone(t, conn)
		if after := f.version(t, f.Main()); during != version || after != version {
			t.Errorf("%s: another version", sql)
			version = after
		}
	}
}

func (f *fixture) version(t *testing.T, database string) string {
	t.Helper()
	v, err := f.SchemaVersion(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
