package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/servertest"
)

func TestMain(m *testing.M) {
	// A test's server closes the idle connections of the default transport when it ends, also those that another test is
	// about to use.
	http.DefaultClient.Transport = http.DefaultTransport.(*http.Transport).Clone()
	pgtest.Main(m)
}

// program builds bough once, with the fault points in it.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bough-program-*")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bough")
	out, err := exec.Command("go", "build", "-tags", "faults", "-o", path, "../cmd/bough").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building bough: %w\n%s", err, out)
	}
	return path, nil
})

// process is a bough serve of its own.
type process struct {
	cmd  *exec.Cmd
	log  *syncBuffer
	done chan struct{}
	url  string
}

// startProcess starts bough serve with more arguments and environment.
func startProcess(t *testing.T, args, env []string) *process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	addr := freeAddress(t)
	p := &process{log: &syncBuffer{}, done: make(chan struct{}), url: "http://" + addr}
	p.cmd = exec.Command(path, append([]string{"serve", "--listen", addr, "--metrics-listen", ""}, args...)...)
	p.cmd.Env = append(os.Environ(), append([]string{"BOUGH_SERVICE_KEY=" + servertest.ServiceKey, "BOUGH_CONFIG=" + filepath.Join(t.TempDir(), "cli.yaml")}, env...)...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Stderr, p.cmd.Stdout = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() { p.kill() })
	return p
}

// start is startProcess, and waits until it serves.
func start(t *testing.T, args, env []string) *process {
	t.Helper()
	p := startProcess(t, args, env)
	p.waitReady(t)
	return p
}

func (p *process) waitReady(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for time.Now().Before(deadline) {
		if resp, err := http.Get(p.url + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-p.done:
			t.Fatalf("bough ended instead of serving:\n%s", p.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatalf("bough did not serve in time:\n%s", p.log)
}

func (p *process) client(t *testing.T) *client.ClientWithResponses {
	t.Helper()
	return (&servertest.Server{URL: p.url}).Service(t)
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop ends the process as its service manager would and returns its exit code.
func (p *process) stop(t *testing.T) int {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("bough did not stop:\n%s", p.log)
	}
	return p.cmd.ProcessState.ExitCode()
}

// waitDead waits until the process has killed itself.
func (p *process) waitDead(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("bough lives on:\n%s", p.log)
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("bough ended with %v:\n%s", p.cmd.ProcessState, p.log)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !cond(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

func ok[T interface{ StatusCode() int }](t *testing.T, want int) func(T, error) T {
	return func(answer T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode() != want {
			t.Fatalf("status %d, want %d: %+v", answer.StatusCode(), want, answer)
		}
		return answer
	}
}

func createReady(t *testing.T, c *client.ClientWithResponses, name string) *client.CreatedBranch {
	t.Helper()
	wait, mode := "wait=60", client.DataCloneModeFullClone
	b := ok[*client.CreateBranchResponse](t, 201)(c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{Prefer: &wait},
		client.CreateBranchRequest{Name: name, DataCloneMode: &mode})).JSON201
	if b.Status != client.BranchStatusReady {
		got, _ := c.GetBranchWithResponse(t.Context(), name)
		t.Fatalf("branch %s is %s: %s", name, b.Status, got.Body)
	}
	return b
}

func databaseNames(t *testing.T, url, prefix string) string {
	t.Helper()
	return servertest.Value[string](t, url, "select coalesce(string_agg(datname, ' ' order by datname), '') from pg_database where starts_with(datname, $1)",
		strings.TrimSpace(prefix))
}

// drop drops what a test made, after it.
func drop(t *testing.T, url, what string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(context.Background(), "drop "+what); err != nil {
		t.Error(err)
	}
}
