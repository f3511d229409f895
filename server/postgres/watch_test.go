package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/postgres"
)

// watched is a database that is watched; told gets what was notified, resets a value each time that listening begins.
type watched struct {
	told   chan string
	resets chan struct{}
	stop   func()
}

func watchDatabase(t *testing.T, p *postgres.Pools, database string) *watched {
	t.Helper()
	w := &watched{told: make(chan string, 100), resets: make(chan struct{}, 100)}
	stop, err := p.Watch(database, postgres.DDLChannel, func(payload string) { w.told <- payload }, func() { w.resets <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	w.stop = stop
	return w
}

// wait waits for something to come.
func wait[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(time.Minute):
		t.Fatalf("it does not come about that %s", what)
	}
	return v
}

func TestWatchTells(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := watchDatabase(t, f.Pools, f.Main())
	wait(t, w.resets, "listening begins")
	execute(t, f.url, "notify bough_ddl, 'one'", "notify other, 'no'", "notify bough_ddl, 'two'")
	for _, want := range []string{"one", "two"} {
		if got := wait(t, w.told, "a notification comes"); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	w.stop()
	eventually(t, "the session ends", func() bool { return sessionsOf(t, f.application("")[:14]) == 0 })
}

func TestWatchComesBackAfterALoss(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := watchDatabase(t, f.Pools, f.Main())
	for range 3 {
		wait(t, w.resets, "listening begins")
		execute(t, f.in("postgres"), "select pg_terminate_backend(pid) from pg_stat_activity where datname = '"+f.Main()+"'")
	}
	wait(t, w.resets, "listening begins again")
	execute(t, f.url, "notify bough_ddl, 'here'")
	if got := wait(t, w.told, "a notification comes"); got != "here" {
		t.Errorf("told %q", got)
	}
}

// The session never stands in the way of a hold, and is back after it.
func TestWatchGivesWayToHolds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	w := watchDatabase(t, f.Pools, f.Main())
	wait(t, w.resets, "listening begins")
	application := f.application("")[:14]
	for i := range 20 {
		release, err := f.Pools.Hold(t.Context(), f.Main(), 10*time.Second, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		// The server's process may take a moment to vanish.
		eventually(t, "the session is gone", func() bool { return sessionsOf(t, application) == 0 })
		select {
		case <-w.resets:
			t.Error("it listens in a held database")
		default:
		}
		execute(t, f.url, fmt.Sprintf("notify bough_ddl, 'missed %d'", i))
		release()
		wait(t, w.resets, "it listens again")
	}
	execute(t, f.url, "notify bough_ddl, 'here'")
	if got := wait(t, w.told, "a notification comes"); got != "here" {
		t.Errorf("told %q", got)
	}
}

// A main that is watched, by this process and another, is cloned as a template and without a delay.
func TestWatchedMainIsCloned(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *postgres.ClusterConfig) { c.Sessions = postgres.Refuse })
	other := open(t, f.config)
	f.Announce = func(_ context.Context, database string, limit time.Duration) error {
		if limit > 0 {
			other.Pools.HoldInBackground(database, limit/100)
		}
		return nil
	}
	mine, theirs := watchDatabase(t, f.Pools, f.Main()), watchDatabase(t, other.Pools, f.Main())
	for i := range 5 {
		wait(t, mine.resets, "this process listens")
		wait(t, theirs.resets, "the other process listens")
		_, res := f.clone(t, fmt.Sprint(i))
		if res.Strategy != postgres.StrategyWALLog {
			t.Errorf("cloned by %s", res.Strategy)
		}
	}
}

// A branch that is watched can be swapped and dropped. Watching a database that is gone does no harm.
func TestWatchedBranchIsSwappedAndDropped(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *postgres.ClusterConfig) { c.Drain = time.Minute })
	current, _ := f.clone(t, "current")
	fresh, _ := f.clone(t, "fresh")
	w := watchDatabase(t, f.Pools, current)
	wait(t, w.resets, "listening begins")
	execute(t, f.in(fresh), "create table fresh ()")
	began := time.Now()
	if err := f.Swap(t.Context(), current, fresh, f.target(t, "old"), "op"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("swapping took %s", took)
	}
	wait(t, w.resets, "it listens after the swap")
	execute(t, f.in(current), "notify bough_ddl, 'fresh'")
	if got := wait(t, w.told, "a notification comes"); got != "fresh" {
		t.Errorf("told %q", got)
	}
	if err := f.Drop(t.Context(), current, ""); err != nil {
		t.Fatal(err)
	}
	if f.exists(t, current) {
		t.Error("the branch is there")
	}
	touch(t, f.Pools, f.Main())
}

