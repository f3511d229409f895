package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// errNoLoop says that this machine or user cannot mount a file.
var errNoLoop = errors.New("no XFS can be mounted here")

// mountXFS makes an XFS that shares blocks in a sparse file below parent and mounts it. The error wraps errNoLoop where
// that is not possible at all.
func mountXFS(ctx context.Context, parent string, size int64) (dir string, remove func() error, err error) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return "", nil, fmt.Errorf("%w: it takes root on Linux", errNoLoop)
	}
	for _, program := range []string{"mkfs.xfs", "mount", "umount"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", nil, fmt.Errorf("%w: %w", errNoLoop, err)
		}
	}
	image, err := os.CreateTemp(parent, "bough-bench-*.xfs")
	if err != nil {
		return "", nil, err
	}
	// Once it is mounted the file needs no name, and so cannot be left behind.
	defer os.Remove(image.Name())
	if err := errors.Join(image.Truncate(size), image.Close()); err != nil {
		return "", nil, err
	}
	if err := command(ctx, "mkfs.xfs", "-q", "-m", "reflink=1", image.Name()); err != nil {
		return "", nil, fmt.Errorf("%w: %w", errNoLoop, err)
	}
	if dir, err = os.MkdirTemp(parent, "bough-bench-xfs-"); err != nil {
		return "", nil, err
	}
	// Not to be interrupted, since then nobody knows whether it is mounted.
	if err := command(context.WithoutCancel(ctx), "mount", "-t", "xfs", "-o", "loop", image.Name(), dir); err != nil {
		return "", nil, fmt.Errorf("%w: %w", errNoLoop, errors.Join(err, os.Remove(dir)))
	}
	remove = func() error { return errors.Join(unmount(dir), os.Remove(dir)) }
	// PostgreSQL's user has to enter it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return dir, remove, nil
}

// unmount tries for a while: the last process to leave may be on its way out.
func unmount(dir string) error {
	var err error
	for range 20 {
		if err = command(context.Background(), "umount", dir); err == nil {
			return nil
		}
		time.Sleep(250 * time.Millisecond)
	}
	return errors.Join(err, command(context.Background(), "umount", "--lazy", dir))
}

// command runs a program and shows what it said if it fails.
func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
