package pgcopy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/pgtest"
)

func TestCopyEqualsSource(t *testing.T) {
	t.Parallel()
	for name, dump := range schemaReaders(t) {
		for _, schemaOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, schema only %t", name, schemaOnly), func(t *testing.T) {
				t.Parallel()
				source, target := fixture(t), pgtest.Database(t)
				var phases []Phase
				result, err := Copy(t.Context(), Options{
					Source: config(t, source), Target: config(t, target), PGDump: dump, SchemaOnly: schemaOnly, Jobs: 3,
					Progress: func(p Progress) {
						if !slices.Contains(phases, p.Phase) {
							phases = append(phases, p.Phase)
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				mustBeEqual(t, source, target, !schemaOnly)

				want := []Phase{PhaseSchema, PhaseRows, PhaseIndexes, PhaseRefresh, PhaseVerify}
				if schemaOnly {
					want = slices.Delete(want, 1, 2)
				}
				if diff := cmp.Diff(want, phases); diff != "" {
					t.Errorf("phases (-want +got):\n%s", diff)
				}
				if result.Schema != name || (result.Rows > 3000) == schemaOnly || (result.Tables > 20) == schemaOnly {
					t.Errorf("unexpected result %+v", result)
				}
				conn := connectTo(t, target)
				if n := one[int](t, conn, "select count(*) from pg_user_mappings"); n > 0 {
					t.Errorf("%d user mappings were copied", n)
				}
				if schemaOnly {
					mustHaveNoRows(t, target)
				}
				// What is copied works: a restart of the journey.
				again := pgtest.Database(t)
				if _, err := Copy(t.Context(), Options{Source: config(t, target), Target: config(t, again)}); err != nil {
					t.Fatalf("copying the copy: %v", err)
				}
				mustBeEqual(t, target, again, true)
			})
		}
	}
}

func mustHaveNoRows(t *testing.T, url string) {
	t.Helper()
	conn := connectTo(t, url)
	for name, digest := range contents(t, url) {
		switch {
		case strings.Contains(digest, "rows") && !strings.HasPrefix(digest, "0 rows") && !strings.HasPrefix(name, "app.totals") &&
			name != "app.of_totals" && name != "app.alphabetically_first":
			t.Errorf("%s has %s", name, digest)
		case name == "large objects" && digest != "":
			t.Errorf("there are large objects %s", digest)
		case name == `app."Quoted ""seq"""` && digest != "10, called false":
			t.Errorf("sequence %s is at %s", name, digest)
		}
	}
	if !one[bool](t, conn, "select bool_and(relispopulated) from pg_class where relname in ('totals', 'of_totals')") {
		t.Errorf("the materialised views are not refreshed")
	}
}

// The same as pg_dump sees it, which knows nothing of this package.
func TestDumpOfCopyEqualsDumpOfSource(t *testing.T) {
	t.Parallel()
	path := pgDump(t)
	if path == "" {
		t.Skip("no pg_dump for this server")
	}
	for name, dump := range schemaReaders(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, target := fixture(t), pgtest.Database(t)
			if _, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target), PGDump: dump}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(dumpOf(t, path, source), dumpOf(t, path, target)); diff != "" {
				t.Errorf("pg_dump of the copy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTableIsCopiedInPieces(t *testing.T) {
	t.Parallel()
	source, target := pgtest.Database(t), pgtest.Database(t)
	conn := connectTo(t, source)
	execute(t, conn, `
		create table large (id int primary key, v text);
		insert into large select i, repeat('x', 900) from generate_series(1, 90000) i;
		update large set v = 'y' where id % 10 = 0;
		delete from large where id % 10 = 1`)
	result, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{1, int64(81000)}, []any{result.Tables, result.Rows}); diff != "" {
		t.Errorf("tables and rows (-want +got):\n%s", diff)
	}
	mustBeEqual(t, source, target, true)
}

func TestUnsupportedObjectsAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, sql string
		want      []string
	}{
		{"operator class", `create operator class public.odd for type int using btree as operator 1 <, operator 3 =, function 1 btint4cmp(int, int)`,
			[]string{"operator class public.odd USING btree", "operator family public.odd USING btree"}},
		{"operator family", `create operator family public.fam using hash`, []string{"operator family public.fam USING hash"}},
		{"base type", `
			create type public.base;
			create function public.base_in(cstring) returns public.base language internal immutable strict as 'int4in';
			create function public.base_out(public.base) returns cstring language internal immutable strict as 'int4out';
			create type public.base (input = public.base_in, output = public.base_out, like = int4)`,
			[]string{"type public.base"}},
		{"access method", `create access method heap2 type table handler heap_tableam_handler`, []string{"access method heap2"}},
		{"conversion", `create conversion public.conv for 'LATIN1' to 'UTF8' from iso8859_1_to_utf8`, []string{"conversion public.conv"}},
		{"language", `
			create function public.odd_handler() returns language_handler language c as '$libdir/plpgsql', 'plpgsql_call_handler';
			create language odd handler public.odd_handler`, []string{"language odd"}},
		{"text search template", `create text search template public.tmpl (lexize = dsimple_lexize)`, []string{"text search template public.tmpl"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			source, target := pgtest.Database(t), pgtest.Database(t)
			execute(t, connectTo(t, source), test.sql)
			_, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target)})
			var unsupported *UnsupportedError
			if !errors.As(err, &unsupported) {
				t.Fatalf("got error %v, want an UnsupportedError", err)
			}
			if diff := cmp.Diff(test.want, unsupported.Objects); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			for _, d := range differences(t, pgtest.Database(t), target) {
				t.Errorf("the target was changed: %v", d)
			}
			if dump := pgDump(t); dump != "" {
				if _, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target), PGDump: dump}); err != nil {
					t.Fatalf("with pg_dump: %v", err)
				}
				mustBeEqual(t, source, target, true)
			}
		})
	}
}

