package schematools_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/mcp/schematools"
	"github.com/boughdb/bough/server/pgtest"
)

const blog = `
create type mood as enum ('sad', 'ok');
create table authors (
  id bigint generated always as identity primary key,
  name varchar(80) not null,
  mood mood not null default 'ok',
  initial text generated always as (left(name, 1)) stored,
  mail text unique,
  constraint mail_is_one check (mail like '%@%')
);
comment on table authors is 'Who writes.';
comment on column authors.mail is 'The address for letters.';
create index authors_mail_lower on authors (lower(mail));
create index authors_name on authors (name);
grant select (id, name, mood, initial), insert (name) on authors to authenticated;
alter table authors enable row level security;
create policy everybody on authors for select to authenticated using (true);
create policy by_mail on authors for update to authenticated using (mail = 'x');
create policy strangers on authors for select to anon using (false);

create table posts (
  id serial primary key,
  author bigint not null references authors on delete cascade,
  title text,
  moods mood[]
);
comment on table posts is 'What they write about the weather.';
grant select, insert, update, delete on posts to authenticated;
alter table posts enable row level security;
alter table posts force row level security;
create policy secretive on posts for select to authenticated using (exists (select from drafts));
create trigger keep before update on posts for each row execute function suppress_redundant_updates_trigger();

create table extra.places (id int primary key, name text);
grant select on extra.places to authenticated;
create view titles as select title from posts;
grant select on titles to authenticated;
create function greet(who text default 'you') returns text language sql stable as $$ select 'hello ' || who $$;
comment on function greet is 'Says something about the weather.';
create function shut() returns int language sql as 'select 1';
revoke execute on function shut from public, authenticated;
insert into authors (name) select 'a' || n from generate_series(1, 30) n;
insert into posts (author, title) select 1 + n % 30, 't' from generate_series(1, 300) n;
analyze;
`

// drafts are hidden from users.
const drafts = `create table drafts (id int primary key, of_post int); revoke all on drafts from public;`

const draftsKey = `alter table drafts add foreign key (of_post) references posts; comment on table drafts is 'weather secrets'`

func TestOverview(t *testing.T) {
	t.Parallel()
	b := setup(t, drafts, blog, draftsKey, "create extension pg_trgm; comment on schema extra is 'More.'")
	a := b.call(t, b.user, "get_database_overview", "main", "{}")
	if a.get("role") != "authenticated" || a.get("branch") != "main" || !strings.Contains(a.JSON, `"pg_trgm 1.6"`) {
		t.Errorf("%s", a.JSON)
	}
	if diff := cmp.Diff([]any{
		map[string]any{"name": "public", "comment": "standard public schema", "tables": 2.0, "views": 1.0, "functions": 1.0},
		map[string]any{"name": "extra", "comment": "More.", "tables": 1.0, "views": 0.0, "functions": 0.0},
	}, a.get("schemas")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if a.get("tables_with_rls") != 2.0 || a.get("tables_without_rls") != 1.0 {
		t.Errorf("%s", a.JSON)
	}
	if strings.Contains(a.JSON, "drafts") || !strings.Contains(a.JSON, `kB, about 300 rows"`) {
		t.Errorf("largest tables: %s", a.JSON)
	}
	all := b.call(t, b.service, "get_database_overview", "main", "{}")
	if !strings.Contains(all.JSON, "drafts") || all.get("role") == "authenticated" {
		t.Errorf("a service key: %s", all.JSON)
	}
}

func TestListTables(t *testing.T) {
	t.Parallel()
	b := setup(t, drafts, blog, draftsKey, "create table log (at date) partition by range (at); create table log_1 partition of log for values from ('2026-01-01') to ('2026-02-01'); grant all on log, log_1 to authenticated; insert into log values ('2026-01-02'); analyze log_1")
	a := b.call(t, b.user, "list_tables", "main", "{}")
	want := `{"schema":"public","tables":[` +
		`{"name":"authors","kind":"table","rows":30,"rls":"on","comment":"Who writes."},` +
		`{"name":"log","kind":"partitioned table","rows":1,"rls":"off"},` +
		`{"name":"posts","kind":"table","rows":300,"rls":"on","comment":"What they write about the weather."},` +
		`{"name":"titles","kind":"view"}],"total":4}`
	if diff := cmp.Diff(want, a.JSON); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !a.Untrusted {
		t.Error("comments are others' text")
	}
	for arguments, want := range map[string][]string{
		`{"schema":"extra"}`:                           {"places"},
		`{"search":"WEATHER"}`:                         {"posts"},
		`{"search":"auth"}`:                            {"authors"},
		`{"search":"100% none"}`:                       {},
		`{"limit":2}`:                                  {"authors", "log"},
		`{"limit":2,"cursor":"bG9n"}`:                  {"posts", "titles"},
		`{"limit":1,"cursor":"dGl0bGVz"}`:              {},
		`{"schema":"public","search":"s","limit":500}`: {"authors", "posts", "titles"},
	} {
		if got := tableNames(b.call(t, b.user, "list_tables", "main", arguments)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", arguments, got, want)
		}
	}
	var walked []string
	cursor := ""
	for range 10 {
		a := b.call(t, b.service, "list_tables", "main", fmt.Sprintf(`{"limit":2,"cursor":%q}`, cursor))
		walked = append(walked, tableNames(a)...)
		if cursor, _ = a.get("next_cursor").(string); cursor == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"authors", "drafts", "log", "posts", "titles"}, walked); diff != "" {
		t.Errorf("page by page (-want +got)\n%s", diff)
	}
	b.refused(t, b.user, "list_tables", "main", `{"schema":"pg_catalog"}`, "validation_error", "exposed schemas: public, extra")
	b.refused(t, b.user, "list_tables", "main", `{"cursor":"?"}`, "validation_error", "next_cursor")
	b.refused(t, b.user, "list_tables", "main", `{"limit":501}`, "validation_error", "limit")
	b.refused(t, b.user, "list_tables", "main", `{"limits":5}`, "validation_error", "limits")
}

