package compile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/query"
	"github.com/google/go-cmp/cmp"
)

const callDDL = `
create type mood as enum ('sad', 'ok');
create type pair as (a int, b text);
create domain positive as int check (value > 0);
create table films (id int primary key, title text, year int);
insert into films values (1, 'one', 1999), (2, 'two', 2005), (3, 'three', 2010);
create function add(a int, b int default 10) returns int language sql as 'select a + b';
create function nothing() returns void language sql as '';
create function hello() returns text language sql as $$ select 'hi' $$;
create function no_text() returns text language sql as 'select null::text';
create function numbers(n int) returns setof int language sql as 'select generate_series(1, n)';
create function arr(v int[], p pair default null, ps pair[] default null) returns text language sql as
	$$ select coalesce(v::text, '-') || coalesce(p::text, '') || coalesce(ps::text, '') $$;
create function js(j jsonb, k json default '{}') returns jsonb language sql as $$ select j || jsonb_build_object('k', k) $$;
create function dom(p positive, m mood default 'ok') returns positive language sql as 'select p';
create function ints() returns int[] language sql as $$ select '{1,2}'::int[] $$;
create function many(sep text, variadic parts text[]) returns text language sql as 'select array_to_string(parts, sep)';
create function one_pair() returns pair language sql as $$ select (1, 'x')::pair $$;
create function pairs(n int) returns setof pair language sql as $$ select g, 'p' || g from generate_series(1, n) g $$;
create function tab(n int) returns table (x int, tags text[]) language sql as $$ select g, array['t' || g] from generate_series(1, n) g $$;
create function outs(a int, out b int, out c text) language sql as $$ select a * 2, 'c' $$;
create function recent(since int) returns setof films language sql stable as 'select * from films where year >= since';
create function film(i int) returns films language sql stable as 'select * from films where id = i';
create function whole(jsonb) returns text language sql as $$ select $1->>'a' $$;
create function shout(text) returns text language sql as 'select upper($1)';
create function size(bytea) returns int language sql as 'select length($1)';
create function over(a int) returns text language sql as $$ select 'int' $$;
create function over(a text) returns text language sql as $$ select 'text' $$;
create function over(a int, b int) returns text language sql as $$ select 'both' $$;
create function "we""ird"("arg ""x" text) returns text language sql as 'select $1';
create procedure proc(a int, out c text, inout b int default 5) language plpgsql as $$ begin b := a + b; c := 'c'; end $$;
create procedure quiet(a int) language sql as 'insert into films values (a, ''new'', 1)';
create function unnamed_required(int, b int) returns int language sql as 'select $1';
`

func callBody(t *testing.T, json string) compile.Call { return compile.Call{Body: body(t, json)} }

