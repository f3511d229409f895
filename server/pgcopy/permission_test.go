package pgcopy

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgtest"
)

// What a role cannot create is named with the reason before anything is copied,
// and the rest can be copied without it.
func TestWhatARoleCannotCreateIsNamed(t *testing.T) {
	t.Parallel()
	weak, other, shared := role(t, "login createdb"), role(t, ""), role(t, "")
	execute(t, connectTo(t, pgtest.ServerURL(t)), "grant "+shared+" to "+weak)
	super := pgtest.Database(t)
	execute(t, connectTo(t, super), "alter database "+pgx.Identifier{config(t, super).Database}.Sanitize()+" owner to "+weak)
	execute(t, connectTo(t, super), strings.NewReplacer("weak", weak, "other", other, "shared", shared).Replace(`
		create extension pg_trgm; -- trusted, though a superuser has created it here
		create extension file_fdw;
		create server files foreign data wrapper file_fdw;
		alter server files owner to weak;
		create table theirs (id int primary key);
		alter table theirs owner to other;
		create table ours (id int);
		alter table ours owner to shared;
		create table mine (id int, t int references theirs, v varchar check (v in ('a', 'b')));
		alter table mine owner to weak;
		insert into mine values (1, null, 'a');
		create view on_theirs as select * from theirs;
		alter view on_theirs owner to weak;
		create publication everything for all tables;
		create function watch() returns event_trigger language plpgsql as 'begin end';
		alter function watch() owner to weak;
		create event trigger watched on sql_drop execute function watch();
		create function sharp() returns int language sql leakproof as 'select 1';
		alter function sharp() owner to weak;
		grant create on schema public to weak, shared;
		revoke execute on function pg_sleep(double precision) from public;`))
	want := []Denied{
		{"event trigger watched", "can be created by superusers only"},
		{"extension file_fdw", "can be created by superusers only"},
		{"function public.sharp()", "is leakproof or has a support function, which only superusers can say"},
		{"privileges on routine pg_sleep(double precision)", "belong to an object of the system or an extension"},
		{"publication everything", "publishes all tables or a schema, which only superusers can say"},
		{"server files", "needs extension file_fdw"},
		{"table constraint mine_t_fkey on public.mine", "needs table public.theirs"},
		{"table constraint theirs_pkey on public.theirs", "needs table public.theirs"},
		{"table public.theirs", "is owned by " + other + ", which the role cannot SET ROLE to"},
		{"view public.on_theirs", "needs table public.theirs"},
	}
	names := func(list []Denied) (names []string) {
		for _, d := range list {
			names = append(names, d.Object)
		}
		return names
	}
	url := withUser(t, super, weak)
	checked, unsupported, err := Check(t.Context(), Options{Source: config(t, url)})
	if err != nil || len(unsupported) > 0 {
		t.Fatal(err, unsupported)
	}
	// Of event triggers and the system's own objects only a new database shows it.
	beforehand := slices.DeleteFunc(slices.Clone(want), func(d Denied) bool {
		return strings.HasPrefix(d.Object, "event trigger") || strings.HasPrefix(d.Object, "privileges")
	})
	if diff := cmp.Diff(beforehand, checked); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
	for name, dump := range schemaReaders(t) {
		t.Run(name, func(t *testing.T) {
			target := func() string {
				target := pgtest.Database(t)
				execute(t, connectTo(t, target), "alter database "+pgx.Identifier{config(t, target).Database}.Sanitize()+" owner to "+weak)
				return withUser(t, target, weak)
			}
			_, err := Copy(t.Context(), Options{Source: config(t, url), Target: config(t, target()), PGDump: dump, SchemaOnly: true})
			var denied *PermissionError
			if !errors.As(err, &denied) || Retryable(err) {
				t.Fatalf("got error %v, want a PermissionError", err)
			}
			got := denied.Denied
			if diff := cmp.Diff(names(want), slices.Sorted(slices.Values(names(got)))); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if !strings.Contains(err.Error(), weak) || !strings.Contains(err.Error(), "extension file_fdw can be created by superusers only") {
				t.Errorf("the message is %q", err)
			}
			if dump != "" {
				return // pg_dump locks all tables, and the role may not read theirs
			}
			without := target()
			if _, err := Copy(t.Context(), Options{Source: config(t, url), Target: config(t, without), LeaveOut: names(got)}); err != nil {
				t.Fatal(err)
			}
			if n := one[int](t, connectTo(t, without), "select count(*) from mine"); n != 1 {
				t.Errorf("%d rows were copied, want 1", n)
			}
			if n := one[int](t, connectTo(t, without), "select count(*) from pg_class where relname in ('mine', 'ours', 'theirs')"); n != 2 {
				t.Errorf("%d tables were copied, want 2", n)
			}
		})
	}
}
