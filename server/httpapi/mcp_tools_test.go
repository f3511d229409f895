package httpapi_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/servertest"
)

// diary is what the tools work on: each user's own notes, and procedures that read and write them as their caller.
const diary = `
create table notes (
	id int primary key,
	owner uuid not null default auth.uid(),
	body text not null,
	words int not null default 1
);
comment on table notes is 'What people write down.';
create index on notes (owner);
alter table notes enable row level security;
create policy own on notes using (owner = auth.uid()) with check (owner = auth.uid());
grant select, insert, update, delete on notes to authenticated;
insert into notes (id, owner, body, words) values
	(1, 'ADA', 'tea', 1), (2, 'ADA', 'more tea', 2), (3, 'ADA', 'to be changed', 3), (4, 'ADA', 'to be deleted', 3),
	(11, 'EVE', 'SECRET', 7), (12, 'EVE', 'SECRET', 8);
create table open (name text primary key);
grant select, insert, update, delete on open to authenticated;
create sequence counter;
grant all on sequence counter to authenticated;
create function bodies() returns setof text stable language sql as 'select body from notes order by id';
create function jot(id int, body text) returns int language sql as 'insert into notes (id, body) values (id, body) returning id';
`

// toolWorld is a server with people, their assistants and branches.
type toolWorld struct {
	s        *servertest.Server
	ada, eve uuid.UUID
	ids      *strings.Replacer // ADA, EVE and SECRET in texts
	main     *pgx.Conn
	lab      *pgx.Conn // the branch lab, which Ada may write to: it has other notes, and a column more
	control  *pgx.Conn
	record   *recorder

	// user is Ada's assistant with all scopes that she can allow, admin the administrator's with all that there are.
	user, admin assistant
	// tables and schema may do one thing each, for the administrator: by OAuth, and by keys.
	tables, schema, tablesKey, schemaKey assistant
}

func newToolWorld(t *testing.T) *toolWorld {
	t.Helper()
	s := servertest.Start(t, withMCP)
	w := &toolWorld{s: s, record: &recorder{want: map[string]onRecord{}}}
	for _, email := range []string{ada, eve, root} {
		signUp(t, s, email)
	}
	makeAdmin(t, s, root)
	w.ada, w.eve = userID(t, s, ada), userID(t, s, eve)
	w.ids = strings.NewReplacer("ADA", w.ada.String(), "EVE", w.eve.String(), "SECRET", evesSecret)
	s.Exec(t, s.Main, w.ids.Replace(diary))

	owner := s.Service(t)
	create(t, owner, full("lab"))
	create(t, owner, full("closed"))
	must[*client.GrantBranchAccessResponse](t, 200)(owner.GrantBranchAccessWithResponse(t.Context(), "lab", w.ada, client.GrantAccessRequest{Level: client.AccessLevelWrite}))
	lab := database(t, owner, "lab")
	s.Exec(t, lab, `alter table notes add mood text default 'lab mood'; update notes set body = 'lab ' || body;
		create table only_lab (id int primary key); grant select on only_lab to authenticated;
		create function only_on_lab() returns int stable language sql as 'select 1'`)
	w.main, w.lab, w.control = connect(t, s.Main), connect(t, lab), connect(t, s.Control)

	editor := registerApp(t, s, "My editor")
	w.user = allowed(t, s, editor, ada, append([]string{"read:branches"}, theNine...)...)
	w.user.forAda = true
	w.admin = allowed(t, s, editor, root, append([]string{"read:branches", "write:branches", "write:schema"}, theNine...)...)
	w.tables, w.schema = allowed(t, s, editor, root, "read:tables"), allowed(t, s, editor, root, "read:schema")
	w.tablesKey, w.schemaKey = clientKey(t, s, userID(t, s, root), "read:tables"), clientKey(t, s, userID(t, s, root), "read:schema")
	for _, a := range []*assistant{&w.user, &w.admin, &w.tables, &w.schema, &w.tablesKey, &w.schemaKey} {
		a.record = w.record
	}
	return w
}

// connect returns a connection past the server.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(noContext{t}.Context()) })
	return conn
}

// one is the one value of a query.
func one(t *testing.T, conn *pgx.Conn, sql string) (value string) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// contents are all rows, and what else there is in a database that a caller could change.
const contents = `select concat_ws(e'\n',
	(select string_agg(n::text, ' ' order by id) from notes n), (select string_agg(name, ' ' order by name) from open),
	(select concat(last_value, is_called) from counter),
	(select string_agg(concat(relname, relacl, relowner), ' ' order by oid) from pg_class where relnamespace = 'public'::regnamespace),
	(select count(*) from pg_proc), (select count(*) from pg_namespace where nspname !~ '^pg_(toast_)?temp_'), (select count(*) from pg_attribute a join pg_class c on c.oid = attrelid where relnamespace = 'public'::regnamespace),
	(select count(*) from pg_largeobject_metadata), (select count(*) from pg_extension))`

// state is what is in the databases, and which branches there are.
func (w *toolWorld) state(t *testing.T) string {
	t.Helper()
	return strings.Join([]string{
		one(t, w.main, contents), one(t, w.lab, contents),
		one(t, w.control, "select string_agg(concat_ws(' ', slug, status, database_name, reset_at), ', ' order by slug) from branches where deleted_at is null"),
	}, "\n--\n")
}

// unchanged checks that something changes nothing.
func (w *toolWorld) unchanged(t *testing.T, by func()) {
	t.Helper()
	before := w.state(t)
	by()
	diff(t, "what is in the databases", before, w.state(t))
}

// step is a call and a part of its structured result.
type step struct{ args, want string }

