package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/pgserver"
)

// serviceKey is the key that the server accepts.
var serviceKey = auth.ServiceKeyPrefix + base64.RawURLEncoding.EncodeToString(make([]byte, 32))

// stage is a PostgreSQL and the program on it, in a directory of their own.
type stage struct {
	addr, version string
	postmaster    int
	cmd           *exec.Cmd
	ended         chan error
	undo          []func() error // in the order of making
}

// startStage makes everything.
func startStage(ctx context.Context, o options) (_ *stage, err error) {
	s := &stage{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	dir, err := os.MkdirTemp(o.dir, "bough-bench-")
	if err != nil {
		return nil, err
	}
	s.undo = append(s.undo, func() error { return os.RemoveAll(dir) })
	// PostgreSQL's user has to enter it; the cluster in it is private.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	path := o.program
	if path == "" {
		path = filepath.Join(dir, "bough")
		build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/boughdb/bough/cmd/bough")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the program: %w: %s", err, bytes.TrimSpace(out))
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	pg, err := pgserver.Start(ctx, pgserver.Options{DataDir: filepath.Join(dir, "data"), BinDir: o.binDir, CacheDir: pgserver.DefaultCacheDir(), Log: log})
	if err != nil {
		return nil, err
	}
	s.undo = append(s.undo, func() error {
		stop, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return pg.Stop(stop)
	})
	s.version = "PostgreSQL " + pg.Installation().Version
	if s.postmaster, err = postmaster(pg.ClusterDir()); err != nil {
		return nil, err
	}
	if err := fill(ctx, pg, o.rows); err != nil {
		return nil, fmt.Errorf("making the table: %w", err)
	}
	return s, s.start(ctx, path, dir, pg.URL("app"), pg.URL("control"))
}

// stop takes everything away again, the last thing first.
func (s *stage) stop() (err error) {
	for i := len(s.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, s.undo[i]())
	}
	return err
}

func postmaster(cluster string) (int, error) {
	data, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strconv.Atoi(strings.TrimSpace(line))
}

// items is a table as applications have them.
const items = `
create table items (id int primary key, name text not null, price numeric(12, 2) not null, tags jsonb not null, made timestamptz not null);
insert into items select n, 'item number ' || n, mod(n, 1000) + 0.5, '["a", "b"]', '2026-01-01'::timestamptz + n * interval '1 minute' from generate_series(1, %d) n;
analyze items`

func fill(ctx context.Context, pg *pgserver.Server, rows int) error {
	on := func(database string, statements ...string) error {
		conn, err := pgx.Connect(ctx, pg.URL(database))
		if err != nil {
			return err
		}
		defer conn.Close(context.Background())
		for _, sql := range statements {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}
	if err := on("postgres", "create database app", "create database control"); err != nil {
		return err
	}
	return on("app", fmt.Sprintf(items, rows))
}

// startTime is how long the program may take until it serves.
const startTime = time.Minute

var servingURL = regexp.MustCompile(`msg=serving url=http://(\S+)`)

// start starts the program with its defaults, but for the limit on requests.
func (s *stage) start(ctx context.Context, path, dir, mainURL, controlURL string) error {
	name := filepath.Join(dir, "bough.log")
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer out.Close()
	// Not of ctx: it is to end in good order.
	s.cmd = exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--metrics-listen", "", "--data-dir", filepath.Join(dir, "bough-data"), "--mcp.rate-limit", "0") //nolint:noctx // see above
	s.cmd.Stdout, s.cmd.Stderr = out, out
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "BOUGH_") { // the settings of another server
			s.cmd.Env = append(s.cmd.Env, entry)
		}
	}
	s.cmd.Env = append(s.cmd.Env, "BOUGH_DATABASE_URL="+mainURL, "BOUGH_CONTROL_DATABASE_URL="+controlURL, "BOUGH_SERVICE_KEY="+serviceKey)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.cmd.Wait() }()
	s.undo = append(s.undo, s.end)
	for began := time.Now(); time.Since(began) < startTime && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if match := servingURL.FindSubmatch(text); match != nil {
			s.addr = string(match[1])
			return nil
		}
		if len(s.ended) > 0 {
			return fmt.Errorf("the server does not start: %s", bytes.TrimSpace(text))
		}
	}
	return errors.Join(errors.New("the server does not start"), ctx.Err())
}

func (s *stage) pid() int { return s.cmd.Process.Pid }

// end stops the program as its service manager would.
func (s *stage) end() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case err := <-s.ended:
		return err
	case <-time.After(15 * time.Second):
		return errors.Join(errors.New("the server does not end"), s.cmd.Process.Kill())
	}
}
