package users

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/password"
)

// SignUpParams describe a new account.
type SignUpParams struct {
	Email, Password string
	UserMetadata    map[string]any
	RedirectTo      *string
}

// SignUp makes an account and signs in to it. Where addresses must be confirmed, it sends a mail instead and returns the
// user as she will be then, without tokens: whether there is an account already or not, the work and the answer are the
// same.
func (s *Service) SignUp(ctx context.Context, params SignUpParams, c Client) (*Session, error) {
	if !s.cfg.SignUp {
		return nil, ErrSignUpClosed
	}
	email, err := normalize(params.Email)
	if err != nil {
		return nil, err
	}
	if err := password.Check(params.Password, email, s.cfg.PasswordMinLength); err != nil {
		return nil, err
	}
	metadata, err := metadataJSON("user_metadata", params.UserMetadata)
	if err != nil {
		return nil, err
	}
	if err := s.checkRedirect(params.RedirectTo); err != nil {
		return nil, err
	}
	if err := s.limits.Take(ctx, signUpNetwork, c.Network()); err != nil {
		return nil, err
	}
	if s.cfg.RequireVerification {
		if err := s.takeMail(ctx, email, c); err != nil {
			return nil, err
		}
	}
	hash, err := s.hasher.Hash(ctx, params.Password)
	if err != nil {
		return nil, err
	}
	if s.cfg.RequireVerification {
		row, err := s.queueLink(ctx, db.InsertMailTokenParams{
			Purpose: db.MailPurposeSignUp, Email: email, PasswordHash: &hash, UserMetadata: metadata, RedirectTo: params.RedirectTo,
			LifetimeSeconds: confirmLifetime.Seconds(),
		})
		return &Session{User: User{
			ID: row.ID, Email: email, Role: db.UserRoleAuthenticated, UserMetadata: metadata, AppMetadata: []byte("{}"),
			CreatedAt: row.CreatedAt, UpdatedAt: row.CreatedAt,
		}}, err
	}
	return s.open(ctx, db.SignInMethodPassword, c, func(_ pgx.Tx, q *db.Queries) (User, error) {
		user, err := q.InsertUser(ctx, db.InsertUserParams{
			ID: newID(), Email: email, PasswordHash: &hash, Role: db.UserRoleAuthenticated, UserMetadata: metadata, AppMetadata: []byte("{}"),
		})
		if none(err) {
			return user, ErrEmailExists
		}
		return user, err
	})
}

// SignIn begins a session for whoever knows the password.
func (s *Service) SignIn(ctx context.Context, email, pass string, c Client) (*Session, error) {
	email, err := normalize(email)
	if err != nil {
		return nil, err
	}
	if err := s.takeSignIn(ctx, email, c); err != nil {
		return nil, err
	}
	user, err := db.New(s.pool).GetUserByEmail(ctx, email)
	if err != nil && !none(err) {
		return nil, fmt.Errorf("looking up a user: %w", err)
	}
	// Without a user, or without a password of hers, this takes as long and comes to the same.
	ok, outdated, err := s.hasher.Verify(ctx, pass, value(user.PasswordHash))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, s.whyNot(ctx, email, pass)
	}
	s.signedIn(ctx, email, c)
	switch {
	case user.DisabledAt != nil:
		return nil, ErrDisabled
	case s.cfg.RequireVerification && user.EmailVerifiedAt == nil:
		return nil, ErrNotConfirmed
	}
	session, err := s.open(ctx, db.SignInMethodPassword, c, func(_ pgx.Tx, q *db.Queries) (User, error) {
		now, err := q.LockUser(ctx, user.ID)
		if none(err) || err == nil && value(now.PasswordHash) != value(user.PasswordHash) { // changed since it was verified
			return now, ErrInvalidLogin
		}
		return now, err
	})
	if err == nil && outdated {
		s.renewHash(ctx, user, pass)
	}
	return session, err
}

// whyNot returns ErrNotConfirmed for the password of a sign-up that waits for its confirmation, else ErrInvalidLogin.
// It looks at the sign-up alone, so that it comes to the same, and takes as long, for an address that has an account.
func (s *Service) whyNot(ctx context.Context, email, pass string) error {
	if !s.cfg.RequireVerification {
		return ErrInvalidLogin
	}
	hash, err := db.New(s.pool).PendingSignUp(ctx, email)
	if none(err) {
		return ErrInvalidLogin
	}
	if err != nil {
		return fmt.Errorf("looking for a sign-up: %w", err)
	}
	ok, _, err := s.hasher.Verify(ctx, pass, value(hash))
	if err != nil {
		return err
	}
	if ok {
		return ErrNotConfirmed
	}
	return ErrInvalidLogin
}

// renewHash stores the password hashed with the parameters of today. That it fails is no reason not to sign in.
func (s *Service) renewHash(ctx context.Context, user User, pass string) {
	hash, err := s.hasher.Hash(ctx, pass)
	if err == nil {
		err = db.New(s.pool).RenewPasswordHash(ctx, db.RenewPasswordHashParams{ID: user.ID, OldHash: user.PasswordHash, NewHash: &hash})
	}
	if err != nil {
		s.log.Warn("hashing a password with new parameters", "user", user.ID, "error", err)
	}
}
