package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/spf13/cobra"
)

func TestSplitStatements(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sql  string
		want []string
	}{
		{"", nil},
		{" ;; -- nothing\n ; /* a ; /* nested */ ; */", nil},
		{"select 1", []string{"select 1"}},
		{"select 1; select 2;", []string{"select 1", "select 2"}},
		{"-- first\nselect 1 -- ; no\n; select 2", []string{"select 1 -- ; no", "select 2"}},
		{"select ';', 'it''s;', \"a;b\"; x", []string{"select ';', 'it''s;', \"a;b\"", "x"}},
		{`select E'\';', 'a\'; x`, []string{`select E'\';', 'a\'`, "x"}},
		{"do $$ begin; end $$; do $a$ $$;$b$ $a$; x", []string{"do $$ begin; end $$", "do $a$ $$;$b$ $a$", "x"}},
		{"select $1; select a$b$c; x", []string{"select $1", "select a$b$c", "x"}},
		{"create rule r as on insert to t do also (select 1; select 2); x", []string{"create rule r as on insert to t do also (select 1; select 2)", "x"}},
		{
			"create or replace function f() returns int begin atomic select case when true then 1 end; select 2; end; x",
			[]string{"create or replace function f() returns int begin atomic select case when true then 1 end; select 2; end", "x"},
		},
		{"begin; select 1; end; x", []string{"begin", "select 1", "end", "x"}},
		{"select 'open; x", []string{"select 'open; x"}},
		{"select $x$ open; x", []string{"select $x$ open; x"}},
		{"\\restrict abc\nselect 1;\n\\unrestrict abc\n", []string{"select 1"}},
		{"\ufeffselect 1; select 'ü;';", []string{"select 1", "select 'ü;'"}},
		{"copy t from stdin;\n1\ta;b\n\\.\nselect 1", []string{"copy t from stdin", "select 1"}},
	} {
		got, err := splitStatements(test.sql, true)
		if err != nil {
			t.Errorf("%q: %v", test.sql, err)
			continue
		}
		var texts []string
		for _, stmt := range got {
			texts = append(texts, stmt.text)
			if !strings.HasPrefix(test.sql[stmt.start:], stmt.text) {
				t.Errorf("%q: %q is not at %d", test.sql, stmt.text, stmt.start)
			}
		}
		if diff := cmp.Diff(test.want, texts); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.sql, diff)
		}
	}
}

func TestCopyDataStandsInTheFile(t *testing.T) {
	t.Parallel()
	got, err := splitStatements("COPY public.t (a, b) FROM stdin WITH (delimiter ',');\r\n1,a;\r\n\\N,b\r\n\\.\r\ncopy (select 1) to stdout; copy t from '/x'", true)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	if diff := cmp.Diff("1,a;\r\n\\N,b\r\n", got[0].data); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, want := range []struct{ in, out bool }{{true, false}, {false, true}, {false, false}} {
		if got[i].copiesIn() != want.in || got[i].copiesOut() != want.out {
			t.Errorf("%q: in %t, out %t", got[i].text, got[i].copiesIn(), got[i].copiesOut())
		}
	}
}

func TestPsqlCommandsAreRefused(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{`\d`, "select 1;\n\\dt foo\n"} {
		if _, err := splitStatements(sql, true); err == nil || !strings.Contains(err.Error(), "command of psql") {
			t.Errorf("%q: %v", sql, err)
		}
	}
}

func FuzzSplitStatements(f *testing.F) {
	for _, seed := range []string{"select 1; select 2", "e'\\", "$a$;$a$", "/* /*", "create function f begin case end; end;", "copy t from stdin;\nx\n\\.", "\\", "((;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		statements, err := splitStatements(sql, true)
		if err != nil {
			return
		}
		end := 0
		for _, stmt := range statements {
			if stmt.start < end || stmt.text == "" || !strings.HasPrefix(sql[stmt.start:], stmt.text) {
				t.Errorf("%q: %+v after %d", sql, stmt, end)
			}
			end = stmt.start + len(stmt.text)
		}
	})
}

func TestPointAt(t *testing.T) {
	t.Parallel()
	source := "select 1;\n\tselect 'ü', nosuch\n  from t;\nselect " + strings.Repeat("x, ", 40) + "bad from " + strings.Repeat("y, ", 40)
	statements, err := splitStatements(source, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		stmt, position int
		want           string
	}{
		{0, 8, "LINE 1: select 1;\n               ^"},
		{1, 13, "LINE 2:  select 'ü', nosuch\n                     ^"},
		{1, 27, "LINE 3:   from t;\n               ^"},
		{2, 128, "LINE 4: … x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, bad from y, y, y, y, y, …\n" + strings.Repeat(" ", 58) + "^"},
		{0, 1000, "LINE 1: select 1;\n                ^"},
	} {
		if diff := cmp.Diff(test.want, pointAt(source, statements[test.stmt], test.position)); diff != "" {
			t.Errorf("position %d (-want +got):\n%s", test.position, diff)
		}
	}
}

