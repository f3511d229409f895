package users

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/password"
)

// A session by magic link that is no older takes the place of the current password.
const proofLifetime = 15 * time.Minute

// Current returns the caller's account.
func (s *Service) Current(ctx context.Context, p *auth.Principal) (User, error) {
	user, err := db.New(s.pool).GetUser(ctx, p.ID)
	if none(err) {
		return user, auth.ErrInvalidCredentials.Msgf("the access token's user has no account here")
	}
	if err != nil {
		return user, fmt.Errorf("reading a user: %w", err)
	}
	if user.DisabledAt != nil {
		return user, auth.ErrInvalidCredentials.Msgf("the account is disabled")
	}
	return user, nil
}

// AccountChange is what a user changes of her account; nil leaves a thing as it is.
type AccountChange struct {
	Email, Password, CurrentPassword *string
	UserMetadata                     map[string]any
	RedirectTo                       *string
}

// UpdateCurrent changes the caller's account. A new address counts when it is confirmed by the link that is sent to it.
func (s *Service) UpdateCurrent(ctx context.Context, p *auth.Principal, change AccountChange, c Client) (User, error) {
	user, err := s.Current(ctx, p)
	if err != nil {
		return user, err
	}
	if err := s.checkRedirect(change.RedirectTo); err != nil {
		return user, err
	}
	var email *string
	if change.Email != nil {
		normal, err := normalize(*change.Email)
		if err != nil {
			return user, err
		}
		if normal != user.Email {
			email = &normal
		}
	}
	if change.Password != nil {
		if err := password.Check(*change.Password, user.Email, s.cfg.PasswordMinLength); err != nil {
			return user, err
		}
	}
	if email != nil || change.Password != nil {
		if err := s.prove(ctx, p, user, change.CurrentPassword, c); err != nil {
			return user, err
		}
	}
	if email != nil {
		if err := s.free(ctx, *email); err != nil {
			return user, err
		}
		if err := s.takeMail(ctx, *email, c); err != nil {
			return user, err
		}
	}
	var hash *string
	if change.Password != nil {
		if err := s.differs(ctx, user, *change.Password); err != nil {
			return user, err
		}
		made, err := s.hasher.Hash(ctx, *change.Password)
		if err != nil {
			return user, err
		}
		hash = &made
	}
	proved := user
	var ended []uuid.UUID
	err = s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error {
		if user, err = q.LockUser(ctx, p.ID); err != nil {
			return err
		}
		if (email != nil || hash != nil) && value(user.PasswordHash) != value(proved.PasswordHash) {
			return ErrInvalidLogin // it was changed since it was shown to be known
		}
		// With a new password ends whatever somebody who knew the old one asked for.
		params := db.UpdateUserParams{ID: p.ID, NewEmail: email, CancelNewEmail: hash != nil, PasswordHash: hash}
		if change.UserMetadata != nil {
			if params.UserMetadata, err = mergeMetadata("user_metadata", user.UserMetadata, change.UserMetadata); err != nil {
				return err
			}
		}
		if user, err = q.UpdateUser(ctx, params); err != nil {
			return fmt.Errorf("updating a user: %w", err)
		}
		if hash != nil {
			ended, err = s.end(ctx, q, db.EndSessionsParams{UserID: p.ID, KeepID: &p.SessionID})
			if err != nil {
				return err
			}
			if err := q.CancelMailTokens(ctx, db.CancelMailTokensParams{UserID: p.ID, Email: user.Email}); err != nil {
				return fmt.Errorf("cancelling links: %w", err)
			}
		}
		if email == nil {
			return nil
		}
		_, err = s.queueLinkIn(ctx, tx, q, db.InsertMailTokenParams{
			Purpose: db.MailPurposeChangeEmail, Email: *email, UserID: &user.ID, UserMetadata: []byte("{}"), RedirectTo: change.RedirectTo,
			LifetimeSeconds: confirmLifetime.Seconds(),
		})
		return err
	})
	if err != nil {
		return user, err
	}
	s.revoke(ended)
	return user, nil
}

// free returns ErrEmailExists for an address that has an account. Where addresses must be confirmed, who has one is a
// secret: there its owner is told by mail instead.
func (s *Service) free(ctx context.Context, email string) error {
	if s.cfg.RequireVerification {
		return nil
	}
	_, err := db.New(s.pool).GetUserByEmail(ctx, email)
	switch {
	case err == nil:
		return ErrEmailExists
	case none(err):
		return nil
	}
	return fmt.Errorf("looking up a user: %w", err)
}

// differs returns ErrSamePassword for the password that the user has.
func (s *Service) differs(ctx context.Context, user User, pass string) error {
	if user.PasswordHash == nil {
		return nil
	}
	same, _, err := s.hasher.Verify(ctx, pass, *user.PasswordHash)
	if err == nil && same {
		return ErrSamePassword
	}
	return err
}

// prove returns an error unless whoever has the access token shows that it is the user: by the password, or by having
// come from her mailbox a moment ago.
func (s *Service) prove(ctx context.Context, p *auth.Principal, user User, current *string, c Client) error {
	if current != nil && user.PasswordHash != nil {
		if err := s.takeSignIn(ctx, user.Email, c); err != nil {
			return err
		}
		ok, _, err := s.hasher.Verify(ctx, *current, *user.PasswordHash)
		if err != nil {
			return err
		}
		if !ok {
			return ErrInvalidLogin.Msgf("current_password is wrong").WithHint("")
		}
		s.signedIn(ctx, user.Email, c)
		return nil
	}
	session, err := db.New(s.pool).GetSession(ctx, p.SessionID)
	if none(err) {
		return ErrProofNeeded
	}
	if err != nil {
		return fmt.Errorf("reading a session: %w", err)
	}
	if session.UserID != user.ID || session.Method != db.SignInMethodMagicLink || time.Since(session.CreatedAt) > proofLifetime {
		return ErrProofNeeded
	}
	return nil
}
