package branching_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/branching"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// noEngine has a main and nothing to make branches with.
type noEngine struct{ branching.Engine }

func (noEngine) Main() string { return "main" }

// control is a control database with services on it.
type control struct {
	url  string
	pool *pgxpool.Pool
}

func newControl(t *testing.T) *control {
	t.Helper()
	c := &control{url: pgtest.Template(t, "control", func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		return postgres.Migrate(ctx, pool)
	})}
	pool, err := pgxpool.New(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	c.pool = pool
	return c
}

func (c *control) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := c.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// service returns a service that hears the control database's notifications if told to, as the server's do.
func (c *control) service(t testing.TB, listens bool) *branching.Service {
	t.Helper()
	s, err := branching.New(t.Context(), c.pool, noEngine{}, branching.Config{Enabled: true, MaxBranches: 50, MaxPerUser: 10}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if !listens {
		return s
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan struct{}, 1), make(chan struct{})
	l := &postgres.Listener{
		Log:      slog.New(slog.DiscardHandler),
		Connect:  func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, c.url) },
		Handlers: map[string]func(string){branching.Channel: func(payload string) { s.Notified(payload) }},
		Reset:    func() { s.Notified(""); ready <- struct{}{} },
	}
	go func() { l.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done })
	<-ready
	return s
}

// branch records a branch that is ready and returns its id.
func (c *control) branch(t testing.TB, slug string, creator uuid.UUID) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	c.exec(t, `insert into branches (id, name, slug, database_name, status, type, data_clone_mode, created_by)
		values ($1, $2, $2, 'branch_' || $2, 'ready', 'preview', 'schema_only', $3)`, id, slug, creator.String())
	return id
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

var admin = &auth.Principal{Service: true, Admin: true, ID: uuid.New()}

func TestRouteDecidesWhoGoesWhere(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	s := c.service(t, false)
	user := func() *auth.Principal { return &auth.Principal{ID: uuid.New(), Role: auth.RoleAuthenticated} }
	creator, reader, writer, stranger, nobody := user(), user(), user(), user(), &auth.Principal{Role: auth.RoleAnon}
	id := c.branch(t, "demo", creator.ID)
	for p, level := range map[*auth.Principal]string{reader: "read", writer: "write"} {
		c.exec(t, "insert into branch_access (branch_id, user_id, level, granted_by) values ($1, $2, $3::text::access_level, '')", id, p.ID, level)
	}
	main, err := s.Find(t.Context(), admin, "main", "read")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		p        *auth.Principal
		ref      string
		write    bool
		database string
		err      error
	}{
		"main, unsaid":            {nobody, "", true, "main", nil},
		"main, by name":           {stranger, "main", true, "main", nil},
		"main, by id":             {stranger, main.ID.String(), true, "main", nil},
		"administrator":           {admin, "demo", true, "branch_demo", nil},
		"by id":                   {admin, id.String(), true, "branch_demo", nil},
		"by id in capitals":       {admin, strings.ToUpper(id.String()), false, "branch_demo", nil},
		"creator writes":          {creator, "demo", true, "branch_demo", nil},
		"reader reads":            {reader, "demo", false, "branch_demo", nil},
		"reader writes":           {reader, "demo", true, "", auth.ErrDenied},
		"writer writes":           {writer, "demo", true, "branch_demo", nil},
		"stranger":                {stranger, "demo", false, "", branching.ErrNotFound},
		"anonymous":               {nobody, "demo", false, "", branching.ErrNotFound},
		"unknown":                 {admin, "nothing", false, "", branching.ErrNotFound},
		"unknown id":              {admin, uuid.NewString(), false, "", branching.ErrNotFound},
		"too long":                {admin, strings.Repeat("x", 64), false, "", branching.ErrNotFound},
		"not text of the server":  {admin, "a\x00b", false, "", branching.ErrNotFound},
		"not UTF-8":               {admin, "a\xff", false, "", branching.ErrNotFound},
		"another case is another": {admin, "Demo", false, "", branching.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the second time from memory
				got, err := s.Route(t.Context(), tc.p, tc.ref, tc.write)
				if !errors.Is(err, tc.err) || got.Database != tc.database {
					t.Errorf("database %q, error %v", got.Database, err)
				}
				if err == nil && (got.Main != (tc.database == "main") || got.BranchID == uuid.Nil || got.Slug == "") {
					t.Errorf("route %+v", got)
				}
			}
		})
	}
}

func TestRouteToABranchThatIsNotReady(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	s := c.service(t, false)
	id := c.branch(t, "demo", admin.ID)
	for status, again := range map[string]bool{"creating": true, "resetting": true, "error": false} {
		c.exec(t, "update branches set status = $2::text::branch_status where id = $1", id, status)
		s.ForgetRoute(id)
		_, err := s.Route(t.Context(), admin, "demo", false)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Unavailable || f.Code != "branch_not_ready" || (f.RetryAfter > 0) != again {
			t.Errorf("%s: %#v", status, err)
		}
		// One who may not see the branch does not learn that it is there.
		if _, err := s.Route(t.Context(), &auth.Principal{ID: uuid.New()}, "demo", false); !errors.Is(err, branching.ErrNotFound) {
			t.Errorf("%s, a stranger: %v", status, err)
		}
	}
	c.exec(t, "update branches set status = 'deleting' where id = $1", id)
	s.ForgetRoute(id)
	if _, err := s.Route(t.Context(), admin, "demo", false); !errors.Is(err, branching.ErrNotFound) {
		t.Errorf("by the slug, which is free again: %v", err)
	}
	if _, err := s.Route(t.Context(), admin, id.String(), false); !errors.Is(err, branching.ErrNotReady) {
		t.Errorf("by id: %v", err)
	}
}

