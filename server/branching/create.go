package branching

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/diskspace"
	"github.com/boughdb/bough/server/duration"
	"github.com/boughdb/bough/server/fault"
)

// CreateParams describe a branch to make.
type CreateParams struct {
	Name             string
	ParentID         *uuid.UUID // nil is main
	Mode             db.DataCloneMode
	Type             db.BranchType
	ExpiresIn        string // as package duration reads it; "" is never
	RepohostRepo     *string
	RepohostPRNumber *int32
	RepohostPRURL    *string
	IdempotencyKey   string

	maxOfRepository int32 // see CreateForPullRequest
}

// Create records a branch in status creating and the job that makes it. The name is free, the parent ready and within
// the caller's reach, and the limits hold, all at the same moment.
func (s *Service) Create(ctx context.Context, p *auth.Principal, params CreateParams) (Branch, error) {
	if err := s.enabled(); err != nil {
		return Branch{}, err
	}
	if err := p.Require(auth.WriteBranches); err != nil {
		return Branch{}, err
	}
	row, err := s.newBranch(p, params)
	if err != nil {
		return Branch{}, err
	}
	if taken, err := s.engine.Lookup(ctx, row.DatabaseName); err != nil {
		return Branch{}, err
	} else if taken != nil {
		return Branch{}, ErrExists.Msgf("the server already has a database %q", row.DatabaseName)
	}
	var b Branch
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		made, err := s.madeBefore(ctx, q, p, params)
		if err != nil || made != nil {
			if made != nil {
				b = *made
			}
			return err
		}
		b, err = s.insert(ctx, tx, p, params, row)
		return err
	})
	if violated(err, "branches_name_key", "branches_slug_key") {
		return Branch{}, ErrExists.Msgf("there is already a branch %q", row.Slug)
	}
	return b, err
}

// checkRoom refuses a copy of a parent that the disk has no room for. What cannot be found out is no reason to refuse it:
// the copying itself is watched.
func (s *Service) checkRoom(ctx context.Context, parent Branch, mode db.DataCloneMode) error {
	err := s.engine.CheckRoom(ctx, parent.DatabaseName, mode != db.DataCloneModeFullClone)
	if errors.Is(err, diskspace.ErrInsufficient) {
		return err
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("looking whether the disk has room for a branch", "parent", parent.Slug, "error", err)
	}
	return nil
}

// newBranch checks what can be checked without the database.
func (s *Service) newBranch(p *auth.Principal, params CreateParams) (row db.InsertBranchParams, err error) {
	row = db.InsertBranchParams{
		ID: uuid.Must(uuid.NewV7()), Type: params.Type, DataCloneMode: params.Mode, ParentID: params.ParentID, CreatedBy: p.Actor(),
		RepohostRepo: params.RepohostRepo, RepohostPRNumber: params.RepohostPRNumber, RepohostPRURL: params.RepohostPRURL,
	}
	if row.Name, err = cleanName(params.Name); err != nil {
		return row, err
	}
	if row.Slug, err = slugOf(row.Name); err != nil {
		return row, err
	}
	row.DatabaseName = databaseName(row.Slug, row.ID)
	if params.ExpiresIn != "" {
		if row.ExpiresAt, err = s.expiry(params.ExpiresIn); err != nil {
			return row, err
		}
	}
	if (params.RepohostPRNumber != nil || params.RepohostPRURL != nil) && params.RepohostRepo == nil {
		return row, fault.Validation("repohost_repo must say which repository the pull request belongs to")
	}
	if params.RepohostPRURL != nil {
		if u, err := url.Parse(*params.RepohostPRURL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return row, fault.Validation("repohost_pr_url must be an http or https URL")
		}
	}
	if params.Mode == db.DataCloneModeSeedData && s.cfg.SeedPath == "" {
		return row, fault.Validation("data_clone_mode seed_data needs the setting branching.seed_path on the server")
	}
	return row, nil
}

func (s *Service) expiry(text string) (*time.Time, error) {
	d, err := duration.Parse(text)
	if err != nil {
		return nil, fault.Validation("expires_in: %s", err)
	}
	if d > s.cfg.MaxExpiry {
		return nil, fault.Validation("expires_in must be at most %s", duration.Format(s.cfg.MaxExpiry))
	}
	at := time.Now().Add(d).UTC()
	return &at, nil
}

