package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"github.com/boughdb/bough/gen/db"
)

// Audience is the aud claim of access tokens for the API.
const Audience = "bough"

// TokenType is the typ header of access tokens (RFC 9068, section 2.1). It keeps refresh tokens and tokens for other
// uses from passing as access tokens.
const TokenType = "at+jwt"

// Clocks of issuer and verifier may differ by so much.
const clockSkew = 30 * time.Second

// The signing keys are read again after so long without a notification, and at most so often for an unknown kid.
const (
	keySetTTL     = 5 * time.Minute
	keySetRefresh = 2 * time.Second
)

// Tokens verifies access tokens with the public keys in the control database.
type Tokens struct {
	pool   *pgxpool.Pool
	issuer string

	mu      sync.Mutex
	keys    jwk.Set
	fetched time.Time
}

// NewTokens returns a verifier of tokens by the issuer.
func NewTokens(pool *pgxpool.Pool, issuer string) *Tokens {
	return &Tokens{pool: pool, issuer: issuer}
}

// Forget drops the keys, to be read again.
func (t *Tokens) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys = nil
}

// Verify returns the user of an access token. The algorithm is ES256 and nothing else, the signature is by one of the
// published keys, and issuer, audience, type and times are right.
func (t *Tokens) Verify(ctx context.Context, token string) (*Principal, error) {
	if len(token) > 16<<10 {
		return nil, ErrInvalidCredentials
	}
	msg, err := jws.ParseString(token)
	if err != nil || len(msg.Signatures()) != 1 {
		return nil, ErrInvalidCredentials.Msgf("the access token is malformed")
	}
	header := msg.Signatures()[0].ProtectedHeaders()
	alg, _ := header.Algorithm()
	typ, _ := header.Type()
	kid, _ := header.KeyID()
	if alg != jwa.ES256() || typ != TokenType || kid == "" {
		return nil, ErrInvalidCredentials.Msgf("this is no access token of this server")
	}
	key, err := t.key(ctx, kid)
	if err != nil {
		return nil, err
	}
	parsed, err := jwt.ParseString(token,
		jwt.WithKey(jwa.ES256(), key), jwt.WithIssuer(t.issuer), jwt.WithAudience(Audience),
		jwt.WithAcceptableSkew(clockSkew), jwt.WithRequiredClaim(jwt.ExpirationKey), jwt.WithRequiredClaim(jwt.SubjectKey))
	switch {
	case errors.Is(err, jwt.TokenExpiredError()):
		return nil, ErrInvalidCredentials.Msgf("the access token has expired")
	case err != nil:
		return nil, ErrInvalidCredentials.Msgf("the access token is not valid here")
	}
	subject, _ := parsed.Subject()
	id, err := uuid.Parse(subject)
	if err != nil {
		return nil, ErrInvalidCredentials.Msgf("the access token names no user")
	}
	p := &Principal{ID: id, Role: "authenticated", Claims: map[string]any{}}
	for _, name := range parsed.Keys() {
		var v any
		if err := parsed.Get(name, &v); err == nil {
			p.Claims[name] = v
		}
	}
	if role, ok := p.Claims["role"].(string); ok && role != p.Role {
		return nil, ErrInvalidCredentials.Msgf("the access token's role is not one of this server")
	}
	p.Admin, _ = p.Claims["is_admin"].(bool)
	return p, nil
}

// key returns the public key of that id, reading the keys again when it is unknown.
func (t *Tokens) key(ctx context.Context, kid string) (jwk.Key, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys != nil && time.Since(t.fetched) < keySetTTL {
		if key, ok := t.keys.LookupKeyID(kid); ok {
			return key, nil
		}
		if time.Since(t.fetched) < keySetRefresh {
			return nil, ErrInvalidCredentials.Msgf("the access token was signed with an unknown key")
		}
	}
	rows, err := db.New(t.pool).ListSigningKeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the signing keys: %w", err)
	}
	set := jwk.NewSet()
	for _, row := range rows {
		key, err := jwk.ParseKey(row.PublicJWK)
		if err != nil {
			return nil, fmt.Errorf("signing key %s: %w", row.Kid, err)
		}
		if err := key.Set(jwk.KeyIDKey, row.Kid); err != nil {
			return nil, err
		}
		if err := set.AddKey(key); err != nil {
			return nil, err
		}
	}
	t.keys, t.fetched = set, time.Now()
	if key, ok := set.LookupKeyID(kid); ok {
		return key, nil
	}
	return nil, ErrInvalidCredentials.Msgf("the access token was signed with an unknown key")
}
