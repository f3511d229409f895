// Package rows runs compiled statements and turns their rows into the bodies of answers: JSON, CSV, NDJSON and plain
// values. A request is one pipeline: its role and settings, its statements and a single Sync, which PostgreSQL takes for
// one transaction, in one round trip. Rows are read one by one and written on at once, so that an answer of any size
// needs little memory, and a slow client slows its statement down.
//
// What a statement says is decided in package compile; status, headers and how an error looks are the callers' matter.
package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/limits"
)

// Session is what a request's statements run under: set locally, in the same round trip.
type Session struct {
	// Role is the database role; "" keeps the connection's own.
	Role string
	// Settings are set before the role is, so that they may be ones which only the connection's own role may set.
	Settings []Setting
	// Unnamed does without prepared statements, for servers behind a pooler that gives each transaction another
	// connection.
	Unnamed bool
	// Clear is set where the statements may leave something behind with the connection: they run functions that are not
	// known to be harmless, which may change settings, take locks, or make temporary tables and prepared statements. It is
	// cleared behind them, in the same round trip, so that the next request does not find it.
	Clear bool
	// Memory bounds the memory of large rows of all requests together; nil for no bound.
	Memory *limits.Budget
	// Schema identifies the catalog that the statements were compiled against. Statements that were prepared under
	// another one are not used: PostgreSQL plans them again when a table changes, but keeps the types that it gave their
	// parameters, so that values would be read as what a column once was.
	Schema string
}

// Setting is a configuration parameter and its value for one transaction.
type Setting struct{ Name, Value string }

// Step is one statement and what becomes of its rows.
type Step struct {
	Statement *compile.Statement
	Sink      Sink    // nil discards the rows
	Result    *Result // filled in; may be nil
}

// Result is what is known of a statement that was run.
type Result struct {
	Rows     int64 // rows received
	Affected int64 // the number in the command tag: rows selected, inserted, updated or deleted
	// Hidden are the last row's hidden columns, in their order; nil stands for NULL. It is nil when there was no row or
	// the statement has no hidden columns. The value of compile.InsertedColumn is true when it was so for any row.
	Hidden [][]byte

	kept [][]byte // the memory of Hidden
}

// Sink takes the rows of one statement. The methods are called in the order Begin, Row for each row, End; after a failure,
// and before another attempt at the same statement, Reset takes the place of what is left.
type Sink interface {
	// Begin is called when the statement has been started.
	Begin() error
	// Row takes a row. The values are in the order of the statement's outputs, hidden ones included, in text form, nil
	// for NULL. They are valid during the call only.
	Row(values [][]byte) error
	// End is called after the last row.
	End() error
	// Reset forgets all rows, and reports false if it cannot because some are with the client already.
	Reset() bool
}

var (
	// ErrAborted is wrapped by the error of a statement that failed when a part of the answer was with the client: the
	// connection to the client must be broken, as with panic(http.ErrAbortHandler), so that the part cannot be mistaken
	// for the whole.
	ErrAborted = errors.New("the answer was broken off")
	// ErrLost is wrapped by the error of a statement whose connection to the database broke, or was broken already.
	// Whether a write was committed is not known then.
	ErrLost = errors.New("the connection to the database was lost")
	// ErrTooLarge is the error of a statement whose answer has to be held in memory and is too large for that. An implicit
	// transaction that may write is committed all the same.
	ErrTooLarge = errors.New("the answer is too large to be held in memory")
	// ErrRowTooLarge is wrapped by the error of a statement with a row that is larger than the connection's limit. The
	// connection is closed. Whether a write was committed is not known.
	ErrRowTooLarge = errors.New("a row is too large")
	// ErrNoMemory is the error of a statement whose rows or answer are large while others take up the memory for such. An
	// implicit transaction that may write is committed all the same.
	ErrNoMemory = errors.New("there is no memory left for large answers")
	// ErrNotSingle matches a *NotSingleError.
	ErrNotSingle = fault.New(fault.NotAcceptable, "not_single_row", "exactly one row was asked for")

	errLeftTransaction = errors.New("a statement began a transaction and left it open")
	errInTransaction   = errors.New("the connection is in a transaction already")
	errBusy            = errors.New("the connection is running other statements")
)

