package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/postgres"
)

// properties describes a database as the cluster's catalogs do, without its marker.
func properties(t *testing.T, server, database string) map[string]string {
	t.Helper()
	conn := connect(t, server)
	out := map[string]string{}
	extra := map[string]string{"locale": "daticulocale", "rules": "null::text"}
	if v := majorVersion(t); v >= 17 {
		extra = map[string]string{"locale": "datlocale", "rules": "daticurules"}
	} else if v == 16 {
		extra["rules"] = "daticurules"
	}
	columns := []string{"owner", "encoding", "collate", "ctype", "provider", "locale", "rules", "limit", "comment", "acl", "settings"}
	values := make([]*string, len(columns))
	dest := make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	err := conn.QueryRow(t.Context(), `
		select pg_get_userbyid(datdba), pg_encoding_to_char(encoding), datcollate, datctype, datlocprovider::text,
			`+extra["locale"]+`, `+extra["rules"]+`, datconnlimit::text, shobj_description(oid, 'pg_database'),
			(select string_agg(grantee::regrole || ' ' || privilege_type || ' ' || is_grantable, ', ' order by grantee, privilege_type)
				from aclexplode(datacl)),
			(select string_agg(setrole::regrole || ' ' || array_to_string(setconfig, ' | '), '; ' order by setrole)
				from pg_db_role_setting where setdatabase = d.oid)
		from pg_database d where datname = $1`, database).Scan(dest...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if v != nil {
			out[columns[i]] = *v
		}
	}
	if _, rest, ok := postgres.ParseMarker(out["comment"]); ok {
		out["comment"] = rest
	}
	if out["comment"] == "" {
		delete(out, "comment")
	}
	return out
}

func TestCloneCarriesOverTheDatabaseItself(t *testing.T) {
	t.Parallel()
	version := majorVersion(t)
	for name, tc := range map[string]struct {
		from    int // major version
		create  string
		alter   []string // of {main}, by a superuser, with roles {owner} and {other}
		session map[string]string
		twice   bool // with a template and without
	}{
		"nothing special": {},
		"owner, limit and comment": {
			create: "owner {owner} connection limit 50",
			alter:  []string{`comment on database {main} is E'the shop''s\nmain "database" \\ ü'`},
		},
		"privileges": {
			alter: []string{
				"revoke all on database {main} from public", "grant connect on database {main} to {owner}",
				"grant create, temporary on database {main} to {other} with grant option",
			},
			twice: true,
		},
		"an empty list of privileges": {alter: []string{"revoke all on database {main} from public"}},
		"settings": {
			alter: []string{
				`alter database {main} set search_path to "App Data", "a,b", "qu""ote", "$user", public, lower`,
				`alter database {main} set app.tenant to 'it''s "7" \ and, so on'`,
				`alter database {main} set app.empty to ''`,
				`alter database {main} set "TimeZone" to 'Europe/Berlin'`,
				`alter database {main} set datestyle to 'iso, dmy'`,
				`alter database {main} set log_min_duration_statement to 250`,
				`alter database {main} set work_mem to '7MB'`,
				`alter role {other} in database {main} set search_path to ''`,
				`alter role {other} in database {main} set statement_timeout to '5s'`,
			},
			session: map[string]string{
				"search_path": `"App Data", "a,b", "qu""ote", "$user", public, lower`, "app.tenant": `it's "7" \ and, so on`,
				"app.empty": "", "TimeZone": "Europe/Berlin", "work_mem": "7MB", "DateStyle": "ISO, DMY",
			},
		},
		"a database that is read-only by default": {
			alter:   []string{"alter database {main} set default_transaction_read_only to on"},
			session: map[string]string{"default_transaction_read_only": "on"},
			twice:   true,
		},
		"C":       {create: "lc_collate 'C' lc_ctype 'C' encoding 'UTF8'"},
		"latin 1": {create: "locale 'C' encoding 'LATIN1'"},
		"ICU":     {create: "locale_provider icu icu_locale 'de-u-co-phonebk' locale 'C' encoding 'UTF8'"},
		"ICU with rules": {
			from: 16, create: `locale_provider icu icu_locale 'en' icu_rules '&a < ''g''' locale 'C' encoding 'UTF8'`,
		},
		"builtin": {from: 17, create: "locale_provider builtin builtin_locale 'C.UTF-8' locale 'C' encoding 'UTF8'"},
	} {
		for _, s := range []postgres.Strategy{postgres.StrategyWALLog, postgres.StrategyCopy} {
			if s == postgres.StrategyCopy && tc.create == "" && !tc.twice {
				continue // the same as for a template
			}
			t.Run(name+"/"+string(s), func(t *testing.T) {
				t.Parallel()
				if version < tc.from {
					t.Skipf("PostgreSQL %d has it not", version)
				}
				owner, other := role(t, ""), role(t, "")
				server := pgtest.ServerURL(t)
				main := "main_" + strings.ReplaceAll(uuid.NewString(), "-", "")
				t.Cleanup(func() {
					ctx := context.Background()
					if conn, err := pgx.Connect(ctx, server); err == nil {
						_, _ = conn.Exec(ctx, "drop database if exists "+main+" with (force)")
						conn.Close(ctx)
					}
				})
				fill := strings.NewReplacer("{main}", main, "{owner}", owner, "{other}", other).Replace
				execute(t, server, fill("create database {main} template template0 "+tc.create))
				for _, stmt := range tc.alter {
					execute(t, server, fill(stmt))
				}
				f := setupAt(t, pgtest.WithDatabase(server, main), strategy(s))
				clone, res := f.clone(t, "clone")
				if len(res.Warnings) > 0 || res.Strategy != s {
					t.Errorf("result: %+v", res)
				}
				if diff := cmp.Diff(properties(t, server, main), properties(t, server, clone)); diff != "" {
					t.Errorf("the clone differs (-source +clone):\n%s", diff)
				}
				for parameter, want := range tc.session {
					if got := query[string](t, f.in(clone), "select current_setting($1)", parameter); got != want {
						t.Errorf("%s is %q in the clone, want %q", parameter, got, want)
					}
				}
			})
		}
	}
}

