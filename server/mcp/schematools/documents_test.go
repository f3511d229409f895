package schematools_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/mcp/schematools"
	"github.com/boughdb/bough/server/pgtest"
)

// at is a call of what is no tool, by somebody at a branch.
func (b *bundle) at(t *testing.T, p *auth.Principal, branch string) *mcp.Call {
	t.Helper()
	route, err := b.deps.Branches.Route(t.Context(), p, branch, false)
	if err != nil {
		t.Fatal(err)
	}
	return &mcp.Call{Principal: p, Branch: route.Slug, Database: route.Database}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	b := setup(t, drafts, blog, draftsKey)
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	b.call(t, b.service, "create_branch", "", `{"name":"other"}`)
	read := func(p *auth.Principal, branch, uri string) (string, error) {
		c := b.at(t, p, branch)
		for _, r := range schematools.Resources(b.deps) {
			if r.URI == uri {
				return r.Read(t.Context(), c)
			}
		}
		for _, tpl := range schematools.Templates(b.deps) {
			names := regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(tpl.URITemplate, -1)
			pattern := "^" + regexp.MustCompile(`\{\w+\}`).ReplaceAllString(tpl.URITemplate, "([^/]+)") + "$"
			m := regexp.MustCompile(pattern).FindStringSubmatch(uri)
			if m == nil {
				continue
			}
			variables := map[string]string{}
			for i, name := range names {
				variables[name[1]], _ = url.PathUnescape(m[i+1])
			}
			return tpl.Read(t.Context(), c, uri, variables)
		}
		t.Fatalf("nothing has the address %s", uri)
		return "", nil
	}
	for _, tc := range []struct {
		who               *auth.Principal
		branch, uri, want string
	}{
		{b.user, "", "db://overview", `"role":"authenticated"`},
		{b.service, "work", "db://overview", `"branch":"work"`},
		{b.user, "", "openapi://document", `{"openapi":"3.0.3"}`},
		{b.user, "", "db://public/posts", `"name":"posts"`},
		{b.user, "", "db://extra/places", `"schema":"extra"`},
		{b.service, "", "db://public/drafts", `"name":"drafts"`},
		{b.service, "", "branch://work", `"slug":"work"`},
		{b.service, "work", "branch://work", `"slug":"work"`},
		{b.reader, "", "branch://main", `"slug":"main"`},
	} {
		text, err := read(tc.who, tc.branch, tc.uri)
		if err != nil || !json.Valid([]byte(text)) || !strings.Contains(text, tc.want) {
			t.Errorf("%s: %v\n%s", tc.uri, err, text)
		}
	}
	for _, tc := range []struct {
		who         *auth.Principal
		branch, uri string
		kind        fault.Kind
	}{
		{b.user, "", "db://public/drafts", fault.NotFound},
		{b.user, "", "db://public/nowhere", fault.NotFound},
		{b.user, "", "db://extra/posts", fault.NotFound},
		{b.user, "", "branch://work", fault.NotFound},
		{b.service, "", "branch://nowhere", fault.NotFound},
		{b.service, "work", "branch://other", fault.Forbidden},
	} {
		text, err := read(tc.who, tc.branch, tc.uri)
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != tc.kind {
			t.Errorf("%s: %v\n%s", tc.uri, err, text)
		}
	}
}

