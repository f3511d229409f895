package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// secret is what no file of a schema-only branch may contain.
const secret = "Zaphod's second head"

// secretive has the secret wherever rows, or samples of them, may be.
var secretive = []string{
	`create schema hidden`,
	// Long enough for TOAST, and stored as it is.
	`create table hidden.plain (id int generated always as identity primary key, name text, long text)`,
	`alter table hidden.plain alter long set storage external`,
	`insert into hidden.plain (name, long) select '` + quoted(secret) + `' || g % 3, repeat('` + quoted(secret) + `', 200) from generate_series(1, 300) g`,
	`create index on hidden.plain (name)`,
	`create index on hidden.plain (lower(name))`,
	`create index on hidden.plain using hash (name)`,
	`create index on hidden.plain using gin (to_tsvector('simple', name))`,
	`create index on hidden.plain using brin (name)`,
	`create statistics hidden.pairs (mcv) on id, name from hidden.plain`,
	// Deleted rows, with something left in the indexes only.
	`create table hidden.deleted (name text primary key)`,
	`insert into hidden.deleted select '` + quoted(secret) + `' || g from generate_series(1, 1000) g`,
	`create unlogged table hidden.unlogged as select name from hidden.plain`,
	// A circle of foreign keys, a key into and out of partitioned tables.
	`create table hidden.a (id int primary key, b int, name text)`,
	`create table hidden.b (id int primary key, a int references hidden.a, name text)`,
	`alter table hidden.a add foreign key (b) references hidden.b deferrable initially deferred`,
	`create table hidden.parts (id int, name text, primary key (id)) partition by range (id)`,
	`create table hidden.part1 partition of hidden.parts for values from (0) to (10) partition by list (id)`,
	`create table hidden.part11 partition of hidden.part1 default`,
	`create table hidden.part2 partition of hidden.parts default`,
	`create table hidden.refers (id int, parts int references hidden.parts, name text) partition by hash (id)`,
	`create table hidden.refers0 partition of hidden.refers for values with (modulus 1, remainder 0)`,
	`insert into hidden.parts select g, '` + quoted(secret) + `' from generate_series(1, 20) g`,
	`insert into hidden.refers select g, g, '` + quoted(secret) + `' from generate_series(1, 20) g`,
	`begin; insert into hidden.a values (1, 1, '` + quoted(secret) + `'); insert into hidden.b values (1, 1, '` + quoted(secret) + `'); commit`,
	// Inheritance, row security against the owner too.
	`create table hidden.parent (name text)`,
	`create table hidden.child () inherits (hidden.parent)`,
	`insert into hidden.parent values ('` + quoted(secret) + `')`,
	`insert into hidden.child values ('` + quoted(secret) + `')`,
	`create table hidden.closed as select * from hidden.child`,
	`alter table hidden.closed enable row level security`,
	`alter table hidden.closed force row level security`,
	// Triggers that would notice.
	`create table hidden.noticed (what text)`,
	`create function hidden.notice() returns trigger language plpgsql as $$ begin insert into hidden.noticed values ('truncated'); return null; end $$`,
	`create trigger noticing before truncate on hidden.plain execute function hidden.notice()`,
	`create trigger always after truncate on hidden.plain execute function hidden.notice()`,
	`create trigger replica after truncate on hidden.plain execute function hidden.notice()`,
	`alter table hidden.plain enable always trigger always`,
	`alter table hidden.plain enable replica trigger replica`,
	`create trigger off before truncate on hidden.a execute function hidden.notice()`,
	`alter table hidden.a disable trigger off`,
	// Materialized views of each other, one that fails without rows, one that is not populated.
	`create materialized view hidden.names as select name, count(*) from hidden.plain group by 1`,
	`create materialized view hidden.more as select name || '!' as name from hidden.names union all select 'constant'`,
	`create unique index on hidden.more (name)`,
	`create materialized view hidden.division as select 1 / count(*) from hidden.plain`,
	`create materialized view hidden.pale as select * from hidden.plain with no data`,
	// Sequences, owned by a column and by nobody.
	`create sequence hidden.numbers start 7 increment 3`,
	`select nextval('hidden.numbers'), nextval('hidden.numbers')`,
	`select lo_from_bytea(0, convert_to('` + quoted(secret) + `', 'UTF8')), lo_from_bytea(0, convert_to(repeat('` + quoted(secret) + `', 500), 'UTF8'))`,
	`analyze`,
	`delete from hidden.deleted`,
	`vacuum hidden.deleted`,
	`checkpoint`,
}

