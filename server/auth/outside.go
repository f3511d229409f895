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
	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jwt"
)

// Outside is another issuer whose tokens are accepted as users' access tokens. Its users are no administrators here,
// whatever the tokens say.
type Outside struct {
	Issuer   string
	Audience string
	JWKSURL  string

	keys  shared[jwk.Set]
	mu    sync.Mutex
	tried time.Time // when the keys were last fetched, whether they came or not
	// failure is why there are no keys at all; it is not tried again at once.
	failure error
	failed  time.Time
}

// Algorithms that an outside issuer may use: those with a public key.
var outsideAlgorithms = []jwa.SignatureAlgorithm{
	jwa.ES256, jwa.ES384, jwa.ES512, jwa.EdDSA, jwa.RS256, jwa.RS384, jwa.RS512, jwa.PS256, jwa.PS384, jwa.PS512,
}

// The outside keys are fetched again after so long, and at most so often for an unknown kid.
const (
	outsideTTL     = 15 * time.Minute
	outsideRefresh = 30 * time.Second
	outsideRetry   = 2 * time.Second
	maxJWKS        = 1 << 20
)

func (o *Outside) verify(ctx context.Context, token string, header tokenHeader, claims map[string]any) (*Principal, time.Time, error) {
	alg := jwa.SignatureAlgorithm(header.Alg)
	if header.Kid == "" || !slices.Contains(outsideAlgorithms, alg) {
		return nil, time.Time{}, ErrInvalidCredentials.Msgf("the access token needs a kid and an algorithm with a public key")
	}
	key, err := o.key(ctx, header.Kid)
	if err != nil {
		return nil, time.Time{}, err
	}
	// A key is for its own kind of algorithm, and where it names one for that alone.
	if own := key.Algorithm().String(); own != "" && own != alg.String() {
		return nil, time.Time{}, ErrInvalidCredentials.Msgf("the access token's algorithm is not its key's")
	}
	parsed, err := parseToken(token, jwt.WithKey(alg, key), o.Issuer, o.Audience)
	if err != nil {
		return nil, time.Time{}, err
	}
	subject := parsed.Subject()
	id, err := uuid.Parse(subject)
	if err != nil {
		// Policies compare auth.uid(), which is a uuid: other subjects get one that is always the same.
		id = uuid.NewSHA1(uuid.NameSpaceURL, []byte(o.Issuer+"#"+subject))
		claims["sub"], claims["outside_sub"] = id.String(), subject
	}
	delete(claims, "is_admin")
	claims["role"] = "authenticated"
	return &Principal{ID: id, Role: "authenticated", Claims: claims}, parsed.Expiration(), nil
}

func (o *Outside) key(ctx context.Context, kid string) (jwk.Key, error) {
	keys, age, ok := o.keys.get()
	if ok && age < outsideTTL {
		if key, ok := keys.LookupKeyID(kid); ok {
			return key, nil
		}
	}
	due, err := o.due(ok)
	if err != nil {
		return nil, err
	}
	if due {
		// Keys that could not be renewed are better than none: an issuer that is away does not change them.
		fetched, err := o.keys.load(ctx, o.fetch)
		switch {
		case err == nil:
			keys = fetched
		case !ok:
			return nil, o.fail(fmt.Errorf("fetching the outside issuer's keys: %w", err))
		}
	}
	if key, ok := keys.LookupKeyID(kid); ok {
		return key, nil
	}
	return nil, ErrInvalidCredentials.Msgf("the access token was signed with an unknown key")
}

// due reports whether the keys are to be fetched. have tells that there are keys, which are renewed from time to time; without
// any, everybody waits for the first ones, unless they failed to come a moment ago.
func (o *Outside) due(have bool) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !have && o.failure != nil && time.Since(o.failed) < outsideRetry:
		return false, o.failure
	case have && time.Since(o.tried) <= outsideRefresh:
		return false, nil
	}
	o.tried = time.Now()
	return true, nil
}

// fail notes why there are no keys.
func (o *Outside) fail(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failure, o.failed = err, time.Now()
	return err
}

func (o *Outside) fetch(ctx context.Context) (jwk.Set, error) {
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