// wrong is a call and a part of what the tool says about it.
type wrong struct{ args, says string }

// toolCase is what a tool is asked in the tests.
type toolCase struct {
	scopes  string // those of its challenge
	admin   bool   // for administrators only
	prepare func(*testing.T, *toolWorld)
	works   []step  // must work, in this order
	after   string  // a query of main that is true afterwards, and was not before
	bad     []wrong // bad arguments
	others  []step  // what Ada gets where she reaches for Eve's rows
	refused []wrong // what Ada is told where she reaches for Eve's rows
	branch  step    // on the branch lab; args has "lab"
}

// Each tool works, on main and on a branch, and for nobody else: a caller without the scope is told which one to ask for,
// bad arguments are explained, and of another user's rows nothing is seen and nothing is changed.
func TestMCPTools(t *testing.T) {
	t.Parallel()
	w := newToolWorld(t)
	names := service(w.s).tools(t)
	if diff(t, "tools with cases", names, slices.Sorted(maps.Keys(toolCases))); t.Failed() {
		t.FailNow()
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { // one after the other: each looks at what all have
			toolCases[name].run(t, w, name)
		})
	}
	w.record.check(t, w.s)
}

func (c *toolCase) run(t *testing.T, w *toolWorld, tool string) {
	who := w.user
	if c.admin {
		who = w.admin
	}
	w.unchanged(t, func() {
		c.withoutScope(t, w, tool)
		for _, bad := range c.bad {
			who.fails(t, tool, w.ids.Replace(bad.args), bad.says)
		}
		for _, bad := range c.refused {
			w.user.fails(t, tool, w.ids.Replace(bad.args), bad.says)
		}
		for _, s := range c.others {
			w.user.gives(t, tool, w.ids.Replace(s.args), w.ids.Replace(s.want))
		}
		// Not of the administrator, who may read all branches.
		if elsewhere := strings.ReplaceAll(c.branch.args, `"lab"`, `"closed"`); elsewhere != c.branch.args && !c.admin {
			w.user.fails(t, tool, elsewhere, "Code: branch_not_found")
		}
		if c.branch.args != "" {
			who.fails(t, tool, strings.ReplaceAll(c.branch.args, `"lab"`, `"nowhere"`), "Code: branch_not_found")
		}
	})
	if c.prepare != nil {
		c.prepare(t, w)
	}
	if c.after != "" && one(t, w.main, "select coalesce(("+c.after+"), false)::text") != "false" {
		t.Fatalf("%s is true before the call", c.after)
	}
	for _, s := range c.works {
		who.gives(t, tool, w.ids.Replace(s.args), w.ids.Replace(s.want))
	}
	if c.after != "" && one(t, w.main, "select ("+c.after+")::text") != "true" {
		t.Errorf("%s is not true after the call", c.after)
	}
	if c.branch.args != "" {
		main := one(t, w.main, contents)
		who.gives(t, tool, c.branch.args, c.branch.want)
		diff(t, "main after a call on a branch", main, one(t, w.main, contents))
	}
}

// withoutScope calls a tool with tokens and keys that are for other things, and the administrator's tools as Ada.
func (c *toolCase) withoutScope(t *testing.T, w *toolWorld, tool string) {
	t.Helper()
	args := "{}" // refused before anything of it is read
	if len(c.works) > 0 {
		args = w.ids.Replace(c.works[0].args)
	}
	lacking := []assistant{w.tables, w.tablesKey}
	if strings.Contains(c.scopes, "read:tables") {
		lacking = []assistant{w.schema, w.schemaKey}
	}
	for _, a := range lacking {
		got := a.call(t, tool, args)
		got.wantsScopes(t, metadataOf(w.s, "/mcp"), strings.Fields(c.scopes)...)
		if slices.Contains(a.tools(t), tool) {
			t.Errorf("the list shows %s without its scope", tool)
		}
	}
	if c.admin {
		got := w.user.call(t, tool, args)
		if got.status != 403 || got.refusal != "access_denied" || got.header.Get("WWW-Authenticate") != "" {
			t.Errorf("a user's call of an administrator's tool was answered %d %s, %v", got.status, got.body, got.header)
		}
	}
}

// gives calls a tool that is to work, and looks at its structured result.
func (a assistant) gives(t *testing.T, tool, args, want string) {
	t.Helper()
	got := a.works(t, tool, args)
	var wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	if lack := within(wanted, got.structured); lack != "" {
		t.Errorf("%s %s: %s\n%s", tool, args, lack, got.body)
	}
	// Programs read the structured result, and models the text: it has all of it.
	data, err := json.Marshal(got.structured)
	if err != nil {
		t.Fatal(err)
	}
	if got.text == "" || len(got.text) < len(data)/2 {
		t.Errorf("%s %s: the text is %q", tool, args, got.text)
	}
}

// What is slow is told where the server counts it, to those who administer the database.
func TestMCPSlowQueries(t *testing.T) {
	t.Parallel()
	own := pgtest.Start(t, "", map[string]string{"shared_preload_libraries": "pg_stat_statements"})
	s := servertest.Databases(t)
	s.Main, s.Control = own.URL("app"), own.URL("control")
	for _, name := range []string{"app", "control"} {
		s.Exec(t, own.URL("postgres"), "create database "+name)
	}
	s.Run(t, withMCP)
	s.Exec(t, s.Main, "create extension pg_stat_statements; create table tortoise (id int); select count(*), pg_sleep(0.05) from tortoise")
	got := service(s).works(t, "list_slow_queries", `{"order": "mean", "limit": 50}`)
	if !strings.Contains(got.text, "from tortoise") {
		t.Errorf("the slowest query is not in the list: %s", got.text)
	}
}
