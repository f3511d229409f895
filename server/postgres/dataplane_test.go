package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// roleNames are names of roles that no other test has. The roles are dropped after the test, those that it makes as
// well.
func roleNames(t *testing.T) postgres.RoleNames {
	t.Helper()
	tag := strings.ReplaceAll(uuid.NewString()[:13], "-", "")
	names := postgres.RoleNames{Anon: "anon_" + tag, Authenticated: "user_" + tag, Service: "service_" + tag}
	server := pgtest.ServerURL(t)
	t.Cleanup(func() {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(ctx)
		for _, name := range []string{names.Anon, names.Authenticated, names.Service} {
			if _, err := conn.Exec(ctx, "drop role if exists "+name); err != nil {
				t.Errorf("dropping role %s: %v", name, err)
			}
		}
	})
	return names
}

// plane gives the cluster a data plane with roles of its own. It comes before the databases in a test, so that the
// roles are dropped after them.
func plane(names postgres.RoleNames) func(*postgres.ClusterConfig) {
	return func(c *postgres.ClusterConfig) {
		c.DataPlane = &postgres.DataPlane{Roles: names, Schemas: []string{"public"}, ManageGrants: true}
	}
}

// setUp opens a cluster on a new main and sets the data plane up in it.
func setUp(t *testing.T, configure ...func(*postgres.ClusterConfig)) (*fixture, postgres.RoleNames) {
	t.Helper()
	names := roleNames(t)
	f := setup(t, append(configure, plane(names))...)
	if err := f.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f, names
}

// limited opens a cluster as a role that may log in and what options say, and that owns main.
func limited(t *testing.T, options string, names postgres.RoleNames) (f *fixture, owner string) {
	t.Helper()
	owner = role(t, "login "+options)
	mainURL := pgtest.Database(t)
	execute(t, mainURL, "alter database "+quote(databaseName(t, mainURL))+" owner to "+owner)
	f = setupAt(t, as(t, mainURL, owner), plane(names))
	f.url = mainURL
	return f, owner
}

func TestDataRolesAreMade(t *testing.T) {
	t.Parallel()
	f, names := setUp(t)
	want := postgres.DataRoles{
		Anon: names.Anon, Authenticated: names.Authenticated, Service: names.Service, Bypass: true,
		Made: []string{names.Anon, names.Authenticated, names.Service},
	}
	if diff := cmp.Diff(want, f.DataRoles()); diff != "" {
		t.Error("roles (-want +got):\n" + diff)
	}
	// None can log in or do more than it must.
	const powers = "select string_agg(rolname || case when rolcanlogin or rolsuper or rolcreatedb or rolcreaterole or rolreplication then '!' else '' end || case when rolbypassrls then '+' else '' end, ' ' order by rolname) from pg_roles where rolname = any ($1)"
	if got := query[string](t, f.url, powers, want.Made); got != names.Anon+" "+names.Service+"+ "+names.Authenticated {
		t.Errorf("the roles' powers: %s", got)
	}
	again := open(t, f.config)
	if err := again.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	want.Made = nil
	if diff := cmp.Diff(want, again.DataRoles()); diff != "" {
		t.Error("roles found again (-want +got):\n" + diff)
	}
}

