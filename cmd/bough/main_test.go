package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// testNow is the present of all tests.
var testNow = time.Date(2026, 11, 20, 20, 36, 0, 0, time.UTC)

// world is a command line client with a server of its own and no terminal.
type world struct {
	*cli
	server *fakeServer
	env    map[string]string
	config string
	stdin  string
}

func setup(t *testing.T) *world {
	t.Helper()
	server := newFakeServer(t)
	w := &world{server: server, config: filepath.Join(t.TempDir(), "bough", "config.yaml")}
	w.env = map[string]string{
		"BOUGH_CONFIG":      w.config,
		"BOUGH_BASE_URL":    server.URL,
		"BOUGH_SERVICE_KEY": testServiceKey,
	}
	w.cli = &cli{
		getenv:        func(name string) string { return w.env[name] },
		environ:       func() []string { return []string{"PATH=" + os.Getenv("PATH"), "PGPASSWORD=other"} },
		userConfigDir: func() (string, error) { return "", errors.New("not in tests") },
		now:           func() time.Time { return testNow },
		terminalWidth: func() int { return 0 },
		readSecret:    func() ([]byte, error) { return nil, errors.New("no terminal") },
		restore:       func() {},
		exec:          func(string, []string, []string) error { return errors.New("not in tests") },
	}
	return w
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

func (w *world) run(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := *w.cli
	code := run(t.Context(), &c, args, strings.NewReader(w.stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// ok runs a command that must succeed and returns its standard output.
func (w *world) ok(t *testing.T, args ...string) string {
	t.Helper()
	got := w.run(t, args...)
	if got.code != exitOK {
		t.Fatalf("bough %s: exit code %d, stderr:\n%s", strings.Join(args, " "), got.code, got.stderr)
	}
	return got.stdout
}

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./cmd/bough -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
