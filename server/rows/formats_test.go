package rows_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/rows"
)

func discard() (io.Writer, error) { return io.Discard, nil }

func TestFormats(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	const two = `values (1, 'a "b"', true, json '{"k": null,
 "l": [1]}', 'h1'), (2, null, null, null, 'h2')`
	columns := []string{"id:n", `na"me`, "ok:b", "data:j", "-hidden"}
	const none = "select 1, 2 where false"
	plain, stripped := rows.Options{}, rows.Options{StripNulls: true}
	objects := func(o rows.Options) func(*rows.Body, []compile.Output) rows.Sink {
		return func(b *rows.Body, out []compile.Output) rows.Sink { return rows.NewObjects(b, out, o) }
	}
	object := func(o rows.Options) func(*rows.Body, []compile.Output) rows.Sink {
		return func(b *rows.Body, out []compile.Output) rows.Sink { return rows.NewObject(b, out, o) }
	}
	ndjson := func(o rows.Options) func(*rows.Body, []compile.Output) rows.Sink {
		return func(b *rows.Body, out []compile.Output) rows.Sink { return rows.NewNDJSON(b, out, o) }
	}
	for _, c := range []struct {
		name    string
		sql     string
		columns []string
		sink    func(*rows.Body, []compile.Output) rows.Sink
		want    string
		count   int64 // of a *NotSingleError; -1 for none
	}{
		{"objects", two, columns, objects(plain), `[{"id":1,"na\"me":"a \"b\"","ok":true,"data":{"k": null,` + "\n" +
			` "l": [1]}},{"id":2,"na\"me":null,"ok":null,"data":null}]`, -1},
		{"objects without nulls", two, columns, objects(stripped), `[{"id":1,"na\"me":"a \"b\"","ok":true,"data":{"l":[1]}},{"id":2}]`, -1},
		{"a JSON null is a null", "select 'null'::jsonb, null, 1", []string{"a:j", "b", "c:n"}, objects(stripped), `[{"c":1}]`, -1},
		{"no objects", none, []string{"a:n", "b:n"}, objects(plain), `[]`, -1},
		{"objects without columns", "select 1 from generate_series(1, 2)", []string{"-a"}, objects(plain), `[{},{}]`, -1},
		{"stripped objects without columns", "select 1", []string{"-a"}, objects(stripped), `[{}]`, -1},
		{"the first column hidden", "select 1, 2, 3", []string{"-a", "b:n", "c:n"}, objects(plain), `[{"b":2,"c":3}]`, -1},
		{"object", "select 1, 'x'", []string{"a:n", "b"}, object(plain), `{"a":1,"b":"x"}`, -1},
		{"object without nulls", "select 1, null", []string{"a:n", "b"}, object(stripped), `{"a":1}`, -1},
		{"object of no row", none, []string{"a:n", "b"}, object(plain), ``, 0},
		{"object of no row, if any", none, []string{"a:n", "b"}, object(rows.Options{Optional: true}), ``, -1},
		{"object of too many rows, if any", numbered(5), []string{"a:n"}, object(rows.Options{Optional: true}), ``, 5},
		{"object of several rows", numbered(5), []string{"a:n"}, object(plain), ``, 5},
		{"scalar", "select 'a\nb'", []string{"f"}, rows.NewScalar, `"a\nb"`, -1},
		{"scalar null", "select null", []string{"f"}, rows.NewScalar, `null`, -1},
		{"scalar of no row", none, []string{"a:n", "b"}, rows.NewScalar, `null`, -1},
		{"scalar of several rows", numbered(3), []string{"f:n"}, rows.NewScalar, ``, 3},
		{"scalar after a hidden column", "select 1, 2", []string{"-h", "f:n"}, rows.NewScalar, `2`, -1},
		{"scalars", "values (1), (null), (3)", []string{"f:n"}, rows.NewScalars, `[1,null,3]`, -1},
		{"no scalars", none, []string{"f:n", "g"}, rows.NewScalars, `[]`, -1},
		{"ndjson", two, columns, ndjson(plain), `{"id":1,"na\"me":"a \"b\"","ok":true,"data":{"k": null,  "l": [1]}}` + "\n" +
			`{"id":2,"na\"me":null,"ok":null,"data":null}` + "\n", -1},
		{"ndjson without nulls", two, columns, ndjson(stripped), `{"id":1,"na\"me":"a \"b\"","ok":true,"data":{"l":[1]}}` + "\n" + `{"id":2}` + "\n", -1},
		{"no ndjson", none, []string{"a", "b"}, ndjson(plain), ``, -1},
		{"csv", `values ('plain', 'a,b', 'say "x"', '', null, '{1,2}'::int[], E'a\nb\rc'), (' ', 'b', '"', '""', 'ü', null, ',')`,
			[]string{"a", "b,b", `c"c`, "d", "e", "f", "g"}, rows.NewCSV,
			`a,"b,b","c""c",d,e,f,g` + "\n" + `plain,"a,b","say ""x""","",,"{1,2}","a` + "\nb\rc\"\n" + ` ,b,"""","""""",ü,,","` + "\n", -1},
		{"csv of other types", `select true, timestamptz '2024-01-01 00:00+00', to_json(array[1]), 1.50, 'h'`, []string{"a:b", "b:t", "c:j", "d:n", "-h"}, rows.NewCSV,
			"a,b,c,d\nt,2024-01-01 00:00:00+00,[1],1.50\n", -1},
		{"empty csv", none, []string{"a", "b"}, rows.NewCSV, "a,b\n", -1},
		{"text", `select 'a"b'`, []string{"f"}, rows.NewText, `a"b`, -1},
		{"text of null", `select null`, []string{"f"}, rows.NewText, ``, -1},
		{"text of no row", none, []string{"f", "g"}, rows.NewText, ``, -1},
		{"text of several rows", numbered(2), []string{"f"}, rows.NewText, ``, 2},
		{"binary", `select '\x00ff0a22'::bytea`, []string{"f"}, rows.NewBinary, "\x00\xff\n\"", -1},
		{"empty binary", `select ''::bytea`, []string{"f"}, rows.NewBinary, "", -1},
	} {
		body := rows.NewBody(nil, false)
		s := statement(c.sql, nil, c.columns...)
		session := &rows.Session{Settings: []rows.Setting{{Name: "timezone", Value: "UTC"}}}
		err := rows.Run(t.Context(), conn, session, rows.Step{Statement: s, Sink: c.sink(body, s.Output)})
		var notSingle *rows.NotSingleError
		switch {
		case c.count < 0 && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.count >= 0 && (!errors.As(err, &notSingle) || notSingle.Rows != c.count || !errors.Is(err, rows.ErrNotSingle)):
			t.Errorf("%s: got error %v, want one for %d rows", c.name, err, c.count)
		}
		if diff := cmp.Diff(c.want, string(body.Bytes())); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
		body.Release()
	}
	wantClean(t, conn)
}

