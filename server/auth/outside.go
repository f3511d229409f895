package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"
)

// Outside is another issuer whose tokens are accepted as users' access tokens. Its users are no administrators here,
// whatever the tokens say.
type Outside struct {
	Issuer   string
	Audience string
	JWKSURL  string

	mu      sync.Mutex
	keys    jwk.Set
	fetched time.Time
	tried   time.Time
}

// Algorithms that an outside issuer may use: those with a public key.
var outsideAlgorithms = []jwa.SignatureAlgorithm{
	jwa.ES256(), jwa.ES384(), jwa.ES512(), jwa.EdDSA(), jwa.RS256(), jwa.RS384(), jwa.RS512(), jwa.PS256(), jwa.PS384(), jwa.PS512(),
}

// The outside keys are fetched again after so long, and at most so often for an unknown kid.
const (
	outsideTTL     = 15 * time.Minute
	outsideRefresh = 30 * time.Second
	maxJWKS        = 1 << 20
)

func (o *Outside) verify(ctx context.Context, token string, header tokenHeader, claims map[string]any) (*Principal, time.Time, error) {
	alg, ok := jwa.LookupSignatureAlgorithm(header.Alg)
	if header.Kid == "" || !ok || !slices.Contains(outsideAlgorithms, alg) {
		return nil, time.Time{}, ErrInvalidCredentials.Msgf("the access token needs a kid and an algorithm with a public key")
	}
	key, err := o.key(ctx, header.Kid)
	if err != nil {
		return nil, time.Time{}, err
	}
	// A key is for its own kind of algorithm, and where it names one for that alone.
	if own, ok := key.Algorithm(); ok && own.String() != alg.String() {
		return nil, time.Time{}, ErrInvalidCredentials.Msgf("the access token's algorithm is not its key's")
	}
	parsed, err := parseToken(token, jwt.WithKey(alg, key), o.Issuer, o.Audience)
	if err != nil {
		return nil, time.Time{}, err
	}
	subject, _ := parsed.Subject()
	id, err := uuid.Parse(subject)
	if err != nil {
		// Policies compare auth.uid(), which is a uuid: other subjects get one that is always the same.
		id = uuid.NewSHA1(uuid.NameSpaceURL, []byte(o.Issuer+"#"+subject))
		claims["sub"], claims["outside_sub"] = id.String(), subject
	}
	delete(claims, "is_admin")
	claims["role"] = "authenticated"
	expires, _ := parsed.Expiration()
	return &Principal{ID: id, Role: "authenticated", Claims: claims}, expires, nil
}

func (o *Outside) key(ctx context.Context, kid string) (jwk.Key, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys != nil && time.Since(o.fetched) < outsideTTL {
		if key, ok := o.keys.LookupKeyID(kid); ok {
			return key, nil
		}
	}
	if time.Since(o.tried) > outsideRefresh {
		o.tried = time.Now()
		set, err := o.fetch(ctx)
		switch {
		case err == nil:
			o.keys, o.fetched = set, time.Now()
		case o.keys == nil:
			return nil, fmt.Errorf("fetching the outside issuer's keys: %w", err)
		}
	}
	// Keys that could not be renewed are better than none: an issuer that is away does not change them.
	if o.keys != nil {
		if key, ok := o.keys.LookupKeyID(kid); ok {
			return key, nil
		}
	}
	return nil, ErrInvalidCredentials.Msgf("the access token was signed with an unknown key")
}

func (o *Outside) fetch(ctx context.Context) (jwk.Set, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.JWKSURL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxJWKS))
	if err != nil {
		return nil, err
	}
	return jwk.Parse(data)
}