// Processes of different mains start at the same moment on a server that has no roles yet.
func TestDataRolesAreMadeByManyAtOnce(t *testing.T) {
	t.Parallel()
	names := roleNames(t)
	var clusters []*postgres.Cluster
	for range 3 {
		main := pgtest.Database(t)
		for range 2 {
			clusters = append(clusters, setupAt(t, main, plane(names)).Cluster)
		}
	}
	var all sync.WaitGroup
	for _, c := range clusters {
		all.Go(func() {
			if err := c.SetUp(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	made := 0
	for _, c := range clusters {
		roles, state := c.DataRoles(), c.MainState()
		made += len(roles.Made)
		if len(roles.Missing) > 0 || len(state.Missing) > 0 || len(state.Warnings) > 0 || !state.Notifies {
			t.Errorf("roles %+v, main %+v", roles, state)
		}
	}
	if made != 3 {
		t.Errorf("%d roles were made", made)
	}
}

// A role that may make roles and databases, and nothing else, can do all but bypass row-level security.
func TestDataRolesWithoutSuperuser(t *testing.T) {
	t.Parallel()
	names := roleNames(t)
	f, _ := limited(t, "createdb createrole", names)
	execute(t, f.url, "create table t (id int)") // the superuser's, so out of reach
	if err := f.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	roles := f.DataRoles()
	want := postgres.DataRoles{
		Anon: names.Anon, Authenticated: names.Authenticated, Bypass: true, // the owner itself is not bound
		Made: []string{names.Anon, names.Authenticated, names.Service},
	}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Error("roles (-want +got):\n" + diff)
	}
	conn := acquire(t, f.Pools, f.Main())
	defer conn.Release()
	for caller, role := range map[string]string{"anon": names.Anon, "authenticated": names.Authenticated} {
		if got, err := roles.Session(caller); err != nil || got != role {
			t.Errorf("%s runs as %q, %v", caller, got, err)
		}
		var got string
		if err := conn.QueryRow(t.Context(), "select set_config('role', $1, true)", role).Scan(&got); err != nil {
			t.Errorf("taking on %s: %v", role, err)
		}
	}
	if got, err := roles.Session("service_role"); err != nil || got != "" {
		t.Errorf("service_role runs as %q, %v", got, err)
	}
	state := f.MainState()
	if len(state.Functions) != 5 || state.Notifies || len(state.Warnings) > 0 {
		t.Errorf("main: %+v", state)
	}
}

func TestDataRolesThatCannotBeMade(t *testing.T) {
	t.Parallel()
	names := roleNames(t)
	f, owner := limited(t, "createdb", names)
	if err := f.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	roles := f.DataRoles()
	if len(roles.Missing) != 3 || roles.Service != "" || !roles.Bypass {
		t.Errorf("roles: %+v", roles)
	}
	for _, caller := range []string{"anon", "authenticated", "somebody"} {
		if _, err := roles.Session(caller); !errors.Is(err, postgres.ErrNoRole) {
			t.Errorf("%s: %v", caller, err)
		}
	}
	// What is advised helps.
	execute(t, f.url, roles.Advice...)
	again := open(t, f.config)
	if err := again.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	roles = again.DataRoles()
	if len(roles.Missing) > 0 || roles.Service != names.Service || !roles.Bypass {
		t.Errorf("roles after the advice was followed: %+v", roles)
	}
	execute(t, f.url, "revoke "+names.Anon+", "+names.Authenticated+", "+names.Service+" from "+owner)
}

// A service role of somebody else's making is used as it is, and what it lacks is said.
func TestDataRolesThatAreThereStayAsTheyAre(t *testing.T) {
	t.Parallel()
	names := roleNames(t)
	f := setup(t, plane(names))
	execute(t, f.url, "create role "+names.Service+" nologin connection limit 7")
	if err := f.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	roles := f.DataRoles()
	if roles.Service != names.Service || roles.Bypass || !slices.Contains(roles.Advice, `alter role "`+names.Service+`" bypassrls`) {
		t.Errorf("roles: %+v", roles)
	}
	if query[bool](t, f.url, "select rolbypassrls or rolconnlimit <> 7 from pg_roles where rolname = $1", names.Service) {
		t.Error("the role was changed")
	}
}

// Functions of an older version are replaced, under policies that use them; those of somebody else are left alone.
func TestOutdatedAuthFunctionsAreReplaced(t *testing.T) {
	t.Parallel()
	f, _ := setUp(t)
	const old = `returns text language sql stable return nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email'`
	execute(t, f.url, "create or replace function auth.email() "+old, "comment on function auth.email() is 'The address. [bough 1]'",
		"create table t (owner text)", "create policy mine on t using (owner = (select auth.email()))")
	again := open(t, f.config)
	if err := again.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, f.url)
	email := func() (got *string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), `set request.jwt.claims = '{"email":"a@b.c"}'`); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), "select auth.email()").Scan(&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := email(); got != nil {
		t.Errorf("an address that nobody has verified is %q after the upgrade", *got)
	}
	execute(t, f.url, "create or replace function auth.email() "+old, "comment on function auth.email() is 'Mine.'")
	if err := open(t, f.config).SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := email(); got == nil {
		t.Error("somebody's own function was replaced")
	}
}

