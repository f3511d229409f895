package audit_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/audit"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func newLog(t *testing.T) (*audit.Log, *pgxpool.Pool) {
	t.Helper()
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
	return audit.New(pool), pool
}

// What a caller did is listed with who she is, newest first, to administrators alone.
func TestRecordAndList(t *testing.T) {
	t.Parallel()
	log, _ := newLog(t)
	user := &auth.Principal{ID: uuid.New(), Role: auth.RoleAuthenticated, Scopes: []string{auth.ReadTables}, ClientID: "mcp_x", GrantID: uuid.New()}
	service := &auth.Principal{Service: true, Admin: true, ID: uuid.New()}
	service.KeyID = service.ID
	for _, a := range []audit.Action{
		{Area: audit.MCP, Name: "query_table", Outcome: audit.OK, Principal: user, Branch: "demo", DurationMs: 1.5, Details: map[string]any{"code": "x"}},
		{Area: audit.MCP, Name: "delete_records", Outcome: audit.Denied, Principal: service},
		{Area: audit.OAuth, Name: "grant", Outcome: audit.OK, Principal: user},
	} {
		if err := log.Record(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	entries, total, err := log.List(t.Context(), service, audit.Filter{Area: audit.MCP}, 10, 0)
	if err != nil || total != 2 || len(entries) != 2 {
		t.Fatalf("%d of %d entries, %v", len(entries), total, err)
	}
	byKey, byUser := entries[0], entries[1]
	if byKey.Action != "delete_records" || byKey.KeyID == nil || *byKey.KeyID != service.ID || byKey.UserID != nil || byKey.Outcome != audit.Denied {
		t.Errorf("the service key's entry: %+v", byKey)
	}
	if byUser.Action != "query_table" || *byUser.UserID != user.ID || *byUser.ClientID != "mcp_x" || *byUser.Branch != "demo" || *byUser.DurationMs != 1.5 || string(byUser.Details) != `{"code": "x"}` {
		t.Errorf("the user's entry: %+v", byUser)
	}
	if _, total, err = log.List(t.Context(), service, audit.Filter{UserID: &user.ID, Action: "grant", ClientID: "mcp_x"}, 1, 0); err != nil || total != 1 {
		t.Errorf("filtered: %d, %v", total, err)
	}
	for _, p := range []*auth.Principal{user, {ID: uuid.New()}, {ID: uuid.New(), Admin: true, Scopes: []string{auth.ReadSchema}}} {
		if _, _, err := log.List(t.Context(), p, audit.Filter{}, 10, 0); err == nil {
			t.Errorf("%+v may read the log", p)
		}
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	log, pool := newLog(t)
	_, err := pool.Exec(t.Context(), `insert into audit_log (area, action, outcome, at)
		select 'oauth', d || ' days', 'ok', now() - make_interval(days => d) from unnest(array[0, 89, 91]) d`)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := pool.QueryRow(t.Context(), "select count(*) from audit_log").Scan(&left); err != nil || left != 2 {
		t.Errorf("%d entries are left, %v", left, err)
	}
}
