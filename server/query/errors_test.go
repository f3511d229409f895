package query_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/query"
)

// refusal is malformed input with the message that it gets; details and hint are looked for in the error's.
type refusal struct{ in, message, details, hint string }

func (r refusal) check(t *testing.T, err error) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Errorf("%s: error is %v", r.in, err)
		return
	}
	if f.Kind != fault.Invalid || f.Code != "PGRST100" {
		t.Errorf("%s: kind %d, code %s", r.in, f.Kind, f.Code)
	}
	if diff := cmp.Diff(r.message, f.Message); diff != "" {
		t.Errorf("%s: message (-want +got):\n%s", r.in, diff)
	}
	if !strings.Contains(f.Details, r.details) || !strings.Contains(f.Hint, r.hint) || r.hint == "" && f.Hint != "" {
		t.Errorf("%s:\ndetails %q\nhint    %q", r.in, f.Details, f.Hint)
	}
}

func TestNothingIsIgnored(t *testing.T) {
	t.Parallel()
	const neither = `" is neither a parameter nor a filter`
	const noValue = `" has no "=" and is no test such as column.is.null`
	for _, r := range []refusal{
		{"foo=bar", `"foo=bar` + neither, "", "write foo.eq=bar or foo=eq.bar"},
		{"foo=", `"foo=` + neither, "", "write foo.eq= or foo=eq."},
		{"id.eq.5", `"id.eq.5` + noValue, "", "write id.eq=5 or id=eq.5"},
		{"a.id.eq.5.6", `"a.id.eq.5.6` + noValue, "", "write a.id.eq=5.6 or a.id=eq.5.6"},
		{"is.null", `"is.null` + noValue, "", "write is.null=value"},
		{"is.null=", `"is.null=` + neither, "", "did you mean is.is.null?"},
		{"select", `"select` + noValue, "", "write select=value"},
		{"a.is.not.null", `"a.is.not.null` + noValue, "", "write a.not.is.null"},
		{"a.is.nul", `"a.is.nul` + noValue, "", "did you mean a.is.null?"},
		{"a.is.null=x", `"a.is.null=x` + neither, "", "a null test takes no value: write a.is.null"},
		{"age>18", `"age>18` + noValue, "", "write age.gt=18"},
		{"age>=18", `"age>=18` + neither, "", "did you mean age.gte=18?"},
		{"age<=18", `"age<=18` + neither, "", "did you mean age.lte=18?"},
		{"age!=3", `"age!=3` + neither, "", "did you mean age.neq=3?"},
		{"age__gte=18", `"age__gte=18` + neither, "", "did you mean age.gte=18?"},
		{"age[$ne]=18", `"age[$ne]=18` + neither, "", "did you mean age.neq=18?"},
		{"age[lt]=18", `"age[lt]=18` + neither, "", "did you mean age.lt=18?"},
		{"age.ge=18", `"age.ge=18` + neither, "", "did you mean age.gte=18?"},
		{"age=ge.18", `"age=ge.18` + neither, "", "did you mean age=gte.18?"},
		{"age=not.EQ.18", `"age=not.EQ.18` + neither, "", "did you mean age=not.eq.18?"},
		{"name.ilkie=x", `"name.ilkie=x` + neither, "", "did you mean name.ilike=x?"},
		{"id.notin=(1)", `"id.notin=(1)` + neither, "", "did you mean id.not.in=(1)?"},
		{"id.isnull=true", `"id.isnull=true` + neither, "", "did you mean id.is.null?"},
		{"sort=id", `"sort=id` + neither, "", "did you mean order=id? To filter by the column write sort.eq=id"},
		{"selct=id", `"selct=id` + neither, "", "did you mean select=id?"},
		{"author.select=id", `"author.select=id` + neither, "", "select=author(id)"},
		{"id.neq(any)={1}", `"id.neq(any)={1}` + neither, "", "write not.eq(any) or not.in"},
		{"foo.fts()=x", `"foo.fts()=x` + neither, "", "fts(english)"},
		{"foo=eq(some).x", `"foo=eq(some).x` + neither, "", "write eq(any) or eq(all)"},
		{"foo.in(any)=x", `"foo.in(any)=x` + neither, "", "the operator in takes nothing in parentheses"},
		{"=5", `"=5" has no name`, "", "write name=value"},
		{"@cursr=x", `unknown parameter "@cursr": there are @all, @cursor and @distinct`, "", "did you mean @cursor?"},
		{"@x.eq=1", `unknown parameter "@x.eq": there are @all, @cursor and @distinct`, "", "in double quotes"},
		{"@all=false", `@all must be true or empty, not "false"`, "", "leave @all out"},
	} {
		_, err := query.Parse(r.in)
		r.check(t, err)
	}
}

