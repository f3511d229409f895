// Package pgtest gives tests databases of a real PostgreSQL. A package that
// uses it has
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and gets one private server, started when the first test asks for it and
// removed at the end. It does without everything that makes data safe, and its
// cluster is a copy of one made before, so that starting takes a moment only.
//
// BOUGH_TEST_DATABASE_URL, a superuser's URL, names a running server to use
// instead. BOUGH_TEST_POSTGRES_BIN names the programs to run; the newest found
// are used otherwise.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/pgserver"
)

// Main runs the tests, stops the server they used and exits. It is all that a
// TestMain needs to do.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for a TestMain that has more to do: it returns the exit code.
func Run(m *testing.M) (code int) {
	mainCalled = true
	defer func() {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: stopping PostgreSQL:", err)
			code = max(code, 1)
		}
	}()
	return m.Run()
}

// The server is the process's own, like the test binary's flags: tests have no
// place to pass it through.
var (
	mainCalled bool
	shared     server
)

// server is the package's server, started on first use.
type server struct {
	once sync.Once
	err  error
	url  string        // maintenance database, as superuser
	pool *pgxpool.Pool // for creating and dropping databases
	own  *pgserver.Server

	mu        sync.Mutex
	templates map[string]*template
}

// template is a database that others are copied from, built on first use.
type template struct {
	once     sync.Once
	database string
	err      error
}

const patience = 2 * time.Minute

// start starts the server unless that was done before.
func (s *server) start(t testing.TB) {
	t.Helper()
	if !mainCalled {
		t.Fatal("pgtest: the package has no TestMain that calls pgtest.Main")
	}
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.err = s.open(ctx)
	})
	if s.err != nil {
		t.Fatal("pgtest:", s.err)
	}
}

func (s *server) open(ctx context.Context) (err error) {
	s.url = os.Getenv("BOUGH_TEST_DATABASE_URL")
	if s.url == "" {
		if s.own, err = start(ctx, "", nil); err != nil {
			return err
		}
		s.url = s.own.URL("postgres")
	}
	if u, err := url.Parse(s.url); err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return errors.New("BOUGH_TEST_DATABASE_URL is not of the form postgres://user:password@host/database")
	}
	config, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		return err
	}
	config.MaxConns = 8
	// One statement a database: preparing it would be one more round trip.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	s.pool, err = pgxpool.NewWithConfig(ctx, config)
	return err
}

// stop drops the templates and removes the server.
func (s *server) stop() (err error) {
	if s.pool != nil {
		if s.own == nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			for _, tpl := range s.templates {
				err = errors.Join(err, s.drop(ctx, tpl.database))
			}
		}
		s.pool.Close()
	}
	if s.own != nil {
		err = errors.Join(err, stop(s.own))
	}
	return err
}

// ServerURL returns the superuser's URL of the database postgres (or the one
// that BOUGH_TEST_DATABASE_URL names) on the package's server. The server is
// shared: roles and databases made there need names of their own.
func ServerURL(t testing.TB) string {
	t.Helper()
	shared.start(t)
	return shared.url
}

// Database returns the superuser's URL of a new empty database, which is
// dropped after the test, open connections or not.
func Database(t testing.TB) string {
	t.Helper()
	shared.start(t)
	return shared.database(t, "template0")
}

// Template returns the superuser's URL of a new copy of a template, dropped
// after the test. The template is built once a process and name, by the first
// test that asks for it, in an empty database. If build fails, so do all tests
// that want the template. It must close its connections.
func Template(t testing.TB, name string, build func(ctx context.Context, url string) error) string {
	t.Helper()
	shared.start(t)
	shared.mu.Lock()
	if shared.templates == nil {
		shared.templates = map[string]*template{}
	}
	tpl := shared.templates[name]
	if tpl == nil {
		tpl = &template{database: uniqueName("tpl")}
		shared.templates[name] = tpl
	}
	shared.mu.Unlock()

	tpl.once.Do(func() {
		tpl.err = errors.New("build has ended the test or panicked")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		tpl.err = shared.build(ctx, tpl.database, build)
	})
	if tpl.err != nil {
		t.Fatalf("pgtest: building the template %s: %v", name, tpl.err)
	}
	return shared.database(t, tpl.database)
}