func TestSQL(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.server.dsn = fakePostgres(t)
	file := filepath.Join(t.TempDir(), "x.sql")
	if err := os.WriteFile(file, []byte("select 1;\n\nselect bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	const one, bad = " n\n---\n 1\n", "Error: column \"bad\" does not exist (SQLSTATE 42703)\nLINE %s\nDetail: no\nHint: try good\n"
	for _, test := range []struct {
		name  string
		args  []string
		stdin string
		want  result
	}{
		{"command", []string{"-c", "select 1; select 2"}, "", result{exitOK, one + one, "(1 row)\n(1 row)\n"}},
		{"standard input", nil, "select 1", result{exitOK, one, "(1 row)\n"}},
		{"dash", []string{"-"}, "select 1", result{exitOK, one, "(1 row)\n"}},
		{"nothing", []string{"-c", " ; "}, "", result{exitOK, "", ""}},
		{"csv", []string{"-o", "csv", "-c", "select 1"}, "", result{exitOK, "n\n1\n", "(1 row)\n"}},
		{"json", []string{"-o", "json", "-c", "select 1"}, "", result{exitOK, "[\n  {\"n\": 1}\n]\n", "(1 row)\n"}},
		{"error in a file", []string{"-f", file}, "", result{exitFailed, one, "(1 row)\n" + fmt.Sprintf(bad, "3: select bad\n               ^")}},
		{"open transaction", []string{"-c", "begin"}, "", result{exitOK, "", "BEGIN\nWARNING: the transaction was not committed, its changes are lost\n"}},
		{"single transaction", []string{"-1", "-c", "select 1"}, "", result{exitOK, one, "(1 row)\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w.stdin = test.stdin
			got := w.run(t, append([]string{"sql", "--branch", "demo"}, test.args...)...)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// fakePostgres is a server that answers every query with one row, and those for "bad" with an error. It returns its URL.
func fakePostgres(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() {
				defer func() { _ = conn.Close() }()
				servePostgres(pgproto3.NewBackend(conn, conn))
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		sessions.Wait()
	})
	return "postgresql://bough@" + listener.Addr().String() + "/demo?sslmode=disable"
}

func servePostgres(b *pgproto3.Backend) {
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	status := byte('I')
	for {
		b.Send(&pgproto3.ReadyForQuery{TxStatus: status})
		if b.Flush() != nil {
			return
		}
		msg, err := b.Receive()
		query, ok := msg.(*pgproto3.Query)
		if err != nil || !ok {
			return
		}
		switch {
		case query.String == "begin":
			status = 'T'
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("BEGIN")})
		case query.String == "commit":
			status = 'I'
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("COMMIT")})
		case strings.Contains(query.String, "bad"):
			b.Send(&pgproto3.ErrorResponse{
				Severity: "ERROR", Code: "42703", Message: "column \"bad\" does not exist", Detail: "no", Hint: "try good",
				Position: int32(strings.Index(query.String, "bad") + 1),
			})
		default:
			b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("n"), DataTypeOID: pgtype.Int4OID}}})
			b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("1")}})
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		}
	}
}

func TestRows(t *testing.T) {
	t.Parallel()
	columns := []pgconn.FieldDescription{
		{Name: "id", DataTypeOID: pgtype.Int4OID}, {Name: "name", DataTypeOID: pgtype.TextOID}, {Name: "name", DataTypeOID: pgtype.TextOID},
		{Name: "ok", DataTypeOID: pgtype.BoolOID}, {Name: "doc", DataTypeOID: pgtype.JSONBOID}, {Name: "n", DataTypeOID: pgtype.NumericOID},
	}
	rows := [][][]byte{
		{[]byte("1"), []byte("日本"), []byte("a\nb"), []byte("t"), []byte(`{"a": [1, 2]}`), []byte("12345678901234567890.10")},
		{[]byte("22"), []byte(`say "hi", <b>`), nil, []byte("f"), nil, []byte("NaN")},
	}
	for _, format := range []string{formatTable, formatJSON, formatCSV} {
		var out strings.Builder
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		p := setup(t).rowPrinter(cmd, format)
		for range 2 {
			if err := p.begin(columns); err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				if err := p.row(row); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.finish(); err != nil {
				t.Fatal(err)
			}
		}
		golden(t, "output/rows_"+format, out.String())
	}
}
