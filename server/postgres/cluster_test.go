package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// label makes a database whose table says which one it is.
func (f *fixture) label(t *testing.T, database string) string {
	t.Helper()
	execute(t, f.in("postgres"), "create database "+quote(database)+" template template0 strategy file_copy")
	execute(t, f.in(database), "create table label as select '"+database+"' as name")
	return database
}

func (f *fixture) labelOf(t *testing.T, database string) string {
	t.Helper()
	return query[string](t, f.in(database), "select name from label")
}

func TestSwapUnderOpenSessions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	current, fresh := f.label(t, f.target(t, "current")), f.label(t, f.target(t, "fresh"))
	old := f.target(t, "old")
	inCurrent, inFresh := connect(t, f.in(current)), connect(t, f.in(fresh))
	touch(t, f.Pools, current)
	touch(t, f.Pools, fresh)
	busy := acquire(t, f.Pools, current) // will not be done in time
	defer busy.Release()

	// Requests that come meanwhile wait or get through; none gets to the wrong database.
	errs := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		c, err := f.Pools.Acquire(context.Background(), current)
		if err == nil {
			var name string
			err = c.QueryRow(context.Background(), "select name from label").Scan(&name)
			c.Release()
		}
		errs <- err
	}()
	if err := f.Swap(t.Context(), current, fresh, old, "op"); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-errs; err != nil {
		t.Errorf("a request after the swap: %v", err)
	}
	if inCurrent.Ping(t.Context()) == nil || inFresh.Ping(t.Context()) == nil {
		t.Error("a session outlived the swap of its database")
	}
	if f.exists(t, fresh) {
		t.Error("fresh has kept its name")
	}
	got := []string{f.labelOf(t, current), f.labelOf(t, old)}
	if diff := cmp.Diff([]string{fresh, current}, got); diff != "" {
		t.Errorf("what is in current and old (-want +got):\n%s", diff)
	}
}

// A held-back request of this process meets the new database, without an error.
func TestRequestsWaitForASwap(t *testing.T) {
	t.Parallel()
	f := setup(t)
	current, fresh := f.label(t, f.target(t, "current")), f.label(t, f.target(t, "fresh"))
	ctx, stop := context.WithCancel(t.Context())
	finished := make(chan []string, 1)
	go func() {
		var seen []string
		for last := false; !last; {
			last = ctx.Err() != nil
			c, err := f.Pools.Acquire(context.Background(), current)
			if err != nil {
				t.Errorf("acquiring: %v", err)
				continue
			}
			var name string
			if err := c.QueryRow(context.Background(), "select name from label").Scan(&name); err != nil {
				t.Errorf("reading: %v", err)
			}
			c.Release()
			if !slices.Contains(seen, name) {
				seen = append(seen, name)
			}
		}
		finished <- seen
	}()
	eventually(t, "requests are at work", func() bool { return f.PoolStats(current).Total > 0 })
	if err := f.Swap(t.Context(), current, fresh, f.target(t, "old"), "op"); err != nil {
		t.Error(err)
	}
	stop()
	if diff := cmp.Diff([]string{current, fresh}, <-finished); diff != "" {
		t.Errorf("what requests saw (-want +got):\n%s", diff)
	}
}

func TestSwapWithoutCurrent(t *testing.T) {
	t.Parallel()
	f := setup(t)
	fresh, current, old := f.label(t, f.target(t, "fresh")), f.target(t, "current"), f.target(t, "old")
	if err := f.Swap(t.Context(), current, fresh, old, "op"); err != nil {
		t.Fatal(err)
	}
	if f.labelOf(t, current) != fresh || f.exists(t, old) || f.exists(t, fresh) {
		t.Error("fresh did not become current")
	}
}

func TestSwapIsDoneOrNotDone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	current := f.label(t, f.target(t, "current"))
	other := f.label(t, f.target(t, "other"))
	for name, tc := range map[string]struct{ fresh, old string }{
		"fresh is not there": {f.target(t, "missing"), f.target(t, "old")},
		"old is taken":       {f.target(t, "missing"), other},
	} {
		if err := f.Swap(t.Context(), current, tc.fresh, tc.old, "op"); err == nil {
			t.Errorf("%s: no error", name)
		}
		if f.labelOf(t, current) != current || f.labelOf(t, other) != other || f.exists(t, f.Main()+"_old") {
			t.Errorf("%s: the databases have changed", name)
		}
		touch(t, f.Pools, current)
	}
}

