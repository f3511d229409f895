package branching

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/postgres"
)

// ListParams choose branches for a list; nil chooses all.
type ListParams struct {
	Status        *db.BranchStatus
	Type          *db.BranchType
	CreatedBy     *uuid.UUID
	Limit, Offset int32
}

func (s *Service) mayRead(p *auth.Principal) error {
	if err := s.enabled(); err != nil {
		return err
	}
	return p.Require(auth.ReadBranches)
}

// List returns a page of the branches that the caller may read, newest first, and how many there are in all.
func (s *Service) List(ctx context.Context, p *auth.Principal, params ListParams) ([]Branch, int64, error) {
	if err := s.mayRead(p); err != nil {
		return nil, 0, err
	}
	var viewer *uuid.UUID
	if !p.Admin {
		viewer = &p.ID
	}
	var createdBy *string
	if params.CreatedBy != nil {
		id := params.CreatedBy.String()
		createdBy = &id
	}
	q := db.New(s.pool)
	branches, err := q.ListBranches(ctx, db.ListBranchesParams{
		Status: params.Status, Type: params.Type, CreatedBy: createdBy, Viewer: viewer, MaxRows: params.Limit, SkipRows: params.Offset,
	})
	if err != nil {
		return nil, 0, fmt.Errorf("listing branches: %w", err)
	}
	total, err := q.CountBranches(ctx, db.CountBranchesParams{Status: params.Status, Type: params.Type, CreatedBy: createdBy, Viewer: viewer})
	return branches, total, err
}

// Get returns a branch that the caller may read.
func (s *Service) Get(ctx context.Context, p *auth.Principal, ref string) (Branch, error) {
	if err := s.mayRead(p); err != nil {
		return Branch{}, err
	}
	return s.Find(ctx, p, ref, db.AccessLevelRead)
}

// Activity returns a branch's latest activity, newest first; a removed branch's by id.
func (s *Service) Activity(ctx context.Context, p *auth.Principal, ref string, limit int32) ([]Activity, error) {
	if err := s.mayRead(p); err != nil {
		return nil, err
	}
	q := db.New(s.pool)
	b, err := s.find(ctx, q, ref)
	if id, parseErr := uuid.Parse(ref); errors.Is(err, ErrNotFound) && parseErr == nil {
		if b, err = q.GetBranchByID(ctx, id); errors.Is(err, pgx.ErrNoRows) {
			err = notFound(ref)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := s.authorize(ctx, q, p, b, db.AccessLevelRead, ref); err != nil {
		return nil, err
	}
	return q.ListActivity(ctx, db.ListActivityParams{BranchID: b.ID, MaxRows: limit})
}

// reasonOf is the error that an activity entry tells of.
func reasonOf(a Activity) string {
	var details struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(a.Details, &details) // an entry without an error has no reason
	return details.Error
}

// PoolStats returns this process's pools by slug: main and the ready branches that the caller may read.
func (s *Service) PoolStats(ctx context.Context, p *auth.Principal) (map[string]postgres.PoolStats, error) {
	ready := db.BranchStatusReady
	stats := map[string]postgres.PoolStats{}
	for offset := int32(0); ; offset += 100 {
		page, total, err := s.List(ctx, p, ListParams{Status: &ready, Limit: 100, Offset: offset})
		if err != nil {
			return nil, err
		}
		for _, b := range page {
			stats[b.Slug] = s.engine.PoolStats(b.DatabaseName)
		}
		if int64(offset)+100 >= total {
			return stats, nil
		}
	}
}

// Connection returns a libpq URL of a branch's database. Its login reaches this database only, and stays the same when the
// branch is reset.
func (s *Service) Connection(ctx context.Context, p *auth.Principal, ref string) (string, error) {
	if err := s.mayRead(p); err != nil {
		return "", err
	}
	b, err := s.connectable(ctx, p, ref)
	if err != nil {
		return "", err
	}
	return s.engine.LoginURL(ctx, b.ID, b.DatabaseName)
}

// RotateCredentials gives the login of a branch a new password, ends its sessions, and returns the new URL.
func (s *Service) RotateCredentials(ctx context.Context, p *auth.Principal, ref string) (string, error) {
	if err := s.mayWrite(p); err != nil {
		return "", err
	}
	b, err := s.connectable(ctx, p, ref)
	if err != nil {
		return "", err
	}
	url, err := s.engine.RotateLogin(ctx, b.ID, b.DatabaseName)
	if err != nil {
		return "", err
	}
	details := map[string]any{"credentials": "rotated"}
	return url, record(ctx, db.New(s.pool), b.ID, db.BranchActionUpdated, p.Actor(), db.ActivityStatusSuccess, 0, details)
}

// connectable finds a branch to whose database the caller may have a login: that of main administrators and service keys,
// that of a branch also those with admin access to it. What a key or token with scopes may do ends at the API.
func (s *Service) connectable(ctx context.Context, p *auth.Principal, ref string) (Branch, error) {
	b, err := s.Find(ctx, p, ref, db.AccessLevelRead)
	if err != nil {
		return Branch{}, err
	}
	if p.Scopes != nil {
		return Branch{}, errNarrowed
	}
	switch {
	case p.Admin:
	case b.IsMain:
		return Branch{}, errNeedsConnector
	case !s.engine.Isolated():
		return Branch{}, errSharedLogin
	default:
		if err := s.authorize(ctx, db.New(s.pool), p, b, db.AccessLevelAdmin, ref); err != nil {
			return Branch{}, err
		}
	}
	if b.Status != db.BranchStatusReady && b.Status != db.BranchStatusResetting {
		return Branch{}, busy(b)
	}
	return b, nil
}

// Access lists the grants on a branch.
func (s *Service) Access(ctx context.Context, p *auth.Principal, ref string) ([]Grant, error) {
	if err := s.mayRead(p); err != nil {
		return nil, err
	}
	b, err := s.Find(ctx, p, ref, db.AccessLevelAdmin)
	if err != nil {
		return nil, err
	}
	return db.New(s.pool).ListAccess(ctx, b.ID)
}
