package query_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/query"
)

// reading is a query string and what it means, in the form of show.
type reading struct{ in, want string }

func testReadings(t *testing.T, readings []reading) {
	t.Helper()
	t.Parallel()
	for _, tc := range readings {
		req, err := query.Parse(tc.in)
		if err != nil {
			t.Errorf("%s: %v", tc.in, err)
			continue
		}
		if diff := cmp.Diff(tc.want, show(req)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.in, diff)
		}
	}
}

func TestKeysAreReadByTheFirstRuleThatMatches(t *testing.T) {
	testReadings(t, []reading{
		{"", ""},
		{"&&", ""},
		{"limit=5", "limit=5"},
		{"limit.eq=5", `limit eq "5"`},
		{`"limit"=eq.5`, `limit eq "5"`},
		{"limit->a=eq.5", `limit->"a" eq "5"`},
		{"offset=0&limit=9223372036854775807", "limit=9223372036854775807; offset=0"},
		{"order.limit=2", "[order] limit=2"},
		{"order.limit.gt=2", `[order] limit gt "2" | [] order.limit gt "2"`},
		{"not.limit=2", "[not] limit=2"},
		{"a.b.order=c.desc", "[a/b] order=c desc"},
		{"select.eq=1", `select eq "1"`},
		{"and.eq=1", `and eq "1"`},
		{"or.gt=2", `or gt "2"`},
		{"columns.in=(1,2)", `columns in ["1" "2"]`},
		{"on_conflict.is.null", `on_conflict is "null"`},
		{"not.eq=2", `not eq "2"`},
		{"a.not.eq=2", `not a eq "2"`},
		{`a."not".eq=2`, `[a] not eq "2"`},
		{"x.a.not.eq=2", `[x] not a eq "2" | [] not x.a eq "2"`},
		{"eq=eq.2", `eq eq "2"`},
		{"eq.eq=2", `eq eq "2"`},
		{"is.is.null", `is is "null"`},
		{"not.is.null", `not is "null"`},
		{"author.name.eq=Bob", `[author] name eq "Bob" | [] author.name eq "Bob"`},
		{"author.name=eq.Bob", `[author] name eq "Bob" | [] author.name eq "Bob"`},
		{"author.name.is.null", `[author] name is "null" | [] author.name is "null"`},
		{"author.name=not.in.(a,b)", `[author] not name in ["a" "b"] | [] not author.name in ["a" "b"]`},
		{`"a.b".eq=1`, `a.b eq "1"`},
		{`"a.b"=eq.1`, `a.b eq "1"`},
		{"a.b.eq=1", `[a] b eq "1" | [] a.b eq "1"`},
		{"a.b.c.eq=1", `[a/b] c eq "1" | [] a.b.c eq "1"`},
		{`"a".b.eq=1`, `[a] b eq "1"`},
		{"a.b->c.eq=1", `[a] b->"c" eq "1" | [] a.b->"c" eq "1"`},
		{"data->a->>b.eq=x", `data->"a"->>"b" eq "x"`},
		{"data->a->>b=eq.x", `data->"a"->>"b" eq "x"`},
		{`data->>"x.y".eq=1`, `data->>"x.y" eq "1"`},
		{`data->"a->b\"".eq=1`, `data->"a->b\"" eq "1"`},
		{"data->0->-1->>00x.eq=1", `data->0->-1->>"00x" eq "1"`},
		{`data->"0".eq=1`, `data->"0" eq "1"`},
		{"a-b.eq=1", `a-b eq "1"`},
		{"my col.eq=1", `my col eq "1"`},
		{"my+col=eq.1", `my col eq "1"`},
		{`"say \"hi\" \\".eq=1`, `say "hi" \ eq "1"`},
		{"%22a.b%22.eq=1", `a.b eq "1"`},
		{"gr%C3%B6%C3%9Fe.gt=1", `größe gt "1"`},
		{"größe.gt=1", `größe gt "1"`},
		{"a.eq=1&a.eq=2", `a eq "1"; a eq "2"`},
		{"a.b.eq=1&a.c.eq=2&a.limit=3", `[a] b eq "1" | [] a.b eq "1"; [a] c eq "2" | [] a.c eq "2"; [a] limit=3`},
		{`"a.b".c=eq.1&a.b.c=eq.2`, `[a.b] c eq "1"; [a/b] c eq "2" | [] a.b.c eq "2"`},
	})
}

