package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// pools opens pools on a new main under an application_name of their own.
func pools(t *testing.T, limits postgres.PoolLimits) (p *postgres.Pools, main, application string) {
	t.Helper()
	mainURL := pgtest.Database(t)
	application = "test " + uuid.NewString()
	p, err := postgres.NewPools(mainURL, application, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, databaseName(t, mainURL), application
}

func databaseName(t *testing.T, connString string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Database
}

// branches makes n databases.
func branches(t *testing.T, n int) (names []string) {
	t.Helper()
	for range n {
		names = append(names, databaseName(t, pgtest.Database(t)))
	}
	return names
}

func acquire(t *testing.T, p *postgres.Pools, database string) *postgres.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := p.Acquire(ctx, database)
	if err != nil {
		t.Fatalf("acquiring a connection to %s: %v", database, err)
	}
	return c
}

func touch(t *testing.T, p *postgres.Pools, database string) {
	t.Helper()
	c := acquire(t, p, database)
	defer c.Release()
	var got string
	if err := c.QueryRow(t.Context(), "select current_database()").Scan(&got); err != nil || got != database {
		t.Fatalf("got to %q instead of %q: %v", got, database, err)
	}
}

// isHeld reports whether requests for the database wait.
func isHeld(t *testing.T, p *postgres.Pools, database string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	c, err := p.Acquire(ctx, database)
	if err == nil {
		c.Release()
		return false
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a request for %s: %v", database, err)
	}
	return true
}

// sessionsOf counts the sessions that the server has under an application_name.
func sessionsOf(t *testing.T, application string) int {
	t.Helper()
	return query[int](t, pgtest.ServerURL(t), "select count(*) from pg_stat_activity where application_name = $1", application)
}

var plenty = postgres.PoolLimits{Main: 5, Branch: 3, Total: 20, Idle: time.Minute}

func TestHoldLetsRequestsWait(t *testing.T) {
	t.Parallel()
	p, main, application := pools(t, plenty)
	touch(t, p, main)
	other := branches(t, 1)[0]
	release, err := p.Hold(t.Context(), main, time.Second, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "main has no sessions", func() bool { return sessionsOf(t, application) == 0 })
	touch(t, p, other) // is not held

	got := make(chan error, 3)
	for range 3 {
		go func() {
			c, err := p.Acquire(context.Background(), main)
			if err == nil {
				err = c.Ping(context.Background())
				c.Release()
			}
			got <- err
		}()
	}
	eventually(t, "the requests wait", func() bool { return p.Stats(main).Waited >= 3 })
	select {
	case err := <-got:
		t.Fatalf("a request did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	release() // does no harm
	for range 3 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}

func TestHoldWaitsForRequestsAtWork(t *testing.T) {
	t.Parallel()
	p, main, application := pools(t, plenty)
	c := acquire(t, p, main)
	held := make(chan error, 1)
	var release func()
	go func() {
		var err error
		release, err = p.Hold(context.Background(), main, time.Minute, time.Minute)
		held <- err
	}()
	eventually(t, "the gate is shut", func() bool { return isHeld(t, p, main) })
	// The one at work can go on, and is not disturbed.
	if _, err := c.Exec(t.Context(), "select 1"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-held:
		t.Fatal("the hold did not wait for the request at work")
	default:
	}
	c.Release()
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	eventually(t, "main has no sessions", func() bool { return sessionsOf(t, application) == 0 })
	release()
	touch(t, p, main)
}

func TestHoldGivesUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		drain, timeout time.Duration
		want           error
	}{
		"requests at work take too long": {50 * time.Millisecond, time.Minute, context.DeadlineExceeded},
		"the caller has gone":            {time.Minute, 50 * time.Millisecond, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, main, _ := pools(t, plenty)
			c := acquire(t, p, main)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(tc.timeout, cancel)
			if _, err := p.Hold(ctx, main, tc.drain, time.Minute); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			touch(t, p, main)
			if _, err := c.Exec(t.Context(), "select 1"); err != nil {
				t.Errorf("the request at work: %v", err)
			}
			c.Release()
			release, err := p.Hold(t.Context(), main, time.Second, time.Minute)
			if err != nil {
				t.Fatalf("another try: %v", err)
			}
			release()
		})
	}
}

