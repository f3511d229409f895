package rows

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/boughdb/bough/server/compile"
)

// exchange sends the messages and reads the answers up to the end of the pipeline, whatever happens. The protocol is
// spoken here rather than by pgconn's Pipeline, which describes what is known and allocates for every message.
func (st *state) exchange(ctx context.Context, steps []Step) error {
	st.watch.begin(ctx)
	r := reader{st: st, steps: steps}
	defer func() {
		if !r.ready { // a sink has panicked
			r.failure = errPanic
			st.watch.now()
			_ = r.read()
		}
		if st.flushed != nil {
			<-st.flushed
			st.flushed = nil
		}
		st.watch.end()
		st.settle(r.parsed)
	}()
	if err := st.send(); err != nil {
		r.ready = true
		st.discard()
		return err
	}
	return r.read()
}

var errPanic = errors.New("a sink panicked")

// send writes the messages. Where they are many, the server may have to wait until results of the first are read before
// it reads the last: they are written while results are read.
func (st *state) send() error {
	conn := st.conn.Conn()
	if len(st.out) <= threshold {
		if _, err := conn.Write(st.out); err != nil {
			return fmt.Errorf("%w: sending statements: %w", ErrLost, err)
		}
		return nil
	}
	flushed := make(chan struct{})
	st.flushed = flushed
	go func() {
		defer close(flushed)
		if _, err := conn.Write(st.out); err != nil {
			_ = conn.Close() // and reading fails
		}
	}()
	return nil
}

// reader reads the answers of one pipeline.
type reader struct {
	st    *state
	steps []Step

	current int // index of the request that is being answered
	parsed  int // how many requests the server has parsed, those included that needed no parsing
	ready   bool
	failure error // the first one
	hidden  bool  // whether the current statement has hidden columns

	clearing  bool // the answers are those of clearing the session
	uncleared bool // clearing failed
}

// read reads until the server is ready for the next pipeline, or the connection is closed. It may be called again after
// a panic.
func (r *reader) read() error {
	for !r.ready {
		if r.clearing {
			r.clear()
			continue
		}
		msg, err := r.st.conn.ReceiveMessage(context.Background())
		if err != nil {
			r.ready = true
			r.st.discard()
			var exceeded *pgproto3.ExceededMaxBodyLenErr
			switch {
			case r.failure != nil:
			case errors.As(err, &exceeded):
				r.failure = fmt.Errorf("%w: it has %d bytes", ErrRowTooLarge, exceeded.ActualBodyLen)
			default:
				r.failure = fmt.Errorf("%w: reading results: %w", ErrLost, err)
			}
			break
		}
		switch m := msg.(type) {
		case *pgproto3.DataRow:
			if r.failure == nil {
				r.check(r.row(m.Values))
			}
		case *pgproto3.ParseComplete:
			r.parsed = r.current + 1
		case *pgproto3.BindComplete:
			r.parsed = r.current + 1
			if r.failure == nil {
				r.check(r.bound())
			}
		case *pgproto3.CommandComplete:
			if r.failure == nil {
				r.check(r.complete(m.CommandTag))
			}
			r.current++
		case *pgproto3.EmptyQueryResponse:
			if r.failure == nil {
				r.check(r.complete(nil))
			}
			r.current++
		case *pgproto3.ErrorResponse:
			if r.failure == nil {
				r.failure = pgconn.ErrorResponseToPgError(m)
			}
		case *pgproto3.ReadyForQuery:
			r.clearing = r.st.clearing
			r.ready = !r.clearing
		case *pgproto3.CloseComplete, *pgproto3.NoticeResponse, *pgproto3.ParameterStatus, *pgproto3.NotificationResponse:
		default:
			r.ready = true
			r.st.discard()
			r.failure = fmt.Errorf("a statement was answered with %T", msg)
		}
	}
	return r.failure
}

// clear reads one of the answers of clearing the session. A session that could not be cleared is of no use any more,
// whatever became of the statements before.
func (r *reader) clear() {
	msg, err := r.st.conn.ReceiveMessage(context.Background())
	if err != nil {
		r.ready = true
		r.st.discard()
		return
	}
	switch m := msg.(type) {
	case *pgproto3.DataRow:
		if len(m.Values) == 1 && len(m.Values[0]) > 0 {
			r.st.foreign = append(r.st.foreign, string(m.Values[0]))
		}
	case *pgproto3.ErrorResponse:
		r.uncleared = true
	case *pgproto3.ReadyForQuery:
		r.ready = true
		if r.uncleared && m.TxStatus == idle { // in a failed block nothing is cleared before its rollback
			r.st.discard()
		}
	}
}

// check takes note of an error of a sink. Nobody wants the rest of the statement then.
func (r *reader) check(err error) {
	if err == nil {
		return
	}
	r.failure = err
	if (errors.Is(err, ErrTooLarge) || errors.Is(err, ErrNoMemory)) && !r.st.session.readOnly() {
		return // what becomes of a write must not depend on when its cancellation comes
	}
	r.st.watch.now()
}

// step returns the step that is being answered, nil for a statement of our own.
func (r *reader) step() *Step {
	if r.current >= len(r.st.requests) {
		return nil
	}
	if i := r.st.requests[r.current].step; i >= 0 {
		return &r.steps[i]
	}
	return nil
}

func (r *reader) bound() error {
	s := r.step()
	if s == nil {
		return nil
	}
	r.hidden = s.Result != nil && hides(s.Statement.Output)
	if s.Sink != nil {
		return s.Sink.Begin()
	}
	return nil
}

func (r *reader) row(values [][]byte) error {
	s := r.step()
	if s == nil {
		return nil
	}
	if size := sizeOf(values); size > large {
		r.st.swollen = true
		if b := r.st.session; b != nil {
			if !b.Memory.Take(size) {
				return ErrNoMemory
			}
			defer b.Memory.Give(size)
		}
	}
	if len(values) != len(s.Statement.Output) && (s.Sink != nil || r.hidden) {
		return fmt.Errorf("the statement has %d columns instead of %d", len(values), len(s.Statement.Output))
	}
	if s.Result != nil {
		s.Result.Rows++
		if r.hidden {
			s.Result.keep(s.Statement.Output, values)
		}
	}
	if s.Sink != nil {
		return s.Sink.Row(values)
	}
	return nil
}

func sizeOf(values [][]byte) int64 {
	n := 0
	for _, v := range values {
		n += len(v)
	}
	return int64(n)
}

func (r *reader) complete(tag []byte) error {
	if p := r.st.requests[r.current].entry; p != nil {
		p.serial = r.st.serial
	}
	s := r.step()
	if s == nil {
		return nil
	}
	if s.Result != nil {
		s.Result.Affected = affected(tag)
	}
	if s.Sink != nil {
		return s.Sink.End()
	}
	return nil
}

// affected returns the number at the end of a command tag, 0 where there is none.
func affected(tag []byte) int64 {
	var n int64
	for _, c := range tag[bytes.LastIndexByte(tag, ' ')+1:] {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// hides reports whether there are hidden columns.
func hides(outputs []compile.Output) bool {
	for i := range outputs {
		if outputs[i].Hidden {
			return true
		}
	}
	return false
}