func tableNames(a answer) []string {
	names := []string{}
	for _, e := range a.get("tables").([]any) {
		names = append(names, e.(map[string]any)["name"].(string))
	}
	return names
}

// A list of very many tables stays short, whatever their comments are.
func TestListTablesIsCompact(t *testing.T) {
	t.Parallel()
	b := setup(t, `do $$ begin for i in 1..700 loop
		execute format('create table t%s (id int primary key); comment on table t%s is %L', i, i, repeat('long ', 500));
	end loop; end $$`)
	a := b.call(t, b.service, "list_tables", "main", `{}`)
	if len(a.JSON) > 32<<10 || len(tableNames(a)) != 100 || a.get("total") != 700.0 {
		t.Errorf("%d bytes, %d tables of %v", len(a.JSON), len(tableNames(a)), a.get("total"))
	}
}

func TestDescribeTable(t *testing.T) {
	t.Parallel()
	b := setup(t, drafts, blog, draftsKey)
	type object = map[string]any
	a := b.call(t, b.service, "describe_table", "main", `{"table":"authors"}`)
	delete(a.values, "size")
	for i, index := range a.get("indexes").([]any) {
		definition, size, _ := strings.Cut(index.(string), " -- ")
		if !strings.HasSuffix(size, " kB") {
			t.Errorf("size of an index: %q", size)
		}
		a.get("indexes").([]any)[i] = definition
	}
	if diff := cmp.Diff(object{
		"schema": "public", "name": "authors", "kind": "table", "comment": "Who writes.", "rows": 30.0, "rls": "on",
		"privileges": []any{"select", "insert", "update", "delete"},
		"columns": []any{
			object{"name": "id", "type": "bigint", "nullable": false, "identity": "always"},
			object{"name": "name", "type": "character varying(80)", "nullable": false},
			object{"name": "mood", "type": "public.mood", "nullable": false, "default": "'ok'::public.mood", "enum": []any{"sad", "ok"}},
			object{"name": "initial", "type": "text", "nullable": true, "generated": "\"left\"((name)::text, 1)"},
			object{"name": "mail", "type": "text", "nullable": true, "comment": "The address for letters."},
		},
		"primary_key":   []any{"id"},
		"referenced_by": []any{"posts_author_fkey: posts (author) references (id) on delete cascade"},
		"constraints":   []any{"authors_mail_key UNIQUE (mail)", "mail_is_one CHECK ((mail ~~ '%@%'::text))"},
		"indexes": []any{
			"CREATE UNIQUE INDEX authors_pkey ON public.authors USING btree (id)",
			"CREATE UNIQUE INDEX authors_mail_key ON public.authors USING btree (mail)",
			"CREATE INDEX authors_mail_lower ON public.authors USING btree (lower(mail))",
			"CREATE INDEX authors_name ON public.authors USING btree (name)",
		},
		"policies": []any{
			"by_mail for update to authenticated using ((mail = 'x'::text))", "everybody for select to authenticated using (true)", "strangers for select to anon using (false)",
		},
	}, a.values); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	posts := b.call(t, b.service, "describe_table", "main", `{"table":"public.posts"}`)
	for _, want := range []string{
		`"rls":"forced"`, `"foreign_keys":["posts_author_fkey (author) references authors (id) on delete cascade"]`,
		`"referenced_by":["drafts_of_post_fkey: drafts (of_post) references (id)"]`,
		`"triggers":["CREATE TRIGGER keep BEFORE UPDATE`, `"type":"public.mood[]","nullable":true,"enum":["sad","ok"]`, "drafts",
	} {
		if !strings.Contains(posts.JSON, want) {
			t.Errorf("posts lacks %s:\n%s", want, posts.JSON)
		}
	}
	if view := b.call(t, b.service, "describe_table", "main", `{"table":"titles"}`); view.get("kind") != "view" || !strings.Contains(view.JSON, "FROM public.posts") {
		t.Errorf("titles: %s", view.JSON)
	}
	if place := b.call(t, b.user, "describe_table", "main", `{"table":"places"}`); place.get("schema") != "extra" {
		t.Errorf("places: %s", place.JSON)
	}
}