func TestHoldEndsAfterItsLimit(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, plenty)
	release, err := p.Hold(t.Context(), main, time.Second, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	touch(t, p, main)
	release() // too late, and no harm
	touch(t, p, main)
}

func TestHoldsNest(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, plenty)
	first, err := p.Hold(t.Context(), main, time.Second, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.Hold(t.Context(), main, time.Second, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	third := p.HoldInBackground(main, time.Minute)
	first()
	first()
	if !isHeld(t, p, main) {
		t.Error("the first release ended all holds")
	}
	third()
	if !isHeld(t, p, main) {
		t.Error("the second release ended all holds")
	}
	second()
	touch(t, p, main)
}

func TestHoldInBackgroundDoesNotWait(t *testing.T) {
	t.Parallel()
	p, main, application := pools(t, plenty)
	idle, busy := acquire(t, p, main), acquire(t, p, main)
	idle.Release()
	release := p.HoldInBackground(main, time.Minute)
	eventually(t, "the idle session is gone", func() bool { return sessionsOf(t, application) == 1 })
	if !isHeld(t, p, main) {
		t.Error("new requests do not wait")
	}
	if _, err := busy.Exec(t.Context(), "select 1"); err != nil {
		t.Errorf("the request at work: %v", err)
	}
	busy.Release()
	eventually(t, "the last session is gone", func() bool { return sessionsOf(t, application) == 0 })
	release()
	touch(t, p, main)

	p.HoldInBackground(main, 50*time.Millisecond)
	touch(t, p, main)
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, plenty)
	release, err := p.Hold(t.Context(), main, time.Second, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := p.Acquire(ctx, main); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release()
	// It is not counted among those at work.
	release, err = p.Hold(t.Context(), main, 10*time.Second, time.Minute)
	if err != nil {
		t.Fatalf("another hold: %v", err)
	}
	release()
}

// Requests given up leave the connection usable, with its prepared statements, and the budget as it was.
func TestGivingUpAQueryKeepsItsConnection(t *testing.T) {
	t.Parallel()
	// No other connection is left that the request to cancel could take.
	p, main, _ := pools(t, postgres.PoolLimits{Main: 1, Branch: 1, Total: 1, Idle: time.Minute})
	c := acquire(t, p, main)
	pid := c.Conn.Conn().PgConn().PID()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := c.Exec(ctx, "select pg_sleep(60)"); err == nil {
		t.Fatal("the query was not given up")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("giving up took %s", took)
	}
	c.Release()
	c = acquire(t, p, main)
	defer c.Release()
	if got := c.Conn.Conn().PgConn().PID(); got != pid {
		t.Error("the connection was thrown away")
	}
}

func TestManyDatabasesShareFewConnections(t *testing.T) {
	t.Parallel()
	const total = 3
	p, main, application := pools(t, postgres.PoolLimits{Main: 2, Branch: 2, Total: total, Idle: time.Minute})
	names := append(branches(t, 7), main)
	watchCtx, stop := context.WithCancel(t.Context())
	var most atomic.Int64
	var watcher sync.WaitGroup
	watcher.Go(func() {
		conn, err := pgx.Connect(watchCtx, pgtest.ServerURL(t))
		if err != nil {
			return
		}
		defer conn.Close(context.Background())
		for watchCtx.Err() == nil {
			var n int64
			// A backend takes a moment to go after its connection was closed.
			_ = conn.QueryRow(watchCtx, "select count(*) from pg_stat_activity where application_name = $1", application).Scan(&n)
			most.Store(max(most.Load(), n))
		}
	})
	for range 2 {
		for _, name := range names {
			touch(t, p, name)
		}
	}
	var sum int32
	for _, name := range names {
		sum += p.Stats(name).Total
	}
	if sum > total {
		t.Errorf("%d connections are open, more than %d", sum, total)
	}

	// All at once, each several times.
	errs := make(chan error)
	for _, name := range names {
		for range 3 {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				c, err := p.Acquire(ctx, name)
				if err == nil {
					_, err = c.Exec(ctx, "select pg_sleep(0.005)")
					c.Release()
				}
				errs <- err
			}()
		}
	}
	for range 3 * len(names) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	stop()
	watcher.Wait()
	if n := most.Load(); n > 3*total {
		t.Errorf("the server saw %d sessions at a time, the limit is %d", n, total)
	}
}