func TestNotSingleIsForCallers(t *testing.T) {
	t.Parallel()
	var f *fault.Error
	if err := error(&rows.NotSingleError{Rows: 7}); !errors.As(err, &f) || f.Kind != fault.NotAcceptable || !strings.Contains(f.Message, "7") {
		t.Errorf("got %v", f)
	}
}

func TestWrongBytesAreRefused(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	for _, sql := range []string{"select 'x'", `select '\x1'::text`} {
		body := rows.NewBody(nil, false)
		s := statement(sql, nil, "f")
		if err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: s, Sink: rows.NewBinary(body, s.Output)}); err == nil || len(body.Bytes()) != 0 {
			t.Errorf("%s: got %q and error %v", sql, body.Bytes(), err)
		}
		body.Release()
	}
	wantClean(t, conn)
}

func TestColumnsThatWereNotAnnouncedAreAnError(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	body := rows.NewBody(nil, false)
	defer body.Release()
	s := statement("select 1, 2", nil, "a:n")
	if err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: s, Sink: rows.NewObjects(body, s.Output, rows.Options{})}); err == nil {
		t.Error("no error")
	}
	wantClean(t, conn)
}

func TestResult(t *testing.T) {
	t.Parallel()
	conn := setup(t, "create table t (id int primary key, v text)")
	var insert, update, selected, none rows.Result
	var v rows.Values
	null := statement("update t set v = $1 where id > $2 returning id, v", nil, "-id", "-v")
	null.Args = [][]byte{nil, []byte("1")}
	steps := []rows.Step{
		{Statement: statement("insert into t select i, 'v' || i from generate_series(1, 3) i", nil), Result: &insert},
		{Statement: statement("select id, v, v from t order by id", nil, "-id", "v", "-v2"), Sink: &v, Result: &selected},
		{Statement: null, Result: &update},
		{Statement: statement("select id from t where false", nil, "-id"), Result: &none},
	}
	if err := rows.Run(t.Context(), conn, nil, steps...); err != nil {
		t.Fatal(err)
	}
	type result struct {
		Rows, Affected int64
		Hidden         [][]byte
	}
	want := []result{{0, 3, nil}, {3, 3, [][]byte{[]byte("3"), []byte("v3")}}, {2, 2, [][]byte{[]byte("3"), nil}}, {0, 0, nil}}
	var got []result
	for _, r := range []rows.Result{insert, selected, update, none} {
		got = append(got, result{r.Rows, r.Affected, r.Hidden})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(v.Rows) != 3 || *v.Rows[2][1] != "v3" {
		t.Errorf("values: %v", v.Rows)
	}
	// A result that is used again forgets.
	if err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: steps[3].Statement, Result: &selected}); err != nil || selected.Hidden != nil || selected.Rows != 0 {
		t.Errorf("got %+v, %v", selected, err)
	}
}

