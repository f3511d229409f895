package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/fault"
)

// PoolLimits bound the connections to main and the branches.
type PoolLimits struct {
	Main   int32         // connections to main
	Branch int32         // connections to one branch
	Total  int           // connections to all of them together
	Idle   time.Duration // a pool that nobody used for so long is closed
	// Wait is how long a request may wait for a connection; 0 for as long as its context lasts. After that the error is
	// ErrBusy.
	Wait time.Duration
	// Message is the most bytes of a message of the server, such as a row; 0 for PostgreSQL's own limit.
	Message int
	Pooler  Pooler // what the connections go through
	Direct  string // connection string for sessions that listen, where it is not that of the pools
}

// ErrBusy is the error of a request that waited too long for a connection.
var ErrBusy = fault.New(fault.Unavailable, "unavailable", "all connections to the database are in use").Retry(time.Second)

// Pools are the connection pools of main and its branches. A pool is opened on first use and closed when idle; at the
// limit of connections the least recently used idle pool goes first.
//
// A database can be held: requests for a connection then wait, without an error, until it is released. This is how a
// live database comes to have no sessions for the moment in which it is copied.
type Pools struct {
	config *pgxpool.Config // of main; branches differ in the database name
	direct *pgx.ConnConfig // of sessions that listen; nil where a pooler shares all there are
	main   string
	limits PoolLimits
	tokens chan struct{} // one for each open connection

	closing chan struct{} // closed by Close

	// Missing is called with the name of a database that a request did not find; nil calls nobody. It must not block.
	Missing func(database string)

	mu      sync.Mutex
	pools   map[string]*gatedPool
	watches map[string]map[*watch]struct{} // by database
	slow    slowness                       // of all databases
	closed  bool

	watching sync.WaitGroup
	quiet    time.Duration // watchQuiet; tests are less patient
}

// gatedPool is a pool with its gate. Pools.mu guards all fields but pool's own state.
type gatedPool struct {
	pool     *pgxpool.Pool
	inUse    int
	lastUsed time.Time
	holds    int           // how many holds are in force
	open     chan struct{} // closed when the last hold ends; nil without a hold
	drained  chan struct{} // closed when inUse reaches 0 during a hold
	waited   int64         // requests that met a hold
	slow     slowness
}

// slowness counts the connections whose users wait for slow clients.
type slowness struct {
	total  int
	caller map[string]int
}

// fits reports whether one more such connection of a caller leaves enough of a number of connections to others: a
// quarter to those who do not wait for clients, half to other callers.
func (s *slowness) fits(caller string, connections int) bool {
	return s.total < connections*3/4 && s.caller[caller] < connections/2
}

func (s *slowness) add(caller string, n int) {
	if s.caller == nil {
		s.caller = map[string]int{}
	}
	s.total += n
	if s.caller[caller] += n; s.caller[caller] == 0 {
		delete(s.caller, caller)
	}
}

// Conn is a connection of a pool.
type Conn struct {
	*pgxpool.Conn
	pools *Pools
	gate  *gatedPool
	size  int    // how many connections the pool may have
	slow  string // the caller that the connection waits for
	waits bool
}

// Release gives the connection back. Further calls do nothing.
func (c *Conn) Release() {
	c.pools.mu.Lock()
	gate := c.gate
	c.gate = nil
	if gate != nil && c.waits {
		gate.slow.add(c.slow, -1)
		c.pools.slow.add(c.slow, -1)
	}
	c.pools.mu.Unlock()
	if gate != nil {
		c.Conn.Release()
		c.pools.leave(gate)
	}
}

// Waits says that the connection is kept until a caller has taken an answer, and the caller is slow. It reports false
// where so many connections wait already, for this caller or for all, that others would go short: the caller must then
// give the connection back. It may be called by any goroutine, also after the release.
func (c *Conn) Waits(caller string) bool {
	c.pools.mu.Lock()
	defer c.pools.mu.Unlock()
	if c.waits || c.gate == nil {
		return true
	}
	if !c.gate.slow.fits(caller, c.size) || !c.pools.slow.fits(caller, c.pools.limits.Total) {
		return false
	}
	c.slow, c.waits = caller, true
	c.gate.slow.add(caller, 1)
	c.pools.slow.add(caller, 1)
	return true
}

