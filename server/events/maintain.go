package events

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
)

// A delivery that has been due for so long, and is not being tried, has lost its job.
const grace = 30 * time.Second

// Maintain takes up deliveries whose process died, and removes what is old, until ctx ends. Every process may run it;
// the database decides who does what.
func (s *Service) Maintain(ctx context.Context) {
	const tick, sweeps = 5 * time.Second, 10 * time.Minute
	var swept time.Time
	for {
		if err := s.takeUp(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("taking up lost deliveries", "error", err)
		}
		if time.Since(swept) > sweeps {
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.log.Error("sweeping events", "error", err)
			}
			swept = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(tick):
		}
	}
}

func (s *Service) takeUp(ctx context.Context) error {
	return s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error {
		ids, err := q.ClaimLostDeliveries(ctx, grace.Seconds())
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			s.log.Info("taking up deliveries that are late", "deliveries", len(ids))
		}
		return s.enqueue(ctx, tx, ids...)
	})
}

// Sweep removes deliveries, events and secrets whose time is over.
func (s *Service) Sweep(ctx context.Context) error {
	q := db.New(s.pool)
	if _, err := q.SweepDeliveries(ctx, s.cfg.Retention.Seconds()); err != nil {
		return fmt.Errorf("sweeping deliveries: %w", err)
	}
	if _, err := q.SweepEvents(ctx, s.cfg.Retention.Seconds()); err != nil {
		return fmt.Errorf("sweeping events: %w", err)
	}
	if err := q.SweepWebhookSecrets(ctx); err != nil {
		return fmt.Errorf("sweeping secrets: %w", err)
	}
	return nil
}