// A list that was stored without its quotes means lower-case names.
func TestCloneUnderstandsUnquotedSearchPath(t *testing.T) {
	t.Parallel()
	f := setup(t, strategy(postgres.StrategyWALLog))
	conn := connect(t, f.url)
	if _, err := conn.Exec(t.Context(), "create schema foo; create table foo.here (); select set_config('search_path', 'Foo ,\n\"Bar\"', false);"+
		" alter database "+quote(f.Main())+" set search_path from current"); err != nil {
		t.Fatal(err)
	}
	gone(t, conn)
	clone, _ := f.clone(t, "clone")
	if !query[bool](t, f.in(clone), "select to_regclass('here') is not null") {
		t.Errorf("search_path is %s", query[string](t, f.in(clone), "show search_path"))
	}
}

func TestCloneLeavesOutUserMappings(t *testing.T) {
	t.Parallel()
	leftOut := func(user, reason string) string {
		return "the user mapping of " + user + " for foreign server Far away was left out, " + reason
	}
	const safe, cannot = "so that the branch cannot reach it", "since a copy from a snapshot cannot have it"
	for name, tc := range map[string]struct {
		strategy postgres.Strategy
		keep     bool
		reason   string
		left     int
	}{
		"template":              {postgres.StrategyWALLog, false, safe, 0},
		"template, to be kept":  {postgres.StrategyWALLog, true, "", 2},
		"from a snapshot":       {postgres.StrategyCopy, false, safe, 0},
		"snapshot, to be kept ": {postgres.StrategyCopy, true, cannot, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := role(t, "")
			f := setup(t, strategy(tc.strategy), func(c *postgres.ClusterConfig) { c.KeepUserMappings = tc.keep })
			execute(t, f.url,
				`create extension postgres_fdw`,
				`create server "Far away" foreign data wrapper postgres_fdw options (host 'production')`,
				`create user mapping for public server "Far away" options (password 'secret')`,
				`create user mapping for `+user+` server "Far away" options (password 'secret')`,
				// What was set for the source does not keep them in.
				`alter database `+quote(f.Main())+` set default_transaction_read_only to on`,
			)
			var want []string
			if tc.reason != "" {
				want = []string{leftOut("public", tc.reason), leftOut(`"`+user+`"`, tc.reason)}
			}
			clone, res := f.clone(t, "clone")
			if diff := cmp.Diff(want, res.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if n := query[int](t, f.in(clone), "select count(*) from pg_user_mappings"); n != tc.left {
				t.Errorf("the clone has %d user mappings, want %d", n, tc.left)
			}
			if n := query[int](t, f.url, "select count(*) from pg_user_mappings"); n != 2 {
				t.Errorf("the source has %d user mappings", n)
			}
		})
	}
}

