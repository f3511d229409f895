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

// RunningURL returns the engine's URL of a database of the server that another
// process runs on the data directory.
func RunningURL(dataDir, database string) (string, error) {
	s, err := running(dataDir)
	if err != nil {
		return "", err
	}
	return s.EngineURL(database), nil
}

// RunningSocketURL is RunningURL for the superuser, over the Unix socket.
func RunningSocketURL(dataDir, database string) (string, error) {
	s, err := running(dataDir)
	if err != nil {
		return "", err
	}
	// Where the socket is the server itself tells best (PostgreSQL manual,
	// "Database File Layout": postmaster.pid).
	text, err := os.ReadFile(filepath.Join(dataDir, clusterName, "postmaster.pid"))
	if err != nil {
		return "", err
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 5 || lines[4] == "" {
		return "", errors.New("the server does not say where its socket is")
	}
	s.socketDir = lines[4]
	return s.SocketURL(database), nil
}

// running returns what is known of the server that another process runs.
func running(dataDir string) (*Server, error) {
	f, err := os.Open(filepath.Join(dataDir, lockName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNotRunning
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err == nil {
		return nil, ErrNotRunning // closing the file gives the lock back
	} else if !errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, err
	}
	password, err := loadPassword(dataDir)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dataDir, portName))
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", portName, err)
	}
	return &Server{password: password, port: port}, nil
}

// ClusterPath is where the cluster of a data directory is, or a link to it.
func ClusterPath(dataDir string) string { return filepath.Join(dataDir, clusterName) }
