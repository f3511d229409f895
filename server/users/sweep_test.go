package users

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// control connects to a new control database.
func control(t *testing.T) *pgxpool.Pool {
	t.Helper()
	url := pgtest.Template(t, "control", func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		return postgres.Migrate(ctx, pool)
	})
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Tables that every attempt writes to do not grow for ever.
func TestSweep(t *testing.T) {
	t.Parallel()
	pool := control(t)
	s := &Service{pool: pool, cfg: Config{RefreshLifetime: 30 * 24 * time.Hour}}
	_, err := pool.Exec(t.Context(), `
		insert into users (id, email) values (gen_random_uuid(), 'ada@example.com');
		insert into sessions (id, user_id, method, ip, network, user_agent, expires_at, ended_at)
			select gen_random_uuid(), u.id, 'password', '', '', '', now() + e, now() + x
			from users u, (values ('1 day'::interval, null::interval), ('-29 days', null), ('-31 days', null), ('1 day', '-31 days'), ('1 day', '-1 day')) v(e, x);
		insert into refresh_tokens (hash, session_id, used_at)
			select decode(md5(s.id::text || coalesce(d::text, '')), 'hex'), s.id, now() + d from sessions s, (values ('-1 day'::interval), ('-31 days'), (null)) v(d)
			where s.ended_at is null and s.expires_at > now();
		insert into mail_tokens (id, purpose, email, expires_at) values
			(gen_random_uuid(), 'magic_link', 'x', now()), (gen_random_uuid(), 'magic_link', 'x', now() - interval '2 days');
		insert into rate_limits values ('a', now() + interval '1 minute'), ('b', now() - interval '1 minute');
		insert into revocations values (gen_random_uuid(), now() + interval '1 minute'), (gen_random_uuid(), now() - interval '2 minutes')`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for table, want := range map[string]int{"sessions": 3, "refresh_tokens": 2, "mail_tokens": 1, "rate_limits": 1, "revocations": 1} {
		var got int
		if err := pool.QueryRow(t.Context(), "select count(*) from "+table).Scan(&got); err != nil || got != want {
			t.Errorf("%s has %d rows after the sweep, want %d (%v)", table, got, want, err)
		}
	}
}