func TestLeastRecentlyUsedPoolGoesFirst(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, postgres.PoolLimits{Main: 2, Branch: 2, Total: 2, Idle: time.Minute})
	names := branches(t, 2)
	touch(t, p, main)
	touch(t, p, names[0])
	touch(t, p, main)
	touch(t, p, names[1])
	got := []int32{p.Stats(main).Total, p.Stats(names[0]).Total, p.Stats(names[1]).Total}
	if !slices.Equal(got, []int32{1, 0, 1}) {
		t.Errorf("open connections of main and two branches: %v", got)
	}
}

// A pool that is always in use keeps no connection from the others that it does not need.
func TestIdleConnectionsOfABusyPoolAreGivenUp(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, postgres.PoolLimits{Main: 3, Branch: 2, Total: 3, Idle: time.Minute})
	busy, a, b := acquire(t, p, main), acquire(t, p, main), acquire(t, p, main)
	a.Release()
	b.Release()
	touch(t, p, branches(t, 1)[0])
	if got := p.Stats(main); got.Total != 2 {
		t.Errorf("main's pool has %d connections, not 2", got.Total)
	}
	if _, err := busy.Exec(t.Context(), "select 1"); err != nil {
		t.Errorf("the one at work: %v", err)
	}
	busy.Release()
}

// A request that gave up while all connections were in use leaves nothing behind that waits for one for ever.
func TestRequestsThatGiveUpLeaveNothing(t *testing.T) {
	t.Parallel()
	p, main, application := pools(t, postgres.PoolLimits{Main: 1, Branch: 1, Total: 1, Idle: time.Minute})
	names := branches(t, 2)
	busy := acquire(t, p, main)
	for _, name := range names {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := p.Acquire(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	time.Sleep(100 * time.Millisecond) // they go on trying in the background
	busy.Release()
	for _, name := range append(names, main, names[0]) {
		touch(t, p, name)
	}
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close does not return")
	}
	eventually(t, "all sessions end", func() bool { return sessionsOf(t, application) == 0 })
}

func TestForgetClosesIdleConnections(t *testing.T) {
	t.Parallel()
	p, main, application := pools(t, plenty)
	p.Forget("never seen")
	touch(t, p, main)
	p.Forget(main)
	eventually(t, "the session ends", func() bool { return sessionsOf(t, application) == 0 })
	c := acquire(t, p, main)
	p.Forget(main)
	if _, err := c.Exec(t.Context(), "select 1"); err != nil {
		t.Errorf("the one at work: %v", err)
	}
	c.Release()
	eventually(t, "the session ends after its release", func() bool { return sessionsOf(t, application) == 0 })
	touch(t, p, main)
}

func TestSweepClosesWhatNobodyUsed(t *testing.T) {
	t.Parallel()
	const idle = 400 * time.Millisecond
	p, main, application := pools(t, postgres.PoolLimits{Main: 2, Branch: 2, Total: 5, Idle: idle})
	other := branches(t, 1)[0]
	busy := acquire(t, p, main)
	touch(t, p, other)
	used := time.Now()
	p.Sweep()
	if n := p.Stats(other).Total; n != 1 && time.Since(used) < idle {
		t.Errorf("a pool that was just used has %d connections", n)
	}
	time.Sleep(idle)
	p.Sweep()
	eventually(t, "only the one at work is left", func() bool { return sessionsOf(t, application) == 1 })
	busy.Release()

	// A hold is kept through it.
	release, err := p.Hold(t.Context(), main, time.Second, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(idle)
	p.Sweep()
	if !isHeld(t, p, main) {
		t.Error("the sweep ended a hold")
	}
	release()
	touch(t, p, main)
}

func TestCloseEndsThePools(t *testing.T) {
	t.Parallel()
	p, main, application := pools(t, plenty)
	other := branches(t, 1)[0]
	touch(t, p, main)
	busy := acquire(t, p, other)
	if _, err := p.Hold(t.Context(), main, time.Second, time.Minute); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := p.Acquire(context.Background(), main)
		waiting <- err
	}()
	eventually(t, "the request waits", func() bool { return p.Stats(main).Waited > 0 })
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	if err := <-waiting; err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("the request that waited: %v", err)
	}
	select {
	case <-closed:
		t.Error("Close did not wait for the request at work")
	case <-time.After(50 * time.Millisecond):
	}
	busy.Release()
	<-closed
	p.Close() // again
	if _, err := p.Acquire(t.Context(), main); err == nil {
		t.Error("a connection of closed pools")
	}
	eventually(t, "all sessions end", func() bool { return sessionsOf(t, application) == 0 })
}

