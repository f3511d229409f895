package oauth

import (
	"context"
	"fmt"

	"github.com/boughdb/bough/gen/db"
)

// Revoke ends an access token, or, for a refresh token, the grant with all that came of it (RFC 7009). A token that is not
// known, has ended before or is another client's is no error, and nothing happens. clientID may be "": who has a token
// may end it. hint is not needed, since a token's beginning says what it is.
func (s *Service) Revoke(ctx context.Context, token, _, clientID string, w Where) error {
	if err := s.limits.Take(ctx, tokenNetwork, w.Network()); err != nil {
		return limited(err)
	}
	if token == "" {
		return ErrInvalidRequest.say("token is missing")
	}
	if clientID != "" {
		if _, err := s.client(ctx, clientID); err != nil {
			return err
		}
	}
	if !isSecret(token, AccessTokenPrefix) && !isSecret(token, refreshTokenPrefix) {
		return nil
	}
	hash := hashOf(token)
	row, err := db.New(s.pool).GetOAuthToken(ctx, hash)
	if none(err) || err == nil && clientID != "" && row.ClientID != clientID {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up a token: %w", err)
	}
	err = s.inTx(ctx, func(q *db.Queries) error {
		if row.Kind == db.OAuthTokenKindRefresh {
			return s.end(ctx, q, row.GrantID, nil, entry{action: "revoke", ip: w.IP, details: map[string]any{"token": "refresh"}})
		}
		ended, err := q.RevokeOAuthAccessToken(ctx, hash)
		if err != nil {
			return fmt.Errorf("revoking an access token: %w", err)
		}
		if ended == 0 {
			return nil
		}
		return record(ctx, q, entry{action: "revoke", user: row.UserID, client: row.ClientID, name: row.ClientName, ip: w.IP,
			details: map[string]any{"token": "access", "grant_id": row.GrantID}})
	})
	if err != nil {
		return err
	}
	s.cache.forget(row.GrantID)
	return nil
}
