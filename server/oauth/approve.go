package oauth

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
)

// Approve answers a pending request: it makes a grant of those of the requested scopes that are granted and that the user
// may allow, and returns where to send the browser, with the code. When none is left it is as if the user had refused.
// The request is spent by it.
func (s *Service) Approve(ctx context.Context, id uuid.UUID, browser string, granted []string, w Where) (location string, err error) {
	hash, err := browserHash(browser)
	if err != nil {
		return "", err
	}
	code, codeHash := newSecret(codePrefix)
	err = s.inTx(ctx, func(q *db.Queries) error {
		row, err := q.LockOAuthRequest(ctx, db.LockOAuthRequestParams{ID: id, Browser: hash})
		if err != nil {
			return err
		}
		request := row.OAuthRequest
		allowed := permitted(s.offers(intersection(request.Scopes, granted)), row.User.Role == db.UserRoleAdmin)
		if _, err := q.UseOAuthRequest(ctx, db.UseOAuthRequestParams{ID: id, Browser: hash}); err != nil {
			return err
		}
		if len(allowed) == 0 {
			location = s.denied(request)
			return nil
		}
		location = s.location(request.RedirectURI, request.State, "code", code)
		grant := newID()
		err = q.InsertOAuthGrant(ctx, db.InsertOAuthGrantParams{
			ID: grant, ClientID: request.ClientID, UserID: row.User.ID, Scopes: allowed, Resource: request.Resource,
			LifetimeSeconds: codeLifetime.Seconds(),
		})
		if err != nil {
			return fmt.Errorf("inserting a grant: %w", err)
		}
		err = q.InsertOAuthCode(ctx, db.InsertOAuthCodeParams{
			Hash: codeHash, GrantID: grant, RedirectURI: request.RedirectURI, RedirectNamed: request.RedirectNamed,
			CodeChallenge: request.CodeChallenge, LifetimeSeconds: codeLifetime.Seconds(),
		})
		if err != nil {
			return fmt.Errorf("inserting a code: %w", err)
		}
		// Its being used is what saves the client from the sweeper, so it is noted in any case.
		if err := q.TouchOAuthClient(ctx, request.ClientID); err != nil {
			return fmt.Errorf("noting a client's use: %w", err)
		}
		return record(ctx, q, entry{action: "grant", user: row.User.ID, client: request.ClientID, name: row.ClientName, ip: w.IP,
			details: map[string]any{"grant_id": grant, "scopes": allowed, "redirect_uri": request.RedirectURI}})
	})
	if none(err) {
		return "", s.whyNot(ctx, id, browser)
	}
	if err != nil {
		return "", err
	}
	return location, nil
}

// whyNot says why a request could not be approved.
func (s *Service) whyNot(ctx context.Context, id uuid.UUID, browser string) error {
	request, err := s.Request(ctx, id, browser)
	if err != nil {
		return err
	}
	if request.User == nil {
		return pageError(http.StatusUnauthorized, "You are not signed in", "You were signed out meanwhile. Sign in again to go on.")
	}
	return errNotPending()
}

// Deny answers a pending request with no, and returns where to send the browser. Nobody needs to be signed in for it.
func (s *Service) Deny(ctx context.Context, id uuid.UUID, browser string) (location string, err error) {
	hash, err := browserHash(browser)
	if err != nil {
		return "", err
	}
	request, err := db.New(s.pool).UseOAuthRequest(ctx, db.UseOAuthRequestParams{ID: id, Browser: hash})
	if none(err) {
		return "", errNotPending()
	}
	if err != nil {
		return "", fmt.Errorf("denying an authorization request: %w", err)
	}
	return s.denied(request), nil
}

func (s *Service) denied(request db.OAuthRequest) string {
	return s.location(request.RedirectURI, request.State, "error", "access_denied", "error_description", "the user did not allow it")
}

// intersection returns those of the names that are among the others.
func intersection(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(others, name) })
}
