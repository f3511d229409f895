package branching

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/postgres"
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
		case database := <-s.gone:
			if err := s.checkGone(ctx, database); err != nil && ctx.Err() == nil {
				s.log.Error("looking for a branch's database", "database", database, "error", err)
			}
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

// sweep drops what Bough's own operations left of databases, finds branches whose database is not there any more, and
// removes old idempotency keys. A branch in an operation is left alone: its worker knows better.
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
	there := map[uuid.UUID]bool{}
	for _, d := range databases {
		owner, ok := owners[d.Marker.Branch]
		switch {
		case d.Name == s.engine.Main():
			continue
		case ok && owner.DatabaseName == d.Name:
			there[owner.ID] = true
			continue
		case ok && owner.Status != db.BranchStatusReady && owner.Status != db.BranchStatusError:
			continue
		}
		if err := s.dropOrphan(ctx, d.Marker.Branch, d.Name); err != nil {
			return err
		}
	}
	for _, row := range rows {
		missing := row.ErrorCode != nil && *row.ErrorCode == codeMissing
		if row.IsMain || there[row.ID] == (row.Status == db.BranchStatusReady) || row.Status == db.BranchStatusError && !missing {
			continue
		}
		if err := s.checkDatabase(ctx, row.ID, databases); err != nil {
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

// dropOrphan drops a database that an operation of a finished or removed branch left, unless another began meanwhile.
//
// Only a database with a name that Bough gives is dropped. Under another name it was put there by somebody who may want
// to keep it: it is reported, once. So is one of a branch that was never recorded here: the control database may have
// been restored from before its time.
func (s *Service) dropOrphan(ctx context.Context, branch uuid.UUID, name string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		b, err := q.GetBranchByID(ctx, branch)
		if errors.Is(err, pgx.ErrNoRows) {
			s.warnOnce(name, "a database has this installation's marker, but its branch is unknown; it is left alone", "database", name, "branch", branch)
			return nil
		}
		if err != nil {
			return err
		}
		if b.DeletedAt == nil {
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
		if !givenName(b, name) {
			s.warnOnce(name, "a branch's database was renamed, and is left alone under its new name", "database", name, "former", b.DatabaseName, "branch", b.Slug)
			return nil
		}
		s.log.Info("dropping a database that no branch owns", "database", name)
		return s.engine.Drop(ctx, name, "")
	})
}

// givenName reports whether Bough gives the name to databases of the branch.
func givenName(b Branch, name string) bool {
	return name == b.DatabaseName || name == freshName(b.DatabaseName) || name == oldName(b.DatabaseName)
}

// warnOnce writes a warning about a database that this process has not warned of.
func (s *Service) warnOnce(database, message string, args ...any) {
	if !s.strange[database] {
		s.strange[database] = true
		s.log.Warn(message, args...)
	}
}

// codeMissing is the error code of a branch whose database is not there any more.
const codeMissing = "database_missing"

// checkDatabase brings a branch's status in line with whether its database is there: somebody may drop or rename it, and
// may rename it back. databases are those of this installation.
func (s *Service) checkDatabase(ctx context.Context, id uuid.UUID, databases []postgres.Database) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		// With the row locked no operation begins, and in these statuses none is under way: what is seen now stays so.
		b, err := q.LockBranch(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		d, err := s.engine.Lookup(ctx, b.DatabaseName)
		if err != nil {
			return err
		}
		switch {
		case b.Status == db.BranchStatusReady && d == nil:
			return s.markMissing(ctx, tx, b, databases)
		case b.Status == db.BranchStatusError && d != nil && owns(d, b) && !d.Invalid && d.Marker.Complete && d.Marker.Generation == b.Generation:
			if b, err = q.MarkDatabaseFound(ctx, b.ID); errors.Is(err, pgx.ErrNoRows) {
				return nil
			} else if err != nil {
				return err
			}
			s.log.Info("a branch's database is back", "branch", b.Slug, "database", b.DatabaseName)
			return record(ctx, q, b.ID, db.BranchActionReady, "", db.ActivityStatusSuccess, 0, map[string]any{"reason": "the database is back"})
		}
		return nil
	})
}

// markMissing puts a branch without a database into status error.
func (s *Service) markMissing(ctx context.Context, tx pgx.Tx, b Branch, databases []postgres.Database) error {
	message := fmt.Sprintf("database %q does not exist any more: somebody dropped it; reset the branch to create it again, or delete the branch", b.DatabaseName)
	for _, d := range databases {
		if owns(&d, b) && !givenName(b, d.Name) {
			message = fmt.Sprintf("database %q does not exist any more: somebody renamed it to %q; rename it back, or reset the branch to create a new one, or delete the branch",
				b.DatabaseName, d.Name)
		}
	}
	q := db.New(tx)
	b, err := q.MarkDatabaseMissing(ctx, db.MarkDatabaseMissingParams{ID: b.ID, ErrorMessage: message})
	if err != nil {
		return err
	}
	s.log.Warn("a branch has lost its database", "branch", b.Slug, "reason", message)
	if err := record(ctx, q, b.ID, db.BranchActionFailed, "", db.ActivityStatusFailure, 0, map[string]any{"error": message, "code": codeMissing}); err != nil {
		return err
	}
	return s.tell(ctx, tx, eventFailed, b, "", occasion{Error: message})
}

// DatabaseGone says that a request found no database under a name. Maintain looks soon whether a branch has lost its
// own; until then the request's error is all that is known.
func (s *Service) DatabaseGone(database string) {
	select {
	case s.gone <- database:
	default: // many at a time; the sweep finds the rest
	}
}

// checkGone checks the branch that a database belongs to.
func (s *Service) checkGone(ctx context.Context, database string) error {
	rows, err := db.New(s.pool).ListDatabaseOwners(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if row.DatabaseName != database || row.IsMain || row.Status != db.BranchStatusReady {
			continue
		}
		databases, err := s.engine.Databases(ctx)
		if err != nil {
			return err
		}
		return s.checkDatabase(ctx, row.ID, databases)
	}
	return nil
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
