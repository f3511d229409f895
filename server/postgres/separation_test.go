package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// separated lets requests and branches log in as roles of their own, with a control database on the same server. It
// comes before main in a test, so that the roles are dropped after it.
func separated(t *testing.T) func(*postgres.ClusterConfig) {
	t.Helper()
	installation := uuid.New()
	t.Cleanup(func() { dropRoles(t, installation) })
	control := pgtest.Template(t, "control", func(ctx context.Context, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		return postgres.Migrate(ctx, pool)
	})
	pool, err := pgxpool.New(t.Context(), control)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	vault, err := auth.NewVault("test", strings.Repeat("k", 32), "")
	if err != nil {
		t.Fatal(err)
	}
	return func(c *postgres.ClusterConfig) {
		c.Installation = installation
		c.Logins = &postgres.Logins{Pool: pool, Vault: vault}
		c.Control = databaseName(t, control)
	}
}

func dropRoles(t *testing.T, installation uuid.UUID) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, pgtest.ServerURL(t))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, "select rolname::text from pg_roles where starts_with(rolname, $1)", "bough_"+installation.String()[:8]+"_")
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Error(err)
	}
	for _, statement := range []string{"drop owned by ", "drop role "} {
		for _, name := range names {
			if _, err := conn.Exec(ctx, statement+name); err != nil {
				t.Errorf("%s: %v", statement+name, err)
			}
		}
	}
}

