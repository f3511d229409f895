package branching

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

// UpdateParams are the changes to a branch; nil leaves a thing as it is.
type UpdateParams struct {
	Name      *string
	Type      *db.BranchType
	ExpiresIn *string // from now, or "never"
}

// Update changes a branch's name, type or expiry. Slug and database name stay.
func (s *Service) Update(ctx context.Context, p *auth.Principal, ref string, params UpdateParams) (Branch, error) {
	if err := s.mayWrite(p); err != nil {
		return Branch{}, err
	}
	b, err := s.Find(ctx, p, ref, db.AccessLevelAdmin)
	if err != nil {
		return Branch{}, err
	}
	if b.IsMain {
		return Branch{}, ErrUpdateMain
	}
	change := db.UpdateBranchParams{ID: b.ID, Type: params.Type}
	details := map[string]any{}
	if params.Name != nil {
		name, err := cleanName(*params.Name)
		if err != nil {
			return Branch{}, err
		}
		if _, err := slugOf(name); err != nil {
			return Branch{}, err
		}
		change.Name = &name
		details["name"] = name
	}
	if params.Type != nil {
		details["type"] = *params.Type
	}
	if params.ExpiresIn != nil {
		change.SetExpiry = true
		if *params.ExpiresIn != "never" {
			if change.ExpiresAt, err = s.expiry(*params.ExpiresIn); err != nil {
				return Branch{}, err
			}
		}
		details["expires_at"] = change.ExpiresAt
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		if b, err = q.UpdateBranch(ctx, change); errors.Is(err, pgx.ErrNoRows) {
			return notFound(ref)
		} else if err != nil {
			return err
		}
		if err := record(ctx, q, b.ID, db.BranchActionUpdated, p.Actor(), db.ActivityStatusSuccess, 0, details); err != nil {
			return err
		}
		return s.tell(ctx, tx, eventUpdated, b, p.Actor(), occasion{Changed: slices.Sorted(maps.Keys(details))})
	})
	if violated(err, "branches_name_key") {
		return Branch{}, ErrExists.Msgf("there is already a branch %q", *change.Name)
	}
	return b, err
}

// Children says what becomes of the branches made from one that is deleted.
type Children string

// The choices. Without one a branch with children is not deleted.
const (
	OrphanChildren  Children = "orphan"
	CascadeChildren Children = "cascade"
)

// Delete starts the removal of a branch and waits at most wait for it to be done. Its name is free from now on.
func (s *Service) Delete(ctx context.Context, p *auth.Principal, ref string, children Children, wait time.Duration) error {
	if err := s.mayWrite(p); err != nil {
		return err
	}
	// Main first: that it cannot be deleted is so for everybody.
	q := db.New(s.pool)
	b, err := s.find(ctx, q, ref)
	if err != nil {
		return err
	}
	if b.IsMain {
		return ErrDeleteMain
	}
	if err := s.authorize(ctx, q, p, b, db.AccessLevelAdmin, ref); err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		return s.beginDelete(ctx, tx, p, b.ID, children, p.Actor())
	})
	if err != nil {
		return err
	}
	s.ForgetRoute(b.ID) // the caller's next request may be here before the notification
	_, err = s.Wait(ctx, b.ID, wait)
	return err
}

// beginDelete takes a branch, and with CascadeChildren all that came from it, to status deleting. p nil asks for no
// permission: an expiry.
func (s *Service) beginDelete(ctx context.Context, tx pgx.Tx, p *auth.Principal, id uuid.UUID, children Children, actor string) error {
	q := db.New(tx)
	b, err := q.LockBranch(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return notFound(id.String())
	}
	if err != nil {
		return err
	}
	if b.Status == db.BranchStatusDeleting {
		return busy(b)
	}
	kids, err := q.ListChildren(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case len(kids) == 0:
	case children == OrphanChildren:
		for _, kid := range kids {
			if kid.Status == db.BranchStatusCreating || kid.Status == db.BranchStatusResetting {
				return ErrBusy.Msgf("branch %q is still being made from %q", kid.Slug, b.Slug).Retry(time.Second)
			}
		}
		if err := q.OrphanChildren(ctx, id); err != nil {
			return err
		}
	case children == CascadeChildren:
		for _, kid := range kids {
			if p != nil {
				if err := s.authorize(ctx, q, p, kid, db.AccessLevelAdmin, kid.Slug); err != nil {
					return err
				}
			}
			if err := s.beginDelete(ctx, tx, p, kid.ID, children, actor); err != nil {
				return err
			}
		}
	default:
		return ErrHasChildren.Msgf("branch %q has %d branches of its own", b.Slug, len(kids))
	}
	b, err = q.BeginOperation(ctx, db.BeginOperationParams{
		ID: id, Status: db.BranchStatusDeleting, OperationBy: actor,
		FromStatus: texts(db.BranchStatusCreating, db.BranchStatusReady, db.BranchStatusResetting, db.BranchStatusError),
	})
	if err != nil {
		return fmt.Errorf("beginning to delete: %w", err)
	}
	return s.enqueue(ctx, tx, b)
}