// insert does the checks that need the database, and writes.
func (s *Service) insert(ctx context.Context, tx pgx.Tx, p *auth.Principal, params CreateParams, row db.InsertBranchParams) (Branch, error) {
	q := db.New(tx)
	parent, err := s.parentFor(ctx, q, p, row)
	if err != nil {
		return Branch{}, err
	}
	if err := s.checkRoom(ctx, parent, row.DataCloneMode); err != nil {
		return Branch{}, err
	}
	if err := q.LockBranchQuota(ctx); err != nil {
		return Branch{}, err
	}
	if present, err := roomFor(ctx, q, params); err != nil {
		return Branch{}, err
	} else if present != nil {
		return *present, nil
	}
	count, err := q.CountBranchQuota(ctx, p.Actor())
	if err != nil {
		return Branch{}, err
	}
	if int(count.Total) >= s.cfg.MaxBranches {
		return Branch{}, ErrMaxBranches.Msgf("there are already %d branches, the most this server allows", count.Total)
	}
	if !p.Admin && int(count.Own) >= s.cfg.MaxPerUser {
		return Branch{}, ErrMaxBranches.Msgf("you already have %d branches, the most a user may have", count.Own)
	}
	b, err := q.InsertBranch(ctx, row)
	if err != nil {
		return Branch{}, fmt.Errorf("inserting branch: %w", err)
	}
	details := map[string]any{"data_clone_mode": b.DataCloneMode, "parent": parent.Slug, "type": b.Type}
	if err := record(ctx, q, b.ID, db.BranchActionCreated, p.Actor(), db.ActivityStatusSuccess, 0, details); err != nil {
		return Branch{}, err
	}
	if err := s.tell(ctx, tx, eventCreated, b, p.Actor(), occasion{}); err != nil {
		return Branch{}, err
	}
	if params.IdempotencyKey != "" {
		err := q.InsertIdempotencyKey(ctx, db.InsertIdempotencyKeyParams{
			Principal: p.Actor(), Key: params.IdempotencyKey, RequestHash: hashOf(params), BranchID: b.ID,
		})
		if err != nil {
			return Branch{}, err
		}
	}
	return b, s.enqueue(ctx, tx, b)
}

// parentFor returns the parent and keeps it from going away until the end of the transaction.
func (s *Service) parentFor(ctx context.Context, q *db.Queries, p *auth.Principal, row db.InsertBranchParams) (Branch, error) {
	id := s.mainID
	if row.ParentID != nil {
		id = *row.ParentID
	}
	parent, err := q.ShareBranch(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Branch{}, ErrNotFound.Msgf("there is no branch %s to be the parent", id)
	}
	if err != nil {
		return Branch{}, err
	}
	if err := s.mayCopy(ctx, q, p, parent, row.DataCloneMode); err != nil {
		return Branch{}, err
	}
	if parent.Status != db.BranchStatusReady {
		return Branch{}, busy(parent)
	}
	return parent, nil
}

// mayCopy checks that a copy shows the caller nothing that she may not see: rows need admin access to the parent, a
// schema read access.
func (s *Service) mayCopy(ctx context.Context, q *db.Queries, p *auth.Principal, parent Branch, mode db.DataCloneMode) error {
	if mode != db.DataCloneModeSchemaOnly {
		return s.authorize(ctx, q, p, parent, db.AccessLevelAdmin, parent.ID.String())
	}
	if parent.IsMain && s.cfg.OpenToUsers {
		return nil
	}
	return s.authorize(ctx, q, p, parent, db.AccessLevelRead, parent.ID.String())
}

// madeBefore returns the branch that the same request made, nil where there is none.
func (s *Service) madeBefore(ctx context.Context, q *db.Queries, p *auth.Principal, params CreateParams) (*Branch, error) {
	if params.IdempotencyKey == "" {
		return nil, nil
	}
	if err := q.LockIdempotencyKey(ctx, db.LockIdempotencyKeyParams{Principal: p.Actor(), Key: params.IdempotencyKey}); err != nil {
		return nil, err
	}
	known, err := q.FindIdempotencyKey(ctx, db.FindIdempotencyKeyParams{Principal: p.Actor(), Key: params.IdempotencyKey})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if string(known.RequestHash) != string(hashOf(params)) {
		return nil, ErrKeyReused
	}
	b, err := q.GetBranchByID(ctx, known.BranchID)
	if err == nil && b.DeletedAt != nil {
		return nil, ErrNotFound.Msgf("the branch that this request made was deleted")
	}
	return &b, err
}

func hashOf(params CreateParams) []byte {
	params.IdempotencyKey = ""
	data, err := json.Marshal(params)
	if err != nil {
		panic(err) // strings, numbers and ids
	}
	sum := sha256.Sum256(data)
	return sum[:]
}
