package tables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/query"
	"github.com/boughdb/bough/server/rows"
)

// plan is how a request is carried out: its statements, what becomes of their rows, and what the answer's head says.
type plan struct {
	// before runs first, in the same transaction; nil where there is nothing to do.
	before    *compile.Statement
	statement *compile.Statement
	// count gives the number of all records, in its only value; nil where it was not asked for.
	count *compile.Statement
	// estimate has count explained instead of run.
	estimate bool
	// few counts up to a bound, exactBelow: below it, an estimate is not needed. nil where there is none.
	few *compile.Statement
	// form says how the rows are written; without a sink they are discarded.
	form form
	// hold keeps the whole body in memory until the end: of the transaction, or because the head depends on it.
	hold bool
	// decide looks at a result before the transaction is committed; an error rolls it back. nil commits always.
	decide func(res *rows.Result) error
	// early looks at the total before there is a head.
	early func(total *int64) error
	// head makes the answer's head. res is nil while rows are still coming.
	head func(res *rows.Result, total *int64, body []byte) (*Head, error)
}

// run carries out a plan: one round trip, unless something is to be decided before the commit.
func (r *request) run(ctx context.Context, p *plan, a Answer) error {
	conn, err := r.s.acquire(ctx, r.Database)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var timer *time.Timer
	if r.s.cfg.StatementTimeout > 0 {
		timer = time.AfterFunc(r.s.cfg.StatementTimeout, func() { cancel(errTimer) })
		defer timer.Stop()
	}

	var total *int64
	counted, few := &rows.Values{}, &rows.Values{}
	var steps []rows.Step
	if p.few != nil {
		steps = append(steps, rows.Step{Statement: p.few, Sink: few})
	}
	if p.count != nil {
		steps = append(steps, rows.Step{Statement: p.count, Sink: counted})
	}
	readTotal := func() error {
		if p.count == nil || total != nil {
			return nil
		}
		n, err := totalOf(counted, p.estimate)
		if err == nil && p.few != nil {
			var exact int64
			if exact, err = totalOf(few, false); exact <= exactBelow {
				n, p.estimate = exact, false
			} else {
				n = max(n, exact)
			}
		}
		total = &n
		if err == nil && p.early != nil && !p.estimate {
			err = p.early(total)
		}
		return err
	}
	if p.before != nil {
		steps = append(steps, rows.Step{Statement: p.before})
	}
	body := rows.NewBody(func() (io.Writer, error) {
		// What comes now takes as long as the client takes to read it.
		if timer != nil {
			timer.Stop()
		}
		if err := readTotal(); err != nil {
			return nil, err
		}
		h, err := p.head(nil, total, nil)
		if err != nil {
			return nil, err
		}
		if h.Outcome == 0 {
			h.Outcome = OK
		}
		h.Length = -1
		r.begun = true
		w, err := a.Begin(h)
		return &patient{w: w, conn: conn, caller: r.name()}, err
	}, p.hold || r.Method == methodHead)
	defer body.Release()
	body.Limit(r.s.cfg.MaxHeld, r.s.cfg.Memory)
	res := &rows.Result{}
	step := rows.Step{Statement: p.statement, Result: res}
	if p.form.media.Plan != nil {
		step.Statement = explained(p.statement, p.form.media.Plan)
	}
	if p.form.sink != nil {
		step.Sink = p.form.sink(body, step.Statement.Output)
	}
	steps = append(steps, step)
	err = r.exchange(ctx, conn.Conn.Conn().PgConn(), p, res, steps)
	// What is left of the answer is in memory: no connection waits while the client takes it.
	conn.Release()
	if err == nil {
		err = readTotal()
	}
	if err != nil {
		return r.failed(ctx, err, !r.safe() && !r.decides(p))
	}
	if body.Streaming() {
		return body.Finish()
	}
	h, err := p.head(res, total, body.Bytes())
	if err != nil {
		return err
	}
	if h.Outcome == 0 {
		h.Outcome = OK
	}
	return finish(h, body.Bytes(), a)
}

// finish sends an answer that is in memory.
func finish(h *Head, body []byte, a Answer) error {
	if h.Outcome == NoContent || h.Outcome == NotModified || h.empty {
		body = nil
		h.ContentType = ""
	}
	h.Length = len(body)
	w, err := a.Begin(h)
	if err == nil && len(body) > 0 {
		_, err = w.Write(body)
	}
	if err != nil {
		return fmt.Errorf("%w: writing to the client: %w", rows.ErrAborted, err)
	}
	return nil
}

// patient writes an answer of which more is to come from the database: a connection is kept for as long as the client
// takes. That some clients are slow must not use up the connections.
type patient struct {
	w      io.Writer
	conn   *postgres.Conn
	caller string
	waited time.Duration
	counts atomic.Bool // the connection counts as one that waits
	over   atomic.Bool // too many wait
}

// slow is how long a client may keep a connection waiting, in all, before that counts.
const slow = time.Second

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	if p.over.Load() {
		return 0, errSlow
	}
	if p.counts.Load() {
		return p.w.Write(b) //nolint:wrapcheck // package rows says what was being done
	}
	began := time.Now()
	timer := time.AfterFunc(max(slow-p.waited, 0), func() {
		if p.conn.Waits(p.caller) {
			p.counts.Store(true)
			return
		}
		p.over.Store(true)
		if w, ok := p.w.(interface{ Abort() }); ok {
			w.Abort()
		}
	})
	n, err := p.w.Write(b)
	timer.Stop()
	p.waited += time.Since(began)
	if err != nil && p.over.Load() {
		err = errSlow
	}
	return n, err //nolint:wrapcheck // package rows says what was being done
}