func TestAuthFunctions(t *testing.T) {
	t.Parallel()
	f, names := setUp(t)
	const all = `select coalesce((select auth.uid())::text, '-') || '|' || coalesce(auth.role(), '-') || '|' || coalesce(auth.email(), '-') || '|' ||
		coalesce(array_to_string(auth.scopes(), '+'), '-') || '|' || coalesce(auth.jwt()->>'x', '-')`
	const id = "0191d9a0-5f0e-7c5e-9a52-6f6f3a2b1c4d"
	for name, tc := range map[string]struct{ claims, want string }{
		"all":         {`{"sub":"` + id + `","role":"authenticated","email":"a@b.c","email_verified":true,"scope":"read write","x":"1"}`, id + "|authenticated|a@b.c|read+write|1"},
		"unverified":  {`{"email":"a@b.c","email_verified":false}`, "-|-|-|-|-"},
		"who knows":   {`{"email":"a@b.c"}`, "-|-|-|-|-"},
		"no address":  {`{"email_verified":true}`, "-|-|-|-|-"},
		"as a string": {`{"email":"a@b.c","email_verified":"true"}`, "-|-|a@b.c|-|-"},
		"string no":   {`{"email":"a@b.c","email_verified":"false"}`, "-|-|-|-|-"},
		"truthy":      {`{"email":"a@b.c","email_verified":1}`, "-|-|-|-|-"},
		"an object":   {`{"email":"a@b.c","email_verified":{"true":true}}`, "-|-|-|-|-"},
		"upper case":  {`{"sub":"` + strings.ToUpper(id) + `"}`, id + "|-|-|-|-"},
		"no uuid":     {`{"sub":"auth0|5f7"}`, "-|-|-|-|-"},
		"not quite":   {`{"sub":"` + id + `0"}`, "-|-|-|-|-"},
		"a number":    {`{"sub":7,"role":null}`, "-|-|-|-|-"},
		"empty":       {"", "-|-|-|-|-"},
		"no object":   {`[]`, "-|-|-|-|-"},
		"no scope":    {`{"scope":""}`, "-|-|-|-|-"},
		"scope list":  {`{"scope":["a","b"]}`, "-|-|-|a+b|-"},
		"nested null": {`{"sub":null,"email":null}`, "-|-|-|-|-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, f.url)
			var got string
			// As requests do it: in the transaction, as another role, with whatever search path.
			for range 2 {
				err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
					_, err := tx.Exec(t.Context(), "select set_config('role', $1, true), set_config('search_path', 'public', true), set_config('request.jwt.claims', $2, true)",
						names.Anon, tc.claims)
					if err != nil {
						return err
					}
					return tx.QueryRow(t.Context(), all).Scan(&got)
				})
				if err != nil || got != tc.want {
					t.Errorf("%q, want %q (%v)", got, tc.want, err)
				}
				// The setting is empty from now on, which is no claims.
				if err := conn.QueryRow(t.Context(), all).Scan(&got); err != nil || got != "-|-|-|-|-" {
					t.Errorf("after the transaction: %q, %v", got, err)
				}
			}
		})
	}
	// A policy costs no function call.
	execute(t, f.url, "create table t (owner uuid, n int)")
	var plan string
	conn := connect(t, f.url)
	rows, err := conn.Query(t.Context(), "explain (verbose, costs off) select * from t where owner = auth.uid()")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	plan = strings.Join(lines, "\n")
	if err != nil || strings.Contains(plan, "auth.uid") {
		t.Errorf("auth.uid is not inlined (%v):\n%s", err, plan)
	}
}

