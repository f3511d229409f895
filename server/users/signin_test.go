package users

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/boughdb/bough/server/password"
)

// Whether there is an account is not to be learnt from the time that a sign-in takes: what takes the time, hashing the
// password, is done for every address. A hasher that has no worker cannot do it for any.
func TestSignInAlwaysHashes(t *testing.T) {
	t.Parallel()
	pool := control(t)
	if _, err := pool.Exec(t.Context(), `insert into users (id, email, password_hash) values (gen_random_uuid(), 'ada@example.com', $1),
		(gen_random_uuid(), 'mail@example.com', null)`, "$argon2id$v=19$m=64,t=1,p=1$YWJjZGVmZ2g$YWJjZGVmZ2hhYmNkZWZnaA"); err != nil {
		t.Fatal(err)
	}
	for workers, want := range []error{password.ErrBusy, ErrInvalidLogin} {
		hasher := password.NewHasher(password.Params{MemoryKiB: 64, Iterations: 1, Parallelism: 1}, workers, 0)
		s := New(pool, nil, nil, hasher, nil, Config{}, slog.New(slog.DiscardHandler))
		for _, email := range []string{"ada@example.com", "mail@example.com", "nobody@example.com"} {
			if _, err := s.SignIn(t.Context(), email, "wrong horse battery", Client{IP: "192.0.2.7"}); !errors.Is(err, want) {
				t.Errorf("%s with %d workers: %v, want %v", email, workers, err, want)
			}
		}
	}
}
