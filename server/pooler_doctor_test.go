package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/servertest"
)

func TestDoctorKnowsPoolers(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	pooled := map[string]string{"session": pgtest.Bouncer(t, s.Main, "session", 20), "transaction": pgtest.Bouncer(t, s.Main, "transaction", 4)}
	for _, c := range []struct{ mode, direct, control, want string }{
		{"", "", s.Control, "ok reached directly"},
		{"session", "", s.Control, "ok through a pooler in session mode"},
		{"transaction", s.Main, s.Control, "ok through a pooler in transaction mode"},
		{"transaction", s.Main, "", "ok through a pooler in transaction mode"},
		{"transaction", "", s.Control, "warn no way around the pooler"},
		{"transaction", "", "", "fail control database: the connection goes through a pooler in transaction mode"},
		{"transaction", s.Main, pooled["transaction"], "fail control database: the connection goes through a pooler in transaction mode"},
	} {
		cfg := servertest.Config(t, s.Main, c.control, func(cfg *server.Config) {
			if c.mode != "" {
				cfg.DatabaseURL = pooled[c.mode]
			}
			cfg.DatabaseDirectURL = c.direct
		})
		var got strings.Builder
		for _, f := range server.Diagnose(t.Context(), cfg) {
			fmt.Fprintln(&got, f.Level, f.Text)
		}
		level, text, _ := strings.Cut(c.want, " ")
		if found := strings.Contains(got.String(), text); !found || !strings.Contains(got.String(), level+" ") {
			t.Errorf("%+v: want %s; got\n%s", c, c.want, &got)
		}
		if failed := strings.Contains(got.String(), "fail "); failed != (level == "fail") {
			t.Errorf("%+v: got\n%s", c, &got)
		}
	}
}

// The control database cannot do without sessions of its own, which is said at once.
func TestServerRefusesASharedControlDatabase(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	cfg := servertest.Config(t, s.Main, pgtest.Bouncer(t, s.Control, "transaction", 4))
	_, err := server.Open(t.Context(), cfg, nil)
	if err == nil || !strings.Contains(err.Error(), "control-database-url") {
		t.Errorf("got %v", err)
	}
}