// Prompts name tools that there are, and stay with a branch that a connection is for.
func TestPrompts(t *testing.T) {
	t.Parallel()
	known := map[string]bool{
		"query_table": true, "aggregate_table": true, "run_sql_query": true, "explain_query": true,
		// arguments and what they may be
		"dry_run": true, "data_clone_mode": true, "schema_only": true, "full_clone": true,
	}
	for _, tool := range schematools.Tools(schematools.Deps{}) {
		known[tool.Name] = true
	}
	underscored := regexp.MustCompile(`\b[a-z]+_[a-z_]+\b`)
	check := func(name, text string) {
		for _, word := range underscored.FindAllString(text, -1) {
			if !known[word] {
				t.Errorf("%s speaks of %s", name, word)
			}
		}
	}
	check("instructions", schematools.Instructions)
	if n := strings.Count(schematools.Instructions, "\n"); n > 12 {
		t.Errorf("the instructions have %d lines", n)
	}
	var names []string
	for _, p := range schematools.Prompts(schematools.Deps{}) {
		names = append(names, p.Name)
		bare, err := p.Render(t.Context(), &mcp.Call{Branch: "main"}, map[string]string{})
		if err != nil || bare == "" || strings.Contains(bare, "%!") {
			t.Errorf("%s: %v: %s", p.Name, err, bare)
		}
		check(p.Name, bare)
		for _, a := range p.Arguments {
			text, err := p.Render(t.Context(), &mcp.Call{Branch: "main"}, map[string]string{a.Name: "wildebeest"})
			if err != nil || !strings.Contains(text, "wildebeest") {
				t.Errorf("%s forgets its argument %s: %v", p.Name, a.Name, err)
			}
		}
		if at, err := p.Render(t.Context(), &mcp.Call{Branch: "work"}, map[string]string{}); err != nil || p.Feature == mcp.Schema && !strings.Contains(at, "branch work") {
			t.Errorf("%s forgets the branch: %v", p.Name, err)
		}
	}
	if diff := cmp.Diff([]string{"explore_database", "design_migration", "tune_query", "review_row_security"}, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	b := setup(t, drafts, blog, draftsKey)
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	b.call(t, b.reader, "create_branch", "", `{"name":"mine"}`)
	all := schematools.Completions(b.deps)
	for _, tc := range []struct {
		who                           *auth.Principal
		branch, ref, argument, prefix string
		known                         map[string]string
		want                          []string
	}{
		{b.user, "", "db://{schema}/{table}", "schema", "", nil, []string{"extra", "public"}},
		{b.user, "", "db://{schema}/{table}", "schema", "P", nil, []string{"public"}},
		{b.user, "", "db://{schema}/{table}", "table", "", nil, []string{"authors", "extra.places", "posts", "titles"}},
		{b.user, "", "db://{schema}/{table}", "table", "", map[string]string{"schema": "extra"}, []string{"places"}},
		{b.user, "", "db://{schema}/{table}", "table", "d", map[string]string{"schema": "public"}, nil},
		{b.service, "", "db://{schema}/{table}", "table", "d", map[string]string{"schema": "public"}, []string{"drafts"}},
		{b.user, "", "review_row_security", "table", "Po", nil, []string{"posts"}},
		{b.user, "", "explore_database", "focus", "x", nil, nil},
		{b.user, "", "tune_query", "function", "", nil, []string{"greet"}},
		{b.service, "", "tune_query", "function", "s", nil, []string{"shut"}},
		{b.service, "", "branch://{slug}", "slug", "", nil, []string{"main", "mine", "work"}},
		{b.reader, "", "branch://{slug}", "slug", "", nil, []string{"main", "mine"}},
		{b.user, "", "branch://{slug}", "slug", "m", nil, []string{"main"}},
		{b.service, "work", "branch://{slug}", "slug", "", nil, []string{"work"}},
		{b.service, "", "design_migration", "branch", "w", nil, []string{"work"}},
	} {
		i := slices.IndexFunc(all, func(c mcp.Completion) bool { return c.Ref == tc.ref && c.Argument == tc.argument })
		if i < 0 {
			t.Errorf("nothing completes %s of %s", tc.argument, tc.ref)
			continue
		}
		got, err := all[i].Complete(t.Context(), b.at(t, tc.who, tc.branch), tc.argument, tc.prefix, tc.known)
		if err != nil {
			t.Errorf("%s %q: %v", tc.ref, tc.prefix, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s of %s %q (-want +got)\n%s", tc.argument, tc.ref, tc.prefix, diff)
		}
	}
	// What is completed exists.
	refs := map[string]bool{}
	for _, p := range schematools.Prompts(b.deps) {
		for _, a := range p.Arguments {
			refs[p.Name+" "+a.Name] = true
		}
	}
	for _, tpl := range schematools.Templates(b.deps) {
		for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(tpl.URITemplate, -1) {
			refs[tpl.URITemplate+" "+m[1]] = true
		}
	}
	for _, c := range all {
		if !refs[c.Ref+" "+c.Argument] {
			t.Errorf("%s has no %s", c.Ref, c.Argument)
		}
	}
}

// Bough's role need not be a superuser: the owner of main, who may make databases and roles, does.
func TestToolsWorkWithoutSuperuser(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "", nil)
	main, control := server.URL("main"), server.URL("control")
	for _, u := range []string{main, control} {
		if err := ensure(t, u); err != nil {
			t.Fatal(err)
		}
	}
	if err := migrate(t.Context(), control); err != nil {
		t.Fatal(err)
	}
	b := &bundle{}
	b.exec(t, main, "create role plain login password 'plain' createdb createrole", "alter database main owner to plain", "alter database control owner to plain", "alter schema public owner to plain")
	as, err := url.Parse(main)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.UserPassword("plain", "plain")
	b = setupOn(t, as.String(), control, "create table things (id int primary key, other int references things); insert into things values (1, 1); grant select on things to authenticated")
	for _, tool := range []string{"get_database_overview", "list_tables", "get_advisors"} {
		if a := b.call(t, b.user, tool, "", "{}"); !strings.Contains(a.JSON, "things") {
			t.Errorf("%s: %s", tool, a.JSON)
		}
	}
	b.call(t, b.user, "describe_table", "", `{"table":"things"}`)
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	b.call(t, b.admin, "apply_migration", "work", `{"name":"x","sql":"create table more (id int primary key)"}`)
	if a := b.call(t, b.admin, "compare_branch_schema", "", `{"branch":"work"}`); !slices.Contains(a.get("added").([]any), any("table public.more")) {
		t.Errorf("%s", a.JSON)
	}
	if _, err := b.try(t, b.admin, "list_slow_queries", "", "{}"); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("slow queries: %v", err)
	}
}
