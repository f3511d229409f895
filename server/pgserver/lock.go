package pgserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrInUse is returned by [Start] when another Bough process, or another
// Server of this one, holds the data directory.
var ErrInUse = errors.New("the data directory is in use")

const lockName = "bough.lock"

// lockDir takes the exclusive lock of a data directory. The kernel releases it
// with the process, however that ends; the file itself stays, because removing
// a lock file lets two processes lock two files of one name. It is opened
// close-on-exec like every file of Go's, so that a PostgreSQL outliving Bough
// does not hold the lock.
func lockDir(dir string) (*os.File, error) {
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", name, err)
		}
		holder := "another process"
		text, _ := io.ReadAll(io.LimitReader(f, 32))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			holder = fmt.Sprintf("process %d", pid)
		}
		return nil, fmt.Errorf("%w: %s is held by %s", ErrInUse, dir, holder)
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	return f, nil
}

// unlockDir gives the directory back.
func unlockDir(f *os.File) {
	f.Truncate(0) // a pid that no longer holds the lock would mislead
	// Closing is not enough: a child being forked has the file until it execs.
	syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	f.Close()
}
