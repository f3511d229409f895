package introspect

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// CacheConfig configures a Cache. Only Acquire is necessary.
type CacheConfig struct {
	// Acquire returns a connection to a database and what gives it back.
	Acquire func(ctx context.Context, database string) (conn *pgx.Conn, release func(), err error)
	Options Options
	Log     *slog.Logger

	// Watch is called after a database was first loaded. It calls invalidate whenever the catalog may have changed, also
	// each time it begins to listen, because of what happened before; and reset when another database has taken the
	// place under that name. stop ends it; it may wait for invalidate and reset to return. The cache calls stop once,
	// when it drops the database. Where Watch is nil or returns a nil stop, the cache looks for changes itself, every
	// PollInterval while the database is used.
	Watch func(database string, invalidate, reset func()) (stop func())

	// Changed is called after a database was loaded for the first time, and each time that another state of its catalog was
	// loaded. It must not block.
	Changed func(database string)

	PollInterval time.Duration // default 5 s; needs Run
	IdleAfter    time.Duration // a database that nobody asked for so long is dropped; default 15 min; needs Run
	LoadTimeout  time.Duration // bounds one load; default 30 s
	MaxDatabases int           // how many databases are kept; default 100
	// MaxObjects bounds the memory: how many relations, columns, relationships, functions and types are kept in all
	// databases together, each of about half a kilobyte. Default 500,000. The database used last is kept in any case.
	MaxObjects int
}

// Cache keeps the schemas of databases. Get never waits where a schema is known already: it may be an old one for the
// moment in which a new one is loaded.
//
// At most one load of a database runs at a time, and one more is due after it, however many events there were. Loads
// are not bound to the request that wanted them.
type Cache struct {
	cfg    CacheConfig
	ctx    context.Context // of loads, ended by Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	entries sync.Map // of *entry by the database's name; changed under mu only

	mu     sync.Mutex
	closed bool
}

var errCacheClosed = errors.New("the schema cache is closed")

// NewCache returns an empty cache. Close, or the end of Run, stops what it does in the background.
func NewCache(cfg CacheConfig) *Cache {
	defaultTo(&cfg.Log, slog.New(slog.DiscardHandler))
	defaultTo(&cfg.PollInterval, 5*time.Second)
	defaultTo(&cfg.IdleAfter, 15*time.Minute)
	defaultTo(&cfg.LoadTimeout, 30*time.Second)
	defaultTo(&cfg.MaxDatabases, 100)
	defaultTo(&cfg.MaxObjects, 500_000)
	c := &Cache{cfg: cfg}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func defaultTo[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Run looks for changes of databases that are not watched and drops idle ones, until ctx ends. Then it closes the cache.
func (c *Cache) Run(ctx context.Context) error {
	defer c.Close()
	poll := time.NewTicker(c.cfg.PollInterval)
	defer poll.Stop()
	idle := time.NewTicker(c.cfg.IdleAfter / 4)
	defer idle.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-poll.C:
			c.poll(last)
			last = now
		case now := <-idle.C:
			c.drop(func(e *entry) bool { return e.lastUsed().Before(now.Add(-c.cfg.IdleAfter)) })
		}
	}
}

// Close ends all background work and waits for it. Requests that wait for a schema get an error.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.drop(func(*entry) bool { return true })
	c.work.Wait()
}

// Get returns the schema of a database, loading it if it is not known yet.
func (c *Cache) Get(ctx context.Context, database string) (*Schema, error) {
	if v, ok := c.entries.Load(database); ok {
		e := v.(*entry)
		if s := e.schema.Load(); s != nil {
			e.touch()
			return s, nil
		}
	}
	return c.wait(ctx, database, func(e *entry) (*Schema, *flight) {
		if s := e.schema.Load(); s != nil {
			return s, nil
		}
		return nil, e.join()
	})
}

// Refresh loads the schema anew, beginning after the call, and waits for it.
func (c *Cache) Refresh(ctx context.Context, database string) (*Schema, error) {
	return c.wait(ctx, database, func(e *entry) (*Schema, *flight) { return nil, e.request(true) })
}

