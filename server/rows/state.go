package rows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/boughdb/bough/server/postgres"
)

// idle is the status of a connection outside transactions.
const idle = 'I'

// state is what the package keeps of a connection: its prepared statements and memory that is used again.
type state struct {
	conn     *pgconn.PgConn
	cache    cache
	schema   string // that the statements were prepared under
	serial   uint64 // of the transaction
	busy     bool
	watch    watch
	requests []request
	session  *Session      // of the pipeline; may be nil
	lost     int           // how often statements were missing that had been prepared
	out      []byte        // messages to be sent
	flushed  chan struct{} // closed when all messages are sent; nil if they were sent before reading
	swollen  bool          // whether the connection's buffer has grown for a large row
	clearing bool          // whether the session is cleared behind the pipeline
	foreign  []string      // prepared statements that were made by SQL, as clearing found them

	params  [][]byte
	scratch []byte
}

// request is a statement that was sent.
type request struct {
	entry  *prepared // nil if unnamed
	parses bool      // entry is not known to the server yet
	step   int       // index of the step, or -1 for a statement of our own
}

// batch is what one pipeline does.
type batch struct {
	control  string // a statement of our own to begin with, or ""
	end      string // a statement of our own to end with, or ""
	session  *Session
	settings bool // whether to make the session's settings
	steps    []Step
	// clear has the session cleared at the end.
	clear bool
	// late is set in a transaction that has answered already, so that it cannot be tried again: statements that may
	// have become invalid in the meantime are not used.
	late bool
	// unnamed does without prepared statements.
	unnamed bool
}

const stateKey = "github.com/boughdb/bough/server/rows"

func stateOf(conn *pgconn.PgConn) (*state, error) {
	st, ok := conn.CustomData()[stateKey].(*state)
	if !ok {
		st = &state{conn: conn, cache: cache{limit: defaultStatements, entries: map[cacheKey]*prepared{}}}
		st.watch.conn = conn
		st.watch.fire = func() { defer st.watch.wg.Done(); st.watch.cancel() }
		conn.CustomData()[stateKey] = st
	}
	if st.busy {
		return nil, errBusy
	}
	return st, nil
}

// attempt sends a batch and reads the answers. Afterwards the connection is at rest, if it is not closed, but may be in
// a transaction if the batch begins one or belongs to one. stale reports whether the batch failed because of a prepared
// statement that is dropped now, so that another attempt may succeed.
func (st *state) attempt(ctx context.Context, b batch) (stale bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if st.conn.IsClosed() {
		return false, errClosed
	}
	st.busy = true
	if err := st.compose(b); err != nil {
		st.settle(0)
		return false, err
	}
	err = st.exchange(ctx, b.steps)
	if len(st.foreign) > 0 {
		st.deallocate()
	}
	if st.swollen {
		st.shrink()
	}
	if err == nil {
		return false, nil
	}
	stale = st.dropStale(err)
	if ctxErr := ctx.Err(); ctxErr != nil && !errors.Is(err, ctxErr) {
		err = fmt.Errorf("%w: %w", ctxErr, err)
	}
	return stale, err
}

var errClosed = fmt.Errorf("%w: it is closed", ErrLost)

// compose encodes the messages of a batch.
func (st *state) compose(b batch) error {
	st.out, st.requests, st.clearing, st.foreign = st.out[:0], st.requests[:0], false, nil
	st.session = b.session
	if b.session != nil && b.session.Schema != st.schema {
		st.schema = b.session.Schema
		for _, p := range st.cache.entries {
			st.cache.drop(p)
		}
	}
	for _, name := range st.cache.closing {
		if err := st.close(name); err != nil {
			return err
		}
	}
	st.cache.closing = st.cache.closing[:0]
	unnamed := b.unnamed || b.session != nil && b.session.Unnamed || st.lost >= maxLost
	if b.control != "" {
		// Unnamed, because it must work when prepared statements were lost.
		if err := st.queue(b.control, "", nil, -1, true, false); err != nil {
			return err
		}
	}
	if b.settings && !b.session.empty() {
		if err := st.queueSettings(b.session, unnamed); err != nil {
			return err
		}
	}
	role := ""
	if b.session != nil {
		role = b.session.Role
	}
	for i := range b.steps {
		if r := b.steps[i].Result; r != nil {
			r.reset()
		}
		s := b.steps[i].Statement
		if err := st.queue(s.SQL, role, s.Args, i, unnamed, b.late); err != nil {
			return err
		}
	}
	if b.end != "" {
		if err := st.queue(b.end, "", nil, -1, true, false); err != nil {
			return err
		}
	}
	var err error
	if st.out, err = (&pgproto3.Sync{}).Encode(st.out); err != nil || !b.clear {
		return err
	}
	st.clearing = true
	st.out, err = (&pgproto3.Query{String: postgres.ClearSession}).Encode(st.out)
	return err
}

// maxLost is how often prepared statements may be missing before a connection does without them: behind a pooler that
// gives each transaction another session they are missing again and again, and every time costs another attempt.
const maxLost = 3

// queueSettings adds the statement that makes the session's settings.
func (st *state) queueSettings(s *Session, unnamed bool) error {
	st.scratch = s.shape(st.scratch[:0])
	r := request{step: -1}
	switch {
	case unnamed:
		if err := st.parse("", s.settingsSQL()); err != nil {
			return err
		}
	case st.cache.entries[cacheKey{settingsRole, string(st.scratch)}] != nil:
		r.entry = st.cache.entries[cacheKey{settingsRole, string(st.scratch)}]
		st.cache.use(r.entry)
	default:
		var err error
		if r.entry, err = st.prepare(cacheKey{settingsRole, string(st.scratch)}, s.settingsSQL()); err != nil {
			return err
		}
		r.parses = true
	}
	st.requests = append(st.requests, r)
	st.params, st.scratch = s.values(st.params[:0], st.scratch[:0])
	return st.execute(r.entry, st.params)
}

