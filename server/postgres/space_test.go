package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/diskspace"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// testDisk is a disk of 10 GB, with half of one in reserve, that a test fills.
type testDisk struct{ free atomic.Int64 }

func (d *testDisk) guard(free int64) func(*postgres.ClusterConfig) {
	d.free.Store(free)
	return func(c *postgres.ClusterConfig) {
		c.Disk = diskspace.NewFunc(func() (diskspace.Usage, error) {
			return diskspace.Usage{Free: d.free.Load(), Total: 10 << 30}, nil
		}, diskspace.Reserve{})
	}
}

// A clone that gets the disk full is given up in the middle, in every strategy, and leaves its source free.
func TestCloneIsGivenUpBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	for _, s := range []postgres.Strategy{postgres.StrategyWALLog, postgres.StrategyFileCopy, postgres.StrategyCopy} {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			d := &testDisk{}
			f := setup(t, strategy(s), sessions(postgres.Terminate), d.guard(5<<30))
			execute(t, f.url, "create table big as select g as id, repeat('x', 500) as v from generate_series(1, 30000) g")
			r := f.request(t, "clone")
			r.Progress = func(phase string) {
				if phase == "cloning" {
					d.free.Store(100 << 20)
					time.Sleep(200 * time.Millisecond) // ten looks at the disk
				}
			}
			res, err := f.Clone(t.Context(), r)
			if !errors.Is(err, diskspace.ErrInsufficient) || res.Strategy != s {
				t.Fatalf("strategy %s, error %v", res.Strategy, err)
			}
			if !strings.Contains(err.Error(), "100 MB were free, and 512 MB are kept in reserve") {
				t.Errorf("the message: %v", err)
			}
			if err := f.Drop(t.Context(), r.Target, r.Branch.String()); err != nil || f.exists(t, r.Target) {
				t.Errorf("dropping what was made: %v", err)
			}
			if err := f.Ping(t.Context()); err != nil {
				t.Errorf("main: %v", err)
			}
			// With room again it works.
			d.free.Store(5 << 30)
			r.Progress = nil
			if _, err := f.Clone(t.Context(), r); err != nil {
				t.Errorf("the next try: %v", err)
			}
		})
	}
}

// What a clone needs depends on how it is made. It is refused before anything is written.
func TestCloneIsRefusedWithoutRoom(t *testing.T) {
	t.Parallel()
	const reserve = 512 << 20
	for _, tc := range []struct {
		name       string
		strategy   postgres.Strategy
		schemaOnly bool
		free       int64 // beside the reserve
		times      float64
		fits       bool
	}{
		{"wal_log in the size", postgres.StrategyWALLog, false, 0, 1.5, false},
		{"wal_log in twice the size", postgres.StrategyWALLog, false, 1 << 20, 2, true},
		{"copy in the size", postgres.StrategyCopy, false, 0, 1.5, false},
		{"copy in twice the size", postgres.StrategyCopy, false, 1 << 20, 2, true},
		{"file_copy in the size", postgres.StrategyFileCopy, false, 17 << 20, 1, true},
		{"file_copy in half of it", postgres.StrategyFileCopy, false, 0, 0.5, false},
		{"a schema", "", true, 33 << 20, 0, true},
		{"a schema in too little", "", true, 10 << 20, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := &testDisk{}
			f := setup(t, strategy(tc.strategy), sessions(postgres.Terminate), d.guard(5<<30))
			execute(t, f.url, "create table big as select g as id, repeat('x', 500) as v from generate_series(1, 30000) g")
			size := query[int64](t, f.url, "select pg_database_size(current_database())")
			d.free.Store(reserve + tc.free + int64(tc.times*float64(size)))
			r := f.request(t, "clone")
			r.SchemaOnly = tc.schemaOnly
			check := f.CheckRoom(t.Context(), f.Main(), tc.schemaOnly)
			_, err := f.Clone(t.Context(), r)
			for _, err := range []error{check, err} {
				if tc.fits && err != nil || !tc.fits && !errors.Is(err, diskspace.ErrInsufficient) {
					t.Errorf("fits: %t, got %v", tc.fits, err)
				}
			}
			if !tc.fits && f.exists(t, r.Target) {
				t.Error("the target was made")
			}
		})
	}
}

