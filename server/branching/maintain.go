package branching

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
)

// Maintain ends branches whose time is over, announces that before, takes up operations whose process died, and drops databases that no
// branch owns, until ctx ends. Every process may run it; the database decides who does what.
func (s *Service) Maintain(ctx context.Context) {
	const tick = time.Second
	// What a killed process or a drop that failed left takes up space, and a look at the list of databases costs little.
	const sweeps = 15 * time.Second
	var swept time.Time
	for {
		if err := s.expire(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("ending expired branches", "error", err)
		}
		if err := s.announceExpiries(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("announcing expiries", "error", err)
		}
		if err := s.takeUp(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("taking up unfinished operations", "error", err)
		}
		if time.Since(swept) > sweeps {
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				s.log.Error("sweeping", "error", err)
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

// expire begins to delete the branches whose time is over. Their children go to their parents.
func (s *Service) expire(ctx context.Context) error {
	ids, err := db.New(s.pool).ListExpired(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			q := db.New(tx)
			b, err := q.LockBranch(ctx, id)
			if err != nil {
				return err
			}
			if b.ExpiresAt == nil || b.ExpiresAt.After(time.Now()) {
				return nil // extended meanwhile
			}
			if err := s.beginDelete(ctx, tx, nil, id, OrphanChildren, ""); err != nil {
				return err
			}
			return record(ctx, q, id, db.BranchActionExpired, "", db.ActivityStatusSuccess, 0, map[string]any{"expires_at": b.ExpiresAt})
		})
		// Gone or being deleted by another process, or a child is being made from it: the next round sees.
		if err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	return nil
}

// takeUp queues the operations that nobody works on.
func (s *Service) takeUp(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		ids, err := q.ClaimStranded(ctx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			b, err := q.GetBranchByID(ctx, id)
			if err != nil {
				return err
			}
			s.log.Info("taking up an operation whose process is gone", "branch", b.Slug, "operation", b.Status)
			if err := s.enqueue(ctx, tx, b); err != nil {
				return err
			}
		}
		return nil
	})
}

// sweep drops this installation's databases that no branch owns, and old idempotency keys. A branch in an operation
// is left alone: its worker knows better.
func (s *Service) sweep(ctx context.Context) error {
	q := db.New(s.pool)
	if _, err := q.SweepIdempotencyKeys(ctx); err != nil {
		return err
	}
	if err := s.engine.SweepImages(ctx, s.live(ctx)); err != nil {
		return err
	}
	// The databases come first: one made after this is not in the list, one whose branch is removed after it is.
	databases, err := s.engine.Databases(ctx)
	if err != nil {
		return err
	}
	rows, err := q.ListDatabaseOwners(ctx)
	if err != nil {
		return err
	}
	owners := map[uuid.UUID]db.ListDatabaseOwnersRow{}
	for _, row := range rows {
		owners[row.ID] = row
	}
	for _, d := range databases {
		owner, ok := owners[d.Marker.Branch]
		switch {
		case d.Name == s.engine.Main():
			continue
		case ok && owner.Status != db.BranchStatusReady && owner.Status != db.BranchStatusError:
			continue
		case ok && owner.DatabaseName == d.Name:
			continue
		}
		if err := s.dropOrphan(ctx, d.Marker.Branch, d.Name); err != nil {
			return err
		}
	}
	return nil
}

// live reports whether a branch is there. One that was never recorded here is not: its schema image can be made again.
func (s *Service) live(ctx context.Context) func(uuid.UUID) (bool, error) {
	return func(id uuid.UUID) (bool, error) {
		b, err := db.New(s.pool).GetBranchByID(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return b.DeletedAt == nil, err
	}
}

// dropOrphan drops a database that a finished or removed branch left, unless an operation began meanwhile. One of a
// branch that was never recorded here stays: the control database may have been restored from before its time.
func (s *Service) dropOrphan(ctx context.Context, branch uuid.UUID, name string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		b, err := q.GetBranchByID(ctx, branch)
		if errors.Is(err, pgx.ErrNoRows) {
			if !s.strange[name] {
				s.strange[name] = true
				s.log.Warn("a database has this installation's marker, but its branch is unknown; it is left alone", "database", name, "branch", branch)
			}
			return nil
		}
		if err == nil && b.DeletedAt == nil {
			b, err = q.LockBranch(ctx, branch)
		}
		switch {
		case errors.Is(err, pgx.ErrNoRows): // removed this moment
		case err != nil:
			return err
		case b.DeletedAt != nil:
		case b.DatabaseName == name || b.Status != db.BranchStatusReady && b.Status != db.BranchStatusError:
			return nil
		}
		s.log.Info("dropping a database that no branch owns", "database", name)
		return s.engine.Drop(ctx, name, "")
	})
}

// Counts returns how many branches there are by status, for metrics.
func (s *Service) Counts(ctx context.Context) (map[string]int64, error) {
	rows, err := db.New(s.pool).CountBranchesByStatus(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[string]int64{}
	for _, status := range db.AllBranchStatusValues() {
		counts[string(status)] = 0
	}
	for _, row := range rows {
		counts[string(row.Status)] = row.Count
	}
	return counts, nil
}
