package branching

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
)

// ErrMaxOfRepository is the error of one branch too many of a repository's pull requests.
var ErrMaxOfRepository = ErrMaxBranches.Msgf("the number of branches of the repository's pull requests is at its limit")

// Enabled returns ErrDisabled where branching is switched off.
func (s *Service) Enabled() error { return s.enabled() }

// MaxExpiry is the longest that a branch may be given to live.
func (s *Service) MaxExpiry() time.Duration { return s.cfg.MaxExpiry }

// SeedsConfigured reports whether there may be branches with seed_data.
func (s *Service) SeedsConfigured() bool { return s.cfg.SeedPath != "" }

// OfPullRequest returns the branches that belong to a pull request, oldest first; ones being deleted not.
func (s *Service) OfPullRequest(ctx context.Context, repository string, number int32) ([]Branch, error) {
	return branchesOf(ctx, db.New(s.pool), repository, number)
}

func branchesOf(ctx context.Context, q *db.Queries, repository string, number int32) ([]Branch, error) {
	branches, err := q.ListBranchesOfPullRequest(ctx, db.ListBranchesOfPullRequestParams{Repository: repository, Number: number})
	if err != nil {
		return nil, fmt.Errorf("looking for the branches of a pull request: %w", err)
	}
	return branches, nil
}

// CreateForPullRequest is Create for the pull request that the params name. There is at most one branch that this made
// for a pull request: where it has one already, that is returned. most is how many the repository may have.
func (s *Service) CreateForPullRequest(ctx context.Context, p *auth.Principal, params CreateParams, most int32) (Branch, error) {
	params.maxOfRepository = most
	return s.Create(ctx, p, params)
}

// roomFor returns the branch that a pull request has already, nil for none, or an error when its repository has too many.
// The caller holds the lock of the quota, so that what this finds is so until its transaction ends.
func roomFor(ctx context.Context, q *db.Queries, params CreateParams) (*Branch, error) {
	if params.maxOfRepository == 0 {
		return nil, nil
	}
	present, err := branchesOf(ctx, q, *params.RepohostRepo, *params.RepohostPRNumber)
	if err != nil {
		return nil, err
	}
	if len(present) > 0 {
		return &present[0], nil
	}
	count, err := q.CountBranchesOfRepository(ctx, *params.RepohostRepo)
	if err != nil {
		return nil, fmt.Errorf("counting the branches of a repository: %w", err)
	}
	if count >= int64(params.maxOfRepository) {
		return nil, ErrMaxOfRepository.Msgf("the pull requests of %s already have %d branches, the most they may have", *params.RepohostRepo, count)
	}
	return nil, nil
}

// SetExpiry gives a branch another end; nil is none.
func (s *Service) SetExpiry(ctx context.Context, p *auth.Principal, id uuid.UUID, at *time.Time) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		b, err := q.SetBranchExpiry(ctx, db.SetBranchExpiryParams{ID: id, ExpiresAt: at})
		if errors.Is(err, pgx.ErrNoRows) {
			return notFound(id.String())
		}
		if err != nil {
			return fmt.Errorf("setting the expiry: %w", err)
		}
		if err := record(ctx, q, id, db.BranchActionUpdated, p.Actor(), db.ActivityStatusSuccess, 0, map[string]any{"expires_at": at}); err != nil {
			return err
		}
		return s.tell(ctx, tx, eventUpdated, b, p.Actor(), occasion{Changed: []string{"expires_at"}})
	})
}
