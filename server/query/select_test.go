package query_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/query"
)

func TestSelect(t *testing.T) {
	t.Parallel()
	for _, tc := range []reading{
		{"", ""},
		{" ", ""},
		{"*", "*"},
		{"id,title", "id, title"},
		{" id ,\n\"my \\\"col\\\"\",\tmy col , a : b ", `id, my "col", my col, a: b`},
		{"größe,$x,a-b,1st", "größe, $x, a-b, 1st"},
		{"id::int,v :: double precision ,x::public.mood,y::numeric(10,2),z::int[]", "id as int, v as double precision, x as public.mood, y as numeric(10,2), z as int[]"},
		{"data->a->>b::text,x:data->0,y:data->-1->>\"a,b\",data -> a", `data->"a"->>"b" as text, x: data->0, y: data->-1->>"a,b", data->"a"`},
		{"price.sum(),count(),total:count()::text,m : price.max( )", "sum(price), count(), total: count() as text, m: max(price)"},
		{"price::int.sum()::text,d->x::int.avg(),w::public.mood.min(),a.count()", `sum(price as int) as text, avg(d->"x" as int), min(w as public.mood), count(a)`},
		{"author(*)", "embed author {*}"},
		{"a:author!fk!inner(name),b:author!left!fk(id),c!inner(id)", "a: embed author by fk inner {name}, b: embed author by fk left {id}, embed c inner {id}"},
		{`"the authors"!"inner"(id)`, "embed the authors by inner {id}"},
		{"author(),*", "embed author {}, *"},
		{"...c(id),...c!fk!inner(id,d(e,...f(*)))", "...embed c {id}, ...embed c by fk inner {id, embed d {e, ...embed f {*}}}"},
		{`count,"count"(),count(id),x:count,sum()`, "count, embed count {}, embed count {id}, x: count, embed sum {}"},
		{"a( b , c ( d ) ) , e", "embed a {b, embed c {d}}, e"},
		{`"*","a.b","a:b"`, "*, a.b, a:b"},
	} {
		items, err := query.ParseSelect(tc.in)
		if err != nil {
			t.Errorf("%s: %v", tc.in, err)
		} else if diff := cmp.Diff(tc.want, showItems(items)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.in, diff)
		}
	}
}

func TestSelectKeepsPositionsAndEmptyLists(t *testing.T) {
	t.Parallel()
	items, err := query.ParseSelect(" id, ä:b.sum(), c( d,e())")
	if err != nil {
		t.Fatal(err)
	}
	want := []query.Item{
		{Kind: query.Column, Field: query.Field{Name: "id"}, Position: 1},
		{Kind: query.Aggregate, Alias: "ä", Field: query.Field{Name: "b"}, Func: "sum", Position: 5},
		{Kind: query.Embed, Target: "c", Position: 17, Select: []query.Item{
			{Kind: query.Column, Field: query.Field{Name: "d"}, Position: 20},
			{Kind: query.Embed, Target: "e", Position: 22, Select: []query.Item{}},
		}},
	}
	if diff := cmp.Diff(want, items); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for in, isNil := range map[string]bool{"": true, "select=": false} {
		req, err := query.Parse(in)
		if err != nil || (req.Select == nil) != isNil || len(req.Select) != 0 {
			t.Errorf("%q: %v, %v", in, req, err)
		}
	}
}