func TestParametersAreGivenOnce(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		"select=id", "select=", "columns=a", "on_conflict=a", "order=id", "limit=1", "offset=1", "@cursor=", "@all", "@distinct=", "a.b.order=id", "a.limit=1", "a.offset=1",
	} {
		if _, err := query.Parse(part); err != nil {
			t.Errorf("%s: %v", part, err)
		}
		name, _, _ := strings.Cut(part, "=")
		_, err := query.Parse(part + "&x.eq=1&" + part)
		refusal{part + " twice", `the parameter "` + name + `" is given twice`, "", "give " + name + " once"}.check(t, err)
	}
}

func TestMalformedParameters(t *testing.T) {
	t.Parallel()
	const notNumber = " must be a whole number that is not negative, not "
	for _, r := range []refusal{
		{"limit=abc", "limit" + notNumber + `"abc"`, "", ""},
		{"limit=", "limit" + notNumber + `""`, "", ""},
		{"limit=-1", "limit" + notNumber + `"-1"`, "", ""},
		{"limit=1.5", "limit" + notNumber + `"1.5"`, "", ""},
		{"offset=0x10", "offset" + notNumber + `"0x10"`, "", ""},
		{"offset=9223372036854775808", "offset" + notNumber + `"9223372036854775808"`, "", ""},
		{"limit=%2B5", "limit" + notNumber + `"+5"`, "", ""},
		{"limit=+5", "limit" + notNumber + `" 5"`, "", "send a plus sign as %2B"},
		{"limit=eq.5", "limit" + notNumber + `"eq.5"`, "", `write limit.eq=5 or "limit"=eq.5`},
		{"a.offset=eq.5", "a.offset" + notNumber + `"eq.5"`, "", `write a.offset.eq=5 or a."offset"=eq.5`},
		{"columns=", "columns: expected the name of a column, but found the end", "at character 1 of", ""},
		{"columns=a,a", `columns: the column "a" is named twice`, `at character 3 of "a,a"`, ""},
		{`on_conflict=a "b`, `on_conflict: a double quote stands inside of a name`, "", "double quotes"},
		{"@distinct=a,", "@distinct: expected the name of a column, but found the end", "at character 3", ""},
		{"s.like=%a%", `a percent sign in "%a%" begins no escape such as %20`, "", "send a percent sign as %25"},
		{"s.like=a%", `a percent sign in "a%" begins no escape such as %20`, "", "send a percent sign as %25"},
		{"%zz.eq=1", `a percent sign in "%zz.eq" begins no escape such as %20`, "", "send a percent sign as %25"},
		{"s.eq=%ff", `"%ff" is not valid UTF-8`, "", "UTF-8"},
		{"s.eq=\xff", `"?" is not valid UTF-8`, "", "UTF-8"},
		{"s.eq=%00", "a null character (%00) is not allowed: PostgreSQL stores none", "", ""},
		{"s.eq=a\x00", "a null character (%00) is not allowed: PostgreSQL stores none", "", ""},
	} {
		_, err := query.Parse(r.in)
		r.check(t, err)
	}
}