// The data directory of a server of this machine is found, and only by who may know it.
func TestLocalDataDirectory(t *testing.T) {
	t.Parallel()
	if os.Getenv("BOUGH_TEST_DATABASE_URL") != "" {
		t.Skip("the server of BOUGH_TEST_DATABASE_URL may be anywhere")
	}
	f := setup(t)
	want := query[string](t, f.url, "select current_setting('data_directory')")
	if dir, why, err := postgres.LocalDataDirectory(t.Context(), f.url); err != nil || dir != want {
		t.Errorf("got %q, %q, %v; want %s", dir, why, err, want)
	}
	name := role(t, "login")
	dir, why, err := postgres.LocalDataDirectory(t.Context(), as(t, f.url, name))
	if err != nil || dir != "" || !strings.Contains(why, "pg_read_all_settings") {
		t.Errorf("as a role without rights: %q, %q, %v", dir, why, err)
	}
}

// A clone that waits in vain for a lock says for which, and who has it.
func TestCloneNamesWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	f := setup(t, strategy(postgres.StrategyCopy))
	execute(t, f.url, `create schema "My App"; create table "My App"."Orders" (id int); create table free (id int)`)
	holder := connectAs(t, f.url, "nightly vacuum")
	if _, err := holder.Exec(t.Context(), `begin; lock table "My App"."Orders" in access exclusive mode`); err != nil {
		t.Fatal(err)
	}
	_, err := f.Clone(t.Context(), f.request(t, "clone"))
	if err == nil {
		t.Fatal("it was cloned")
	}
	for _, want := range []string{`"My App"."Orders" is locked (ACCESS EXCLUSIVE) by process `, "nightly vacuum", "idle in transaction", fmt.Sprintf("select pg_terminate_backend(%d)", holder.PgConn().PID())} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "free") {
		t.Errorf("the message names a table that is not locked: %v", err)
	}
	if _, err := holder.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	if holders, err := f.LockHolders(t.Context(), f.Main(), 0); err != nil || len(holders) > 0 {
		t.Errorf("holders afterwards: %v, %v", holders, err)
	}
}

// Locks of prepared transactions, and of sessions that only wait for theirs, are found too.
func TestLockHoldersOfOtherKinds(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "", map[string]string{"max_prepared_transactions": "5"})
	f := setupAt(t, newDatabase(t, server.URL("postgres")))
	execute(t, f.url, "create table a (id int); create table b (id int)")
	name := "held " + uuid.NewString()
	execute(t, f.url, "begin; lock table a in access exclusive mode; prepare transaction '"+name+"'")
	reader := connectAs(t, f.url, "report")
	if _, err := reader.Exec(t.Context(), "begin; select from b"); err != nil {
		t.Fatal(err)
	}
	waiter := connectAs(t, f.url, "migration")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _, _ = waiter.Exec(ctx, "alter table b add x int") }()
	var holders []postgres.LockHolder
	eventually(t, "both are listed", func() bool {
		var err error
		if holders, err = f.LockHolders(t.Context(), f.Main(), 0); err != nil {
			t.Fatal(err)
		}
		return len(holders) == 2
	})
	if h := holders[0]; h.Transaction != name || h.Relation != "public.a" || !strings.Contains(h.Advice(), "rollback prepared '"+name+"'") {
		t.Errorf("the prepared transaction: %s (%s)", h, h.Advice())
	}
	if h := holders[1]; !h.Waiting || h.Application != "migration" || h.Relation != "public.b" {
		t.Errorf("the one that waits: %s", h)
	}
	cancel()
	<-done
	execute(t, f.url, "rollback prepared '"+name+"'")
}

// newDatabase makes a database on a test's own server.
func newDatabase(t *testing.T, url string) string {
	t.Helper()
	name := "own_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	execute(t, url, "create database "+pgx.Identifier{name}.Sanitize())
	return pgtest.WithDatabase(url, name)
}