// NotSingleError says that a statement that was to give exactly one row gave none or several.
type NotSingleError struct{ Rows int64 }

func (e *NotSingleError) Error() string { return e.fault().Message }

// Unwrap returns the error as callers of the API may see it.
func (e *NotSingleError) Unwrap() error { return e.fault() }

func (e *NotSingleError) fault() *fault.Error {
	return ErrNotSingle.Msgf("exactly one row was asked for, but the result has %d", e.Rows)
}

// RuntimeParams are the startup parameters of connections that the encoders rely on.
func RuntimeParams() map[string]string {
	return map[string]string{
		"DateStyle":          "ISO, MDY",
		"IntervalStyle":      "postgres",
		"bytea_output":       "hex",
		"extra_float_digits": "1",
		"client_encoding":    "UTF8",
	}
}

// readOnly reports whether nothing can be written.
func (s *Session) readOnly() bool {
	return s != nil && slices.Contains(s.Settings, Setting{"transaction_read_only", "on"})
}

// Run runs the steps in one transaction and one round trip. Nothing can be decided in between: if all statements succeed
// they are committed, even if a sink objects to what they gave. Requests that may want to roll back use Begin. The
// transaction is an implicit one, unless a step is a CALL.
//
// An error of PostgreSQL is a wrapped *pgconn.PgError. After an error the connection is idle, or closed if it is of no
// use any more, and the sinks are empty unless the error is ErrAborted. When ctx ends, the statement at work is
// cancelled and the connection lives on.
func Run(ctx context.Context, conn *pgconn.PgConn, s *Session, steps ...Step) error {
	st, err := stateOf(conn)
	if err != nil {
		return err
	}
	if conn.TxStatus() != idle {
		return errInTransaction
	}
	b := batch{session: s, settings: true, steps: steps, clear: s != nil && s.Clear}
	block := slices.ContainsFunc(steps, func(s Step) bool { return s.Statement.Call })
	if block {
		b.control, b.end = "begin", "commit"
	}
	for retried := false; ; retried = true {
		st.serial++
		b.unnamed = retried
		stale, err := st.attempt(ctx, b)
		if err != nil && block {
			st.rollback(ctx, b.clear) // the block outlives a failure
		}
		if conn.TxStatus() != idle && !conn.IsClosed() {
			st.discard()
			if err == nil {
				err = errLeftTransaction
			}
		}
		if err == nil {
			return nil
		}
		if !reset(steps) {
			return fmt.Errorf("%w: %w", ErrAborted, err)
		}
		if !stale || retried {
			return err
		}
	}
}

// reset empties the sinks and reports whether none of their rows are with a client.
func reset(steps []Step) bool {
	clean := true
	for i := len(steps) - 1; i >= 0; i-- {
		if s := steps[i].Sink; s != nil && !s.Reset() {
			clean = false
		}
	}
	return clean
}

// reset forgets an earlier run, but keeps its memory.
func (r *Result) reset() { r.Rows, r.Affected, r.Hidden = 0, 0, nil }

// keep copies the hidden columns of a row. That a row was inserted is kept for the rows after it.
func (r *Result) keep(outputs []compile.Output, values [][]byte) {
	first := len(r.Hidden) == 0
	r.Hidden = r.Hidden[:0]
	n := 0
	for i := range outputs {
		if !outputs[i].Hidden {
			continue
		}
		if !first && outputs[i].Name == compile.InsertedColumn && string(r.kept[n]) == "t" {
			r.Hidden = append(r.Hidden, r.kept[n])
			n++
			continue
		}
		if n == len(r.kept) {
			r.kept = append(r.kept, []byte{})
		}
		if values[i] == nil {
			r.Hidden = append(r.Hidden, nil)
		} else {
			r.kept[n] = append(r.kept[n][:0], values[i]...)
			r.Hidden = append(r.Hidden, r.kept[n])
		}
		n++
	}
}
