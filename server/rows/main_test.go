package rows_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/rows"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// connect opens a connection with the parameters that the encoders rely on.
func connect(t testing.TB, url string) *pgconn.PgConn {
	t.Helper()
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range rows.RuntimeParams() {
		cfg.RuntimeParams[k] = v
	}
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_ = conn.Close(ctx)
	})
	return conn
}

// pool opens a pool with the parameters that the encoders rely on.
func pool(t testing.TB, url string, size int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range rows.RuntimeParams() {
		cfg.ConnConfig.RuntimeParams[k] = v
	}
	cfg.MaxConns = size
	p, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// setup opens a connection to a new database in which the statements were run.
func setup(t testing.TB, sql ...string) *pgconn.PgConn {
	t.Helper()
	conn := connect(t, pgtest.Database(t))
	exec(t, conn, sql...)
	return conn
}

func exec(t testing.TB, conn *pgconn.PgConn, sql ...string) {
	t.Helper()
	for _, s := range sql {
		if _, err := conn.Exec(context.Background(), s).ReadAll(); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// statement makes a statement. The columns are names, with the encoding after a colon (n, b, j, t), and a minus in front
// of hidden ones.
func statement(sql string, args []string, columns ...string) *compile.Statement {
	s := &compile.Statement{SQL: sql}
	for _, a := range args {
		s.Args = append(s.Args, []byte(a))
	}
	for _, c := range columns {
		var o compile.Output
		if c[0] == '-' {
			o.Hidden, c = true, c[1:]
		}
		if n := len(c) - 2; n >= 0 && c[n] == ':' {
			o.Encoding = map[byte]compile.Encoding{'n': compile.Number, 'b': compile.Bool, 'j': compile.JSON, 't': compile.Timestamp}[c[n+1]]
			c = c[:n]
		}
		o.Name = c
		s.Output = append(s.Output, o)
	}
	return s
}

// value runs a statement with one column and one row and returns the value.
func value(t testing.TB, conn *pgconn.PgConn, s *rows.Session, sql string) string {
	t.Helper()
	var v rows.Values
	if err := rows.Run(context.Background(), conn, s, rows.Step{Statement: statement(sql, nil, "v"), Sink: &v}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if len(v.Rows) != 1 || v.Rows[0][0] == nil {
		t.Fatalf("%s: got %v, want one value", sql, v.Rows)
	}
	return *v.Rows[0][0]
}

// wantCode fails the test unless err is PostgreSQL's with the code.
func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got error %v, want one with code %s", err, code)
	}
}

// wantClean fails the test unless the connection is as new.
func wantClean(t testing.TB, conn *pgconn.PgConn) {
	t.Helper()
	if conn.IsClosed() || conn.IsBusy() || conn.TxStatus() != 'I' {
		t.Fatalf("closed: %v, busy: %v, status: %c", conn.IsClosed(), conn.IsBusy(), conn.TxStatus())
	}
	got := value(t, conn, nil, `select concat_ws(' ', current_user = session_user, coalesce(current_setting('request.jwt.claims', true), ''),
		current_setting('statement_timeout'), current_setting('transaction_read_only'))`)
	if want := "t  0 off"; got != want {
		t.Fatalf("settings are left: got %q, want %q", got, want)
	}
}

// failing is a sink that fails, or panics, at the row with a number.
type failing struct {
	rows.Values
	at    int
	panic bool
}

var errSink = errors.New("the sink had enough")

func (f *failing) Row(values [][]byte) error {
	if f.at--; f.at < 0 {
		if f.panic {
			panic(errSink)
		}
		return errSink
	}
	return nil
}

func numbered(n int) string { return fmt.Sprintf("select i from generate_series(1, %d) i", n) }

// prepared is the URL of a new database in which the statements were run.
func prepared(t testing.TB, sql ...string) string {
	t.Helper()
	url := pgtest.Database(t)
	exec(t, connect(t, url), sql...)
	return url
}

func randomName() string { return strings.ToLower(rand.Text()) }
