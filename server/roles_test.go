package server_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
	"github.com/boughdb/bough/server/servertest"
)

// superuserURL is the superuser's URL of a database of the server that runs on the data directory.
func superuserURL(t *testing.T, dir, database string) string {
	t.Helper()
	u, err := pgserver.RunningSocketURL(dir, database)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// connects reports whether a URL lets its user in.
func connects(t *testing.T, url string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return false
	}
	_ = conn.Close(t.Context())
	return true
}

// Of the embedded server's superuser nothing is seen but by whoever works in the data directory.
func TestEmbeddedSuperuserOnlySupervises(t *testing.T) {
	t.Parallel()
	dir := pgtest.Cluster(t, "")
	p := start(t, []string{"--data-dir", dir, "--pool.total", "10"}, nil)
	c := p.client(t)
	s := &servertest.Server{Main: connection(t, c, "main")}
	createReady(t, c, "demo")
	super := superuserURL(t, dir, "main")

	secret, err := os.ReadFile(filepath.Join(dir, "postgres.password"))
	if err != nil {
		t.Fatal(err)
	}
	main, err := url.Parse(s.Main)
	if err != nil {
		t.Fatal(err)
	}
	over := *main
	over.User = url.UserPassword("bough", strings.TrimSpace(string(secret)))
	if connects(t, over.String()) || !connects(t, super) {
		t.Error("the superuser is let in over TCP, or not over the socket")
	}
	for _, ref := range []string{"main", "demo"} {
		if u := connection(t, c, ref); strings.Contains(u, strings.TrimSpace(string(secret))) || strings.Contains(u, "bough_engine") || strings.Contains(u, "//bough:") {
			t.Errorf("the URL of %s is %s", ref, u)
		}
	}
	s.Exec(t, s.Main, "create table t (id int); insert into t values (1)")
	if got := servertest.Value[string](t, super, `
		select coalesce(string_agg(distinct usename, ' '), '') from pg_stat_activity a join pg_roles r on r.oid = a.usesysid where r.rolsuper and backend_type = 'client backend' and pid <> pg_backend_pid()`); got != "" {
		t.Errorf("sessions of superusers: %s", got)
	}
	const owners = "select string_agg(distinct pg_get_userbyid(datdba), ' ') from pg_database where datname in ('main', 'bough') or datname like 'branch%'"
	if got := servertest.Value[string](t, super, owners); got != "bough_engine" {
		t.Errorf("the databases belong to %s", got)
	}
	if servertest.Value[bool](t, super, "select rolsuper or rolreplication from pg_roles where rolname = 'bough_engine'") {
		t.Error("the engine is a superuser")
	}
	if got := servertest.Value[string](t, super, "select coalesce(string_agg(rolconfig::text, ' '), '') from pg_roles where rolname like 'bough%authenticator'"); got != "{temp_file_limit=1GB}" {
		t.Errorf("the settings of requests' logins: %s", got)
	}
	for _, database := range []string{"main", "bough", "postgres", "template1"} {
		if servertest.Value[bool](t, super, "select has_database_privilege('public', $1, 'connect')", database) {
			t.Errorf("everybody may connect to %s", database)
		}
	}
	if got := servertest.Value[string](t, super, "select pg_get_userbyid(proowner) from pg_proc where proname = 'bough_notify_ddl'"); got != "bough" {
		t.Errorf("the event trigger's function belongs to %s", got)
	}

	// The owner of objects replaces what the event trigger calls, and a superuser's statement runs into it: after the next
	// start it does not.
	s.Exec(t, s.Main, `drop schema auth cascade; create schema auth; create function auth.bough_notify_ddl() returns event_trigger language plpgsql as
		$$ begin execute 'alter role `+main.User.Username()+` superuser'; end $$; comment on function auth.bough_notify_ddl() is 'x [bough 1]'`)
	p.stop(t)
	start(t, []string{"--data-dir", dir, "--pool.total", "10"}, nil)
	s.Exec(t, superuserURL(t, dir, "main"), "create table supers (id int)")
	if servertest.Value[bool](t, superuserURL(t, dir, "main"), "select rolsuper from pg_roles where rolname = $1", main.User.Username()) {
		t.Error("the owner of objects has made themselves a superuser")
	}
	if got := servertest.Value[string](t, superuserURL(t, dir, "main"), "select pg_get_userbyid(proowner) from pg_proc where proname = 'bough_notify_ddl'"); got != "bough" {
		t.Errorf("the event trigger's function belongs to %s", got)
	}
	if !connects(t, s.Main) {
		t.Error("main's URL is another after a restart")
	}
}

