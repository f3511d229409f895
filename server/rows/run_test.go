package rows_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/rows"
)

// countingConn counts the writes to the server: each is the beginning of a round trip.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// counted opens a connection and returns a function that tells how many round trips there were since its last call.
func counted(t *testing.T, url string) (*pgconn.PgConn, func() int64) {
	t.Helper()
	var writes atomic.Int64
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return countingConn{c, &writes}, err
	}
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn, func() int64 { return writes.Swap(0) }
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	conn, trips := counted(t, pgtest.Database(t))
	ctx := t.Context()
	session := &rows.Session{Settings: []rows.Setting{{Name: "request.method", Value: "GET"}}}
	one := rows.Step{Statement: statement("select 1", nil, "a")}
	two := rows.Step{Statement: statement("select 2", nil, "a")}
	trips()
	want := func(what string, n int64) {
		t.Helper()
		if got := trips(); got != n {
			t.Errorf("%s: %d round trips, want %d", what, got, n)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(rows.Run(ctx, conn, session, one, two))
	want("statements that are new", 1)
	must(rows.Run(ctx, conn, session, one, two))
	want("prepared statements", 1)
	later := rows.Step{Statement: statement("select 'later'", nil, "a")}
	wantCode(t, rows.Run(ctx, conn, session, one, rows.Step{Statement: statement("not SQL", nil)}, later), "42601")
	want("a failure", 1)
	must(rows.Run(ctx, conn, session, two, later))
	want("a statement behind the one that failed", 1)
	tx, err := rows.Begin(ctx, conn, session, "serializable")
	must(err)
	want("begin", 0)
	must(tx.Run(ctx, one))
	want("first statement of a transaction", 1)
	must(tx.Run(ctx, two))
	want("second statement of a transaction", 1)
	must(tx.Commit(ctx))
	want("commit", 1)
	if err := tx.Commit(ctx); !errors.Is(err, rows.ErrTxDone) {
		t.Errorf("got %v", err)
	}
	tx.Rollback(ctx)
	want("after the end", 0)
}

func TestSettingsHoldForTheTransactionOnly(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	role := createRole(t, conn)
	odd := `a'b"c\d`
	s := &rows.Session{Role: role, Settings: []rows.Setting{
		{"search_path", "pg_catalog"}, {"request.jwt.claims", `{"sub": "it's"}`}, {"request.headers", odd}, {"request.path", ""},
		{"statement_timeout", "12345"}, {"transaction_read_only", "on"}, {"timezone", "Asia/Tokyo"},
	}}
	got := value(t, conn, s, `select concat_ws('|', current_user, current_setting('search_path'), current_setting('request.jwt.claims'),
		current_setting('request.headers'), current_setting('request.path'), current_setting('statement_timeout'), current_setting('transaction_read_only'),
		current_setting('timezone'))`)
	want := role + `|pg_catalog|{"sub": "it's"}|` + odd + `||12345ms|on|Asia/Tokyo`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantClean(t, conn)
	// The same shape with other values, another shape, and none.
	s.Settings[5].Value = "off"
	if got := value(t, conn, s, "select current_setting('transaction_read_only')"); got != "off" {
		t.Errorf("read only: %s", got)
	}
	if got := value(t, conn, &rows.Session{Role: role}, "select current_user::text"); got != role {
		t.Errorf("user: %s", got)
	}
	wantClean(t, conn)
}

// createRole creates a role without rights that is dropped after the test.
func createRole(t testing.TB, conn *pgconn.PgConn) string {
	t.Helper()
	role := fmt.Sprintf("r_%d_%d", time.Now().UnixNano(), roles.Add(1))
	exec(t, conn, "create role "+role)
	t.Cleanup(func() {
		if !conn.IsClosed() {
			exec(t, conn, "drop owned by "+role, "drop role "+role)
		}
	})
	return role
}

var roles atomic.Int64

func TestSettingsOfAnyNumber(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	for _, n := range []int{1, 89, 90, 91, 200} {
		var s rows.Session
		for i := range n {
			s.Settings = append(s.Settings, rows.Setting{Name: fmt.Sprintf("test.n%d", i), Value: fmt.Sprint(i)})
		}
		if got := value(t, conn, &s, fmt.Sprintf("select current_setting('test.n0') || ' ' || current_setting('test.n%d')", n-1)); got != fmt.Sprintf("0 %d", n-1) {
			t.Errorf("%d settings: got %s", n, got)
		}
	}
}

func TestNothingLeaksFromFailures(t *testing.T) {
	t.Parallel()
	conn := setup(t, "create table t (id int primary key)")
	role := createRole(t, conn)
	exec(t, conn, "grant all on t to "+role)
	session := &rows.Session{Role: role, Settings: []rows.Setting{{"request.jwt.claims", claims}, {"statement_timeout", "60000"}}}
	insert := rows.Step{Statement: statement("insert into t values (1)", nil)}
	long := statement("select i, repeat('x', 100) from (select generate_series(1, 50000000000) i) s", nil, "i:n", "x")
	runners := map[string]func(context.Context, ...rows.Step) error{
		"run": func(ctx context.Context, steps ...rows.Step) error { return rows.Run(ctx, conn, session, steps...) },
		"tx": func(ctx context.Context, steps ...rows.Step) error {
			tx, err := rows.Begin(ctx, conn, session, "repeatable read")
			if err != nil {
				return err
			}
			defer tx.Rollback(ctx)
			if err := tx.Run(ctx, insert); err != nil {
				return err
			}
			return tx.Run(ctx, steps[1:]...)
		},
	}
	for name, run := range runners {
		t.Run(name, func(t *testing.T) {
			err := run(t.Context(), insert, rows.Step{Statement: statement("select 1/0", nil, "a")})
			wantCode(t, err, "22012")
			wantClean(t, conn)

			err = run(t.Context(), insert, rows.Step{Statement: statement("not SQL", nil, "a")})
			wantCode(t, err, "42601")
			wantClean(t, conn)

			err = run(t.Context(), insert, rows.Step{Statement: long, Sink: &failing{at: 3}})
			if !errors.Is(err, errSink) {
				t.Errorf("got %v", err)
			}
			wantClean(t, conn)

			func() {
				defer func() {
					if r := recover(); r != errSink {
						t.Errorf("recovered %v", r)
					}
				}()
				_ = run(t.Context(), insert, rows.Step{Statement: long, Sink: &failing{at: 3, panic: true}})
				t.Error("no panic")
			}()
			wantClean(t, conn)

			ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer stop()
			start := time.Now()
			err = run(ctx, insert, rows.Step{Statement: statement("select pg_sleep(60)", nil, "a")})
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 40*time.Second {
				t.Errorf("got %v after %v", err, time.Since(start))
			}
			wantCode(t, err, "57014")
			wantClean(t, conn)

			if err := run(ctx, insert, insert); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the context's error", err)
			}
			wantClean(t, conn)

			// The statement's own timeout is not the context's.
			session.Settings[1].Value = "50"
			err = run(t.Context(), insert, rows.Step{Statement: statement("select pg_sleep(60)", nil, "a")})
			session.Settings[1].Value = "60000"
			wantCode(t, err, "57014")
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			wantClean(t, conn)

			if got := value(t, conn, nil, "select count(*) from t"); got != "0" {
				t.Errorf("%s rows are left", got)
			}
		})
	}
}

