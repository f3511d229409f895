package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/db"
)

// TokenRequest is what the token endpoint is asked for (RFC 6749, sections 4.1.3 and 6).
type TokenRequest struct {
	GrantType, Code, RedirectURI, ClientID, CodeVerifier, RefreshToken, Scope string
	Resource                                                                  []string
}

// TokenResponse is what it answers (RFC 6749, section 5.1).
type TokenResponse struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"` // seconds
	RefreshToken string `json:"refresh_token"`
	Scope        string `json:"scope"`
}

// Token redeems a code or a refresh token. What it refuses is an *Error.
func (s *Service) Token(ctx context.Context, r TokenRequest, w Where) (*TokenResponse, error) {
	if err := s.limits.Take(ctx, tokenNetwork, w.Network()); err != nil {
		return nil, limited(err)
	}
	var exchange func(context.Context, TokenRequest, Where) (*TokenResponse, error)
	switch r.GrantType {
	case "authorization_code":
		exchange = s.redeem
	case "refresh_token":
		exchange = s.refresh
	case "":
		return nil, ErrInvalidRequest.say("grant_type is missing")
	default:
		return nil, ErrUnsupportedGrantType.say("grant_type must be authorization_code or refresh_token")
	}
	if r.ClientID == "" {
		return nil, ErrInvalidRequest.say("client_id is missing")
	}
	if err := s.checkResources(r.Resource); err != nil {
		return nil, err
	}
	return exchange(ctx, r, w)
}

// refusal is why a code or token is refused when that ends the grant: the end must be committed, so it is no error of the
// transaction.
type refusal struct {
	err   *Error
	grant uuid.UUID
}

// redeem exchanges a code for the first tokens of its grant. The checks come before the code is spent: who knows a code
// but not what it is bound to can neither use it nor use it up.
func (s *Service) redeem(ctx context.Context, r TokenRequest, w Where) (*TokenResponse, error) {
	if r.Code == "" {
		return nil, ErrInvalidRequest.say("code is missing")
	}
	if r.CodeVerifier == "" {
		return nil, ErrInvalidRequest.say("code_verifier is missing; PKCE is required")
	}
	if !isSecret(r.Code, codePrefix) {
		return nil, s.notFound(ctx, r.ClientID, "the code is not known")
	}
	hash := hashOf(r.Code)
	var answer *TokenResponse
	var ended refusal
	var untouched bool
	err := s.inTx(ctx, func(q *db.Queries) error {
		row, err := q.LockOAuthCode(ctx, hash)
		if err != nil {
			return err
		}
		code := row.OAuthCode
		untouched = row.ClientUntouched
		switch {
		// A code that leaked to another client must not let it end what the code's own client got.
		case row.ClientID != r.ClientID:
			return errOtherClient
		case code.UsedAt != nil:
			ended, err = s.replayed(ctx, q, row, w)
			return err
		case row.Revoked:
			return ErrInvalidGrant.say("the grant was revoked")
		case row.Expired:
			return ErrInvalidGrant.say("the code has expired; it is good for %d minutes", int(codeLifetime.Minutes()))
		case r.RedirectURI == "" && code.RedirectNamed:
			return ErrInvalidGrant.say("redirect_uri is missing; it must be that of the authorization request")
		case r.RedirectURI != "" && r.RedirectURI != code.RedirectURI:
			return ErrInvalidGrant.say("redirect_uri is not that of the authorization request")
		case !verifies(r.CodeVerifier, code.CodeChallenge):
			return ErrInvalidGrant.say("code_verifier does not belong to the code_challenge of the authorization request")
		case row.UserDisabled:
			return ErrInvalidGrant.say("the account is disabled")
		case row.Resource != s.cfg.Resource():
			return errMoved
		}
		spent, err := q.UseOAuthCode(ctx, hash)
		if err != nil {
			return fmt.Errorf("using a code: %w", err)
		}
		if spent == 0 {
			ended, err = s.replayed(ctx, q, row, w)
			return err
		}
		answer, err = s.issue(ctx, q, pair{
			grant: code.GrantID, scopes: permitted(row.Scopes, row.UserIsAdmin),
		})
		return err
	})
	answer, err = s.settle(ctx, r, answer, ended, err, "the code is not known")
	if err == nil && untouched {
		s.touch(ctx, r.ClientID)
	}
	return answer, err
}

