package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/postgres"
)

// server is a PostgreSQL of the benchmark's own.
type server struct {
	*pgserver.Server
	files string // the file system
	tools tools
}

// startServer starts a server with Bough's settings in a new directory below dir.
func startServer(ctx context.Context, inst pgserver.Installation, dir string, log *slog.Logger) (_ *server, err error) {
	data, err := os.MkdirTemp(dir, "bough-bench-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(data))
		}
	}()
	// PostgreSQL's user has to enter it; the cluster in it is private.
	if err := os.Chmod(data, 0o755); err != nil {
		return nil, err
	}
	srv, err := pgserver.Start(ctx, pgserver.Options{DataDir: data, BinDir: inst.BinDir, Log: log})
	if err != nil {
		return nil, err
	}
	s := &server{Server: srv}
	if filepath.Dir(srv.ClusterDir()) != srv.DataDir() {
		elsewhere := filepath.Dir(srv.ClusterDir())
		return nil, errors.Join(fmt.Errorf("PostgreSQL's user cannot enter %s", dir), s.stop(), os.RemoveAll(elsewhere))
	}
	return s, nil
}

// stop stops the server and removes its data.
func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(s.Stop(ctx), os.RemoveAll(s.DataDir()))
}

// method is a way to make a branch.
type method struct {
	name       string
	strategy   postgres.Strategy
	schemaOnly bool
	dump       bool // not by Bough but by pg_dump | psql
}

var (
	dumpMethod       = method{name: "pg_dump | psql", dump: true}
	dumpSchemaMethod = method{name: "pg_dump -s | psql", dump: true, schemaOnly: true}
)

// methods returns what can be measured on the server, the quick ones first.
func (s *server) methods() []method {
	var all []method
	if s.Reflink() && s.Installation().Major >= 18 {
		all = append(all, method{name: "reflink", strategy: postgres.StrategyReflink})
	}
	all = append(all,
		method{name: "schema only", schemaOnly: true},
		method{name: "file_copy", strategy: postgres.StrategyFileCopy},
		method{name: "wal_log", strategy: postgres.StrategyWALLog})
	if s.tools.dump != "" {
		all = append(all, dumpSchemaMethod, dumpMethod)
	}
	return append(all, method{name: "copy", strategy: postgres.StrategyCopy})
}
