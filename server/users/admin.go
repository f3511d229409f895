package users

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/password"
)

// allow returns an error unless the caller may manage users.
func allow(p *auth.Principal) error {
	if !p.Unbound() {
		return auth.ErrDenied.Msgf("users are managed by administrators and service keys")
	}
	return nil
}

// List returns users, newest first, and how many there are in all.
func (s *Service) List(ctx context.Context, p *auth.Principal, email *string, role *db.UserRole, limit, offset int32) ([]User, int64, error) {
	if err := allow(p); err != nil {
		return nil, 0, err
	}
	if email != nil {
		normal, err := normalize(*email)
		if err != nil {
			return nil, 0, err
		}
		email = &normal
	}
	q := db.New(s.pool)
	users, err := q.ListUsers(ctx, db.ListUsersParams{Email: email, Role: role, MaxRows: limit, SkipRows: offset})
	if err != nil {
		return nil, 0, fmt.Errorf("listing users: %w", err)
	}
	total, err := q.CountUsers(ctx, db.CountUsersParams{Email: email, Role: role})
	return users, total, err
}

// Get returns a user.
func (s *Service) Get(ctx context.Context, p *auth.Principal, id uuid.UUID) (User, error) {
	if err := allow(p); err != nil {
		return User{}, err
	}
	user, err := db.New(s.pool).GetUser(ctx, id)
	if none(err) {
		return user, ErrNotFound
	}
	return user, err
}

// Change is what an administrator gives or changes; nil leaves a thing as it is.
type Change struct {
	Email, Password           *string
	Role                      *db.UserRole
	EmailVerified, Disabled   *bool
	UserMetadata, AppMetadata map[string]any
}

// prepare checks a change, and returns the address and the hash of the password to be stored.
func (s *Service) prepare(ctx context.Context, change Change) (email, hash *string, err error) {
	if change.Email != nil {
		normal, err := normalize(*change.Email)
		if err != nil {
			return nil, nil, err
		}
		email = &normal
	}
	if change.Password != nil {
		if err := password.Check(*change.Password, value(email), s.cfg.PasswordMinLength); err != nil {
			return nil, nil, err
		}
		made, err := s.hasher.Hash(ctx, *change.Password)
		if err != nil {
			return nil, nil, err
		}
		hash = &made
	}
	return email, hash, nil
}

// Create makes a user. Email must be given.
func (s *Service) Create(ctx context.Context, p *auth.Principal, change Change) (User, error) {
	if err := allow(p); err != nil {
		return User{}, err
	}
	email, hash, err := s.prepare(ctx, change)
	if err != nil {
		return User{}, err
	}
	if email == nil {
		return User{}, fault.Field("email", "is required")
	}
	params := db.InsertUserParams{
		ID: newID(), Email: *email, EmailVerified: change.EmailVerified == nil || *change.EmailVerified, PasswordHash: hash, Role: db.UserRoleAuthenticated,
	}
	if change.Role != nil {
		params.Role = *change.Role
	}
	if params.UserMetadata, err = metadataJSON("user_metadata", change.UserMetadata); err != nil {
		return User{}, err
	}
	if params.AppMetadata, err = metadataJSON("app_metadata", change.AppMetadata); err != nil {
		return User{}, err
	}
	user, err := db.New(s.pool).InsertUser(ctx, params)
	if none(err) {
		return user, ErrEmailExists
	}
	if err != nil {
		return user, fmt.Errorf("inserting a user: %w", err)
	}
	s.log.Info("a user was made", "user", user.ID, "role", user.Role, "by", p.Actor())
	return user, nil
}

