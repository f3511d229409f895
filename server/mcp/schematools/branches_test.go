package schematools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/boughdb/bough/server/postgres"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/gen/db"
	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/mcp/schematools"
	"github.com/boughdb/bough/server/pgtest"
)

// branchURL is where a branch's database is.
func (b *bundle) branchURL(t *testing.T, slug string) string {
	t.Helper()
	url, err := b.deps.Branches.Connection(t.Context(), b.service, slug)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func TestBranchesComeAndGo(t *testing.T) {
	t.Parallel()
	b := setup(t, "create table things (n int); insert into things values (1), (2)")
	a := b.call(t, b.reader, "create_branch", "", `{"name":"Try It"}`)
	if a.get("branch") != "try-it" || a.get("ready") != true || a.get("status") != "ready" || !strings.Contains(a.Summary, "is ready") {
		t.Fatalf("%s: %s", a.Summary, a.JSON)
	}
	expires, err := time.Parse(time.RFC3339, a.get("expires_at").(string))
	if err != nil || time.Until(expires) < 23*time.Hour || time.Until(expires) > 24*time.Hour {
		t.Errorf("expires at %s", expires)
	}
	full := b.call(t, b.service, "create_branch", "", `{"name":"copy","data_clone_mode":"full_clone","type":"persistent"}`)
	if full.get("expires_at") != nil || value[int](t, b.branchURL(t, "copy"), "select count(*) from things") != 2 {
		t.Errorf("%s", full.JSON)
	}
	child := b.call(t, b.service, "create_branch", "", `{"name":"child","from":"copy","expires_in":"2h"}`)
	if child.get("ready") != true {
		t.Errorf("%s", child.JSON)
	}

	list := b.call(t, b.service, "list_branches", "", "{}")
	var got []string
	for _, e := range list.get("branches").([]any) {
		m := e.(map[string]any)
		got = append(got, fmt.Sprint(m["slug"], " of ", m["parent"], " ", m["status"], " ", m["type"], " ", m["data_clone_mode"]))
	}
	if diff := cmp.Diff([]string{
		"child of copy ready preview schema_only", "copy of main ready persistent full_clone", "try-it of main ready preview schema_only",
		"main of <nil> ready persistent full_clone",
	}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for arguments, want := range map[string]float64{`{"type":"persistent"}`: 2, `{"status":"error"}`: 0, `{"limit":1}`: 4} {
		if a := b.call(t, b.service, "list_branches", "", arguments); a.get("total") != want {
			t.Errorf("%s: %s", arguments, a.JSON)
		}
	}
	if a := b.call(t, b.reader, "list_branches", "", "{}"); a.get("total") != 2.0 || strings.Contains(a.JSON, "copy") {
		t.Errorf("a user sees %s", a.JSON)
	}
	if a := b.call(t, b.user, "list_branches", "", "{}"); a.get("total") != 0.0 {
		t.Errorf("another user sees %s", a.JSON)
	}

	shown := b.call(t, b.service, "get_branch", "", `{"branch":"child"}`)
	if shown.get("parent") != "copy" || !strings.Contains(shown.JSON, `"action":"ready"`) || !strings.Contains(shown.JSON, `"action":"created"`) || strings.Contains(shown.JSON, "postgres://") {
		t.Errorf("%s", shown.JSON)
	}
	b.call(t, b.reader, "get_branch", "", `{"branch":"main"}`)
	b.refused(t, b.user, "get_branch", "", `{"branch":"try-it"}`, "branch_not_found", "no branch")
	b.refused(t, b.service, "get_branch", "", `{"branch":"nowhere"}`, "branch_not_found", "nowhere")

	// Resetting.
	b.exec(t, b.branchURL(t, "copy"), "insert into things values (3)")
	b.refused(t, b.service, "reset_branch", "", `{"branch":"copy"}`, "validation_error", `confirm: "copy"`)
	b.refused(t, b.service, "reset_branch", "", `{"branch":"copy","confirm":"yes"}`, "validation_error", "confirm")
	b.refused(t, b.user, "reset_branch", "", `{"branch":"copy","confirm":"copy"}`, "branch_not_found", "copy")
	b.refused(t, b.service, "reset_branch", "", `{"branch":"main","confirm":"main"}`, "cannot_reset_main", "main")
	if n := value[int](t, b.branchURL(t, "copy"), "select count(*) from things"); n != 3 {
		t.Errorf("a reset that was refused: %d rows", n)
	}
	if a := b.call(t, b.service, "reset_branch", "", `{"branch":"copy","confirm":"copy"}`); a.get("ready") != true {
		t.Errorf("%s", a.JSON)
	}
	if n := value[int](t, b.branchURL(t, "copy"), "select count(*) from things"); n != 2 {
		t.Errorf("after the reset: %d rows", n)
	}

	// Deleting.
	b.refused(t, b.service, "delete_branch", "", `{"branch":"copy"}`, "validation_error", `confirm: "copy"`)
	b.refused(t, b.service, "delete_branch", "", `{"branch":"copy","confirm":"copy"}`, "has_children", "delete those first")
	b.refused(t, b.service, "delete_branch", "", `{"branch":"main","confirm":"main"}`, "cannot_delete_main", "main")
	b.refused(t, b.user, "delete_branch", "", `{"branch":"try-it","confirm":"try-it"}`, "branch_not_found", "no branch")
	b.call(t, b.service, "delete_branch", "", `{"branch":"child","confirm":"child"}`)
	b.call(t, b.service, "delete_branch", "", `{"branch":"copy","confirm":"copy"}`)
	b.refused(t, b.service, "delete_branch", "", `{"branch":"copy","confirm":"copy"}`, "branch_not_found", "copy")
	b.call(t, b.reader, "delete_branch", "", `{"branch":"try-it","confirm":"try-it"}`)
}

func TestCreateBranchIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, tc := range []struct {
		who                   *auth.Principal
		arguments, code, want string
	}{
		{b.user, `{"name":"mine"}`, "access_denied", "read access"},
		{b.reader, `{"name":"mine","data_clone_mode":"full_clone"}`, "access_denied", "admin access"},
		{b.service, `{"name":"main"}`, "validation_error", "reserved"},
		{b.service, `{"name":"x","expires_in":"soon"}`, "validation_error", "expires_in"},
		{b.service, `{"name":"x","expires_in":"9999d"}`, "validation_error", "at most"},
		{b.service, `{"name":"x","from":"nowhere"}`, "branch_not_found", "nowhere"},
		{b.service, `{"name":"x","data_clone_mode":"some"}`, "validation_error", "data_clone_mode"},
		{b.service, `{"name":"x","data_clone_mode":"seed_data"}`, "validation_error", "seed_path"},
		{b.service, `{}`, "validation_error", "name"},
		{&auth.Principal{Service: true, Admin: true, Scopes: []string{auth.ReadBranches}}, `{"name":"x"}`, "access_denied", "write:branches"},
	} {
		b.refused(t, tc.who, "create_branch", "", tc.arguments, tc.code, tc.want)
	}
	b.call(t, b.service, "create_branch", "", `{"name":"x","expires_in":"never","from":"main"}`)
	b.refused(t, b.service, "create_branch", "", `{"name":"x"}`, "branch_exists", "x")
}

func TestCompareBranchSchema(t *testing.T) {
	t.Parallel()
	b := setup(t, drafts, blog, draftsKey)
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	same := b.call(t, b.service, "compare_branch_schema", "", `{"branch":"work"}`)
	if same.get("identical") != true || same.get("diff") != "" || same.get("base") != "main" {
		t.Errorf("a new branch: %s", same.JSON)
	}
	b.exec(t, b.branchURL(t, "work"), `alter table posts add column at date; create table tags (name text primary key); drop view titles; alter table drafts add column more int;
		grant select on tags to authenticated; drop policy secretive on posts; create function twice(n int) returns int language sql as 'select 2 * n'; alter type mood add value 'great'`)
	a := b.call(t, b.service, "compare_branch_schema", "", `{"branch":"work"}`)
	for key, want := range map[string][]any{
		"added": {"table public.tags", "function public.twice(n integer)"}, "removed": {"view public.titles"},
		"changed": {"type public.mood", "table public.drafts", "table public.posts"},
	} {
		if diff := cmp.Diff(want, a.get(key)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", key, diff)
		}
	}
	for _, want := range []string{"+ column at date\n", "- policy secretive", "  + enum 'great'\n", "+ table public.tags\n  + table\n  + column name text not null\n", "- view public.titles\n"} {
		if !strings.Contains(a.get("diff").(string), want) {
			t.Errorf("the difference lacks %q:\n%s", want, a.get("diff"))
		}
	}
	back := b.call(t, b.service, "compare_branch_schema", "", `{"branch":"main","base":"work"}`)
	if diff := cmp.Diff([]any{"view public.titles"}, back.get("added")); diff != "" {
		t.Errorf("the other way round (-want +got)\n%s", diff)
	}
	b.refused(t, b.service, "compare_branch_schema", "", `{"branch":"work","base":"work"}`, "validation_error", "another branch")
	b.refused(t, b.service, "compare_branch_schema", "", `{"branch":"work","base":"nowhere"}`, "branch_not_found", "nowhere")
	b.refused(t, b.user, "compare_branch_schema", "", `{"branch":"work"}`, "branch_not_found", "work")

	// A user who may read the branch sees of it what her role sees.
	if _, err := b.deps.Branches.Grant(t.Context(), b.service, "work", b.user.ID, db.AccessLevelRead); err != nil {
		t.Fatal(err)
	}
	less := b.call(t, b.user, "compare_branch_schema", "", `{"branch":"work"}`)
	if strings.Contains(less.JSON, "drafts") || !strings.Contains(less.JSON, "+ column at date") || strings.Contains(less.JSON, "2 * n") {
		t.Errorf("a user sees %s", less.JSON)
	}
}

func TestApplyMigration(t *testing.T) {
	t.Parallel()
	b := setup(t, drafts, blog, draftsKey)
	var told []schematools.Migration
	d := b.deps
	d.Migrated = func(_ context.Context, c *mcp.Call, m schematools.Migration) {
		if c.Branch != "work" || c.Principal != b.admin {
			t.Errorf("told of %+v", c)
		}
		told = append(told, m)
	}
	b.use(d)
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	b.call(t, b.admin, "list_tables", "work", "{}")
	a := b.call(t, b.admin, "apply_migration", "work", `{"name":"add_tags","sql":"-- tags\ncreate table tags (name text primary key, note text default 'a;b');\ncreate function f() returns int language plpgsql as $$ begin return 1; end $$;\ngrant select on tags to authenticated;\nset search_path = nowhere; set role anon;"}`)
	if a.get("statements") != 5.0 || a.get("branch") != "work" || !strings.Contains(a.get("diff").(string), "+ grant select to authenticated\n") {
		t.Errorf("%s", a.JSON)
	}
	if diff := cmp.Diff([]any{"table public.tags", "function public.f()"}, a.get("added")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(told) != 1 || told[0].Name != "add_tags" || !slices.Contains(told[0].Changed, "table public.tags") || told[0].Took <= 0 {
		t.Errorf("told of %+v", told)
	}
	// Others know of it at once, and the session's settings are gone with the session.
	if names := tableNames(b.call(t, b.admin, "list_tables", "work", "{}")); !slices.Contains(names, "tags") {
		t.Errorf("tables: %v", names)
	}
	for range 6 {
		conn, err := b.deps.Acquire(t.Context(), value[string](t, b.branchURL(t, "work"), "select current_database()::text"))
		if err != nil {
			t.Fatal(err)
		}
		var path, role string
		if err := conn.QueryRow(t.Context(), "select current_setting('search_path'), current_user::text").Scan(&path, &role); err != nil {
			t.Fatal(err)
		}
		conn.Release()
		if strings.Contains(path, "nowhere") || role == "anon" {
			t.Errorf("a session has search_path %s and role %s", path, role)
		}
	}
	if value[bool](t, b.main, "select exists (select from pg_class where relname = 'tags')") {
		t.Error("main was changed")
	}
}

// A migration has the rights of its branch's login: it reaches no other database, no file and no program, whoever Bough
// itself works as.
func TestApplyMigrationStaysInItsBranch(t *testing.T) {
	t.Parallel()
	b := setup(t, "create extension dblink; create table secrets (v text); insert into secrets values ('main')")
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	b.call(t, b.service, "create_branch", "", `{"name":"other"}`)
	at := func(url string) string { return value[string](t, url, "select current_database()::text") }
	u, err := url.Parse(b.main)
	if err != nil {
		t.Fatal(err)
	}
	own, err := url.Parse(b.branchURL(t, "work"))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := own.User.Password()
	link := func(database, user, password string) string {
		return quote(fmt.Sprintf("create table got as select * from public.dblink('host=%s port=%s dbname=%s user=%s password=%s', 'select 1') as t (n int)",
			u.Hostname(), u.Port(), database, user, password))
	}
	for name, tc := range map[string]struct{ sql, code, want string }{
		"a program":         {quote("create table got (v text); copy got from program 'id'"), "42501", "program"},
		"a file":            {quote("create table got (v text); copy got from '/etc/passwd'"), "42501", "file"},
		"reading a file":    {quote("create table got as select pg_read_file('/etc/passwd')"), "42501", "pg_read_file"},
		"a superuser":       {quote("create role attacker superuser login"), "42501", "create"},
		"being one":         {quote("alter role current_user superuser"), "42501", "alter"},
		"somebody else":     {quote("set session authorization " + u.User.Username()), "42501", "session authorization"},
		"Bough's own role":  {quote("set role " + u.User.Username()), "42501", "set role"},
		"a setting":         {quote("set log_statement = 'all'"), "42501", "log_statement"},
		"passwords":         {quote("create table got as select * from pg_authid"), "42501", "pg_authid"},
		"an extension":      {quote("create extension file_fdw"), "42501", "create extension"},
		"main by dblink":    {link(at(b.main), own.User.Username(), password), "08001", "could not establish connection"},
		"control by dblink": {link(b.control, own.User.Username(), password), "08001", "could not establish connection"},
		"another branch":    {link(at(b.branchURL(t, "other")), own.User.Username(), password), "08001", "could not establish connection"},
		"renaming main":     {quote("alter database " + at(b.main) + " rename to got"), "42501", "owner of database"},
	} {
		b.refused(t, b.admin, "apply_migration", "work", fmt.Sprintf(`{"name":%q,"sql":%s}`, name, tc.sql), tc.code, tc.want)
	}
	// Where no login is for one database only, there are no migrations.
	d := b.deps
	d.Session = func(context.Context, string) (*postgres.Session, error) { return nil, postgres.ErrNoLogins }
	b.use(d)
	b.refused(t, b.admin, "apply_migration", "work", `{"name":"x","sql":"select 1"}`, "unavailable", "reaches this database only")
}

func TestApplyMigrationIsAtomic(t *testing.T) {
	t.Parallel()
	b := setup(t, "create table things (n int primary key deferrable initially deferred)")
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	url := b.branchURL(t, "work")
	for name, tc := range map[string]struct{ sql, code, want string }{
		"a mistake":       {"create table bad ();\n\nselect\n nothing from nowhere; select 1", "42P01", `statement 2 of 3, line 3: relation "nowhere" does not exist (at "nowhere"); nothing was changed`},
		"syntax":          {"create table bad (); create tabel worse ()", "42601", "statement 2 of 2"},
		"unfit":           {"create table bad (); create index concurrently i on things (n)", "25001", "cannot run inside a transaction block"},
		"vacuum":          {"create table bad (); vacuum", "25001", "cannot run inside a transaction block"},
		"at the commit":   {"create table bad (); insert into things values (1), (1)", "23505", "the commit: duplicate key"},
		"commit inside":   {"create table bad (); do $$ begin commit; end $$", "2D000", "invalid transaction termination"},
		"executed":        {"create table bad (); do $$ begin execute 'commit'; end $$", "0A000", "EXECUTE of transaction commands"},
		"in a procedure":  {"create table bad (); create procedure p() language plpgsql as 'begin commit; end'; call p()", "2D000", "invalid transaction termination"},
		"raised":          {"create table bad (); do $$ begin raise exception 'no' using detail = 'why', hint = 'how'; end $$", "P0001", "why | how"},
		"commit":          {"create table bad (); commit; select 1", "validation_error", "statement 2 of 3, line 1: commit: the statements run in one transaction"},
		"end":             {"create table bad (); end", "validation_error", "end: "},
		"stuck to it":     {"create table bad ();commit", "validation_error", "commit: "},
		"after a comment": {"create table bad (); /* ' */ -- $$\n COMMIT and chain", "validation_error", "commit: "},
		"rollback":        {"create table bad (); rollback; create table worse ()", "validation_error", "rollback: "},
		"begin":           {"begin; create table bad (); commit", "validation_error", "begin: "},
		"savepoint":       {"savepoint s; create table bad ()", "validation_error", "savepoint: "},
		"two-phase":       {"create table bad (); prepare transaction 'x'", "validation_error", "prepare transaction: "},
		"isolation":       {"set transaction isolation level serializable; create table bad ()", "validation_error", "set transaction: "},
		"copy":            {"create table bad (); copy things from stdin", "validation_error", "use insert"},
		"open quote":      {"create table bad (); select 'x", "validation_error", "has no end"},
		"other quotes":    {`set standard_conforming_strings = off; select '\'; create table bad (); select '; commit; --'; select 1/0`, "42601", "nothing was changed"},
		"unknown space":   {"create table bad (); \u00a0commit", "42601", "nothing was changed"},
		"nothing":         {" -- nothing\n;", "validation_error", "has no statement"},
	} {
		arguments := fmt.Sprintf(`{"name":%q,"sql":%s}`, name, quote(tc.sql))
		b.refused(t, b.admin, "apply_migration", "work", arguments, tc.code, tc.want)
		if value[bool](t, url, "select exists (select from pg_class where relname in ('bad', 'worse'))") {
			t.Errorf("%s: something was changed", name)
		}
	}
	if n := value[int](t, url, "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'"); n != 0 {
		t.Errorf("%d transactions are left open", n)
	}
}

// A migration that is given up leaves nothing behind, neither a change nor a lock.
func TestApplyMigrationIsGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t, "create table things (n int)")
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	// A superuser's, who sees the statements of others.
	url := pgtest.WithDatabase(b.main, value[string](t, b.branchURL(t, "work"), "select current_database()::text"))
	start := func(ctx context.Context, sql string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := b.tryIn(ctx, t, b.service, "apply_migration", "work", fmt.Sprintf(`{"name":"slow","sql":%s}`, quote(sql)))
			done <- err
		}()
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := start(ctx, "alter table things add m int; select pg_sleep(30)")
	eventually(t, "the statement runs", func() bool {
		return value[int](t, url, "select count(*) from pg_stat_activity where query = 'select pg_sleep(30)' and datname = current_database()") > 0
	})
	cancel()
	err := <-done
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Timeout || !strings.Contains(f.Message, "statement 2 of 2") {
		t.Errorf("%v", err)
	}
	const left = "select count(*) from pg_stat_activity where datname = current_database() and (state like 'idle in transaction%' or query like '%pg_sleep(30)%') and pid <> pg_backend_pid()"
	eventually(t, "the statement is over", func() bool { return value[int](t, url, left) == 0 })
	b.exec(t, url, "set lock_timeout = '1s'; alter table things add m int")

	// A session that dies under it.
	done = start(context.Background(), "alter table things add k int; select pg_sleep(31)")
	const kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where query = 'select pg_sleep(31)' and datname = current_database()"
	eventually(t, "the statement runs", func() bool { return value[int](t, url, kill) > 0 })
	if err := <-done; err == nil {
		t.Error("no error although the session was ended")
	}
	if value[bool](t, url, "select exists (select from pg_attribute where attrelid = 'things'::regclass and attname = 'k')") {
		t.Error("half of the migration is there")
	}
	b.call(t, b.service, "apply_migration", "work", `{"name":"again","sql":"alter table things add k int"}`)
}