// replayed ends the grant of a code that was used before (RFC 6749, section 4.1.2).
func (s *Service) replayed(ctx context.Context, q *db.Queries, row db.LockOAuthCodeRow, w Where) (refusal, error) {
	s.log.Warn("an authorization code was used again, and its grant ended", "rule", "code_replay",
		"client", row.ClientID, "user", row.UserID, "grant", row.OAuthCode.GrantID)
	err := s.end(ctx, q, row.OAuthCode.GrantID, nil, entry{action: "code_replay", denied: true, ip: w.IP})
	return refusal{ErrInvalidGrant.say("the code was used before; what was issued for it is revoked"), row.OAuthCode.GrantID}, err
}

// end revokes a grant and records why, unless that was done before. The entry's action is the reason.
func (s *Service) end(ctx context.Context, q *db.Queries, grant uuid.UUID, user *uuid.UUID, e entry) error {
	row, err := q.RevokeOAuthGrant(ctx, db.RevokeOAuthGrantParams{ID: grant, UserID: user, Reason: &e.action})
	if none(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("revoking a grant: %w", err)
	}
	if e.details == nil {
		e.details = map[string]any{}
	}
	e.details["grant_id"] = grant
	e.user, e.client, e.name = row.UserID, row.ClientID, row.ClientName
	return record(ctx, q, e)
}

// pair is what a pair of tokens is issued for.
type pair struct {
	grant      uuid.UUID
	scopes     []string // of the access token
	generation int32
	parent     []byte // the refresh token that is spent for it; nil for a code
}

// issue makes an access and a refresh token.
func (s *Service) issue(ctx context.Context, q *db.Queries, p pair) (*TokenResponse, error) {
	if len(p.scopes) == 0 {
		return nil, ErrInvalidGrant.say("the user may not do any more what she allowed")
	}
	access, accessHash := newSecret(AccessTokenPrefix)
	refresh, refreshHash := newSecret(refreshTokenPrefix)
	err := q.IssueOAuthTokens(ctx, db.IssueOAuthTokensParams{
		AccessHash: accessHash, RefreshHash: refreshHash, GrantID: p.grant, Generation: p.generation, Parent: p.parent,
		AccessScopes:  p.scopes,
		AccessSeconds: s.cfg.TokenLifetime.Seconds(), RefreshSeconds: s.cfg.RefreshLifetime.Seconds(),
	})
	if err != nil {
		return nil, fmt.Errorf("storing tokens: %w", err)
	}
	return &TokenResponse{
		AccessToken: access, TokenType: "Bearer", ExpiresIn: int64(s.cfg.TokenLifetime.Seconds()), RefreshToken: refresh,
		Scope: strings.Join(p.scopes, " "),
	}, nil
}

// errMoved is for what was allowed before the endpoint got another URL. Tokens of it would not be accepted, and a client
// that gets them nevertheless would ask for the next ones for ever; so it learns to ask the user again.
var errMoved = ErrInvalidGrant.say("the grant is for another URL than the MCP server has now; the user must connect again")

// errOtherClient says that a code or refresh token is not the client's.
var errOtherClient = ErrInvalidGrant.say("it was issued to another client")

// settle turns what came of the transaction of an exchange into the answer.
func (s *Service) settle(ctx context.Context, r TokenRequest, answer *TokenResponse, ended refusal, err error, unknown string) (*TokenResponse, error) {
	switch {
	case none(err):
		return nil, s.notFound(ctx, r.ClientID, unknown)
	case err == errOtherClient: // this very value: errors.Is would find any invalid_grant
		return nil, s.notFound(ctx, r.ClientID, errOtherClient.Description)
	case err != nil:
		return nil, err
	case ended.err != nil:
		if ended.grant != uuid.Nil {
			s.cache.forget(ended.grant)
		}
		return nil, ended.err
	}
	return answer, nil
}

// notFound is the error of a code or token that is not the client's: invalid_client where there is no such client, which
// makes applications register anew.
func (s *Service) notFound(ctx context.Context, client, description string) error {
	if _, err := s.client(ctx, client); err != nil {
		return err
	}
	return ErrInvalidGrant.say("%s", description)
}

// touch notes a client's use. That it fails is no reason to withhold the tokens.
func (s *Service) touch(ctx context.Context, client string) {
	if err := db.New(s.pool).TouchOAuthClient(ctx, client); err != nil {
		s.log.Warn("noting a client's use", "client", client, "error", err)
	}
}

// verifies reports whether the challenge was made from the verifier (RFC 7636, section 4.6).
func verifies(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	for _, c := range []byte(verifier) {
		if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", rune(c)) {
			return false
		}
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare([]byte(base64.RawURLEncoding.EncodeToString(sum[:])), []byte(challenge)) == 1
}