func TestPoolStats(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, plenty)
	if got, want := p.Stats(main), (postgres.PoolStats{Max: 5}); got != want {
		t.Errorf("main before its first use: %+v", got)
	}
	if got, want := p.Stats("unknown"), (postgres.PoolStats{Max: 3}); got != want {
		t.Errorf("a branch that was never used: %+v", got)
	}
	a, b := acquire(t, p, main), acquire(t, p, main)
	a.Release()
	got := p.Stats(main)
	got.Waited = 0
	if want := (postgres.PoolStats{Total: 2, Idle: 1, Acquired: 1, Max: 5}); got != want {
		t.Errorf("main in use: %+v", got)
	}
	b.Release()
}

func TestAcquireTellsOfADatabaseThatIsNotThere(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, plenty)
	if _, err := p.Acquire(t.Context(), "no such database"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got %v", err)
	}
	touch(t, p, main)
}

// A live main is cloned again and again, and nobody sees an error.
func TestCloneOfALiveMain(t *testing.T) {
	t.Parallel()
	for s, clones := range map[postgres.Strategy]int{
		postgres.StrategyWALLog: 5, postgres.StrategyFileCopy: 5, postgres.StrategyCopy: 2,
	} {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			f := setup(t, strategy(s), func(c *postgres.ClusterConfig) { c.Drain = 10 * time.Second })
			execute(t, f.url,
				"create table accounts as select i as id, 1000 as balance from generate_series(1, 50) i",
				"alter table accounts add primary key (id)",
				"create table history (a int, b int, amount int)",
			)
			ctx, stop := context.WithCancel(t.Context())
			var done, failed atomic.Int64
			var workers sync.WaitGroup
			for w := range 8 {
				workers.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						if err := transfer(context.Background(), f.Pools, f.Main(), (w*7+i)%49+1, i%10); err != nil {
							failed.Add(1)
							t.Errorf("a transaction: %v", err)
						}
						done.Add(1)
						time.Sleep(2 * time.Millisecond)
					}
				})
			}
			defer workers.Wait()
			defer stop()
			for i := range clones {
				before := done.Load()
				eventually(t, "transactions are made", func() bool { return done.Load() > before+20 })
				name, res := f.clone(t, fmt.Sprint(i))
				if res.Strategy != s {
					t.Errorf("clone %d was made by %s", i, res.Strategy)
				}
				sum := query[string](t, f.in(name), `
					select sum(balance) || ' ' || (select count(*) from accounts a
						where balance <> 1000 - (select coalesce(sum(amount), 0) from history where a = id)
							+ (select coalesce(sum(amount), 0) from history where b = id))
					from accounts`)
				if sum != "50000 0" {
					t.Errorf("clone %d: the sum of balances and the accounts that do not fit their history are %s", i, sum)
				}
			}
			stop()
			workers.Wait()
			if failed.Load() > 0 || s != postgres.StrategyCopy && f.PoolStats(f.Main()).Waited == 0 {
				t.Errorf("%d of %d transactions failed, %d waited", failed.Load(), done.Load(), f.PoolStats(f.Main()).Waited)
			}
		})
	}
}

