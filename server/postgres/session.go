package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Session is a session of its own login. It counts as a request at its database, so that a hold waits for it, and as a
// connection.
type Session struct {
	*pgx.Conn
	leave func()
}

// Close ends the session. It may be called more than once.
func (s *Session) Close(ctx context.Context) error {
	defer s.leave()
	return s.Conn.Close(ctx)
}

// session opens a session to a database as a role; it waits while the database is held.
func (p *Pools) session(ctx context.Context, database, role, password string) (*Session, error) {
	g, _, err := p.enter(ctx, database)
	if err != nil {
		return nil, err
	}
	cfg := p.sessionConfig()
	cfg.Database, cfg.User, cfg.Password = database, role, password
	conn, err := pgx.ConnectConfig(context.WithValue(ctx, forSession{}, true), cfg)
	if err != nil {
		p.leave(g)
		return nil, err
	}
	return &Session{conn, sync.OnceFunc(func() { p.leave(g) })}, nil
}

// EngineSession opens a session as Bough's own role, outside of the pools but within their limits. Its caller closes it,
// and runs nothing in it that somebody else wrote.
func (c *Cluster) EngineSession(ctx context.Context, database string) (*Session, error) {
	return c.Pools.session(ctx, database, c.base.User, c.base.Password)
}

// SetLogin makes the pools and watches log in as another role from now on.
func (p *Pools) SetLogin(role, password string) {
	p.mu.Lock()
	p.config = p.config.Copy()
	p.config.ConnConfig.User, p.config.ConnConfig.Password = role, password
	if p.direct != nil {
		p.direct = p.direct.Copy()
		p.direct.User, p.direct.Password = role, password
	}
	var names []string
	for name := range p.pools {
		names = append(names, name)
	}
	p.mu.Unlock()
	for _, name := range names {
		p.Forget(name)
	}
}

// sessionConfig returns a copy of what sessions are opened with that keep their state: it leads around a pooler where that
// is known.
func (p *Pools) sessionConfig() *pgx.ConnConfig {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.direct != nil {
		return p.direct.Copy()
	}
	return p.config.ConnConfig.Copy()
}
