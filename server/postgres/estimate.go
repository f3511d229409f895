package postgres

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

// rate is how long a strategy takes: so long for a byte, and so long for a file, in seconds. Files are created one by
// one, and all but wal_log sync each of them.
type rate struct{ perByte, perFile float64 }

// What to expect before the first clone, from measurements on modest machines.
var defaultRates = map[Strategy]rate{
	StrategyReflink:  {1.0 / (10 << 30), 0.0004},
	StrategyFileCopy: {1.0 / (500 << 20), 0.002},
	StrategyWALLog:   {1.0 / (250 << 20), 0.00015},
}

// extent is what there is to copy.
type extent struct{ bytes, files int64 }

func (r rate) of(e extent) float64 { return r.perByte*float64(e.bytes) + r.perFile*float64(e.files) }

func (c *Cluster) rate(s Strategy) rate {
	if r, ok := c.rates[s]; ok {
		return r
	}
	return defaultRates[s]
}

func (c *Cluster) estimate(s Strategy, e extent) time.Duration {
	c.rateMu.Lock()
	defer c.rateMu.Unlock()
	return time.Duration(c.rate(s).of(e) * float64(time.Second))
}

// measure remembers how fast a strategy was. What took the greater part of the time is corrected more: a copy of many
// small files says little of how long a byte takes.
func (c *Cluster) measure(s Strategy, e extent, took time.Duration) {
	c.rateMu.Lock()
	defer c.rateMu.Unlock()
	r := c.rate(s)
	expected := r.of(e)
	if expected <= 0 || took <= 0 {
		return
	}
	bytes := r.perByte * float64(e.bytes) / expected
	// Not too much at once: the machine may have been busy with something else.
	factor := min(max(took.Seconds()/expected, 0.25), 4)
	r.perByte *= math.Pow(factor, bytes)
	r.perFile *= math.Pow(factor, 1-bytes)
	c.rates[s] = r
}

// fastest is the strategy of CREATE DATABASE … TEMPLATE that takes the least time. It goes by what to expect of each:
// what was measured of one in a busy hour says nothing of the others.
func (c *Cluster) fastest(e extent) Strategy {
	best := StrategyWALLog
	for _, s := range []Strategy{StrategyFileCopy, StrategyReflink} {
		if (s != StrategyReflink || c.caps.Reflink) && defaultRates[s].of(e) < defaultRates[best].of(e) {
			best = s
		}
	}
	return best
}

// countFiles counts the files of the database that conn is connected to.
func countFiles(ctx context.Context, conn *pgx.Conn) (n int64, err error) {
	// Each relation with storage has a file for each GB; those with pages a free space map, and tables a visibility map.
	err = conn.QueryRow(ctx, `
		select coalesce(sum(1 + relpages::bigint * current_setting('block_size')::bigint / (1 << 30)
			+ case when relpages > 0 and relkind in ('r', 'm', 't') then 2 else 0 end), 0)::bigint
		from pg_class where relkind in ('r', 'i', 't', 'm', 'S') and relpersistence <> 't' and not relisshared`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting the files: %w", err)
	}
	return n, nil
}
