package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Bouncer starts a PgBouncer for one test before the package's server and returns a URL of the same database that leads
// through it. mode is session or transaction; sessions is how many of the server it shares out for each database.
// The test is skipped where PgBouncer is not installed.
func Bouncer(t testing.TB, database, mode string, sessions int) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program = "/usr/sbin/pgbouncer"; !isFile(program) {
			t.Skip("PgBouncer is not installed")
		}
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("pgtest:", err)
	}
	server, err := pgconn.ParseConfig(database)
	if err != nil {
		t.Fatal("pgtest:", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal("pgtest:", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	dir := DataDir(t)
	config := fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s password=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = %d
max_client_conn = 500
server_reset_query = discard all
`, quote(server.Host), server.Port, quote(server.User), quote(server.Password), port, mode, sessions)
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		t.Fatal("pgtest:", err)
	}
	args := []string{"-q", file}
	if os.Geteuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...)
	}
	var log strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal("pgtest:", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("PgBouncer said: %s", log.String())
		}
	})
	u.Host, u.RawQuery = fmt.Sprintf("127.0.0.1:%d", port), "sslmode=disable"
	u.User = url.User(server.User)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		conn, err := pgconn.Connect(ctx, u.String())
		if err == nil {
			_ = conn.Close(ctx)
			return u.String()
		}
		select {
		case <-ctx.Done():
			t.Fatal("pgtest: PgBouncer does not answer:", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
