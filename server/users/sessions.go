package users

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

// Session is what a sign-in gives.
type Session struct {
	AccessToken  string // "" for a sign-up that is to be confirmed
	ExpiresAt    time.Time
	RefreshToken string
	User         User
}

// A refresh token that is presented again so soon, with its successor unused, comes from a client that asked twice.
const reuseWindow = time.Minute

// open begins a session for the user whom find returns, in one transaction with whatever find does.
func (s *Service) open(ctx context.Context, method db.SignInMethod, c Client, find func(pgx.Tx, *db.Queries) (User, error)) (*Session, error) {
	var user User
	var session db.Session
	refresh, hash := newSecret(refreshPrefix)
	err := s.inTx(ctx, func(tx pgx.Tx, q *db.Queries) error {
		found, err := find(tx, q)
		if err != nil {
			return err
		}
		user, err = q.NoteSignIn(ctx, found.ID)
		if none(err) {
			return ErrDisabled
		}
		if err != nil {
			return fmt.Errorf("noting a sign-in: %w", err)
		}
		session, err = q.InsertSession(ctx, db.InsertSessionParams{
			ID: newID(), UserID: user.ID, Method: method, IP: c.IP, Network: c.Network(), UserAgent: c.program(),
			LifetimeSeconds: s.cfg.RefreshLifetime.Seconds(),
		})
		if err != nil {
			return fmt.Errorf("inserting a session: %w", err)
		}
		return q.InsertRefreshToken(ctx, db.InsertRefreshTokenParams{Hash: hash, SessionID: session.ID})
	})
	if err != nil {
		return nil, err
	}
	return s.sign(ctx, user, session.ID, method, refresh)
}

// sign makes the access token of a session.
func (s *Service) sign(ctx context.Context, user User, session uuid.UUID, method db.SignInMethod, refresh string) (*Session, error) {
	amr := "pwd"
	if method == db.SignInMethodMagicLink {
		amr = "otp"
	}
	token, expires, err := s.signer.Sign(ctx, auth.Claims{
		UserID: user.ID, SessionID: session, Email: user.Email, EmailVerified: user.EmailVerifiedAt != nil,
		Admin: user.Role == db.UserRoleAdmin, Method: amr, AppMetadata: user.AppMetadata, UserMetadata: user.UserMetadata,
	})
	if err != nil {
		return nil, err
	}
	return &Session{AccessToken: token, ExpiresAt: expires, RefreshToken: refresh, User: user}, nil
}

// Refresh spends a refresh token for new tokens. Of parallel calls with one token exactly one gets them.
func (s *Service) Refresh(ctx context.Context, token string, c Client) (*Session, error) {
	if err := s.limits.Take(ctx, otherNetwork, c.Network()); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(token, refreshPrefix) {
		return nil, ErrRefreshTokenNotFound
	}
	old := hashOf(token)
	refresh, hash := newSecret(refreshPrefix)
	var user User
	var session db.LockSessionRow
	var refused error // the end of a session must be committed, so it is no error of the transaction
	var ended []uuid.UUID
	err := s.inTx(ctx, func(_ pgx.Tx, q *db.Queries) error {
		row, err := q.GetRefreshToken(ctx, old)
		if none(err) {
			return ErrRefreshTokenNotFound
		}
		if err != nil {
			return fmt.Errorf("looking up a refresh token: %w", err)
		}
		// First the user, then the session: whoever changes a user and ends her sessions locks in this order, too.
		if user, err = q.ShareUser(ctx, row.UserID); none(err) {
			return ErrRefreshTokenNotFound
		} else if err != nil {
			return err
		}
		if session, err = q.LockSession(ctx, row.SessionID); none(err) {
			return ErrRefreshTokenNotFound
		} else if err != nil {
			return err
		}
		if !session.Alive {
			return ErrSessionEnded
		}
		if user.DisabledAt != nil {
			return ErrDisabled
		}
		used, err := q.UseRefreshToken(ctx, old)
		if err != nil {
			return fmt.Errorf("using a refresh token: %w", err)
		}
		if used == 0 {
			refused, ended, err = s.reused(ctx, q, session, old)
			return err
		}
		if err := q.ExtendSession(ctx, db.ExtendSessionParams{ID: session.ID, LifetimeSeconds: s.cfg.RefreshLifetime.Seconds()}); err != nil {
			return err
		}
		return q.InsertRefreshToken(ctx, db.InsertRefreshTokenParams{Hash: hash, SessionID: session.ID, Parent: old})
	})
	s.revoke(ended)
	if err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	return s.sign(ctx, user, session.ID, session.Method, refresh)
}

