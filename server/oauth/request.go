package oauth

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/users"
)

// Request is an authorization request that waits for the user. Only the browser that made it sees it.
type Request struct {
	ID           uuid.UUID
	Client       Client
	RedirectURI  string
	RedirectHost string // where the user will be sent, for people
	Loopback     bool   // that is a program on the user's own machine, of which anybody can write one
	// Scopes are what was asked for; once a user is signed in, without those that she may not allow.
	Scopes    []Scope
	State     string
	Resource  string
	ExpiresAt time.Time
	// User is who is signed in in the browser; nil for nobody.
	User *users.User
}

// Request returns a pending request of the browser. It returns a *PageError for one that was answered, has expired or is
// another browser's.
func (s *Service) Request(ctx context.Context, id uuid.UUID, browser string) (*Request, error) {
	hash, err := browserHash(browser)
	if err != nil {
		return nil, err
	}
	found, err := db.New(s.pool).GetOAuthRequest(ctx, db.GetOAuthRequestParams{ID: id, Browser: hash})
	if none(err) || err == nil && !found.Pending {
		return nil, errNotPending()
	}
	if err != nil {
		return nil, fmt.Errorf("reading an authorization request: %w", err)
	}
	user, since, err := s.signedIn(ctx, hash)
	if err != nil {
		return nil, err
	}
	if found.OAuthRequest.SignInAgain && since.Before(found.OAuthRequest.CreatedAt) {
		user = nil
	}
	return s.request(found.OAuthRequest, found.OAuthClient, user)
}

func errNotPending() error {
	return pageError(http.StatusBadRequest, "This request is over",
		"It was answered before, or more than %d minutes ago, or in another browser. Go back to the application and connect again.", int(requestLifetime.Minutes()))
}

// signedIn returns who is signed in in the browser, nil for nobody, and since when.
func (s *Service) signedIn(ctx context.Context, browser []byte) (*users.User, time.Time, error) {
	row, err := db.New(s.pool).GetBrowserUser(ctx, browser)
	if none(err) {
		return nil, time.Time{}, nil
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("looking up who is signed in: %w", err)
	}
	return &row.User, row.SignedInAt, nil
}

func (s *Service) request(row db.OAuthRequest, client Client, user *users.User) (*Request, error) {
	host, loopback, err := describeRedirect(row.RedirectURI)
	if err != nil {
		return nil, err
	}
	names := s.offers(row.Scopes)
	if user != nil {
		names = permitted(names, user.Role == db.UserRoleAdmin)
	}
	return &Request{
		ID: row.ID, Client: client, RedirectURI: row.RedirectURI, RedirectHost: host, Loopback: loopback, Scopes: described(names),
		State: string(row.State), Resource: row.Resource, ExpiresAt: row.ExpiresAt, User: user,
	}, nil
}