// Update changes a user. Her sessions end when she may do something else afterwards, so that it counts at once.
func (s *Service) Update(ctx context.Context, p *auth.Principal, id uuid.UUID, change Change) (User, error) {
	if err := allow(p); err != nil {
		return User{}, err
	}
	email, hash, err := s.prepare(ctx, change)
	if err != nil {
		return User{}, err
	}
	var user User
	var ended []uuid.UUID
	shut := value(change.Disabled)
	err = s.inTx(ctx, func(_ pgx.Tx, q *db.Queries) error {
		before, err := q.LockUser(ctx, id)
		if none(err) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		params := db.UpdateUserParams{ID: id, Email: email, PasswordHash: hash, Role: change.Role, EmailVerified: change.EmailVerified, Disabled: change.Disabled,
			CancelNewEmail: hash != nil || email != nil || shut}
		if change.UserMetadata != nil {
			if params.UserMetadata, err = mergeMetadata("user_metadata", before.UserMetadata, change.UserMetadata); err != nil {
				return err
			}
		}
		if change.AppMetadata != nil {
			if params.AppMetadata, err = mergeMetadata("app_metadata", before.AppMetadata, change.AppMetadata); err != nil {
				return err
			}
		}
		user, err = q.UpdateUser(ctx, params)
		if taken(err) {
			return ErrEmailExists
		}
		if err != nil {
			return fmt.Errorf("updating a user: %w", err)
		}
		if hash != nil || email != nil || shut {
			if err := q.CancelMailTokens(ctx, db.CancelMailTokensParams{UserID: id, Email: before.Email}); err != nil {
				return fmt.Errorf("cancelling links: %w", err)
			}
		}
		if user.Role != before.Role || user.Email != before.Email || hash != nil || shut {
			if ended, err = s.end(ctx, q, db.EndSessionsParams{UserID: id}); err != nil {
				return err
			}
		}
		switch {
		case shut:
			return q.RevokeUser(ctx, db.RevokeUserParams{ID: id, TokenSeconds: s.signer.RevocationTime().Seconds()})
		case change.Disabled != nil:
			return q.UnrevokeUser(ctx, id)
		}
		return nil
	})
	if err != nil {
		return user, err
	}
	if shut {
		ended = append(ended, id)
	}
	s.revoke(ended)
	if change.Disabled != nil && !shut {
		s.tokens.Revoke(id, time.Time{})
	}
	s.changed()
	s.log.Info("a user was changed", "user", user.ID, "role", user.Role, "disabled", user.DisabledAt != nil, "by", p.Actor())
	return user, nil
}

// Delete removes a user with her sessions and grants, and revokes her keys.
func (s *Service) Delete(ctx context.Context, p *auth.Principal, id uuid.UUID) error {
	if err := allow(p); err != nil {
		return err
	}
	var ended []uuid.UUID
	err := s.inTx(ctx, func(_ pgx.Tx, q *db.Queries) error {
		if _, err := q.LockUser(ctx, id); none(err) {
			return ErrNotFound
		} else if err != nil {
			return err
		}
		var err error
		if ended, err = s.end(ctx, q, db.EndSessionsParams{UserID: id}); err != nil {
			return err
		}
		if err := q.RevokeUser(ctx, db.RevokeUserParams{ID: id, TokenSeconds: s.signer.RevocationTime().Seconds()}); err != nil {
			return err
		}
		if _, err := q.RevokeUserKeys(ctx, id); err != nil {
			return fmt.Errorf("revoking a user's keys: %w", err)
		}
		if err := q.DeleteUserGrants(ctx, id); err != nil {
			return fmt.Errorf("removing a user's grants: %w", err)
		}
		_, err = q.DeleteUser(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	s.revoke(append(ended, id))
	s.changed()
	s.log.Info("a user was deleted", "user", id, "by", p.Actor())
	return nil
}

// RotateKeys changes the key that access tokens are signed with.
func (s *Service) RotateKeys(ctx context.Context, p *auth.Principal, immediately bool) ([]auth.PublishedKey, error) {
	if err := allow(p); err != nil {
		return nil, err
	}
	keys, err := s.signer.Rotate(ctx, immediately)
	if err != nil {
		return nil, err
	}
	s.tokens.Forget()
	s.log.Info("the signing key was rotated", "kid", keys[0].Kid, "immediately", immediately, "by", p.Actor())
	return keys, nil
}