// RefreshUnlessFresh is for a request that did not find a name in the schema seen: it returns the schema as it is now.
// If there is a newer one than seen, that is returned at once. Otherwise the catalog is looked at, beginning after the
// call, and read only if it has changed. One look at a time serves all requests that wait for it, and the next one begins
// when as much time has passed as the last one took: a flood of unknown names keeps half of one connection busy.
func (c *Cache) RefreshUnlessFresh(ctx context.Context, database string, seen *Schema) (*Schema, error) {
	return c.await(ctx, database, false, func(e *entry) (*Schema, *flight) {
		s := e.schema.Load()
		switch {
		case s == nil:
			return nil, e.join()
		case s != seen:
			return s, nil
		}
		return nil, e.request(false)
	})
}

// Invalidate says that a database's catalog may have changed. A new load begins soon; until it is done Get returns the
// old schema. Of a database that is not in the cache nothing needs to be done.
func (c *Cache) Invalidate(database string) {
	if v, ok := c.entries.Load(database); ok {
		v.(*entry).invalidate()
	}
}

// Reset says that another database has taken the place under that name: the schema is dropped at once, and the next
// Get waits for the new one.
func (c *Cache) Reset(database string) {
	if v, ok := c.entries.Load(database); ok {
		v.(*entry).reset()
	}
}

// Forget drops a database that is no more. Its watcher is stopped in the background.
func (c *Cache) Forget(database string) {
	c.drop(func(e *entry) bool { return e.database == database })
}

// wait calls ask, under the entry's lock, for a schema or a flight, and waits for the flight. It begins anew when the
// entry was dropped or reset in the meantime.
func (c *Cache) wait(ctx context.Context, database string, ask func(*entry) (*Schema, *flight)) (*Schema, error) {
	return c.await(ctx, database, true, ask)
}

// await is wait; a flight that is not urgent rests after the one before.
func (c *Cache) await(ctx context.Context, database string, urgent bool, ask func(*entry) (*Schema, *flight)) (*Schema, error) {
	for {
		e, err := c.entry(database)
		if err != nil {
			return nil, err
		}
		e.touch()
		e.mu.Lock()
		if e.dropped {
			e.mu.Unlock()
			continue
		}
		s, f := ask(e)
		if f != nil && urgent {
			f.hurry()
		}
		e.mu.Unlock()
		if f == nil {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.done:
		}
		if errors.Is(f.err, errOutdated) {
			continue
		}
		return f.schema, f.err
	}
}

// entry returns the database's entry, making one if need be.
func (c *Cache) entry(database string) (*entry, error) {
	if v, ok := c.entries.Load(database); ok {
		return v.(*entry), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errCacheClosed
	}
	e := newEntry(c, database)
	v, loaded := c.entries.LoadOrStore(database, e)
	if loaded {
		e.cancel()
	}
	return v.(*entry), nil
}

// poll looks for changes of the databases that nobody watches and that were used since.
func (c *Cache) poll(since time.Time) {
	c.each(func(e *entry) {
		if !e.polled.Load() || e.lastUsed().Before(since) {
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.schema.Load() != nil {
			e.request(false)
		}
	})
}

// drop removes the entries for which cond is true.
func (c *Cache) drop(cond func(*entry) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each(func(e *entry) {
		if cond(e) {
			c.dropLocked(e)
		}
	})
}

func (c *Cache) dropLocked(e *entry) {
	c.entries.CompareAndDelete(e.database, e)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dropped {
		return
	}
	e.dropped = true
	e.cancel()
	if e.stop != nil {
		c.work.Go(e.stop)
	}
}

func (c *Cache) each(f func(*entry)) {
	c.entries.Range(func(_, v any) bool {
		f(v.(*entry))
		return true
	})
}

// evict drops the databases that were not used for the longest time, until the limits are kept. It spares kept.
func (c *Cache) evict(kept *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var oldest *entry
		databases, objects := 0, 0
		c.each(func(e *entry) {
			databases++
			if s := e.schema.Load(); s != nil {
				objects += s.weight
			}
			if e != kept && (oldest == nil || e.used.Load() < oldest.used.Load()) {
				oldest = e
			}
		})
		if oldest == nil || databases <= c.cfg.MaxDatabases && objects <= c.cfg.MaxObjects {
			return
		}
		c.dropLocked(oldest)
	}
}