// owned is a separated fixture; options are those of the role that Bough works as, "" for a superuser.
func owned(t *testing.T, options string, statements ...string) *fixture {
	t.Helper()
	var name string
	if options != "" {
		name = role(t, "login "+options)
	}
	names, separate := roleNames(t), separated(t)
	main := pgtest.Database(t)
	engine := main
	if options != "" {
		execute(t, main, "alter database "+quote(databaseName(t, main))+" owner to "+name, "alter schema public owner to "+name)
		engine = as(t, main, name)
	}
	execute(t, engine, statements...)
	f := setupAt(t, engine, separate, plane(names), func(c *postgres.ClusterConfig) {
		if options != "" {
			c.Control = "" // it belongs to the superuser
		}
	})
	f.url = main
	if err := f.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func prefix(f *fixture) string { return "bough_" + f.config.Installation.String()[:8] + "_" }

// attacks are what nobody who writes SQL may do, whoever Bough works as.
func attacks(f *fixture) []string {
	return []string{
		"copy (select 1) to program 'true'", "copy (select 1) to '/tmp/bough-attack'", "select pg_read_file('/etc/passwd')", "select pg_ls_dir('/')",
		"create role attacker superuser", "create role attacker", "create database attacker", "alter role current_user superuser",
		"alter role " + quote(prefix(f)+"owner") + " login", "alter role " + quote(prefix(f)+"main") + " password 'x'", "grant pg_read_server_files to current_user",
		"alter system set log_statement = 'all'", "create extension dblink", "create extension adminpack_or_file_fdw", "create language c",
		"create function f() returns int language internal as 'int4pl'", "set session authorization postgres",
		"select * from pg_authid", "create event trigger attack on ddl_command_end execute function auth.bough_notify_ddl()",
		"alter database " + quote(f.Main()) + " rename to attacked", "drop database " + quote(f.Main()), "alter database " + quote(f.Main()) + " owner to current_user",
		"set role " + quote(f.Capabilities().Role), "grant " + quote(f.Capabilities().Role) + " to current_user",
	}
}

// allRefused runs each statement in the transaction that begin opens, and wants an error that is a refusal.
func allRefused(t *testing.T, conn *pgx.Conn, statements []string) {
	t.Helper()
	for _, statement := range statements {
		_, err := conn.Exec(t.Context(), statement)
		var pgErr *pgconn.PgError
		refusals := []string{"42501", "0A000", "22023", "58P01", "42704", "42P13", "42883", "42710"}
		if !errors.As(err, &pgErr) || !slices.Contains(refusals, pgErr.Code) {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// The role that Bough works as may be a superuser, as where an operator gives it one, or as little as is enough.
var engines = map[string]string{"superuser": "", "createdb createrole": "createdb createrole"}

// Whatever a request gets to run, it runs as the login of requests or one of its three roles.
func TestRequestsCannotLeaveTheirRoles(t *testing.T) {
	t.Parallel()
	for name, options := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := owned(t, options, "create table secrets (v text); insert into secrets values ('s')",
				`create procedure leave() language plpgsql as $$ begin commit; perform count(*) from secrets; end $$;
				create function stay() returns bigint language plpgsql as $$ begin perform set_config('role', 'none', true); return (select count(*) from secrets); end $$;
				grant execute on procedure leave() to public; grant execute on function stay() to public`)
			if s := f.Separation(); len(s.Missing) > 0 || !s.Isolated || s.Requests != prefix(f)+"authenticator" {
				t.Fatalf("%+v", s)
			}
			if roles := f.DataRoles(); len(roles.All()) != 3 || !roles.Bypass {
				t.Fatalf("%+v", roles)
			}
			conn := acquire(t, f.Pools, f.Main())
			defer conn.Release()
			c := conn.Conn.Conn()
			var session, members string
			err := c.QueryRow(t.Context(), `select session_user::text, (select string_agg(r.rolname, ' ' order by r.rolname) from pg_auth_members m join pg_roles r on r.oid = m.roleid
				where m.member = session_user::regrole)`).Scan(&session, &members)
			names := f.config.DataPlane.Roles
			want := strings.Join([]string{names.Anon, names.Service, names.Authenticated}, " ")
			if err != nil || session != prefix(f)+"authenticator" || members != want {
				t.Errorf("%s is a member of %s, want %s (%v)", session, members, want, err)
			}
			escapes := append(attacks(f), "table secrets", "call leave()", "select stay()", "set role "+quote(prefix(f)+"main"))
			// Before version 16 a service role that cannot bypass row-level security lets whoever takes it on be the owner.
			if options == "" || majorVersion(t) >= 16 {
				escapes = append(escapes, "set role "+quote(prefix(f)+"owner"), "create table x (i int)", "alter table secrets owner to current_user")
			}
			for _, role := range []string{"none", names.Anon, names.Authenticated} {
				if _, err := c.Exec(t.Context(), "set role "+role); err != nil {
					t.Fatal(err)
				}
				allRefused(t, c, escapes)
				if _, err := c.Exec(t.Context(), "reset role"); err != nil {
					t.Fatal(err)
				}
			}
			// A service key reads all rows.
			var n int
			if err := c.QueryRow(t.Context(), "select count(*) from secrets where set_config('role', $1, false) = $1", names.Service).Scan(&n); err == nil {
				t.Error("read before the role was taken on")
			}
			if _, err := c.Exec(t.Context(), "set role "+quote(names.Service)); err != nil {
				t.Fatal(err)
			}
			if err := c.QueryRow(t.Context(), "select count(*) from secrets").Scan(&n); err != nil || n != 1 {
				t.Errorf("a service key reads %d rows, %v", n, err)
			}
			allRefused(t, c, attacks(f))
		})
	}
}

// The login of a branch owns what is in the branch's database, and reaches no other.
func TestBranchLoginsReachTheirDatabaseOnly(t *testing.T) {
	t.Parallel()
	for name, options := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := owned(t, options, "create table mains (v text)")
			one, two := f.request(t, "one"), f.request(t, "two")
			for _, r := range []postgres.CloneRequest{one, two} {
				if _, err := f.Clone(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			// A copy of a branch is closed to the branch's login.
			child := f.request(t, "child")
			child.Source = one.Target
			if _, err := f.Clone(t.Context(), child); err != nil {
				t.Fatal(err)
			}
			urls := map[string]string{}
			for database, branch := range map[string]uuid.UUID{f.Main(): {}, one.Target: one.Branch, two.Target: two.Branch, child.Target: child.Branch} {
				login, err := f.LoginURL(t.Context(), branch, database)
				if err != nil {
					t.Fatal(err)
				}
				urls[database] = login
			}
			others := []string{}
			if f.config.Control != "" {
				others = append(others, f.config.Control)
			}
			for database, login := range urls {
				conn := connect(t, login)
				allRefused(t, conn, attacks(f))
				_, _ = conn.Exec(t.Context(), "grant connect on database "+quote(f.Main())+" to public") // refused, or with a warning and no effect
				if _, err := conn.Exec(t.Context(), `create schema more; create table more.t (i int); alter table mains add w int; drop table more.t; create table made (i int);
					create policy p on mains using (auth.uid() is null)`); err != nil {
					t.Errorf("%s: %v", database, err)
				}
				var owner string
				if err := conn.QueryRow(t.Context(), "select string_agg(distinct tableowner, ' ') from pg_tables where schemaname = 'public'").Scan(&owner); err != nil || owner != prefix(f)+"owner" {
					t.Errorf("%s: tables belong to %s, %v", database, owner, err)
				}
				for other := range urls {
					others := append(others, other)
					for _, other := range others {
						if other == database {
							continue
						}
						_, err := pgx.Connect(t.Context(), pgtest.WithDatabase(login, other))
						var pgErr *pgconn.PgError
						if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
							t.Errorf("the login of %s connects to %s: %v", database, other, err)
						}
					}
				}
			}
		})
	}
}