func TestDrop(t *testing.T) {
	t.Parallel()
	f := setup(t)
	name := f.label(t, f.target(t, "x"))
	somebody := connect(t, f.in(name))
	touch(t, f.Pools, name)
	busy := acquire(t, f.Pools, name)
	for range 2 { // the second finds nothing, and that is no error
		if err := f.Drop(t.Context(), name, uuid.NewString()); err != nil || f.exists(t, name) {
			t.Fatalf("dropping: %v", err)
		}
	}
	busy.Release()
	if somebody.Ping(t.Context()) == nil {
		t.Error("a session outlived its database")
	}
	if err := f.Drop(t.Context(), f.Main(), "op"); err == nil || !f.exists(t, f.Main()) {
		t.Errorf("dropping main: %v", err)
	}
}

// What an interrupted DROP DATABASE leaves cannot be connected to, only be dropped.
func TestDropOfAnInvalidDatabase(t *testing.T) {
	t.Parallel()
	f := setup(t)
	name, res := f.clone(t, "clone")
	if len(res.Warnings) > 0 {
		t.Error(res.Warnings)
	}
	execute(t, f.in("postgres"), "update pg_database set datconnlimit = -2 where datname = '"+name+"'")
	d, err := f.Lookup(t.Context(), name)
	if err != nil || d == nil || !d.Invalid || !d.Marked {
		t.Fatalf("lookup: %+v, %v", d, err)
	}
	if err := f.Drop(t.Context(), name, ""); err != nil || f.exists(t, name) {
		t.Errorf("dropping: %v", err)
	}
}

