package introspect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// entry is a database in the cache.
type entry struct {
	cache    *Cache
	database string
	ctx      context.Context // ended when the entry is dropped
	cancel   context.CancelFunc
	schema   atomic.Pointer[Schema]
	used     atomic.Int64 // Unix nanoseconds, exact to some milliseconds
	polled   atomic.Bool  // nobody watches it

	mu      sync.Mutex
	running bool    // the entry's goroutine is there
	current *flight // the load that is running
	pending *flight // the one to follow
	epoch   int     // counts resets
	watched bool
	stop    func() // of the watcher
	dropped bool
}

// flight is one load that any number of requests wait for.
type flight struct {
	done   chan struct{} // closed when schema and err are set
	urgent chan struct{} // closed when a request waits for it
	epoch  int           // the entry's when the load began
	full   bool          // read the catalog even if it seems unchanged
	schema *Schema
	err    error
}

// errOutdated says that the database was dropped or reset while it was read. It does not leave the package.
var errOutdated = errors.New("the database was replaced while its catalog was read")

func newEntry(c *Cache, database string) *entry {
	e := &entry{cache: c, database: database}
	e.ctx, e.cancel = context.WithCancel(c.ctx)
	e.touch()
	return e
}

// touch notes that the entry is used. Writing it now and then is enough, and spares the processors' caches.
func (e *entry) touch() {
	if now := time.Now().UnixNano(); now-e.used.Load() > int64(10*time.Millisecond) {
		e.used.Store(now)
	}
}

func (e *entry) lastUsed() time.Time { return time.Unix(0, e.used.Load()) }

func (f *flight) hurry() {
	select {
	case <-f.urgent:
	default:
		close(f.urgent)
	}
}

func (f *flight) end(s *Schema, err error) {
	f.schema, f.err = s, err
	close(f.done)
}

// join returns the load that is running, or else one that begins now. Callers hold the lock.
func (e *entry) join() *flight {
	if e.current != nil && e.current.epoch == e.epoch {
		return e.current
	}
	return e.request(true)
}

// request returns a load that begins after the call: the running one may have read already what has changed since.
// Callers hold the lock.
func (e *entry) request(full bool) *flight {
	if e.pending == nil {
		e.pending = &flight{done: make(chan struct{}), urgent: make(chan struct{})}
	}
	f := e.pending
	f.full = f.full || full
	switch {
	case e.dropped:
		e.pending = nil
		f.end(nil, errOutdated)
	case !e.running:
		e.running = true
		e.cache.work.Go(e.run)
	}
	return f
}

func (e *entry) invalidate() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.schema.Load() != nil || e.running {
		e.request(true)
	}
}

func (e *entry) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch++
	e.schema.Store(nil)
}

// The pauses between loads that no request waits for.
const (
	maxPause   = time.Second
	firstRetry = 100 * time.Millisecond
	maxRetry   = 30 * time.Second
)

// run does the loads that are due and ends when there are none. Between loads it rests as long as one took, so that a
// migration with many steps does not keep the database busy with reading its catalog.
func (e *entry) run() {
	var pause, retry time.Duration
	for e.take(pause) {
		f := e.current
		began := time.Now()
		s, err := e.load(f)
		pause = min(time.Since(began), maxPause)
		again := e.finish(f, s, err)
		if again {
			retry = min(max(2*retry, firstRetry), maxRetry)
			pause = retry
		} else {
			retry = 0
		}
	}
}

// take makes the pending load the current one, after a pause if no request waits for it. It reports false when there
// is nothing left to do.
func (e *entry) take(pause time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.pending; f != nil && pause > 0 {
		e.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-f.urgent:
		case <-timer.C:
		case <-e.ctx.Done():
		}
		timer.Stop()
		e.mu.Lock()
	}
	e.current, e.pending = e.pending, nil
	if f := e.current; f != nil && e.dropped {
		f.end(nil, errOutdated)
		e.current = nil
	}
	e.running = e.current != nil
	if e.running {
		e.current.epoch = e.epoch
	}
	return e.running
}

// load reads the catalog, or finds that it is as before.
func (e *entry) load(f *flight) (*Schema, error) {
	ctx, cancel := context.WithTimeout(e.ctx, e.cache.cfg.LoadTimeout)
	defer cancel()
	conn, release, err := e.cache.cfg.Acquire(ctx, e.database)
	if err != nil {
		return nil, fmt.Errorf("connecting to read the catalog: %w", err)
	}
	defer release()
	if s := e.schema.Load(); s != nil && !f.full {
		same, err := Unchanged(ctx, conn, s)
		if same || err != nil {
			return s, err
		}
	}
	return Load(ctx, conn, e.cache.cfg.Options)
}

// finish publishes what was loaded. It reports whether the load is to be repeated after a while: because it failed
// where there is an old schema to serve, or because not all of the catalog could be read.
func (e *entry) finish(f *flight, s *Schema, err error) (again bool) {
	e.mu.Lock()
	e.current = nil
	if e.dropped || f.epoch != e.epoch {
		f.end(nil, errOutdated)
		e.mu.Unlock()
		return false
	}
	if err != nil {
		again = e.schema.Load() != nil
		lost := !again && e.pending == nil
		f.end(nil, err)
		if again {
			e.request(true)
		}
		e.mu.Unlock()
		if again {
			e.cache.cfg.Log.Warn("the catalog cannot be read; the old schema stays in use", "database", e.database, "err", err)
		}
		if lost {
			e.cache.drop(func(o *entry) bool { return o == e })
		}
		return again
	}
	before := e.schema.Swap(s)
	if again = s.partial; again {
		e.request(true)
	}
	watch := !e.watched
	e.watched = true
	f.end(s, nil)
	e.mu.Unlock()
	if watch {
		e.watch()
	}
	if changed := e.cache.cfg.Changed; changed != nil && (before == nil || before.fingerprint != s.fingerprint) {
		changed(e.database)
	}
	e.cache.evict(e)
	return again
}

// watch starts the watcher. Without the lock, because a watcher may call invalidate before it returns.
func (e *entry) watch() {
	var stop func()
	if e.cache.cfg.Watch != nil {
		stop = e.cache.cfg.Watch(e.database, e.invalidate, e.reset)
	}
	e.polled.Store(stop == nil)
	e.mu.Lock()
	dropped := e.dropped
	e.stop = stop
	e.mu.Unlock()
	if dropped && stop != nil {
		stop()
	}
}
