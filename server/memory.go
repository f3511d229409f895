package server

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/boughdb/bough/server/pgserver"
)

// limitMemory tells Go how much memory it may use, unless GOMEMLIMIT does: it collects garbage in time, then, instead of
// growing until the system kills the process. Half of the memory is left to an embedded PostgreSQL.
func limitMemory(cfg Config) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	memory := pgserver.Memory()
	if memory == 0 {
		return
	}
	share := memory / 10 * 9
	if cfg.DatabaseURL == "" {
		share = memory / 2
	}
	debug.SetMemoryLimit(int64(min(share, math.MaxInt64)))
}

// memoryBudget is how many bytes large bodies, records and answers may have together.
func memoryBudget(cfg Config) int64 {
	if cfg.API.Memory > 0 {
		return cfg.API.Memory
	}
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return 0
	}
	// What is counted is the content; buffers that grow, and what is made of it, take about as much again.
	return max(limit/2, 64<<20)
}
