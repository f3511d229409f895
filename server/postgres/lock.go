package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Lock is an advisory lock in the control database, held by a session of its own: it ends with the process, so no
// crash leaves one behind.
type Lock struct {
	conn *pgxpool.Conn
	name string
}

// AcquireLock waits for the lock of that name until ctx ends.
func AcquireLock(ctx context.Context, pool *pgxpool.Pool, name string) (*Lock, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "select pg_advisory_lock(hashtextextended($1, 0))", name); err != nil {
		// The server may have granted it all the same; only the end of the session is sure to free it.
		_ = conn.Hijack().Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return &Lock{conn: conn, name: name}, nil
}

// Conn is the session that holds the lock. A statement that fails on it means that the lock may be lost.
func (l *Lock) Conn() *pgx.Conn { return l.conn.Conn() }

// Release gives the lock back.
func (l *Lock) Release() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var ok bool
	err := l.conn.QueryRow(ctx, "select pg_advisory_unlock(hashtextextended($1, 0))", l.name).Scan(&ok)
	if err != nil || !ok {
		_ = l.conn.Hijack().Close(ctx)
		return
	}
	l.conn.Release()
}
