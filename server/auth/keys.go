package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/duration"
	"github.com/boughdb/bough/server/fault"
)

// Key is an API key's row.
type Key = db.APIKey

// Prefixes of the keys.
const (
	ServiceKeyPrefix = "bough_sk_"
	ClientKeyPrefix  = "bough_ck_"
)

// ErrMaxKeys is the error of a user who has as many client keys as one may have.
var ErrMaxKeys = fault.New(fault.Forbidden, "max_keys_reached", "the number of client keys is at its limit")

// ErrKeyNotFound is the error of an unknown key, or one that is not the caller's.
var ErrKeyNotFound = fault.New(fault.NotFound, "not_found", "there is no such key")

// How long a key that was looked up is trusted. Revocation is told at once by notification; this bounds what a lost
// notification can do.
const keyCacheTTL = 30 * time.Second

const keyCacheSize = 10_000

// Keys makes, verifies and revokes API keys.
type Keys struct {
	pool       *pgxpool.Pool
	maxPerUser int

	mu    sync.Mutex
	cache map[[32]byte]cachedKey
	// forgotten counts calls of Forget, so that what was read before one is not remembered after it.
	forgotten uint64

	configured atomic.Pointer[[32]byte] // hash of the service key that is configured; nil for none
}

type cachedKey struct {
	owned   db.GetAPIKeyByHashRow
	fetched time.Time
}

// NewKeys returns the keys of the control database. A user can create maxPerUser client keys that work at the same time.
func NewKeys(pool *pgxpool.Pool, maxPerUser int) *Keys {
	return &Keys{pool: pool, maxPerUser: maxPerUser, cache: map[[32]byte]cachedKey{}}
}

// Forget drops a key from the cache; hash is its hexadecimal SHA-256, and "" drops all.
func (k *Keys) Forget(hash string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgotten++
	if hash == "" {
		clear(k.cache)
		return
	}
	var h [32]byte
	if _, err := hex.Decode(h[:], []byte(hash)); err == nil {
		delete(k.cache, h)
	}
}

// Verify returns the principal of a key of the given type.
func (k *Keys) Verify(ctx context.Context, typ db.KeyType, key string) (*Principal, error) {
	if len(key) > 512 {
		return nil, ErrInvalidCredentials
	}
	owned, err := k.lookup(ctx, sha256.Sum256([]byte(key)))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	row := owned.APIKey
	switch {
	case row.Type != typ:
		return nil, ErrInvalidCredentials
	case row.RevokedAt != nil && !row.RevokedAt.After(now):
		return nil, ErrInvalidCredentials.Msgf("the key was revoked")
	case row.ExpiresAt != nil && !row.ExpiresAt.After(now):
		return nil, ErrInvalidCredentials.Msgf("the key has expired")
	case owned.UserDisabled:
		return nil, ErrInvalidCredentials.Msgf("the key's user is disabled")
	}
	if typ == db.KeyTypeService {
		return &Principal{Service: true, Admin: true, ID: row.ID, KeyID: row.ID, Role: "service_role"}, nil
	}
	return &Principal{ID: *row.UserID, KeyID: row.ID, Admin: owned.UserIsAdmin, Role: "authenticated", Scopes: row.Scopes}, nil
}

