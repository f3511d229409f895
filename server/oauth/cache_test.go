package oauth

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/server/auth"
)

// What was read before something was forgotten may be out of date, and is not remembered.
func TestCacheDoesNotRememberWhatWasForgottenMeanwhile(t *testing.T) {
	t.Parallel()
	now := time.Now()
	hash, other := tokenHash{1}, tokenHash{2}
	p := auth.Principal{GrantID: uuid.New()}
	for name, forget := range map[string]func(*tokenCache){
		"the grant": func(c *tokenCache) { c.forget(p.GrantID) },
		"the token": func(c *tokenCache) { c.forgetToken(hash) },
		"all":       func(c *tokenCache) { c.forgetAll() },
	} {
		var c tokenCache
		_, forgotten, ok := c.get(hash, now)
		if ok {
			t.Fatal("an empty cache knows a token")
		}
		forget(&c)
		c.put(hash, p, now.Add(time.Minute), forgotten)
		_, forgotten, ok = c.get(hash, now)
		if ok {
			t.Errorf("%s was forgotten and is remembered", name)
		}
		c.put(hash, p, now.Add(time.Minute), forgotten)
		c.put(other, auth.Principal{GrantID: uuid.New()}, now.Add(time.Minute), forgotten)
		if got, _, ok := c.get(hash, now); !ok || got.GrantID != p.GrantID {
			t.Errorf("%s: what was read afterwards is not remembered", name)
		}
		if _, _, ok := c.get(hash, now.Add(time.Minute)); ok {
			t.Errorf("%s: it is remembered beyond its time", name)
		}
		forget(&c)
		if _, _, ok := c.get(hash, now); ok {
			t.Errorf("%s is still remembered", name)
		}
		if _, _, ok := c.get(other, now); ok == (name == "all") {
			t.Errorf("%s: the other one is remembered: %v", name, ok)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	var c tokenCache
	for i := range 3 * cacheSize {
		c.put(tokenHash{byte(i), byte(i >> 8), byte(i >> 16)}, auth.Principal{}, time.Now().Add(time.Minute), 0)
	}
	if n := len(c.entries); n == 0 || n > cacheSize {
		t.Errorf("%d tokens are remembered", n)
	}
}
