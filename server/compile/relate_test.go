package compile_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
)

// compileError is the fault that a request cannot be compiled with.
func (r *reader) compileError(relation, raw string) *fault.Error {
	r.t.Helper()
	_, err := r.c.Select(r.relation(relation), r.parse(raw), compile.Options{})
	var f *fault.Error
	if !errors.As(err, &f) {
		r.t.Errorf("%s?%s: %v", relation, raw, err)
		return &fault.Error{}
	}
	return f
}

func TestRelationshipsThatAreNotClear(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, c := range []struct {
		relation, query string
		want            fault.Error
	}{
		{"posts", "select=authors(name)", fault.Error{
			Kind: fault.MultipleChoices, Code: "PGRST201",
			Message: "Could not embed because more than one relationship was found for 'posts' and 'authors'",
			Details: `[{"cardinality":"many-to-one","embedding":"posts with authors","relationship":"posts_author_id_fkey using posts(author_id) and authors(id)"},` +
				`{"cardinality":"many-to-one","embedding":"posts with authors","relationship":"posts_editor using posts(editor_id) and authors(id)"}]`,
			Hint: "Try changing 'authors' to one of the following: 'authors!posts_author_id_fkey', 'authors!posts_editor'. " +
				"Find the desired relationship in the 'details' key.",
		}},
		{"authors", "select=posts(id)", fault.Error{
			Kind: fault.MultipleChoices, Code: "PGRST201",
			Message: "Could not embed because more than one relationship was found for 'authors' and 'posts'",
			Details: `[{"cardinality":"one-to-many","embedding":"authors with posts","relationship":"posts_author_id_fkey using authors(id) and posts(author_id)"},` +
				`{"cardinality":"one-to-many","embedding":"authors with posts","relationship":"posts_editor using authors(id) and posts(editor_id)"}]`,
			Hint: "Try changing 'posts' to one of the following: 'posts!posts_author_id_fkey', 'posts!posts_editor'. " +
				"Find the desired relationship in the 'details' key.",
		}},
		{"authors", "select=authors!follows(id)", fault.Error{
			Kind: fault.MultipleChoices, Code: "PGRST201",
			Message: "Could not embed because more than one relationship was found for 'authors' and 'authors'",
			Details: `[{"cardinality":"many-to-many","embedding":"authors with authors","relationship":"follows using follows_followed(followed_id) and follows_follower(follower_id)"},` +
				`{"cardinality":"many-to-many","embedding":"authors with authors","relationship":"follows using follows_follower(follower_id) and follows_followed(followed_id)"}]`,
			Hint: "Try changing 'authors' to one of the following: 'authors!follows_follower', 'authors!follows_followed'. " +
				"Find the desired relationship in the 'details' key.",
		}},
		{"posts", "select=coments(id)", fault.Error{
			Kind: fault.Invalid, Code: "PGRST200",
			Message: "Could not find a relationship between 'posts' and 'coments' in the schema cache",
			Details: "Searched for a foreign key relationship between 'posts' and 'coments' in the schema 'public', but no matches were found.",
			Hint:    "Perhaps you meant 'comments' instead of 'coments'.",
		}},
		{"posts", "select=id,comments(regions(id))", fault.Error{
			Kind: fault.Invalid, Code: "PGRST200",
			Message: "Could not find a relationship between 'comments' and 'regions' in the schema cache",
			Details: "Searched for a foreign key relationship between 'comments' and 'regions' in the schema 'public', but no matches were found.",
		}},
		{"posts", "select=authors!nothing(id)", fault.Error{
			Kind: fault.Invalid, Code: "PGRST200",
			Message: "Could not find a relationship between 'posts' and 'authors' in the schema cache",
			Details: "Searched for a foreign key relationship between 'posts' and 'authors' using the hint 'nothing' in the schema 'public', but no matches were found.",
		}},
	} {
		if diff := cmp.Diff(c.want, *r.compileError(c.relation, c.query)); diff != "" {
			t.Errorf("%s?%s (-want +got):\n%s", c.relation, c.query, diff)
		}
	}
}

