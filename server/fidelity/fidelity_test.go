package fidelity

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgcopy"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// copies makes copies of a database in all ways that there are, and compares
// each with it. url is that of the role which copies; its database has unusual
// objects if only pg_dump and templates can copy it.
func copies(t *testing.T, url, superURL string, unusual bool) {
	t.Helper()
	dump := pgDump(t)
	var source *state
	t.Run("read", func(t *testing.T) { source = stateOf(t, superURL) })
	if source == nil {
		return
	}
	engine := func(s postgres.Strategy, schemaOnly bool, m mode) func(*testing.T) {
		return func(t *testing.T) {
			c := cluster(t, url, s, dump)
			if s == postgres.StrategyReflink && !c.Capabilities().CloneMethod {
				t.Skip("PostgreSQL has no file_copy_method before 18")
			}
			if unusual && dump == "" && (s == postgres.StrategyCopy || schemaOnly) {
				t.Skip("no pg_dump for this server")
			}
			target := c.Main() + "_" + uuid.NewString()[:8]
			drop(t, target)
			res, err := c.Clone(t.Context(), postgres.CloneRequest{Source: c.Main(), Target: target, SchemaOnly: schemaOnly, Branch: uuid.New(), Generation: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s in %v", res.Strategy, res.Duration.Round(1e6))
			for _, w := range res.Warnings {
				if !strings.HasPrefix(w, "the user mapping") {
					t.Errorf("warning: %v", w)
				}
			}
			m.exact = m.exact && res.Strategy != postgres.StrategyCopy
			compare(t, source, pgtest.WithDatabase(superURL, target), m)
			settings := func(database string) string {
				return query[string](t, connect(t, superURL), `
					select format('%s %s %s %s %s', pg_get_userbyid(datdba), encoding, datcollate, datctype, datconnlimit) || coalesce((
						select string_agg(pg_get_userbyid(setrole) || setconfig::text, ' ' order by pg_get_userbyid(setrole)) from pg_db_role_setting where setdatabase = d.oid), '')
					from pg_database d where datname = '`+database+`'`)
			}
			if want, got := settings(c.Main()), settings(target); want != got {
				t.Errorf("the database is %s instead of %s", got, want)
			}
		}
	}
	for _, s := range []postgres.Strategy{postgres.StrategyWALLog, postgres.StrategyFileCopy, postgres.StrategyReflink, postgres.StrategyCopy} {
		t.Run("engine "+string(s), engine(s, false, mode{rows: true, exact: true}))
	}
	for _, s := range []postgres.Strategy{"", postgres.StrategyCopy} {
		t.Run("engine schema only "+string(s), engine(s, true, mode{}))
	}
	for _, reader := range []string{"builtin", "pg_dump"} {
		for _, schemaOnly := range []bool{false, true} {
			t.Run(fmt.Sprintf("pgcopy %s schema only %t", reader, schemaOnly), func(t *testing.T) {
				options := pgcopy.Options{SchemaOnly: schemaOnly}
				switch {
				case reader == "pg_dump" && dump == "":
					t.Skip("no pg_dump for this server")
				case reader == "pg_dump":
					options.PGDump = dump
				case unusual:
					return // the reader refuses these objects, see package pgcopy
				}
				var err error
				if options.Source, err = pgx.ParseConfig(url); err != nil {
					t.Fatal(err)
				}
				name := options.Source.Database + "_" + uuid.NewString()[:8]
				drop(t, name)
				execute(t, pgtest.WithDatabase(url, "postgres"), "create database "+pgx.Identifier{name}.Sanitize()+" template template0")
				if options.Target, err = pgx.ParseConfig(pgtest.WithDatabase(url, name)); err != nil {
					t.Fatal(err)
				}
				res, err := pgcopy.Copy(t.Context(), options)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%v", res.Duration.Round(1e6))
				compare(t, source, pgtest.WithDatabase(superURL, name), mode{rows: !schemaOnly})
			})
		}
	}
}

// every returns the schema with every kind of object that the reader knows.
func every(t *testing.T) string {
	t.Helper()
	sql := file(t, "../pgcopy/testdata/fixture.sql")
	if major(t) >= 18 {
		sql += file(t, "../pgcopy/testdata/fixture18.sql")
	}
	return strings.NewReplacer("pgcopy_alice", role(t, ""), "pgcopy_bob", role(t, "")).Replace(sql)
}

func TestEveryKindOfObject(t *testing.T) {
	t.Parallel()
	sql := every(t)
	url := pgtest.Database(t)
	execute(t, url, sql)
	execute(t, url, "alter database "+name(t, url)+" set work_mem = '5MB'; alter database "+name(t, url)+" connection limit 77")
	copies(t, url, url, false)
}

func TestUnusualObjects(t *testing.T) {
	t.Parallel()
	sql := every(t)
	url := pgtest.Database(t)
	execute(t, url, sql+file(t, "testdata/unusual.sql"))
	copies(t, url, url, true)
}

func TestGeneratedSchema(t *testing.T) {
	t.Parallel()
	n := 40
	if long() {
		n = 1500
	}
	url := pgtest.Database(t)
	execute(t, url, Generate(n))
	execute(t, url, `insert into part0.t0000 (name, price) select 'n' || i, i from generate_series(1, 1000) i;
		insert into part1.t0001 (parent, name) select i, 'n' || i from generate_series(1, 500) i`)
	copies(t, url, url, false)
}

// A role that may log in and create databases, and no more.
func TestWeakRole(t *testing.T) {
	t.Parallel()
	weak := role(t, "login createdb")
	super := pgtest.Database(t)
	execute(t, super, "alter database "+name(t, super)+" owner to "+weak)
	url := as(t, super, weak)
	execute(t, url, Generate(20))
	execute(t, url, `
		create extension pg_trgm;
		create extension citext;
		create table public.people (id serial primary key, name citext unique, note varchar check (note in ('a', 'b')));
		insert into public.people (name, note) select 'n' || i, 'a' from generate_series(1, 100) i;
		create index on public.people using gin (note gin_trgm_ops);
		create publication p for table public.people;
		alter default privileges grant select on tables to public;
		revoke all on schema public from public;
		select lo_from_bytea(5, 'x')`)
	copies(t, url, super, false)
	execute(t, url, "drop publication p") // lest the role own something in the end
}

func name(t *testing.T, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return pgx.Identifier{config.Database}.Sanitize()
}

// Schemas of well-known programs, fetched when the test runs.
func TestRealSchemas(t *testing.T) {
	t.Parallel()
	if !long() {
		t.Skip("make test-fidelity runs this")
	}
	for _, program := range []struct {
		name, source string
		files        string // pattern
	}{
		{"coder", "go github.com/coder/coder@v0.27.3", "coderd/database/dump.sql"},
		{"mattermost", "go github.com/mattermost/mattermost-server/v6@v6.7.2", "db/migrations/postgres/*.up.sql"},
		{"zabbix", "deb zabbix-server-pgsql", "usr/share/zabbix-server-pgsql/schema.sql.gz"},
		{"bareos", "deb bareos-database-postgresql", "usr/lib/bareos/scripts/ddl/creates/postgresql.sql"},
		{"bacula", "deb bacula-director-pgsql", "usr/share/dbconfig-common/data/bacula-director-pgsql/install/pgsql"},
		{"icinga", "deb icinga2-ido-pgsql", "usr/share/icinga2-ido-pgsql/schema/pgsql.sql"},
		{"icingadb", "deb icingadb", "usr/share/icingadb/schema/pgsql/schema.sql"},
	} {
		t.Run(program.name, func(t *testing.T) {
			dir := fetch(t, program.source)
			files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(program.files)))
			if err != nil || len(files) == 0 {
				t.Skipf("%s has no %s", program.source, program.files)
			}
			slices.Sort(files)
			var sql strings.Builder
			for _, file := range files {
				text, err := readText(file)
				if err != nil {
					t.Fatal(err)
				}
				sql.WriteString(text + "\n;\n")
			}
			url := pgtest.Database(t)
			execute(t, url, sql.String())
			copies(t, url, url, false)
		})
	}
}

