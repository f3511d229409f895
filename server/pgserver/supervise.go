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
	space := time.NewTicker(ballastEvery)
	defer space.Stop()
	program := newProgram(filepath.Join(s.inst.BinDir, "postgres"))
	var failed failures
	for {
		select {
		case <-ctx.Done():
			c.stop(s.hurry, stopPatience)
			s.log.Info("PostgreSQL has stopped")
			return
		case <-space.C:
			s.keepBallast(false)
			continue
		case <-watch.C:
			if !program.replaced() || !s.mayUpgrade(program) {
				continue
			}
			c.stop(s.hurry, stopPatience)
		case <-c.exited:
			s.log.Warn("PostgreSQL has ended unexpectedly, restarting it", "error", errorText(c.err), "pid", c.pid)
			if !s.outOfSpace() {
				failed.add(time.Now())
			}
		}
		var err error
		if c, err = s.revive(ctx, &failed, errUnexpected); err != nil {
			if ctx.Err() == nil {
				s.err = err
				s.log.Error("giving up on PostgreSQL", "error", err)
			}
			return
		}
	}
}

var errUnexpected = errors.New("it ended unexpectedly")

// revive starts the server anew, on the same port, until it runs or has failed
// too often; reason is why it last did.
func (s *Server) revive(ctx context.Context, failed *failures, reason error) (*child, error) {
	began := time.Now()
	for {
		if len(*failed) >= maxFailures {
			return nil, fmt.Errorf("it failed %d times within %s: %w", maxFailures, failureWindow, reason)
		}
		if err := pause(ctx, failed.backOff(s.lastBackOff)); err != nil {
			return nil, err
		}
		// What it left running would keep the new server from starting.
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
		reason = err
		if !errors.Is(err, errBusyMemory) && !s.outOfSpace() {
			failed.add(time.Now())
			continue
		}
		// Orphans at work and a full disk are no failure of the server: there is
		// nothing to be done but to wait for them to go, and for room.
		if err := pause(ctx, s.lastBackOff); err != nil {
			return nil, err
		}
	}
}

// failures are the times of the failures within failureWindow.
type failures []time.Time

// add records a failure and forgets old ones.
func (f *failures) add(now time.Time) {
	*f = append(*f, now)
	for now.Sub((*f)[0]) > failureWindow {
		*f = (*f)[1:]
	}
}

// backOff is how long to wait before the next start: nothing without a failure,
// then doubling from firstBackOff.
func (f *failures) backOff(longest time.Duration) time.Duration {
	if len(*f) == 0 {
		return 0
	}
	return min(firstBackOff<<(len(*f)-1), longest)
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
	s.log.Warn("PostgreSQL's programs were replaced, restarting it: a running server cannot load libraries of another version",
		"former", s.inst.Version, "version", inst.Version, "bin_dir", inst.BinDir)
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
