package pgserver_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/pgtest"
)

// helperVar makes the test binary a Bough that starts a server in the named
// data directory and waits to be killed.
const helperVar = "PGSERVER_TEST_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperVar); dir != "" {
		s, err := pgserver.Start(context.Background(), options(dir))
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(s.URL("postgres"))
		select {}
	}
	os.Exit(m.Run())
}

// options are those of a server with test data. Killing processes does not
// test the disk, so syncing is left out.
func options(dir string) pgserver.Options {
	return pgserver.Options{
		DataDir:  dir,
		CacheDir: pgserver.DefaultCacheDir(),
		NoSync:   true,
		Settings: map[string]string{"fsync": "off", "shared_buffers": "32MB"},
	}
}

// start starts a server that is stopped after the test.
func start(t *testing.T, o pgserver.Options) *pgserver.Server {
	t.Helper()
	if o.Log == nil {
		o.Log = logger(t)
	}
	s, err := pgserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *pgserver.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

// logger writes to the test's log.
func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// startHelper starts a server in a process of its own and returns that process
// and the server's URL.
func startHelper(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	cmd := helper(dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil || !strings.HasPrefix(string(line[:n]), "postgres://") {
		t.Fatalf("the helper says %q, %v", line[:n], err)
	}
	return cmd, strings.TrimSpace(string(line[:n]))
}

func helper(dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVar+"="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// execute executes a statement in a database.
func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// query returns the one value that a query yields.
func query[T any](t *testing.T, url, sql string) (value T) {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// eventually waits for something to become true.
func eventually(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !true(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting: %s", what)
		}
	}
}

// serving reports whether a server accepts connections.
func serving(url string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false
	}
	conn.Close(ctx)
	return true
}

// postmaster returns the process number of a running server, 0 if there is none.
func postmaster(cluster string) int {
	text, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(line)
	return pid
}

// ended reports whether a process is gone or waits to be reaped.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// clusterState is the state in pg_control, which follows the system identifier
// and two version numbers.
func clusterState(t *testing.T, cluster string) string {
	t.Helper()
	control, err := os.ReadFile(filepath.Join(cluster, "global", "pg_control"))
	if err != nil {
		t.Fatal(err)
	}
	switch n := binary.NativeEndian.Uint32(control[16:]); n {
	case 1:
		return "shut down"
	case 6:
		return "in production"
	default:
		return strconv.Itoa(int(n))
	}
}

// eachMajor runs a test once for each major version that is installed.
func eachMajor(t *testing.T, test func(t *testing.T, inst pgserver.Installation)) {
	seen := map[int]bool{}
	for _, inst := range pgserver.Installations() {
		if inst.Major < pgserver.OldestMajor || seen[inst.Major] {
			continue
		}
		seen[inst.Major] = true
		t.Run(strconv.Itoa(inst.Major), func(t *testing.T) {
			t.Parallel()
			test(t, inst)
		})
	}
	if len(seen) == 0 {
		t.Fatal("no PostgreSQL is installed")
	}
}

// clusterOptions are options with a cluster that is ready to start.
func clusterOptions(t *testing.T, inst pgserver.Installation) pgserver.Options {
	t.Helper()
	o := options(pgtest.Cluster(t, inst.BinDir))
	o.BinDir = inst.BinDir
	return o
}

// newest is the installation that tests use which do not depend on it.
func newest(t *testing.T) pgserver.Installation {
	t.Helper()
	inst, err := pgserver.Find(pgserver.FindOptions{CacheDir: pgserver.DefaultCacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}
