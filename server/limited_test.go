package server_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
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
	image := postgres.ImageName(ok[*client.GetBranchResponse](t, 200)(c.GetBranchWithResponse(t.Context(), "main")).JSON200.ID)
	t.Cleanup(func() { drop(t, super, "database if exists "+image+" with (force)") })
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

// A role that may only make databases serves requests and branches as before there were roles of their own; it is said what
// is missing.
func TestRoleThatOnlyCreatesDatabases(t *testing.T) {
	t.Parallel()
	_, roles := ownRoles(t)
	super := pgtest.ServerURL(t)
	name := "dbs_" + uuid.NewString()[:8]
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
	s.Exec(t, s.Main, "create table t (id int primary key, v text); insert into t values (1, 'main')")
	p := start(t, slices.Concat([]string{"--database-url", s.Main, "--control-database-url", pgtest.WithDatabase(u.String(), name+"_control"), "--pool.total", "10"}, roles), nil)
	c := p.client(t)
	createReady(t, c, "demo")
	for _, branch := range []string{"main", "demo"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/api/v1/tables/t", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Service-Key", servertest.ServiceKey)
		req.Header.Set("X-Branch", branch)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || !strings.Contains(string(body), `"main"`) {
			t.Errorf("%s: %d %s", branch, resp.StatusCode, body)
		}
		if got := servertest.Value[string](t, connection(t, c, branch), "select session_user::text"); got != name {
			t.Errorf("the login of %s is %s", branch, got)
		}
	}
	if log := p.log.String(); !strings.Contains(log, "may not create roles") || !strings.Contains(log, "migrations by MCP are refused") {
		t.Errorf("the log does not say what is missing:\n%s", log)
	}
	ok[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), "demo", nil))
	p.stop(t)
}
