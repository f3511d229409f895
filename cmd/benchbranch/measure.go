package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/postgres"
)

const (
	warmUp    = 300 * time.Millisecond // connections are opened, plans made
	aftermath = 500 * time.Millisecond // main after it

	branchName = "branch"
)

// fixedCost is the part of a measurement's time that does not depend on what is measured.
func (o options) fixedCost() time.Duration { return warmUp + o.calm + aftermath }

// sample is one measurement. Times are in seconds.
type sample struct {
	Ready      float64 `json:"ready_s"`           // until the branch is complete
	Held       float64 `json:"held_s"`            // how long the engine says it held requests
	Pause      float64 `json:"longest_request_s"` // as clients of main saw it
	Gap        float64 `json:"longest_gap_s"`     // between two answers to any client
	Requests   int     `json:"requests"`          // from the first to the last
	Failed     int     `json:"failed"`
	RateBefore float64 `json:"tps_before"`
	RateDuring float64 `json:"tps_during"`
	LongestYet float64 `json:"longest_request_before_s"`
	Disk       int64   `json:"disk_bytes"`       // what only the branch has, when it is ready
	DiskLater  int64   `json:"disk_later_bytes"` // when memory was written to disk, and main has moved on
	WAL        int64   `json:"wal_bytes"`        // written meanwhile, the clients' too
	Drop       float64 `json:"drop_s"`
}

// measure makes a branch of main by one method while clients write to main, looks at it and drops it.
func measure(ctx context.Context, s *server, main *dataset, m method, o options, log *slog.Logger) (_ sample, err error) {
	cluster, err := openCluster(ctx, s, main, m, log)
	if err != nil {
		return sample{}, err
	}
	defer cluster.Close()
	defer func() {
		// What a failure or an interruption left.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, cluster.Drop(cleanup, branchName, ""), cluster.SweepImages(cleanup, func(uuid.UUID) (bool, error) { return false, nil }))
	}()
	admin, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return sample{}, err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	earlier, err := readSums(ctx, main.url)
	if err != nil {
		return sample{}, err
	}

	if m.again {
		first := m
		first.again = false
		if _, err := makeBranch(ctx, cluster, s, main, first); err != nil {
			return sample{}, err
		}
		if err := cluster.Drop(ctx, branchName, ""); err != nil {
			return sample{}, err
		}
	}

	clientCtx, interrupt := context.WithCancel(ctx)
	c := startClients(clientCtx, cluster.Pools, main, o.workers)
	defer func() {
		interrupt() // after a failure nobody wants to wait for them
		c.stop()
	}()
	sleep(ctx, warmUp)
	start := time.Now()
	sleep(ctx, o.calm)
	var out sample
	wal, err := walPosition(ctx, admin)
	if err != nil {
		return out, err
	}
	confirmed := earlier.HistoryRows + c.committed.Load()
	from := time.Now()
	out.Held, err = makeBranch(ctx, cluster, s, main, m)
	to := time.Now()
	if err != nil {
		return out, err
	}
	walEnd, err := walPosition(ctx, admin)
	if err != nil {
		return out, err
	}
	if out.Disk, err = branchUsage(ctx, s, admin); err != nil {
		return out, err
	}
	sleep(ctx, aftermath)
	requests := c.stop()
	end := time.Now()
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	before, during, all := observe(requests, start, from), observe(requests, from, to), observe(requests, start, end)
	out.Ready, out.WAL = to.Sub(from).Seconds(), walEnd-wal
	out.Pause, out.Gap, out.RateDuring = during.Longest.Seconds(), during.Gap.Seconds(), during.Rate
	out.LongestYet, out.RateBefore = before.Longest.Seconds(), before.Rate
	out.Requests, out.Failed = all.Requests, all.Failed
	if all.Failed > 0 {
		log.Warn("requests to main failed", "method", m.name, "failed", all.Failed, "error", c.firstErr)
	}

	if _, err := admin.Exec(ctx, "checkpoint"); err != nil {
		return out, err
	}
	if out.DiskLater, err = branchUsage(ctx, s, admin); err != nil {
		return out, err
	}
	if err := check(ctx, s, main, m, confirmed, earlier.HistoryRows+c.committed.Load()+int64(all.Failed)); err != nil {
		return out, fmt.Errorf("WRONG DATA: %w", err)
	}
	began := time.Now()
	if err := cluster.Drop(ctx, branchName, ""); err != nil {
		return out, err
	}
	out.Drop = time.Since(began).Seconds()
	return out, nil
}

// openCluster opens main as Bough does by default, with the method's strategy.
func openCluster(ctx context.Context, s *server, main *dataset, m method, log *slog.Logger) (*postgres.Cluster, error) {
	return postgres.OpenCluster(ctx, postgres.ClusterConfig{
		URL: main.url, Installation: uuid.New(), Log: log, Strategy: m.strategy, Reflink: s.Reflink(),
		Limits:   postgres.PoolLimits{Main: 20, Branch: 5, Total: 120, Idle: 5 * time.Minute},
		Sessions: postgres.CopyAround, Drain: 5 * time.Second, Jobs: 2,
		PGDump: func(int) string { return s.tools.dump },
	})
}

// makeBranch returns when the branch is ready, with how long requests to main were held.
func makeBranch(ctx context.Context, cluster *postgres.Cluster, s *server, main *dataset, m method) (held float64, err error) {
	if m.dump {
		url := s.URL(branchName)
		if err := postgres.EnsureDatabase(ctx, url); err != nil {
			return 0, err
		}
		return 0, s.tools.pipe(ctx, main.url, url, m.schemaOnly)
	}
	request := postgres.CloneRequest{Source: main.name, Target: branchName, SchemaOnly: m.schemaOnly, Branch: uuid.New()}
	result, err := cluster.Clone(ctx, request)
	if err != nil {
		return 0, err
	}
	if m.strategy != "" && result.Strategy != m.strategy {
		return 0, fmt.Errorf("the engine fell back to %s", result.Strategy)
	}
	if result.Reused != m.again {
		return 0, fmt.Errorf("a schema image was there already: %v", result.Reused)
	}
	return result.Pause.Seconds(), cluster.Complete(ctx, request)
}

func check(ctx context.Context, s *server, main *dataset, m method, confirmed, all int64) error {
	if m.schemaOnly {
		return checkSchema(ctx, s.URL(branchName), main.tables)
	}
	found, err := readSums(ctx, s.URL(branchName))
	if err != nil {
		return err
	}
	return found.check(main.accounts, confirmed, all)
}

// branchUsage is what dropping the branch would give back. The data directory as a whole says less: main grows too,
// and WAL comes and goes.
func branchUsage(ctx context.Context, s *server, admin *pgx.Conn) (int64, error) {
	var oid uint32
	if err := admin.QueryRow(ctx, "select oid from pg_database where datname = $1", branchName).Scan(&oid); err != nil {
		return 0, err
	}
	return diskUsage(filepath.Join(s.ClusterDir(), "base", strconv.FormatUint(uint64(oid), 10)))
}

func walPosition(ctx context.Context, conn *pgx.Conn) (position int64, err error) {
	err = conn.QueryRow(ctx, "select (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&position)
	return position, err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
