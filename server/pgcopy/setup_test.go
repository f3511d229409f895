package pgcopy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgcopy/inventory"
	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture returns the URL of a database filled by testdata/fixture.sql.
func fixture(t testing.TB) string {
	return pgtest.Template(t, "fixture", func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(context.Background())
		files := []string{"fixture.sql"}
		if serverMajor(t, conn) >= 18 {
			files = append(files, "fixture18.sql")
		}
		for _, name := range []string{alice, bob} {
			if _, err := conn.Exec(ctx, "create role "+name); err != nil {
				return err
			}
		}
		for _, file := range files {
			script, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				return err
			}
			names := strings.NewReplacer("pgcopy_alice", alice, "pgcopy_bob", bob)
			for _, statement := range splitScript(names.Replace(string(script))) {
				if _, err := conn.PgConn().Exec(ctx, statement).ReadAll(); err != nil {
					return fmt.Errorf("%s: %s: %w", file, title(statement), err)
				}
			}
		}
		return nil
	})
}

// Roles belong to the whole server, which other packages' tests may use at the
// same time, and earlier runs of these.
var alice, bob = roleName("alice"), roleName("bob")

func roleName(name string) string {
	return fmt.Sprintf("pgcopy_%s_%08x", name, rand.Uint32())
}

// role creates a role with a name of its own. It is dropped after the test, and
// what it owns in the server's first database with it.
func role(t testing.TB, options string) string {
	t.Helper()
	name := roleName("role")
	admin := connectTo(t, pgtest.ServerURL(t))
	execute(t, admin, "create role "+name+" password 'secret' "+options)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), pgtest.ServerURL(t))
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.PgConn().Exec(context.Background(), "drop owned by "+name+"; drop role "+name).ReadAll(); err != nil {
			t.Errorf("dropping the role: %v", err)
		}
	})
	return name
}

// schemaReaders are the ways to read a schema: the paths of a pg_dump that fits
// the server, or "".
func schemaReaders(t testing.TB) map[string]string {
	readers := map[string]string{"builtin": ""}
	if path := pgDump(t); path != "" {
		readers["pg_dump"] = path
	}
	return readers
}

// pgDump returns the path of a pg_dump that fits the server, or "".
func pgDump(t testing.TB) string {
	t.Helper()
	inst, err := pgserver.Find(pgserver.FindOptions{BinDir: os.Getenv("BOUGH_TEST_POSTGRES_BIN"), CacheDir: pgserver.DefaultCacheDir()})
	if err != nil {
		return ""
	}
	path, ok := inst.Tool("pg_dump")
	if !ok {
		return ""
	}
	if major, err := DumpVersion(t.Context(), path); err != nil || major < serverMajor(t, connectTo(t, pgtest.ServerURL(t))) {
		return ""
	}
	return path
}

func serverMajor(t testing.TB, conn *pgx.Conn) int {
	t.Helper()
	return one[int](t, conn, "select current_setting('server_version_num')::int / 10000")
}

// connectTo opens a connection for the test.
func connectTo(t testing.TB, url string) *pgx.Conn {
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
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// one returns the value that a query yields.
func one[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) (value T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func config(t testing.TB, url string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// withUser returns a URL for another role, which has the password "secret".
func withUser(t testing.TB, u, user string) string {
	t.Helper()
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	parsed.User = url.UserPassword(user, "secret")
	return parsed.String()
}

// differences compares the catalogs of two databases.
func differences(t testing.TB, source, target string) []inventory.Difference {
	t.Helper()
	read := func(url string) *inventory.Inventory {
		inv, err := inventory.Read(t.Context(), connectTo(t, url), false)
		if err != nil {
			t.Fatal(err)
		}
		return inv
	}
	return inventory.Compare(read(source), read(target))
}

// contents returns a digest for each table, sequence, materialised view and
// large object, which does not depend on the order of rows.
func contents(t testing.TB, url string) map[string]string {
	t.Helper()
	conn := connectTo(t, url)
	if err := applySettings(t.Context(), conn, false, nil); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `
		select c.oid::regclass::text, c.relkind = 'S',
			(select coalesce(string_agg(quote_ident(attname), ', ' order by attname), '') from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped)
		from pg_class c
		where (c.relkind in ('r', 'S') or c.relkind = 'm' and c.relispopulated) and c.oid >= 16384 and `+lasting("c.relnamespace"))
	if err != nil {
		t.Fatal(err)
	}
	type relation struct {
		Name     string
		Sequence bool
		Columns  string // the order may change in a child
	}
	relations, err := pgx.CollectRows(rows, pgx.RowToStructByPos[relation])
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, r := range relations {
		sql := "select count(*) || ' rows, ' || coalesce(sum(hashtextextended(row(" + r.Columns + ")::text, 0)), 0) from only " + r.Name
		if r.Sequence {
			sql = "select last_value || ', called ' || is_called from " + r.Name
		}
		digests[r.Name] = one[string](t, conn, sql)
	}
	digests["large objects"] = one[string](t, conn, "select coalesce(string_agg(oid || ' ' || md5(lo_get(oid)), ', ' order by oid), '') from pg_largeobject_metadata")
	return digests
}

// dumpOf returns what pg_dump writes of a schema, but for user mappings, and
// with privileges in order.
func dumpOf(t testing.TB, path, u string) []string {
	t.Helper()
	c := copier{Options: Options{Source: config(t, u), PGDump: path}, encoding: "UTF8", database: config(t, u).Database}
	snapshot := connectTo(t, u)
	execute(t, snapshot, "begin isolation level repeatable read")
	c.snapshot = one[string](t, snapshot, "select pg_export_snapshot()")
	var statements []string
	for _, section := range []string{"pre-data", "post-data"} {
		script, err := c.dump(t.Context(), 15, section)
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, splitScript(script)...)
	}
	statements = slices.DeleteFunc(statements, func(s string) bool { return strings.HasPrefix(s, "CREATE USER MAPPING") })
	// The order in which roles got privileges is kept in no other way.
	for i := 0; i < len(statements); {
		j := i + 1
		for j < len(statements) && strings.HasPrefix(statements[i], "GRANT ") && strings.HasPrefix(statements[j], "GRANT ") {
			j++
		}
		slices.Sort(statements[i:j])
		i = j
	}
	return statements
}

// mustBeEqual fails the test unless the copy has the schema and, if it should,
// the rows of its source.
func mustBeEqual(t testing.TB, source, target string, rows bool) {
	t.Helper()
	for _, d := range differences(t, source, target) {
		t.Errorf("the copy differs: %v", d)
	}
	if !rows {
		return
	}
	if diff := cmp.Diff(contents(t, source), contents(t, target)); diff != "" {
		t.Errorf("rows of the copy (-want +got):\n%s", diff)
	}
}
