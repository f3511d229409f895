package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lestrrat-go/jwx/v2/jwa"
	"github.com/lestrrat-go/jwx/v2/jwk"
	"github.com/lestrrat-go/jwx/v2/jws"
	"github.com/lestrrat-go/jwx/v2/jwt"

	"github.com/boughdb/bough/gen/db"
)

// PublishedKey is a key that verifiers should know.
type PublishedKey = db.ListPublishedKeysRow

// JWKSMaxAge is for how long verifiers may keep the published keys. A new key is published for so long before it signs.
const JWKSMaxAge = 5 * time.Minute

// How long the key that signs is kept in memory; a notification drops it at once.
const signingKeyTTL = 30 * time.Second

// Signer makes access tokens, and keeps the keys that they are signed with.
type Signer struct {
	pool     *pgxpool.Pool
	issuer   string
	lifetime time.Duration
	sealer   Sealer

	key shared[jwk.Key]
}

// NewSigner returns a signer of tokens that are good for the lifetime. The private keys are stored encrypted when there
// is an encryption key.
func NewSigner(pool *pgxpool.Pool, issuer string, lifetime time.Duration, encryptionKey string) (*Signer, error) {
	sealer, err := NewSealer(encryptionKey, "signing keys")
	return &Signer{pool: pool, issuer: issuer, lifetime: lifetime, sealer: sealer}, err
}

// Lifetime is how long access tokens are good for.
func (s *Signer) Lifetime() time.Duration { return s.lifetime }

// RevocationTime is for how long the end of a session must be remembered.
func (s *Signer) RevocationTime() time.Duration { return s.lifetime + 2*clockSkew }

// Forget drops the key, to be read again.
func (s *Signer) Forget() { s.key.forget() }

// Ensure makes the first key, and encrypts keys that were stored before there was an encryption key.
func (s *Signer) Ensure(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockSigningKeys(ctx); err != nil {
			return err
		}
		secrets, err := q.ListSigningKeySecrets(ctx)
		if err != nil {
			return fmt.Errorf("reading the private keys: %w", err)
		}
		for _, secret := range secrets {
			plain, err := s.sealer.Open(secret.PrivateJWK, secret.Encrypted, secret.Kid)
			if err != nil {
				return err
			}
			stored, encrypted := s.sealer.Seal(plain, secret.Kid)
			if encrypted == secret.Encrypted {
				continue
			}
			if err := q.SetSigningKeySecret(ctx, db.SetSigningKeySecretParams{Kid: secret.Kid, PrivateJWK: stored, Encrypted: encrypted}); err != nil {
				return err
			}
		}
		if _, err := q.GetCurrentSigningKey(ctx); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		_, err = s.insert(ctx, q, 0)
		return err
	})
}

// Rotate makes a new key. It signs when verifiers know it, and the others are retired when their last token has expired;
// immediately, both happen now. It returns the keys that are published from now on, newest first.
func (s *Signer) Rotate(ctx context.Context, immediately bool) ([]PublishedKey, error) {
	var keys []PublishedKey
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockSigningKeys(ctx); err != nil {
			return err
		}
		delay := JWKSMaxAge + clockSkew // a verifier may have read the keys a moment before
		retire := delay + s.lifetime + 2*clockSkew + signingKeyTTL
		if immediately {
			delay, retire = 0, 0
		}
		kid, err := s.insert(ctx, q, delay)
		if err != nil {
			return err
		}
		if err := q.RetireSigningKeys(ctx, db.RetireSigningKeysParams{KeptKid: kid, DelaySeconds: retire.Seconds()}); err != nil {
			return fmt.Errorf("retiring the old keys: %w", err)
		}
		keys, err = q.ListPublishedKeys(ctx)
		return err
	})
	s.Forget()
	return keys, err
}

// RotateOld rotates when the newest key is older than maxAge.
func (s *Signer) RotateOld(ctx context.Context, maxAge time.Duration) (rotated bool, err error) {
	age, err := db.New(s.pool).NewestSigningKeyAge(ctx)
	if err != nil || age < maxAge.Seconds() {
		return false, err
	}
	_, err = s.Rotate(ctx, false)
	return err == nil, err
}