// build makes and closes a template: nothing can be copied while somebody is
// connected.
func (s *server) build(ctx context.Context, name string, build func(context.Context, string) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if _, err := s.pool.Exec(ctx, create(name, "template0")); err != nil {
		return err
	}
	if err := build(ctx, WithDatabase(s.url, name)); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "alter database "+pgx.Identifier{name}.Sanitize()+" with allow_connections false"); err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name)
	return err
}

// database creates a database for one test, as a copy of another. Copying
// files is the quicker way where fsync is off.
func (s *server) database(t testing.TB, template string) string {
	t.Helper()
	name := uniqueName("test")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.pool.Exec(ctx, create(name, template)); err != nil {
		t.Fatalf("pgtest: creating a database: %v", err)
	}
	t.Cleanup(func() {
		// The test's context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.drop(ctx, name); err != nil {
			t.Errorf("pgtest: dropping the database: %v", err)
		}
	})
	return WithDatabase(s.url, name)
}

// Role creates a role with a name of its own and options such as "login
// password 'secret'", and returns the name. After the test the role is dropped
// with what it owns in any database; a database that it owns is the superuser's
// then.
func Role(t testing.TB, options string) string {
	t.Helper()
	shared.start(t)
	name := uniqueName("role")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := shared.pool.Exec(ctx, "create role "+name+" "+options); err != nil {
		t.Fatalf("pgtest: creating a role: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := shared.dropRole(ctx, name); err != nil {
			t.Errorf("pgtest: dropping the role: %v", err)
		}
	})
	return name
}

func (s *server) dropRole(ctx context.Context, name string) error {
	rows, err := s.pool.Query(ctx, `
		select distinct datname from pg_shdepend join pg_database on pg_database.oid = dbid
		where refclassid = 'pg_authid'::regclass and refobjid = to_regrole($1)`, name)
	if err != nil {
		return err
	}
	databases, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, database := range databases {
		conn, err := pgx.Connect(ctx, WithDatabase(s.url, database))
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "drop owned by "+name+" cascade")
		if err := errors.Join(err, conn.Close(ctx)); err != nil {
			return err
		}
	}
	_, err = s.pool.Exec(ctx, fmt.Sprintf("reassign owned by %[1]s to current_user; drop owned by %[1]s; drop role %[1]s", name))
	return err
}

// SharedRoles makes sure that the server has roles of these names, without
// options. They are for fixtures whose text names them; tests share them, grant
// them what is theirs, and neither alter nor drop them. An advisory lock in the
// tests' own databases would not do instead: it holds within one database, and
// roles are the server's.
func SharedRoles(t testing.TB, names ...string) {
	t.Helper()
	shared.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := pgx.BeginFunc(ctx, shared.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended('bough.pgtest.roles', 0))"); err != nil {
			return err
		}
		for _, name := range names {
			var exists bool
			err := tx.QueryRow(ctx, "select exists (select from pg_roles where rolname = $1)", name).Scan(&exists)
			if err == nil && !exists {
				_, err = tx.Exec(ctx, "create role "+pgx.Identifier{name}.Sanitize())
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("pgtest: creating the roles %s: %v", strings.Join(names, ", "), err)
	}
}

func create(name, template string) string {
	return fmt.Sprintf("create database %s template %s strategy file_copy",
		pgx.Identifier{name}.Sanitize(), pgx.Identifier{template}.Sanitize())
}

func (s *server) drop(ctx context.Context, name string) error {
	_, err := s.pool.Exec(ctx, "drop database if exists "+pgx.Identifier{name}.Sanitize()+" with (force)")
	return err
}

// uniqueName returns the name of a database that no other test and no other
// process on the same server uses.
func uniqueName(prefix string) string {
	return prefix + "_" + strings.ToLower(rand.Text()[:16])
}

// WithDatabase returns the URL of another database on the same server. It
// panics if u is not a URL.
func WithDatabase(u, name string) string {
	parsed, err := url.Parse(u)
	if err != nil {
		panic(fmt.Sprintf("pgtest: not a URL: %v", err))
	}
	parsed.Path = "/" + name
	parsed.RawPath = ""
	return parsed.String()
}