func quoted(s string) string { return strings.ReplaceAll(s, "'", "''") }

// filesWith returns the files of a database that contain the secret.
func filesWith(t *testing.T, clusterDir string, oid int) (found []string) {
	t.Helper()
	dir := filepath.Join(clusterDir, "base", fmt.Sprint(oid))
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(secret)) || bytes.Contains(bytes.ToLower(data), []byte(strings.ToLower(secret))) || bytes.Contains(data, []byte("zaphod")) {
			found = append(found, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// triggers describes the triggers, to be compared.
const triggers = `select string_agg(tgrelid::regclass || ' ' || tgname || ' ' || tgenabled::text, E'\n' order by tgname, tgrelid) from pg_trigger where not tgisinternal`

// Nothing of the rows is in the files of a schema image or a branch, whoever makes it.
func TestImageHasNothingOfTheRows(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{"superuser": "", "owner": "nosuperuser createdb login"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Start(t, "", map[string]string{"autovacuum": "off"})
			admin := server.URL("postgres")
			mainURL := server.URL("app")
			if options != "" {
				if majorVersion(t) < 18 {
					t.Skip("before PostgreSQL 18 only a superuser can delete planner statistics")
				}
				execute(t, admin, "create role owning password 'secret' "+options, "create database app owner owning")
				execute(t, server.URL("app"), "alter schema public owner to owning")
				mainURL = as(t, mainURL, "owning")
			} else {
				execute(t, admin, "create database app")
			}
			statements := secretive
			if options != "" {
				statements = slices.DeleteFunc(slices.Clone(secretive), func(s string) bool {
					return strings.Contains(s, "create statistics") || s == "checkpoint" || strings.Contains(s, "materialized view hidden.division")
				})
			}
			execute(t, mainURL, statements...)
			execute(t, admin, "checkpoint")
			f := setupAt(t, mainURL)
			before := query[string](t, server.URL("app"), triggers)
			schema := query[string](t, server.URL("app"), "select string_agg(oid::regclass::text || relkind::text, ',' order by oid) from pg_class where oid > 16384 and relnamespace <> 'pg_toast'::regnamespace")
			r := postgres.CloneRequest{Source: "app", Target: "branch", Branch: uuid.New(), SourceBranch: uuid.New(), SchemaOnly: true}
			res, err := f.Clone(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if res.Strategy != postgres.StrategyImage || res.Copier != postgres.CopierTemplate {
				t.Errorf("result: %+v", res)
			}
			image := postgres.ImageName(r.SourceBranch)
			execute(t, admin, "checkpoint")
			oid := func(database string) int {
				return query[int](t, admin, "select oid::int from pg_database where datname = $1", database)
			}
			if found := filesWith(t, server.ClusterDir(), oid("app")); len(found) < 10 {
				t.Fatalf("only %d files of main have the secret; the search finds nothing", len(found))
			}
			for _, database := range []string{image, "branch"} {
				if found := filesWith(t, server.ClusterDir(), oid(database)); len(found) > 0 {
					t.Errorf("files of %s have the secret: %v", database, found)
					for _, node := range found {
						if database != image {
							node, _, _ = strings.Cut(node, ".")
							t.Log(query[string](t, server.URL(database), "select coalesce(string_agg(oid::regclass::text, ','), '?') from pg_class where relfilenode::text = $1", node))
						}
					}
				}
			}
			branch := server.URL("branch")
			for what, sql := range map[string]string{
				"triggers":            triggers,
				"relations":           "select string_agg(oid::regclass::text || relkind::text, ',' order by oid) from pg_class where oid > 16384 and relnamespace <> 'pg_toast'::regnamespace",
				"noticed":             "select count(*)::text from hidden.noticed",
				"sequences":           "select last_value || ' ' || is_called from hidden.numbers",
				"identity":            "select last_value || ' ' || is_called from hidden.plain_id_seq",
				"refreshed":           "select string_agg(name, ',') from hidden.more",
				"populated":           "select string_agg(relname || relispopulated, ',' order by relname) from pg_class where relkind = 'm'",
				"statistics":          "select count(*)::text from pg_stats where schemaname = 'hidden'",
				"extended statistics": "select count(*)::text from pg_statistic_ext_data",
			} {
				want := map[string]string{
					"triggers": before, "relations": schema, "noticed": "0", "sequences": "7 false", "identity": "1 false", "refreshed": "constant",
					"populated": "divisionfalse,moretrue,namestrue,palefalse", "statistics": "0", "extended statistics": "0",
				}[what]
				if options != "" {
					want = strings.ReplaceAll(want, "divisionfalse,", "")
				}
				if diff := cmp.Diff(want, query[string](t, branch, sql)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			if unpopulated := slices.ContainsFunc(res.Warnings, func(w string) bool { return strings.Contains(w, "hidden.division") }); unpopulated != (options == "") {
				t.Errorf("warnings: %q", res.Warnings)
			}
			// The branch works.
			execute(t, branch, "insert into hidden.plain (name) values ('x')", "refresh materialized view hidden.names")
		})
	}
}

// An image is made once for each version of the schema, and each branch gets the schema of its moment.
func TestImageFollowsTheSchema(t *testing.T) {
	t.Parallel()
	f := setup(t)
	execute(t, f.url, "create table t (id int primary key)", "insert into t values (1)")
	source := uuid.New()
	image := postgres.ImageName(source)
	clone := func(suffix string) (string, postgres.CloneResult) {
		t.Helper()
		r := f.request(t, suffix)
		r.SchemaOnly, r.SourceBranch = true, source
		res, err := f.Clone(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if n := query[int](t, f.in(r.Target), "select count(*) from t"); n != 0 {
			t.Errorf("%s has %d rows", suffix, n)
		}
		return r.Target, res
	}
	oid := func() int {
		return query[int](t, f.in("postgres"), "select oid::int from pg_database where datname = $1", image)
	}
	if _, res := clone("first"); res.Reused || res.Pause == 0 {
		t.Errorf("first: %+v", res)
	}
	first := oid()
	execute(t, f.url, "insert into t select generate_series(2, 1000)", "vacuum analyze t")
	somebody := connect(t, f.url) // hinders nobody
	if _, res := clone("second"); !res.Reused || res.Pause != 0 || res.Copier != postgres.CopierTemplate || oid() != first {
		t.Errorf("second: %+v", res)
	}
	gone(t, somebody)
	execute(t, f.url, "alter table t add extra text")
	third, res := clone("third")
	if res.Reused || oid() == first {
		t.Errorf("third: %+v", res)
	}
	if !query[bool](t, f.in(third), "select exists (select from pg_attribute where attrelid = 't'::regclass and attname = 'extra')") {
		t.Error("the third has the schema of before")
	}
	// Nobody gets in.
	if _, err := f.SchemaVersion(t.Context(), image); err == nil {
		t.Error("a superuser can connect to the image")
	}
	if acl := query[bool](t, f.in("postgres"), "select datacl is not null and not datallowconn and not has_database_privilege('pg_monitor', oid, 'connect') from pg_database where datname = $1", image); !acl {
		t.Error("the image is open")
	}
	if listed, err := f.Databases(t.Context()); err != nil || slices.ContainsFunc(listed, func(d postgres.Database) bool { return d.Name == image }) {
		t.Errorf("the image is listed as a branch's database: %v", err)
	}
	// An image that is not complete, or has a version that is not the schema's, is made again.
	for _, m := range []string{`"complete":false`, `"complete":true,"kind":"image","version":"old"`} {
		execute(t, f.in("postgres"), fmt.Sprintf(`comment on database %s is 'bough:{"installation":"%s","branch":"%s","generation":0,"kind":"image",%s}'`, quote(image), f.config.Installation, source, m))
		if _, res := clone("again"); res.Reused {
			t.Errorf("an image with %s was used", m)
		}
	}
	// So is one without a marker, as a process leaves that is killed in CREATE DATABASE.
	execute(t, f.in("postgres"), "drop database "+quote(image), "create database "+quote(image))
	if _, res := clone("unmarked"); res.Reused {
		t.Error("an image without a marker was used")
	}
	// One that PostgreSQL refuses is made again.
	execute(t, f.in("postgres"), "update pg_database set datcollversion = '0' where datname = '"+image+"' and datcollversion is not null")
	clone("damaged")

	if err := f.SweepImages(t.Context(), liveBranches(source)); err != nil || !f.exists(t, image) {
		t.Errorf("the image of a live branch is gone: %v", err)
	}
	if err := f.DropImage(t.Context(), source); err != nil || f.exists(t, image) {
		t.Errorf("the image is still there: %v", err)
	}
}

// Another installation's database is never taken for an image, nor dropped.
func TestImageNameBelongsToAnother(t *testing.T) {
	t.Parallel()
	f, other := setup(t), setup(t)
	source := uuid.New()
	clone := func(f *fixture) error {
		r := f.request(t, "clone")
		r.SchemaOnly, r.SourceBranch = true, source
		_, err := f.Clone(t.Context(), r)
		return err
	}
	if err := clone(other); err != nil {
		t.Fatal(err)
	}
	if err := clone(f); err == nil || !strings.Contains(err.Error(), "is not the schema image") {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(f.DropImage(t.Context(), source), f.SweepImages(t.Context(), liveBranches())); err != nil || !f.exists(t, postgres.ImageName(source)) {
		t.Errorf("the other's image is gone: %v", err)
	}
}

func TestIsImageName(t *testing.T) {
	t.Parallel()
	if id := uuid.New(); !postgres.IsImageName(postgres.ImageName(id)) {
		t.Error(postgres.ImageName(id))
	}
	for _, name := range []string{"", "bough_image_", "bough_image_0123456789aB", "bough_image_0123456789ab_old", "bough_image_0123456789", "main", "xbough_image_0123456789ab"} {
		if postgres.IsImageName(name) {
			t.Error(name)
		}
	}
}

// A table that was added to an extension by hand is not what CREATE EXTENSION makes: no way to copy the schema has it.
func TestImageNamesWhatCannotBeCopied(t *testing.T) {
	t.Parallel()
	f := setup(t, func(*postgres.ClusterConfig) {})
	execute(t, f.url, "create extension citext", "create table own as select 1 as id", "alter extension citext add table own")
	r := f.request(t, "schema")
	r.SchemaOnly = true
	_, err := f.Clone(t.Context(), r)
	for _, want := range []string{"public.own is missing", "keeps rows in its table public.own"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

// What cannot be emptied is told by name, and copied by other means.
func TestImageIsMadeByOtherMeans(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		statements []string
		configure  func(*postgres.ClusterConfig)
		connected  bool
		copier     string
	}{
		"somebody is connected":          {connected: true, copier: "builtin"},
		"they are ended if need be only": {connected: true, configure: sessions(postgres.Terminate), copier: "builtin"},
		"the strategy is copy":           {configure: strategy(postgres.StrategyCopy), copier: "builtin"},
		"the pause would be long":        {configure: func(c *postgres.ClusterConfig) { c.MaxPause = time.Microsecond }, copier: "builtin"},
		"an unusual object and somebody who may be ended": {
			statements: []string{"create operator class app_int_ops for type int4 using btree as operator 1 <, operator 3 =, operator 5 >, function 1 btint4cmp(int4, int4)"},
			connected:  true, configure: sessions(postgres.Terminate), copier: postgres.CopierTemplate,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.configure == nil {
				tc.configure = func(*postgres.ClusterConfig) {}
			}
			f := setup(t, tc.configure)
			execute(t, f.url, append(tc.statements, "create table t (id int primary key)", "insert into t values (1)")...)
			if tc.connected {
				connect(t, f.url)
			}
			r := f.request(t, "schema")
			r.SchemaOnly = true
			res, err := f.Clone(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if res.Strategy != postgres.StrategyImage || res.Copier != tc.copier || (res.Pause > 0) != (tc.copier == postgres.CopierTemplate) {
				t.Errorf("result: %+v", res)
			}
			if n := query[int](t, f.in(r.Target), "select count(*) from t"); n != 0 {
				t.Errorf("%d rows", n)
			}
			if res, err := f.Clone(t.Context(), r); err != nil || !res.Reused || res.Copier != tc.copier {
				t.Errorf("the next one: %+v, %v", res, err)
			}
		})
	}
}

// Foreign tables are where others keep their rows: none is truncated, whatever it is a part of.
func TestImageLeavesForeignTablesAlone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	execute(t, f.url, "create extension postgres_fdw", "create table theirs (id int, name text)", "insert into theirs values (1, 'one')",
		"do $$ begin execute format('create server here foreign data wrapper postgres_fdw options (dbname %L, host %L)', current_database(), '127.0.0.1'); end $$",
		"create user mapping for public server here options (user 'nobody', password 'secret')",
		"create table parts (id int, name text) partition by list (id)",
		"create foreign table part1 partition of parts for values in (1) server here options (table_name 'theirs')",
		"create table part2 partition of parts for values in (2)", "insert into parts values (2, 'two')",
		"create table base (id int, name text)", "create foreign table child () inherits (base) server here options (table_name 'theirs')",
		"insert into base values (3, 'three')")
	r := f.request(t, "schema")
	r.SchemaOnly = true
	res, err := f.Clone(t.Context(), r)
	if err != nil || res.Copier != postgres.CopierTemplate {
		t.Fatalf("%+v, %v", res, err)
	}
	if n := query[int](t, f.in(r.Target), "select (select count(*) from only base) + (select count(*) from part2)"); n != 0 {
		t.Errorf("%d rows", n)
	}
	if n := query[int](t, f.in(r.Target), "select count(*) from pg_user_mappings"); n != 0 {
		t.Errorf("%d user mappings", n)
	}
	if n := query[int](t, f.in(r.Target), "select count(*) from pg_foreign_table"); n != 2 {
		t.Errorf("%d foreign tables", n)
	}
	if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "user mapping") {
		t.Errorf("warnings: %q", res.Warnings)
	}
}

// The rows that an extension has put into its configuration tables are part of it, those of the user are not.
func TestImageKeepsConfigurationOfExtensions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	execute(t, f.url, "create extension citext", "create table conf (name text, mine boolean)", "create table mine (name text)",
		"insert into conf values ('theirs', false), ('"+quoted(secret)+"', true)", "insert into mine values ('x')",
		"alter extension citext add table conf", "alter extension citext add table mine",
		"update pg_extension set extconfig = array['conf'::regclass::oid, 'mine'::regclass::oid], extcondition = array['where mine', ''] where extname = 'citext'")
	r := f.request(t, "schema")
	r.SchemaOnly = true
	res, err := f.Clone(t.Context(), r)
	if err != nil || res.Copier != postgres.CopierTemplate {
		t.Fatalf("%+v, %v", res, err)
	}
	if got := query[string](t, f.in(r.Target), "select string_agg(name, ',') from conf"); got != "theirs" {
		t.Errorf("configuration: %q", got)
	}
	if n := query[int](t, f.in(r.Target), "select count(*) from mine"); n != 0 {
		t.Errorf("%d rows", n)
	}
}
