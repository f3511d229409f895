package introspect_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/pgtest"
)

// source is a server's databases for a cache, counting the connections asked for.
type source struct {
	url      string
	acquired atomic.Int64
	gate     atomic.Pointer[chan struct{}] // while set, acquiring waits for it
	fail     atomic.Pointer[error]
}

func (s *source) acquire(ctx context.Context, database string) (*pgx.Conn, func(), error) {
	s.acquired.Add(1)
	if gate := s.gate.Load(); gate != nil {
		select {
		case <-*gate:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	if err := s.fail.Load(); err != nil {
		return nil, nil, *err
	}
	conn, err := pgx.Connect(ctx, pgtest.WithDatabase(s.url, database))
	if err != nil {
		return nil, nil, err
	}
	return conn, func() { conn.Close(context.Background()) }, nil
}

// hold makes acquiring wait until the function it returns is called.
func (s *source) hold() (open func()) {
	gate := make(chan struct{})
	s.gate.Store(&gate)
	return func() {
		s.gate.Store(nil)
		close(gate)
	}
}

// newCache returns a cache over the databases of the test server. Without a change it runs, and polls once an hour.
func newCache(t testing.TB, change func(*introspect.CacheConfig)) (*introspect.Cache, *source) {
	t.Helper()
	src := &source{url: pgtest.ServerURL(t)}
	cfg := introspect.CacheConfig{Acquire: src.acquire, Options: options, PollInterval: time.Hour}
	if change != nil {
		change(&cfg)
	}
	c := introspect.NewCache(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("the cache does not come to an end")
		}
	})
	return c, src
}

// database makes a database with a table t of the named columns, and returns its name and a connection to it.
func database(t testing.TB, columns ...string) (string, *pgx.Conn) {
	t.Helper()
	u := pgtest.Database(t)
	conn := connect(t, u)
	execute(t, conn, "create table t ("+strings.Join(columns, " int, ")+" int)")
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(parsed.Path, "/"), conn
}

func get(t testing.TB, c *introspect.Cache, database string) *introspect.Schema {
	t.Helper()
	s, err := c.Get(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eventually waits until cond is true.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to pass that " + what)
		}
	}
}

func hasColumn(s *introspect.Schema, name string) bool {
	r := s.Relation("public", "t")
	return r != nil && r.Column(name) != nil
}

func TestFirstLoadIsShared(t *testing.T) {
	t.Parallel()
	c, src := newCache(t, nil)
	name, _ := database(t, "a")
	open := src.hold()
	impatient, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := c.Get(impatient, name)
		gaveUp <- err
	}()
	eventually(t, "the load begins", func() bool { return src.acquired.Load() == 1 })
	var wg sync.WaitGroup
	schemas := make([]*introspect.Schema, 50)
	for i := range schemas {
		wg.Go(func() { schemas[i], _ = c.Get(t.Context(), name) })
	}
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("the first request, which gave up, got %v", err)
	}
	open()
	wg.Wait()
	for _, s := range schemas {
		if s == nil || s != schemas[0] {
			t.Fatal("the requests did not get the one schema")
		}
	}
	if n := src.acquired.Load(); n != 1 {
		t.Errorf("the catalog was read %d times", n)
	}
}

