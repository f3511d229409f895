package server_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/servertest"
)

// A role that may log in and make databases and roles, and nothing else, is enough for everything.
func TestRoleWithoutSuperuser(t *testing.T) {
	t.Parallel()
	_, roles := ownRoles(t)
	super := pgtest.ServerURL(t)
	name := "limited_" + uuid.NewString()[:8]
	s := &servertest.Server{}
	s.Exec(t, super, "create role "+name+" login createdb createrole password 'x'")
	var made uuid.UUID
	t.Cleanup(func() { servertest.DropRoles(t, super, made, name) })
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
	s.Exec(t, s.Main, `create table t (id int primary key, v text); insert into t select g, 'main' from generate_series(1, 100) g;
		alter table t enable row level security; create policy p on t using (v <> 'hidden')`)

	p := start(t, slices.Concat([]string{"--database-url", s.Main, "--control-database-url", s.Control, "--pool.total", "10"}, roles), nil)
	made = servertest.Value[uuid.UUID](t, s.Control, "select id from installation")
	c := p.client(t)
	createReady(t, c, "demo")
	i := installation{s: s}
	s.Exec(t, connection(t, c, "demo"), "insert into t values (1000, 'branch')")
	if got := i.rows(t, connection(t, c, "demo")); got != "101/1" {
		t.Errorf("rows of the branch: %s", got)
	}
	if got := i.rows(t, s.Main); got != "100/0" {
		t.Errorf("rows of main: %s", got)
	}
	ok[*client.ResetBranchResponse](t, 200)(c.ResetBranchWithResponse(t.Context(), "demo"))
	if got := i.rows(t, connection(t, c, "demo")); got != "100/0" {
		t.Errorf("rows after reset: %s", got)
	}
	wait := "wait=60"
	empty := ok[*client.CreateBranchResponse](t, 201)(c.CreateBranchWithResponse(t.Context(), &client.CreateBranchParams{Prefer: &wait},
		client.CreateBranchRequest{Name: "empty"})).JSON201
	if empty.Status != client.BranchStatusReady {
		got, _ := c.GetBranchWithResponse(t.Context(), "empty")
		t.Fatalf("%s", got.Body)
	}
	if got := i.rows(t, connection(t, c, "empty")); got != "0/0" {
		t.Errorf("rows of a schema-only branch: %s", got)
	}
	if n := servertest.Value[int64](t, connection(t, c, "empty"), "select count(*) from pg_policy"); n != 1 {
		t.Errorf("%d policies in a schema-only branch", n)
	}
	for _, slug := range []string{"demo", "empty"} {
		// The roles were made with it, so that it may take them on.
		if v := servertest.Value[bool](t, connection(t, c, slug), "select set_config('role', $1, false) = $1 and auth.uid() is null", roles[1]); !v {
			t.Errorf("branch %s: no role, or no auth.uid()", slug)
		}
		ok[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), slug, nil))
	}
	p.stop(t)
}
