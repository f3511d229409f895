package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/compile"
)

const patchDDL = `
create type mood as enum ('sad', 'ok');
create domain label as text check (length(value) < 20);
create table docs (id int primary key, n int, big numeric, t text, l label, m mood, tags text[], ns int[], moods mood[],
	doc jsonb, j json, b bytea, vc varchar(4));
insert into docs values (1, 5, 1.5, 'ab', 'lab', 'sad', '{x,y}', '{1}', '{sad}',
	'{"a":{"b":1,"list":[1,2],"s":"str"},"0":"zero","list":[],"k":null}', '{"a":1}', '\x01', 'abc');
insert into docs (id) values (2);
`

func TestJSONPatch(t *testing.T) {
	t.Parallel()
	w := newWriter(t, patchDDL)
	rel := w.rel(t, "docs")
	for _, tt := range []struct{ ops, column, want string }{
		{`{"op":"replace","path":"/n","value":7}`, "n", "7"},
		{`{"op":"add","path":"/tags","value":["a,b"]}`, "tags", `{"a,b"}`},
		{`{"op":"add","path":"/doc","value":{"z":1}}`, "doc", `{"z": 1}`},
		{`{"op":"remove","path":"/t"}`, "t", "NULL"},
		{`{"op":"incr","path":"/n","value":-3}`, "n", "2"},
		{`{"op":"incr","path":"/big","value":0.000000000000000000001}`, "big", "1.500000000000000000001"},
		{`{"op":"incr","path":"/n","value":1},{"op":"incr","path":"/n","value":1},{"op":"incr","path":"/big","value":1}`, "n||' '||big", "7 2.5"},
		{`{"op":"append","path":"/t","value":"\"'c"}`, "t", `ab"'c`},
		{`{"op":"append","path":"/l","value":"!"}`, "l", "lab!"},
		{`{"op":"append","path":"/vc","value":"d"}`, "vc", "abcd"},
		{`{"op":"append","path":"/tags","value":"z,"}`, "tags", `{x,y,"z,"}`},
		{`{"op":"append","path":"/tags","value":["p","q"]}`, "tags", "{x,y,p,q}"},
		{`{"op":"append","path":"/ns","value":2}`, "ns", "{1,2}"},
		{`{"op":"append","path":"/moods","value":"ok"}`, "moods", "{sad,ok}"},
		{`{"op":"append","path":"/b","value":"\\x02"}`, "b", `\x0102`},
		{`{"op":"append","path":"/doc/list","value":[1]}`, "doc->'list'", "[[1]]"},
		{`{"op":"append","path":"/doc/a/s","value":"!"}`, "doc#>'{a,s}'", `"str!"`},
		{`{"op":"append","path":"/doc/a/list","value":"s"}`, "doc#>'{a,list}'", `[1, 2, "s"]`},
		{`{"op":"append","path":"/doc/a/new","value":1}`, "doc#>'{a,new}'", `[1]`},
		{`{"op":"replace","path":"/doc/a/b","value":null}`, "doc#>'{a,b}'", "null"},
		{`{"op":"add","path":"/doc/a/new","value":{"x":1}}`, "doc#>'{a,new}'", `{"x": 1}`},
		{`{"op":"add","path":"/doc/a/list/1","value":9}`, "doc#>'{a,list}'", "[1, 9, 2]"},
		{`{"op":"add","path":"/doc/a/list/0","value":9}`, "doc#>'{a,list}'", "[9, 1, 2]"},
		{`{"op":"add","path":"/doc/a/list/-","value":9}`, "doc#>'{a,list}'", "[1, 2, 9]"},
		{`{"op":"add","path":"/doc/list/-","value":9}`, "doc->'list'", "[9]"},
		{`{"op":"add","path":"/doc/0","value":"o"}`, "doc->'0'", `"o"`},
		{`{"op":"add","path":"/doc/a~1b~0c","value":1}`, "doc->'a/b~c'", "1"},
		{`{"op":"add","path":"/doc/\"{,}\\'","value":1}`, `doc->E'"{,}\\'''`, "1"},
		{`{"op":"remove","path":"/doc/a/list/0"}`, "doc#>'{a,list}'", "[2]"},
		{`{"op":"remove","path":"/doc/k"}`, "doc ? 'k'", "f"},
		{`{"op":"incr","path":"/doc/a/b","value":1.5}`, "doc#>'{a,b}'", "2.5"},
		{`{"op":"incr","path":"/doc/a/count","value":1}`, "doc#>'{a,count}'", "1"},
		{`{"op":"incr","path":"/j/a","value":1}`, "j", `{"a": 2}`},
		{`{"op":"test","path":"/n","value":5},{"op":"replace","path":"/t","value":"x"}`, "t", "x"},
		{`{"op":"test","path":"/doc/a/b","value":1.0},{"op":"remove","path":"/doc/a"},{"op":"add","path":"/doc/n","value":1}`,
			"(doc ? 'a')||' '||(doc->>'n')", "false 1"},
		{`{"op":"test","path":"/j","value":{"a":1.0}},{"op":"replace","path":"/t","value":"x"}`, "t", "x"},
		{`{"op":"test","path":"/m","value":"sad"},{"op":"replace","path":"/m","value":"ok"}`, "m", "ok"},
		{`{"op":"test","path":"/tags","value":["x","y"]},{"op":"append","path":"/tags","value":"z"}`, "tags", "{x,y,z}"},
	} {
		ops, err := compile.ParsePatch([]byte("[" + tt.ops + "]"))
		if err != nil {
			t.Fatal(err)
		}
		w.sql(t, "begin")
		s, err := w.Patch(rel, where("id", "1"), compile.Patch{Ops: ops, Return: compile.ReturnKeys})
		if got := w.mustRun(t, s, err); len(got) != 1 {
			t.Errorf("%s: changed %v\n%s", tt.ops, got, s.SQL)
		}
		if got := w.rows(t, "select "+tt.column+" from docs where id = 1"); got[0] != tt.want {
			t.Errorf("%s: got %s, want %s", tt.ops, got[0], tt.want)
		}
		w.sql(t, "rollback")
	}
}

