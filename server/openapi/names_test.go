package openapi

import (
	"encoding/json"
	"testing"

	"github.com/boughdb/bough/server/introspect"
)

func TestTitle(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"posts": "Posts", "blog_posts": "BlogPosts", "userAccounts": "UserAccounts", "a b-c.d": "ABCD", "1st": "T1st",
		"café": "Cafe", "表": "U8868", "": "T", "__": "T", `q"uote`: "QUote",
	} {
		if got := title(name); got != want {
			t.Errorf("title(%q) is %q, not %q", name, got, want)
		}
	}
}

func TestNamesAreTakenOnce(t *testing.T) {
	t.Parallel()
	n := names{}
	for _, tt := range []struct{ name, want string }{{"UserId", "UserId"}, {"User_ID", "User_ID_2"}, {"userid", "userid_3"}} {
		if got := n.take(tt.name); got != tt.want {
			t.Errorf("%s became %s, not %s", tt.name, got, tt.want)
		}
	}
}

func TestFilterKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		column      string
		key, single bool
	}{
		{"age", true, true}, {"limit", true, false}, {"and", true, false}, {"not", true, true}, {"a.b", true, false},
		{"user id", true, true}, {"größe", true, true}, {`a"b`, false, false}, {"a->b", false, false}, {"@a", false, false}, {"", false, false},
	} {
		if _, ok := filterKey(tt.column, false); ok != tt.key {
			t.Errorf("%q.eq: %v", tt.column, ok)
		}
		if _, ok := filterKey(tt.column, true); ok != tt.single {
			t.Errorf("%q alone: %v", tt.column, ok)
		}
	}
}

func TestOnlyConstantsAreDefaults(t *testing.T) {
	t.Parallel()
	base := func(name string, category byte) *introspect.Type {
		return &introspect.Type{Name: name, Kind: introspect.Base, Category: category}
	}
	text, number, integer, boolean := base("text", 'S'), base("numeric", 'N'), base("int4", 'N'), base("bool", 'B')
	enum := &introspect.Type{Name: "mood", Kind: introspect.Enum, Category: 'E', Labels: []string{"happy"}}
	for _, tt := range []struct {
		typ        *introspect.Type
		expr, want string
	}{
		{text, `'a'::text`, `"a"`},
		{text, `'it''s'::character varying(10)`, `"it's"`},
		{text, `''::text`, `""`},
		{text, `('a'::text || 'b'::text)`, ""},
		{text, `'a'::text || 'b'::text`, ""},
		{text, `CURRENT_USER`, ""},
		{text, `'a'`, `"a"`},
		{text, `'a`, ""},
		{integer, `0`, `0`},
		{integer, `'-1'::integer`, `-1`},
		{integer, `(-1)`, `-1`},
		{integer, `nextval('x'::regclass)`, ""},
		{number, `1.50`, `1.50`},
		{number, `(- 1.5)`, ""},
		{number, `'NaN'::numeric`, ""},
		{number, `007`, ""},
		{boolean, `true`, `true`},
		{boolean, `false`, `false`},
		{boolean, `(1 = 1)`, ""},
		{enum, `'happy'::mood`, `"happy"`},
		{enum, `'sad'::mood`, ""},
		{base("timestamptz", 'D'), `'2020-01-01 00:00:00+00'::timestamp with time zone`, ""},
		{base("jsonb", 'U'), `'{}'::jsonb`, ""},
	} {
		value, ok := constant(tt.typ, 0, tt.expr)
		got := ""
		if ok {
			got = string(appendJSON(nil, value))
		}
		if got != tt.want {
			t.Errorf("%s of %s is %q, not %q", tt.expr, tt.typ.Name, got, tt.want)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, seed := range []string{"", "plain", `quo"te`, "new\nline", "größe", "\xff", "<&>\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		if want := string([]rune(s)); got != want { // what is no UTF-8 is replaced
			t.Errorf("%q became %q", want, got)
		}
	})
}
