package oauth

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/users"
)

// SignIn signs a user in by her password, in the browser that has the pending request. It returns the secret by which the
// browser is known from now on, with all its pending requests; the one that it had before is good for nothing any more,
// so that whoever planted it gains nothing. The errors of a wrong password are those of package users.
func (s *Service) SignIn(ctx context.Context, id uuid.UUID, browser, email, password string, w Where) (newBrowser string, err error) {
	if _, err := s.Request(ctx, id, browser); err != nil {
		return "", err
	}
	session, err := s.accounts.SignIn(ctx, email, password, w)
	if err != nil {
		return "", err
	}
	return s.adopt(ctx, browser, session)
}

// SendCode sends six digits by mail, if there is an account. It does not say whether there is.
func (s *Service) SendCode(ctx context.Context, id uuid.UUID, browser, email string, w Where) error {
	if _, err := s.Request(ctx, id, browser); err != nil {
		return err
	}
	return s.accounts.RequestMagicLink(ctx, users.MagicLinkParams{Email: email}, w)
}

// SignInWithCode is SignIn by the digits that SendCode sent.
func (s *Service) SignInWithCode(ctx context.Context, id uuid.UUID, browser, email, code string, w Where) (newBrowser string, err error) {
	if _, err := s.Request(ctx, id, browser); err != nil {
		return "", err
	}
	session, err := s.accounts.Verify(ctx, users.Proof{Email: email, Code: code}, "", w)
	if err != nil {
		return "", err
	}
	return s.adopt(ctx, browser, session)
}

// adopt makes a session that of a browser. Its tokens are not used: the browser has its own secret.
func (s *Service) adopt(ctx context.Context, browser string, session *users.Session) (string, error) {
	old, err := browserHash(browser)
	if err != nil {
		return "", err
	}
	fresh := NewBrowser()
	refresh := sha256.Sum256([]byte(session.RefreshToken))
	err = s.inTx(ctx, func(q *db.Queries) error {
		// In the order in which whoever deletes them comes by: the user, the session, clients, requests.
		if _, err := q.ShareUser(ctx, session.User.ID); err != nil {
			return err
		}
		id, err := q.TakeBrowserSession(ctx, db.TakeBrowserSessionParams{RefreshHash: refresh[:], LifetimeSeconds: browserLifetime.Seconds()})
		if err != nil {
			return fmt.Errorf("taking over a session: %w", err)
		}
		if err := q.HoldClientsOfBrowser(ctx, old); err != nil {
			return fmt.Errorf("holding clients: %w", err)
		}
		err = q.MoveOAuthRequests(ctx, db.MoveOAuthRequestsParams{OldBrowser: old, NewBrowser: hashOf(fresh)})
		if err != nil {
			return fmt.Errorf("moving authorization requests: %w", err)
		}
		if _, err := q.DeleteOAuthBrowser(ctx, old); err != nil && !none(err) {
			return fmt.Errorf("forgetting a browser: %w", err)
		}
		return q.InsertOAuthBrowser(ctx, db.InsertOAuthBrowserParams{
			Hash: hashOf(fresh), SessionID: id, LifetimeSeconds: browserLifetime.Seconds(),
		})
	})
	if none(err) { // the user was deleted meanwhile
		return "", users.ErrInvalidLogin
	}
	if err != nil {
		return "", err
	}
	return fresh, nil
}

// SignOut ends the session of the browser. Its pending requests stay, for somebody else to sign in.
func (s *Service) SignOut(ctx context.Context, browser string) error {
	hash, err := browserHash(browser)
	if err != nil {
		return err
	}
	row, err := db.New(s.pool).DeleteOAuthBrowser(ctx, hash)
	if none(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("forgetting a browser: %w", err)
	}
	return s.accounts.SignOut(ctx, &auth.Principal{ID: row.UserID, SessionID: row.SessionID}, users.Local)
}