func TestCall(t *testing.T) {
	t.Parallel()
	w := newWriter(t, callDDL)
	limit := int64(2)
	for _, tt := range []struct {
		fn    string
		call  compile.Call
		q     *query.Request
		shape compile.Shape
		want  string
	}{
		{"add", callBody(t, `{"b":2,"a":1}`), nil, compile.Scalar, "3"},
		{"add", callBody(t, `{"a":"1"}`), nil, compile.Scalar, "11"},
		{"add", compile.Call{}, &query.Request{Args: []query.Arg{{Name: "a", Value: "4"}, {Name: "a", Value: "5"}}}, compile.Scalar, "15"},
		{"nothing", callBody(t, `{}`), nil, compile.Void, "NULL"},
		{"hello", compile.Call{}, nil, compile.Scalar, "hi"},
		{"no_text", compile.Call{}, nil, compile.Scalar, "NULL"},
		{"numbers", callBody(t, `{"n":3}`), nil, compile.ScalarSet, "1;2;3"},
		{"numbers", callBody(t, `{"n":9}`), &query.Request{Limit: &limit, Offset: &limit}, compile.ScalarSet, "3;4"},
		{"arr", callBody(t, `{"v":[1,null],"p":{"a":1,"b":"(,\""},"ps":[{"a":2}]}`), nil, compile.Scalar, `{1,NULL}(1,"(,""")` + `{"(2,)"}`},
		{"arr", compile.Call{}, &query.Request{Args: []query.Arg{{Name: "v", Value: "{7}"}, {Name: "p", Value: "(1,x)"}}}, compile.Scalar, "{7}(1,x)"},
		{"js", callBody(t, `{"j":{"a":1.0},"k":[{"x" : null}]}`), nil, compile.Scalar, `{"a": 1.0, "k": [{"x": null}]}`},
		{"js", compile.Call{}, &query.Request{Args: []query.Arg{{Name: "j", Value: `{"a":1}`}}}, compile.Scalar, `{"a": 1, "k": {}}`},
		{"dom", callBody(t, `{"p":3,"m":"sad"}`), nil, compile.Scalar, "3"},
		{"ints", compile.Call{}, nil, compile.Scalar, "[1,2]"},
		{"many", callBody(t, `{"sep":"-","parts":["a","b,"]}`), nil, compile.Scalar, "a-b,"},
		{"many", compile.Call{}, &query.Request{Args: []query.Arg{{Name: "parts", Value: "a"}, {Name: "sep", Value: "+"},
			{Name: "parts", Value: "b,\""}}}, compile.Scalar, `a+b,"`},
		{"one_pair", compile.Call{}, nil, compile.Row, "1|x"},
		{"pairs", callBody(t, `{"n":2}`), nil, compile.Rows, "1|p1;2|p2"},
		{"pairs", callBody(t, `{"n":4}`), selecting(where("a", "3"), "b"), compile.Rows, "p3"},
		{"tab", callBody(t, `{"n":2}`), nil, compile.Rows, `1|["t1"];2|["t2"]`},
		{"outs", callBody(t, `{"a":2}`), nil, compile.Row, "4|c"},
		{"recent", callBody(t, `{"since":2000}`), selecting(where("year", "2010"), "title"), compile.Rows, "three"},
		{"film", callBody(t, `{"i":2}`), nil, compile.Row, "2|two|2005"},
		{"whole", compile.Call{Raw: []byte(`{"a":"A"}`)}, nil, compile.Scalar, "A"},
		{"shout", compile.Call{Raw: []byte(`it's`)}, nil, compile.Scalar, "IT'S"},
		{"shout", compile.Call{Raw: []byte{}}, nil, compile.Scalar, ""},
		{"size", compile.Call{Raw: []byte{0, 255, '\\'}}, nil, compile.Scalar, "3"},
		{`we"ird`, callBody(t, `{"arg \"x":"'"}`), nil, compile.Scalar, "'"},
		{"proc", callBody(t, `{"a":1}`), nil, compile.Row, "c|6"},
		{"proc", callBody(t, `{"a":1,"b":1}`), nil, compile.Row, "c|2"},
		{"quiet", callBody(t, `{"a":50}`), nil, compile.Void, ""},
	} {
		q := tt.q
		if q == nil {
			q = &query.Request{}
		}
		fns := w.Schema.Overloads("public", tt.fn)
		if len(fns) != 1 {
			t.Fatalf("%d functions %s", len(fns), tt.fn)
		}
		s, shape, err := w.Call(fns[0], q, tt.call)
		if err != nil {
			t.Errorf("%s: %v", tt.fn, err)
			continue
		}
		if shape != tt.shape {
			t.Errorf("%s: shape %d, want %d", tt.fn, shape, tt.shape)
		}
		if got := strings.Join(w.mustRun(t, s, nil), ";"); got != tt.want {
			t.Errorf("%s: got %s, want %s\n%s", tt.fn, got, tt.want, s.SQL)
		}
	}
	same(t, w.rows(t, "select count(*) from films where id = 50"), []string{"1"})
}

func TestCallErrors(t *testing.T) {
	t.Parallel()
	w := newWriter(t, callDDL)
	fn := w.Schema.Overloads("public", "dom")[0]
	s, _, err := w.Call(fn, &query.Request{}, callBody(t, `{"p":-1}`))
	w.wantSQLState(t, s, err, "23514")
	s, _, err = w.Call(fn, &query.Request{}, callBody(t, `{"p":1,"m":"x"}`))
	w.wantSQLState(t, s, err, "22P02")
	_, _, err = w.Call(fn, &query.Request{}, callBody(t, `{"q":1}`))
	wantFault(t, err, "PGRST202", "no argument 'q'")
	_, _, err = w.Call(fn, &query.Request{Args: []query.Arg{{Name: "q"}}}, compile.Call{})
	wantFault(t, err, "PGRST202", "no argument 'q'")
	_, _, err = w.Call(fn, &query.Request{Args: []query.Arg{{Name: "m", Value: "\x00"}}}, compile.Call{})
	wantFault(t, err, "PGRST102", "zero byte")
	_, _, err = w.Call(fn, &query.Request{}, callBody(t, `[{"p":1},{"p":2}]`))
	wantFault(t, err, "PGRST102", "one object")
	_, _, err = w.Call(fn, &query.Request{}, compile.Call{Raw: []byte("x")})
	wantFault(t, err, "PGRST102", "whole body")
}