func TestDatabasesAreNotMixed(t *testing.T) {
	t.Parallel()
	c, _ := newCache(t, nil)
	one, _ := database(t, "id", "first")
	two, _ := database(t, "id", "second", "third")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for j := range 50 {
				name, has, hasNot := one, "first", "second"
				if (i+j)%2 == 0 {
					name, has, hasNot = two, "second", "first"
				}
				if j%10 == 0 {
					c.Invalidate(name)
				}
				if s, err := c.Get(t.Context(), name); err != nil || !hasColumn(s, has) || hasColumn(s, hasNot) {
					t.Errorf("%s: got another database's schema, or %v", name, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestOldSchemaIsServedWhileRefreshing(t *testing.T) {
	t.Parallel()
	c, src := newCache(t, nil)
	name, conn := database(t, "a")
	old := get(t, c, name)
	execute(t, conn, "alter table t add column b int")
	open := src.hold()
	for range 100 {
		c.Invalidate(name)
	}
	eventually(t, "the refresh begins", func() bool { return src.acquired.Load() == 2 })
	for range 100 {
		c.Invalidate(name)
		if s := get(t, c, name); s != old {
			t.Fatal("Get did not return the schema that is there")
		}
	}
	open()
	eventually(t, "the new column is seen", func() bool { return hasColumn(get(t, c, name), "b") })
	eventually(t, "the second refresh is done", func() bool { return src.acquired.Load() == 3 })
	time.Sleep(50 * time.Millisecond)
	if n := src.acquired.Load(); n != 3 {
		t.Errorf("200 events caused %d loads, want the running and a queued one", n-1)
	}
}

func TestSchemaChangesUnderLoad(t *testing.T) {
	t.Parallel()
	c, src := newCache(t, nil)
	name, conn := database(t, "a")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var gets atomic.Int64
	for range 8 {
		wg.Go(func() {
			most := 0
			for {
				select {
				case <-stop:
					return
				default:
				}
				s, err := c.Get(t.Context(), name)
				if err != nil {
					t.Errorf("Get failed: %v", err)
					return
				}
				r := s.Relation("public", "t")
				if r == nil || len(r.Columns) < most {
					t.Errorf("got %+v after %d columns", r, most)
					return
				}
				most = len(r.Columns)
				if gets.Add(1)%64 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	const changes = 60
	for i := range changes {
		execute(t, conn, fmt.Sprintf("alter table t add column c%d int; create table u%d (a int); drop table u%d; create or replace view v%d as select a from t; drop view v%d", i, i, i, i, i))
		c.Invalidate(name)
	}
	eventually(t, "the last column is seen", func() bool { return hasColumn(get(t, c, name), fmt.Sprint("c", changes-1)) })
	close(stop)
	wg.Wait()
	t.Logf("%d changes caused %d loads during %d reads", changes, src.acquired.Load(), gets.Load())
	if n := src.acquired.Load(); n > changes+2 {
		t.Errorf("%d loads for %d changes", n, changes)
	}
}

func TestRefreshSeesWhatWasDoneBefore(t *testing.T) {
	t.Parallel()
	c, _ := newCache(t, nil)
	name, conn := database(t, "a")
	get(t, c, name)
	for i := range 10 {
		execute(t, conn, fmt.Sprintf("alter table t add column c%d int", i))
		c.Invalidate(name) // a load that may have begun is not enough
		if s, err := c.Refresh(t.Context(), name); err != nil || !hasColumn(s, fmt.Sprint("c", i)) {
			t.Fatalf("the column %d is not there, %v", i, err)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	c, src := newCache(t, nil)
	name, conn := database(t, "a")
	old := get(t, c, name)
	execute(t, conn, "alter table t add column b int")
	found, err := c.RefreshUnlessFresh(t.Context(), name, old)
	if err != nil || !hasColumn(found, "b") {
		t.Fatalf("the new column is not found, %v", err)
	}
	before := src.acquired.Load()
	if s, err := c.RefreshUnlessFresh(t.Context(), name, old); err != nil || s != found || src.acquired.Load() != before {
		t.Errorf("a request that still has the old schema reads again (%v)", err)
	}
	start := time.Now()
	var wg sync.WaitGroup
	var asked atomic.Int64
	for range 16 {
		wg.Go(func() {
			for time.Since(start) < time.Second {
				if s, err := c.RefreshUnlessFresh(t.Context(), name, found); err != nil || s != found {
					t.Errorf("a flood of unknown names gets another schema, %v", err)
				}
				asked.Add(1)
			}
		})
	}
	wg.Wait()
	if n := src.acquired.Load() - before; n < 1 || n > asked.Load()/2 {
		t.Errorf("%d requests caused %d looks into the catalog: they do not share them", asked.Load(), n)
	}
	for i := range 5 {
		execute(t, conn, fmt.Sprintf("alter table t add column d%d int", i))
		if found, err = c.RefreshUnlessFresh(t.Context(), name, found); err != nil || !hasColumn(found, fmt.Sprint("d", i)) {
			t.Fatalf("the column %d, made before the call, is not there, %v", i, err)
		}
	}
}

func TestForgetAndReset(t *testing.T) {
	t.Parallel()
	stopped := make(chan string, 10)
	c, src := newCache(t, func(cfg *introspect.CacheConfig) {
		cfg.Watch = func(name string, invalidate, reset func()) func() {
			invalidate() // as watchers do when they begin to listen
			return func() { stopped <- name }
		}
	})
	name, conn := database(t, "a")
	get(t, c, name)
	execute(t, conn, "alter table t rename column a to z")
	c.Reset(name)
	if s := get(t, c, name); !hasColumn(s, "z") {
		t.Error("after a reset the old schema is served")
	}
	execute(t, conn, "alter table t rename column z to y")
	c.Forget(name)
	if got := <-stopped; got != name {
		t.Errorf("the watcher of %s was stopped", got)
	}
	if s := get(t, c, name); !hasColumn(s, "y") {
		t.Error("after it was forgotten the old schema is served")
	}

	// A load that began before the reset must not bring the old schema back.
	open := src.hold()
	n := src.acquired.Load()
	c.Invalidate(name)
	eventually(t, "the refresh begins", func() bool { return src.acquired.Load() > n })
	c.Reset(name)
	got := make(chan *introspect.Schema)
	go func() { s, _ := c.Get(t.Context(), name); got <- s }()
	eventually(t, "the request waits", func() bool { return src.acquired.Load() > n })
	execute(t, conn, "alter table t rename column y to x")
	open()
	if s := <-got; s == nil || !hasColumn(s, "x") {
		t.Error("the schema from before the reset came back")
	}
	c.Forget("no such database")
	c.Reset("no such database")
	c.Invalidate("no such database")
}

func TestWatcherIsToldAndStopped(t *testing.T) {
	t.Parallel()
	type watcher struct{ invalidate, reset func() }
	watchers := make(chan watcher, 10)
	var stops atomic.Int64
	c, _ := newCache(t, func(cfg *introspect.CacheConfig) {
		cfg.IdleAfter = 200 * time.Millisecond
		cfg.Watch = func(_ string, invalidate, reset func()) func() {
			watchers <- watcher{invalidate, reset}
			return func() {
				invalidate() // stopping waits for the watcher, which may be calling
				stops.Add(1)
			}
		}
	})
	name, conn := database(t, "a")
	get(t, c, name)
	w := <-watchers
	execute(t, conn, "alter table t rename column a to b")
	w.invalidate()
	eventually(t, "the change is seen", func() bool { return hasColumn(get(t, c, name), "b") })
	execute(t, conn, "alter table t rename column b to c")
	w.reset()
	if !hasColumn(get(t, c, name), "c") {
		t.Error("after the watcher's reset the old schema is served")
	}
	eventually(t, "the watcher of an idle database is stopped", func() bool { return stops.Load() == 1 })
	get(t, c, name)
	<-watchers
	if stops.Load() != 1 {
		t.Errorf("%d stops", stops.Load())
	}
}

func TestPolling(t *testing.T) {
	t.Parallel()
	c, _ := newCache(t, func(cfg *introspect.CacheConfig) {
		cfg.PollInterval = 20 * time.Millisecond
		cfg.Watch = func(string, func(), func()) func() { return nil }
	})
	name, conn := database(t, "a")
	first := get(t, c, name)
	time.Sleep(100 * time.Millisecond)
	if get(t, c, name) != first {
		t.Error("an unchanged catalog is loaded again")
	}
	execute(t, conn, "alter table t add column b int")
	eventually(t, "the change is seen", func() bool { return hasColumn(get(t, c, name), "b") })
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for what, limit := range map[string]func(*introspect.CacheConfig){
		"databases": func(cfg *introspect.CacheConfig) { cfg.MaxDatabases = 2 },
		"objects":   func(cfg *introspect.CacheConfig) { cfg.MaxObjects = 11 },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, src := newCache(t, limit)
			one, _ := database(t, "a")
			two, _ := database(t, "b")
			three, _ := database(t, "c")
			use := func(name string) (loaded bool) {
				time.Sleep(20 * time.Millisecond)
				n := src.acquired.Load()
				get(t, c, name)
				return src.acquired.Load() > n
			}
			use(one)
			use(two)
			use(one)
			use(three)
			time.Sleep(20 * time.Millisecond)
			if use(one) || use(three) || !use(two) {
				t.Error("the least recently used database is not the one that was dropped")
			}
		})
	}
}

func TestFailedRefreshKeepsTheOldSchema(t *testing.T) {
	t.Parallel()
	c, src := newCache(t, nil)
	name, conn := database(t, "a")
	old := get(t, c, name)
	broken := errors.New("no way to the database")
	src.fail.Store(&broken)
	execute(t, conn, "alter table t add column b int")
	c.Invalidate(name)
	eventually(t, "the refresh is repeated", func() bool { return src.acquired.Load() >= 4 })
	if get(t, c, name) != old {
		t.Error("the old schema is lost")
	}
	if _, err := c.Refresh(t.Context(), name); !errors.Is(err, broken) {
		t.Errorf("a request that wants the newest gets %v", err)
	}
	src.fail.Store(nil)
	eventually(t, "the change is seen after all", func() bool { return hasColumn(get(t, c, name), "b") })
}

// TestIncompleteSchemaIsCompleted loads while a table is being changed. What could not be read then is read later, without
// any event.
func TestIncompleteSchemaIsCompleted(t *testing.T) {
	t.Parallel()
	c, _ := newCache(t, nil)
	name, conn := database(t, "a")
	execute(t, conn, "alter table t alter column a set default 5; create view v as select count(*) from t")
	execute(t, conn, "begin; lock table t in access exclusive mode")
	complete := func() bool {
		s := get(t, c, name)
		return relation(t, s, "t").Column("a").Default == "5" && !relation(t, s, "v").Insertable
	}
	if complete() {
		t.Error("all could be read in spite of the lock, so that this test shows nothing")
	}
	execute(t, conn, "commit")
	eventually(t, "the schema is complete", complete)
}

func TestMissingDatabase(t *testing.T) {
	t.Parallel()
	c, src := newCache(t, nil)
	for range 2 {
		n := src.acquired.Load()
		if s, err := c.Get(t.Context(), "there is no such database"); err == nil || s != nil {
			t.Errorf("got %v", s)
		}
		if src.acquired.Load() != n+1 {
			t.Error("a failed load is remembered, or repeated without being asked for")
		}
	}
}

func TestClosedCache(t *testing.T) {
	t.Parallel()
	src := &source{url: pgtest.ServerURL(t)}
	c := introspect.NewCache(introspect.CacheConfig{Acquire: src.acquire, Options: options})
	name, _ := database(t, "a")
	src.hold()
	failed := make(chan error)
	go func() { _, err := c.Get(t.Context(), name); failed <- err }()
	eventually(t, "the load begins", func() bool { return src.acquired.Load() == 1 })
	c.Close()
	if err := <-failed; err == nil {
		t.Error("a waiting request gets a schema from a closed cache")
	}
	if _, err := c.Get(t.Context(), name); err == nil {
		t.Error("a closed cache loads")
	}
	c.Close()
}

func BenchmarkGet(b *testing.B) {
	c, _ := newCache(b, nil)
	name, _ := database(b, "a")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			get(b, c, name)
		}
	})
}
