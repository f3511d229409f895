package password_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/password"
)

// cheap parameters, for tests that are not about the cost.
var cheap = password.Params{MemoryKiB: 64, Iterations: 1, Parallelism: 1}

func TestVerify(t *testing.T) {
	t.Parallel()
	h := password.NewHasher(cheap, 2, 10)
	hash, err := h.Hash(t.Context(), "caf\u00e9 au lait")
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Hash(t.Context(), "caf\u00e9 au lait")
	if err != nil || again == hash {
		t.Errorf("two hashes of one password are the same (%v)", err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=64,t=1,p=1$") {
		t.Errorf("hash %s", hash)
	}
	for _, tc := range []struct {
		name, password, hash string
		want                 bool
	}{
		{"right", "caf\u00e9 au lait", hash, true},
		{"another way to write it", "cafe\u0301 au lait", hash, true},
		{"wrong", "cafe au lait", hash, false},
		{"empty", "", hash, false},
		{"no hash", "caf\u00e9 au lait", "", false},
		{"no hash and no password", "", "", false},
	} {
		ok, outdated, err := h.Verify(t.Context(), tc.password, tc.hash)
		if err != nil || ok != tc.want || outdated {
			t.Errorf("%s: %v, outdated %v, %v", tc.name, ok, outdated, err)
		}
	}
	dearer := password.NewHasher(password.Params{MemoryKiB: 128, Iterations: 1, Parallelism: 1}, 1, 1)
	if ok, outdated, err := dearer.Verify(t.Context(), "caf\u00e9 au lait", hash); !ok || !outdated || err != nil {
		t.Errorf("a hash with other parameters: %v, outdated %v, %v", ok, outdated, err)
	}
	for _, bad := range []string{"x", "$argon2i$v=19$m=64,t=1,p=1$YWJjZGVmZ2g$YWJjZGVmZ2hhYmNkZWZnaA", "$argon2id$v=19$m=99999999,t=1,p=1$YWJjZGVmZ2g$YWJjZGVmZ2hhYmNkZWZnaA",
		"$argon2id$v=19$m=64,t=0,p=1$YWJjZGVmZ2g$YWJjZGVmZ2hhYmNkZWZnaA", "$argon2id$v=19$m=64,t=1,p=0$YWJjZGVmZ2g$YWJjZGVmZ2hhYmNkZWZnaA", hash[:len(hash)-30]} {
		if _, _, err := h.Verify(t.Context(), "x", bad); err == nil {
			t.Errorf("%s is taken for a hash", bad)
		}
	}
}

func TestFloodIsRefused(t *testing.T) {
	t.Parallel()
	h := password.NewHasher(password.Params{MemoryKiB: 19456, Iterations: 2, Parallelism: 1}, 1, 3)
	var wg sync.WaitGroup
	var mu sync.Mutex
	refused, hashed := 0, 0
	for range 30 {
		wg.Go(func() {
			_, err := h.Hash(t.Context(), "some password")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, password.ErrBusy):
				refused++
			case err == nil:
				hashed++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if hashed < 4 || refused == 0 {
		t.Errorf("%d hashed, %d refused", hashed, refused)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Hash(ctx, "after"); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("after the flood: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ password, why string }{
		{"correct horse battery", ""},
		{"xkz9!mvw", ""},
		{"Über die Brücke", ""},
		{"日本語のパスワード長", ""},
		{strings.Repeat("ab cd ef", 16), ""},
		{"short1!", "at least 8"},
		{strings.Repeat("xy z1", 26), "at most 128"},
		{strings.Repeat("é è ", 32), ""},
		{strings.Repeat("é è ", 33), "at most 128"},
		{"password", "common"},
		{"Password1", "common"},
		{"P@ssw0rd!", "common"},
		{"12345678", "common"},
		{"!!Summer2024!!", "common"},
		{"qwertyuiop", "common"},
		{"iloveyou", "common"},
		{"Michelle99", "common"},
		{"aaaaaaaaaa", "repetition"},
		{"abcabcabcabc", "repetition"},
		{"ghijklmnop", "sequence"},
		{"1qaz2wsx3edc", "sequence"},
		{"lovelace1815", "address"},
		{"lovelace@example.com", "address"},
		{"example2024", "common"},
		{"nul\x00 in the middle", "typed"},
	} {
		err := password.Check(tc.password, "Lovelace@example.com", 8)
		if tc.why == "" {
			if err != nil {
				t.Errorf("%q: %v", tc.password, err)
			}
			continue
		}
		if !errors.Is(err, password.ErrWeak) || !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%q: %v, want %q", tc.password, err, tc.why)
		}
	}
}

// All that is wrong is named, the first in words.
func TestReasons(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		"abc": {"length", "sequence"}, "12345678": {"common", "sequence"}, "a\x00a": {"length", "characters"}, "lovelace1": {"email"},
	} {
		var f *fault.Error
		if err := password.Check(in, "lovelace@example.com", 8); !errors.As(err, &f) {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if diff := cmp.Diff(want, f.Reasons); diff != "" {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
}

// Hashes that other systems keep are taken over.
func TestBcrypt(t *testing.T) {
	t.Parallel()
	h := password.NewHasher(cheap, 2, 10)
	hash, err := bcrypt.GenerateFromPassword([]byte("correct horse battery"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]bool{"correct horse battery": true, "wrong horse battery": false, "": false} {
		ok, outdated, err := h.Verify(t.Context(), in, string(hash))
		if err != nil || ok != want || !outdated {
			t.Errorf("%q: %v, outdated %v, %v", in, ok, outdated, err)
		}
	}
	for _, bad := range []string{"$2", "$2a$31$" + string(hash[7:]), "$2x"} {
		if _, _, err := h.Verify(t.Context(), "x", bad); err == nil {
			t.Errorf("%s is taken for a hash", bad)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	h := password.NewHasher(password.Params{MemoryKiB: 19456, Iterations: 2, Parallelism: 1}, 1, 1)
	for b.Loop() {
		if _, err := h.Hash(b.Context(), "correct horse battery"); err != nil {
			b.Fatal(err)
		}
	}
}
