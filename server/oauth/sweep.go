package oauth

import (
	"context"
	"errors"
	"fmt"

	"github.com/boughdb/bough/gen/db"
)

// Sweep removes what is not needed any more. Each process calls it about every minute.
func (s *Service) Sweep(ctx context.Context) error {
	q := db.New(s.pool)
	lifetime := s.cfg.RefreshLifetime.Seconds()
	err := errors.Join(
		q.SweepOAuthRequests(ctx), q.SweepOAuthBrowsers(ctx), q.SweepOAuthTokens(ctx, lifetime), q.SweepOAuthGrants(ctx, lifetime),
	)
	if err != nil {
		return fmt.Errorf("sweeping OAuth's tables: %w", err)
	}
	gone, err := q.SweepOAuthClients(ctx)
	if err != nil {
		return fmt.Errorf("sweeping OAuth clients: %w", err)
	}
	if len(gone) > 0 {
		s.log.Info("OAuth clients that nobody uses were removed", "count", len(gone))
	}
	return nil
}