func TestPickOverload(t *testing.T) {
	t.Parallel()
	w := newWriter(t, callDDL)
	for _, tt := range []struct {
		name string
		args []string
		in   compile.Input
		want int // arguments of the function
	}{
		{"add", []string{"a"}, compile.JSONInput, 2},
		{"add", []string{"b", "a"}, compile.QueryInput, 2},
		{"over", []string{"b", "a"}, compile.JSONInput, 2},
		{"many", []string{"parts", "sep", "parts"}, compile.QueryInput, 2},
		{"hello", nil, compile.QueryInput, 0},
		{"whole", []string{"a"}, compile.JSONInput, 1},
		{"whole", nil, compile.JSONInput, 1},
		{"shout", nil, compile.TextInput, 1},
		{"size", nil, compile.BytesInput, 1},
	} {
		fn, err := w.PickOverload(tt.name, tt.args, tt.in)
		if err != nil {
			t.Errorf("%s%v: %v", tt.name, tt.args, err)
			continue
		}
		if fn.Name != tt.name || len(fn.Args) != tt.want {
			t.Errorf("%s%v: got %s with %d arguments", tt.name, tt.args, fn.Name, len(fn.Args))
		}
	}
	const in = " in the schema cache"
	const no = ", but no matches were found in the schema cache."
	for _, tt := range []struct {
		name string
		args []string
		in   compile.Input
		want fault.Error
	}{
		{"add", []string{"b", "c"}, compile.JSONInput, fault.Error{Kind: fault.NotFound, Code: "PGRST202",
			Message: "Could not find the function public.add(b, c)" + in,
			Details: "Searched for the function public.add with parameters b, c or with a single unnamed json/jsonb parameter" + no,
			Hint:    "Perhaps you meant to call the function public.add(a, b)"}},
		{"add", nil, compile.QueryInput, fault.Error{Kind: fault.NotFound, Code: "PGRST202",
			Message: "Could not find the function public.add without parameters" + in,
			Details: "Searched for the function public.add without parameters" + no}},
		{"helo", []string{"x"}, compile.QueryInput, fault.Error{Kind: fault.NotFound, Code: "PGRST202",
			Message: "Could not find the function public.helo(x)" + in,
			Details: "Searched for the function public.helo with parameter x" + no,
			Hint:    "Perhaps you meant to call the function public.hello"}},
		{"zzzzzz", nil, compile.BytesInput, fault.Error{Kind: fault.NotFound, Code: "PGRST202",
			Message: "Could not find the function public.zzzzzz" + in,
			Details: "Searched for the function public.zzzzzz with a single unnamed bytea parameter" + no}},
		{"over", []string{"a"}, compile.JSONInput, fault.Error{Kind: fault.MultipleChoices, Code: "PGRST203",
			Message: "Could not choose the best candidate function between: public.over(a => integer), public.over(a => text)",
			Hint:    "Try renaming the parameters or the function itself in the database so function overloading can be resolved"}},
	} {
		_, err := w.PickOverload(tt.name, tt.args, tt.in)
		var f *fault.Error
		if !errors.As(err, &f) {
			t.Errorf("%s%v: got %v", tt.name, tt.args, err)
			continue
		}
		if diff := cmp.Diff(tt.want, *f); diff != "" {
			t.Errorf("%s%v: (-want +got)\n%s", tt.name, tt.args, diff)
		}
	}
	for _, args := range [][]string{{"b"}, {"", "b"}, {"a", "b", "c"}} {
		if fn, err := w.PickOverload("unnamed_required", args, compile.JSONInput); err == nil {
			t.Errorf("got %v for %q", fn, args)
		}
	}
}
