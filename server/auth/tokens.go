package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jwt"

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

const (
	maxToken         = 16 << 10
	verifiedCapacity = 10_000
)

// Tokens verifies access tokens with the public keys in the control database. It asks the database for new keys only:
// a token that was verified is remembered until it expires, and sessions that ended before that are kept in memory.
type Tokens struct {
	pool    *pgxpool.Pool
	issuer  string
	outside *Outside // nil for none

	keys shared[jwk.Set]

	known     sync.Mutex
	verified  map[[sha256.Size]byte]verifiedToken
	forgotten int // counts Forget, so that what was verified with older keys is not remembered afterwards
	revoked   map[uuid.UUID]time.Time
	fresh     map[uuid.UUID]time.Time // when a revocation was heard of
}

type verifiedToken struct {
	principal Principal
	until     time.Time
}

// NewTokens returns a verifier of tokens by the issuer. Tokens of the outside issuer are accepted too, unless it is nil.
func NewTokens(pool *pgxpool.Pool, issuer string, outside *Outside) *Tokens {
	return &Tokens{
		pool: pool, issuer: issuer, outside: outside,
		verified: map[[sha256.Size]byte]verifiedToken{}, revoked: map[uuid.UUID]time.Time{}, fresh: map[uuid.UUID]time.Time{},
	}
}

// Forget drops the keys, to be read again, and the tokens that they verified.
func (t *Tokens) Forget() {
	t.keys.forget()
	t.known.Lock()
	clear(t.verified)
	t.forgotten++
	t.known.Unlock()
}

// Verify returns the user of an access token. The algorithm is ES256 and nothing else, the signature is by one of the
// published keys, issuer, audience, type and times are right, and neither the session nor the user was ended.
func (t *Tokens) Verify(ctx context.Context, token string) (*Principal, error) {
	// The compact form alone: the same token in another spelling is not one that this server gave.
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return nil, ErrInvalidCredentials.Msgf("the access token is malformed")
	}
	hash := sha256.Sum256([]byte(token))
	now := time.Now()
	t.known.Lock()
	known, ok := t.verified[hash]
	forgotten := t.forgotten
	t.known.Unlock()
	if !ok || !now.Before(known.until) {
		p, expires, err := t.verify(ctx, token)
		if err != nil {
			return nil, err
		}
		if p.Claims["role"] == nil { // another issuer may not know it
			p.Claims["role"] = p.Role
		}
		claims, err := json.Marshal(p.Claims)
		if err != nil {
			return nil, fmt.Errorf("writing claims: %w", err)
		}
		p.ClaimsJSON = string(claims)
		known = verifiedToken{*p, earlier(expires, now.Add(keySetTTL))}
		t.known.Lock()
		if t.forgotten == forgotten {
			if len(t.verified) >= verifiedCapacity {
				clear(t.verified)
			}
			t.verified[hash] = known
		}
		t.known.Unlock()
	}
	p := known.principal
	if t.isRevoked(p.SessionID, now) || t.isRevoked(p.ID, now) {
		return nil, ErrInvalidCredentials.Msgf("the session has ended; sign in again")
	}
	return &p, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (t *Tokens) verify(ctx context.Context, token string) (*Principal, time.Time, error) {
	// What is read here only chooses the key; nothing of it counts until the signature was checked.
	var header tokenHeader
	claims := map[string]any{}
	head, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	if decodePart(head, &header) != nil || decodePart(payload, &claims) != nil {
		return nil, time.Time{}, ErrInvalidCredentials.Msgf("the access token is malformed")
	}
	// Whose token it claims to be decides whose keys it must be signed with.
	if issuer, _ := claims["iss"].(string); t.outside != nil && issuer == t.outside.Issuer {
		return t.outside.verify(ctx, token, header, claims)
	}
	if header.Alg != jwa.ES256.String() || header.Typ != TokenType || header.Kid == "" {
		return nil, time.Time{}, ErrInvalidCredentials.Msgf("this is no access token of this server")
	}
	key, err := t.key(ctx, header.Kid)
	if err != nil {
		return nil, time.Time{}, err
	}
	parsed, err := parseToken(token, jwt.WithKey(jwa.ES256, key), t.issuer, Audience)
	if err != nil {
		return nil, time.Time{}, err
	}
	id, err := uuid.Parse(parsed.Subject())
	if err != nil {
		return nil, time.Time{}, ErrInvalidCredentials.Msgf("the access token names no user")
	}
	p := &Principal{ID: id, Role: "authenticated", Claims: claims}
	if role, ok := claims["role"].(string); ok && role != p.Role {
		return nil, time.Time{}, ErrInvalidCredentials.Msgf("the access token's role is not one of this server")
	}
	if session, ok := claims["session_id"]; ok {
		text, _ := session.(string)
		if p.SessionID, err = uuid.Parse(text); err != nil {
			return nil, time.Time{}, ErrInvalidCredentials.Msgf("the access token names no session")
		}
	}
	p.Admin, _ = claims["is_admin"].(bool)
	return p, parsed.Expiration(), nil
}

// tokenHeader is what matters of a token's header (RFC 7515, section 4.1).
type tokenHeader struct{ Alg, Typ, Kid string }

func decodePart(part string, into any) error {
	data, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// parseToken checks the signature, the issuer, the audience and the times.
func parseToken(token string, key jwt.ParseOption, issuer, audience string) (jwt.Token, error) {
	parsed, err := jwt.ParseString(token, key, jwt.WithIssuer(issuer), jwt.WithAudience(audience),
		jwt.WithAcceptableSkew(clockSkew), jwt.WithRequiredClaim(jwt.ExpirationKey), jwt.WithRequiredClaim(jwt.SubjectKey))
	switch {
	case errors.Is(err, jwt.ErrTokenExpired()):
		return nil, ErrInvalidCredentials.Msgf("the access token has expired")
	case err != nil:
		return nil, ErrInvalidCredentials.Msgf("the access token is not valid here")
	}
	return parsed, nil
}

// key returns the public key of that id, reading the keys again when it is unknown.
func (t *Tokens) key(ctx context.Context, kid string) (jwk.Key, error) {
	unknown := ErrInvalidCredentials.Msgf("the access token was signed with an unknown key")
	keys, age, ok := t.keys.get()
	if ok && age < keySetTTL {
		if key, ok := keys.LookupKeyID(kid); ok {
			return key, nil
		}
		if age < keySetRefresh {
			return nil, unknown
		}
	}
	keys, err := t.keys.load(ctx, t.read)
	if err != nil {
		return nil, err
	}
	if key, ok := keys.LookupKeyID(kid); ok {
		return key, nil
	}
	return nil, unknown
}

// Keys returns the public keys that tokens are verified with. The set is not to be changed.
func (t *Tokens) Keys(ctx context.Context) (jwk.Set, error) {
	if keys, age, ok := t.keys.get(); ok && age < keySetTTL {
		return keys, nil
	}
	return t.keys.load(ctx, t.read)
}

// read reads the keys from the database.
func (t *Tokens) read(ctx context.Context) (jwk.Set, error) {
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
	return set, nil
}