// Reset starts bringing a branch back to its parent's state and waits at most wait. The branch returned is ready when
// it was done in that time.
func (s *Service) Reset(ctx context.Context, p *auth.Principal, ref string, wait time.Duration) (Branch, error) {
	if err := s.mayWrite(p); err != nil {
		return Branch{}, err
	}
	q := db.New(s.pool)
	b, err := s.find(ctx, q, ref)
	if err != nil {
		return Branch{}, err
	}
	if b.IsMain {
		return Branch{}, ErrResetMain
	}
	if err := s.authorize(ctx, q, p, b, db.AccessLevelAdmin, ref); err != nil {
		return Branch{}, err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		if b, err = q.LockBranch(ctx, b.ID); errors.Is(err, pgx.ErrNoRows) {
			return notFound(ref)
		} else if err != nil {
			return err
		}
		parentID := s.mainID
		if b.ParentID != nil {
			parentID = *b.ParentID
		}
		parent, err := q.ShareBranch(ctx, parentID)
		if err != nil {
			return fmt.Errorf("reading the parent: %w", err)
		}
		// The rows to come are the parent's rows of now, which the caller may not have seen at creation.
		if err := s.mayCopy(ctx, q, p, parent, b.DataCloneMode); err != nil {
			return err
		}
		if parent.Status != db.BranchStatusReady {
			return busy(parent)
		}
		// The old state stays until the new one is complete.
		if err := s.checkRoom(ctx, parent, b.DataCloneMode); err != nil {
			return err
		}
		before := b
		b, err = q.BeginOperation(ctx, db.BeginOperationParams{
			ID: b.ID, Status: db.BranchStatusResetting, OperationBy: p.Actor(),
			FromStatus: texts(db.BranchStatusReady, db.BranchStatusError),
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return busy(before)
		}
		if err != nil {
			return err
		}
		return s.enqueue(ctx, tx, b)
	})
	if err != nil {
		return Branch{}, err
	}
	s.ForgetRoute(b.ID)
	generation := b.Generation
	b, err = s.Wait(ctx, b.ID, wait)
	if err != nil {
		return b, err
	}
	switch {
	case b.DeletedAt != nil || b.Status == db.BranchStatusDeleting:
		return b, notFound(ref)
	case b.Status == db.BranchStatusError, b.Status == db.BranchStatusReady && b.Generation == generation:
		return b, s.resetFailure(ctx, b)
	}
	return b, nil
}

// resetFailure makes the error of a failed reset from the activity log.
func (s *Service) resetFailure(ctx context.Context, b Branch) error {
	entries, err := db.New(s.pool).ListActivity(ctx, db.ListActivityParams{BranchID: b.ID, MaxRows: 1})
	if err != nil {
		return err
	}
	if len(entries) == 1 {
		if reason := reasonOf(entries[0]); reason != "" {
			e := *ErrResetFailed
			e.Details = reason
			return &e
		}
	}
	return ErrResetFailed
}

// Wait waits at most the given time until no operation is under way, and returns the branch as it then is.
func (s *Service) Wait(ctx context.Context, id uuid.UUID, most time.Duration) (Branch, error) {
	q := db.New(s.pool)
	deadline := time.Now().Add(most)
	for pause := 10 * time.Millisecond; ; pause = min(pause*2, 200*time.Millisecond) {
		b, err := q.GetBranchByID(ctx, id)
		if err != nil {
			return Branch{}, err
		}
		working := b.Status == db.BranchStatusCreating || b.Status == db.BranchStatusResetting || b.Status == db.BranchStatusDeleting
		if !working || b.DeletedAt != nil || time.Now().Add(pause).After(deadline) {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return b, nil
		case <-time.After(pause):
		}
	}
}

func (s *Service) mayWrite(p *auth.Principal) error {
	if err := s.enabled(); err != nil {
		return err
	}
	return p.Require(auth.WriteBranches)
}

// mayGrant returns an error for keys and tokens with scopes: none of them includes giving access to others, which would
// outlive the key.
func (s *Service) mayGrant(p *auth.Principal) error {
	if p.Scopes != nil {
		return auth.ErrDenied.Msgf("access to branches is given and taken by users who signed in and by service keys")
	}
	return s.mayWrite(p)
}

// Grant gives a user access to a branch, main included. A second grant replaces the first.
func (s *Service) Grant(ctx context.Context, p *auth.Principal, ref string, user uuid.UUID, level Level) (Grant, error) {
	if err := s.mayGrant(p); err != nil {
		return Grant{}, err
	}
	if user == uuid.Nil {
		return Grant{}, fault.Validation("user_id must be a user's id")
	}
	b, err := s.Find(ctx, p, ref, db.AccessLevelAdmin)
	if err != nil {
		return Grant{}, err
	}
	var grant Grant
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		grant, err = q.PutAccess(ctx, db.PutAccessParams{BranchID: b.ID, UserID: user, Level: level, GrantedBy: p.Actor()})
		if err != nil {
			return err
		}
		return record(ctx, q, b.ID, db.BranchActionAccessGranted, p.Actor(), db.ActivityStatusSuccess, 0,
			map[string]any{"user_id": user, "level": level})
	})
	s.ForgetRoute(b.ID)
	return grant, err
}

// Revoke takes a user's grant away.
func (s *Service) Revoke(ctx context.Context, p *auth.Principal, ref string, user uuid.UUID) error {
	if err := s.mayGrant(p); err != nil {
		return err
	}
	b, err := s.Find(ctx, p, ref, db.AccessLevelAdmin)
	if err != nil {
		return err
	}
	defer s.ForgetRoute(b.ID)
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		n, err := q.DeleteAccess(ctx, db.DeleteAccessParams{BranchID: b.ID, UserID: user})
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrGrantNotFound
		}
		return record(ctx, q, b.ID, db.BranchActionAccessRevoked, p.Actor(), db.ActivityStatusSuccess, 0, map[string]any{"user_id": user})
	})
}

// texts are statuses as a query wants them: a driver without the enum's type cannot send an array of it.
func texts(statuses ...db.BranchStatus) []string {
	out := make([]string, len(statuses))
	for i, s := range statuses {
		out[i] = string(s)
	}
	return out
}
