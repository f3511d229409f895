package introspect_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var options = introspect.Options{Schemas: []string{"public"}, Roles: []string{"anon", "authenticated", "service_role"}}

// connect returns a connection to a database, closed after the test.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

// load returns the schema of a new database after ddl was run in it.
func load(t testing.TB, ddl string, opts introspect.Options) *introspect.Schema {
	t.Helper()
	conn := connect(t, pgtest.Database(t))
	execute(t, conn, ddl)
	return loadFrom(t, conn, opts)
}

func loadFrom(t testing.TB, conn *pgx.Conn, opts introspect.Options) *introspect.Schema {
	t.Helper()
	s, err := introspect.Load(t.Context(), conn, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// relation returns a relation of the schema public.
func relation(t testing.TB, s *introspect.Schema, name string) *introspect.Relation {
	t.Helper()
	r := s.Relation("public", name)
	if r == nil {
		t.Fatalf("there is no relation %q", name)
	}
	return r
}

// connectTo returns a connection to the server, to ask what it can do.
func connectTo(t testing.TB) *pgx.Conn {
	t.Helper()
	return connect(t, pgtest.ServerURL(t))
}