func TestDatabasesAreOnlyOurs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	mark := func(suffix, comment string) string {
		name := f.label(t, f.target(t, suffix))
		execute(t, f.in("postgres"), "comment on database "+quote(name)+" is "+postgres.Literal(comment))
		return name
	}
	ours := postgres.Marker{Installation: f.config.Installation, Branch: uuid.New(), Generation: 3, Complete: true}
	theirs := ours
	theirs.Installation = uuid.New()
	mine := mark("ours", ours.Comment("and a comment"))
	foreign := mark("theirs", theirs.Comment(""))
	plain := f.label(t, f.target(t, "plain"))
	broken := mark("broken", "bough:{")

	got, err := f.Databases(t.Context())
	if diff := cmp.Diff([]postgres.Database{{Name: mine, Marker: ours, Marked: true}}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, name := range []string{foreign, plain, broken, f.Main()} {
		d, err := f.Lookup(t.Context(), name)
		if diff := cmp.Diff(&postgres.Database{Name: name, Foreign: name == foreign}, d); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if d, err := f.Lookup(t.Context(), "no such database"); d != nil || err != nil {
		t.Errorf("a database that is not there: %+v, %v", d, err)
	}
}

func TestOpenClusterFindsOutWhatTheServerCanDo(t *testing.T) {
	t.Parallel()
	f := setup(t, func(c *postgres.ClusterConfig) {
		c.PGDump = func(major int) string { return "pg_dump-" + strings.Repeat("i", major) }
		c.Limits.Total = 100_000 // more than the server has
		c.Reflink = true
	})
	got := f.Capabilities()
	version := majorVersion(t)
	if got.ServerVersion/10000 != version || got.Version == "" || got.MaxConns <= 0 || got.PGDump != "pg_dump-"+strings.Repeat("i", version) {
		t.Errorf("%+v", got)
	}
	if !got.Superuser || !got.CreateDB || !got.CreateRole || !got.SignalOthers || !got.TemplateMain || got.Role == "" || got.Owner != got.Role {
		t.Errorf("a superuser may not: %+v", got)
	}
	if got.CloneMethod != (version >= 18) || got.Reflink != got.CloneMethod {
		t.Errorf("version %d: file_copy_method %v, reflink %v", version, got.CloneMethod, got.Reflink)
	}
	size, err := f.Size(t.Context(), f.Main())
	if err != nil || size < 1<<20 {
		t.Errorf("size %d, %v", size, err)
	}
	if _, err := f.Size(t.Context(), "no such database"); err == nil {
		t.Error("the size of a database that is not there")
	}
	url, err := f.URL("a b/c?d%")
	if err != nil || databaseName(t, url) != "a b/c?d%" {
		t.Errorf("URL %q, %v", url, err)
	}
}

func TestOpenClusterRefuses(t *testing.T) {
	t.Parallel()
	server := pgtest.ServerURL(t)
	for name, url := range map[string]string{
		"no URL":                     "postgres://[",
		"a wrong password":           as(t, server, role(t, "login")+"x"),
		"a database that is missing": pgtest.WithDatabase(server, "no such database"),
	} {
		if c, err := postgres.OpenCluster(t.Context(), postgres.ClusterConfig{URL: url, Limits: plenty}); err == nil {
			c.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// A role as managed servers give it: no superuser, owner of main.
func TestRoleThatOwnsMain(t *testing.T) {
	t.Parallel()
	for _, s := range []postgres.Strategy{
		"", postgres.StrategyWALLog, postgres.StrategyFileCopy, postgres.StrategyReflink, postgres.StrategyCopy,
	} {
		t.Run("strategy "+string(s), func(t *testing.T) {
			t.Parallel()
			owner, reader := role(t, "login createdb createrole"), role(t, "")
			super := pgtest.Database(t)
			execute(t, super, "alter database "+quote(databaseName(t, super))+" owner to "+owner)
			mainURL := as(t, super, owner)
			execute(t, mainURL,
				"create schema app", "create table app.t as select 1 as id",
				"alter database "+quote(databaseName(t, super))+" set work_mem to '7MB'",
				"revoke connect on database "+quote(databaseName(t, super))+" from public",
			)
			// What only a superuser may set is left out, and said.
			execute(t, super, "alter database "+quote(databaseName(t, super))+" set log_min_messages to 'error'",
				"alter role "+reader+" in database "+quote(databaseName(t, super))+" set work_mem to '1MB'")
			f := setupAt(t, mainURL, strategy(s))
			f.url = super
			got := f.Capabilities()
			if got.Role != owner || got.Owner != owner || got.Superuser || !got.CreateDB || !got.CreateRole || got.SignalOthers || !got.TemplateMain {
				t.Errorf("capabilities: %+v", got)
			}
			want := s
			switch {
			case s == "":
				want = postgres.StrategyWALLog
			case s == postgres.StrategyReflink && !got.CloneMethod:
				want = postgres.StrategyFileCopy
			}
			r := f.request(t, "clone")
			res, err := f.Clone(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if res.Strategy != want {
				t.Errorf("strategy %s, want %s", res.Strategy, want)
			}
			if !slices.ContainsFunc(res.Warnings, func(w string) bool { return strings.Contains(w, "log_min_messages") }) {
				t.Errorf("warnings: %q", res.Warnings)
			}
			if err := f.Complete(t.Context(), r); err != nil {
				t.Error(err)
			}
			old := f.target(t, "old")
			current := f.target(t, "current")
			if err := f.Swap(t.Context(), current, r.Target, old, "op"); err != nil {
				t.Fatal(err)
			}
			if n := query[int](t, as(t, f.in(current), owner), "select count(*) from app.t where current_setting('work_mem') = '7MB'"); n != 1 {
				t.Errorf("%d rows", n)
			}
			if p := properties(t, f.in("postgres"), current); p["owner"] != owner || strings.Contains(p["acl"], "- CONNECT") {
				t.Errorf("the clone: %v", p)
			}
			connect(t, as(t, f.in(current), owner))
			if err := f.Drop(t.Context(), current, uuid.NewString()); err != nil {
				t.Error(err)
			}
			if err := f.Drop(t.Context(), f.Main(), ""); err == nil {
				t.Error("main was dropped")
			}
		})
	}
}

// A role that does not own main can read it at most.
func TestRoleThatDoesNotOwnMain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		from  int // major version
		grant string
		want  postgres.Strategy
	}{
		"no member of the owner":       {want: postgres.StrategyCopy},
		"a member of the owner":        {grant: "grant {owner} to {role}", want: postgres.StrategyWALLog},
		"a member for administration":  {from: 16, grant: "grant {owner} to {role} with admin true, inherit false, set false", want: postgres.StrategyCopy},
		"a member that may not become": {from: 16, grant: "grant {owner} to {role} with inherit true, set false", want: postgres.StrategyWALLog},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v := majorVersion(t); v < tc.from {
				t.Skipf("PostgreSQL %d has no such membership", v)
			}
			owner, ours := role(t, ""), role(t, "login createdb")
			super := pgtest.Database(t)
			main := databaseName(t, super)
			execute(t, super, "alter database "+quote(main)+" owner to "+owner, "create table t as select 1 as id",
				"grant select on t to "+ours, "alter table t owner to "+ours)
			if tc.grant != "" {
				execute(t, super, strings.NewReplacer("{owner}", owner, "{role}", ours).Replace(tc.grant))
			}
			f := setupAt(t, as(t, super, ours))
			f.url = super
			if may := f.Capabilities().TemplateMain; may != (tc.want != postgres.StrategyCopy) {
				t.Errorf("may use main as a template: %v", may)
			}
			r := f.request(t, "clone")
			res, err := f.Clone(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if res.Strategy != tc.want {
				t.Errorf("strategy %s", res.Strategy)
			}
			if n := query[int](t, f.in(r.Target), "select count(*) from t"); n != 1 {
				t.Errorf("%d rows", n)
			}
			if err := f.Complete(t.Context(), r); err != nil {
				t.Error(err)
			}
			if err := f.Drop(t.Context(), r.Target, ""); err != nil {
				t.Error(err)
			}
		})
	}
}