// queue adds a statement, and has it parsed if the server does not hold it.
func (st *state) queue(sql, role string, args [][]byte, step int, unnamed, late bool) error {
	key := cacheKey{role, sql}
	if unnamed {
		st.requests = append(st.requests, request{step: step})
		if err := st.parse("", key.text()); err != nil {
			return err
		}
		return st.execute(nil, args)
	}
	p := st.cache.entries[key]
	if p != nil && late && p.serial != st.serial {
		st.cache.drop(p)
		p = nil
	}
	if p != nil {
		st.cache.use(p)
		st.requests = append(st.requests, request{entry: p, step: step})
		return st.execute(p, args)
	}
	p, err := st.prepare(key, key.text())
	if err != nil {
		return err
	}
	// What follows in this pipeline may use the statement at once.
	p.serial = st.serial
	st.requests = append(st.requests, request{entry: p, parses: true, step: step})
	return st.execute(p, args)
}

// prepare has a statement parsed. What the server may hold under its name is closed first: it may have become invalid, or
// be another session's behind a pooler. To close what is not there is no error.
func (st *state) prepare(key cacheKey, text string) (*prepared, error) {
	p := st.cache.add(key, st.schema, text)
	if err := st.close(p.name); err != nil {
		return nil, err
	}
	return p, st.parse(p.name, text)
}

func (st *state) close(name string) (err error) {
	st.out, err = (&pgproto3.Close{ObjectType: 'S', Name: name}).Encode(st.out)
	return err
}

func (st *state) parse(name, sql string) (err error) {
	st.out, err = (&pgproto3.Parse{Name: name, Query: sql}).Encode(st.out)
	return err
}

func (st *state) execute(p *prepared, args [][]byte) (err error) {
	bind := pgproto3.Bind{Parameters: args}
	if p != nil {
		bind.PreparedStatement = p.name
	}
	if st.out, err = bind.Encode(st.out); err != nil {
		return fmt.Errorf("encoding %d parameters: %w", len(args), err)
	}
	st.out, err = (&pgproto3.Execute{}).Encode(st.out)
	return err
}

// settle brings the cache in line with what the server did: of the requests, the first done were parsed.
func (st *state) settle(done int) {
	for i := done; i < len(st.requests); i++ {
		// Whether the server holds another statement of this name, which was to be closed, is not known.
		if r := &st.requests[i]; r.parses {
			st.cache.remove(r.entry)
			st.cache.close(r.entry.name)
		}
	}
	if cap(st.out) > 4*threshold {
		st.out = nil
	}
	if cap(st.scratch) > 4*threshold {
		st.scratch, st.params = nil, nil
	}
	st.busy = false
}

// dropStale reports whether an error is about a prepared statement that has become invalid or was lost. The statements
// concerned are dropped, so that another attempt finds all in order.
func (st *state) dropStale(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) || st.conn.IsClosed() {
		return false
	}
	// The message of 0A000 is translated, its code is that of every feature that PostgreSQL lacks.
	if e.Code != "26000" && e.Code != "42P05" && (e.Code != "0A000" || e.Routine != "RevalidateCachedQuery") {
		return false
	}
	if e.Code == "26000" || e.Code == "42P05" { // if one was lost, all were
		st.lost++
		for _, p := range st.cache.entries {
			st.cache.drop(p)
		}
		return true
	}
	// Which one it was is known, but a change of the schema may have made others of the batch invalid as well.
	for i := range st.requests {
		if p := st.requests[i].entry; p != nil {
			st.cache.drop(p)
		}
	}
	return true
}

// deallocate removes prepared statements that were made by SQL. They are rare, and worth a round trip of their own.
func (st *state) deallocate() {
	if st.conn.IsClosed() || st.conn.TxStatus() != idle {
		return
	}
	var sql strings.Builder
	for _, name := range st.foreign {
		sql.WriteString("deallocate " + pgx.Identifier{name}.Sanitize() + ";")
	}
	st.foreign = nil
	ctx, stop := context.WithTimeout(context.Background(), cancelPatience)
	defer stop()
	if _, err := st.conn.Exec(ctx, sql.String()).ReadAll(); err != nil {
		st.discard()
	}
}

// shrink has the connection drop a buffer that has grown for a large row, which it does when another message comes.
func (st *state) shrink() {
	st.swollen = false
	if st.conn.IsClosed() {
		return
	}
	_ = st.conn.Conn().SetDeadline(time.Now().Add(cancelPatience))
	sync, _ := (&pgproto3.Sync{}).Encode(nil) // has no parts that could be wrong
	if _, err := st.conn.Conn().Write(sync); err != nil {
		st.discard()
		return
	}
	for ready := false; !ready; {
		msg, err := st.conn.ReceiveMessage(context.Background())
		if err != nil {
			st.discard()
			return
		}
		_, ready = msg.(*pgproto3.ReadyForQuery)
	}
	_ = st.conn.Conn().SetDeadline(time.Time{})
}

// rollback leaves the connection idle or closed. With clearing the session is cleared as well.
func (st *state) rollback(ctx context.Context, clearing bool) {
	if st.conn.IsClosed() || st.conn.TxStatus() == idle {
		return
	}
	if st.busy {
		st.discard()
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), rollbackPatience)
	defer stop()
	if _, err := st.attempt(ctx, batch{control: "rollback", clear: clearing}); err != nil || st.conn.TxStatus() != idle {
		st.discard()
	}
}

// discard closes a connection that is in doubt, so that the pool makes a new one.
func (st *state) discard() {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	_ = st.conn.Close(ctx)
}