func TestBothFormsOfFiltersGiveTheSame(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ key, value, want string }{
		{"age.gte=18", "age=gte.18", `age gte "18"`},
		{"s.eq=", "s=eq.", `s eq ""`},
		{"s.not.eq=x", "s=not.eq.x", `not s eq "x"`},
		{"d.is=null", "d=is.null", `d is "null"`},
		{"d.is.null", "d=is.NULL", `d is "null"`},
		{"d.is.null=", "d.is=Null", `d is "null"`},
		{"d.is.not_null", "d=is.not_null", `d is "not_null"`},
		{"d.not.is.null", "d=not.is.null", `not d is "null"`},
		{"d.is.TRUE", "d=is.true", `d is "true"`},
		{"id.in=(1,2)", "id=in.(1,2)", `id in ["1" "2"]`},
		{"id.not.in=(1,2)", "id=not.in.(1,2)", `not id in ["1" "2"]`},
		{"id.in=()", "id=in.()", `id in []`},
		{`s.in=("")`, `s=in.("")`, `s in [""]`},
		{"s.in=(,)", "s=in.(,)", `s in ["" ""]`},
		{`s.in=("a,b","c\"d",plain)`, `s=in.("a,b","c\"d",plain)`, `s in ["a,b" "c\"d" "plain"]`},
		{`s.in=( "a" , b )`, `s=in.( "a" , b )`, `s in ["a" " b "]`},
		{`s.in=(5" disk,"a" b,null)`, `s=in.(5" disk,"a" b,null)`, `s in ["5\" disk" "\"a\" b" "null"]`},
		{"id.eq(any)={1,2}", "id=eq(any).{1,2}", `id eq(any) ["1" "2"]`},
		{"id.eq(any)={}", "id=eq(any).{}", `id eq(any) []`},
		{`s.gt(all)={ a b ,"", \"x\" ,"c,\"d\\",\null}`, `s=gt(all).{ a b ,"", \"x\" ,"c,\"d\\",\null}`,
			`s gt(all) ["a b" "" "\"x\"" "c,\"d\\" "null"]`},
		{`s.like(any)={a\ ,%25b}`, `s=like(any).{a\ ,*b}`, `s like(any) ["a " "%b"]`},
		{"s.like=%25a_", "s=like.*a_", `s like "%a_"`},
		{"t.fts=cat", "t=fts.cat", `t fts "cat"`},
		{"t.plfts(english)=the cat", "t=plfts(english).the cat", `t plfts(english) "the cat"`},
		{"t.not.wfts(public.my cfg)=cat", "t=not.wfts(public.my cfg).cat", `not t wfts(public.my cfg) "cat"`},
		{"d.isdistinct=null", "d=isdistinct.null", `d isdistinct "null"`},
		{"r.ov=[1,2)", "r=ov.[1,2)", `r ov "[1,2)"`},
		{`j.cs={"a":{"b":[1,"x"]}}`, `j=cs.{"a":{"b":[1,"x"]}}`, `j cs "{\"a\":{\"b\":[1,\"x\"]}}"`},
		{"s.eq=a%26b%3Dc%2B1", "s=eq.a%26b%3Dc%2B1", `s eq "a&b=c+1"`},
		{"s.eq=a=b", "s=eq.a=b", `s eq "a=b"`},
		{"at.gt=2024-01-01T00:00:00%2B02:00", "at=gt.2024-01-01T00:00:00%2B02:00", `at gt "2024-01-01T00:00:00+02:00"`},
	} {
		for _, in := range []string{tc.key, tc.value} {
			req, err := query.Parse(in)
			if err != nil {
				t.Errorf("%s: %v", in, err)
				continue
			}
			if diff := cmp.Diff(tc.want, show(req)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", in, diff)
			}
		}
	}
}

func TestEveryOperatorIsReadInEveryPlace(t *testing.T) {
	t.Parallel()
	operands := map[string]string{"in": "(1)", "is": "null"}
	for _, op := range strings.Fields(`eq neq gt gte lt lte like ilike match imatch in is isdistinct
		fts plfts phfts wfts cs cd ov sl sr nxr nxl adj`) {
		operand, shown := operands[op], `"v"`
		switch op {
		case "in":
			shown = `["1"]`
		case "is":
			shown = `"null"`
		default:
			operand = "v"
		}
		for in, want := range map[string]string{
			"c." + op + "=" + operand:               "c " + op + " " + shown,
			"c=" + op + "." + operand:               "c " + op + " " + shown,
			"c.not." + op + "=" + operand:           "not c " + op + " " + shown,
			"c=not." + op + "." + operand:           "not c " + op + " " + shown,
			"or=(c." + op + "." + operand + ")":     "or(c " + op + " " + shown + ")",
			"or=(c.not." + op + "." + operand + ")": "or(not c " + op + " " + shown + ")",
			op + "." + op + "=" + operand:           op + " " + op + " " + shown,
		} {
			req, err := query.Parse(in)
			if err != nil {
				t.Errorf("%s: %v", in, err)
			} else if diff := cmp.Diff(want, show(req)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", in, diff)
			}
		}
	}
}