// Every way of naming a relationship leads to the rows.
func TestHints(t *testing.T) {
	t.Parallel()
	newReader(t).check([]readCase{
		{"posts", "select=a:authors!posts_editor(id)&id=eq.1", `[{"a":{"id":2}}]`},
		{"posts", "select=a:authors!editor_id(id)&id=eq.1", `[{"a":{"id":2}}]`},
		{"posts", "select=a:editor_id(id)&id=eq.1", `[{"a":{"id":2}}]`},
		{"posts", "select=a:posts_editor(id)&id=eq.1", `[{"a":{"id":2}}]`},
		{"authors", "select=p:posts!posts_editor(id)&id=eq.2", `[{"p":[{"id":1}]}]`},
		{"authors", "select=p:posts!editor_id(id)&id=eq.2", `[{"p":[{"id":1}]}]`},
		{"authors", "select=p:posts_editor(id)&id=eq.2", `[{"p":[{"id":1}]}]`},
		{"tags", "select=p:posts!post_tags(id)&id=eq.1", `[{"p":[{"id":1}]}]`},
		{"tags", "select=p:posts!post_id(id)&id=eq.1", `[{"p":[{"id":1}]}]`},
		{"authors", "select=a:authors!followed_id(id)&id=eq.2", `[{"a":[{"id":1}]}]`},
		{"authors", "select=a:authors!mentor_id(id)&id=eq.2", `[{"a":[{"id":4}]}]`},
		{"authors", "select=a:authors_mentor_id_fkey(id)&id=eq.2", `[{"a":{"id":1}}]`},
		{"authors", "select=a:authors!authors_mentor_id_fkey(id)&id=eq.2", `[{"a":[{"id":4}]}]`},
	})
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, c := range []struct {
		relation, query     string
		code, message, hint string
	}{
		{"posts", "select=titel", "42703", "column posts.titel does not exist", `Perhaps you meant "title"`},
		{"posts", "titel=eq.x", "42703", "column posts.titel does not exist", `Perhaps you meant "title"`},
		{"posts", "order=titel", "42703", "column posts.titel does not exist", `Perhaps you meant "title"`},
		{"posts", "or=(id.eq.1,zzz.eq.1)", "42703", "column posts.zzz does not exist", ""},
		{"posts", "select=titel.max()", "42703", "column posts.titel does not exist", `Perhaps you meant "title"`},
		{"posts", "select=comments(txt)", "42703", "column comments.txt does not exist", `Perhaps you meant "text"`},
		{"posts", "@distinct=titel", "42703", "column posts.titel does not exist", `Perhaps you meant "title"`},
		{"posts", "id.gt.col=idd", "42703", "column posts.idd does not exist", `Perhaps you meant "id"`},
		{"posts", "comments.id=eq.1", "PGRST108", "'comments' is not an embedded resource in this request",
			"Verify that 'comments' is included in the 'select' query parameter."},
		{"posts", "select=comments(id)&comments.author.order=id", "PGRST108", "'author' is not an embedded resource in this request",
			"Verify that 'author' is included in the 'select' query parameter."},
		{"posts", "select=c:comments(id)&order=x(id)", "PGRST108", "'x' is not an embedded resource in this request",
			"Verify that 'x' is included in the 'select' query parameter."},
		{"posts", "select=comments(id)&order=comments(id)", "PGRST118", "A related order on 'comments' is not possible", ""},
		{"posts", "select=author_id(name,n:count())&order=author_id(name)", "PGRST118", "A related order on 'author_id' is not possible: it has aggregates", ""},
		{"posts", "select=comments(id)&comments=eq.1", "PGRST120", "Bad operator on the 'comments' embedded resource", ""},
		{"posts", "select=comments(id)&comments=is.true", "PGRST120", "Bad operator on the 'comments' embedded resource", ""},
	} {
		got := r.compileError(c.relation, c.query)
		if diff := cmp.Diff([]string{c.code, c.message, c.hint}, []string{got.Code, got.Message, got.Hint}); diff != "" {
			t.Errorf("%s?%s (-want +got):\n%s", c.relation, c.query, diff)
		}
	}
	if got := r.compileError("comments", "select=post_id,...posts(total:cost.sum())&posts.total=gt.4"); got.Code != "PGRST100" {
		t.Errorf("a filter on the parent's aggregate: %v", got)
	}
	r.c.DenyAggregates = true
	for _, raw := range []string{"select=count()", "select=id,comments(count())", "select=id.max()"} {
		if got := r.compileError("posts", raw); got.Code != "PGRST123" {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// What does not fit a type is PostgreSQL's to say.
func TestMistakesThatPostgreSQLFinds(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, c := range []struct{ relation, query, want string }{
		{"posts", "id=eq.x", "22P02"},
		{"posts", "id=in.(1,x)", "22P02"},
		{"posts", "during=cs.[2,1)", "22000"},
		{"posts", "labels=cs.x", "22P02"},
		{"posts", `data=cs.{"a"`, "22P02"},
		{"posts", "created.gt=2024-01-01T00:00:00+02:00", "22007"}, // the plus is a space
		{"authors", "mood=eq.angry", "22P02"},
		{"posts", "id=like.1*", "42883"},
		{"posts", "plain=eq.{}", "42883"},
		{"posts", "title=is.true", "42804"},
		{"posts", "title=match.(", "2201B"},
		{"posts", "title=fts(nolang).x", "42704"},
		{"posts", "select=id::nothing", "42704"},
		{"posts", "select=id::public.nothing", "42704"},
		{"posts", "select=title::int", "22P02"},
		{"posts", "select=author_id,count()&order=title", "42803"},
		{"comments", "select=post_id&@distinct&order=id", "42P10"},
		{"comments", "select=text.sum()", "42883"},
	} {
		if _, err := r.get(c.relation, c.query); code(err) != c.want {
			t.Errorf("%s?%s: %v, want %s", c.relation, c.query, err, c.want)
		}
	}
}

// No filter of a write is dropped.
func TestFiltersOfWrites(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, c := range []struct {
		relation, query string
		filters         int
		code            string
	}{
		{"posts", "id=eq.1&or=(id.eq.2,id.eq.3)", 2, ""},
		{"posts", "id=eq.1&select=comments(id)&comments.id=eq.2&comments.order=id", 1, ""},
		{"posts", "id=eq.1&select=c:comments(id)&c.id=eq.2", 1, ""},
		{"posts", "id=eq.1&comments.id=eq.2", 0, "PGRST108"},
		{"posts", "id=eq.1&comments.or=(id.eq.2)", 0, "PGRST108"},
		{`Odd "Names".x`, "a.b=eq.1", 1, ""},
		{`Odd "Names".x`, "a.b.eq=1&Id=eq.1", 2, ""},
	} {
		conds, err := compile.Own(r.c, r.relation(c.relation), r.parse(c.query))
		if len(conds) != c.filters || code(err) != c.code {
			t.Errorf("%s?%s: %d filters, %v", c.relation, c.query, len(conds), err)
		}
	}
}
