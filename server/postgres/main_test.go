package postgres_test

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// The package's goroutines have an owner that waits for them, so that none is left when the tests have closed what
// they opened.
func TestMain(m *testing.M) {
	code := pgtest.Run(m)
	if left := goroutinesLeft(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines are left:\n"+left)
		code = 1
	}
	os.Exit(code)
}

func goroutinesLeft() (left string) {
	buf := make([]byte, 4<<20)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		left = ""
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if !strings.Contains(g, "postgres_test.goroutinesLeft") &&
				(strings.Contains(g, "bough/server/postgres.") || strings.Contains(g, "pgx/v5/")) {
				left += g + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
	}
	return left
}

// fixture is a cluster whose main is a new database.
type fixture struct {
	*postgres.Cluster
	config postgres.ClusterConfig
	url    string // of main, as superuser
}

// setup opens a cluster on a new main. Databases that the test makes with target are dropped after it.
func setup(t *testing.T, configure ...func(*postgres.ClusterConfig)) *fixture {
	t.Helper()
	return setupAt(t, pgtest.Database(t), configure...)
}

func setupAt(t *testing.T, mainURL string, configure ...func(*postgres.ClusterConfig)) *fixture {
	t.Helper()
	cfg := postgres.ClusterConfig{
		URL: mainURL, Installation: uuid.New(),
		Limits:   postgres.PoolLimits{Main: 10, Branch: 3, Total: 30, Idle: time.Minute},
		Sessions: postgres.CopyAround, Drain: 2 * time.Second, Jobs: 2,
	}
	for _, c := range configure {
		c(&cfg)
	}
	f := &fixture{config: cfg, url: mainURL}
	f.Cluster = open(t, cfg)
	t.Cleanup(func() {
		if err := f.SweepImages(context.Background(), liveBranches()); err != nil {
			t.Errorf("dropping the schema images: %v", err)
		}
	})
	return f
}

func open(t *testing.T, cfg postgres.ClusterConfig) *postgres.Cluster {
	t.Helper()
	c, err := postgres.OpenCluster(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// liveBranches are what SweepImages asks for.
func liveBranches(ids ...uuid.UUID) func(uuid.UUID) (bool, error) {
	return func(id uuid.UUID) (bool, error) { return slices.Contains(ids, id), nil }
}

// target returns the name of a database to make, dropped after the test.
func (f *fixture) target(t *testing.T, suffix string) string {
	t.Helper()
	name := f.Main() + "_" + suffix
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), pgtest.WithDatabase(f.url, "postgres"))
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "drop database if exists "+quote(name)+" with (force)"); err != nil {
			t.Error(err)
		}
	})
	return name
}

// in is the superuser's URL of a database.
func (f *fixture) in(database string) string { return pgtest.WithDatabase(f.url, database) }

// clone clones main and returns the copy's name.
func (f *fixture) clone(t *testing.T, suffix string) (string, postgres.CloneResult) {
	t.Helper()
	r := f.request(t, suffix)
	res, err := f.Clone(t.Context(), r)
	if err != nil {
		t.Fatalf("cloning into %s: %v", suffix, err)
	}
	return r.Target, res
}

func (f *fixture) request(t *testing.T, suffix string) postgres.CloneRequest {
	t.Helper()
	return postgres.CloneRequest{Source: f.Main(), Target: f.target(t, suffix), Branch: uuid.New(), Generation: 1}
}

// application is the application_name of an operation's sessions.
func (f *fixture) application(op string) string {
	return "bough/" + f.config.Installation.String()[:8] + "/" + op
}

// exists reports whether the server has the database.
func (f *fixture) exists(t *testing.T, database string) bool {
	t.Helper()
	return query[bool](t, f.in("postgres"), "select exists (select from pg_database where datname = $1)", database)
}

func strategy(s postgres.Strategy) func(*postgres.ClusterConfig) {
	return func(c *postgres.ClusterConfig) { c.Strategy = s }
}

func sessions(p postgres.SessionPolicy) func(*postgres.ClusterConfig) {
	return func(c *postgres.ClusterConfig) { c.Sessions = p }
}

// connect opens a session as another program would. It is closed after the test.
func connect(t testing.TB, connString string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), connString)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// connectAs is connect with an application_name.
func connectAs(t testing.TB, connString, application string) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(connString)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func execute(t testing.TB, connString string, statements ...string) {
	t.Helper()
	conn := connect(t, connString)
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	gone(t, conn)
}

func query[T any](t testing.TB, connString, sql string, args ...any) (value T) {
	t.Helper()
	conn := connect(t, connString)
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	gone(t, conn)
	return value
}

// gone closes a connection and waits until the server has ended the session, so that a clone does not meet it. The
// server closes its end of the socket last.
func gone(t testing.TB, conn *pgx.Conn) {
	t.Helper()
	h, err := conn.PgConn().Hijack()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Conn.Close()
	_ = h.Conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := h.Conn.Write([]byte{'X', 0, 0, 0, 4}); err != nil { // Terminate
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, h.Conn); err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// role makes a role with the options and a name of its own, and returns the name. What it owns is dropped with it.
func role(t *testing.T, options string) string {
	t.Helper()
	name := "r_" + strings.ReplaceAll(uuid.NewString()[:13], "-", "")
	server := pgtest.ServerURL(t)
	execute(t, server, "create role "+name+" password 'secret' "+options)
	t.Cleanup(func() {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "drop owned by "+name+"; drop role "+name); err != nil {
			t.Errorf("dropping role %s: %v", name, err)
		}
	})
	return name
}

// as returns the URL for another role.
func as(t *testing.T, connString, role string) string {
	t.Helper()
	u, err := url.Parse(connString)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")
	return u.String()
}

func majorVersion(t *testing.T) int {
	t.Helper()
	return query[int](t, pgtest.ServerURL(t), "select current_setting('server_version_num')::int / 10000")
}
