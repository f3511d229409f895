package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/ratelimit"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A limit gives the burst and then one for each interval, whoever comes and in how many processes.
func TestLimitUnderLoad(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), pgtest.Template(t, "control", func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		return postgres.Migrate(ctx, pool)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l := ratelimit.New(pool, true)
	limit := ratelimit.Limit{Name: "test", Burst: 5, Every: time.Minute}
	allowed := make(chan bool, 40)
	for range 40 {
		go func() { allowed <- l.Take(t.Context(), limit, "x") == nil }()
	}
	n := 0
	for range 40 {
		if <-allowed {
			n++
		}
	}
	if n != 5 {
		t.Errorf("%d of 40 were let through, want 5", n)
	}
	if err := l.Take(t.Context(), limit, "y"); err != nil {
		t.Errorf("another key: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "update rate_limits set tat = tat - interval '1 minute'"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if err := l.Take(t.Context(), limit, "x"); (err == nil) != want {
			t.Errorf("try %d a minute later: %v", i, err)
		}
	}
}