var errSlow = errors.New("the client is slow, and too many connections wait for slow clients")

// failed finds out what a failure means for the client. committed tells that a write was done if nothing was wrong but
// the size of its answer.
func (r *request) failed(ctx context.Context, err error, committed bool) error {
	var single *rows.NotSingleError
	switch {
	case errors.Is(err, rows.ErrAborted):
		r.begun = true
	case errors.Is(err, rows.ErrTooLarge), errors.Is(err, rows.ErrNoMemory):
		return r.tooLarge(err, committed)
	case errors.Is(err, rows.ErrRowTooLarge):
		f := errTooLarge.Msgf("one of the records of the answer is too large")
		if !r.safe() {
			f = f.Msgf("%s; whether the changes were made is not known", f.Message).WithHint("ask for no records, by Prefer: return=minimal")
		}
		return f
	case errors.As(err, &single) && single.Rows == 0 && r.Key != nil:
		return r.absent()
	case errors.As(err, &single):
		return notSingle(single.Rows)
	case errors.Is(context.Cause(ctx), errTimer):
		return errStatementTime
	}
	return err
}

// tooLarge explains that an answer is too large to be held in memory.
func (r *request) tooLarge(err error, committed bool) error {
	switch {
	case committed:
		return errTooLarge.Msgf("the changes were made, but the answer is too large to be returned").
			WithHint("ask for no records, by Prefer: return=minimal, or for fewer columns by select")
	case errors.Is(err, rows.ErrNoMemory):
		return errNoMemory
	case r.safe():
		return errTooLarge.Msgf("the answer has more than %d bytes, and must be held in memory to be answered in this form", r.s.cfg.MaxHeld)
	}
	return errTooLarge.Msgf("the answer is too large; nothing was changed")
}

func notSingle(n int64) error {
	return &fault.Error{
		Kind: fault.NotAcceptable, Code: "PGRST116", Message: "Cannot coerce the result to a single JSON object",
		Details: fmt.Sprintf("The result contains %d rows", n),
	}
}

// totalOf reads the result of the count, or of its plan.
func totalOf(v *rows.Values, estimate bool) (int64, error) {
	if len(v.Rows) != 1 || len(v.Rows[0]) != 1 || v.Rows[0][0] == nil {
		return 0, errors.New("the count gave no number")
	}
	text := *v.Rows[0][0]
	if !estimate {
		var n int64
		_, err := fmt.Sscan(text, &n)
		return n, err
	}
	var explained []struct {
		Plan struct {
			Rows float64 `json:"Plan Rows"`
		}
	}
	if err := json.Unmarshal([]byte(text), &explained); err != nil || len(explained) != 1 {
		return 0, fmt.Errorf("reading a plan: %w", err)
	}
	return int64(explained[0].Plan.Rows), nil
}

// form is how an answer is written.
type form struct {
	media query.Media
	// single tells that exactly one row is asked for.
	single bool
	sink   func(b *rows.Body, outputs []compile.Output) rows.Sink
}

// formOf chooses how rows are written, from what the client accepts. one says that the answer is one object unless the
// client asks for an array.
func (r *request) formOf(one bool) (form, error) {
	for _, m := range r.media {
		o := rows.Options{StripNulls: m.StripNulls}
		f := form{media: m}
		switch m.Kind {
		case query.MediaAny, query.MediaJSON:
			f.media.Kind, f.single = query.MediaJSON, one
		case query.MediaObject:
			f.single = true
		case query.MediaArray:
		case query.MediaCSV:
			f.sink = rows.NewCSV
		case query.MediaNDJSON:
			f.sink = func(b *rows.Body, out []compile.Output) rows.Sink { return rows.NewNDJSON(b, out, o) }
		case query.MediaPlan:
			if !r.s.cfg.Explain {
				continue
			}
			f.sink = func(b *rows.Body, out []compile.Output) rows.Sink { return newPlanText(b, out, m.Plan) }
		default:
			continue
		}
		switch {
		case f.sink != nil:
		case f.single:
			f.sink = func(b *rows.Body, out []compile.Output) rows.Sink { return rows.NewObject(b, out, o) }
		default:
			f.sink = func(b *rows.Body, out []compile.Output) rows.Sink { return rows.NewObjects(b, out, o) }
		}
		return f, nil
	}
	return form{}, errMedia
}

var errMedia = fault.New(fault.NotAcceptable, "PGRST107", "None of the accepted media types can be made of records").
	WithHint("accept application/json, text/csv or application/x-ndjson")

// rollsBack reports whether the client only wants to see what would be done.
func (r *request) rollsBack() bool { return r.prefer.Tx == query.TxRollback && !r.safe() }

// decides reports whether something is to be decided before the commit.
func (r *request) decides(p *plan) bool { return p.decide != nil || r.rollsBack() }

// exchange runs the statements. A transaction that may have to be undone costs a second round trip.
func (r *request) exchange(ctx context.Context, conn *pgconn.PgConn, p *plan, res *rows.Result, steps []rows.Step) error {
	session := r.session(p.before, p.statement, p.count)
	if !r.decides(p) {
		return rows.Run(ctx, conn, session, steps...)
	}
	tx, err := rows.Begin(ctx, conn, session, "")
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if err := tx.Run(ctx, steps...); err != nil {
		return err
	}
	if p.decide != nil {
		if err := p.decide(res); err != nil {
			return err
		}
	}
	if r.rollsBack() {
		return tx.CheckConstraints(ctx)
	}
	return tx.Commit(ctx)
}