func TestBranchLoginStaysUntilItIsRotatedOrDropped(t *testing.T) {
	t.Parallel()
	f := owned(t, "createdb createrole", "create table t (v text)")
	r := f.request(t, "b")
	clone := func(target string, generation int32) {
		again := r
		again.Target, again.Generation = target, generation
		if _, err := f.Clone(t.Context(), again); err != nil {
			t.Fatal(err)
		}
	}
	clone(r.Target, 1)
	login := func() string {
		u, err := f.LoginURL(t.Context(), r.Branch, r.Target)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	first := login()
	u, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	if stored := query[string](t, f.in("postgres"), "select rolpassword from pg_authid where rolname = $1", u.User.Username()); !strings.HasPrefix(stored, "SCRAM-SHA-256$") || strings.Contains(stored, password) {
		t.Errorf("the server has %q", stored)
	}
	if kept := query[string](t, f.in(f.config.Logins.Pool.Config().ConnConfig.Database), "select encode(password, 'escape') from database_logins where role = $1", u.User.Username()); strings.Contains(kept, password) {
		t.Error("the control database has the password readable")
	}

	// A reset is a clone and a swap.
	fresh, old := f.target(t, "fresh"), f.target(t, "old")
	clone(fresh, 2)
	if err := f.Swap(t.Context(), r.Target, fresh, old, ""); err != nil {
		t.Fatal(err)
	}
	if err := f.Drop(t.Context(), old, ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, login()); diff != "" {
		t.Errorf("the URL after a reset (-want +got):\n%s", diff)
	}
	open := connect(t, first)
	second, err := f.RotateLogin(t.Context(), r.Branch, r.Target)
	if err != nil || second == first {
		t.Fatalf("rotated: %v", err)
	}
	if diff := cmp.Diff(second, login()); diff != "" {
		t.Errorf("the URL after a rotation (-want +got):\n%s", diff)
	}
	if err := open.Ping(t.Context()); err == nil {
		t.Error("a session with the old password goes on")
	}
	if _, err := pgx.Connect(t.Context(), first); err == nil {
		t.Error("the old password works")
	}
	gone(t, connect(t, second))

	// Killed between the two places that know the password, the next one sets it.
	execute(t, f.in(f.config.Logins.Pool.Config().ConnConfig.Database), "update database_logins set applied = false")
	execute(t, f.in("postgres"), "alter role "+quote(u.User.Username())+" password 'other'")
	gone(t, connect(t, login()))

	if err := f.Drop(t.Context(), r.Target, ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.DropLogin(t.Context(), r.Branch); err != nil {
			t.Fatal(err)
		}
	}
	if query[bool](t, f.in("postgres"), "select exists (select from pg_roles where rolname = $1)", u.User.Username()) {
		t.Error("the role is still there")
	}
}

// A copy belongs to the owner of objects, however it was made, and what somebody wrote into the schema did not run with
// Bough's own rights.
func TestCopiesBelongToTheOwner(t *testing.T) {
	t.Parallel()
	for _, s := range []postgres.Strategy{postgres.StrategyWALLog, postgres.StrategyFileCopy, postgres.StrategyCopy} {
		t.Run(string(s), func(t *testing.T) {
			t.Parallel()
			foreign := role(t, "")
			f := owned(t, "")
			main, err := f.LoginURL(t.Context(), uuid.UUID{}, f.Main())
			if err != nil {
				t.Fatal(err)
			}
			execute(t, f.url, "create schema ext; create extension file_fdw schema ext", "create table foreigns (id int); alter table foreigns owner to "+foreign)
			execute(t, main, `create table ran (session text, acted text);
				create function hostile(v int) returns boolean language plpgsql as $$ begin
					if session_user <> any (array[$a$`+prefix(f)+`main$a$]) and current_user::text || session_user not like '`+prefix(f)+`%' then
						raise exception 'ran as % for %', current_user, session_user;
					end if;
					return true; end $$;
				create table guarded (v int check (hostile(v)), w int generated always as (v + 1) stored);
				create index on guarded (v) where v > 0; insert into guarded values (1); create materialized view mv as select count(*) from guarded;
				select lo_create(0); grant select on guarded to public; alter default privileges grant select on tables to public; create extension citext;
				create table words (w citext)`)
			f.Close()
			cfg := f.config
			cfg.Strategy = s
			f.Cluster = open(t, cfg)
			if err := f.SetUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			copied, _ := f.clone(t, "copy")
			const others = `select coalesce(string_agg(distinct c.relname || ' of ' || pg_get_userbyid(c.relowner), ', '), '') from pg_class c join pg_namespace n on n.oid = c.relnamespace
				where n.nspname = 'public' and c.relkind in ('r', 'm') and pg_get_userbyid(c.relowner) <> $1`
			want := "foreigns of " + foreign // a copy of files has what others own as it is
			if s == postgres.StrategyCopy {
				want = ""
			}
			if got := query[string](t, f.in(copied), others, prefix(f)+"owner"); got != want {
				t.Errorf("belongs to others: %q, want %q", got, want)
			}
			if n := query[int](t, f.in(copied), "select count(*) from pg_extension where extname in ('file_fdw', 'citext')"); n != 2 {
				t.Errorf("%d extensions", n)
			}
			if n := query[int](t, f.in(copied), "select w from guarded"); n != 2 {
				t.Errorf("w is %d", n)
			}
		})
	}
}

// Bough's own role reads catalogs in databases whose owner may have put functions there that are like the system's.
func TestFunctionsOfOthersDoNotRunWithBoughsRights(t *testing.T) {
	t.Parallel()
	f := owned(t, "", "create extension file_fdw")
	main, err := f.LoginURL(t.Context(), uuid.UUID{}, f.Main())
	if err != nil {
		t.Fatal(err)
	}
	// For a name, each of these fits better than the system's, which takes text.
	var traps []string
	for _, name := range []string{"quote_ident", "starts_with", "lower", "format"} {
		arguments := map[string]string{"starts_with": "name, text", "format": "text, name"}[name]
		if arguments == "" {
			arguments = "name"
		}
		traps = append(traps, "create function public."+name+"("+arguments+") returns text language plpgsql as $$ begin raise exception 'trapped'; end $$")
	}
	execute(t, main, traps...)
	for _, s := range []postgres.Strategy{postgres.StrategyWALLog, postgres.StrategyCopy} {
		cfg := f.config
		cfg.Strategy = s
		c := open(t, cfg)
		if err := c.SetUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := f.request(t, string(s))
		if _, err := c.Clone(t.Context(), r); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		if _, err := c.EnsureDataPlane(t.Context(), r.Target); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// kinds has an object of each kind that can be owned.
const kinds = `
	create schema "Ap p"; set search_path = "Ap p";
	create table notes (id bigint generated always as identity primary key, s serial, body text); create table part (k int) partition by range (k); create table part1 partition of part for values from (0) to (9);
	create view v as select * from notes; create materialized view mv as select count(*) from notes; create sequence loose;
	create type mood as enum ('a'); create domain posint as int check (value > 0); create type pair as (a int, b text); create type rng as range (subtype = int);
	create function f(a int, b "Ap p".mood default 'a') returns int language sql as 'select a'; create procedure p() language sql as ''; create aggregate agg(int) (sfunc = int4pl, stype = int);
	create operator === (leftarg = int, rightarg = int, procedure = int4eq); create operator class oc for type int using btree as operator 1 <, function 1 btint4cmp(int, int);
	create collation c from "C"; create conversion conv for 'UTF8' to 'LATIN1' from utf8_to_iso8859_1;
	create text search configuration cfg (copy = simple); create text search dictionary d (template = simple); create statistics st on id, s from notes;
	create extension postgres_fdw; create server s foreign data wrapper postgres_fdw; create foreign table ft (id int) server s; create publication pub for table notes;
	select lo_create(815);
	create function evt() returns event_trigger language plpgsql as 'begin end'; create event trigger mine on ddl_command_start execute function evt();
	alter default privileges in schema "Ap p" grant select on tables to public; alter default privileges revoke execute on functions from public`

// unowned counts what role $1 does not own of what it is to own.
const unowned = `
	select coalesce(string_agg(what, ', ' order by what), '') from (
		select relname::text, relowner from pg_class where relkind in ('r', 'p', 'v', 'm', 'f', 'S', 'c') and oid >= 16384
		union all select typname, typowner from pg_type where oid >= 16384 and typtype <> 'm' and typcategory <> 'A'
		union all select proname, proowner from pg_proc where oid >= 16384 and proname not in ('evt', 'bough_notify_ddl') and not exists (select from pg_depend where objid = pg_proc.oid and deptype in ('e', 'i'))
		union all select nspname, nspowner from pg_namespace where oid >= 16384 or nspname = 'public'
		union all select oprname, oprowner from pg_operator where oid >= 16384
		union all select opcname, opcowner from pg_opclass where oid >= 16384
		union all select opfname, opfowner from pg_opfamily where oid >= 16384
		union all select collname, collowner from pg_collation where oid >= 16384
		union all select conname, conowner from pg_conversion where oid >= 16384
		union all select cfgname, cfgowner from pg_ts_config where oid >= 16384
		union all select dictname, dictowner from pg_ts_dict where oid >= 16384
		union all select stxname, stxowner from pg_statistic_ext
		union all select srvname, srvowner from pg_foreign_server
		union all select pubname, pubowner from pg_publication
		union all select oid::text, lomowner from pg_largeobject_metadata
	) o (what, owner) where pg_get_userbyid(owner) <> $1 and what !~ '^pg_temp'`

// What Bough's own role made in main and the branches before there was an owner becomes the owner's. Interrupted, it goes
// on where it was.
func TestObjectsOfOlderVersionsAreGivenToTheOwner(t *testing.T) {
	t.Parallel()
	names, separate := roleNames(t), separated(t)
	before := setupAt(t, pgtest.Database(t), plane(names), func(c *postgres.ClusterConfig) { separate(c); c.Logins = nil })
	if err := before.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute(t, before.url, kinds)
	branch, _ := before.clone(t, "branch")
	r := postgres.CloneRequest{Target: branch, Branch: uuid.New(), Generation: 1}
	if err := before.Complete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	before.Close()

	f := &fixture{config: before.config, url: before.url}
	separate(&f.config)
	for range 3 { // the third one, after two that were cut short
		ctx, cancel := context.WithCancel(t.Context())
		f.Cluster = open(t, f.config)
		done := make(chan error, 1)
		go func() { done <- f.SetUp(ctx) }()
		cancel()
		<-done
		f.Close()
	}
	f.Cluster = open(t, f.config)
	if err := f.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := f.Separation(); len(s.Missing) > 0 || len(f.MainState().Warnings) > 0 {
		t.Errorf("%+v, %+v", s, f.MainState())
	}
	for _, database := range []string{f.Main(), branch} {
		if got := query[string](t, f.in(database), unowned, prefix(f)+"owner"); got != "" {
			t.Errorf("%s: the owner does not own %s", database, got)
		}
		if n := query[int](t, f.in(database), "select count(*) from pg_default_acl where defaclrole = $1::text::regrole", prefix(f)+"owner"); n < 2 {
			t.Errorf("%s: %d default privileges", database, n)
		}
		if query[bool](t, f.in(database), "select has_database_privilege('public', current_database(), 'connect')") {
			t.Errorf("everybody may connect to %s", database)
		}
		login, err := f.LoginURL(t.Context(), r.Branch, database)
		if err != nil {
			t.Fatal(err)
		}
		execute(t, login, `alter table "Ap p".notes add more int; drop operator class "Ap p".oc using btree; drop server s cascade; select lo_unlink(815)`)
	}
}

// Other programs that have something in main go on connecting to it.
func TestOtherRolesKeepTheirAccessToMain(t *testing.T) {
	t.Parallel()
	app, stranger := role(t, "login"), role(t, "login")
	f := owned(t, "", "create table apps (id int); alter table apps owner to "+app)
	gone(t, connect(t, as(t, f.url, app)))
	if _, err := pgx.Connect(t.Context(), as(t, f.url, stranger)); err == nil {
		t.Error("a role that has nothing in main connects")
	}
	if got := query[string](t, f.url, "select tableowner from pg_tables where tablename = 'apps'"); got != app {
		t.Errorf("the table belongs to %s", got)
	}
}

// Without the right to create roles everything works as the configured role, but for what would let somebody else have its
// rights.
func TestWithoutCreateRole(t *testing.T) {
	t.Parallel()
	f := owned(t, "createdb", "create table t (v text)")
	s := f.Separation()
	if s.Isolated || s.Owner != "" || s.Requests != "" || len(s.Missing) != 1 || !slices.Equal(s.Advice, []string{"alter role " + quote(f.Capabilities().Role) + " createrole"}) {
		t.Errorf("%+v", s)
	}
	conn := acquire(t, f.Pools, f.Main())
	var session string
	if err := conn.QueryRow(t.Context(), "select session_user::text").Scan(&session); err != nil || session != f.Capabilities().Role {
		t.Errorf("requests log in as %s, %v", session, err)
	}
	conn.Release()
	if _, err := f.Session(t.Context(), f.Main()); !errors.Is(err, postgres.ErrNoLogins) {
		t.Errorf("a session of main's login: %v", err)
	}
	if _, err := f.RotateLogin(t.Context(), uuid.New(), f.Main()); !errors.Is(err, postgres.ErrNoLogins) {
		t.Errorf("a rotation: %v", err)
	}
	name, _ := f.clone(t, "copy")
	login, err := f.LoginURL(t.Context(), uuid.New(), name)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, login, "insert into t values ('x')")

	// What is advised helps.
	execute(t, f.url, s.Advice...)
	again := open(t, f.config)
	if err := again.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := again.Separation(); !s.Isolated || s.Requests == "" {
		t.Errorf("after the advice was followed: %+v", s)
	}
}

// Processes of several installations start at the same moment.
func TestLoginsAreMadeByManyAtOnce(t *testing.T) {
	t.Parallel()
	names := roleNames(t)
	var clusters []*postgres.Cluster
	for range 2 {
		separate, main := separated(t), pgtest.Database(t)
		for range 3 {
			clusters = append(clusters, setupAt(t, main, separate, plane(names)).Cluster)
		}
	}
	var all sync.WaitGroup
	for _, c := range clusters {
		all.Go(func() {
			if err := c.SetUp(t.Context()); err != nil {
				t.Error(err)
			} else if s := c.Separation(); !s.Isolated || len(s.Missing) > 0 {
				t.Errorf("%+v", s)
			}
		})
	}
	all.Wait()
	urls := map[string]bool{}
	for _, c := range clusters {
		u, err := c.LoginURL(t.Context(), uuid.UUID{}, c.Main())
		if err != nil {
			t.Fatal(err)
		}
		urls[u] = true
		gone(t, connect(t, u))
	}
	if len(urls) != 2 {
		t.Errorf("%d different URLs", len(urls))
	}
}