// A cancellation must never hit what the connection does next.
func TestCancellationIsOverWhenRunReturns(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	next := rows.Step{Statement: statement("select 1", nil, "a")}
	cancelled := 0
	for i := range 100 {
		ctx, stop := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Millisecond)
		sleep := fmt.Sprint(0.001 * float64(i%23))
		err := rows.Run(ctx, conn, nil, rows.Step{Statement: statement("select pg_sleep($1::float8)", []string{sleep}, "a")})
		stop()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancelled++
		}
		for range 3 {
			if err := rows.Run(t.Context(), conn, nil, next); err != nil {
				t.Fatalf("after %d cancellations: %v", cancelled, err)
			}
		}
	}
	if cancelled == 0 {
		t.Error("nothing was cancelled")
	}
	wantClean(t, conn)
}

// slowCancel opens a connection whose requests to cancel reach the server late.
func slowCancel(t *testing.T, delay time.Duration) *pgconn.PgConn {
	t.Helper()
	cfg, err := pgconn.ParseConfig(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	dial, first := cfg.DialFunc, true
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !first {
			time.Sleep(delay)
		}
		first = false
		return dial(ctx, network, addr)
	}
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestLateCancellationDoesNotHitTheNextStatement(t *testing.T) {
	t.Parallel()
	conn := slowCancel(t, 300*time.Millisecond)
	ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	sleep := func(s string) rows.Step {
		return rows.Step{Statement: statement("select pg_sleep($1::float8)", []string{s}, "a")}
	}
	// The statement ends when the cancellation is on its way.
	if err := rows.Run(ctx, conn, nil, sleep("0.15")); err != nil {
		t.Log(err)
	}
	run(t, conn, nil, sleep("0.6"))
}

func TestLostConnection(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	conn, killer := connect(t, url), connect(t, url)
	err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: statement("select pg_terminate_backend(pg_backend_pid())", nil, "a")})
	wantCode(t, err, "57P01")
	if !conn.IsClosed() {
		t.Error("the connection is open")
	}
	if err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: statement("select 1", nil, "a")}); err == nil {
		t.Error("no error on a closed connection")
	}
	conn = connect(t, url)
	tx, err := rows.Begin(t.Context(), conn, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Run(t.Context(), rows.Step{Statement: statement("select 1", nil, "a")}); err != nil {
		t.Fatal(err)
	}
	exec(t, killer, fmt.Sprintf("select pg_terminate_backend(%d, 5000)", conn.PID()))
	if err := tx.Commit(t.Context()); err == nil || !conn.IsClosed() {
		t.Errorf("commit: %v, closed: %v", err, conn.IsClosed())
	}
	tx.Rollback(t.Context())
}

