package compile_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/query"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// writer is a database with a schema, in which statements are run as a role.
type writer struct {
	conn *pgx.Conn
	compile.Context
}

const writeAnon = "bough_write_anon"

// newWriter makes a database of its own for the test.
func newWriter(t testing.TB, ddl string) *writer {
	t.Helper()
	ctx := context.Background()
	pgtest.SharedRoles(t, writeAnon)
	conn, err := pgx.Connect(ctx, pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(ctx) })
	w := &writer{conn: conn}
	w.sql(t, ddl)
	s, err := introspect.Load(ctx, conn, introspect.Options{Schemas: []string{"public"}, Roles: []string{writeAnon}})
	if err != nil {
		t.Fatal(err)
	}
	w.Context = compile.Context{Schema: s, Role: introspect.Owner, Namespace: "public"}
	return w
}

func (w *writer) sql(t testing.TB, sql string) {
	t.Helper()
	if _, err := w.conn.Exec(context.Background(), sql); err != nil {
		t.Fatalf("%v in %.200s", err, sql)
	}
}

func (w *writer) rel(t testing.TB, name string) *introspect.Relation {
	t.Helper()
	rel := w.Schema.Relation("public", name)
	if rel == nil {
		t.Fatalf("no relation %s", name)
	}
	return rel
}

// run runs a statement as the server does, and returns its rows as text: the values separated by bars.
func (w *writer) run(s *compile.Statement) ([]string, pgconn.CommandTag, error) {
	r := w.conn.PgConn().ExecParams(context.Background(), s.SQL, s.Args, nil, nil, nil).Read()
	if r.Err != nil {
		return nil, r.CommandTag, r.Err
	}
	if len(r.Rows) > 0 && len(r.Rows[0]) != len(s.Output) {
		return nil, r.CommandTag, errors.New("the outputs do not describe the result: " + s.SQL)
	}
	return textRows(r), r.CommandTag, nil
}

func textRows(r *pgconn.Result) []string {
	rows := []string{}
	for _, row := range r.Rows {
		values := make([]string, len(row))
		for i, v := range row {
			values[i] = "NULL"
			if v != nil {
				values[i] = string(v)
			}
		}
		rows = append(rows, strings.Join(values, "|"))
	}
	return rows
}

// mustRun takes what compiling returns.
func (w *writer) mustRun(t testing.TB, s *compile.Statement, err error) []string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := w.run(s)
	if err != nil {
		t.Fatalf("%v in %s", err, s.SQL)
	}
	return rows
}

// rows reads rows by SQL in the same form.
func (w *writer) rows(t testing.TB, sql string) []string {
	t.Helper()
	r := w.conn.PgConn().ExecParams(context.Background(), sql, nil, nil, nil, nil).Read()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return textRows(r)
}

func body(t testing.TB, json string) *compile.Body {
	t.Helper()
	b, err := compile.ParseJSON([]byte(json))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func same(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// where is a request with filters of the form column, value.
func where(pairs ...string) *query.Request {
	q := &query.Request{}
	for i := 0; i < len(pairs); i += 2 {
		q.Where = append(q.Where, &query.Filter{Field: query.Field{Name: pairs[i]}, Op: query.Eq, Value: pairs[i+1]})
	}
	return q
}

// selecting is a request for columns.
func selecting(q *query.Request, columns ...string) *query.Request {
	for _, c := range columns {
		q.Select = append(q.Select, query.Item{Kind: query.Column, Field: query.Field{Name: c}})
	}
	return q
}

// wantFault checks the code and a part of the message of a refusal.
func wantFault(t testing.TB, err error, code, message string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatalf("got error %v, want fault %s", err, code)
	}
	if f.Code != code || !strings.Contains(f.Message+" "+f.Hint, message) {
		t.Errorf("got %s %q hint %q, want %s %q", f.Code, f.Message, f.Hint, code, message)
	}
}

// wantSQLState checks that PostgreSQL refuses a statement.
func (w *writer) wantSQLState(t testing.TB, s *compile.Statement, err error, state string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = w.run(s)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != state {
		t.Errorf("got %v, want SQLSTATE %s", err, state)
	}
}