// fetch gets a package from its registry and returns its directory. It skips
// the test where that cannot be reached.
func fetch(t *testing.T, source string) string {
	t.Helper()
	kind, what, _ := strings.Cut(source, " ")
	dir := t.TempDir()
	if kind == "go" {
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module fetch\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", what)
		cmd.Dir = dir
		out, err := cmd.Output()
		var module struct{ Dir, Error string }
		if jsonErr := json.Unmarshal(out, &module); jsonErr != nil || err != nil || module.Error != "" {
			t.Skipf("cannot download %s: %v %s", what, err, module.Error)
		}
		return module.Dir
	}
	cmd := exec.CommandContext(t.Context(), "apt-get", "download", what)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("cannot download the Debian package %s: %v: %s", what, err, out)
	}
	packages, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(packages) != 1 {
		t.Skipf("cannot download the Debian package %s", what)
	}
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "-x", packages[0], dir).CombinedOutput(); err != nil {
		t.Fatalf("unpacking %s: %v: %s", what, err, out)
	}
	return dir
}

// readText reads a file that may be compressed.
func readText(name string) (string, error) {
	if strings.HasSuffix(name, ".gz") {
		out, err := exec.Command("gzip", "-dc", name).Output()
		return string(out), err
	}
	out, err := os.ReadFile(name)
	return string(out), err
}