// A user sees nothing of the columns and the tables on which she has no privilege, nor of what speaks of them.
func TestDescribeTableHidesWhatTheRoleMayNotSee(t *testing.T) {
	t.Parallel()
	b := setup(t, drafts, blog, draftsKey)
	a := b.call(t, b.user, "describe_table", "main", `{"table":"authors"}`)
	if strings.Contains(a.JSON, "mail") || strings.Contains(a.JSON, "strangers") {
		t.Errorf("authors: %s", a.JSON)
	}
	if diff := cmp.Diff([]any{"select", "insert"}, a.get("privileges")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !strings.Contains(a.JSON, `{"name":"id","type":"bigint","nullable":false,"identity":"always","access":"select"}`) ||
		!strings.Contains(a.JSON, `{"name":"name","type":"character varying(80)","nullable":false}`) ||
		!strings.Contains(a.JSON, `"everybody for`) || !strings.Contains(a.JSON, `INDEX authors_name `) {
		t.Errorf("authors: %s", a.JSON)
	}
	posts := b.call(t, b.user, "describe_table", "main", `{"table":"posts"}`)
	if strings.Contains(posts.JSON, "drafts") || !strings.Contains(posts.JSON, "posts_author_fkey") {
		t.Errorf("posts: %s", posts.JSON)
	}
	if view := b.call(t, b.user, "describe_table", "main", `{"table":"titles"}`); strings.Contains(view.JSON, "posts") {
		t.Errorf("titles: %s", view.JSON)
	}
	for _, name := range []string{"drafts", "public.drafts", "draft", "nowhere", "pg_class", "pg_catalog.pg_class", "auth.uid"} {
		b.refused(t, b.user, "describe_table", "main", fmt.Sprintf(`{"table":%q}`, name), "not_found", "that you may see")
		_, err := b.try(t, b.user, "describe_table", "main", fmt.Sprintf(`{"table":%q}`, name))
		if strings.Contains(explained(err), "perhaps you meant") {
			t.Errorf("%s: %s", name, explained(err))
		}
	}
	b.refused(t, b.user, "describe_table", "main", `{"table":"autors"}`, "not_found", "perhaps you meant authors")
	b.refused(t, b.service, "describe_table", "main", `{"table":"drfts"}`, "not_found", "perhaps you meant drafts")
	b.refused(t, b.user, "describe_table", "main", `{}`, "validation_error", "table")
}

// What was made a moment ago is found, although the schema was read before.
func TestDescribeTableKnowsNewTables(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.call(t, b.service, "list_tables", "main", "{}")
	b.exec(t, b.main, "create table fresh (id int)")
	b.call(t, b.service, "describe_table", "main", `{"table":"fresh"}`)
}

func TestDescribeTableIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, `do $$ begin
		execute (select 'create table wide (' || string_agg(format('column_%s text default %L', i, repeat('d', 60)), ', ') || ')' from generate_series(1, 900) i);
		execute (select string_agg(format('comment on column wide.column_%s is %L;', i, repeat('c', 200)), '') from generate_series(1, 900) i);
	end $$`)
	a := b.call(t, b.service, "describe_table", "main", `{"table":"wide"}`)
	if len(a.JSON) > 64<<10 || !strings.Contains(a.JSON, `"left_out":["view_definition"`) && !strings.Contains(a.JSON, `"left_out":["comments of columns"`) || !strings.Contains(a.JSON, "column_900") {
		t.Errorf("%d bytes: %.300s", len(a.JSON), a.JSON)
	}
}