func TestMalformedSelect(t *testing.T) {
	t.Parallel()
	const item = "expected a column, an embed or *, but found "
	for _, r := range []refusal{
		{"id,,name", item + `","`, `at character 4 of "id,,name"`, ""},
		{"id,", item + "the end", "at character 4", ""},
		{",id", item + `","`, "at character 1", ""},
		{"größe,,name", item + `","`, "at character 7", ""},
		{"a(b,)", item + `")"`, "at character 5", ""},
		{"(a)", item + `"("`, "at character 1", ""},
		{"id)", `expected a comma or the end, but found ")"`, "at character 3", "too many"},
		{"a(b", `expected a comma or ")", but found the end`, "at character 4", ""},
		{"a(b)c", `expected a comma, ")" or the end, but found "c"`, "at character 5", ""},
		{"a!inner", `expected "(" after the embed, but found the end`, "at character 8", "relation(*)"},
		{"a!(b)", `expected inner, left or a constraint, column or table that tells which relationship is meant, but found "("`, "at character 3", ""},
		{"a!inner!left(b)", "the join is said twice", "at character 9", ""},
		{"a!x!y(b)", "the relationship is said twice", "at character 5", ""},
		{"...a", `expected "(" after the embed that is spread, but found the end`, "at character 5", "...relation(column)"},
		{"...count()::int", `expected a comma, ")" or the end, but found ":"`, "at character 11", ""},
		{"...x:a(b)", "an embed that is spread has no alias", "at character 5", ""},
		{"x:...a(b)", `expected a column or an embed after the alias, but found "."`, "at character 3", ""},
		{"x:*", `expected a column or an embed after the alias, but found "*"`, "at character 3", ""},
		{"x:", "expected a column or an embed after the alias, but found the end", "at character 3", ""},
		{"a:b:c", `expected a comma, ")" or the end, but found ":"`, "at character 4", ""},
		{"*a", `expected a comma, ")" or the end after *, but found "a"`, "at character 2", ""},
		{"a.foo()", `unknown aggregate "foo": there are avg, count, max, min, sum`, "at character 3", "a(foo)"},
		{"a.smu()", `unknown aggregate "smu": there are avg, count, max, min, sum`, "at character 3", "did you mean sum()?"},
		{"a.", "expected avg, count, max, min or sum, but found the end", "at character 3", "double quotes"},
		{"a.sum", `expected "()" after the aggregate, but found the end`, "at character 6", ""},
		{"a.sum(b)", `expected "()" after the aggregate, but found "("`, "at character 6", ""},
		{"a::", "expected the name of a type, but found the end", "at character 4", ""},
		{"a::int;drop", `expected a comma, ")" or the end, but found ";"`, "at character 7", ""},
		{`a::"int"`, `expected the name of a type, but found """`, "at character 4", ""},
		{"a::x.y.z", `unknown aggregate "z": there are avg, count, max, min, sum`, "at character 8", "double quotes"},
		{"a::numeric(x)", `expected numbers such as (10,2) of the type, but found "x"`, "at character 12", ""},
		{"a::int::text", `expected a comma, ")" or the end, but found ":"`, "at character 7", ""},
		{`"a`, "a double quote is not closed", "at character 1", `\"`},
		{`""`, "a name must not be empty", "at character 1", ""},
		{`a"b`, "a double quote stands inside of a name", "at character 2", "double quotes"},
		{`"a"b`, `expected a comma, ")" or the end, but found "b"`, "at character 4", ""},
		{"a->", "expected a key or an index of the JSON value, but found the end", "at character 4", ""},
		{"a->b(c)", `expected a comma, ")" or the end, but found "("`, "at character 5", ""},
	} {
		_, err := query.ParseSelect(r.in)
		r.message = "select: " + r.message
		r.check(t, err)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range []reading{
		{"id", "id"},
		{"id.asc", "id"},
		{"id.desc,title", "id desc, title"},
		{"id.desc.nullslast , b.nullsfirst,c.asc.nullsfirst", "id desc nullslast, b nullsfirst, c nullsfirst"},
		{`author(name).desc,"the author"("first.name"),a( b->c ).nullslast`, `author(name) desc, the author(first.name), a(b->"c") nullslast`},
		{"data->a->>0.desc,data->\"x.y\"", `data->"a"->>0 desc, data->"x.y"`},
		{"desc.desc,asc,my col", "desc desc, asc, my col"},
	} {
		terms, err := query.ParseOrder(tc.in)
		if err != nil {
			t.Errorf("%s: %v", tc.in, err)
		} else if diff := cmp.Diff(tc.want, showOrder(terms)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.in, diff)
		}
	}
}

