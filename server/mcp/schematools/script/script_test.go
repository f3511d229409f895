package script_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/mcp/schematools/script"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sql  string
		want []string
	}{
		"nothing":                   {" ;; -- x\n /* ; */ ;", nil},
		"two":                       {"select 1; select 2", []string{"select 1", "select 2"}},
		"last semicolon":            {"select 1;\n", []string{"select 1"}},
		"quotes":                    {`select ';', "a;b", 'it''s;' ; select 2`, []string{`select ';', "a;b", 'it''s;'`, "select 2"}},
		"backslash":                 {`select '\'; select 2`, []string{`select '\'`, "select 2"}},
		"escapes":                   {`select E'\';', e'a'';b'; select 2`, []string{`select E'\';', e'a'';b'`, "select 2"}},
		"word ending in e":          {`select date'\'; select 2`, []string{`select date'\'`, "select 2"}},
		"escape after backslash":    {`select E'\\'; select 2`, []string{`select E'\\'`, "select 2"}},
		"dollars":                   {"do $$ begin; end $$; do $a$ ; $$ ; $a$", []string{"do $$ begin; end $$", "do $a$ ; $$ ; $a$"}},
		"dollars in a name":         {"select 1 as a$b$; select 2 as c$b$", []string{"select 1 as a$b$", "select 2 as c$b$"}},
		"parameters":                {"select $1; select $2$", []string{"select $1", "select $2$"}},
		"letters":                   {"select 1 as größe; select $é$ ; $é$", []string{"select 1 as größe", "select $é$ ; $é$"}},
		"comments":                  {"select 1 -- ; '\n, /* ; /* ; */ ' */ 2; select 3", []string{"select 1 -- ; '\n, /* ; /* ; */ ' */ 2", "select 3"}},
		"comment ended by a return": {"select 1 -- x\r; select 2", []string{"select 1 -- x", "select 2"}},
		"leading comment":           {"/* x */ -- y\n select 1", []string{"select 1"}},
		"parentheses":               {"create rule r as on insert to t do (select 1; select 2); select 3", []string{"create rule r as on insert to t do (select 1; select 2)", "select 3"}},
		"atomic": {"create or replace function f() returns int begin atomic select case when true then 1 end; select 2; end; select 3",
			[]string{"create or replace function f() returns int begin atomic select case when true then 1 end; select 2; end", "select 3"}},
		"no atomic":   {"create table atomic (atomic int); select 2", []string{"create table atomic (atomic int)", "select 2"}},
		"atomic name": {"select atomic from t; commit", []string{"select atomic from t", "commit"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := script.Split(tc.sql)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range all {
				got = append(got, s.Text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSplitCountsLines(t *testing.T) {
	t.Parallel()
	all, err := script.Split("\n-- one\nselect\n1; select 2;\n\n\nselect 3")
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, s := range all {
		got = append(got, s.Line)
	}
	if diff := cmp.Diff([]int{3, 4, 7}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSplitRefusesWhatHasNoEnd(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"select 'x", `select "x`, `select E'x\'`, "do $$ x", "do $a$ x $b$", "select 1 /* /* */"} {
		if all, err := script.Split(sql); err == nil {
			t.Errorf("%s: %+v", sql, all)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"begin": true, "BEGIN ISOLATION LEVEL SERIALIZABLE": true, "start transaction": true, "commit": true, "COMMIT AND CHAIN": true, "end": true,
		"rollback": true, "abort": true, "savepoint a": true, "release a": true, "rollback to a": true, "commit prepared 'x'": true,
		"prepare transaction 'x'": true, "set transaction read only": true, "set local transaction read only": true,
		"set session characteristics as transaction read only": true, "/* x */commit": true, "--\ncommit": true, "\ufeffcommit": false,
		"copy t from stdin": true, "copy t (a) from stdin with (format csv)": true, "copy (select 1) to stdout": true,
		"copy t from '/tmp/x'": false, "prepare x as select 1": false, "set search_path = x": false, "create table commit ()": false,
		"select 'commit'": false, "do $$ begin commit; end $$": false, `"commit"`: false, "set": false, "comment on table x is 'begin'": false,
	} {
		all, err := script.Split(sql)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %+v, %v", sql, all, err)
		}
		if got := all[0].Refused(); (got != "") != want {
			t.Errorf("%s: %q", sql, got)
		}
	}
}

// Whatever the text is, statements come in its order, none has a bare semicolon at its ends, and splitting them again
// changes nothing.
func FuzzSplit(f *testing.F) {
	for _, sql := range []string{"select 1;commit", "do $$;$$;", "e'\\';';", "/*/**/*/;--\n;", "create function f() begin atomic case end; end;", "$1$a$;$a$", "'\x00é"} {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		all, err := script.Split(sql)
		if err != nil {
			return
		}
		rest := sql
		for _, s := range all {
			i := strings.Index(rest, s.Text)
			if s.Text == "" || i < 0 || s.Text[0] == ';' {
				t.Fatalf("%q: statement %q", sql, s.Text)
			}
			rest = rest[i+len(s.Text):]
			again, err := script.Split(s.Text)
			if err != nil || len(again) != 1 || again[0].Text != s.Text || again[0].Refused() != s.Refused() {
				t.Fatalf("%q: statement %q splits into %+v, %v", sql, s.Text, again, err)
			}
		}
	})
}