// What somebody else made under the same names is left alone; what is missing beside it is made.
func TestForeignSchemaAuth(t *testing.T) {
	t.Parallel()
	names := roleNames(t)
	f := setup(t, plane(names))
	execute(t, f.url, "create schema auth", "create table auth.users (id uuid)",
		"create function auth.uid() returns uuid language sql as 'select null::uuid'")
	if err := f.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := postgres.PlaneState{Functions: []string{"jwt", "role", "email", "scopes"}, Foreign: []string{"uid"}, Notifies: true}
	got := f.MainState()
	if len(got.Absent) == 0 {
		got.Absent = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("main (-want +got):\n" + diff)
	}
	if src := query[string](t, f.url, "select prosrc from pg_proc where oid = 'auth.uid()'::regprocedure"); src != "select null::uuid" {
		t.Errorf("the function is now %q", src)
	}
}

func TestSchemaAuthIsRepaired(t *testing.T) {
	t.Parallel()
	f, _ := setUp(t)
	for name, damage := range map[string]string{
		"dropped":  "drop schema auth cascade",
		"outdated": "create or replace function auth.uid() returns uuid language sql return null::uuid; comment on function auth.uid() is 'Old. [bough 0]'",
		"trigger":  "drop event trigger bough_ddl_drop",
	} {
		execute(t, f.url, damage)
		state, err := f.EnsureDataPlane(t.Context(), f.Main())
		if err != nil || len(state.Functions) != 5 || !state.Notifies || len(state.Warnings) > 0 {
			t.Errorf("%s: %+v, %v", name, state, err)
		}
		if v := query[string](t, f.url, "select coalesce(auth.uid()::text, 'none')"); v != "none" {
			t.Errorf("%s: uid is %s", name, v)
		}
	}
	// One that was switched off stays off.
	execute(t, f.url, "alter event trigger bough_ddl_end disable")
	if state, err := f.EnsureDataPlane(t.Context(), f.Main()); err != nil || state.Notifies {
		t.Errorf("%+v, %v", state, err)
	}
	// Nothing is written where nothing is to be done.
	execute(t, f.url, "alter event trigger bough_ddl_end enable")
	const written = "select max(xmin::text::bigint) from (select xmin from pg_proc union all select xmin from pg_namespace union all select xmin from pg_class union all select xmin from pg_default_acl union all select xmin from pg_event_trigger) x"
	before := query[int64](t, f.url, written)
	if _, err := f.EnsureDataPlane(t.Context(), f.Main()); err != nil {
		t.Fatal(err)
	}
	if after := query[int64](t, f.url, written); after != before {
		t.Error("the catalog was written to")
	}
}

func TestGrantsOnExposedSchemas(t *testing.T) {
	t.Parallel()
	names := roleNames(t)
	f := setup(t, plane(names), func(c *postgres.ClusterConfig) {
		c.DataPlane.Schemas = []string{"public", "api", "nowhere"}
	})
	execute(t, f.url, "create schema api", "create schema private",
		"create table api.before (id serial)", "create table private.before (id int)",
		"create function api.f() returns int language sql as 'select 1'", "revoke execute on function api.f() from public")
	if err := f.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute(t, f.url, "create table api.after (id serial)", "create table private.after (id int)",
		"create procedure api.p() language sql as ''", "create view public.v as select 1 as a")
	const can = `select string_agg(format('%s%s', o, case when case
			when o = 'api.before_id_seq' then has_sequence_privilege($1, o, 'usage')
			when o like '%()' then has_function_privilege($1, o, 'execute')
			when position('.' in o) = 0 then has_schema_privilege($1, o, 'usage')
			else has_table_privilege($1, o, 'select') and has_table_privilege($1, o, 'insert') end then '+' else '-' end), ' ' order by n)
		from unnest(array['api', 'private', 'api.before', 'api.before_id_seq', 'api.after', 'public.v', 'private.before', 'private.after', 'api.f()', 'api.p()']) with ordinality u (o, n)`
	for role, want := range map[string]string{
		names.Service: "api+ private- api.before+ api.before_id_seq+ api.after+ public.v+ private.before- private.after- api.f()+ api.p()+",
		// A table that the user has not opened is closed.
		names.Authenticated: "api+ private- api.before- api.before_id_seq- api.after- public.v- private.before- private.after- api.f()- api.p()+",
		names.Anon:          "api+ private- api.before- api.before_id_seq- api.after- public.v- private.before- private.after- api.f()- api.p()+",
	} {
		if got := query[string](t, f.url, can, role); got != want {
			t.Errorf("%s:\n got %s\nwant %s", role, got, want)
		}
	}
	if diff := cmp.Diff([]string{"nowhere"}, f.MainState().Absent); diff != "" {
		t.Error("absent schemas (-want +got):\n" + diff)
	}
}