// What one process changes, another that remembers it forgets at once. Nobody listens to the third one.
func TestRoutesAreForgottenWhenBranchesChange(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	mine, other, deaf := c.service(t, true), c.service(t, true), c.service(t, false)
	user := &auth.Principal{ID: uuid.New(), Role: auth.RoleAuthenticated}
	route := func(s *branching.Service, p *auth.Principal, write bool) error {
		_, err := s.Route(t.Context(), p, "demo", write)
		return err
	}
	all := []*branching.Service{mine, other, deaf}
	for _, s := range all {
		if err := route(s, admin, false); !errors.Is(err, branching.ErrNotFound) {
			t.Errorf("before the branch is there: %v", err)
		}
	}
	// Without a notification, where a branch is and what is granted would be trusted for longer than eventually waits.
	becomes := func(what string, want error, p *auth.Principal, write bool, listeners ...*branching.Service) {
		t.Helper()
		for _, s := range listeners {
			eventually(t, what, func() bool { err := route(s, p, write); return errors.Is(err, want) || want == nil && err == nil })
		}
	}
	id := c.branch(t, "demo", uuid.New())
	becomes("the new branch is found", nil, admin, true, mine, other)
	becomes("it is hidden from others", branching.ErrNotFound, user, false, mine, other)
	if err := route(deaf, admin, false); !errors.Is(err, branching.ErrNotFound) {
		t.Errorf("who does not listen remembers nothing: %v", err)
	}
	if _, err := mine.Grant(t.Context(), admin, "demo", user.ID, "read"); err != nil {
		t.Fatal(err)
	}
	if err := route(mine, user, false); err != nil {
		t.Errorf("in the process that granted it: %v", err)
	}
	becomes("a grant holds", nil, user, false, other)
	becomes("reading is not writing", auth.ErrDenied, user, true, mine, other)
	if _, err := other.Grant(t.Context(), admin, "demo", user.ID, "write"); err != nil {
		t.Fatal(err)
	}
	becomes("more is granted", nil, user, true, mine, other)
	if err := other.Revoke(t.Context(), admin, "demo", user.ID); err != nil {
		t.Fatal(err)
	}
	if err := route(other, user, false); !errors.Is(err, branching.ErrNotFound) {
		t.Errorf("in the process that revoked it: %v", err)
	}
	becomes("a revocation holds", branching.ErrNotFound, user, false, mine)
	deaf.ForgetRoute(uuid.Nil)
	if err := route(deaf, admin, false); err != nil {
		t.Fatal(err)
	}
	for _, status := range []string{"resetting", "ready", "deleting"} {
		c.exec(t, "update branches set status = $2::text::branch_status where id = $1", id, status)
		want := map[string]error{"resetting": branching.ErrNotReady, "deleting": branching.ErrNotFound}[status]
		becomes("the branch is "+status, want, admin, false, mine, other)
	}
	if err := route(deaf, admin, false); err != nil {
		t.Errorf("who does not listen remembers the branch: %v", err)
	}
}

// What happens to a branch while it works, once a second, is told to nobody.
func TestOnlyWhatMattersIsNotified(t *testing.T) {
	t.Parallel()
	c := newControl(t)
	id := c.branch(t, "demo", admin.ID)
	conn, err := pgx.Connect(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "listen "+branching.Channel); err != nil {
		t.Fatal(err)
	}
	user := uuid.New()
	for _, tc := range []struct{ sql, want string }{
		{"update branches set lease_until = now(), phase = 'cloning', updated_at = now(), expires_at = now(), status = status where id = $1", ""},
		{"update branches set generation = generation + 1 where id = $1", id.String() + " branch_demo"},
		{"update branches set status = 'error' where id = $1", id.String() + " branch_demo"},
		{"insert into branch_access (branch_id, user_id, level, granted_by) values ($1, '" + user.String() + "', 'read', '')", id.String()},
		{"delete from branch_access where branch_id = $1", id.String()},
	} {
		c.exec(t, tc.sql, id)
		if _, err := conn.Exec(t.Context(), "select pg_notify($1, 'end')", branching.Channel); err != nil {
			t.Fatal(err)
		}
		var told []string
		for {
			n, err := conn.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload == "end" {
				break
			}
			told = append(told, n.Payload)
		}
		if got := strings.Join(told, "; "); got != tc.want {
			t.Errorf("%s: told %q, want %q", tc.sql, got, tc.want)
		}
	}
	s := c.service(t, false)
	if got := s.Notified(id.String() + " branch_demo"); got != "branch_demo" {
		t.Errorf("the database is %q", got)
	}
}

func TestRouteFromMemoryAllocatesNothing(t *testing.T) {
	c := newControl(t)
	s := c.service(t, false)
	user := &auth.Principal{ID: uuid.New(), Role: auth.RoleAuthenticated}
	c.branch(t, "demo", user.ID)
	for _, ref := range []string{"", "demo"} {
		route := func() {
			if _, err := s.Route(t.Context(), user, ref, true); err != nil {
				t.Fatal(err)
			}
		}
		route()
		if n := testing.AllocsPerRun(100, route); n > 0 {
			t.Errorf("route to %q: %v allocations", ref, n)
		}
	}
}