func TestMalformedFilters(t *testing.T) {
	t.Parallel()
	const name = "the parameter's name: "
	const is = ": the operator is takes null, not_null, true, false or unknown, not "
	for _, r := range []refusal{
		{"a..b=1", name + `expected a name, but found "."`, `at character 3 of "a..b"`, ""},
		{".a=eq.1", name + `expected a name, but found "."`, "at character 1", ""},
		{"a.=5", name + "expected a name, but found the end", "at character 3", ""},
		{`"".eq=5`, name + "a name must not be empty", "at character 1", ""},
		{`größe"b.eq=1`, name + "a double quote stands inside of a name", "at character 6", `\"`},
		{`"a"b.eq=1`, name + `expected a dot, "->" or the end, but found "b"`, "at character 4", ""},
		{`"ab.eq=1`, name + "a double quote is not closed", "at character 1", `write " as \"`},
		{`"ab\".eq=1`, name + "a double quote is not closed", "at character 1", `write " as \"`},
		{"a->b.c.eq=1", name + "a JSON path may only follow the column", "at character 5", `data->"a.b"`},
		{"a->.eq=1", name + `expected a key or an index of the JSON value, but found "."`, "at character 4", ""},
		{"->a.eq=1", name + `expected a name, but found "-"`, "at character 1", ""},
		{"a->99999999999.eq=1", name + `the index "99999999999" is too large`, "at character 4", "double quotes"},
		{"a=is.foo", "a" + is + `"foo"`, "", "use eq"},
		{"a.is=", "a.is" + is + `""`, "", "use eq"},
		{"a.is=eq.1", "a.is" + is + `"eq.1"`, "", "use eq"},
		{"a.is=eq.1&select=b(a(*)),a", "a.is" + is + `"eq.1"`, "", "use eq"},
		{"a.is=eq.1&a.is=eq.2", "a.is" + is + `"eq.1"`, "", "use eq"},
		{"a.b.is=eq.1&select=a(c)", "a.b.is" + is + `"eq.1"`, "", "use eq"},
		{"id.in=1,2", `id.in: expected a list that begins with "(", but found "1"`, "at character 1", "write a list as (1,2,3)"},
		{"id=in.", `id: expected a list that begins with "(", but found the end`, "at character 1", "write a list as (1,2,3)"},
		{"id.in=(1,2", "id.in: the list is not closed", "at character 1", "write a list as (1,2,3)"},
		{"id.in=(1,2)x", `id.in: unexpected text "x" after the list`, "at character 6", "double quotes"},
		{`s.in=("a,b)`, "s.in: a double quote is not closed", "at character 2", `write " as \"`},
		{"id.eq(any)={1,null}", "id.eq(any): null is no value to compare with", "at character 4", "use is.null"},
		{"id.eq(any)={1,,2}", `id.eq(any): expected a value, but found ","`, "at character 4", `as ""`},
		{"id.eq(any)={1,}", `id.eq(any): expected a value, but found "}"`, "at character 4", `as ""`},
		{"id.eq(any)={{1}}", `id.eq(any): expected a value, but found "{"`, "at character 2", `as ""`},
		{`id.eq(any)={a"b"}`, `id.eq(any): expected a comma or "}", but found """`, "at character 3", "double quotes"},
		{"id=eq(any).{1,2", "id: the list is not closed", "at character 1", "{1,2,3}"},
		{"id=eq(any).{1}2", `id: unexpected text "2" after the list`, "at character 4", "double quotes"},
		{"id.eq(all)=(1,2)", `id.eq(all): expected a list that begins with "{", but found "("`, "at character 1", "{1,2,3}"},
		{"price.gt.col=data->x", `price.gt.col: expected the end of the column's name, but found "-"`, "at character 5", "JSON path"},
		{"price.gt.col=a.b", `price.gt.col: expected the end of the column's name, but found "."`, "at character 2", "double quotes"},
		{"price.gt.col=", `price.gt.col: expected the name of a column, but found the end`, "at character 1", ""},
	} {
		_, err := query.Parse(r.in)
		r.check(t, err)
	}
}

func TestMalformedLogic(t *testing.T) {
	t.Parallel()
	for _, r := range []refusal{
		{"or=", `or: expected conditions that begin with "(", but found the end`, "at character 1", "write or=(a.eq.1,b.gt.2)"},
		{"x.or=a.eq.1", `x.or: expected conditions that begin with "(", but found "a"`, "at character 1", "write x.or=(a.eq.1,b.gt.2)"},
		{"or=eq.1", `or: expected conditions that begin with "(", but found "e"`, "", `write or.eq=1 or "or"=eq.1`},
		{"a.and=gt.1", `a.and: expected conditions that begin with "(", but found "g"`, "", `write a.and.gt=1 or a."and"=gt.1`},
		{"or=()", `or: expected a condition such as column.eq.1, but found ")"`, "at character 2", ""},
		{"or=(a.eq.1,)", `or: expected a condition such as column.eq.1, but found ")"`, "at character 9", ""},
		{"or=(a.eq.1", `or: expected a comma or ")", but found the end`, "at character 8", "double quotes"},
		{"or=(a.eq.1)x", `or: unexpected text "x" after the closing parenthesis`, "at character 9", "double quotes"},
		{"or=(a.eq.x(y),b.eq.1)", `or: unexpected text ",b.eq.1)" after the closing parenthesis`, "", "double quotes"},
		{"or=(a)", `or: expected a dot and an operator after the column, but found ")"`, "at character 3", "column.eq.1"},
		{"or=(a.eq)", `or: expected a dot and a value after the operator, but found ")"`, "at character 6", ""},
		{"or=(a.)", `or: expected an operator such as eq or not., but found ")"`, "at character 4", ""},
		{"or=(a.ge.1)", `or: unknown operator "ge"`, "at character 4", "did you mean gte?"},
		{"or=(a.b.eq.1)", `or: unknown operator "b"`, "at character 4", "a.or=(...)"},
		{"or=(not.a.eq.1)", `or: unknown operator "a"`, "at character 6", "column.not.eq.1"},
		{"or=(a.in.1)", `or: expected a list that begins with "(", but found "1"`, "at character 7", "(1,2,3)"},
		{"or=(a.in.(1,2)", `or: expected a comma or ")", but found the end`, "", "double quotes"},
		{"or=(a.in.(1)2)", `or: expected a comma or ")", but found "2"`, "at character 10", "double quotes"},
		{`or=(a.eq."x)`, "or: a double quote is not closed", "at character 7", `write " as \"`},
		{"or=(a.eq.(1,b.eq.2", "or: the list is not closed", "at character 7", "(1,2,3)"},
		{"or=(a.is.1)", `or: the operator is takes null, not_null, true, false or unknown, not "1"`, "", "use eq"},
		{"or=(and(a.eq.1,b.eq.2)", `or: expected a comma or ")", but found the end`, "", "double quotes"},
	} {
		_, err := query.Parse(r.in)
		r.check(t, err)
	}
}

