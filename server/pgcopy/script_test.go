package pgcopy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitScript(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		want         []string
	}{
		{"empty", " \n;; -- nothing\n/* ; /* ; */ */", nil},
		{"plain", "select 1;\nselect 2 ;", []string{"select 1", "select 2 "}},
		{"no end", "select 1", []string{"select 1"}},
		{"psql's commands", "\\restrict abc;def\nselect 1;\n\\unrestrict abc", []string{"select 1"}},
		{"strings", `select ';', 'it''s;', E'\';', "a;""b", U&';';x`, []string{`select ';', 'it''s;', E'\';', "a;""b", U&';'`, "x"}},
		{"backslash in a standard string", `select 'a\'; select 2`, []string{`select 'a\'`, "select 2"}},
		{"a name that ends in e", `select type'\'; select 2`, []string{`select type'\'`, "select 2"}},
		{"comments within", "select 1 -- ;\n, 2 /* ; */;x", []string{"select 1 -- ;\n, 2 /* ; */", "x"}},
		{"dollars", "do $$ a; $b$ ; $$; do $a_1$ ; $$ $a_1$; select $1; x$y$;", []string{"do $$ a; $b$ ; $$", "do $a_1$ ; $$ $a_1$", "select $1", "x$y$"}},
		{"parentheses", "create rule r as on insert to t do (a; b); x", []string{"create rule r as on insert to t do (a; b)", "x"}},
		{"bodies", "create or replace function f() returns int begin atomic; select case when a then b end; end; x", []string{"create or replace function f() returns int begin atomic; select case when a then b end; end", "x"}},
		{"begin elsewhere", "begin; select 1; end;", []string{"begin", "select 1", "end"}},
		{"column named begin", `create table t ("begin" int); x`, []string{`create table t ("begin" int)`, "x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, splitScript(test.script)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTLSSettingsOfConnectionString(t *testing.T) {
	t.Parallel()
	for connString, want := range map[string]map[string]string{
		"postgres://u:p@host/db?sslmode=verify-full&sslrootcert=%2Fa%20b&pool_max_conns=1": {"sslmode": "verify-full", "sslrootcert": "/a b"},
		`host=h sslmode=require sslcert = 'a b' password=x`:                                {"sslmode": "require", "sslcert": "a b"},
		"host=h": {},
		"":       {},
	} {
		if diff := cmp.Diff(want, tlsSettings(connString)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", connString, diff)
		}
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	base := []grant{{"o", "o", "SELECT", false}, {"o", "o", "INSERT", false}, {"o", "public", "SELECT", false}}
	for name, test := range map[string]struct {
		acl  []grant
		want []string
	}{
		"nothing changed": {base, nil},
		"given": {append([]grant{{"o", "a", "UPDATE", false}, {"o", "a", "DELETE", false}}, base...),
			[]string{"grant delete, update on table t to a"}},
		"taken": {base[:2], []string{"revoke all on table t from public"}},
		"owner's own taken": {[]grant{base[0], base[2]},
			[]string{"revoke all on table t from o", "grant select on table t to o"}},
		"handed on": {append([]grant{{"b", "c", "DELETE", false}, {"a", "b", "DELETE", true}, {"o", "a", "DELETE", true}}, base...),
			[]string{"grant delete on table t to a with grant option", "set role a", "grant delete on table t to b with grant option", "reset role",
				"set role b", "grant delete on table t to c", "reset role"}},
	} {
		if diff := cmp.Diff(test.want, grants("table t", "", "o", base, test.acl)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The patch releases of 2026 keep a number of their own among a column's options.
func TestOptionsOfTheServerAreNotSet(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]string{
		"ALTER TABLE ONLY public.t ALTER COLUMN a SET (pg_attver=22292216)":                      "",
		`ALTER TABLE ONLY "a b".t ALTER COLUMN "x (y" SET (pg_attver=1, n_distinct=5)`:           `ALTER TABLE ONLY "a b".t ALTER COLUMN "x (y" SET (n_distinct=5)`,
		"ALTER TABLE ONLY public.t ALTER COLUMN a SET (n_distinct_inherited=3, n_distinct=-0.5)": "ALTER TABLE ONLY public.t ALTER COLUMN a SET (n_distinct_inherited=3, n_distinct=-0.5)",
		"ALTER TABLE ONLY public.t ALTER COLUMN a SET DEFAULT 'x SET (pg_attver=1)'::text":       "ALTER TABLE ONLY public.t ALTER COLUMN a SET DEFAULT 'x SET (pg_attver=1)'::text",
		"ALTER MATERIALIZED VIEW public.m ALTER COLUMN a SET (pg_attver=1)":                      "",
	} {
		d := newDumped(statement+";\n", "", &catalog{}, nil, nil)
		if got := strings.Join(d.pre, ";"); got != want {
			t.Errorf("%s becomes %q, want %q", statement, got, want)
		}
	}
}
