package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/oauth"
	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/postgres"
)

// bench is one run of everything.
type bench struct {
	options
	log     *slog.Logger
	remarks io.Writer
	report  *report

	queries  queries
	pgbench  *pgbench
	program  *program
	resource string // of all tokens: the MCP server
	issuer   string
	control  *pgxpool.Pool
}

func (b *bench) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	if b.queries, err = readQueries(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.dir, "bough-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// PostgreSQL's user has to enter it; the cluster in it is private.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	path, err := b.programPath(ctx, dir)
	if err != nil {
		return err
	}
	server, err := pgserver.Start(ctx, pgserver.Options{DataDir: filepath.Join(dir, "data"), BinDir: b.binDir, CacheDir: pgserver.DefaultCacheDir(), Log: b.log})
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err = errors.Join(err, server.Stop(stop))
	}()
	b.report.Server = "PostgreSQL " + server.Installation().Version
	control := server.URL("control")
	if b.pgbench, err = newPgbench(ctx, server.Installation(), control, dir); err != nil {
		return err
	}
	if err := postgres.EnsureDatabase(ctx, server.URL("main")); err != nil {
		return err
	}
	if b.program, err = startProgram(ctx, path, dir, server.URL("main"), control); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.program.stop()) }()
	b.issuer, b.resource = b.program.url, b.program.url+"/mcp"
	if err := b.fill(ctx, control); err != nil {
		return fmt.Errorf("filling the tables: %w", err)
	}
	cfg, err := pgxpool.ParseConfig(control)
	if err != nil {
		return err
	}
	cfg.MaxConns = int32(b.connections)
	if b.control, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	defer b.control.Close()
	if err := b.measure(ctx); err != nil {
		return err
	}
	return b.verify(ctx)
}

// verify makes sure that both sides used up as much: SQL that finds nothing is fast.
func (b *bench) verify(ctx context.Context) error {
	want := int64(2 * b.requests * b.rounds)
	for what, query := range map[string]string{
		"codes that were used": "select count(*) from oauth_codes where used_at is not null",
		"refreshes":            "select count(*) from oauth_tokens where rotated_at is not null",
		// Those that it was given to begin with are good for longer.
		"halves of what came": "select count(*) / 2 from oauth_tokens where kind = 'access' and created_at > expires_at - interval '2 hours'",
	} {
		var got int64
		if err := b.control.QueryRow(ctx, query).Scan(&got); err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("there are %d %s, not %d", got, what, want)
		}
	}
	return nil
}

// measure takes a sample of everything in each round.
func (b *bench) measure(ctx context.Context) error {
	for round := range b.rounds {
		for _, k := range kinds() {
			yard, err := b.pgbench.run(ctx, b, k, round)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			for _, w := range b.ways(k) {
				work, err := w.start()
				if err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				t, err := b.load(ctx, round, work)
				if err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				b.report.add(w.name, sample{Rate: t.rate(), Middle: t.quantile(.5), Slow: t.quantile(.99), Yard: yard})
				fmt.Fprintf(b.remarks, "%d/%d %s: %.0f a second\n", round+1, b.rounds, w.name, t.rate())
			}
		}
	}
	return nil
}

// way is one of the ways to have something done. start returns what does it once.
type way struct {
	name  string
	start func() (work, error)
}

// work does the n-th thing of a connection.
type work func(ctx context.Context, connection, n int) error

func (b *bench) ways(k kind) []way {
	if k.form != nil {
		return []way{{k.name + ", over HTTP", func() (work, error) {
			c := newClients(b.connections)
			return func(ctx context.Context, connection, n int) error {
				return c[connection].token(ctx, b.program.url+"/mcp/oauth/token", k.form(connection, n))
			}, nil
		}}}
	}
	token := func(connection, n int) string { return secret(accessPrefix, connection, n) }
	one := func(connection, _ int) string { return secret(accessPrefix, connection, 0) }
	verify := func(name string, which func(connection, n int) string) way {
		return way{name, func() (work, error) {
			service, err := oauth.New(b.control, nil, oauth.Config{
				Issuer: b.issuer, BasePath: "/mcp", TokenLifetime: time.Hour, RefreshLifetime: time.Hour,
			}, b.log)
			return func(ctx context.Context, connection, n int) error {
				_, err := service.Verify(ctx, which(connection, n))
				return err
			}, err
		}}
	}
	call := func(name string, which func(connection, n int) string) way {
		return way{name, func() (work, error) {
			c := newClients(b.connections)
			return func(ctx context.Context, connection, n int) error {
				return c[connection].call(ctx, b.resource, which(connection, n))
			}, nil
		}}
	}
	return []way{
		verify(k.name+", in the process, from the tables", token),
		verify(k.name+", in the process, remembered", one),
		call("ask the MCP server, a new token each time", token),
		call("ask the MCP server, a token that it remembers", one),
	}
}