// pieces records what is written to it.
type pieces struct {
	bytes.Buffer
	sizes []int
	fail  int // the write that fails; 0 for none
}

func (p *pieces) Write(b []byte) (int, error) {
	p.sizes = append(p.sizes, len(b))
	if len(p.sizes) == p.fail {
		return 0, io.ErrClosedPipe
	}
	return p.Buffer.Write(b)
}

func TestBodyStreamsBeyondTheThreshold(t *testing.T) {
	t.Parallel()
	conn := setup(t)
	s := statement(`select i, repeat('x', 1000) from generate_series(1, $1::int) i`, []string{"100"}, "id:n", "x")
	run := func(hold bool, w *pieces) (*rows.Body, int) {
		starts := 0
		b := rows.NewBody(func() (io.Writer, error) { starts++; return w, nil }, hold)
		if err := rows.Run(t.Context(), conn, nil, rows.Step{Statement: s, Sink: rows.NewObjects(b, s.Output, rows.Options{})}); err != nil {
			t.Fatal(err)
		}
		return b, starts
	}
	var held, streamed, small pieces
	b, starts := run(true, &held)
	want := string(b.Bytes())
	if starts != 0 || b.Streaming() || len(want) < 100*1000 || b.Finish() != nil || held.Len() != 0 {
		t.Errorf("a body that is held: %d starts, %d bytes", starts, len(want))
	}
	b.Release()
	b, starts = run(false, &streamed)
	if !b.Streaming() || starts != 1 {
		t.Errorf("%d starts", starts)
	}
	if strings.HasSuffix(streamed.String(), "]") {
		t.Error("the end is out before Finish")
	}
	if err := b.Finish(); err != nil || streamed.String() != want {
		t.Errorf("the streamed body differs: %d bytes instead of %d, %v", streamed.Len(), len(want), err)
	}
	for _, n := range streamed.sizes {
		if n > rows.Threshold+2000 {
			t.Errorf("a piece has %d bytes", n)
		}
	}
	b.Release()
	s.Args[0] = []byte("20")
	b, starts = run(false, &small)
	if starts != 0 || b.Streaming() || small.Len() != 0 || len(b.Bytes()) < 20*1000 {
		t.Errorf("a small body: %d starts, %d bytes", starts, len(b.Bytes()))
	}
	b.Release()
}