// A lock that somebody holds is not waited for without end, and what waits behind the migration gets on.
func TestApplyMigrationGivesWay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a lock as long as a migration does")
	}
	b := setup(t, "create table things (n int)")
	b.call(t, b.service, "create_branch", "", `{"name":"work"}`)
	conn, err := pgx.Connect(t.Context(), b.branchURL(t, "work"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "begin; lock table things in share mode"); err != nil {
		t.Fatal(err)
	}
	b.refused(t, b.service, "apply_migration", "work", `{"name":"x","sql":"alter table things add m int"}`, "55P03", "holds a lock")
}

func TestWhoMayMigrateWhat(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.call(t, b.reader, "create_branch", "", `{"name":"work"}`)
	const arguments = `{"name":"x","sql":"create table made ()"}`
	b.refused(t, b.reader, "apply_migration", "work", arguments, "access_denied", "administrators")
	b.refused(t, b.user, "apply_migration", "main", arguments, "access_denied", "administrators")
	b.refused(t, b.service, "apply_migration", "main", arguments, "access_denied", "main are not allowed on this server")
	b.refused(t, b.service, "apply_migration", "main", `{"name":"x","sql":"create table made ()","confirm":"main"}`, "access_denied", "main are not allowed on this server")
	d := b.deps
	d.AllowMigrateMain = true
	b.use(d)
	b.refused(t, b.reader, "apply_migration", "main", arguments, "access_denied", "administrators")
	b.refused(t, b.service, "apply_migration", "main", arguments, "validation_error", `confirm: "main"`)
	if value[bool](t, b.main, "select exists (select from pg_class where relname = 'made')") {
		t.Error("a migration was not refused")
	}
	if a := b.call(t, b.service, "apply_migration", "main", `{"name":"x","sql":"create table made ()","confirm":"main"}`); !strings.Contains(a.JSON, "table public.made") {
		t.Errorf("%s", a.JSON)
	}
}

// quote is a text as JSON.
func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}