func TestValuesOfTheKeyFormAreNeverParsed(t *testing.T) {
	testReadings(t, []reading{
		{"s.eq=not.eq.x", `s eq "not.eq.x" | [s] not eq eq "x"`},
		{"s=eq.not.eq.x", `s eq "not.eq.x"`},
		{"s.like=a*b", `s like "a*b"`},
		{"s=like.a*b", `s like "a%b"`},
		{"s=ilike.*a*", `s ilike "%a%"`},
		{"s=eq.a*b", `s eq "a*b"`},
		{"s=match.a*b", `s match "a*b"`},
		{"s.like(any)={a*,b}", `s like(any) ["a*" "b"]`},
		{"s.eq=(1,2)", `s eq "(1,2)"`},
		{"s.eq= x ", `s eq " x "`},
	})
}

func TestOperatorsThatMayBeColumnsOfAnEmbed(t *testing.T) {
	testReadings(t, []reading{
		{"a.cs=eq.1", `a cs "eq.1" | [a] cs eq "1"`},
		{"a.cs=eq", `a cs "eq"`},
		{"a.cs=is.foo", `a cs "is.foo"`},
		{"a.like=like.x*", `a like "like.x*" | [a] like like "x%"`},
		{"a.b.eq=eq.1", `[a] b eq "eq.1" | [] a.b eq "eq.1" | [a/b] eq eq "1"`},
		{"a.not.eq=eq.1", `not a eq "eq.1" | [a/not] eq eq "1"`},
		{`"a".eq=eq.1`, `a eq "eq.1" | [a] eq eq "1"`},
		{"a->b.eq=eq.1", `a->"b" eq "eq.1"`},
		// The first reading is malformed, so only an embed in select can make sense of it.
		{"a.is=eq.1&select=a(*)", `select=embed a {*}; [a] is eq "1"`},
		{"select=x:b(a(*))&x.a.in=not.gt.1", `select=x: embed b {embed a {*}}; [x/a] not in gt "1"`},
	})
}

func TestColumnsAreComparedWithColumns(t *testing.T) {
	testReadings(t, []reading{
		{"price.gt.col=cost", `price gt column "cost"`},
		{"price.not.lte.col=cost", `not price lte column "cost"`},
		{`price.eq.col="a.b"`, `price eq column "a.b"`},
		{"x.price.neq.col=cost", `[x] price neq column "cost" | [] x.price neq column "cost"`},
		{"data->a.eq.col=b", `data->"a" eq column "b"`},
		{"gt.gte.col=lt", `gt gte column "lt"`},
		// These are filters on a column called col.
		{"col.gt=1", `col gt "1"`},
		{"price.col=gt.1", `[price] col gt "1" | [] price.col gt "1"`},
		{"price.gt.col=eq.5", `[price/gt] col eq "5" | [] price.gt.col eq "5"`},
		{`price.gt."col"=eq.5`, `[price/gt] col eq "5"`},
		{"gt.col=eq.5", `[gt] col eq "5" | [] gt.col eq "5"`},
	})
}

