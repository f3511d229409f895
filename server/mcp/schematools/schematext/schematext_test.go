package schematext_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/mcp/schematools/schematext"
	"github.com/boughdb/bough/server/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const start = `
create schema app;
create type app.mood as enum ('sad', 'ok');
create type app.place as (street text, nr int);
create domain app.positive as int not null default 1 check (value > 0);
create table app.people (
  id bigint generated always as identity primary key,
  name varchar(40) not null default 'x' || 'y',
  feeling app.mood,
  wide numeric(10, 2) generated always as (1.5) stored,
  secret text,
  constraint named check (length(name) > 0)
);
create table app.posts (
  id serial primary key,
  author bigint references app.people on delete cascade,
  title text unique,
  at date
) with (fillfactor = 80);
create index on app.posts (at) where title is not null;
create table app.events (at date not null, what text) partition by range (at);
create table app.events_2026 partition of app.events for values from ('2026-01-01') to ('2027-01-01');
create index on app.events (what);
create view app.names with (security_invoker = true) as select id, name from app.people;
create materialized view app.counts as select author, count(*) as n from app.posts group by 1;
create unique index on app.counts (author);
create function app.hello(who text default 'you') returns text language sql stable as $$ select 'hello ' || who $$;
create function app.touch() returns trigger language plpgsql as $$ begin return new; end $$;
create procedure app.work(inout n int) language plpgsql as $$ begin n := n + 1; end $$;
create aggregate app.total(int) (sfunc = int4pl, stype = int, initcond = '0');
create sequence app.numbers increment 2;
create trigger touched before update on app.posts for each row execute function app.touch();
create rule quiet as on delete to app.posts where old.id < 0 do instead nothing;
create policy own on app.people as restrictive for update to text_reader using (id > 0) with check (id > 1);
alter table app.people enable row level security;
create statistics app.both (dependencies) on author, at from app.posts;
comment on table app.people is 'people';
comment on column app.people.name is 'what they are called';
grant usage on schema app to text_reader;
grant select (id, name) on app.people to text_reader;
grant select, insert on app.posts to text_reader with grant option;
revoke execute on function app.hello from public;
`

// database makes a database with the statements in it.
func database(t *testing.T, statements ...string) string {
	t.Helper()
	pgtest.SharedRoles(t, "text_reader", "text_other")
	url := pgtest.Database(t)
	exec(t, url, statements...)
	return url
}

func exec(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func read(t *testing.T, url string, viewer string) []schematext.Object {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var objects []schematext.Object
	err = pgx.BeginTxFunc(t.Context(), conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		objects, err = schematext.Read(t.Context(), tx, schematext.Options{Grantees: []string{"text_reader", "text_other"}, Viewer: viewer})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestEqualSchemasHaveEqualTexts(t *testing.T) {
	t.Parallel()
	// Other oids, and another search_path of the database.
	one := database(t, start)
	other := database(t, "create table x (); drop table x", start, `do $$ begin execute format('alter database %I set search_path = app, public', current_database()); end $$`)
	a, b := read(t, one, ""), read(t, other, "")
	if diff := cmp.Diff(schematext.Text(a), schematext.Text(b)); diff != "" {
		t.Errorf("(-one +other)\n%s", diff)
	}
	if d := schematext.Compare(a, b); !d.Empty() {
		t.Errorf("a difference: %+v", d)
	}
}

func TestTextDescribesObjects(t *testing.T) {
	t.Parallel()
	text := schematext.Text(read(t, database(t, start), ""))
	for _, want := range []string{
		"schema app\n  create schema app\n  grant usage to text_reader\n",
		"type app.mood\n  enum 'sad'\n  enum 'ok'\n",
		"type app.place\n  field street text\n  field nr integer\n",
		"type app.positive\n  domain over integer not null default 1\n  constraint positive_check CHECK ((VALUE > 0))\n",
		"sequence app.numbers\n  sequence as bigint increment 2",
		"sequence app.posts_id_seq\n  sequence as integer increment 1 from 1 to 2147483647 start 1 cache 1 owned by app.posts.id\n",
		`table app.people
  table
  column id bigint not null generated always as identity
  column name character varying(40) not null default ('x'::text || 'y'::text)
  column feeling app.mood
  column wide numeric(10,2) generated always as (1.5) stored
  column secret text
  constraint people_pkey PRIMARY KEY (id)
  constraint named CHECK ((length((name)::text) > 0))
  row level security enabled
  policy own as restrictive for update to text_reader using ((id > 0)) with check ((id > 1))
  grant select (id, name) to text_reader
  comment is 'people'
  comment on column name is 'what they are called'
