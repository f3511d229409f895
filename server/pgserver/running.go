package pgserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrNotRunning is returned by [RunningURL] when no Bough process holds the
// data directory.
var ErrNotRunning = errors.New("no server is running on the data directory")

// RunningURL returns the superuser's URL of a database of the server that
// another process runs on the data directory.
func RunningURL(dataDir, database string) (string, error) {
	f, err := os.Open(filepath.Join(dataDir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return "", ErrNotRunning
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		return "", ErrNotRunning // closing the file gives the lock back
	} else if !errors.Is(err, syscall.EWOULDBLOCK) {
		return "", err
	}
	password, err := loadPassword(dataDir)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(dataDir, portName))
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return "", fmt.Errorf("%s: %w", portName, err)
	}
	return (&Server{password: password, port: port}).URL(database), nil
}

// ClusterPath is where the cluster of a data directory is, or a link to it.
func ClusterPath(dataDir string) string { return filepath.Join(dataDir, clusterName) }
