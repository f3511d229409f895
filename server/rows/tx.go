package rows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Tx is an explicit transaction, for requests that decide after they saw results. Its BEGIN, its settings and the
// statements of the first Run share a round trip; the end costs one more. After any error the transaction is rolled back
// and over: later calls return the error, but Rollback does nothing. It is not for concurrent use.
type Tx struct {
	st      *state
	session *Session
	begin   string
	started bool
	err     error  // set when it is over
	sinks   []Step // those that took rows so far, to know whether the client has some
}

var (
	// ErrTxDone is the error of a transaction that is used after its end.
	ErrTxDone = errors.New("the transaction is over")

	rollbackPatience = 5 * time.Second
)

var isolations = map[string]string{
	"":                 "begin",
	"read uncommitted": "begin isolation level read uncommitted",
	"read committed":   "begin isolation level read committed",
	"repeatable read":  "begin isolation level repeatable read",
	"serializable":     "begin isolation level serializable",
}

// Begin prepares a transaction; nothing is sent before the first Run. isolation is an isolation level in SQL's words, ""
// for the server's default. The caller must call Commit or Rollback; a deferred Rollback is right even where the
// transaction was committed.
func Begin(_ context.Context, conn *pgconn.PgConn, s *Session, isolation string) (*Tx, error) {
	begin, ok := isolations[strings.ToLower(isolation)]
	if !ok {
		return nil, fmt.Errorf("there is no isolation level %q", isolation)
	}
	st, err := stateOf(conn)
	if err != nil {
		return nil, err
	}
	if conn.TxStatus() != idle {
		return nil, errInTransaction
	}
	return &Tx{st: st, session: s, begin: begin}, nil
}

// Run runs steps in the transaction, in one round trip. Errors are as those of the function Run.
func (t *Tx) Run(ctx context.Context, steps ...Step) error {
	if t.err != nil {
		return t.err
	}
	if t.st.busy {
		return errBusy
	}
	for retried := false; ; retried = true {
		b := batch{session: t.session, steps: steps, late: t.started, unnamed: retried}
		if !t.started {
			t.st.serial++
			b.control, b.settings = t.begin, true
		}
		stale, err := t.attempt(ctx, b)
		if err == nil {
			t.started = true
			for _, s := range steps {
				if s.Sink != nil {
					t.sinks = append(t.sinks, s)
				}
			}
			return nil
		}
		if !reset(steps) || !reset(t.sinks) {
			return t.fail(fmt.Errorf("%w: %w", ErrAborted, err))
		}
		if !stale || retried || t.started {
			return t.fail(err)
		}
	}
}

// attempt rolls back after a failure, by panic or error.
func (t *Tx) attempt(ctx context.Context, b batch) (stale bool, err error) {
	done := false
	defer func() {
		if !done || err != nil {
			t.st.rollback(ctx, t.clears())
		}
		if !done {
			t.err = ErrTxDone
		}
	}()
	stale, err = t.st.attempt(ctx, b)
	done = true
	return stale, err
}

// CheckConstraints has deferred constraints checked now instead of at the end.
func (t *Tx) CheckConstraints(ctx context.Context) error {
	return t.control(ctx, "set constraints all immediate")
}

// Commit ends the transaction. Deferred constraints are checked now. If it fails, nothing has been done.
func (t *Tx) Commit(ctx context.Context) error {
	if err := t.control(ctx, "commit"); err != nil {
		return err
	}
	t.err = ErrTxDone
	return nil
}

// control runs a statement of our own.
func (t *Tx) control(ctx context.Context, sql string) error {
	if t.err != nil {
		return t.err
	}
	if t.st.busy {
		return errBusy
	}
	if !t.started {
		return nil // there is nothing to commit or to check
	}
	_, err := t.attempt(ctx, batch{control: sql, clear: sql == "commit" && t.clears()})
	if err == nil && sql == "commit" && t.st.conn.TxStatus() != idle {
		err = errors.New("the transaction was not committed")
		t.st.rollback(ctx, t.clears())
	}
	if err != nil {
		if !reset(t.sinks) {
			err = fmt.Errorf("%w: %w", ErrAborted, err)
		}
		return t.fail(err)
	}
	return nil
}

// Rollback undoes the transaction unless it is over. It works even when ctx has ended.
func (t *Tx) Rollback(ctx context.Context) {
	if t.err != nil {
		return
	}
	t.st.rollback(ctx, t.clears())
	t.err = ErrTxDone
}

// clears reports whether the session is to be cleared at the end.
func (t *Tx) clears() bool { return t.session != nil && t.session.Clear }

func (t *Tx) fail(err error) error {
	t.err = fmt.Errorf("%w: %w", ErrTxDone, err)
	return err
}