func TestSearchSchema(t *testing.T) {
	t.Parallel()
	b := setup(t, drafts, blog, draftsKey)
	for _, tc := range []struct {
		who   *auth.Principal
		query string
		want  []string
	}{
		{b.user, "posts", []string{"table posts"}},
		{b.user, "weather", []string{"table posts", "function greet(who text)"}},
		{b.user, "WEATHER says", []string{"function greet(who text)"}},
		{b.user, "title", []string{"column title", "column title", "table titles"}},
		{b.user, "author name", []string{"column name"}},
		{b.user, "mail", nil},
		{b.user, "letters", nil},
		{b.user, "shut", nil},
		{b.user, "draft", nil},
		{b.user, "nothing at all", nil},
		{b.service, "mail", []string{"column mail"}},
		{b.service, "letters", []string{"column mail"}},
		{b.service, "weather", []string{"table drafts", "table posts", "function greet(who text)"}},
		{b.service, "shut", []string{"function shut()"}},
		{b.user, "places", []string{"table extra.places"}},
	} {
		arguments, _ := json.Marshal(map[string]any{"query": tc.query})
		a := b.call(t, tc.who, "search_schema", "main", string(arguments))
		var got []string
		for _, m := range a.get("matches").([]any) {
			got = append(got, fmt.Sprint(m.(map[string]any)["kind"], " ", m.(map[string]any)["name"]))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q (-want +got)\n%s", tc.query, diff)
		}
	}
	if a := b.call(t, b.service, "search_schema", "main", `{"query":"i","limit":3}`); len(a.get("matches").([]any)) != 3 || a.get("total").(float64) <= 3 {
		t.Errorf("%s", a.JSON)
	}
	b.refused(t, b.user, "search_schema", "main", `{"query":"  "}`, "validation_error", "query")
	b.refused(t, b.user, "search_schema", "main", `{}`, "validation_error", "query")
}

