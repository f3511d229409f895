package fidelity

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/mcp/schematools/script"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// long reports whether the long form is wanted, as make test-fidelity does.
func long() bool { return os.Getenv("BOUGH_FIDELITY") == "long" }

// role creates a role with a name of its own, dropped after the test.
func role(t *testing.T, options string) string {
	t.Helper()
	name := "fidelity_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:12]
	server := pgtest.ServerURL(t)
	execute(t, server, "create role "+name+" password 'secret' "+options)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), server)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "drop owned by "+name+"; drop role "+name); err != nil {
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

// execute executes a script, statement by statement.
func execute(t *testing.T, connString, sql string) {
	t.Helper()
	statements, err := script.Split(sql)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), connString)
	if err != nil {
		t.Fatal(err)
	}
	defer gone(t, conn)
	for _, s := range statements {
		if _, err := conn.PgConn().Exec(t.Context(), s.Text).ReadAll(); err != nil {
			t.Fatalf("%s: %v", s.Text, err)
		}
	}
}

// gone closes a session and waits for its end, so that a template copy does not meet it.
func gone(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	conn.Close(context.Background())
	select {
	case <-conn.PgConn().CleanupDone():
	case <-time.After(10 * time.Second):
		t.Error("a session does not end")
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func major(t *testing.T) int {
	t.Helper()
	return query[int](t, connect(t, pgtest.ServerURL(t)), "select current_setting('server_version_num')::int / 10000")
}

// pgDump returns a pg_dump that fits the server, or "".
func pgDump(t *testing.T) string {
	t.Helper()
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
	if path, err := exec.LookPath("pg_dump"); err == nil {
		candidates = append(candidates, path)
	}
	for _, path := range candidates {
		out, err := exec.CommandContext(t.Context(), path, "--version").Output()
		if err != nil {
			continue
		}
		if m := regexp.MustCompile(`\) (\d+)`).FindSubmatch(out); m != nil {
			if v, err := strconv.Atoi(string(m[1])); err == nil && v >= major(t) {
				return path
			}
		}
	}
	return ""
}

// cluster opens the engine on a main database.
func cluster(t *testing.T, mainURL string, s postgres.Strategy, dump string) *postgres.Cluster {
	t.Helper()
	c, err := postgres.OpenCluster(t.Context(), postgres.ClusterConfig{
		URL: mainURL, Installation: uuid.New(), Strategy: s, Sessions: postgres.CopyAround, Drain: 5 * time.Second, Jobs: 2,
		Limits: postgres.PoolLimits{Main: 5, Branch: 2, Total: 20, Idle: time.Minute},
		PGDump: func(int) string { return dump },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// An image has the objects of the source, and so of the roles that are dropped next.
		if err := c.SweepImages(context.Background(), func(uuid.UUID) (bool, error) { return false, nil }); err != nil {
			t.Error(err)
		}
		c.Close()
	})
	return c
}

// drop drops a database after the test.
func drop(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), pgtest.ServerURL(t))
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), fmt.Sprintf("drop database if exists %s with (force)", pgx.Identifier{name}.Sanitize())); err != nil {
			t.Error(err)
		}
	})
}
