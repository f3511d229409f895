package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// together calls f n times at once and returns the errors.
func together(n int, f func() error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f()
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

func TestEnsureDatabase(t *testing.T) {
	t.Parallel()
	f := setup(t)
	url := f.in(f.target(t, `it's "new" %41/?`))
	for range 2 {
		if err := together(10, func() error { return postgres.EnsureDatabase(t.Context(), url) }); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, url, "create table here ()")

	// A role that may connect to this database only needs no other.
	narrow := role(t, "login")
	if err := postgres.EnsureDatabase(t.Context(), as(t, url, narrow)); err != nil {
		t.Error(err)
	}
	if err := postgres.EnsureDatabase(t.Context(), as(t, f.in(f.Main()+"_none"), narrow)); err == nil || f.exists(t, f.Main()+"_none") {
		t.Errorf("a role without CREATEDB: %v", err)
	}
	if err := postgres.EnsureDatabase(t.Context(), as(t, url, narrow+"x")); err == nil {
		t.Error("a role that does not exist")
	}
}

func control(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.OpenControl(t.Context(), url, 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	pool := control(t, url)
	current, wanted, err := postgres.MigrationState(t.Context(), pool)
	if err != nil || current != 0 || wanted < 1 {
		t.Fatalf("before: %d of %d, %v", current, wanted, err)
	}
	// Five processes start at once.
	err = together(5, func() error {
		pool, err := postgres.OpenControl(t.Context(), url, 3)
		if err != nil {
			return err
		}
		defer pool.Close()
		return postgres.Migrate(t.Context(), pool)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), pool); err != nil {
		t.Errorf("once more: %v", err)
	}
	current, wanted, err = postgres.MigrationState(t.Context(), pool)
	if err != nil || current != wanted {
		t.Errorf("after: %d of %d, %v", current, wanted, err)
	}
	for _, table := range []string{"branches", "river_job"} {
		if !query[bool](t, url, "select to_regclass($1) is not null", table) {
			t.Errorf("there is no table %s", table)
		}
	}

	execute(t, url, "update bough_schema_version set version = 1000")
	if err := postgres.Migrate(t.Context(), pool); err == nil || !strings.Contains(err.Error(), "newer Bough") {
		t.Errorf("a newer schema: %v", err)
	}
	current, _, err = postgres.MigrationState(t.Context(), pool)
	if err != nil || current != 1000 {
		t.Errorf("a newer schema: %d, %v", current, err)
	}
}

func TestOpenControlRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://[", pgtest.WithDatabase(pgtest.ServerURL(t), "no such database")} {
		if pool, err := postgres.OpenControl(t.Context(), url, 3); err == nil {
			pool.Close()
			t.Errorf("%s: no error", url)
		}
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ in, database, want string }{
		{"postgres://u:p@h:1/a?sslmode=disable", "b", "postgres://u:p@h:1/b?sslmode=disable"},
		{"postgresql://u@h/a%2Fb", "c d", "postgresql://u@h/c%20d"},
		{"postgres:///a?host=%2Frun&dbname=x", "b", "postgres:///b?host=%2Frun"},
		{"host=h dbname=a", `it's \ b`, `host=h dbname=a dbname='it\'s \\ b'`},
	} {
		got, err := postgres.WithDatabase(tc.in, tc.database)
		if err != nil || got != tc.want {
			t.Errorf("%s: got %s, %v; want %s", tc.in, got, err, tc.want)
		}
		if name := databaseName(t, got); name != tc.database {
			t.Errorf("%s names %q", got, name)
		}
	}
	if _, err := postgres.WithDatabase("postgres://u:secret@[/a", "b"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestListenerComesBack(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	application := "listener " + uuid.NewString()
	var resets, connects atomic.Int64
	got := make(chan string, 10)
	l := postgres.Listener{
		Connect: func(ctx context.Context) (*pgx.Conn, error) {
			if connects.Add(1) == 2 {
				return nil, errors.New("the server is away")
			}
			cfg, err := pgx.ParseConfig(url)
			if err != nil {
				return nil, err
			}
			cfg.RuntimeParams["application_name"] = application
			return pgx.ConnectConfig(ctx, cfg)
		},
		Handlers: map[string]func(string){
			"One":     func(p string) { got <- "One " + p },
			"two two": func(p string) { got <- "two " + p },
		},
		Reset: func() { resets.Add(1) },
		Log:   slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { l.Run(ctx); close(done) }()
	for i := range int64(3) {
		eventually(t, "it listens", func() bool { return resets.Load() == i+1 })
		execute(t, url, `notify "One", 'a'`, `notify one, 'x'`, `notify "two two"`)
		for _, want := range []string{"One a", "two "} {
			if msg := <-got; msg != want {
				t.Errorf("got %q, want %q", msg, want)
			}
		}
		execute(t, url, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '"+application+"'")
	}
	cancel()
	<-done
	if n := sessionsOf(t, application); n > 1 {
		t.Errorf("%d sessions are left", n)
	}
}

func TestLockIsExclusive(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	a, b := control(t, url), control(t, url)
	inside, most := atomic.Int64{}, atomic.Int64{}
	err := together(6, func() error {
		for i := range 5 {
			pool := a
			if i%2 == 0 {
				pool = b
			}
			lock, err := postgres.AcquireLock(t.Context(), pool, "name")
			if err != nil {
				return err
			}
			most.Store(max(most.Load(), inside.Add(1)))
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			lock.Release()
		}
		return nil
	})
	if err != nil || most.Load() != 1 {
		t.Errorf("%d held the lock at a time, %v", most.Load(), err)
	}

	lock, err := postgres.AcquireLock(t.Context(), a, "name")
	if err != nil {
		t.Fatal(err)
	}
	other, err := postgres.AcquireLock(t.Context(), a, "another name")
	if err != nil {
		t.Fatal(err)
	}
	other.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := postgres.AcquireLock(ctx, b, "name"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second lock: %v", err)
	}

	// The lock ends with its session.
	got := make(chan error, 1)
	go func() {
		second, err := postgres.AcquireLock(context.Background(), b, "name")
		if err == nil {
			second.Release()
		}
		got <- err
	}()
	pid := lock.Conn().PgConn().PID()
	if n := query[bool](t, url, fmt.Sprintf("select pg_terminate_backend(%d)", pid)); !n {
		t.Fatal("the session was not ended")
	}
	if err := <-got; err != nil {
		t.Errorf("after the end of the session: %v", err)
	}
	lock.Release() // does not block or panic
	lock, err = postgres.AcquireLock(t.Context(), a, "name")
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	if n := query[int](t, url, "select count(*) from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())"); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}