func TestSlowQueries(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "", map[string]string{"shared_preload_libraries": "pg_stat_statements"})
	main, control := server.URL("main"), server.URL("control")
	for _, url := range []string{main, control} {
		if err := ensure(t, url); err != nil {
			t.Fatal(err)
		}
	}
	if err := migrate(t.Context(), control); err != nil {
		t.Fatal(err)
	}
	b := setupOn(t, main, control)
	b.refused(t, b.admin, "list_slow_queries", "main", "{}", "unavailable", "create extension pg_stat_statements")
	b.exec(t, main, "create schema stats; create extension pg_stat_statements schema stats", "select count(*) from generate_series(1, 300000) where generate_series > 17 /* slow one */")
	for _, order := range []string{"total", "mean"} {
		a := b.call(t, b.admin, "list_slow_queries", "main", fmt.Sprintf(`{"limit":50,"order":%q}`, order))
		list := a.get("queries").([]any)
		found := slices.IndexFunc(list, func(q any) bool { return strings.Contains(q.(map[string]any)["query"].(string), "slow one") })
		if found < 0 || strings.Contains(a.JSON, "300000") || list[found].(map[string]any)["calls"] != 1.0 || a.get("since") == nil || !a.Untrusted {
			t.Errorf("by %s: %s", order, a.JSON)
		}
		for i := 1; i < len(list); i++ {
			if list[i].(map[string]any)[order+"_ms"].(float64) > list[i-1].(map[string]any)[order+"_ms"].(float64) {
				t.Errorf("by %s: %d is out of order", order, i)
			}
		}
	}
	b.call(t, b.service, "list_slow_queries", "main", "{}")
	b.refused(t, b.user, "list_slow_queries", "main", "{}", "access_denied", "administrators")
	b.refused(t, b.admin, "list_slow_queries", "main", `{"order":"worst"}`, "validation_error", "order")
}

func TestSlowQueriesSaysWhatIsNotLoaded(t *testing.T) {
	t.Parallel()
	b := setup(t, "create extension pg_stat_statements")
	b.refused(t, b.service, "list_slow_queries", "main", "{}", "unavailable", "shared_preload_libraries")
}

// The tools are listed in one answer together with others: theirs is bounded.
func TestDefinitionsAreShort(t *testing.T) {
	t.Parallel()
	total := 0
	for _, tool := range schematools.Tools(schematools.Deps{}) {
		data, err := tool.Definition()
		if err != nil {
			t.Fatal(err)
		}
		total += len(data)
		t.Logf("%s: %d", tool.Name, len(data))
	}
	if total > 14<<10 {
		t.Errorf("the definitions have %d bytes", total)
	}
	t.Logf("%d bytes", total)
}

// The names, scopes and hints that clients rely on.
func TestToolsAreAsAgreed(t *testing.T) {
	t.Parallel()
	want := `get_database_overview schema read:schema R I branched
list_tables schema read:schema R I branched
describe_table schema read:schema R I branched
search_schema schema read:schema R I branched
get_advisors schema read:schema R I branched
list_slow_queries schema read:schema R I branched
list_branches branches read:branches R I
get_branch branches read:branches R I
compare_branch_schema branches read:branches,read:schema R I
create_branch branches write:branches
reset_branch branches write:branches D
delete_branch branches write:branches D I
apply_migration branches write:schema D branched
`
	var got strings.Builder
	for _, tool := range schematools.Tools(schematools.Deps{}) {
		fmt.Fprintf(&got, "%s %s %s%s\n", tool.Name, tool.Feature, strings.Join(tool.Scopes, ","), hints(tool))
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func hints(tool mcp.Tool) string {
	var out string
	for _, h := range []struct {
		on   bool
		name string
	}{{tool.ReadOnly, " R"}, {tool.Destructive, " D"}, {tool.Idempotent, " I"}, {tool.OpenWorld, " O"}, {tool.Branched, " branched"}} {
		if h.on {
			out += h.name
		}
	}
	return out
}

// There may be secrets in the arguments and conditions of triggers.
func TestDescribeTableHidesArgumentsOfTriggers(t *testing.T) {
	t.Parallel()
	b := setup(t, `create table called (id int primary key);
		create function hook() returns trigger language plpgsql as $$ begin return new; end $$;
		create trigger hook before insert or update on called for each row when (new.id > 4711) execute function hook('https://example.org', 'Bearer sesame');
		grant select on called to authenticated`)
	open := b.call(t, b.service, "describe_table", "main", `{"table":"called"}`)
	if !strings.Contains(open.JSON, "sesame") {
		t.Errorf("a service key does not see the trigger: %s", open.JSON)
	}
	shut := b.call(t, b.admin, "describe_table", "main", `{"table":"called"}`)
	if strings.Contains(shut.JSON, "sesame") || strings.Contains(shut.JSON, "4711") || !strings.Contains(shut.JSON, `"hook before insert or update for each row"`) {
		t.Errorf("a user sees %s", shut.JSON)
	}
}
