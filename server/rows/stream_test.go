package rows_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/rows"
)

// serve answers requests with the statement's rows, as the product does. What Run returned is sent to errs.
func serve(t testing.TB, p *pgxpool.Pool, s *compile.Statement) (url string, errs chan error) {
	t.Helper()
	errs = make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := p.Acquire(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer conn.Release()
		body := rows.NewBody(func() (io.Writer, error) { return w, nil }, false)
		defer body.Release()
		err = rows.Run(r.Context(), conn.Conn().PgConn(), nil, rows.Step{Statement: s, Sink: rows.NewObjects(body, s.Output, rows.Options{})})
		if err == nil && body.Streaming() {
			err = body.Finish()
		} else if err == nil {
			_, err = w.Write(body.Bytes())
		}
		errs <- err
		switch {
		case errors.Is(err, rows.ErrAborted):
			panic(http.ErrAbortHandler)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	srv.Config.ErrorLog = nil
	t.Cleanup(srv.Close)
	return srv.URL, errs
}

func get(t testing.TB, ctx context.Context, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// A million rows of which the client takes a few at a time: neither the rows nor the answer may pile up. The test is not
// parallel, so that others leave the heap alone.
func TestLargeAnswerNeedsLittleMemory(t *testing.T) {
	p := pool(t, pgtest.Database(t), 1)
	s := statement("select i, 'some text of the row ' || i, now() from (select generate_series(1, 1000000) i) s", nil, "id:n", "text", "at:t")
	url, errs := serve(t, p, s)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	before, peak := heap(), uint64(0)

	resp := get(t, t.Context(), url)
	if resp.ContentLength >= 0 {
		t.Errorf("Content-Length %d", resp.ContentLength)
	}
	buf := make([]byte, 64<<10)
	size, objects := 0, 0
	var last byte
	for i := 0; ; i++ {
		n, err := resp.Body.Read(buf)
		size += n
		objects += bytes.Count(buf[:n], []byte("{"))
		if n > 0 {
			last = buf[n-1]
		}
		if i%200 == 0 {
			time.Sleep(time.Millisecond)
			peak = max(peak, heap())
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	if objects != 1000000 || last != ']' {
		t.Errorf("%d objects, the end is %c", objects, last)
	}
	grown := int64(peak) - int64(before)
	t.Logf("%d MB, heap grew by %d KB", size>>20, grown>>10)
	if grown > 6<<20 {
		t.Errorf("the heap grew by %d KB", grown>>10)
	}
}

// A client that reads nothing must stop the statement, and one that goes away must end it.
func TestSlowClientStopsTheStatement(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	p := pool(t, url, 1)
	watcher := connect(t, url)
	s := statement("select i, repeat('x', 1000) from (select generate_series(1, 100000000) i) s /* endless */", nil, "id:n", "x")
	server, errs := serve(t, p, s)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	resp := get(t, ctx, server)
	if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		return simple(t, watcher, `select coalesce(max(pid || ' ' || state || ' ' || coalesce(wait_event, '')), 'none')
			from pg_stat_activity where query like '%endless%' and pid <> pg_backend_pid()`)
	}
	var pid string
	eventually(t, func() error {
		var status, wait string
		if _, err := fmt.Sscan(state(), &pid, &status, &wait); err != nil || status != "active" || wait != "ClientWrite" {
			return fmt.Errorf("the statement does not wait for its client: %s", state())
		}
		return nil
	})
	stop()
	eventually(t, func() error {
		if got := state(); !strings.HasPrefix(got, pid+" idle") {
			return fmt.Errorf("the statement goes on: %s", got)
		}
		return nil
	})
	if err := <-errs; !errors.Is(err, rows.ErrAborted) {
		t.Errorf("got %v", err)
	}
	conn, err := p.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if got := fmt.Sprint(conn.Conn().PgConn().PID()); got != pid {
		t.Errorf("the connection is another: %s instead of %s", got, pid)
	}
	wantClean(t, conn.Conn().PgConn())
}

// The client goes away before the first row.
func TestAbandonedStatementIsCancelled(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	p := pool(t, url, 1)
	watcher := connect(t, url)
	server, errs := serve(t, p, statement("select pg_sleep(300) /* abandoned */", nil, "a"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	const active = "select count(*) from pg_stat_activity where query like '%abandoned%' and state = 'active' and pid <> pg_backend_pid()"
	eventually(t, func() error {
		if simple(t, watcher, active) != "1" {
			return errors.New("the statement does not run")
		}
		return nil
	})
	stop()
	eventually(t, func() error {
		if simple(t, watcher, active) != "0" {
			return errors.New("the statement goes on")
		}
		return nil
	})
	<-done
	if err := <-errs; !errors.Is(err, context.Canceled) || errors.Is(err, rows.ErrAborted) {
		t.Errorf("got %v", err)
	}
	conn, err := p.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	wantClean(t, conn.Conn().PgConn())
	if p.Stat().NewConnsCount() != 1 {
		t.Errorf("%d connections were made", p.Stat().NewConnsCount())
	}
}

func TestClientSeesThatAnAnswerIsNotWhole(t *testing.T) {
	t.Parallel()
	p := pool(t, pgtest.Database(t), 1)
	server, errs := serve(t, p, statement("select 1/(20000 - i), repeat('x', 100) from (select generate_series(1, 30000) i) s", nil, "a:n", "b"))
	resp := get(t, t.Context(), server)
	n, err := io.Copy(io.Discard, bufio.NewReader(resp.Body))
	if err == nil || n == 0 || resp.StatusCode != http.StatusOK {
		t.Errorf("status %d, %d bytes, %v", resp.StatusCode, n, err)
	}
	if err := <-errs; !errors.Is(err, rows.ErrAborted) {
		t.Errorf("got %v", err)
	}
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// Many requests with roles, settings and fates of their own share few connections.
func TestSessionsNeverMix(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	admin := connect(t, url)
	var names []string
	for range 4 {
		names = append(names, createRole(t, admin))
	}
	p := pool(t, url, 3)
	const goroutines, requests = 8, 60
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range requests {
				role, claim := names[(g+i)%len(names)], fmt.Sprintf("%d-%d", g, i)
				s := &rows.Session{Role: role}
				want := role + " "
				if i%3 != 0 {
					s.Settings = append(s.Settings, rows.Setting{Name: "request.jwt.claims", Value: claim})
					want += claim
				}
				if err := request(t, p, s, i, want); err != nil {
					t.Errorf("goroutine %d, request %d: %v", g, i, err)
				}
			}
		})
	}
	wg.Wait()
}

// request runs a statement that returns user and claims among others that fail, are cancelled, or panic.
func request(t *testing.T, p *pgxpool.Pool, s *rows.Session, i int, want string) error {
	ctx := t.Context()
	conn, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	pg := conn.Conn().PgConn()
	var v rows.Values
	who := rows.Step{Statement: statement("select current_user || ' ' || coalesce(current_setting('request.jwt.claims', true), '')", nil, "who"), Sink: &v}
	steps := []rows.Step{who}
	switch i % 5 {
	case 1:
		steps = append(steps, rows.Step{Statement: statement("select 1/0", nil, "a")})
	case 2:
		steps = append(steps, rows.Step{Statement: statement("select 1", nil, "a"), Sink: &failing{panic: true}})
	case 3:
		short, stop := context.WithTimeout(ctx, 2*time.Millisecond)
		defer stop()
		ctx = short
		steps = append(steps, rows.Step{Statement: statement("select pg_sleep(1)", nil, "a")})
	}
	kept := sinkFunc(func(values [][]byte) error {
		if got := string(values[0]); got != want {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
	steps[0].Sink = kept
	func() {
		defer func() {
			if recover() != nil {
				err = errSink
			}
		}()
		if i%2 == 0 {
			err = rows.Run(ctx, pg, s, steps...)
			return
		}
		var tx *rows.Tx
		if tx, err = rows.Begin(ctx, pg, s, ""); err != nil {
			return
		}
		defer tx.Rollback(ctx)
		if err = tx.Run(ctx, steps...); err == nil {
			err = tx.Commit(ctx)
		}
	}()
	if err != nil && strings.HasPrefix(err.Error(), "got ") {
		return err
	}
	if failed := err != nil; failed != (i%5 >= 1 && i%5 <= 3) {
		return fmt.Errorf("kind %d: %w", i%5, err)
	}
	return nil
}

// Requests go on while the schema changes under them.
func TestSchemaChangesUnderLoad(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	admin := connect(t, url)
	exec(t, admin, "create table t (id int primary key, v int)", "insert into t select i, i from generate_series(1, 100) i")
	p := pool(t, url, 3)
	s := statement("select id, v from t where id = $1", []string{"7"}, "id:n", "v")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := p.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				body := rows.NewBody(nil, false)
				err = rows.Run(t.Context(), conn.Conn().PgConn(), nil, rows.Step{Statement: s, Sink: rows.NewObjects(body, s.Output, rows.Options{})})
				if got := string(body.Bytes()); err != nil || got != `[{"id":7,"v":"7"}]` {
					t.Errorf("got %s, %v", got, err)
				}
				body.Release()
				conn.Release()
			}
		})
	}
	for i := range 40 {
		typ := []string{"bigint", "text", "int"}[i%3]
		exec(t, admin, "alter table t alter v type "+typ+" using v::text::"+typ)
	}
	close(stop)
	wg.Wait()
}
