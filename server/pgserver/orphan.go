package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience of dismiss: how long processes are given after each signal.
const (
	fastPatience      = 60 * time.Second
	immediatePatience = 10 * time.Second
	strayPatience     = 2 * time.Second
)

// dismiss ends what an earlier Bough left running in the cluster and removes
// what would keep a new server from starting. The caller holds the lock of the
// data directory, so whatever serves the cluster has lost its supervisor.
func dismiss(ctx context.Context, cluster string, log *slog.Logger) error {
	pid, err := postmasterPID(cluster)
	if err != nil {
		return err
	}
	if pid > 0 && serves(pid, cluster) {
		log.Warn("stopping the PostgreSQL that an earlier Bough left running", "pid", pid)
		gone := func() bool { return !serves(pid, cluster) }
		for _, step := range []struct {
			signal   syscall.Signal
			patience time.Duration
		}{{syscall.SIGINT, fastPatience}, {syscall.SIGQUIT, immediatePatience}, {syscall.SIGKILL, immediatePatience}} {
			if err := syscall.Kill(pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("stopping process %d, which serves %s: %w", pid, cluster, err)
			}
			if waitFor(ctx, step.patience, gone) {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if !gone() {
			return fmt.Errorf("process %d, which serves %s, does not end", pid, cluster)
		}
	}

	// Backends notice the death of their postmaster when they next wait; a long
	// computation may take hours to get there. Recovery makes good whatever
	// they leave.
	done := func() bool { return len(clusterProcesses(cluster)) == 0 }
	for _, signal := range []syscall.Signal{0, syscall.SIGQUIT, syscall.SIGKILL} {
		for _, stray := range clusterProcesses(cluster) {
			if signal != 0 {
				log.Warn("ending an orphaned PostgreSQL process", "pid", stray, "signal", signal)
				syscall.Kill(stray, signal)
			}
		}
		if waitFor(ctx, strayPatience, done) {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return removeStalePID(cluster, log)
}

// removeStalePID removes the lock files of a former server whose number another
// program, or its own unreaped remains, has by now: PostgreSQL takes that for a
// running server. A number of no process it recognises itself; that file stays,
// because it also names the shared memory that PostgreSQL checks.
func removeStalePID(cluster string, log *slog.Logger) error {
	names, err := namesLike(cluster, ".s.PGSQL.", ".lock")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range append(names, filepath.Join(cluster, "postmaster.pid")) {
		pid, err := readPID(name)
		if err != nil {
			return err
		}
		if pid == 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || serves(pid, cluster) {
			continue
		}
		log.Warn("removing a stale lock file of PostgreSQL, its process number is not the server's any more", "file", name, "pid", pid)
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// postmasterPID returns the process number in postmaster.pid.
func postmasterPID(cluster string) (int, error) {
	return readPID(filepath.Join(cluster, "postmaster.pid"))
}

// readPID returns the process number that a lock file of PostgreSQL begins
// with, 0 if there is no file. One without a number is what a crash of the
// machine leaves; it is removed.
func readPID(name string) (int, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid == 0 {
		return 0, os.Remove(name)
	}
	return max(pid, -pid), nil // a single-user server writes its number negative
}

// waitFor polls until done, at most for d.
func waitFor(ctx context.Context, d time.Duration, done func() bool) bool {
	deadline := time.Now().Add(d)
	for !done() {
		if time.Now().After(deadline) || pause(ctx, 20*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// pause sleeps until d has passed or ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