// reused decides what a refresh token that was used before means: a client that asked twice, or a thief.
func (s *Service) reused(ctx context.Context, q *db.Queries, session db.LockSessionRow, hash []byte) (refused error, ended []uuid.UUID, err error) {
	benign, err := q.IsBenignReuse(ctx, db.IsBenignReuseParams{Hash: hash, WindowSeconds: reuseWindow.Seconds()})
	if err != nil {
		return nil, nil, fmt.Errorf("looking at a used refresh token: %w", err)
	}
	if benign {
		return ErrRefreshTokenUsed.Msgf("the refresh token was used a moment ago; use the one that was given for it"), nil, nil
	}
	s.log.Warn("a refresh token was used again, and its session ended", "user", session.UserID, "session", session.ID)
	ended, err = s.end(ctx, q, db.EndSessionsParams{UserID: session.UserID, OnlyID: &session.ID})
	return ErrRefreshTokenUsed.Msgf("the refresh token was used before; the session has ended, sign in again"), ended, err
}

// end ends sessions; revoke is to be called with its result when that is committed.
func (s *Service) end(ctx context.Context, q *db.Queries, params db.EndSessionsParams) ([]uuid.UUID, error) {
	params.TokenSeconds = s.signer.RevocationTime().Seconds()
	ended, err := q.EndSessions(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("ending sessions: %w", err)
	}
	return ended, nil
}

// revoke makes this process refuse the access tokens at once; the others hear of it by notification.
func (s *Service) revoke(ids []uuid.UUID) {
	until := time.Now().Add(s.signer.RevocationTime())
	for _, id := range ids {
		s.tokens.Revoke(id, until)
	}
}

// Scope says which of a user's sessions end.
type Scope string

// The scopes of a sign-out.
const (
	Local  Scope = "local"
	Global Scope = "global"
	Others Scope = "others"
)

// SignOut ends the caller's session, all of the user's, or all others.
func (s *Service) SignOut(ctx context.Context, p *auth.Principal, scope Scope) error {
	params := db.EndSessionsParams{UserID: p.ID}
	if scope != Global && p.SessionID == uuid.Nil {
		return fault.Validation("the access token belongs to no session of this server; only scope=global can be signed out with it")
	}
	switch scope {
	case Local:
		params.OnlyID = &p.SessionID
	case Others:
		params.KeepID = &p.SessionID
	}
	ended, err := s.end(ctx, db.New(s.pool), params)
	s.revoke(ended)
	return err
}

// Sessions lists the caller's sessions that go on, newest first.
func (s *Service) Sessions(ctx context.Context, p *auth.Principal) ([]db.Session, error) {
	sessions, err := db.New(s.pool).ListSessions(ctx, p.ID)
	if err != nil {
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	return sessions, nil
}

// EndSession ends one of the caller's sessions.
func (s *Service) EndSession(ctx context.Context, p *auth.Principal, id uuid.UUID) error {
	ended, err := s.end(ctx, db.New(s.pool), db.EndSessionsParams{UserID: p.ID, OnlyID: &id})
	s.revoke(ended)
	if err == nil && len(ended) == 0 {
		return ErrSessionNotFound
	}
	return err
}
