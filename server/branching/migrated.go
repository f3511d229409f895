package branching

import (
	"context"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
)

// Migrated records that the caller changed the schema of a branch, of which ref is the slug or the id. details tell what
// was done.
func (s *Service) Migrated(ctx context.Context, p *auth.Principal, ref string, took time.Duration, details map[string]any) error {
	route, err := s.Route(ctx, p, ref, true)
	if err != nil {
		return err
	}
	return record(ctx, db.New(s.pool), route.BranchID, db.BranchActionMigrated, p.Actor(), db.ActivityStatusSuccess, took, details)
}