// lookup finds a key and what its user is at present.
func (k *Keys) lookup(ctx context.Context, hash [32]byte) (db.GetAPIKeyByHashRow, error) {
	var none db.GetAPIKeyByHashRow
	k.mu.Lock()
	c, ok := k.cache[hash]
	forgotten := k.forgotten
	k.mu.Unlock()
	if ok && time.Since(c.fetched) < keyCacheTTL {
		return c.owned, nil
	}
	// The time is taken before the query, so that a revocation between the two is not outlived.
	fetched := time.Now()
	q := db.New(k.pool)
	row, err := q.GetAPIKeyByHash(ctx, hash[:])
	if errors.Is(err, pgx.ErrNoRows) {
		return none, ErrInvalidCredentials
	}
	if err != nil {
		return none, fmt.Errorf("looking up a key: %w", err)
	}
	if err := q.TouchAPIKey(ctx, row.APIKey.ID); err != nil {
		return none, fmt.Errorf("noting a key's use: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.forgotten == forgotten {
		if len(k.cache) >= keyCacheSize {
			clear(k.cache)
		}
		k.cache[hash] = cachedKey{row, fetched}
	}
	return row, nil
}

// Configured reports whether a secret is the service key that EnsureServiceKey was given. It need not have the form of a
// key, so that it can be told from an access token by itself only; whether it is valid is for Verify.
func (k *Keys) Configured(secret string) bool {
	hash := k.configured.Load()
	return hash != nil && sha256.Sum256([]byte(secret)) == *hash
}

// CreateParams describe a key to make.
type CreateParams struct {
	Type      db.KeyType
	Name      string
	Scopes    []string
	UserID    *uuid.UUID // whom a client key acts as; nil is the caller
	ExpiresIn string     // as package duration reads it; "" is never
}

// Create makes a key and returns it with its row. The key cannot be had again.
func (k *Keys) Create(ctx context.Context, p *Principal, params CreateParams) (Key, string, error) {
	name := strings.TrimSpace(params.Name)
	if n := utf8.RuneCountInString(name); n < 1 || n > 100 {
		return Key{}, "", fault.Validation("name must be 1 to 100 characters")
	}
	if p.KeyID != uuid.Nil && !p.Service {
		return Key{}, "", ErrDenied.Msgf("a client key cannot make keys")
	}
	row := db.InsertAPIKeyParams{Type: params.Type, Name: name, Scopes: []string{}, CreatedBy: p.Actor()}
	prefix := ServiceKeyPrefix
	switch params.Type {
	case db.KeyTypeService:
		if !p.Admin {
			return Key{}, "", ErrDenied.Msgf("service keys are made by administrators and service keys")
		}
		if len(params.Scopes) > 0 || params.UserID != nil {
			return Key{}, "", fault.Validation("scopes and user_id are for client keys; a service key may do everything")
		}
	case db.KeyTypeClient:
		prefix = ClientKeyPrefix
		if len(params.Scopes) == 0 {
			return Key{}, "", fault.Validation("scopes must name at least one scope for a client key")
		}
		row.Scopes = params.Scopes
		row.UserID = params.UserID
		switch {
		case row.UserID == nil && p.Service:
			return Key{}, "", fault.Validation("user_id must say whom the client key acts as, since a service key is no user")
		case row.UserID == nil:
			row.UserID = &p.ID
		case *row.UserID != p.ID && !p.Admin:
			return Key{}, "", ErrDenied.Msgf("only administrators and service keys make keys for others")
		}
	default:
		return Key{}, "", fault.Validation("type must be service or client")
	}
	if params.ExpiresIn != "" {
		d, err := duration.Parse(params.ExpiresIn)
		if err != nil {
			return Key{}, "", fault.Validation("expires_in: %s", err)
		}
		at := time.Now().Add(d)
		row.ExpiresAt = &at
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails (crypto/rand)
	key := prefix + base64.RawURLEncoding.EncodeToString(secret)
	if row.UserID == nil {
		created, err := insertKey(ctx, db.New(k.pool), row, key)
		return created, key, err
	}
	var created Key
	err := pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) (err error) {
		q := db.New(tx)
		if err := k.admit(ctx, q, p, *row.UserID); err != nil {
			return err
		}
		created, err = insertKey(ctx, q, row, key)
		return err
	})
	if err != nil {
		return Key{}, "", err
	}
	return created, key, nil
}

// admit returns an error unless the caller may create one more client key for the user. It holds the user and the
// caller's session until the end of the transaction: a key is created before they end, and ends with them, or not at all.
func (k *Keys) admit(ctx context.Context, q *db.Queries, p *Principal, user uuid.UUID) error {
	switch u, err := q.ShareUser(ctx, user); {
	case errors.Is(err, pgx.ErrNoRows): // the users of another issuer have no account here
	case err != nil:
		return fmt.Errorf("reading a user: %w", err)
	case u.DisabledAt != nil && u.ID == p.ID:
		return ErrInvalidCredentials.Msgf("the account is disabled")
	}
	if p.SessionID != uuid.Nil {
		_, err := q.ShareSession(ctx, db.ShareSessionParams{ID: p.SessionID, UserID: p.ID})
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrInvalidCredentials.Msgf("the session has ended; sign in again")
		}
		if err != nil {
			return fmt.Errorf("reading a session: %w", err)
		}
	}
	if p.Unbound() {
		return nil
	}
	if err := q.LockUserKeys(ctx, user); err != nil {
		return fmt.Errorf("locking a user's keys: %w", err)
	}
	n, err := q.CountUsableUserKeys(ctx, user)
	if err != nil {
		return fmt.Errorf("counting keys: %w", err)
	}
	if n >= int64(k.maxPerUser) {
		return ErrMaxKeys.Msgf("a user may have %d client keys (auth.max_client_keys_per_user); you have %d", k.maxPerUser, n).
			WithHint("revoke one that is not needed any more")
	}
	return q.TrimUserKeys(ctx, db.TrimUserKeysParams{UserID: user, Kept: int32(k.maxPerUser)})
}