// oldDirectory makes a data directory as versions did in which the superuser made everything, with a branch.
func oldDirectory(t *testing.T) (dir string, branch uuid.UUID) {
	t.Helper()
	server := pgtest.Start(t, os.Getenv("BOUGH_TEST_POSTGRES_BIN"), nil)
	ctx := t.Context()
	for _, name := range []string{"main", "bough"} {
		if err := postgres.EnsureDatabase(ctx, server.URL(name)); err != nil {
			t.Fatal(err)
		}
	}
	control, err := pgxpool.New(ctx, server.URL("bough"))
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	if err := postgres.Migrate(ctx, control); err != nil {
		t.Fatal(err)
	}
	q := db.New(control)
	installation, err := q.GetInstallationID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := postgres.OpenCluster(ctx, postgres.ClusterConfig{
		URL: server.URL("main"), Installation: installation, Limits: postgres.PoolLimits{Main: 5, Branch: 2, Total: 10, Idle: time.Minute},
		Drain: time.Second, Jobs: 1, DataPlane: &postgres.DataPlane{
			Roles: postgres.RoleNames{Anon: "anon", Authenticated: "authenticated", Service: "service_role"}, Schemas: []string{"public"}, ManageGrants: true,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	if err := cluster.SetUp(ctx); err != nil {
		t.Fatal(err)
	}
	s := &servertest.Server{}
	s.Exec(t, server.URL("main"), `create table notes (id int primary key, body text); insert into notes select g, 'n' from generate_series(1, 100) g;
		create view v as select * from notes; create function f() returns int language sql as 'select 1'; create schema app; create type app.mood as enum ('a');
		select lo_create(4711); alter table notes enable row level security; create policy p on notes using (auth.uid() is null); grant select on notes to authenticated;
		do $$ begin for i in 1 .. 300 loop execute format('create table app.t%s (id int)', i); end loop; end $$`)
	branch = uuid.New()
	r := postgres.CloneRequest{Source: "main", Target: "branch_old_" + branch.String()[:8], Branch: branch, Generation: 1}
	if _, err := cluster.Clone(ctx, r); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Complete(ctx, r); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, server.URL("bough"), `insert into branches (id, name, slug, database_name, status, type, data_clone_mode, created_by, generation)
		values ($1, 'old', 'old', $2, 'ready', 'preview', 'full_clone', '', 1)`, branch, r.Target)
	if err := server.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	return server.DataDir(), branch
}

// A data directory in which a superuser made everything is brought up to date at the next start, however often that is
// killed on the way.
func TestOldDataDirectoryIsUpgraded(t *testing.T) {
	t.Parallel()
	dir, _ := oldDirectory(t)
	args := []string{"--data-dir", dir, "--pool.total", "10"}
	for _, after := range []time.Duration{300, 500, 700, 900, 1100, 1300} { // from before the server is there to the end
		p := startProcess(t, args, nil)
		select {
		case <-p.done:
			t.Fatalf("it ended:\n%s", p.log)
		case <-time.After(after * time.Millisecond):
		}
		p.kill()
	}
	p := start(t, args, nil)
	c := p.client(t)
	const left = `select coalesce(string_agg(relname, ' '), '') from pg_class
		where oid >= 16384 and relkind in ('r', 'v', 'S') and pg_get_userbyid(relowner) !~ '^bough_[0-9a-f]{8}_owner$'`
	for _, ref := range []string{"main", "old"} {
		u := connection(t, c, ref)
		s := &servertest.Server{}
		if got := servertest.Value[string](t, u, left); got != "" {
			t.Errorf("%s: not the owner's: %s", ref, got)
		}
		s.Exec(t, u, "alter table notes add more int; alter policy p on notes using (true); create or replace function f() returns int language sql as 'select 2'; drop table app.t7; select lo_unlink(4711)")
		if n := servertest.Value[int](t, u, "select count(*) from notes"); n != 100 {
			t.Errorf("%s: %d rows", ref, n)
		}
	}
	if got := servertest.Value[string](t, superuserURL(t, dir, "bough"), "select string_agg(distinct pg_get_userbyid(relowner), ' ') from pg_class where oid >= 16384"); got != "bough_engine" {
		t.Errorf("the control database's tables belong to %s", got)
	}
	createReady(t, c, "new")
	ok[*client.ResetBranchResponse](t, 200)(c.ResetBranchWithResponse(t.Context(), "old"))
	ok[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "old", nil))
	if n := servertest.Value[int](t, superuserURL(t, dir, "main"), "select count(*) from pg_roles where rolname ~ '^bough_[0-9a-f]{8}_[0-9a-f]{12}$'"); n != 1 {
		t.Errorf("%d logins of branches, want that of one", n)
	}
}

// What only a superuser may do is done by a command on the server's machine.
func TestPostgresSQLWorksAsSuperuser(t *testing.T) {
	t.Parallel()
	dir := pgtest.Cluster(t, "")
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(path, args...)
		cmd.Env, cmd.Dir = append(os.Environ(), "BOUGH_CONFIG="+filepath.Join(t.TempDir(), "cli.yaml")), t.TempDir()
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("postgres", "sql", "--data-dir", dir, "-c", "select 1"); err == nil || !strings.Contains(out, "no server is running") {
		t.Errorf("without a server: %s, %v", out, err)
	}
	p := start(t, []string{"--data-dir", dir}, nil)
	if out, err := run("postgres", "sql", "--data-dir", dir, "-o", "csv", "-c", "create extension file_fdw; select rolsuper from pg_roles where rolname = current_user"); err != nil || !strings.Contains(out, "\nt\n") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run("postgres", "sql", "--database-url", "postgres://x", "-c", "select 1"); err == nil {
		t.Errorf("with an external server: %s", out)
	}
	// A branch has the extension too, although its login may not create it.
	wait := "wait=60"
	b := ok[*client.CreateBranchResponse](t, 201)(p.client(t).CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{Prefer: &wait},
		client.CreateBranchRequest{Name: "demo"})).JSON201
	if b.Status != client.BranchStatusReady {
		t.Fatalf("status %s\n%s", b.Status, p.log)
	}
	if n := servertest.Value[int](t, connection(t, p.client(t), "demo"), "select count(*) from pg_extension where extname = 'file_fdw'"); n != 1 {
		t.Errorf("%s extensions", strconv.Itoa(n))
	}
}