func (s *Signer) insert(ctx context.Context, q *db.Queries, delay time.Duration) (kid string, err error) {
	raw, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	private, err := jwk.FromRaw(raw)
	if err != nil {
		return "", err
	}
	if err := errors.Join(jwk.AssignKeyID(private), private.Set(jwk.KeyUsageKey, "sig"), private.Set(jwk.AlgorithmKey, jwa.ES256)); err != nil {
		return "", err
	}
	kid = private.KeyID()
	public, err := private.PublicKey()
	if err != nil {
		return "", err
	}
	publicJSON, err := json.Marshal(public)
	if err != nil {
		return "", err
	}
	privateJSON, err := json.Marshal(private)
	if err != nil {
		return "", err
	}
	stored, encrypted := s.sealer.Seal(privateJSON, kid)
	if err := q.InsertSigningKey(ctx, db.InsertSigningKeyParams{Kid: kid, PublicJWK: publicJSON}); err != nil {
		return "", fmt.Errorf("publishing a signing key: %w", err)
	}
	err = q.InsertSigningKeySecret(ctx, db.InsertSigningKeySecretParams{Kid: kid, PrivateJWK: stored, Encrypted: encrypted, DelaySeconds: delay.Seconds()})
	if err != nil {
		return "", fmt.Errorf("storing a signing key: %w", err)
	}
	return kid, nil
}

// Claims are what an access token says of a user.
type Claims struct {
	UserID                    uuid.UUID
	SessionID                 uuid.UUID
	Email                     string
	EmailVerified             bool
	Admin                     bool
	Method                    string // how she signed in (RFC 8176)
	AppMetadata, UserMetadata json.RawMessage
}

// Sign returns an access token and when it expires.
func (s *Signer) Sign(ctx context.Context, c Claims) (string, time.Time, error) {
	key, err := s.current(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	now := time.Now().Truncate(time.Second)
	expires := now.Add(s.lifetime)
	b := jwt.NewBuilder().Issuer(s.issuer).Subject(c.UserID.String()).Audience([]string{Audience}).
		IssuedAt(now).NotBefore(now).Expiration(expires).JwtID(uuid.NewString()).
		Claim("role", "authenticated").Claim("email", c.Email).Claim("email_verified", c.EmailVerified).
		Claim("session_id", c.SessionID.String()).Claim("aal", "aal1").Claim("amr", []string{c.Method}).
		Claim("app_metadata", c.AppMetadata).Claim("user_metadata", c.UserMetadata)
	if c.Admin {
		b = b.Claim("is_admin", true)
	}
	token, err := b.Build()
	if err != nil {
		return "", time.Time{}, err
	}
	headers := jws.NewHeaders()
	if err := headers.Set(jws.TypeKey, TokenType); err != nil {
		return "", time.Time{}, err
	}
	signed, err := jwt.Sign(token, jwt.WithKey(jwa.ES256, key, jws.WithProtectedHeaders(headers)))
	if err != nil {
		return "", time.Time{}, fmt.Errorf("signing an access token: %w", err)
	}
	return string(signed), expires, nil
}

// current returns the key that signs at present.
func (s *Signer) current(ctx context.Context) (jwk.Key, error) {
	if key, age, ok := s.key.get(); ok && age < signingKeyTTL {
		return key, nil
	}
	return s.key.load(ctx, s.read)
}

// read reads the key that signs from the database.
func (s *Signer) read(ctx context.Context) (jwk.Key, error) {
	row, err := db.New(s.pool).GetCurrentSigningKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the signing key: %w", err)
	}
	plain, err := s.sealer.Open(row.PrivateJWK, row.Encrypted, row.Kid)
	if err != nil {
		return nil, err
	}
	key, err := jwk.ParseKey(plain)
	if err != nil {
		return nil, errors.New("a private signing key cannot be read") // err might repeat a part of it
	}
	return key, nil
}

// Sweep removes keys that were retired long ago.
func (s *Signer) Sweep(ctx context.Context) error { return db.New(s.pool).SweepSigningKeys(ctx) }
