package oauth

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
)

// A refresh token that is presented again so soon, with its successor unused, comes from an application that asked twice.
const benignWindow = time.Minute

// refresh exchanges a refresh token for the next pair. The new refresh token has the scopes of the grant, however narrow
// an access token the client asks for, and its own time begins anew.
func (s *Service) refresh(ctx context.Context, r TokenRequest, w Where) (*TokenResponse, error) {
	if r.RefreshToken == "" {
		return nil, ErrInvalidRequest.say("refresh_token is missing")
	}
	if !isSecret(r.RefreshToken, refreshTokenPrefix) {
		return nil, s.notFound(ctx, r.ClientID, "the refresh token is not known")
	}
	asked, refused := parseScopes(r.Scope)
	if refused != nil {
		return nil, refused
	}
	hash := hashOf(r.RefreshToken)
	var answer *TokenResponse
	var ended refusal
	var untouched bool
	err := s.inTx(ctx, func(q *db.Queries) error {
		row, err := q.LockOAuthRefreshToken(ctx, hash)
		if err != nil {
			return err
		}
		token := row.OAuthToken
		untouched = row.ClientUntouched
		switch {
		case row.ClientID != r.ClientID:
			return errOtherClient
		case row.Revoked || token.RevokedAt != nil:
			return ErrInvalidGrant.say("the grant was revoked; the user must connect again")
		case row.UserDisabled:
			return ErrInvalidGrant.say("the account is disabled")
		}
		if token.RotatedAt != nil {
			var again bool
			if again, ended, err = s.reused(ctx, q, row, w); err != nil || !again {
				return err
			}
		}
		switch {
		case row.Expired || row.GrantExpired:
			return ErrInvalidGrant.say("the refresh token has expired; the user must connect again")
		case row.Resource != s.cfg.Resource():
			return errMoved
		case len(intersection(asked, row.GrantScopes)) < len(asked):
			return ErrInvalidScope.say("scope must not name more than the user allowed")
		}
		access := permitted(row.GrantScopes, row.UserIsAdmin)
		if len(asked) > 0 {
			access = intersection(access, asked)
		}
		if token.RotatedAt == nil {
			rotated, err := q.RotateOAuthToken(ctx, hash)
			if err != nil {
				return fmt.Errorf("rotating a refresh token: %w", err)
			}
			if rotated == 0 {
				return ErrInvalidGrant.say("the refresh token was used a moment ago; use the one that was given for it")
			}
		}
		answer, err = s.issue(ctx, q, pair{
			grant: token.GrantID, scopes: access, generation: token.Generation + 1, parent: hash,
		})
		return err
	})
	answer, err = s.settle(ctx, r, answer, ended, err, "the refresh token is not known")
	if err == nil && untouched {
		s.touch(ctx, r.ClientID)
	}
	return answer, err
}

// reused decides what a refresh token that was used before means: an application that asked twice, which the rule
// configured may serve again, or a thief, and then the grant ends.
func (s *Service) reused(ctx context.Context, q *db.Queries, row db.LockOAuthRefreshTokenRow, w Where) (again bool, ended refusal, err error) {
	token := row.OAuthToken
	look, err := q.LookAtOAuthReuse(ctx, token.Hash)
	if err != nil {
		return false, ended, fmt.Errorf("looking at a used refresh token: %w", err)
	}
	age := time.Duration(look.AgeSeconds * float64(time.Second))
	details := map[string]any{"age_seconds": look.AgeSeconds, "successor_used": look.SuccessorUsed, "generation": token.Generation}
	rule := "revoked"
	switch {
	case !look.SuccessorUsed && age <= s.cfg.RefreshReuseWindow:
		rule, again = "served_again", true
	case !look.SuccessorUsed && age <= benignWindow:
		rule = "refused"
		ended.err = ErrInvalidGrant.say("the refresh token was used a moment ago; use the one that was given for it")
	default:
		ended.err = ErrInvalidGrant.say("the refresh token was used before; the grant is revoked, the user must connect again")
		ended.grant = token.GrantID
	}
	details["rule"] = rule
	s.log.Warn("a refresh token was used again", "rule", rule, "client", row.ClientID, "user", row.UserID, "grant", token.GrantID,
		"age", age.Round(time.Millisecond), "successor_used", look.SuccessorUsed)
	e := entry{action: "refresh_reuse", denied: !again, ip: w.IP, details: details}
	if ended.grant != uuid.Nil {
		return false, ended, s.end(ctx, q, token.GrantID, nil, e)
	}
	details["grant_id"] = token.GrantID
	e.user, e.client, e.name = row.UserID, row.ClientID, row.ClientName
	return again, ended, record(ctx, q, e)
}