func TestTargetMustBeEmpty(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"table":        "create table x ()",
		"schema":       "create schema x",
		"function":     "create function f() returns int language sql as 'select 1'",
		"large object": "select lo_create(0)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, target := pgtest.Database(t), pgtest.Database(t)
			execute(t, connectTo(t, target), sql)
			_, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target)})
			if err == nil || !strings.Contains(err.Error(), "not empty") || Retryable(err) {
				t.Errorf("got error %v", err)
			}
		})
	}
}

func TestNewDatabaseWithoutTheUsualThings(t *testing.T) {
	t.Parallel()
	for name, dump := range schemaReaders(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, target := pgtest.Database(t), pgtest.Database(t)
			execute(t, connectTo(t, source), "drop schema public; drop extension plpgsql")
			if _, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target), PGDump: dump}); err != nil {
				t.Fatal(err)
			}
			mustBeEqual(t, source, target, true)
		})
	}
}

func TestSubscriptionsAreNotCopied(t *testing.T) {
	t.Parallel()
	for name, dump := range schemaReaders(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, target := pgtest.Database(t), pgtest.Database(t)
			conn := connectTo(t, source)
			execute(t, conn, "create subscription "+config(t, source).Database+" connection 'dbname=nowhere' publication p with (connect = false, slot_name = none)")
			defer execute(t, conn, "drop subscription "+config(t, source).Database)
			if _, err := Copy(t.Context(), Options{Source: config(t, source), Target: config(t, target), PGDump: dump}); err != nil {
				t.Fatal(err)
			}
			const count = "select count(*) from pg_subscription where subdbid = (select oid from pg_database where datname = current_database())"
			if n := one[int](t, connectTo(t, target), count); n != 0 {
				t.Errorf("%d subscriptions were copied", n)
			}
			mustBeEqual(t, source, target, true)
		})
	}
}

func TestObjectsCanBeLeftOut(t *testing.T) {
	t.Parallel()
	source := pgtest.Database(t)
	execute(t, connectTo(t, source), `
		create schema "Odd ones";
		create function "Odd ones".f() returns event_trigger language plpgsql as 'begin end';
		create function "Odd ones".f(int) returns int language sql as 'select 1';
		comment on function "Odd ones".f() is 'left out';
		revoke execute on function "Odd ones".f() from public;
		create event trigger audit on sql_drop execute function "Odd ones".f();
		alter event trigger audit enable always;
		comment on event trigger audit is 'left out';
		create function kept() returns event_trigger language plpgsql as 'begin end';
		create event trigger outer_one on sql_drop execute function kept()`)
	for name, path := range schemaReaders(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := pgtest.Database(t)
			_, err := Copy(t.Context(), Options{
				Source: config(t, source), Target: config(t, target), PGDump: path,
				LeaveOut: []string{"event trigger audit", `function "Odd ones".f()`},
			})
			if err != nil {
				t.Fatal(err)
			}
			conn := connectTo(t, target)
			got := one[string](t, conn, `
				select string_agg(what, ' ' order by what) from (
					select evtname::text from pg_event_trigger
					union all select oid::regprocedure::text from pg_proc where proname in ('f', 'kept')) x (what)`)
			if want := `"Odd ones".f(integer) kept() outer_one`; got != want {
				t.Errorf("the copy has %s, want %s", got, want)
			}
		})
	}
}
