package oauth

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/server/auth"
)

// How long a token that was verified is trusted. Its end is told at once by notification; this bounds what a lost
// notification can do.
const cacheTTL = 30 * time.Second

const cacheSize = 10_000

type tokenHash [sha256.Size]byte

// tokenCache remembers the principals of access tokens that were verified a moment ago. The zero value is empty.
type tokenCache struct {
	mu      sync.Mutex
	entries map[tokenHash]cached
	// forgotten counts what was forgotten, so that what was read before that is not remembered afterwards.
	forgotten uint64
}

type cached struct {
	principal auth.Principal
	until     time.Time
}

// get returns the principal of a token, and otherwise what put must be called with.
func (c *tokenCache) get(hash tokenHash, now time.Time) (p auth.Principal, forgotten uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.entries[hash]
	if !ok || !now.Before(found.until) {
		return p, c.forgotten, false
	}
	return found.principal, c.forgotten, true
}

// put remembers a principal, unless something was forgotten since it was asked for.
func (c *tokenCache) put(hash tokenHash, p auth.Principal, until time.Time, forgotten uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forgotten != forgotten {
		return
	}
	if c.entries == nil || len(c.entries) >= cacheSize {
		c.entries = map[tokenHash]cached{}
	}
	c.entries[hash] = cached{p, until}
}

// forget drops what belongs to a grant.
func (c *tokenCache) forget(grant uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten++
	for hash, entry := range c.entries {
		if entry.principal.GrantID == grant {
			delete(c.entries, hash)
		}
	}
}

// forgetToken drops one token.
func (c *tokenCache) forgetToken(hash tokenHash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten++
	delete(c.entries, hash)
}

// forgetAll drops all.
func (c *tokenCache) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgotten++
	c.entries = nil
}

// Notified takes a notification on Channel. "" stands for whatever may have been missed.
func (s *Service) Notified(payload string) {
	var hash tokenHash
	grant, err := uuid.Parse(payload)
	switch {
	case err == nil && len(payload) == 36:
		s.cache.forget(grant)
	case len(payload) == hex.EncodedLen(len(hash)):
		if _, err := hex.Decode(hash[:], []byte(payload)); err == nil {
			s.cache.forgetToken(hash)
		}
	case payload == "":
		s.cache.forgetAll()
	}
}
