// Package password hashes and checks passwords. It bounds how many are hashed at a time, so that a flood of sign-ins
// cannot take the memory of the machine, and it knows which passwords are too common to be of use.
package password

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/text/unicode/norm"

	"github.com/boughdb/bough/server/fault"
)

// Params are the cost of a hash (RFC 9106).
type Params struct {
	MemoryKiB   uint32
	Iterations  uint32
	Parallelism uint8
}

const (
	saltLength = 16
	keyLength  = 32
)

// ErrBusy is the error when more passwords wait to be hashed than may.
var ErrBusy = fault.New(fault.Unavailable, "unavailable", "too many sign-ins at once").Retry(2 * time.Second)

// Hasher hashes with argon2id.
type Hasher struct {
	params Params
	slots  chan struct{} // taken while hashing
	queue  chan struct{} // taken while hashing or waiting for it
	dummy  string
}

// NewHasher returns a hasher that hashes as many passwords at a time as workers says; so many more may wait as queue says.
func NewHasher(params Params, workers, queue int) *Hasher {
	h := &Hasher{params: params, slots: make(chan struct{}, workers), queue: make(chan struct{}, workers+queue)}
	salt := make([]byte, saltLength)
	_, _ = rand.Read(salt) // never fails (crypto/rand)
	h.dummy = encode(params, salt, make([]byte, keyLength))
	return h
}

// Hash returns the hash of a password as a PHC string.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltLength)
	_, _ = rand.Read(salt) // never fails (crypto/rand)
	key, err := h.derive(ctx, password, salt, h.params, keyLength)
	if err != nil {
		return "", err
	}
	return encode(h.params, salt, key), nil
}

// Verify reports whether the password is the one that was hashed, and whether the hash was made with other parameters
// than new ones are. An empty hash is no password's, and finding that out takes as long. Hashes by bcrypt, which other
// systems keep, are verified too, and are always outdated.
func (h *Hasher) Verify(ctx context.Context, password, hash string) (ok, outdated bool, err error) {
	if strings.HasPrefix(hash, "$2") {
		return h.verifyBcrypt(ctx, password, hash)
	}
	none := hash == ""
	if none {
		hash = h.dummy
	}
	params, salt, want, err := decode(hash)
	if err != nil {
		return false, false, err
	}
	got, err := h.derive(ctx, password, salt, params, len(want))
	if err != nil {
		return false, false, err
	}
	ok = subtle.ConstantTimeCompare(got, want) == 1 && !none
	return ok, params != h.params, nil
}

// Costs of a bcrypt hash that a sign-in may take: 15 is some seconds.
const maxBcryptCost = 15

func (h *Hasher) verifyBcrypt(ctx context.Context, password, hash string) (ok, outdated bool, err error) {
	if cost, err := bcrypt.Cost([]byte(hash)); err != nil || cost > maxBcryptCost {
		return false, false, errForm
	}
	leave, err := h.enter(ctx)
	if err != nil {
		return false, false, err
	}
	defer leave()
	// What made the hash knew no normal form: the password is taken as it was typed.
	return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil, true, nil
}

// enter waits for its turn to hash; leave ends it.
func (h *Hasher) enter(ctx context.Context) (leave func(), err error) {
	select {
	case h.queue <- struct{}{}:
	default:
		return nil, ErrBusy
	}
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots; <-h.queue }, nil
	case <-ctx.Done():
		<-h.queue
		return nil, ctx.Err()
	}
}

func (h *Hasher) derive(ctx context.Context, password string, salt []byte, p Params, length int) ([]byte, error) {
	leave, err := h.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	// The same characters can be written in several ways, and keyboards differ in which they send.
	return argon2.IDKey([]byte(norm.NFC.String(password)), salt, p.Iterations, p.MemoryKiB, p.Parallelism, uint32(length)), nil
}

func encode(p Params, salt, key []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, p.MemoryKiB, p.Iterations, p.Parallelism,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key))
}

var errForm = errors.New("a stored password hash cannot be read")

// Stored hashes are trusted, but not so far that one could take all memory or stop the process.
const maxMemoryKiB = 4 << 20

func decode(hash string) (p Params, salt, key []byte, err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != "v="+strconv.Itoa(argon2.Version) {
		return p, nil, nil, errForm
	}
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.MemoryKiB, &p.Iterations, &p.Parallelism); n != 3 || err != nil {
		return p, nil, nil, errForm
	}
	if p.MemoryKiB > maxMemoryKiB || p.Iterations < 1 || p.Iterations > 100 || p.Parallelism < 1 {
		return p, nil, nil, errForm
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	key, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(salt) < 8 || len(key) < 16 || len(key) > 128 {
		return p, nil, nil, errForm
	}
	return p, salt, key, nil
}