func TestSplitNames(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		``:                            nil,
		`""`:                          {""},
		`public`:                      {"public"},
		`"$user", public`:             {"$user", "public"},
		`"a,b", "c ""d""", e`:         {"a,b", `c "d"`, "e"},
		`Public, "Public"`:            {"public", "Public"},
		" a\t,\n\"b\" ":               {"a", "b"},
		`""""`:                        {`"`},
		`"", ""`:                      {"", ""},
		`"Ä", ö`:                      {"Ä", "ö"},
		`pg_catalog,"$user",  "a  b"`: {"pg_catalog", "$user", "a  b"},
	} {
		if diff := cmp.Diff(want, postgres.SplitNames(list)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", list, diff)
		}
	}
}

func TestSettingValue(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, value, want string }{
		{"work_mem", "4MB", `'4MB'`},
		{"app.tenant", `it's`, `'it''s'`},
		{"app.path", `c:\x'`, ` E'c:\\x'''`},
		{"app.list", `a, "b"`, `'a, "b"'`},
		{"search_path", `"$user", "o'hara"`, `'$user', 'o''hara'`},
		{"Search_Path", `a, b`, `'a', 'b'`},
		{"search_path", ``, `''`},
		{"search_path", `""`, `''`},
		{"session_preload_libraries", `"$libdir/x", y`, `'$libdir/x', 'y'`},
	} {
		if got := postgres.SettingValue(tc.name, tc.value); got != tc.want {
			t.Errorf("%s=%s: got %s, want %s", tc.name, tc.value, got, tc.want)
		}
	}
}

func FuzzSplitNames(f *testing.F) {
	for _, s := range []string{"", "a", "a\x00$user", `q"uote`, "a,b\x00 \x00", "Ünï\x00X"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		names := strings.Split(joined, "\x00")
		quoted := make([]string, len(names))
		for i, n := range names {
			quoted[i] = `"` + strings.ReplaceAll(n, `"`, `""`) + `"`
		}
		if got := postgres.SplitNames(strings.Join(quoted, ", ")); !slices.Equal(got, names) {
			t.Errorf("got %q, want %q", got, names)
		}
		postgres.SplitNames(joined) // does not panic
	})
}

func FuzzMarker(f *testing.F) {
	f.Add("", int32(0), false)
	f.Add("the shop's\n\"main\"", int32(7), true)
	f.Add("\nbough:{}", int32(-1), true)
	f.Fuzz(func(t *testing.T, original string, generation int32, complete bool) {
		want := postgres.Marker{Installation: uuid.New(), Branch: uuid.New(), Generation: generation, Complete: complete}
		got, rest, ok := postgres.ParseMarker(want.Comment(original))
		if !ok || got != want || rest != original {
			t.Errorf("got %+v, %q, %v", got, rest, ok)
		}
		if m, rest, ok := postgres.ParseMarker(original); !ok && (rest != original || m != postgres.Marker{}) {
			t.Errorf("no marker: %+v, %q", m, rest)
		}
	})
}

func TestParseMarkerRefuses(t *testing.T) {
	t.Parallel()
	for _, comment := range []string{"", "the shop", "bough:", "bough:{", `bough:{"installation":"x"}`, `Bough:{}`, "x\nbough:{}"} {
		if m, rest, ok := postgres.ParseMarker(comment); ok || rest != comment || m != (postgres.Marker{}) {
			t.Errorf("%q: %+v, %q, %v", comment, m, rest, ok)
		}
	}
}

// What literal quotes, PostgreSQL reads as it was.
func TestLiteral(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.ServerURL(t))
	for _, standard := range []string{"on", "off"} {
		for _, want := range []string{"", "a", `it's`, `\`, `\'`, `'\''`, "a\nb\t\\n", `$1 ü "q"`} {
			var got string
			_, err := conn.Exec(t.Context(), "set standard_conforming_strings = "+standard)
			if err == nil {
				err = conn.QueryRow(t.Context(), "select "+postgres.Literal(want)).Scan(&got)
			}
			if err != nil || got != want || !utf8.ValidString(got) {
				t.Errorf("standard_conforming_strings %s, %q: got %q, %v", standard, want, got, err)
			}
		}
	}
}