// When there is much to send and much to receive, neither side may wait for the other.
func TestLargeStatementsAndLargeResults(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	big := strings.Repeat("x", 4<<20)
	give := statement("select repeat('y', 1000) from generate_series(1, 8000)", nil, "a")
	take := statement("select length($1::text)", []string{big}, "a:n")
	var got [3]rows.Result
	var lengths [2]rows.Values
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if err := rows.Run(ctx, conn, &rows.Session{Settings: []rows.Setting{{"request.headers", big}}},
		rows.Step{Statement: give, Result: &got[0]}, rows.Step{Statement: take, Sink: &lengths[0]},
		rows.Step{Statement: give, Result: &got[1]}, rows.Step{Statement: take, Sink: &lengths[1]}, rows.Step{Statement: give, Result: &got[2]},
	); err != nil {
		t.Fatal(err)
	}
	for _, r := range got {
		if r.Rows != 8000 {
			t.Errorf("%d rows", r.Rows)
		}
	}
	for _, l := range lengths {
		if *l.Rows[0][0] != fmt.Sprint(len(big)) {
			t.Errorf("length %s", *l.Rows[0][0])
		}
	}
	// A failure while there is more to send.
	err := rows.Run(ctx, conn, nil, rows.Step{Statement: statement("select 1/0", nil, "a")}, rows.Step{Statement: take})
	wantCode(t, err, "22012")
	wantClean(t, conn)
}

func TestTooManyParameters(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	s := &compile.Statement{SQL: "select 1", Args: make([][]byte, 70000)}
	if err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: statement("select 1", nil, "a")}, rows.Step{Statement: s}); err == nil {
		t.Error("no error")
	}
	wantClean(t, conn)
	if got := value(t, conn, nil, "select 1"); got != "1" {
		t.Errorf("got %s", got)
	}
}

// A deferred constraint fails when all rows have arrived.
func TestDeferredConstraintFailsBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	conn := setup(t, `create table parent (id int primary key)`,
		`create table child (id int primary key, parent_id int references parent deferrable initially deferred)`)
	insert := statement("insert into child select i, 1 from generate_series(1, 5000) i returning id, repeat('x', 100)", nil, "id:n", "x")
	var sent pieces
	body := rows.NewBody(func() (io.Writer, error) { return &sent, nil }, true)
	defer body.Release()
	var result rows.Result
	step := rows.Step{Statement: insert, Sink: rows.NewObjects(body, insert.Output, rows.Options{}), Result: &result}
	err := rows.Run(t.Context(), conn, nil, step)
	wantCode(t, err, "23503")
	if errors.Is(err, rows.ErrAborted) || sent.Len() != 0 || len(body.Bytes()) != 0 || result.Rows != 5000 {
		t.Errorf("%v; %d bytes sent, %d held, %d rows", err, sent.Len(), len(body.Bytes()), result.Rows)
	}
	wantClean(t, conn)

	for _, end := range []func(*rows.Tx) error{
		func(tx *rows.Tx) error { return tx.CheckConstraints(t.Context()) },
		func(tx *rows.Tx) error { return tx.Commit(t.Context()) },
	} {
		tx, err := rows.Begin(t.Context(), conn, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Run(t.Context(), step); err != nil {
			t.Fatal(err)
		}
		if len(body.Bytes()) < 5000*100 {
			t.Errorf("%d bytes", len(body.Bytes()))
		}
		err = end(tx)
		wantCode(t, err, "23503")
		if errors.Is(err, rows.ErrAborted) || len(body.Bytes()) != 0 {
			t.Errorf("%v; %d bytes held", err, len(body.Bytes()))
		}
		if err := tx.Run(t.Context(), step); !errors.Is(err, rows.ErrTxDone) {
			t.Errorf("got %v", err)
		}
		wantClean(t, conn)
	}
	if sent.Len() != 0 {
		t.Errorf("%d bytes sent", sent.Len())
	}
}