func TestJSONPatchOfNulls(t *testing.T) {
	t.Parallel()
	w := newWriter(t, patchDDL)
	ops, err := compile.ParsePatch([]byte(`[{"op":"incr","path":"/n","value":2},{"op":"append","path":"/t","value":"x"},
		{"op":"append","path":"/tags","value":"x"},{"op":"append","path":"/ns","value":[1]},{"op":"append","path":"/doc","value":{"a":1}},
		{"op":"append","path":"/j","value":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Patch(w.rel(t, "docs"), where("id", "2"), compile.Patch{Ops: ops})
	w.mustRun(t, s, err)
	same(t, w.rows(t, "select n, t, tags, ns, doc, j from docs where id = 2"), []string{`2|x|{x}|{1}|[{"a": 1}]|[1]`})
}

// TestImpossibleOperationsChangeNothing: the row is left out, whatever the other operations are.
func TestImpossibleOperationsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWriter(t, patchDDL)
	before := w.rows(t, "select * from docs order by id")
	for _, op := range []string{
		`{"op":"test","path":"/n","value":6}`,
		`{"op":"test","path":"/doc/a/b","value":2}`,
		`{"op":"test","path":"/doc/a/zzz","value":null}`,
		`{"op":"replace","path":"/doc/zzz","value":1}`,
		`{"op":"remove","path":"/doc/a/zzz"}`,
		`{"op":"add","path":"/doc/zzz/y","value":1}`,
		`{"op":"add","path":"/doc/list/x","value":1}`,
		`{"op":"incr","path":"/doc/zzz/y","value":1}`,
		`{"op":"remove","path":"/doc/a"},{"op":"incr","path":"/doc/a/b","value":1}`,
		`{"op":"test","path":"/doc/a","value":1},{"op":"incr","path":"/doc/a","value":1}`,
	} {
		ops, err := compile.ParsePatch([]byte(`[{"op":"incr","path":"/big","value":1},` + op + `]`))
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.Patch(w.rel(t, "docs"), where("id", "1"), compile.Patch{Ops: ops, Return: compile.ReturnKeys})
		same(t, w.mustRun(t, s, err), []string{})
	}
	same(t, w.rows(t, "select * from docs order by id"), before)
}

func TestJSONPatchRefuses(t *testing.T) {
	t.Parallel()
	w := newWriter(t, patchDDL)
	for in, want := range map[string]string{
		`{}`:                         "A JSON patch is an array",
		`[1]`:                        "Operation 1 of the patch is not an object.",
		`[{"path":"/n"}]`:            `no string "op"`,
		`[{"op":"remove"}]`:          `no string "path"`,
		`[{"op":"add","path":"/n"}]`: "add, has no value",
		`[{"op":"move","path":"/n","from":"/t"}]`:                                                  `is "move"; known are`,
		`[{"op":"remove","path":"n"}]`:                                                             "names no column",
		`[{"op":"remove","path":"/"}]`:                                                             "names no column",
		`[{"op":"remove","path":"/a~2"}]`:                                                          "has a ~",
		`[{"op":"remove","op":"add","path":"/n"}]`:                                                 `has "op" twice`,
		`[{"op":"remove","path":"/n"}`:                                                             "Invalid JSON patch",
		`[{"op":"remove","path":"/nn"}]`:                                                           "Could not find the 'nn' column",
		`[{"op":"remove","path":"/n/x"}]`:                                                          `The operation remove /n/x needs JSON; the column "n" is of type integer.`,
		`[{"op":"incr","path":"/t","value":1}]`:                                                    "needs a number",
		`[{"op":"incr","path":"/n","value":"1"}]`:                                                  "is not a number",
		`[{"op":"incr","path":"/doc/a","value":null}]`:                                             "is not a number",
		`[{"op":"append","path":"/n","value":1}]`:                                                  "needs a text, an array or JSON",
		`[{"op":"append","path":"/t","value":1}]`:                                                  "is not a string",
		"[" + strings.Repeat(`{"op":"remove","path":"/n"},`, 100) + `{"op":"remove","path":"/n"}]`: "at most 100",
	} {
		ops, err := compile.ParsePatch([]byte(in))
		if err == nil {
			_, err = w.Patch(w.rel(t, "docs"), where(), compile.Patch{Ops: ops})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
}

// TestManyOperationsOnOneColumn: the statement grows with their number, not faster.
func TestManyOperationsOnOneColumn(t *testing.T) {
	t.Parallel()
	w := newWriter(t, patchDDL)
	var parts []string
	for i := range 90 {
		parts = append(parts, fmt.Sprintf(`{"op":"append","path":"/doc/list","value":%d}`, i))
	}
	ops, err := compile.ParsePatch([]byte("[" + strings.Join(parts, ",") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Patch(w.rel(t, "docs"), where("id", "1"), compile.Patch{Ops: ops})
	w.mustRun(t, s, err)
	same(t, w.rows(t, "select jsonb_array_length(doc->'list'), doc#>>'{list,89}' from docs where id = 1"), []string{"90|89"})
}

func TestMergePatch(t *testing.T) {
	t.Parallel()
	w := newWriter(t, patchDDL)
	for _, tt := range []struct{ before, patch, want string }{
		// The examples of RFC 7396 that are objects.
		{`{"a":"b"}`, `{"a":"c"}`, `{"a": "c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a": "b", "b": "c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b": "c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a": "c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a": ["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a": {"b": "d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a": [1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a": 1, "e": null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a": "b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a": {"bb": {}}}`},
		// A number as a key is not an index.
		{`{"a":[{"x":1}]}`, `{"a":{"0":{"y":2}}}`, `{"a": {"0": {"y": 2}}}`},
		{`{"a":{"0":{"x":1}}}`, `{"a":{"0":{"y":2}}}`, `{"a": {"0": {"x": 1, "y": 2}}}`},
		{`[{"x":1}]`, `{"0":{"y":2}}`, `{"0": {"y": 2}}`},
		{`{"a":1}`, `{}`, `{"a": 1}`},
		{`{"a":1}`, `{"b":[{"c":null}],"n":1.0e2}`, `{"a": 1, "b": [{"c": null}], "n": 100}`},
		{`{"x\"'{":1}`, `{"x\"'{":{"\\":2}}`, `{"x\"'{": {"\\": 2}}`},
		{`null`, `{"a":{"b":1}}`, `{"a": {"b": 1}}`},
	} {
		w.sql(t, "update docs set doc = '"+strings.ReplaceAll(tt.before, "'", "''")+"' where id = 1")
		s, err := w.Patch(w.rel(t, "docs"), where("id", "1"), compile.Patch{Merge: body(t, `{"doc":`+tt.patch+`}`)})
		w.mustRun(t, s, err)
		if got := w.rows(t, "select doc from docs where id = 1")[0]; got != tt.want {
			t.Errorf("%s merged with %s: got %s, want %s", tt.before, tt.patch, got, tt.want)
		}
	}
	s, err := w.Patch(w.rel(t, "docs"), where("id", "2"), compile.Patch{Return: compile.ReturnKeys,
		Merge: body(t, `{"doc":{"a":{"b":1}},"j":{"x":1},"n":4,"tags":["q"],"t":null}`)})
	same(t, w.mustRun(t, s, err), []string{"2"})
	same(t, w.rows(t, "select doc, j, n, tags, t from docs where id = 2"), []string{`{"a": {"b": 1}}|{"x": 1}|4|{q}|NULL`})
	s, err = w.Patch(w.rel(t, "docs"), where("id", "2"), compile.Patch{Merge: body(t, `{"doc":null,"j":[1]}`)})
	w.mustRun(t, s, err)
	same(t, w.rows(t, "select doc, j from docs where id = 2"), []string{`NULL|[1]`})

	_, err = w.Patch(w.rel(t, "docs"), where(), compile.Patch{Merge: body(t, `{"doc":{"a":{"b":1,"\u0062":2}}}`)})
	wantFault(t, err, "PGRST102", `the key "b" twice`)
	_, err = w.Patch(w.rel(t, "docs"), where(), compile.Patch{Merge: body(t, `[{"n":1}]`)})
	wantFault(t, err, "PGRST102", "one object")
	_, err = w.Patch(w.rel(t, "docs"), where(), compile.Patch{Merge: body(t, `{"nn":1}`)})
	wantFault(t, err, "PGRST204", "'nn'")
	var many []string
	for i := range 600 {
		many = append(many, fmt.Sprintf(`"k%d":{}`, i))
	}
	_, err = w.Patch(w.rel(t, "docs"), where(), compile.Patch{Merge: body(t, `{"doc":{`+strings.Join(many, ",")+`}}`)})
	wantFault(t, err, "validation_error", "at most 500 objects")
}

func FuzzParsePatch(f *testing.F) {
	f.Add(`[{"op":"incr","path":"/n","value":1},{"op":"append","path":"/doc/a/list","value":"x"}]`)
	f.Add(`[{"op":"add","path":"/doc/0/-","value":{}},{"op":"test","path":"/j","value":null},{"op":"remove","path":"/tags"}]`)
	w := newWriter(f, patchDDL)
	rel := w.Schema.Relation("public", "docs")
	f.Fuzz(func(t *testing.T, data string) {
		ops, err := compile.ParsePatch([]byte(data))
		if err != nil {
			return
		}
		s, err := w.Patch(rel, where("id", "1"), compile.Patch{Ops: ops})
		if err != nil {
			return
		}
		if _, _, err = w.run(s); err != nil && (strings.Contains(err.Error(), "42601") || strings.Contains(err.Error(), "42P18")) {
			t.Fatalf("%v\n%s", err, s.SQL)
		}
	})
}