func TestLogic(t *testing.T) {
	testReadings(t, []reading{
		{"or=(a.eq.1,b.eq.2)", `or(a eq "1", b eq "2")`},
		{"and=(a.eq.1)", `and(a eq "1")`},
		{"not.or=(a.eq.1,not.and(b.gt.2,c.not.is.null))", `not or(a eq "1", not and(b gt "2", not c is "null"))`},
		{"author.or=(name.eq.x,age.in.(1,2))", `[author] or(name eq "x", age in ["1" "2"])`},
		{"author.not.or=(name.eq.x)", `[author] not or(name eq "x")`},
		{"a.b.and=(c.eq.1)", `[a/b] and(c eq "1")`},
		{`"not".or=(a.eq.1)`, `[not] or(a eq "1")`},
		{"not.not.and=(a.eq.1)", `[not] not and(a eq "1")`},
		{"or=(a.eq.1,or(b.eq.2,and(c.eq.3,d.eq.4)))", `or(a eq "1", or(b eq "2", and(c eq "3", d eq "4")))`},
		{"or=(and.eq.1,or.gt.2,not.eq.3)", `or(and eq "1", or gt "2", not eq "3")`},
		{"or=(not.not.eq.3,and->x.eq.1)", `or(not not eq "3", and->"x" eq "1")`},
		{`or=("a.b".eq.1,data->"x,y"->>z.eq.2)`, `or(a.b eq "1", data->"x,y"->>"z" eq "2")`},
		{`or=(a.eq."x,\"y\")",b.eq."z" )`, `or(a eq "x,\"y\")", b eq "z")`},
		{`or=(a.eq."x" y,b.eq.5")`, `or(a eq "\"x\" y", b eq "5\"")`},
		{"or=(a.cs.{1,2},b.eq.{x,c.eq.{1}y)", `or(a cs "{1,2}", b eq "{x", c eq "{1}y")`},
		{"or=(a.ov.(1,2),b.eq.1)", `or(a ov "(1,2)", b eq "1")`},
		{`or=(a.in.("x)","y"),b.not.in.())`, `or(a in ["x)" "y"], not b in [])`},
		{`or=(a.like.*x*,b.eq(any).{1,"2,3"},c.like(all).{*a,b*})`, `or(a like "%x%", b eq(any) ["1" "2,3"], c like(all) ["%a" "b%"])`},
		{"or=(a.fts(english).x y,b.wfts.z)", `or(a fts(english) "x y", b wfts "z")`},
		{"or=(a.eq.,b.eq.)", `or(a eq "", b eq "")`},
		{"or=(a.eq.1.5,b.eq.x.y)", `or(a eq "1.5", b eq "x.y")`},
		{"or=(author.is.null,posts.not.is.null)", `or(author is "null", not posts is "null")`},
		{"or=( a.eq.1, not.and ( b.in.( 1,2 ) , c.is.null ) )", `or(a eq "1", not and(b in [" 1" "2 "], c is "null"))`},
		{"or=(a.eq.1)&or=(b.eq.2)", `or(a eq "1"); or(b eq "2")`},
	})
}

func TestParametersOfWritesAndExtensions(t *testing.T) {
	testReadings(t, []reading{
		{`columns="a","b c"`, `columns=["a" "b c"]`},
		{"columns=a, b.c ,d", `columns=["a" "b.c" "d"]`},
		{"on_conflict=a,b", `on_conflict=["a" "b"]`},
		{"@cursor=", `@cursor=""`},
		{"@cursor", `@cursor=""`},
		{"@cursor=abc%2B", `@cursor="abc+"`},
		{"%40all", "@all"},
		{"@all=true", "@all"},
		{"@distinct=", "@distinct="},
		{"@distinct=a,data->>b,\"c.d\"", `@distinct=a,data->>"b",c.d`},
		{`"@all".eq=1`, `@all eq "1"`},
	})
}

func TestFilterKeepsTheParameterAsItCame(t *testing.T) {
	t.Parallel()
	req, err := query.Parse("at.gt=2024-01-01T00:00:00+02:00&or=(a.eq.%31,b.eq.2)&c.d=eq.1&x.eq=%2B")
	if err != nil {
		t.Fatal(err)
	}
	at := req.Where[0].(*query.Filter)
	if at.Raw != "at.gt=2024-01-01T00:00:00+02:00" {
		t.Errorf("raw is %s", at.Raw)
	}
	if want := "in a query string + is a space; send a plus sign as %2B"; at.PlusHint() != want {
		t.Errorf("hint is %q", at.PlusHint())
	}
	for _, c := range req.Where[1].(*query.Logic).Conds {
		if raw := c.(*query.Filter).Raw; raw != "or=(a.eq.%31,b.eq.2)" {
			t.Errorf("raw of a condition is %s", raw)
		}
	}
	d := req.Embeds["c"].Where[0].(*query.Filter)
	if d.Raw != "c.d=eq.1" || d.Alternative.Filter.Raw != d.Raw {
		t.Errorf("raw is %s, of the alternative %s", d.Raw, d.Alternative.Filter.Raw)
	}
	if hint := req.Where[2].(*query.Filter).PlusHint(); hint != "" {
		t.Errorf("an escaped plus sign has the hint %q", hint)
	}
}

func TestPathKeyTellsPathsApart(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	for _, path := range [][]string{
		{"a"}, {"a", "b"}, {"a.b"}, {"a", "b", "c"}, {"a.b", "c"}, {"a", "b.c"}, {`"a"`}, {`"a`, `b"`}, {`a"."b`}, {`a\`, `"b`}, {`a\.`, "b"},
	} {
		key := query.PathKey(path)
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q have the key %s", path, other, key)
		}
		seen[key] = path
	}
	if key := query.PathKey([]string{"author", "posts"}); key != "author.posts" {
		t.Errorf("key is %s", key)
	}
}