func insertKey(ctx context.Context, q *db.Queries, row db.InsertAPIKeyParams, key string) (Key, error) {
	hash := sha256.Sum256([]byte(key))
	row.ID = uuid.Must(uuid.NewV7())
	row.Hash = hash[:]
	row.Prefix = "…" // a key of another form may be one that someone knows by heart: no part of it is shown
	if strings.HasPrefix(key, ServiceKeyPrefix) || strings.HasPrefix(key, ClientKeyPrefix) {
		row.Prefix = key[:len(ServiceKeyPrefix)+4]
	}
	created, err := q.InsertAPIKey(ctx, row)
	if err != nil {
		return Key{}, fmt.Errorf("inserting a key: %w", err)
	}
	return created, nil
}

// EnsureServiceKey sees to it that there is a service key: the given one, or, where none is given and none works at
// present, a new one. It returns the key when it made one, else "".
func (k *Keys) EnsureServiceKey(ctx context.Context, given string) (made string, err error) {
	if given != "" {
		if err := CheckServiceKey(given); err != nil {
			return "", err
		}
		k.configured.Store(new(sha256.Sum256([]byte(given))))
		row := db.InsertAPIKeyParams{Type: db.KeyTypeService, Name: "from the environment", Scopes: []string{}}
		_, err = insertKey(ctx, db.New(k.pool), row, given)
		if errors.Is(err, pgx.ErrNoRows) { // known already; a revoked one stays revoked
			return "", nil
		}
		return "", err
	}
	// Several servers may start at once on an empty database: they take turns.
	err = pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended('bough.first_service_key', 0))"); err != nil {
			return err
		}
		has, err := db.New(tx).HasServiceKey(ctx)
		if err != nil || has {
			return err
		}
		_, made, err = k.Create(ctx, &Principal{Service: true, Admin: true}, CreateParams{Type: db.KeyTypeService, Name: "first key"})
		return err
	})
	return made, err
}

// CheckServiceKey returns an error unless the text is good enough for a service key: it has a key's form, or at least
// 32 characters.
func CheckServiceKey(key string) error {
	if rest, ok := strings.CutPrefix(key, ServiceKeyPrefix); ok {
		if b, err := base64.RawURLEncoding.DecodeString(rest); err == nil && len(b) == 32 {
			return nil
		}
	}
	if len(key) >= 32 && len(key) <= 512 && strings.TrimSpace(key) == key {
		return nil
	}
	return errors.New("a service key must have the form bough_sk_… or 32 to 512 characters")
}

// List returns the keys that the caller may see, newest first, and how many there are in all. A client key sees itself.
func (k *Keys) List(ctx context.Context, p *Principal, typ *db.KeyType, limit, offset int32) ([]Key, int64, error) {
	var user, only *uuid.UUID
	if !p.Unbound() {
		user = &p.ID
		if p.KeyID != uuid.Nil {
			only = &p.KeyID
		}
	}
	q := db.New(k.pool)
	keys, err := q.ListAPIKeys(ctx, db.ListAPIKeysParams{UserID: user, OnlyID: only, Type: typ, MaxRows: limit, SkipRows: offset})
	if err != nil {
		return nil, 0, fmt.Errorf("listing keys: %w", err)
	}
	total, err := q.CountAPIKeys(ctx, db.CountAPIKeysParams{UserID: user, OnlyID: only, Type: typ})
	return keys, total, err
}

// Revoke ends a key. Revoking it again changes nothing.
func (k *Keys) Revoke(ctx context.Context, p *Principal, id uuid.UUID) error {
	var user *uuid.UUID
	switch {
	case p.Unbound():
	case p.KeyID != uuid.Nil && p.KeyID != id:
		return ErrDenied.Msgf("a client key can revoke only itself")
	default:
		user = &p.ID
	}
	row, err := db.New(k.pool).RevokeAPIKey(ctx, db.RevokeAPIKeyParams{ID: id, UserID: user})
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrKeyNotFound
	}
	if err != nil {
		return fmt.Errorf("revoking a key: %w", err)
	}
	k.Forget(hex.EncodeToString(row.Hash))
	return nil
}