func TestGrantsAreLeftToTheUser(t *testing.T) {
	t.Parallel()
	f, names := setUp(t)
	bare := setup(t, plane(names), func(c *postgres.ClusterConfig) { c.DataPlane.ManageGrants = false })
	execute(t, bare.url, "create table t (id int)")
	if err := bare.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if query[bool](t, bare.url, "select has_table_privilege($1, 't', 'select') or exists (select from pg_default_acl)", names.Service) {
		t.Error("privileges were granted")
	}
	if n := bare.MainState().Ungranted; n != 1 {
		t.Errorf("%d objects are said to lack grants", n)
	}
	if n := f.MainState().Ungranted; n != 0 {
		t.Errorf("%d objects of an empty main are said to lack grants", n)
	}
}

// listener listens in a database and counts.
func listener(t *testing.T, url string) (count func() int) {
	t.Helper()
	conn := connect(t, url)
	if _, err := conn.Exec(t.Context(), "listen "+postgres.DDLChannel); err != nil {
		t.Fatal(err)
	}
	return func() (n int) {
		t.Helper()
		// What was told before this is here before it.
		if _, err := conn.Exec(t.Context(), "select pg_notify($1, 'end')", postgres.DDLChannel); err != nil {
			t.Fatal(err)
		}
		for {
			told, err := conn.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if told.Payload == "end" {
				return n
			}
			n++
		}
	}
}

func TestChangesOfTheSchemaAreTold(t *testing.T) {
	t.Parallel()
	somebody := role(t, "login") // dropped after what it owns in main
	f, names := setUp(t)
	execute(t, f.url, "create materialized view m as select 1", "grant create, usage on schema public to "+somebody)
	count := listener(t, f.url)
	conn, theirs := connect(t, f.url), connect(t, as(t, f.url, somebody))
	for _, tc := range []struct {
		conn      *pgx.Conn
		statement string
		want      int
	}{
		{conn, "create table t (id int)", 1},
		{conn, "alter table t add c text", 1},
		{conn, "comment on column t.c is 'c'", 1},
		{conn, "grant select on t to " + names.Anon, 1},
		{conn, "alter table t enable row level security", 1},
		{conn, "create function f() returns int language sql as 'select 1'", 1},
		{conn, "begin; create table a (); create table b (); drop table a; commit", 1},
		{conn, "drop table t", 1},
		{conn, "drop schema if exists nothing", 0},
		{conn, "create temp table x (id serial primary key); insert into x default values; alter table x add y int; create index on x (y); drop table x", 0},
		{conn, "refresh materialized view m", 0},
		{conn, "begin; create table never (); rollback", 0},
		{conn, "select 1; analyze", 0},
		{theirs, "create table theirs (id int)", 1},
		{theirs, "set search_path = nowhere; drop table public.theirs", 1},
	} {
		if _, err := tc.conn.Exec(t.Context(), tc.statement); err != nil {
			t.Fatalf("%s: %v", tc.statement, err)
		}
		if got := count(); got != tc.want {
			t.Errorf("%s: told %d times, want %d", tc.statement, got, tc.want)
		}
	}
}

