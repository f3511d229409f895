package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
)

// Verify returns the principal of an access token: its user, narrowed by its scopes, with claims for row-level security
// as her own access tokens have them. The error is auth.ErrInvalidCredentials with the reason. What the principal holds
// is shared and must not be changed.
func (s *Service) Verify(ctx context.Context, token string) (*auth.Principal, error) {
	if !isSecret(token, AccessTokenPrefix) {
		return nil, auth.ErrInvalidCredentials.Msgf("this is no access token for this server")
	}
	hash := tokenHash(hashOf(token))
	p, generation, ok := s.cache.get(hash, time.Now())
	if ok {
		return &p, nil
	}
	// The time is taken before the query, so that what ends between the two is not outlived.
	began := time.Now()
	row, err := db.New(s.pool).VerifyOAuthToken(ctx, hash[:])
	if none(err) {
		return nil, auth.ErrInvalidCredentials.Msgf("the access token is not known")
	}
	if err != nil {
		return nil, fmt.Errorf("looking up an access token: %w", err)
	}
	p, err = s.principal(row)
	if err != nil {
		return nil, err
	}
	if row.Untouched {
		if err := db.New(s.pool).TouchOAuthGrant(ctx, row.GrantID); err != nil {
			s.log.Warn("noting a grant's use", "grant", row.GrantID, "error", err)
		}
	}
	remaining := time.Duration(row.RemainingSeconds * float64(time.Second))
	s.cache.put(hash, p, began.Add(min(remaining, cacheTTL)), generation)
	return &p, nil
}

// principal returns the caller whom a token's row stands for.
func (s *Service) principal(row db.VerifyOAuthTokenRow) (auth.Principal, error) {
	var p auth.Principal
	switch {
	case row.Revoked:
		return p, auth.ErrInvalidCredentials.Msgf("the access token was revoked")
	case row.RemainingSeconds <= 0:
		return p, auth.ErrInvalidCredentials.Msgf("the access token has expired")
	case row.Resource != s.cfg.Resource():
		return p, auth.ErrInvalidCredentials.Msgf("the access token is for another resource")
	case row.Disabled:
		return p, auth.ErrInvalidCredentials.Msgf("the account is disabled")
	}
	p = auth.Principal{
		ID: row.UserID, Admin: row.IsAdmin, Role: auth.RoleAuthenticated, Scopes: permitted(row.Scopes, row.IsAdmin),
		ClientID: row.ClientID, GrantID: row.GrantID,
	}
	p.Claims = map[string]any{
		"iss": s.cfg.Issuer, "aud": row.Resource, "sub": row.UserID.String(), "role": p.Role,
		"email": row.Email, "email_verified": row.EmailVerified,
		"scope": strings.Join(p.Scopes, " "), "client_id": row.ClientID,
	}
	if row.IsAdmin {
		p.Claims["is_admin"] = true
	}
	for name, raw := range map[string]json.RawMessage{"app_metadata": row.AppMetadata, "user_metadata": row.UserMetadata} {
		var value map[string]any
		if err := json.Unmarshal(raw, &value); err != nil {
			return p, fmt.Errorf("reading %s: %w", name, err)
		}
		p.Claims[name] = value
	}
	claims, err := json.Marshal(p.Claims)
	if err != nil {
		return p, fmt.Errorf("writing claims: %w", err)
	}
	p.ClaimsJSON = string(claims)
	return p, nil
}