// transfer moves an amount from one account to the next, in three statements.
func transfer(ctx context.Context, p *postgres.Pools, database string, from, amount int) error {
	c, err := p.Acquire(ctx, database)
	if err != nil {
		return err
	}
	defer c.Release()
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "update accounts set balance = balance - $2 where id = $1", from, amount); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "update accounts set balance = balance + $2 where id = $1", from+1, amount); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "insert into history values ($1, $2, $3)", from, from+1, amount)
		return err
	})
}

func TestWaitingForAConnectionIsBounded(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]postgres.PoolLimits{
		"of the database": {Main: 1, Branch: 1, Total: 5, Idle: time.Minute, Wait: 50 * time.Millisecond},
		"of all":          {Main: 2, Branch: 2, Total: 1, Idle: time.Minute, Wait: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, main, _ := pools(t, limits)
			c := acquire(t, p, main)
			_, err := p.Acquire(t.Context(), main)
			var f *fault.Error
			if !errors.Is(err, postgres.ErrBusy) || !errors.As(err, &f) || f.RetryAfter == 0 {
				t.Fatalf("got %v, want ErrBusy", err)
			}
			c.Release()
			touch(t, p, main)
		})
	}
}

func TestSlowClientsLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, callers int
		want          []int // how many connections may wait for each caller
	}{
		{size: 1, callers: 1, want: []int{0}},
		{size: 4, callers: 1, want: []int{2}},
		{size: 4, callers: 3, want: []int{2, 1, 0}},
		{size: 8, callers: 2, want: []int{4, 2}},
	} {
		p, main, _ := pools(t, postgres.PoolLimits{Main: int32(c.size), Branch: 1, Total: 20, Idle: time.Minute})
		var waiting []*postgres.Conn
		for i := range c.callers {
			n := 0
			for len(waiting) < c.size {
				conn := acquire(t, p, main)
				caller := fmt.Sprint("caller ", i)
				if !conn.Waits(caller) {
					conn.Release()
					break
				}
				if !conn.Waits(caller) {
					t.Error("a connection that waits does not")
				}
				waiting, n = append(waiting, conn), n+1
			}
			if n != c.want[i] {
				t.Errorf("%d connections: %d wait for caller %d of %d, want %d", c.size, n, i, c.callers, c.want[i])
			}
		}
		for _, conn := range waiting {
			conn.Release()
			conn.Release() // does nothing
		}
		conn := acquire(t, p, main)
		if got := conn.Waits("another"); got != (c.size > 1) {
			t.Errorf("after the release of the others a connection may wait: %v", got)
		}
		conn.Release()
	}
}

func TestSlowClientsOfAllDatabasesLeaveConnections(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, postgres.PoolLimits{Main: 10, Branch: 10, Total: 4, Idle: time.Minute})
	n := 0
	for i := range 4 {
		conn := acquire(t, p, main)
		defer conn.Release()
		if conn.Waits(fmt.Sprint(i)) {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d of 4 connections wait for slow clients, want 3", n)
	}
}

func TestMessagesOfTheServerAreBounded(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, postgres.PoolLimits{Main: 1, Branch: 1, Total: 2, Idle: time.Minute, Message: 1 << 20})
	c := acquire(t, p, main)
	var text string
	err := c.QueryRow(t.Context(), "select repeat('x', 2000000)").Scan(&text)
	var exceeded *pgproto3.ExceededMaxBodyLenErr
	if !errors.As(err, &exceeded) {
		t.Errorf("got %v and %d bytes, want an error", err, len(text))
	}
	c.Release()
	touch(t, p, main)
}
