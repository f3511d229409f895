package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The supervisor gives up after maxFailures unexpected ends within
// failureWindow.
const (
	maxFailures   = 10
	failureWindow = 2 * time.Minute
	firstBackOff  = 100 * time.Millisecond
	lastBackOff   = 5 * time.Second
	watchEvery    = 30 * time.Second // how often the programs are looked at
)

// supervise keeps the server running until ctx ends.
func (s *Server) supervise(ctx context.Context, c *child) {
	defer close(s.done)
	defer s.release()
	watch := time.NewTicker(s.watchEvery)
	defer watch.Stop()
	program := newProgram(filepath.Join(s.inst.BinDir, "postgres"))
	var failed failures
	for {
		select {
		case <-ctx.Done():
			c.stop(s.hurry, stopPatience)
			s.log.Info("PostgreSQL has stopped")
			return
		case <-watch.C:
			if !program.replaced() || !s.mayUpgrade(program) {
				continue
			}
			s.log.Warn("PostgreSQL's programs were replaced, restarting it: a running server cannot load libraries of another version",
				"former", s.inst.Version, "bin_dir", s.inst.BinDir)
			c.stop(s.hurry, stopPatience)
		case <-c.exited:
			s.log.Warn("PostgreSQL has ended unexpectedly, restarting it", "error", errorText(c.err), "pid", c.pid)
			failed.add(time.Now())
		}
		var err error
		if c, err = s.revive(ctx, &failed); err != nil {
			if ctx.Err() == nil {
				s.err = err
				s.log.Error("giving up on PostgreSQL", "error", err)
			}
			return
		}
	}
}

// revive starts the server anew, on the same port, until it runs or has failed
// too often.
func (s *Server) revive(ctx context.Context, failed *failures) (*child, error) {
	began := time.Now()
	for backOff := firstBackOff; ; backOff = min(2*backOff, s.lastBackOff) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// What it leaves running would keep the new server from starting.
		err := dismiss(ctx, s.cluster, s.log)
		var c *child
		if err == nil {
			c, err = s.launch(ctx)
		}
		if err == nil {
			s.log.Info("PostgreSQL is ready again", "version", s.Installation().Version, "port", s.port, "after", time.Since(began).Round(time.Millisecond))
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.log.Warn("PostgreSQL does not start", "error", err)
		// Orphans at work are no failure of the server: there is nothing to be
		// done but to wait for them.
		if !errors.Is(err, errBusyMemory) && failed.add(time.Now()) {
			return nil, fmt.Errorf("it failed %d times within %s: %w", maxFailures, failureWindow, err)
		}
		if err := pause(ctx, backOff); err != nil {
			return nil, err
		}
	}
}

// failures are the times of the latest failures.
type failures []time.Time

// add records a failure and reports whether there are too many.
func (f *failures) add(now time.Time) bool {
	*f = append(*f, now)
	for now.Sub((*f)[0]) > failureWindow {
		*f = (*f)[1:]
	}
	return len(*f) >= maxFailures
}

// program watches the file of a program for being replaced.
type program struct {
	path          string
	running, seen fileID
}

type fileID struct {
	dev, ino uint64
	size     int64
	modified time.Time
}

func newProgram(path string) *program {
	id, _ := identify(path)
	return &program{path: path, running: id, seen: id}
}

// replaced reports whether another file has the program's name, and has had it
// since the call before: a package is unpacked file by file.
func (p *program) replaced() bool {
	id, err := identify(p.path)
	if err != nil {
		return false // between two versions
	}
	settled := id == p.seen
	p.seen = id
	if id == p.running || !settled {
		return false
	}
	p.running = id
	return true
}

func identify(path string) (fileID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	return fileID{dev: uint64(st.Dev), ino: uint64(st.Ino), size: info.Size(), modified: info.ModTime()}, nil
}

// mayUpgrade takes over the new programs, unless they are of another major
// version, which cannot read the cluster.
func (s *Server) mayUpgrade(p *program) bool {
	inst, err := inspect(filepath.Dir(p.path))
	if err == nil && inst.Major != s.inst.Major {
		err = fmt.Errorf("they are now of version %s", inst.Version)
	}
	if err != nil {
		s.log.Error("PostgreSQL's programs were replaced by some that do not fit; the running server goes on, but cannot start again", "error", err)
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inst = inst
	return true
}

func errorText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
