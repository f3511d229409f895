package pgtest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// query connects to a database and returns the one value a query yields.
func query[T any](t testing.TB, url, sql string) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// execute connects to a database and executes statements.
func execute(t testing.TB, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestDatabasesAreEmptyAndApart(t *testing.T) {
	t.Parallel()
	a, b := pgtest.Database(t), pgtest.Database(t)
	execute(t, a, "create table only_here (id int)")
	for url, want := range map[string]bool{a: true, b: false} {
		got := query[bool](t, url, "select to_regclass('only_here') is not null")
		if got != want {
			t.Errorf("only_here exists: got %v, want %v", got, want)
		}
	}
}

func TestDatabaseIsDroppedThoughConnected(t *testing.T) {
	t.Parallel()
	var url, name string
	t.Run("with a connection left open", func(t *testing.T) {
		url = pgtest.Database(t)
		name = query[string](t, url, "select current_database()")
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn // deliberately not closed
	})
	if query[bool](t, pgtest.ServerURL(t), "select exists (select from pg_database where datname = '"+name+"')") {
		t.Errorf("database %s still exists", name)
	}
}

func TestTemplateIsBuiltOnce(t *testing.T) {
	t.Parallel()
	var built atomic.Int32
	name := rand.Text() // templates stay while the process runs, which may run the test again
	build := func(ctx context.Context, url string) error {
		built.Add(1)
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		// Left open on purpose: copying must work all the same.
		_, err = conn.Exec(ctx, "create table seeds (id int); insert into seeds select generate_series(1, 100)")
		return err
	}
	t.Run("copies", func(t *testing.T) {
		for range 6 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				url := pgtest.Template(t, name, build)
				if diff := cmp.Diff(100, query[int](t, url, "select count(*) from seeds")); diff != "" {
					t.Errorf("rows of a copy (-want +got):\n%s", diff)
				}
			})
		}
	})
	if got := built.Load(); got != 1 {
		t.Errorf("the template was built %d times, want 1", got)
	}
}

// Roles are the server's: databases that ask for the same ones at once get them once.
func TestSharedRolesAreCreatedOnce(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { pgtest.SharedRoles(t, "pgtest_shared", `pgtest "too"`) })
	}
	group.Wait()
	if got := query[int](t, pgtest.ServerURL(t), `select count(*) from pg_roles where rolname in ('pgtest_shared', 'pgtest "too"')`); got != 2 {
		t.Errorf("%d roles exist, want 2", got)
	}
}

func TestRoleIsDroppedWithWhatItOwns(t *testing.T) {
	t.Parallel()
	var role string
	older := pgtest.Database(t) // is still there when the role goes
	t.Run("with things in two databases", func(t *testing.T) {
		role = pgtest.Role(t, "createdb")
		for _, url := range []string{older, pgtest.Database(t)} {
			execute(t, url, "create schema s authorization "+role+"; create table s.t (); create view v as select * from s.t; grant select on v to "+role)
			execute(t, url, "alter database "+query[string](t, url, "select current_database()::text")+" owner to "+role)
		}
	})
	if query[bool](t, older, "select to_regrole('"+role+"') is not null or to_regnamespace('s') is not null") {
		t.Errorf("role %s or its schema still exists", role)
	}
}

// fakeTB records a failure instead of having it.
type fakeTB struct {
	testing.TB
	failed bool
}

func (f *fakeTB) Fatalf(string, ...any) { f.failed = true; panic(f) }
func (f *fakeTB) Helper()               {}

func TestTemplateThatFailsToBuildFailsTheTest(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(context.Context, string) error{
		"error": func(context.Context, string) error { return errors.New("no") },
		"panic": func(context.Context, string) error { panic("no") },
	} {
		fake := &fakeTB{TB: t}
		func() {
			defer func() { recover() }()
			pgtest.Template(fake, "broken by "+name, build)
		}()
		if !fake.failed {
			t.Errorf("%s: the test has not failed", name)
		}
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	const url = "postgres://bough:secret@127.0.0.1:5432/postgres?sslmode=disable"
	got := pgtest.WithDatabase(url, "a b")
	if diff := cmp.Diff("postgres://bough:secret@127.0.0.1:5432/a%20b?sslmode=disable", got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestStartTakesSettings(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t, "", map[string]string{"max_connections": "17"})
	if diff := cmp.Diff("17", query[string](t, s.URL("postgres"), "show max_connections")); diff != "" {
		t.Errorf("max_connections (-want +got):\n%s", diff)
	}
}

func TestClusterIsReadyToStart(t *testing.T) {
	t.Parallel()
	dir := pgtest.Cluster(t, "")
	s, err := pgserver.Start(t.Context(), pgserver.Options{DataDir: dir, CacheDir: pgserver.DefaultCacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	if diff := cmp.Diff("bough", query[string](t, s.SocketURL("postgres"), "select current_user")); diff != "" {
		t.Errorf("superuser (-want +got):\n%s", diff)
	}
}

func BenchmarkDatabase(b *testing.B) {
	pgtest.ServerURL(b)
	for b.Loop() {
		pgtest.Database(b)
	}
}

func BenchmarkTemplate(b *testing.B) {
	build := func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, `do $$ begin for i in 1..40 loop
			execute format('create table t%s (id uuid primary key, name text unique, created_at timestamptz default now())', i);
		end loop; end $$`)
		return err
	}
	pgtest.Template(b, "bench", build)
	for b.Loop() {
		pgtest.Template(b, "bench", build)
	}
}
