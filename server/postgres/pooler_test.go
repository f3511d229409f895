package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

func TestFindPooler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode     string // of PgBouncer; "" for none
		sessions int
		setting  postgres.PoolMode
		want     postgres.Pooler
	}{
		"none":                 {"", 0, postgres.PoolAuto, postgres.Pooler{Mode: postgres.PoolSession}},
		"session":              {"session", 4, postgres.PoolAuto, postgres.Pooler{Present: true, Mode: postgres.PoolSession}},
		"transaction":          {"transaction", 4, postgres.PoolAuto, postgres.Pooler{Present: true, Mode: postgres.PoolTransaction}},
		"one session for all":  {"transaction", 1, postgres.PoolAuto, postgres.Pooler{Present: true, Mode: postgres.PoolTransaction}},
		"configured":           {"session", 4, postgres.PoolTransaction, postgres.Pooler{Present: true, Mode: postgres.PoolTransaction}},
		"configured otherwise": {"transaction", 4, postgres.PoolSession, postgres.Pooler{Present: true, Mode: postgres.PoolSession}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Database(t)
			if c.mode != "" {
				url = pgtest.Bouncer(t, url, c.mode, c.sessions)
			}
			cfg, err := pgx.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			got, err := postgres.FindPooler(t.Context(), cfg, c.setting)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestControlDatabaseNeedsSessions(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	if err := postgres.CheckControl(t.Context(), pgtest.Bouncer(t, url, "session", 4)); err != nil {
		t.Error(err)
	}
	if err := postgres.CheckControl(t.Context(), pgtest.Bouncer(t, url, "transaction", 4)); err == nil {
		t.Error("sessions that are shared are good enough")
	}
}
