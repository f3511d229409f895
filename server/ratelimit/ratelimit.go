// Package ratelimit bounds how often something may be tried. The counts are in the control database, so that they hold
// for all server processes together.
package ratelimit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/fault"
)

// ErrLimited is the error of too many attempts.
var ErrLimited = fault.New(fault.RateLimited, "too_many_attempts", "too many attempts")

// Limit lets a burst of attempts pass, and then one in each interval. It never locks for longer than that.
type Limit struct {
	// Name tells the counts of one limit from those of others.
	Name  string
	Burst int
	Every time.Duration
}

func (l Limit) key(of string) []byte {
	hash := sha256.Sum256([]byte(l.Name + "\x00" + of))
	return hash[:]
}

// Limiter counts attempts.
type Limiter struct {
	pool    *pgxpool.Pool
	enabled bool
}

// New returns the limiter of a control database. One that is not enabled lets everything pass.
func New(pool *pgxpool.Pool, enabled bool) *Limiter { return &Limiter{pool, enabled} }

// Enabled reports whether attempts are counted.
func (l *Limiter) Enabled() bool { return l.enabled }

// Take counts an attempt by, or at, whatever of names. It returns ErrLimited, with the time to wait, when there were too
// many.
func (l *Limiter) Take(ctx context.Context, limit Limit, of string) error {
	if !l.enabled {
		return nil
	}
	row, err := db.New(l.pool).TakeRate(ctx, db.TakeRateParams{
		Key: limit.key(of), IntervalSeconds: limit.Every.Seconds(), BurstSeconds: limit.Every.Seconds() * float64(limit.Burst),
	})
	if err != nil {
		return fmt.Errorf("counting attempts: %w", err)
	}
	if row.Allowed {
		return nil
	}
	wait := max(time.Duration(row.WaitSeconds*float64(time.Second)), time.Second).Round(time.Second)
	return ErrLimited.Msgf("too many attempts; try again in %d seconds", int(wait.Seconds())).Retry(wait)
}

// Forget forgets the attempts.
func (l *Limiter) Forget(ctx context.Context, limit Limit, of string) error {
	return db.New(l.pool).ResetRate(ctx, limit.key(of))
}
