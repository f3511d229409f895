package oauth

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
)

// Errors of what callers of the API manage.
var (
	ErrClientNotFound = fault.New(fault.NotFound, "not_found", "there is no such OAuth client")
	ErrGrantNotFound  = fault.New(fault.NotFound, "not_found", "there is no such connected application")
)

// ClientInfo is a client with the number of its grants that go on.
type ClientInfo struct {
	Client
	Grants int64
}

// Grant is an application that a user has connected.
type Grant struct {
	db.OAuthGrant
	Client Client
}

func allow(p *auth.Principal) error {
	if !p.Unbound() {
		return auth.ErrDenied.Msgf("OAuth clients are managed by administrators and service keys")
	}
	return nil
}

// allowOwn returns an error unless the caller is a user who signed in herself: neither a key nor an application may see
// or end what a user has connected.
func allowOwn(p *auth.Principal) error {
	if p.Service || p.KeyID != uuid.Nil || p.Scopes != nil {
		return auth.ErrDenied.Msgf("connected applications are seen by the user who signed in")
	}
	return nil
}

// Clients returns clients, newest first, and how many there are in all.
func (s *Service) Clients(ctx context.Context, p *auth.Principal, limit, offset int32) ([]ClientInfo, int64, error) {
	if err := allow(p); err != nil {
		return nil, 0, err
	}
	q := db.New(s.pool)
	rows, err := q.ListOAuthClients(ctx, db.ListOAuthClientsParams{MaxRows: limit, SkipRows: offset})
	if err != nil {
		return nil, 0, fmt.Errorf("listing clients: %w", err)
	}
	total, err := q.CountOAuthClients(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("counting clients: %w", err)
	}
	clients := make([]ClientInfo, len(rows))
	for i, row := range rows {
		clients[i] = ClientInfo{row.OAuthClient, row.Grants}
	}
	return clients, total, nil
}

// RevokeClient removes a client with all grants that users gave it. One that is known by a document may come again, and
// asks anew.
func (s *Service) RevokeClient(ctx context.Context, p *auth.Principal, id string) error {
	if err := allow(p); err != nil {
		return err
	}
	// What the database cannot hold is nobody's id. The rules for new ids may be narrower than they were.
	if !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return ErrClientNotFound
	}
	var client Client
	err := s.inTx(ctx, func(q *db.Queries) error {
		var err error
		if client, err = q.DeleteOAuthClient(ctx, id); err != nil {
			return err
		}
		return record(ctx, q, entry{action: "client_revoked", client: id, name: client.Name, details: map[string]any{"by": p.Actor()}})
	})
	if none(err) {
		return ErrClientNotFound
	}
	if err != nil {
		return fmt.Errorf("removing a client: %w", err)
	}
	s.cache.forgetAll()
	s.log.Info("an OAuth client was removed", "client", id, "name", client.Name, "by", p.Actor())
	return nil
}

// Grants returns the applications that the caller has connected, newest first.
func (s *Service) Grants(ctx context.Context, p *auth.Principal) ([]Grant, error) {
	if err := allowOwn(p); err != nil {
		return nil, err
	}
	rows, err := db.New(s.pool).ListOAuthGrants(ctx, p.ID)
	if err != nil {
		return nil, fmt.Errorf("listing grants: %w", err)
	}
	grants := make([]Grant, len(rows))
	for i, row := range rows {
		grants[i] = Grant{row.OAuthGrant, row.OAuthClient}
	}
	return grants, nil
}

// RevokeGrant disconnects an application of the caller's; administrators and service keys may do so for others.
func (s *Service) RevokeGrant(ctx context.Context, p *auth.Principal, id uuid.UUID) error {
	user := &p.ID
	if p.Unbound() {
		user = nil
	} else if err := allowOwn(p); err != nil {
		return err
	}
	var row db.RevokeOAuthGrantRow
	err := s.inTx(ctx, func(q *db.Queries) error {
		var err error
		reason := "revoke"
		if row, err = q.RevokeOAuthGrant(ctx, db.RevokeOAuthGrantParams{ID: id, UserID: user, Reason: &reason}); err != nil {
			return err
		}
		return record(ctx, q, entry{action: "revoke", user: row.UserID, client: row.ClientID, name: row.ClientName,
			details: map[string]any{"grant_id": id, "by": p.Actor()}})
	})
	if none(err) {
		return ErrGrantNotFound
	}
	if err != nil {
		return fmt.Errorf("revoking a grant: %w", err)
	}
	s.cache.forget(id)
	return nil
}