func TestDepthAndNumberAreLimited(t *testing.T) {
	t.Parallel()
	nested := func(open string, n int, core, end string) string {
		return strings.Repeat(open, n) + core + strings.Repeat(end, n)
	}
	list := func(item string, n int) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	for _, tc := range []struct{ name, within, beyond, message string }{
		{"logic", "or=(" + nested("and(", 31, "a.eq.1", ")") + ")", "or=(" + nested("and(", 32, "a.eq.1", ")") + ")", "nested too deeply"},
		{"select", "select=" + nested("a(", 32, "b", ")"), "select=" + nested("a(", 33, "b", ")"), "nested too deeply"},
		{"path", nested("a.", 32, "b.eq=1", ""), nested("a.", 33, "b.eq=1", ""), "nested too deeply"},
		{"long path", "limit=1", nested("a.", 1e5, "b.eq=1", ""), "nested too deeply"},
		{"JSON path", "a" + nested("->b", 32, ".eq=1", ""), "a" + nested("->b", 33, ".eq=1", ""), "nested too deeply"},
		{"items", "select=" + list("a", 1000), "select=" + list("a", 1001), "too many items of select"},
		{"nested items", "select=x(" + list("a", 999) + ")", "select=x(" + list("a", 1000) + ")", "too many items of select"},
		{"order", "order=" + list("a", 1000), "order=" + list("a", 1001), "too many terms of order"},
		{"conditions", nested("a.eq=1&", 1000, "", ""), nested("a.eq=1&", 1001, "", ""), "too many conditions"},
		{"conditions of or", "or=(" + list("a.eq.1", 999) + ")", "or=(" + list("a.eq.1", 1000) + ")", "too many conditions"},
		{"open parentheses", "limit=1", "or=" + strings.Repeat("(", 1e6), "expected a condition"},
		{"open embeds", "limit=1", "select=" + strings.Repeat("a(", 1e6), "nested too deeply"},
		{"distinct", "@distinct=" + list("a", 1000), "@distinct=" + list("a", 1001), "too many columns"},
	} {
		if _, err := query.Parse(tc.within); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		_, err := query.Parse(tc.beyond)
		var f *fault.Error
		if !errors.As(err, &f) || !strings.Contains(f.Message, tc.message) {
			t.Errorf("%s: error is %v", tc.name, err)
		}
	}
	// A list of in is bounded by the length of the request only.
	req, err := query.Parse("id.in=(" + list("1", 100000) + ")")
	if err != nil || len(req.Where[0].(*query.Filter).List) != 100000 {
		t.Errorf("a long list: %v", err)
	}
}

func TestMessagesRepeatLittleOfTheRequest(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 5000)
	for _, in := range []string{long + "=1", long, "limit=" + long, "a.is=" + long, "or=(a." + long, "select=" + long + "(", "order=a." + long, "a.eq=" + long + "%", "@" + long, "limit=eq." + long} {
		_, err := query.Parse(in)
		var f *fault.Error
		if !errors.As(err, &f) {
			t.Fatalf("error is %v", err)
		}
		if len(f.Message)+len(f.Details)+len(f.Hint) > 1500 {
			t.Errorf("%.10s: %d bytes of message, %d of details, %d of hint", in, len(f.Message), len(f.Details), len(f.Hint))
		}
		if !utf8.ValidString(f.Message + f.Details + f.Hint) {
			t.Errorf("%.10s: the error is not valid UTF-8", in)
		}
	}
}