func TestWatchesAreBounded(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, postgres.PoolLimits{Main: 2, Branch: 2, Total: 8, Idle: time.Minute})
	first := watchDatabase(t, p, main)
	watchDatabase(t, p, branches(t, 1)[0])
	nothing := func(string) {}
	if _, err := p.Watch(main, "c", nothing, func() {}); !errors.Is(err, postgres.ErrWatchLimit) {
		t.Errorf("a third watch: %v", err)
	}
	first.stop()
	eventually(t, "there is room for another", func() bool {
		stop, err := p.Watch(main, "c", nothing, func() {})
		if err == nil {
			stop()
		}
		return err == nil
	})
	p.Close()
	if _, err := p.Watch(main, "c", nothing, func() {}); err == nil || errors.Is(err, postgres.ErrWatchLimit) {
		t.Errorf("a watch of closed pools: %v", err)
	}
}

// The connections for requests are still enough when all watches are taken and all connections in use.
func TestWatchesLeaveRoomForRequests(t *testing.T) {
	t.Parallel()
	p, main, _ := pools(t, postgres.PoolLimits{Main: 8, Branch: 2, Total: 8, Idle: time.Minute})
	for range 2 {
		w := watchDatabase(t, p, main)
		wait(t, w.resets, "listening begins")
	}
	var held []*postgres.Conn
	for range 6 {
		held = append(held, acquire(t, p, main))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if c, err := p.Acquire(ctx, main); err == nil {
		c.Release()
		t.Error("the limit of connections does not count those that watch")
	}
	for _, c := range held {
		c.Release()
	}
}

// The text form of values is the same whatever the database and the role say.
func TestTextFormOfValues(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for name, value := range map[string]string{
		"datestyle": "German", "intervalstyle": "iso_8601", "bytea_output": "escape", "extra_float_digits": "-5", "client_encoding": "latin1",
	} {
		execute(t, f.url, "alter database "+quote(f.Main())+" set "+name+" = '"+value+"'")
	}
	conn := acquire(t, f.Pools, f.Main())
	defer conn.Release()
	var got string
	err := conn.QueryRow(t.Context(), `select concat_ws('|', date '2024-02-03', interval '1 day 2 hours', '\x00ff'::bytea, 0.1::float8 + 0.2, current_setting('client_encoding'))`,
		pgx.QueryExecModeSimpleProtocol).Scan(&got)
	if want := `2024-02-03|1 day 02:00:00|\x00ff|0.30000000000000004|UTF8`; err != nil || got != want {
		t.Errorf("%s, want %s (%v)", got, want, err)
	}
}

func TestSchemaIsWatched(t *testing.T) {
	t.Parallel()
	f, _ := setUp(t)
	branch, _ := f.clone(t, "branch")
	fresh, _ := f.clone(t, "fresh")
	f.Pools.SetQuiet(50 * time.Millisecond) // nothing is watched yet
	changed, replaced := make(chan struct{}, 1000), make(chan struct{}, 1000)
	watch := func(database string) (stop func(), err error) {
		return f.WatchSchema(t.Context(), database, func() { changed <- struct{}{} }, func() { replaced <- struct{}{} })
	}
	if _, err := watch(branch); err != nil {
		t.Fatal(err)
	}
	wait(t, changed, "watching begins")
	time.Sleep(200 * time.Millisecond) // quiet for long, and nothing to tell
	if len(changed) > 0 {
		t.Error("silence is told as a change")
	}
	execute(t, f.in(branch), "create table t ()")
	wait(t, changed, "a change is told")
	if err := f.Swap(t.Context(), branch, fresh, f.target(t, "old"), "op"); err != nil {
		t.Fatal(err)
	}
	wait(t, replaced, "the swap is told")
	// Without the trigger changes are not told, which is told.
	execute(t, f.in(branch), "drop schema auth cascade")
	for range 3 {
		wait(t, changed, "the loss is noticed")
	}
	if _, err := watch(branch); !errors.Is(err, postgres.ErrUnnotified) {
		t.Errorf("watching what is not told: %v", err)
	}
	// Main is never another database.
	if _, err := watch(f.Main()); err != nil {
		t.Fatal(err)
	}
	release, err := f.Pools.Hold(t.Context(), f.Main(), time.Second, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for len(replaced) > 0 {
		<-replaced
	}
	release()
	time.Sleep(100 * time.Millisecond)
	if len(replaced) > 0 {
		t.Error("main was replaced")
	}
}