`,
		`table app.posts
  table with (fillfactor=80)
  column id integer not null default nextval('app.posts_id_seq'::regclass)
  column author bigint
  column title text
  column at date
  constraint posts_pkey PRIMARY KEY (id)
  constraint posts_title_key UNIQUE (title)
  constraint posts_author_fkey FOREIGN KEY (author) REFERENCES app.people(id) ON DELETE CASCADE
  CREATE INDEX posts_at_idx ON app.posts USING btree (at) WHERE (title IS NOT NULL)
  CREATE STATISTICS app."both" (dependencies) ON author, at FROM app.posts
  CREATE TRIGGER touched BEFORE UPDATE ON app.posts FOR EACH ROW EXECUTE FUNCTION app.touch()
  CREATE RULE quiet AS
      ON DELETE TO app.posts
     WHERE (old.id < 0) DO INSTEAD NOTHING;
  grant insert*, select* to text_reader
`,
		"table app.events\n  table partition by RANGE (at)\n  column at date not null\n  column what text\n  CREATE INDEX events_what_idx ON ONLY app.events",
		"table app.events_2026\n  table partition of app.events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01')\n  column at date not null\n  column what text\n",
		"view app.names\n  view with (security_invoker=true)\n  as\n",
		"materialized view app.counts\n  materialized view\n  CREATE UNIQUE INDEX counts_author_idx ON app.counts USING btree (author)\n  as\n",
		"function app.hello(who text)\n  CREATE OR REPLACE FUNCTION app.hello(who text DEFAULT 'you'::text)\n",
		"procedure app.work(INOUT n integer)\n  CREATE OR REPLACE PROCEDURE",
		"aggregate app.total(integer)\n  aggregate returning integer (sfunc int4pl, stype integer, finalfunc -, initcond '0')\n  grant execute to public\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks\n%s", want)
		}
	}
	if strings.Contains(text, "people_id_seq") {
		t.Error("an identity column's sequence is told twice")
	}
	if strings.Contains(text, "function app.hello(who text)\n  grant execute to public") {
		t.Error("a privilege that was revoked is told")
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestCompareFindsChangesOfEveryKind(t *testing.T) {
	t.Parallel()
	before := read(t, database(t, start), "")
	for name, tc := range map[string]struct{ sql, want string }{
		"table added":          {"create table app.new (n int primary key)", "+ table app.new\n  + table\n  + column n integer not null\n  + constraint new_pkey PRIMARY KEY (n)\n"},
		"table removed":        {"drop table app.posts cascade", "- table app.posts\n"},
		"unlogged":             {"alter table app.events_2026 set unlogged", "~ table app.events_2026\n  - table partition of"},
		"column added":         {"alter table app.people add age int not null default 3", "+ column age integer not null default 3\n"},
		"column removed":       {"alter table app.people drop secret", "- column secret text\n"},
		"column renamed":       {"alter table app.people rename secret to hint", "- column secret text\n  + column hint text\n"},
		"column's type":        {"alter table app.people alter secret type varchar(3)", "- column secret text\n  + column secret character varying(3)\n"},
		"column's collation":   {`alter table app.people alter secret type text collate "C"`, `+ column secret text collate "C"`},
		"not null":             {"alter table app.people alter secret set not null", "+ column secret text not null\n"},
		"default":              {"alter table app.people alter secret set default 'q'", "+ column secret text default 'q'::text\n"},
		"default removed":      {"alter table app.people alter name drop default", "+ column name character varying(40) not null\n"},
		"identity":             {"alter table app.people alter id set generated by default", "+ column id bigint not null generated by default as identity\n"},
		"check":                {"alter table app.posts add constraint later check (at > '2000-01-01')", "+ constraint later CHECK ((at > '2000-01-01'::date))\n"},
		"foreign key":          {"alter table app.posts drop constraint posts_author_fkey", "- constraint posts_author_fkey FOREIGN KEY"},
		"constraint not valid": {"alter table app.posts add constraint later check (id > 0) not valid", "+ constraint later CHECK ((id > 0)) NOT VALID\n"},
		"index added":          {"create index extra on app.posts using hash (title)", "+ CREATE INDEX extra ON app.posts USING hash (title)\n"},
		"index removed":        {"drop index app.posts_at_idx", "- CREATE INDEX posts_at_idx"},
		"row level security":   {"alter table app.people disable row level security", "- row level security enabled\n"},
		"forced":               {"alter table app.people force row level security", "+ row level security enabled, forced\n"},
		"policy added":         {"create policy p on app.people using (true)", "+ policy p for all to public using (true)\n"},
		"policy changed":       {"alter policy own on app.people to text_other using (id > 2)", "+ policy own as restrictive for update to text_other using ((id > 2)) with check ((id > 1))\n"},
		"trigger removed":      {"drop trigger touched on app.posts", "- CREATE TRIGGER touched"},
		"trigger disabled":     {"alter table app.posts disable trigger touched", "EXECUTE FUNCTION app.touch() (disabled)\n"},
		"rule removed":         {"drop rule quiet on app.posts", "- CREATE RULE quiet AS\n"},
		"statistics":           {"drop statistics app.both", "- CREATE STATISTICS"},
		"view":                 {"create or replace view app.names as select id, name, 1 as one from app.people", "~ view app.names\n  "},
		"view's option":        {"alter view app.names reset (security_invoker)", "- view with (security_invoker=true)\n  + view\n"},
		"materialized view":    {"drop materialized view app.counts", "- materialized view app.counts\n"},
		"function's body":      {"create or replace function app.hello(who text default 'you') returns text language sql stable as $$ select 'good day ' || who $$", "- AS $function$ select 'hello ' || who $function$\n  + AS $function$ select 'good day ' || who $function$\n"},
		"function added":       {"create function app.hello(n int) returns int language sql return n", "+ function app.hello(n integer)\n"},
		"procedure removed":    {"drop procedure app.work", "- procedure app.work(INOUT n integer)\n"},
		"aggregate removed":    {"drop aggregate app.total(int)", "- aggregate app.total(integer)\n"},
		"enum":                 {"alter type app.mood add value 'fine' before 'ok'", "  enum 'sad'\n  + enum 'fine'\n    enum 'ok'\n"},
		"composite":            {"alter type app.place add attribute town text", "+ field town text\n"},
		"domain":               {"alter domain app.positive drop constraint positive_check", "- constraint positive_check"},
		"range":                {"create type app.span as range (subtype = date)", "+ type app.span\n  + range over date\n"},
		"sequence":             {"alter sequence app.numbers cycle", "cycle\n"},
		"schema added":         {"create schema more", "+ schema more\n  + create schema more\n"},
		"extension":            {"create extension pg_trgm", "+ extension pg_trgm\n"},
		"comment":              {"comment on table app.people is 'folk'", "- comment is 'people'\n  + comment is 'folk'\n"},
		"comment on column":    {"comment on column app.posts.at is 'when'", "+ comment on column at is 'when'\n"},
		"comment on policy":    {"comment on policy own on app.people is 'mine'", "+ comment on policy own is 'mine'\n"},
		"comment on function":  {"comment on function app.hello is 'hi'", "+ comment is 'hi'\n"},
		"grant":                {"grant update on app.posts to text_other", "+ grant update to text_other\n"},
		"grant on columns":     {"grant update (name) on app.people to text_reader", "+ grant update (name) to text_reader\n"},
		"grant on a function":  {"grant execute on function app.hello to text_other", "~ function app.hello(who text)\n"},
		"revoke":               {"revoke usage on schema app from text_reader", "- grant usage to text_reader\n"},
		"partition detached":   {"alter table app.events detach partition app.events_2026", "- table partition of app.events"},
		"event trigger": {"create function app.ev() returns event_trigger language plpgsql as 'begin end'; create event trigger watch on ddl_command_end execute function app.ev()",
			"+ event trigger watch\n  + on ddl_command_end execute function app.ev\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Template(t, "start", func(ctx context.Context, url string) error {
				conn, err := pgx.Connect(ctx, url)
				if err != nil {
					return err
				}
				defer conn.Close(ctx)
				_, err = conn.Exec(ctx, start)
				return err
			})
			exec(t, url, tc.sql)
			after := read(t, url, "")
			d := schematext.Compare(before, after)
			text, left := d.Text(16 << 10)
			if !strings.Contains(text, tc.want) || left != 0 {
				t.Errorf("the difference is\n%s\nand lacks\n%s", text, tc.want)
			}
			back, _ := schematext.Compare(after, before).Text(16 << 10)
			if back == "" || back == text {
				t.Errorf("the other way round the difference is\n%s", back)
			}
		})
	}
}

// What somebody has no privilege on does not show in her view of the schema, nor what speaks of it.
func TestViewerSeesLess(t *testing.T) {
	t.Parallel()
	url := database(t, start, `
		create table app.hidden (id int primary key, note text);
		grant select on app.names to text_reader;
		create view app.over_hidden as select id from app.hidden;
		create table app.shown (id int primary key, x int, y int references app.hidden, constraint c check (x > y));
		grant select (id, x) on app.shown to text_reader;
		create index shown_y on app.shown (y);
		create index shown_x on app.shown (x);
		create index shown_xy on app.shown ((x + y));
		create policy one on app.shown to text_reader using (x > 1);
		create policy two on app.shown to text_reader using (id in (select id from app.hidden));
		create policy three on app.shown to text_reader using (y > 1);
		create policy four on app.shown to text_other using (true);
		comment on policy two on app.shown is 'hidden_remark';
		comment on column app.shown.y is 'hidden_remark';
		create function app.deep() returns int language sql as 'select 1 from app.hidden';
		create function app.closed() returns int language sql as 'select 1';
		revoke execute on function app.closed from public;
		create schema apart; create table apart.t (); grant select on apart.t to text_reader;`)
	text := schematext.Text(read(t, url, "text_reader"))
	for _, want := range []string{
		"table app.shown\n  table\n  column id integer not null\n  column x integer\n  constraint shown_pkey PRIMARY KEY (id)\n  CREATE INDEX shown_x ON app.shown USING btree (x)\n  policy one for all to text_reader using ((x > 1))\n  grant select (id, x) to text_reader\n",
		"function app.deep()\n  returns integer language sql volatile (hash ",
		"view app.names\n  view with (security_invoker=true)\n  column id bigint\n  column name character varying(40)\n  as (hash ",
		"table app.people\n  table\n  column id bigint not null generated always as identity\n  column name",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks\n%s", want)
		}
	}
	for _, hidden := range []string{"hidden", "secret", "app.closed", "apart", "four", "shown_y", "over_"} {
		if strings.Contains(text, hidden) {
			t.Errorf("the text has %q", hidden)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestBoughsOwnObjectsAreLeftOut(t *testing.T) {
	t.Parallel()
	plain := read(t, database(t), "")
	url := database(t, `
		create schema auth; comment on schema auth is 'Who makes the request. [bough 1]'; grant usage on schema auth to public;
		create function auth.uid() returns uuid language sql return null::uuid; comment on function auth.uid() is 'The id. [bough 1]';
		create function auth.bough_notify_ddl() returns event_trigger language plpgsql as 'begin end';
		comment on function auth.bough_notify_ddl() is 'Tells. [bough 1]';
		create event trigger bough_ddl_end on ddl_command_end execute function auth.bough_notify_ddl()`)
	if diff := cmp.Diff(plain, read(t, url, "")); diff != "" {
		t.Errorf("(-plain +set up)\n%s", diff)
	}
	exec(t, url, "create function auth.mine() returns int language sql return 1")
	if got := schematext.Compare(plain, read(t, url, "")).Added; len(got) != 1 || got[0].Name != "auth.mine()" {
		t.Errorf("added: %+v", got)
	}
}

func lines(n int, word string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(word, i)
	}
	return out
}

func object(name string, lines ...string) schematext.Object {
	return schematext.Object{Key: schematext.Key{Kind: "table", Name: name}, Lines: lines}
}

func TestDiffShowsWhatIsNearAChange(t *testing.T) {
	t.Parallel()
	long := lines(30, "line")
	changed := append(append(append([]string{"new"}, long[:15]...), "between"), long[16:]...)
	d := schematext.Compare([]schematext.Object{object("t", long...)}, []schematext.Object{object("t", changed...)})
	want := []string{"+ new", "  line0", "  line1", "  …", "  line13", "  line14", "- line15", "+ between", "  line16", "  line17"}
	if diff := cmp.Diff(want, d.Changed[0].Lines); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTextIsBounded(t *testing.T) {
	t.Parallel()
	var many []schematext.Object
	for i := range 200 {
		many = append(many, object(fmt.Sprintf("t%03d", i), lines(50, "column")...))
	}
	text, left := schematext.Compare(nil, many).Text(8 << 10)
	if len(text) > 8<<10 || left == 0 || strings.Count(text, "+ table") != 200-left {
		t.Errorf("%d bytes, %d left out", len(text), left)
	}
	// Too much to compare line by line.
	d := schematext.Compare([]schematext.Object{object("t", lines(5000, "a")...)}, []schematext.Object{object("t", lines(5000, "b")...)})
	text, left = d.Text(8 << 10)
	if len(text) > 3<<10 || left != 0 || !strings.Contains(text, "more lines\n") {
		t.Errorf("%d bytes, %d left out:\n%.200s", len(text), left, text)
	}
}
