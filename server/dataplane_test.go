package server_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/servertest"
)

// ownRoles are settings with names of roles that no other test has; the roles are dropped after the test.
func ownRoles(t *testing.T) (change func(*server.Config), args []string) {
	t.Helper()
	tag := "_" + uuid.NewString()[:8]
	super := pgtest.ServerURL(t)
	for _, name := range []string{"anon", "authenticated", "service"} {
		t.Cleanup(func() { drop(t, super, "role if exists "+name+tag) })
		args = append(args, "--roles."+name, name+tag)
	}
	return func(c *server.Config) {
		c.Roles.Anon, c.Roles.Authenticated, c.Roles.Service = "anon"+tag, "authenticated"+tag, "service"+tag
	}, args
}

// findings returns what the doctor says, one finding a line.
func findings(t *testing.T, cfg server.Config) string {
	t.Helper()
	var lines []string
	for _, f := range server.Diagnose(t.Context(), cfg) {
		lines = append(lines, fmt.Sprintf("%s: %s", f.Level, f.Text))
	}
	return strings.Join(lines, "\n")
}

func TestDoctorTellsOfTheDataPlane(t *testing.T) {
	t.Parallel()
	change, _ := ownRoles(t)
	s := servertest.Databases(t)
	s.Exec(t, s.Main, "create table t (id int)")
	cfg := servertest.Config(t, s.Main, s.Control, change)
	before := findings(t, cfg)
	for _, want := range []string{
		"warn: requests of users are refused", "warn: functions for policies are not there or out of date: auth.jwt, auth.uid, auth.role, auth.email, auth.scopes",
		"ok: there is no event trigger",
	} {
		if !strings.Contains(before, want) {
			t.Errorf("before the first start the doctor does not say %q:\n%s", want, before)
		}
	}
	if n := servertest.Value[int64](t, s.Main, "select count(*) from pg_roles where rolname = $1", cfg.Roles.Anon); n != 0 {
		t.Error("the doctor made a role")
	}
	stop := s.Run(t, change)
	defer stop()
	after := findings(t, cfg)
	for _, want := range []string{
		"ok: data requests run as " + cfg.Roles.Anon + ", " + cfg.Roles.Authenticated + " and " + cfg.Roles.Service,
		"ok: schema auth has its functions", "ok: an event trigger tells",
	} {
		if !strings.Contains(after, want) {
			t.Errorf("afterwards the doctor does not say %q:\n%s", want, after)
		}
	}
	cfg.API.Schemas = []string{"public", "nowhere"}
	if got := findings(t, cfg); !strings.Contains(got, "warn: api.schemas names what main does not have: nowhere") {
		t.Errorf("the doctor does not miss the schema:\n%s", got)
	}
}

// Branches that were made by a program that knew nothing of the data plane have it soon after a start.
func TestOldBranchesAreBroughtUpToDate(t *testing.T) {
	t.Parallel()
	change, _ := ownRoles(t)
	s := servertest.Databases(t)
	stop := s.Run(t, change)
	c := s.Service(t)
	createReady(t, c, "old")
	old := connection(t, c, "old")
	for _, damage := range []string{"drop schema auth cascade", "comment on schema public is 'kept'"} {
		s.Exec(t, old, damage)
	}
	stop()
	s.Run(t, change)
	eventually(t, "the branch has schema auth", func() bool {
		return servertest.Value[bool](t, old, `select to_regprocedure('auth.uid()') is not null and count(*) = 2 from pg_event_trigger`)
	})
}

// A role that may make neither roles nor event triggers is enough to start, to make branches and to serve keys.
func TestRoleThatMayOnlyMakeDatabases(t *testing.T) {
	t.Parallel()
	_, args := ownRoles(t)
	super := pgtest.ServerURL(t)
	name := "minimal_" + uuid.NewString()[:8]
	s := &servertest.Server{}
	s.Exec(t, super, "create role "+name+" login createdb password 'x'")
	t.Cleanup(func() { drop(t, super, "role if exists "+name) })
	s.Exec(t, super, "create database "+name+" owner "+name)
	t.Cleanup(func() { drop(t, super, "database if exists "+name+" with (force)") })
	t.Cleanup(func() { drop(t, super, "database if exists "+name+"_control with (force)") })
	u, err := url.Parse(super)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "x")
	s.Main = pgtest.WithDatabase(u.String(), name)
	s.Control = pgtest.WithDatabase(u.String(), name+"_control") // made by the server
	p := start(t, slices.Concat([]string{"--database-url", s.Main, "--control-database-url", s.Control, "--pool.total", "10"}, args), nil)
	c := p.client(t)
	createReady(t, c, "demo")
	branch := connection(t, c, "demo")
	if v := servertest.Value[bool](t, branch, "select auth.uid() is null"); !v {
		t.Error("the branch has no auth.uid()")
	}
	ok[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "demo", nil))
	p.stop(t)
	for _, want := range []string{"requests of users are refused", "with inherit false, set true", "(the connection's role)"} {
		if servertest.Value[int](t, super, "select current_setting('server_version_num')::int") < 160000 && strings.Contains(want, "inherit") {
			continue
		}
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, p.log)
		}
	}
}

// What one role may see, another may not: the roles work as policies expect, in main and in a branch.
func TestRolesAndPoliciesWorkTogether(t *testing.T) {
	t.Parallel()
	change, _ := ownRoles(t)
	s := servertest.Databases(t)
	s.Run(t, change)
	cfg := servertest.Config(t, s.Main, s.Control, change)
	mine, other := uuid.New(), uuid.New()
	s.Exec(t, s.Main, `create table notes (owner uuid, text text)`)
	s.Exec(t, s.Main, `alter table notes enable row level security`)
	s.Exec(t, s.Main, `create policy own on notes using (owner = (select auth.uid()))`)
	s.Exec(t, s.Main, `grant select on notes to `+cfg.Roles.Authenticated)
	s.Exec(t, s.Main, `insert into notes values ($1, 'mine'), ($2, 'other''s')`, mine, other)
	c := s.Service(t)
	createReady(t, c, "demo")
	for _, database := range []string{s.Main, connection(t, c, "demo")} {
		conn, err := pgx.Connect(t.Context(), database)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		for _, tc := range []struct{ role, claims, want string }{
			{cfg.Roles.Authenticated, `{"sub":"` + mine.String() + `"}`, "mine"},
			{cfg.Roles.Authenticated, ``, ""},
			{cfg.Roles.Service, ``, "mine other's"},
			{cfg.Roles.Anon, ``, "permission denied for table notes"},
		} {
			var got string
			err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), "select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)", tc.role, tc.claims); err != nil {
					return err
				}
				return tx.QueryRow(t.Context(), "select coalesce(string_agg(text, ' ' order by text), '') from notes").Scan(&got)
			})
			if err != nil {
				got = err.Error()
			}
			if got != tc.want && (tc.want == "" || !strings.Contains(got, tc.want)) {
				t.Errorf("%s with claims %q sees %q, want %q", tc.role, tc.claims, got, tc.want)
			}
		}
	}
}