// PoolStats are the numbers of one pool.
type PoolStats struct {
	Total, Idle, Acquired, Max int32
	Waited                     int64
}

var errPoolsClosed = errors.New("the connection pools are closed")

// NewPools returns pools for the server and database of connString. application is the sessions' application_name.
func NewPools(connString, application string, limits PoolLimits) (*Pools, error) {
	cfg, err := pgxpool.ParseConfig(connString)
	if err != nil {
		return nil, err
	}
	p := &Pools{
		config: cfg, main: cfg.ConnConfig.Database, limits: limits,
		tokens: make(chan struct{}, limits.Total), pools: map[string]*gatedPool{}, closing: make(chan struct{}),
		watches: map[string]map[*watch]struct{}{}, quiet: watchQuiet,
	}
	cfg.MaxConnIdleTime = time.Minute
	if limits.Message > 0 {
		cfg.ConnConfig.MaxProtocolMessageBodyLen = limits.Message
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = application
	maps.Copy(cfg.ConnConfig.RuntimeParams, textForm)
	limits.Pooler.pooled(cfg.ConnConfig)
	// The default handler closes the connection of a request that was given up, and its prepared statements with it.
	cfg.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, CancelRequestDelay: 10 * time.Millisecond, DeadlineDelay: 5 * time.Second}
	}
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		// Requests to cancel a query are dialled with this function too. They end at once, and one that waited until
		// another connection is closed would be of no use.
		if ctx.Value(forSession{}) == nil {
			return dial(ctx, network, addr)
		}
		if err := p.takeToken(ctx); err != nil {
			return nil, err
		}
		c, err := dial(ctx, network, addr)
		if err != nil {
			<-p.tokens
			return nil, err
		}
		return &tokenConn{Conn: c, release: sync.OnceFunc(func() { <-p.tokens })}, nil
	}
	switch {
	case limits.Direct != "":
		if p.direct, err = pgx.ParseConfig(limits.Direct); err != nil {
			return nil, err
		}
		p.direct.RuntimeParams["application_name"] = application
		p.direct.DialFunc = cfg.ConnConfig.DialFunc
	case !limits.Pooler.Shared():
		p.direct = cfg.ConnConfig
	}
	return p, nil
}

// textForm are the settings on which the text form of values depends; whoever reads it counts on these, whatever is set
// for the role and the database.
var textForm = map[string]string{
	"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1",
}

// ClearSession removes what statements may have left behind with a session: the role, settings (which return to those of
// the connection), cursors, subscriptions, advisory locks, temporary objects, the last values of sequences. Prepared
// statements stay, since those of the protocol are to be used again; the names of those that were made by SQL are the only
// values of its rows that are not empty.
const ClearSession = `reset session authorization; reset role; reset all; close all; unlisten *; select pg_catalog.pg_advisory_unlock_all(); ` +
	`discard temp; discard sequences; select name from pg_catalog.pg_prepared_statements where from_sql`

// Pooler is what the connections go through.
func (p *Pools) Pooler() Pooler { return p.limits.Pooler }

// TextForm are the settings that requests have to make themselves, because a pooler keeps sessions from having them.
func (p *Pools) TextForm() map[string]string {
	if !p.limits.Pooler.Present {
		return nil
	}
	form := maps.Clone(textForm)
	delete(form, "client_encoding") // which poolers look after
	return form
}

// forSession is the key of a value in the context of an acquire, which the pool hands on to where it dials.
type forSession struct{}

// tokenConn counts against the limit of connections as long as its socket is open.
type tokenConn struct {
	net.Conn
	release func()
}

