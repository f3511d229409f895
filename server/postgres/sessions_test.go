package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

func TestCloneWithSomebodyConnected(t *testing.T) {
	t.Parallel()
	for policy, tc := range map[postgres.SessionPolicy]struct {
		strategy postgres.Strategy
		err      error
		survives bool
	}{
		postgres.CopyAround: {strategy: postgres.StrategyCopy, survives: true},
		"":                  {strategy: postgres.StrategyCopy, survives: true}, // the default
		postgres.Terminate:  {strategy: postgres.StrategyWALLog},
		postgres.Refuse:     {err: postgres.ErrSourceInUse, survives: true},
	} {
		t.Run("policy "+string(policy), func(t *testing.T) {
			t.Parallel()
			f := setup(t, sessions(policy))
			execute(t, f.url, "create table t as select 1 as id")
			somebody := connect(t, f.url)
			r := f.request(t, "clone")
			res, err := f.Clone(t.Context(), r)
			if !errors.Is(err, tc.err) || err == nil && res.Strategy != tc.strategy {
				t.Errorf("strategy %s, error %v", res.Strategy, err)
			}
			if alive := somebody.Ping(t.Context()) == nil; alive != tc.survives {
				t.Errorf("the other program's session is alive: %v", alive)
			}
			if made := f.exists(t, r.Target); made != (err == nil) {
				t.Errorf("the clone exists: %v", made)
			}
			if err := f.Ping(t.Context()); err != nil {
				t.Errorf("main after the clone: %v", err)
			}
		})
	}
}

// The session comes after the strategy was chosen, and stays.
func TestCloneMeetsASessionAtTheLastMoment(t *testing.T) {
	t.Parallel()
	for policy, tc := range map[postgres.SessionPolicy]struct {
		strategy postgres.Strategy
		err      error
		survives bool
	}{
		postgres.CopyAround: {strategy: postgres.StrategyCopy, survives: true},
		postgres.Terminate:  {strategy: postgres.StrategyWALLog},
		postgres.Refuse:     {err: postgres.ErrSourceInUse, survives: true},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			f := setup(t, sessions(policy))
			var somebody *pgx.Conn
			f.Announce = func(ctx context.Context, _ string, limit time.Duration) (err error) {
				if limit > 0 {
					somebody, err = pgx.Connect(ctx, f.url)
				}
				return err
			}
			res, err := f.Clone(t.Context(), f.request(t, "clone"))
			defer somebody.Close(context.Background())
			if !errors.Is(err, tc.err) || err == nil && res.Strategy != tc.strategy {
				t.Errorf("strategy %s, error %v", res.Strategy, err)
			}
			if alive := somebody.Ping(t.Context()) == nil; alive != tc.survives {
				t.Errorf("the other program's session is alive: %v", alive)
			}
			// Waiting for it is over long before PostgreSQL's own five seconds.
			if res.Pause == 0 || res.Pause > 4*time.Second {
				t.Errorf("main was held for %s", res.Pause)
			}
		})
	}
}

// Other programs come and go while clones are made. None of them ever sees an error.
func TestProgramsConnectDuringClones(t *testing.T) {
	t.Parallel()
	f := setup(t)
	execute(t, f.url, "create table t as select i from generate_series(1, 1000) i")
	ctx, stop := context.WithCancel(t.Context())
	var programs sync.WaitGroup
	defer programs.Wait()
	defer stop()
	for range 2 {
		programs.Go(func() {
			for ctx.Err() == nil {
				conn, err := pgx.Connect(context.Background(), f.url)
				if err == nil {
					_, err = conn.Exec(context.Background(), "select count(*) from t")
					conn.Close(context.Background())
				}
				if err != nil {
					t.Errorf("another program: %v", err)
				}
				time.Sleep(30 * time.Millisecond)
			}
		})
	}
	made := map[postgres.Strategy]int{}
	for i := range 8 {
		name, res := f.clone(t, fmt.Sprint(i))
		made[res.Strategy]++
		if n := query[int](t, f.in(name), "select count(*) from t"); n != 1000 {
			t.Errorf("%d rows", n)
		}
	}
	t.Logf("clones by strategy: %v", made)
}

// Requests of this process that take longer than Drain go on; the clone is made around them.
func TestCloneGoesAroundALongTransaction(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *postgres.ClusterConfig) { c.Drain = 100 * time.Millisecond })
	execute(t, f.url, "create table t as select 1 as id")
	c := acquire(t, f.Pools, f.Main())
	defer c.Release()
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "insert into t values (2)"); err != nil {
		t.Fatal(err)
	}
	name, res := f.clone(t, "clone")
	if res.Strategy != postgres.StrategyCopy || res.Pause < 100*time.Millisecond {
		t.Errorf("%s, held for %s", res.Strategy, res.Pause)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Errorf("the transaction: %v", err)
	}
	if n := query[int](t, f.in(name), "select count(*) from t"); n != 1 {
		t.Errorf("%d rows in the clone", n)
	}
	if n := query[int](t, f.url, "select count(*) from t"); n != 2 {
		t.Errorf("%d rows in main", n)
	}
}