// A branch has the functions and tells of changes, however it was made.
func TestBranchesHaveTheDataPlane(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		strategy   postgres.Strategy
		schemaOnly bool
	}{
		{postgres.StrategyWALLog, false}, {postgres.StrategyFileCopy, false}, {postgres.StrategyCopy, false}, {postgres.StrategyCopy, true},
	} {
		for _, super := range []bool{true, false} {
			name := string(tc.strategy)
			if tc.schemaOnly {
				name += " schema"
			}
			if !super {
				name += " limited"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				names := roleNames(t)
				var f *fixture
				if super {
					f = setup(t, strategy(tc.strategy), plane(names))
				} else {
					f, _ = limited(t, "createdb createrole", names)
					cfg := f.config
					cfg.Strategy = tc.strategy
					f = &fixture{config: cfg, url: f.url, Cluster: open(t, cfg)}
				}
				if err := f.SetUp(t.Context()); err != nil {
					t.Fatal(err)
				}
				owner := f.config.URL
				execute(t, owner, "create table t (owner uuid default auth.uid(), n int)", "alter table t enable row level security",
					"create policy p on t using (owner = (select auth.uid()))", "grant select on t to "+names.Authenticated)
				r := f.request(t, "branch")
				r.SchemaOnly = tc.schemaOnly
				res, err := f.Clone(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				want := tc.strategy
				if tc.schemaOnly {
					want = postgres.StrategyImage
				}
				if res.Strategy != want || len(res.Warnings) > 0 {
					t.Errorf("cloned by %s with warnings %q", res.Strategy, res.Warnings)
				}
				state, err := f.EnsureDataPlane(t.Context(), r.Target)
				if err != nil || len(state.Functions) != 5 || state.Notifies != super || state.Ungranted > 0 {
					t.Errorf("%+v, %v", state, err)
				}
				branch := pgtest.WithDatabase(owner, r.Target)
				if !query[bool](t, branch, "select has_table_privilege($1, 't', 'select')", names.Authenticated) {
					t.Error("a privilege was lost")
				}
				count := listener(t, branch)
				execute(t, branch, "create table more ()")
				if got := count(); got != map[bool]int{true: 1, false: 0}[super] {
					t.Errorf("told %d times", got)
				}
			})
		}
	}
}

// An event trigger that a superuser made for a role that may not is left out of copies from a snapshot.
func TestCopyWithoutTheRightToMakeEventTriggers(t *testing.T) {
	t.Parallel()
	names := roleNames(t)
	f, _ := limited(t, "createdb createrole", names)
	super := open(t, func() postgres.ClusterConfig {
		c, p := f.config, *f.config.DataPlane
		p.ManageGrants = false
		c.URL, c.DataPlane = f.url, &p
		return c
	}())
	for _, c := range []*postgres.Cluster{super, f.Cluster} {
		if err := c.SetUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if state := f.MainState(); !state.Notifies || len(state.Functions) != 5 || len(state.Warnings) > 0 {
		t.Fatalf("%+v", state)
	}
	for _, schemaOnly := range []bool{false, true} {
		r := f.request(t, map[bool]string{false: "all", true: "schema"}[schemaOnly])
		r.SchemaOnly = schemaOnly
		cfg := f.config
		cfg.Strategy = postgres.StrategyCopy
		c := open(t, cfg)
		if err := c.Inspect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Clone(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if query[bool](t, f.in(r.Target), "select exists (select from pg_event_trigger) or to_regprocedure('auth.bough_notify_ddl()') is not null") {
			t.Error("the copy has an event trigger, or its function")
		}
	}
}

// A main that nothing can be made in is served all the same.
func TestReadOnlyMain(t *testing.T) {
	t.Parallel()
	names := roleNames(t)
	f, _ := limited(t, "createdb createrole", names)
	execute(t, f.url, "alter database "+quote(f.Main())+" owner to current_user", "revoke create on database "+quote(f.Main())+" from public")
	c := open(t, f.config)
	if err := c.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	state := c.MainState()
	if len(state.Missing) != 5 || len(state.Warnings) == 0 {
		t.Errorf("%+v", state)
	}
	if roles := c.DataRoles(); roles.Authenticated != names.Authenticated || roles.Bypass {
		t.Errorf("%+v", roles)
	}
	var pgErr *pgconn.PgError
	if err := c.Ping(t.Context()); errors.As(err, &pgErr) {
		t.Error(err)
	}
}