func TestMalformedOrder(t *testing.T) {
	t.Parallel()
	const word = "expected asc, desc, nullsfirst or nullslast, not "
	for _, r := range []refusal{
		{"", "expected the name of a column, but found the end", "at character 1", ""},
		{"id,", "expected the name of a column, but found the end", "at character 4", ""},
		{"id..desc", `expected asc, desc, nullsfirst or nullslast, but found "."`, "at character 4", ""},
		{"id.", "expected asc, desc, nullsfirst or nullslast, but found the end", "at character 4", ""},
		{"id.DESC", word + `"DESC"`, "at character 4", "did you mean desc?"},
		{"id.descending", word + `"descending"`, "at character 4", "did you mean desc?"},
		{"id.desc.nulls_last", word + `"nulls_last"`, "at character 9", "did you mean nullslast?"},
		{"id.dsec", word + `"dsec"`, "at character 4", "did you mean desc?"},
		{"author.name", word + `"name"`, "at character 8", "write author(name)"},
		{"id.desc.asc", `"asc" comes after a word of its kind`, "at character 9", ""},
		{"id.nullslast.desc", `"desc" must stand before nullsfirst or nullslast`, "at character 14", ""},
		{"id.nullslast.nullsfirst", `"nullsfirst" comes after a word of its kind`, "at character 14", ""},
		{"a(b", `expected ")" after the column of the embed, but found the end`, "at character 4", ""},
		{"a()", `expected the name of a column of the embed, but found ")"`, "at character 3", ""},
		{"a(b(c))", `expected ")" after the column of the embed, but found "("`, "at character 4", ""},
		{"a->b(c)", `expected a comma or the end, but found "("`, "at character 5", ""},
		{"id desc", "", "", ""},
	} {
		_, err := query.ParseOrder(r.in)
		if r.message == "" {
			// A name may hold spaces; whether there is such a column is not known here.
			if err != nil {
				t.Errorf("%s: %v", r.in, err)
			}
			continue
		}
		r.message = "order: " + r.message
		r.check(t, err)
	}
	_, err := query.Parse("x.order=eq.5")
	refusal{"x.order=eq.5", `x.order: ` + word + `"5"`, "at character 4", `write x.order.eq=5 or x."order"=eq.5`}.check(t, err)
}

func TestCall(t *testing.T) {
	t.Parallel()
	isArg := func(name string) bool { return name == "id" || name == "limit" || name == "a.b" }
	for _, tc := range []reading{
		{"id=5", `arg id="5"`},
		{"id=eq.5", `arg id="eq.5"`},
		{"id=", `arg id=""`},
		{"id=1&id=2", `arg id="1"; arg id="2"`},
		{"id=a%20b+c", `arg id="a b c"`},
		{"limit=5&offset=1", `offset=1; arg limit="5"`},
		{`"limit"=5&"a.b"=6`, `arg limit="5"; arg a.b="6"`},
		{"id.eq=5", `id eq "5"`},
		{"id->a=eq.5", `id->"a" eq "5"`},
		{"id=5&name=eq.x&select=name&order=name", `select=name; name eq "x"; order=name; arg id="5"`},
		{"id.limit=5&or=(id.eq.1)", `or(id eq "1"); [id] limit=5`},
		{"id.is.null", `id is "null"`},
	} {
		req, err := query.ParseCall(tc.in, isArg)
		if err != nil {
			t.Errorf("%s: %v", tc.in, err)
		} else if diff := cmp.Diff(tc.want, show(req)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.in, diff)
		}
	}
	for _, r := range []refusal{
		{"name=x", `"name=x" is neither an argument of the function nor a parameter nor a filter`, "", "write name.eq=x"},
		{"id", `the argument "id" has no "="`, "", "write id=value"},
		{"offset=x", `offset must be a whole number that is not negative, not "x"`, "", ""},
	} {
		_, err := query.ParseCall(r.in, isArg)
		r.check(t, err)
	}
}
