package pgcopy

import (
	"strings"
	"testing"

	"github.com/boughdb/bough/server/pgtest"
)

// Small schemas, each of which has made a copy fail or differ.
var schemas = map[string]string{
	"check on varchar":         "create table t (id int primary key, s varchar(20) check (s in ('a', 'b')))",
	"view on varchar":          "create table t (s varchar); create view v as select s from t where s in ('a', 'b'); create view vv as select * from v where s not in ('a')",
	"partial index on varchar": "create table t (s varchar); create index on t (s) where s in ('a', 'b')",
	"policy on varchar":        "create table t (s varchar); create policy p on t using (s in ('a', 'b')); alter table t enable row level security",
	"trigger on varchar": `create table t (s varchar); create function f() returns trigger language plpgsql as 'begin return new; end';
		create trigger tr before update on t for each row when (new.s in ('a', 'b')) execute function f()`,
	"rule on varchar":              "create table t (s varchar); create rule r as on update to t where old.s in ('a', 'b') do instead nothing",
	"default on varchar":           "create table t (s varchar, b bool default ('a'::varchar in ('a', 'b')))",
	"generated from varchar":       "create table t (s varchar, b bool generated always as (s in ('a', 'b')) stored)",
	"domain on varchar":            "create domain d as varchar check (value in ('a', 'b')); create table t (d d)",
	"publication with a condition": "create table t (s varchar primary key); alter table t replica identity full; create publication p for table t where (s > 'a')",
	"statistics on varchar":        "create table t (s varchar, i int); create statistics st on (s in ('a', 'b')), i from t",
	"exclusion on varchar":         "create table t (s varchar, r int4range, exclude using gist (r with &&) where (s in ('a', 'b')))",
	"union with null":              "create view v as select 1 as a, 'x'::text as b union all select 2, null",
	"union of views":               "create view v as select 'a' as b union select null union all select 'c'; create materialized view m as select * from v",
	"interval":                     "create table t (at timestamptz check (at > '2020-01-01'::timestamptz + interval '1 day'), x numeric check (x > -1), y float check (y > -1.5e10))",
	"between symmetric":            "create table t (a int, check (a between symmetric 1 and 2), check (a is distinct from 3), check ((a, a) > (1, 2)))",
	"like any":                     "create table t (a varchar check (a like any (array['x%', 'y%'])), b char(3) check (b in ('a', 'b')))",

	"new public schema":             "drop schema public cascade; create schema public",
	"new public schema with a note": "drop schema public cascade; create schema public; comment on schema public is 'mine'; create table public.t ()",
	"public schema renamed":         "alter schema public rename to old; create schema public; create table old.t ()",
	"no public schema":              "drop schema public cascade; create schema app; create table app.t ()",
	"plpgsql again":                 "drop extension plpgsql cascade; create extension plpgsql; create function f() returns int language plpgsql as 'begin return 1; end'",

	"owned sequence of a plain column": "create table t (id int); create sequence s owned by t.id",
	"owned sequence in another schema": "create schema a; create schema b; create table a.t (id int); create sequence b.s; alter table a.t alter id set default nextval('b.s'); create table b.u (id serial); alter sequence b.s owned by none; alter sequence b.u_id_seq owned by b.u.id",
	"default of a sequence not owned":  "create sequence s; create table t (id int default nextval('s'))",
	"sequence owned by another column": "create sequence s; create table t (id int default nextval('s'), other int); alter sequence s owned by t.other",
	"sequence owned by another table":  "create sequence s; create table t (id int default nextval('s')); create table u (x int); alter sequence s owned by u.x",
	"sequences that cross":             "create table t (id serial); create table u (id serial); alter table t alter id set default nextval('u_id_seq'); alter table u alter id set default nextval('t_id_seq')",
	"serial renamed":                   "create table t (id serial primary key); alter sequence t_id_seq rename to counter; alter table t rename id to key; alter table t rename to things",
	"sequence of a partitioned table":  "create table p (id serial, at date) partition by range (at); create table p1 partition of p for values from ('2020-01-01') to ('2021-01-01')",
	"sequence of a partition":          "create table p (id int, at date) partition by range (at); create table p1 partition of p for values from ('2020-01-01') to ('2021-01-01'); create sequence s owned by p1.id; alter table p1 alter id set default nextval('s')",
	"sequence of a child":              "create table p (id serial); create table c (x int) inherits (p); create sequence s owned by c.id; alter table c alter id set default nextval('s')",
	"sequence of a foreign table":      "create foreign data wrapper w; create server s foreign data wrapper w; create foreign table f (id int) server s; create sequence q owned by f.id; alter table f alter id set default nextval('q')",
	"identity named oddly":             "create schema a; create table a.t (id int generated always as identity (sequence name a.\"My Seq\" start 5 increment -1 maxvalue 5)); alter sequence a.\"My Seq\" rename to other",
	"identity with a sequence option":  "create table t (id smallint generated by default as identity (minvalue 5 maxvalue 50 cycle cache 3))",
	"unlogged with a sequence":         "create unlogged table t (id serial primary key, v text)",

	"index depends on extension":    "create extension pg_trgm; create table t (s text); create index i on t (s); alter index i depends on extension pg_trgm",
	"function depends on extension": "create extension pg_trgm; create function f() returns int language sql as 'select 1'; alter function f() depends on extension pg_trgm; create procedure q() language sql as 'select 1'; alter procedure q() depends on extension pg_trgm",
	"matview depends on extension":  "create extension pg_trgm; create materialized view m as select 1 as a; alter materialized view m depends on extension pg_trgm",
	"trigger depends on extension": `create extension pg_trgm; create table t (s text); create function f() returns trigger language plpgsql as 'begin return new; end';
		create trigger tr before update on t for each row execute function f(); alter trigger tr on t depends on extension pg_trgm`,

	"order of options": "create table t (a int, s text) with (fillfactor = 50, autovacuum_enabled = false, autovacuum_vacuum_scale_factor = 0.5, toast.autovacuum_enabled = false, toast.log_autovacuum_min_duration = 5); " +
		"create index on t using gin (to_tsvector('simple', s)) with (gin_pending_list_limit = 100, fastupdate = off); alter table t add primary key (a) with (fillfactor = 40, deduplicate_items = off); " +
		"alter table t alter a set (n_distinct_inherited = 3, n_distinct = 5)",
	"order of foreign options":    "create foreign data wrapper w options (z '1', a '2'); create server s foreign data wrapper w options (z '1', b '2', a '3'); create foreign table f (a int options (y '1', b '2')) server s options (x '1', a '2')",
	"column renamed under index":  "create table t (a int, b int); create index i on t (a, lower(b::text)); alter table t rename a to z; alter index i alter column 2 set statistics 7",
	"dropped columns":             "create table t (a int, b int, c int, d int); create index on t (d, b); alter table t add foreign key (b) references t (d) not valid, add unique (d); alter table t drop c, drop a",
	"view's options in order":     "create table t (a int); create view w with (check_option = local, security_barrier) as select * from t",
	"types of arrays":             "create type _foo as (a int); create type foo as (b _foo[]); create table t (a foo[], b _foo[])",
	"invalid index":               "create table t (a int); insert into t values (1), (1)",
	"settings of functions":       "create function f() returns int language sql set search_path = public, pg_temp set work_mem = '1MB' set datestyle = 'iso, dmy' as 'select 1'",
	"enum with labels in between": "create type e as enum ('a', 'z'); alter type e add value 'm' before 'z'; alter type e add value 'c' before 'm'; create table t (e e default 'c' check (e > 'a'))",
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	for name, script := range schemas {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := pgtest.Database(t)
			conn := connectTo(t, source)
			for _, statement := range splitScript(script) {
				if strings.HasPrefix(statement, "drop extension plpgsql") {
					execute(t, conn, "set client_min_messages = warning")
				}
				execute(t, conn, statement)
			}
			if name == "invalid index" {
				if _, err := conn.Exec(t.Context(), "create unique index concurrently bad on t (a)"); err == nil {
					t.Fatal("the index is valid")
				}
			}
			for reader, dump := range schemaReaders(t) {
				t.Run(reader, func(t *testing.T) {
					target := pgtest.Database(t)
					if _, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target), PGDump: dump}); err != nil {
						t.Fatal(err)
					}
					mustBeEqual(t, source, target, true)
				})
			}
		})
	}
}
