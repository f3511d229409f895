package users

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/password"
)

// RequestPasswordReset sends a link to set a new password with, if there is an account. It does not say whether.
func (s *Service) RequestPasswordReset(ctx context.Context, email string, redirectTo *string, c Client) error {
	email, err := normalize(email)
	if err != nil {
		return err
	}
	if err := s.checkRedirect(redirectTo); err != nil {
		return err
	}
	if err := s.takeMail(ctx, email, c); err != nil {
		return err
	}
	_, err = s.queueLink(ctx, db.InsertMailTokenParams{
		Purpose: db.MailPurposeReset, Email: email, UserMetadata: []byte("{}"), RedirectTo: redirectTo, LifetimeSeconds: linkLifetime.Seconds(),
	})
	return err
}

// ConfirmPasswordReset sets the password of the user whose mailbox the proof came from, ends their sessions and begins one.
// A password that is refused spends nothing.
func (s *Service) ConfirmPasswordReset(ctx context.Context, proof Proof, pass string, c Client) (*Session, error) {
	set, err := s.prepareReset(ctx, proof, pass, c)
	if err != nil {
		return nil, err
	}
	var ended ending
	session, err := s.open(ctx, db.SignInMethodMagicLink, c, func(_ pgx.Tx, q *db.Queries) (user User, err error) {
		user, ended, err = set(ctx, q)
		return user, err
	})
	if err != nil {
		return nil, err
	}
	s.finish(ended)
	return session, nil
}

// ResetPassword is ConfirmPasswordReset without a new session.
func (s *Service) ResetPassword(ctx context.Context, proof Proof, pass string, c Client) error {
	set, err := s.prepareReset(ctx, proof, pass, c)
	if err != nil {
		return err
	}
	var ended ending
	err = s.inTx(ctx, func(_ pgx.Tx, q *db.Queries) error {
		var user User
		if user, ended, err = set(ctx, q); err == nil && user.DisabledAt != nil {
			err = ErrDisabled
		}
		return err
	})
	if err != nil {
		return err
	}
	s.finish(ended)
	return nil
}

// prepareReset checks and hashes a new password, and returns what sets it in a transaction and ends the user's sessions.
func (s *Service) prepareReset(ctx context.Context, proof Proof, pass string, c Client) (func(context.Context, *db.Queries) (User, ending, error), error) {
	email := proof.Email
	if proof.Token != "" {
		link, err := s.Look(ctx, proof.Token, c)
		if err != nil {
			return nil, err
		}
		email = link.Email
	}
	if err := password.Check(pass, email, s.cfg.PasswordMinLength); err != nil {
		return nil, err
	}
	spend, err := s.examine(ctx, proof, c, []db.MailPurpose{db.MailPurposeReset})
	if err != nil {
		return nil, err
	}
	if email, err = normalize(email); err != nil {
		return nil, err
	}
	user, err := db.New(s.pool).GetUserByEmail(ctx, email)
	if none(err) {
		return nil, ErrLinkExpired
	}
	if err != nil {
		return nil, fmt.Errorf("looking up a user: %w", err)
	}
	if err := s.differs(ctx, user, pass); err != nil {
		return nil, err
	}
	hash, err := s.hasher.Hash(ctx, pass)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, q *db.Queries) (User, ending, error) {
		row, err := spend(ctx, q)
		if err != nil {
			return User{}, ending{}, err
		}
		user, err := q.LockUserByEmail(ctx, row.Email)
		if none(err) {
			return user, ending{}, ErrLinkExpired
		}
		if err != nil {
			return user, ending{}, err
		}
		first := user.EmailVerifiedAt == nil
		verified := true
		user, err = q.UpdateUser(ctx, db.UpdateUserParams{ID: user.ID, PasswordHash: &hash, EmailVerified: &verified, CancelNewEmail: true})
		if err != nil {
			return user, ending{}, fmt.Errorf("updating a user: %w", err)
		}
		if first {
			ended, err := s.endBefore(ctx, q, user)
			return user, ended, err
		}
		sessions, err := s.end(ctx, q, db.EndSessionsParams{UserID: user.ID})
		if err != nil {
			return user, ending{}, err
		}
		return user, ending{sessions: sessions}, q.CancelMailTokens(ctx, db.CancelMailTokensParams{UserID: user.ID, Email: user.Email})
	}, nil
}