func (c *tokenConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// takeToken waits until one more connection may be opened, closing idle ones where that helps.
func (p *Pools) takeToken(ctx context.Context) error {
	var late <-chan time.Time
	if p.limits.Wait > 0 {
		late = time.After(p.limits.Wait)
	}
	for {
		select {
		case p.tokens <- struct{}{}:
			return nil
		default:
		}
		p.evict(ctx)
		select {
		case p.tokens <- struct{}{}:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("all %d connections are in use: %w", cap(p.tokens), ctx.Err())
		case <-late:
			return ErrBusy
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// evict closes the idle connections of the least recently used pool that nobody is using. If all pools are in use, it
// closes one idle connection of one of them. The pools themselves stay open: closing one waits for the connections that
// are being opened, and the caller may be opening one of those.
func (p *Pools) evict(ctx context.Context) {
	p.mu.Lock()
	var oldest *gatedPool
	for _, g := range p.pools {
		if g.pool != nil && g.pool.Stat().IdleConns() > 0 && (oldest == nil || g.evictBefore(oldest)) {
			oldest = g
		}
	}
	var victim *pgxpool.Pool
	one := false
	if oldest != nil {
		victim, one = oldest.pool, oldest.inUse > 0
	}
	p.mu.Unlock()
	if victim == nil {
		return
	}
	for i, c := range victim.AcquireAllIdle(ctx) {
		if i == 0 || !one {
			_ = c.Conn().Close(ctx)
		}
		c.Release()
	}
}

// evictBefore reports whether g's idle connections are to go before those of other.
func (g *gatedPool) evictBefore(other *gatedPool) bool {
	if free := g.inUse == 0; free != (other.inUse == 0) {
		return free
	}
	return g.lastUsed.Before(other.lastUsed)
}

// Acquire returns a connection to a database; it waits while the database is held. The caller releases it.
func (p *Pools) Acquire(ctx context.Context, database string) (*Conn, error) {
	g, crowded, err := p.enter(ctx, database)
	if err != nil {
		return nil, err
	}
	c, err := p.acquire(ctx, g.pool, crowded)
	if err != nil {
		p.leave(g)
		if p.Missing != nil && hasCode(err, "3D000") { // invalid_catalog_name
			p.Missing(database)
		}
		return nil, err
	}
	return &Conn{Conn: c, pools: p, gate: g, size: p.size(database)}, nil
}

// acquire takes a connection from a pool, which has less connections than users if it is crowded.
func (p *Pools) acquire(ctx context.Context, pool *pgxpool.Pool, crowded bool) (*pgxpool.Conn, error) {
	session := context.WithValue(ctx, forSession{}, true)
	if !crowded || p.limits.Wait <= 0 {
		return pool.Acquire(session)
	}
	session, cancel := context.WithTimeout(session, p.limits.Wait)
	defer cancel()
	c, err := pool.Acquire(session)
	if err != nil && session.Err() != nil && ctx.Err() == nil {
		return nil, ErrBusy
	}
	return c, err
}

// enter counts a user of the database's pool in, as soon as the gate is open. crowded tells that there are more users than
// the pool may have connections.
func (p *Pools) enter(ctx context.Context, database string) (_ *gatedPool, crowded bool, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.closed {
			return nil, false, errPoolsClosed
		}
		g := p.gate(database)
		if g.open == nil {
			if g.pool == nil {
				pool, err := p.newPool(database)
				if err != nil {
					return nil, false, err
				}
				g.pool = pool
			}
			g.inUse++
			g.lastUsed = time.Now()
			return g, g.inUse > p.size(database), nil
		}
		g.waited++
		open := g.open
		p.mu.Unlock()
		select {
		case <-open:
		case <-p.closing:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
	}
}

// size is how many connections to a database there may be.
func (p *Pools) size(database string) int {
	if database == p.main {
		return int(p.limits.Main)
	}
	return int(p.limits.Branch)
}

// leave counts a user of a pool out. The last one to leave a held database closes the connections to it.
func (p *Pools) leave(g *gatedPool) {
	p.mu.Lock()
	g.inUse--
	g.lastUsed = time.Now()
	var pool *pgxpool.Pool
	var drained chan struct{}
	if g.inUse == 0 {
		drained, g.drained = g.drained, nil
		if g.holds > 0 {
			pool, g.pool = g.pool, nil
		}
	}
	p.mu.Unlock()
	if pool != nil {
		pool.Close()
	}
	if drained != nil {
		close(drained)
	}
}

func (p *Pools) gate(database string) *gatedPool {
	g := p.pools[database]
	if g == nil {
		g = &gatedPool{lastUsed: time.Now()}
		p.pools[database] = g
	}
	return g
}

func (p *Pools) newPool(database string) (*pgxpool.Pool, error) {
	cfg := p.config.Copy()
	cfg.ConnConfig.Database = database
	cfg.MinConns = 0
	cfg.MaxConns = int32(p.size(database))
	// The pool outlives the request that happens to be the first.
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

// Hold lets requests for the database wait, waits at most drain until those at work are done, and closes the idle
// connections. The hold ends when the function it returns is called, at the latest after limit. When the requests at work
// take longer than drain, there is no hold and the error is context.DeadlineExceeded.
func (p *Pools) Hold(ctx context.Context, database string, drain, limit time.Duration) (func(), error) {
	open, drained, watched := p.shut(database)
	if drained != nil {
		timer := time.NewTimer(drain)
		defer timer.Stop()
		select {
		case <-drained:
		case <-timer.C:
			open()
			return nil, context.DeadlineExceeded
		case <-ctx.Done():
			open()
			return nil, ctx.Err()
		}
	}
	p.Forget(database)
	for _, ended := range watched {
		<-ended // has its own limit of time
	}
	end := time.AfterFunc(limit, open)
	return func() { end.Stop(); open() }, nil
}

// HoldInBackground is Hold for a process that only follows another: it does not wait until the requests at work are
// done, and closes each connection as it becomes idle.
func (p *Pools) HoldInBackground(database string, limit time.Duration) func() {
	open, _, _ := p.shut(database)
	p.Forget(database)
	end := time.AfterFunc(limit, open)
	return func() { end.Stop(); open() }
}

// shut closes the gate of a database. drained is closed when the requests at work are done, nil when there are none;
// each of watched when a session that listens has ended.
func (p *Pools) shut(database string) (release func(), drained <-chan struct{}, watched []<-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.gate(database)
	g.holds++
	if g.open == nil {
		g.open = make(chan struct{})
	}
	release = sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if g.holds--; g.holds == 0 {
			close(g.open)
			g.open = nil
		}
	})
	if g.inUse > 0 {
		if g.drained == nil {
			g.drained = make(chan struct{})
		}
		drained = g.drained
	}
	return release, drained, p.interrupt(database)
}

// Forget closes the idle connections to a database, as before it is renamed or dropped. Connections at work are not
// touched; they close when they are released.
func (p *Pools) Forget(database string) {
	p.mu.Lock()
	g := p.pools[database]
	var pool *pgxpool.Pool
	if g != nil {
		pool = g.pool
		if g.inUse == 0 {
			g.pool = nil
		}
	}
	inUse := g != nil && g.inUse > 0
	p.interrupt(database)
	p.mu.Unlock()
	switch {
	case pool == nil:
	case inUse:
		pool.Reset()
	default:
		pool.Close()
	}
}

// Held reports whether requests for the database wait at the moment.
func (p *Pools) Held(database string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.pools[database]
	return g != nil && g.holds > 0
}

// Stats returns the numbers of a database's pool, zeros where none is open.
func (p *Pools) Stats(database string) PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PoolStats{Max: int32(p.size(database))}
	g := p.pools[database]
	if g == nil {
		return s
	}
	s.Waited = g.waited
	if g.pool != nil {
		stat := g.pool.Stat()
		s.Total, s.Idle, s.Acquired = stat.TotalConns(), stat.IdleConns(), stat.AcquiredConns()
		s.Waited += stat.EmptyAcquireCount()
	}
	return s
}

// Sweep closes the pools that were idle for long and forgets their databases.
func (p *Pools) Sweep() {
	p.mu.Lock()
	var idle []*pgxpool.Pool
	for name, g := range p.pools {
		if g.inUse == 0 && g.holds == 0 && time.Since(g.lastUsed) > p.limits.Idle {
			if g.pool != nil {
				idle = append(idle, g.pool)
			}
			delete(p.pools, name)
		}
	}
	p.mu.Unlock()
	for _, pool := range idle {
		pool.Close()
	}
}

// Close closes all pools and waits until the connections at work are back and watching has ended. Requests that wait for a held database get
// an error.
func (p *Pools) Close() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.closing)
	}
	var pools []*pgxpool.Pool
	for _, g := range p.pools {
		if g.pool != nil {
			pools = append(pools, g.pool)
		}
	}
	p.pools = map[string]*gatedPool{}
	for _, set := range p.watches {
		for w := range set {
			w.cancel()
		}
	}
	p.mu.Unlock()
	for _, pool := range pools {
		pool.Close()
	}
	p.watching.Wait()
}
