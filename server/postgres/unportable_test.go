package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/postgres"
)

// A role with LOGIN and CREATEDB only is told beforehand what it cannot copy, and copies the rest if the operator agrees.
func TestLimitedRoleCopiesWhatItMay(t *testing.T) {
	t.Parallel()
	stranger := role(t, "")
	f, owner := limited(t, "createdb", roleNames(t))
	execute(t, f.url, "alter schema public owner to "+owner, "create extension file_fdw", "create extension hstore",
		"create function public.audit() returns event_trigger language plpgsql as 'begin end'", "alter function public.audit() owner to "+owner,
		"create event trigger auditing on ddl_command_end execute function public.audit()", "create publication everything for all tables")
	execute(t, f.config.URL, "create table t (id int primary key, h hstore)", "insert into t values (1, 'a=>b')")
	connect(t, f.config.URL) // so that it has to be copied
	objects := func() (out []string) {
		t.Helper()
		list, err := f.Unportable(t.Context(), f.Main())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			if o.Needed {
				o.Object += "!"
			}
			out = append(out, o.Object)
		}
		return out
	}
	want := []string{"event trigger auditing", "extension file_fdw", "publication everything"}
	if diff := cmp.Diff(want, objects()); diff != "" {
		t.Errorf("what cannot be copied (-want +got):\n%s", diff)
	}
	var unportable *postgres.UnportableError
	for _, schemaOnly := range []bool{true, false} {
		r := f.request(t, "refused")
		r.SchemaOnly = schemaOnly
		_, err := f.Clone(t.Context(), r)
		if !errors.As(err, &unportable) || !strings.Contains(err.Error(), "extension file_fdw") || !strings.Contains(err.Error(), "leave-out-unsupported") {
			t.Errorf("schema only %v: %v", schemaOnly, err)
		}
	}
	cfg := f.config
	cfg.LeaveOutUnsupported = true
	agreed := &fixture{config: cfg, url: f.url, Cluster: open(t, cfg)}
	for _, schemaOnly := range []bool{true, false} {
		r := f.request(t, "agreed")
		r.SchemaOnly = schemaOnly
		res, err := agreed.Clone(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range want {
			if !slices.ContainsFunc(res.Warnings, func(w string) bool { return strings.Contains(w, name) }) {
				t.Errorf("no warning of the %s: %q", name, res.Warnings)
			}
		}
		if n := query[int](t, f.in(r.Target), "select count(*) from t"); (n == 0) != schemaOnly {
			t.Errorf("%d rows", n)
		}
	}
	// What others need, or what belongs to somebody else, cannot be left out.
	execute(t, f.url, "create server files foreign data wrapper file_fdw", "create table public.theirs ()", "alter table public.theirs owner to "+stranger)
	if got := objects(); !slices.Contains(got, "extension file_fdw!") || !slices.Contains(got, "table public.theirs!") {
		t.Errorf("what cannot be copied: %q", got)
	}
	_, err := agreed.Clone(t.Context(), f.request(t, "needed"))
	if !errors.As(err, &unportable) || strings.Contains(err.Error(), "leave-out") || !strings.Contains(err.Error(), "public.theirs (it belongs to "+stranger) {
		t.Errorf("got %v", err)
	}
	// A superuser creates all of it.
	super := setupAt(t, f.url)
	if list, err := super.Unportable(t.Context(), f.Main()); err != nil || len(list) > 0 {
		t.Errorf("a superuser cannot create %v, %v", list, err)
	}
}
