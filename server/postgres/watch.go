package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

// maxWatches bounds the databases that are watched at a time; it is also at most a quarter of all connections.
const maxWatches = 32

// ErrWatchLimit is the error of Watch when no more databases can be watched. The caller looks now and then instead.
var ErrWatchLimit = errors.New("no more databases can be watched")

const (
	watchPatience = 5 * time.Second  // for opening and closing a session
	watchQuiet    = 30 * time.Second // a session that heard nothing for so long is looked after
	watchBackoff  = 100 * time.Millisecond
	watchMaxWait  = 5 * time.Second
	watchGoneWait = 30 * time.Second // between tries at a database that does not exist
)

// watch is a session that listens in a database, again and again.
type watch struct {
	pools             *Pools
	database, channel string
	notify            func(payload string)
	began             func(again bool)                                // listening began
	quiet             func(ctx context.Context, conn *pgx.Conn) error // nothing was heard for long; an error loses the session
	ctx               context.Context                                 // of the whole watch
	cancel            context.CancelFunc

	// Of the session that is open or being opened; guarded by Pools.mu.
	end   context.CancelFunc
	ended chan struct{}
}

// Watch listens on a channel of a database and calls notify with each payload. reset is called each time that listening
// begins, the first time included, since notifications may have been missed before. The two are called by one goroutine
// and must not block.
//
// The session counts as a connection, but never as a request: it gives way when the database is held and comes back
// afterwards. A session that is lost, or a database that is not there, is tried again until stop is called. stop does
// not wait: a call that is under way may still end after it. The error is ErrWatchLimit, ErrShared, or that the pools are closed.
func (p *Pools) Watch(database, channel string, notify func(payload string), reset func()) (stop func(), err error) {
	return p.watch(&watch{
		database: database, channel: channel, notify: notify, began: func(bool) { reset() },
		quiet: func(ctx context.Context, conn *pgx.Conn) error { return conn.Ping(ctx) },
	})
}

// watch starts what Watch returns.
func (p *Pools) watch(w *watch) (stop func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolsClosed
	}
	if p.direct == nil {
		return nil, ErrShared
	}
	n := 0
	for _, set := range p.watches {
		n += len(set)
	}
	if n >= min(maxWatches, p.limits.Total/4) {
		return nil, ErrWatchLimit
	}
	w.pools = p
	w.ctx, w.cancel = context.WithCancel(context.Background())
	if p.watches[w.database] == nil {
		p.watches[w.database] = map[*watch]struct{}{}
	}
	p.watches[w.database][w] = struct{}{}
	p.watching.Go(w.run)
	return w.cancel, nil
}

// interrupt ends the sessions that watch a database; each of the channels is closed when one has ended. Pools.mu is held.
func (p *Pools) interrupt(database string) (ended []<-chan struct{}) {
	for w := range p.watches[database] {
		if w.end != nil {
			w.end()
			ended = append(ended, w.ended)
		}
	}
	return ended
}

func (w *watch) run() {
	defer func() {
		w.cancel()
		w.pools.mu.Lock()
		defer w.pools.mu.Unlock()
		delete(w.pools.watches[w.database], w)
		if len(w.pools.watches[w.database]) == 0 {
			delete(w.pools.watches, w.database)
		}
	}()
	wait := watchBackoff
	again := false
	for {
		ctx, done := w.begin()
		if ctx == nil {
			return
		}
		listened, err := w.listen(ctx, again)
		again = again || listened
		interrupted := ctx.Err() != nil
		done()
		switch {
		case listened || interrupted:
			wait = watchBackoff
		case hasCode(err, "3D000"): // the database does not exist
			wait = watchGoneWait
		default:
			wait = min(2*wait, watchMaxWait)
		}
		if interrupted && w.held() {
			continue // as soon as the gate opens
		}
		select {
		case <-w.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// held reports whether the database is held.
func (w *watch) held() bool { return w.pools.Held(w.database) }

// begin waits until the database is not held and announces a session, so that a hold can end it from now on. The
// function it returns says that the session has ended. The context is nil when the watch is over.
func (w *watch) begin() (context.Context, func()) {
	p := w.pools
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if w.ctx.Err() != nil {
			return nil, nil
		}
		g := p.pools[w.database]
		if g == nil || g.open == nil {
			break
		}
		open := g.open
		p.mu.Unlock()
		select {
		case <-open:
		case <-w.ctx.Done():
		}
		p.mu.Lock()
	}
	ctx, end := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	w.end, w.ended = end, ended
	return ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		end()
		close(ended)
		w.end, w.ended = nil, nil
	}
}

// listen opens a session and listens until ctx ends or the session is lost. listened says that it came to listening.
func (w *watch) listen(ctx context.Context, again bool) (listened bool, err error) {
	cfg := w.pools.sessionConfig()
	cfg.Database = w.database
	if w.pools.limits.Direct != "" || !w.pools.limits.Pooler.Present {
		cfg.RuntimeParams["idle_session_timeout"] = "0"
	}
	// Nothing is to be cancelled in the server when a session is not wanted any more: it only listens.
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	opening, cancel := context.WithTimeout(context.WithValue(ctx, forSession{}, true), watchPatience)
	defer cancel()
	conn, err := pgx.ConnectConfig(opening, cfg)
	if err != nil {
		return false, err
	}
	defer func() {
		// Closed politely, so that the server's process is gone when this returns.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(closing)
		select {
		case <-conn.PgConn().CleanupDone():
		case <-closing.Done():
		}
	}()
	if _, err := conn.Exec(opening, "listen "+ident(w.channel)); err != nil {
		return false, err
	}
	w.began(again)
	for {
		waiting, cancel := context.WithTimeout(ctx, w.pools.quiet)
		n, err := conn.WaitForNotification(waiting)
		cancel()
		switch {
		case err == nil:
			w.notify(n.Payload)
		case ctx.Err() != nil:
			return true, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			asking, cancel := context.WithTimeout(ctx, watchPatience)
			err := w.quiet(asking, conn)
			cancel()
			if err != nil {
				return true, err
			}
		default:
			return true, err
		}
	}
}
