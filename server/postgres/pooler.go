package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// PoolMode is how the connections to main and the branches reach the server.
type PoolMode string

// The modes, in PgBouncer's words.
const (
	// PoolAuto has the mode found out when the server is first connected to.
	PoolAuto PoolMode = "auto"
	// PoolSession gives each connection a session of its own, as it is without a pooler.
	PoolSession PoolMode = "session"
	// PoolTransaction gives each transaction whatever session is free: nothing that a session keeps can be relied on.
	PoolTransaction PoolMode = "transaction"
)

// Pooler is what stands between this program and a server.
type Pooler struct {
	Present bool // a pooler, or something like one, answers instead of the server
	Mode    PoolMode
}

// Shared reports whether sessions are shared between connections.
func (p Pooler) Shared() bool { return p.Mode == PoolTransaction }

// pooled takes from a configuration what poolers do not accept, and what would not be true of the sessions that they give.
func (p Pooler) pooled(cfg *pgx.ConnConfig) {
	if !p.Present {
		return
	}
	for name := range cfg.RuntimeParams {
		if name != "application_name" && name != "client_encoding" {
			delete(cfg.RuntimeParams, name)
		}
	}
	if p.Shared() {
		// Statements are described once, and then sent without a name.
		cfg.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		cfg.StatementCacheCapacity = 0
	}
}

// FindPooler finds out what stands between this program and the server of cfg. mode is what was configured: PoolAuto
// leaves the mode to be found out.
func FindPooler(ctx context.Context, cfg *pgx.ConnConfig, mode PoolMode) (Pooler, error) {
	if mode == PoolTransaction {
		return Pooler{Present: true, Mode: mode}, nil
	}
	// A server says its process's number when a session begins; a pooler, which has to tell requests to cancel apart,
	// makes numbers of its own.
	first, err := probeConnection(ctx, cfg)
	if err != nil {
		return Pooler{}, err
	}
	defer first.Close(context.WithoutCancel(ctx))
	pid, err := backend(ctx, first)
	if err != nil {
		return Pooler{}, err
	}
	p := Pooler{Present: pid != first.PID(), Mode: PoolSession}
	if !p.Present || mode == PoolSession {
		return p, nil
	}
	for range probeRounds {
		shared, err := shares(ctx, cfg, first)
		if err != nil {
			return Pooler{}, err
		}
		if shared {
			p.Mode = PoolTransaction
			break
		}
	}
	return p, nil
}

// probeRounds is how often a pooler is given the chance to show that it shares sessions.
const probeRounds = 3

// probeConnection connects with nothing in the startup message that a pooler may object to.
func probeConnection(ctx context.Context, cfg *pgx.ConnConfig) (*pgconn.PgConn, error) {
	c := cfg.Config.Copy()
	for name := range c.RuntimeParams {
		if name != "application_name" && name != "client_encoding" {
			delete(c.RuntimeParams, name)
		}
	}
	return pgconn.ConnectConfig(ctx, c)
}

// shares reports whether a transaction of another connection is given the session that first has just used.
func shares(ctx context.Context, cfg *pgx.ConnConfig, first *pgconn.PgConn) (shared bool, err error) {
	second, err := probeConnection(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer second.Close(context.WithoutCancel(ctx))
	before, err := backend(ctx, first)
	if err != nil {
		return false, err
	}
	if _, err := second.Exec(ctx, "begin").ReadAll(); err != nil {
		return false, err
	}
	other, err := backend(ctx, second)
	if err != nil {
		return false, err
	}
	// While the transaction keeps its session, the first connection is given another one, if it has none of its own. A
	// pooler with a single session would let it wait.
	if other == before {
		_, err = second.Exec(ctx, "rollback").ReadAll()
		return true, err
	}
	after, err := backend(ctx, first)
	if err != nil {
		return false, err
	}
	_, err = second.Exec(ctx, "rollback").ReadAll()
	return after != before, err
}

// backend is the number of the server's process that a connection's next transaction has.
func backend(ctx context.Context, conn *pgconn.PgConn) (uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	res, err := conn.Exec(ctx, "select pg_backend_pid()").ReadAll()
	if err != nil {
		return 0, fmt.Errorf("asking for the server's process: %w", err)
	}
	var pid uint32
	if _, err := fmt.Sscan(string(res[0].Rows[0][0]), &pid); err != nil {
		return 0, err
	}
	return pid, nil
}

// ErrShared is the error of what needs a session of its own where a pooler shares sessions.
var ErrShared = errors.New("the connection goes through a pooler in transaction mode, which shares sessions")

// CheckControl returns an error unless connections of connString have sessions of their own.
func CheckControl(ctx context.Context, connString string) error {
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		return err
	}
	p, err := FindPooler(ctx, cfg, PoolAuto)
	if err == nil && p.Shared() {
		err = fmt.Errorf("%w: the control database needs LISTEN and advisory locks", ErrShared)
	}
	return err
}