func TestPreparedTransactions(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "", map[string]string{"max_prepared_transactions": "5"})
	url := server.URL("app")
	if err := postgres.EnsureDatabase(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	execute(t, url, "create table t as select 1 as id", "begin", "insert into t values (2)", "prepare transaction 'pending'")

	for _, policy := range []postgres.SessionPolicy{postgres.Refuse, postgres.Terminate} {
		f := setupAt(t, url, sessions(policy))
		if _, err := f.Clone(t.Context(), postgres.CloneRequest{Source: "app", Target: "x", Branch: uuid.New()}); !errors.Is(err, postgres.ErrSourceInUse) {
			t.Errorf("policy %s: %v", policy, err)
		}
	}
	f := setupAt(t, url)
	name, res := f.clone(t, "clone")
	if res.Strategy != postgres.StrategyCopy {
		t.Errorf("strategy %s", res.Strategy)
	}
	if n := query[int](t, f.in(name), "select count(*) from t"); n != 1 {
		t.Errorf("%d rows in the clone", n)
	}
	execute(t, url, "commit prepared 'pending'")
	if n := query[int](t, url, "select count(*) from t"); n != 2 {
		t.Errorf("%d rows in main", n)
	}

	// One in a branch does not keep the branch from being deleted.
	execute(t, f.in(name), "begin", "insert into t values (3)", "prepare transaction 'it''s open'")
	if err := f.Drop(t.Context(), name, ""); err != nil || f.exists(t, name) {
		t.Errorf("dropping a database with a prepared transaction: %v", err)
	}
}

// Two processes of one installation have connections to main.
func TestCloneBesidesAnotherProcess(t *testing.T) {
	t.Parallel()
	setupTwo := func(t *testing.T) (f *fixture, other *postgres.Cluster) {
		f = setup(t, func(c *postgres.ClusterConfig) { c.Drain = 300 * time.Millisecond })
		execute(t, f.url, "create table t as select 1 as id")
		other = open(t, f.config)
		for _, c := range []*postgres.Cluster{f.Cluster, other} {
			if err := c.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return f, other
	}
	// wire tells other of f's holds, as notifications do.
	wire := func(f *fixture, other *postgres.Cluster) {
		var mu sync.Mutex
		var end func()
		f.Announce = func(_ context.Context, database string, limit time.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			if end != nil {
				end()
				end = nil
			}
			if limit > 0 {
				end = other.Pools.HoldInBackground(database, limit)
			}
			return nil
		}
	}
	t.Run("that is told", func(t *testing.T) {
		t.Parallel()
		f, other := setupTwo(t)
		wire(f, other)
		busy := acquire(t, other.Pools, f.Main())
		time.AfterFunc(100*time.Millisecond, busy.Release)
		if _, res := f.clone(t, "clone"); res.Strategy != postgres.StrategyWALLog {
			t.Errorf("strategy %s", res.Strategy)
		}
		touch(t, other.Pools, f.Main())
	})
	t.Run("that is told, and has long work to do", func(t *testing.T) {
		t.Parallel()
		f, other := setupTwo(t)
		wire(f, other)
		busy := acquire(t, other.Pools, f.Main())
		defer busy.Release()
		if _, res := f.clone(t, "clone"); res.Strategy != postgres.StrategyCopy {
			t.Errorf("strategy %s", res.Strategy)
		}
		if _, err := busy.Exec(t.Context(), "select 1"); err != nil {
			t.Errorf("its work: %v", err)
		}
		touch(t, other.Pools, f.Main())
	})
	t.Run("that is not told", func(t *testing.T) {
		t.Parallel()
		f, other := setupTwo(t)
		if _, res := f.clone(t, "clone"); res.Strategy != postgres.StrategyCopy {
			t.Errorf("strategy %s", res.Strategy)
		}
		touch(t, other.Pools, f.Main())
	})
	t.Run("that cannot be told", func(t *testing.T) {
		t.Parallel()
		f, other := setupTwo(t)
		var ended bool
		f.Announce = func(_ context.Context, _ string, limit time.Duration) error {
			ended = limit == 0
			return errors.New("no way through")
		}
		if _, err := f.Clone(t.Context(), f.request(t, "clone")); err == nil || !ended {
			t.Errorf("error %v; those that were told were released: %v", err, ended)
		}
		touch(t, f.Pools, f.Main())
		touch(t, other.Pools, f.Main())
	})
}
