package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/postgres"
)

// server is a PostgreSQL of the benchmark's own.
type server struct {
	*pgserver.Server // nil until it was started
	options          pgserver.Options
	files            string // the file system
	tools            tools
}

// newServer makes a server in a new directory below dir. It is not started.
func newServer(inst pgserver.Installation, dir string, log *slog.Logger) (*server, error) {
	data, err := os.MkdirTemp(dir, "bough-bench-")
	if err != nil {
		return nil, err
	}
	s := &server{options: pgserver.Options{DataDir: data, BinDir: inst.BinDir, Log: log}}
	// PostgreSQL's user has to enter it; the cluster in it is private.
	if err := os.Chmod(data, 0o755); err != nil {
		return nil, errors.Join(err, s.remove())
	}
	return s, nil
}

// fill makes the databases, then starts the server with Bough's settings.
func (s *server) fill(ctx context.Context, sizes []int64, tables int) (mains []*dataset, err error) {
	quick := s.options
	quick.Settings = map[string]string{"wal_level": "minimal", "max_wal_senders": "0"}
	if s.Server, err = pgserver.Start(ctx, quick); err != nil {
		return nil, err
	}
	if filepath.Dir(s.ClusterDir()) != s.DataDir() {
		elsewhere := filepath.Dir(s.ClusterDir())
		return nil, errors.Join(fmt.Errorf("PostgreSQL's user cannot enter %s", filepath.Dir(s.options.DataDir)), s.stop(), os.RemoveAll(elsewhere))
	}
	for _, size := range sizes {
		d, err := newDataset(s.URL("postgres"), size)
		if err == nil {
			d.tables = tables
			err = d.fill(ctx)
		}
		if err != nil {
			return nil, err
		}
		mains = append(mains, d)
	}
	if err := s.stop(); err != nil {
		return nil, err
	}
	s.Server, err = pgserver.Start(ctx, s.options)
	return mains, err
}

// stop stops the server, if it runs.
func (s *server) stop() error {
	if s.Server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return s.Stop(ctx)
}

// remove stops the server and removes its data.
func (s *server) remove() error {
	return errors.Join(s.stop(), os.RemoveAll(s.options.DataDir))
}

// method is a way to make a branch.
type method struct {
	flag       string // in -methods
	name       string
	strategy   postgres.Strategy
	schemaOnly bool
	again      bool // the schema image is there already
	dump       bool // not by Bough but by pg_dump | psql
}

var methodNames = []string{"reflink", "file_copy", "wal_log", "copy", "schema", "dump"}

var (
	dumpMethod       = method{flag: "dump", name: "pg_dump | psql", dump: true}
	dumpSchemaMethod = method{flag: "dump", name: "pg_dump -s | psql", dump: true, schemaOnly: true}
)

// methods returns what is wanted and can be measured on the server, what matters most first. No names want all.
func (s *server) methods(wanted []string) []method {
	all := []method{
		{flag: "reflink", name: "reflink", strategy: postgres.StrategyReflink},
		{flag: "schema", name: "schema only, first", schemaOnly: true},
		{flag: "schema", name: "schema only, next", schemaOnly: true, again: true},
		dumpSchemaMethod,
		dumpMethod,
		{flag: "file_copy", name: "file_copy", strategy: postgres.StrategyFileCopy},
		{flag: "copy", name: "copy", strategy: postgres.StrategyCopy},
		{flag: "wal_log", name: "wal_log", strategy: postgres.StrategyWALLog},
	}
	return slices.DeleteFunc(all, func(m method) bool {
		return len(wanted) > 0 && !slices.Contains(wanted, m.flag) ||
			m.strategy == postgres.StrategyReflink && (!s.Reflink() || s.Installation().Major < cloneMajor) ||
			m.dump && s.tools.dump == ""
	})
}

// grows reports whether making a branch takes longer the larger main is.
func (m method) grows() bool { return !m.schemaOnly && m.strategy != postgres.StrategyReflink }