func TestMidStreamFailureIsAborted(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	s := statement("select 1/(40000 - i), repeat('x', 10) from generate_series(1, 50000) i", nil, "a:n", "b")
	var sent pieces
	body := rows.NewBody(func() (io.Writer, error) { return &sent, nil }, false)
	defer body.Release()
	err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: s, Sink: rows.NewObjects(body, s.Output, rows.Options{})})
	wantCode(t, err, "22012")
	if !errors.Is(err, rows.ErrAborted) || sent.Len() == 0 || strings.HasSuffix(sent.String(), "]") {
		t.Errorf("got %v after %d bytes", err, sent.Len())
	}
	wantClean(t, conn)
	// The same in a transaction.
	again := rows.NewBody(func() (io.Writer, error) { return &sent, nil }, false)
	defer again.Release()
	tx, err := rows.Begin(t.Context(), conn, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Run(t.Context(), rows.Step{Statement: s, Sink: rows.NewObjects(again, s.Output, rows.Options{})}); !errors.Is(err, rows.ErrAborted) {
		t.Errorf("got %v", err)
	}
	wantClean(t, conn)
}

func TestAClientThatCannotBeWrittenToEndsTheStatement(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	s := statement("select i, repeat('x', 100) from (select generate_series(1, 50000000000) i) s", nil, "a:n", "b")
	for fail := range 3 {
		sent := pieces{fail: fail}
		body := rows.NewBody(func() (io.Writer, error) {
			if fail == 0 {
				return nil, errSink
			}
			return &sent, nil
		}, false)
		err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: s, Sink: rows.NewObjects(body, s.Output, rows.Options{})})
		if err == nil || errors.Is(err, rows.ErrAborted) != (fail > 0) {
			t.Errorf("write %d: got %v", fail, err)
		}
		wantClean(t, conn)
		body.Release()
	}
}

func TestStepsShareABody(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	body := rows.NewBody(nil, false)
	defer body.Release()
	one, bad := statement(numbered(2), nil, "a:n"), statement("select 1/(2-i) from generate_series(1, 2) i", nil, "b:n")
	run := func(second *compile.Statement) (string, error) {
		err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: one, Sink: rows.NewObjects(body, one.Output, rows.Options{})},
			rows.Step{Statement: second, Sink: rows.NewNDJSON(body, second.Output, rows.Options{})})
		return string(body.Bytes()), err
	}
	if got, err := run(bad); got != "" {
		t.Errorf("got %q after %v", got, err)
	}
	got, err := run(one)
	if diff := cmp.Diff(`[{"a":1},{"a":2}]{"a":1}`+"\n"+`{"a":2}`+"\n", got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestASinkCannotUseItsConnection(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	var inner, begin error
	sink := sinkFunc(func([][]byte) error {
		inner = rows.Run(t.Context(), conn, nil)
		_, begin = rows.Begin(t.Context(), conn, nil, "")
		return nil
	})
	if err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: statement("select 1", nil, "a"), Sink: sink}); err != nil {
		t.Fatal(err)
	}
	if inner == nil || begin == nil {
		t.Errorf("no error: %v, %v", inner, begin)
	}
	wantClean(t, conn)
}

type sinkFunc func([][]byte) error

func (sinkFunc) Begin() error           { return nil }
func (f sinkFunc) Row(v [][]byte) error { return f(v) }
func (sinkFunc) End() error             { return nil }
func (sinkFunc) Reset() bool            { return true }
