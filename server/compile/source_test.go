package compile_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

func TestCount(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, c := range []struct{ relation, query, want string }{
		{"posts", "", "4"},
		{"posts", "limit=1&offset=2&order=id", "4"},
		{"posts", "id.gt=1", "3"},
		{"posts", "select=id,comments!inner(id)&comments.likes.gt=2&limit=1", "2"},
		{"posts", "select=id,authors!author_id!inner(id)&authors.name.eq=Ann", "2"},
		{"posts", "select=id,comments(id)&comments.is.null", "1"},
		{"posts", "select=id,comments(id)&comments.limit=1", "4"},
		{"comments", "select=post_id,count()&limit=1", "3"},
		{"comments", "select=post_id,n:count()&n.gt=1", "1"},
		{"comments", "select=post_id&@distinct", "3"},
		{"comments", "select=id&@distinct=author_id", "3"},
		{"posts", "select=labels,plain,comments(id)&@distinct", "4"},
		{"posts", "select=id,comments!inner(n:count())&comments.n.gt=1", "1"},
		{"comments", "select=...posts(title),n:count()", "3"},
		{"posts", "select=id,comments!inner(...posts(total:cost.sum()))&comments.total=gt.4", "1"},
	} {
		s, err := r.c.Count(r.relation(c.relation), r.parse(c.query))
		if err != nil {
			t.Errorf("%s?%s: %v", c.relation, c.query, err)
			continue
		}
		got, err := r.run(s)
		if err != nil {
			t.Errorf("%s?%s: %v\n%s", c.relation, c.query, err, s.SQL)
			continue
		}
		if diff := cmp.Diff(`[{"count":`+c.want+`}]`, got); diff != "" {
			t.Errorf("%s?%s (-want +got):\n%s", c.relation, c.query, diff)
		}
	}
}

func TestRowsThatWereWritten(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	tx, err := r.conn.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	src := compile.Source{
		With: `with "bough_rows" as (update authors set name = name || $1 where id <= $2 returning *)`,
		Args: [][]byte{[]byte("a"), []byte("2")}, From: `"bough_rows"`,
	}
	for _, c := range []struct{ query, want string }{
		{"select=id,name,shout&order=id.desc", `[{"id":2,"name":"Boba","shout":"BOBA!"},{"id":1,"name":"Anna","shout":"ANNA!"}]`},
		{"select=id,shout,profiles(bio),fans(id)&order=shout&limit=1", `[{"id":1,"shout":"ANNAA!","profiles":{"bio":"writes"},"fans":[{"id":2}]}]`},
		{"select=count()", `[{"count":2}]`},
		{"select=id,posts!author_id!inner(id)&id=gt.1", `[{"id":2,"posts":[{"id":3}]}]`},
	} {
		s, err := r.c.SelectFrom(src, r.relation("authors"), r.parse(c.query), compile.Options{ETag: true})
		if err != nil {
			t.Fatalf("%s: %v", c.query, err)
		}
		got, err := r.run(s)
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.query, err, s.SQL)
		}
		if diff := cmp.Diff(c.want, compact(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", c.query, diff, s.SQL)
		}
	}
	src.With = `with "bough_rows" as (select *, 1 as extra from authors)`
	src.Args = nil
	s, err := r.c.SelectFrom(src, r.relation("authors"), r.parse("select=shout,fans(id)&id=eq.3&limit=1"), compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.run(s); err != nil || got != `[{"shout":"CID!","fans":[{"id":1}]}]` {
		t.Errorf("rows with a further column: %s %v", got, err)
	}
	src.Has = func(name string) bool { return name != "secret" && name != "home" }
	s, err = r.c.SelectFrom(src, r.relation("authors"), r.parse("id=eq.1"), compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.SQL, "secret") {
		t.Errorf("a column that the rows do not have: %s", s.SQL)
	}
	if _, err = r.c.SelectFrom(src, r.relation("authors"), r.parse("select=home"), compile.Options{}); code(err) != "42703" {
		t.Error(err)
	}
}

func TestRowsOfFunctions(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	posts := compile.Source{Args: [][]byte{[]byte("2024-02-15")}, From: `"public"."posts_since"("since" := $1)`}
	fn := r.c.Schema.Overloads("public", "pairs")[0]
	pairs := compile.Source{Args: [][]byte{[]byte("4")}, From: `"public"."pairs"("n" := $1)`, Attributes: fn.Columns, Name: "pairs"}
	scalar := compile.Source{From: `generate_series(1, 3)`, Name: "numbers",
		Attributes: []introspect.Attribute{{Name: "numbers", Type: r.relation("tags").Column("id").Type}}}
	for _, c := range []struct {
		src         compile.Source
		rel         *introspect.Relation
		query, want string
		count       string
	}{
		{posts, r.relation("posts"), "select=id,comments(id),author:author_id(name,shout)&order=id", `[{"id":3,"comments":[{"id":4}],"author":{"name":"Bob","shout":"BOB!"}},{"id":4,"comments":[],"author":{"name":"Cid","shout":"CID!"}}]`, "2"},
		{posts, r.relation("posts"), "select=id,top_comment(id)&id=lt.4&limit=1", `[{"id":3,"top_comment":{"id":4}}]`, "1"},
		{posts, r.relation("posts"), "select=id,comments!inner()", ids(3), "1"},
		{pairs, nil, "", `[{"i":1,"square":1,"list":[1]},{"i":2,"square":4,"list":[2]},{"i":3,"square":9,"list":[3]},{"i":4,"square":16,"list":[4]}]`, "4"},
		{pairs, nil, "select=square,list->0&i=in.(2,3)&order=square.desc&limit=1", `[{"square":9,"list":3}]`, "2"},
		{pairs, nil, "select=square.sum()", `[{"sum":30}]`, "1"},
		{scalar, nil, "numbers=gt.1", `[{"numbers":2},{"numbers":3}]`, "2"},
	} {
		s, err := r.c.SelectFrom(c.src, c.rel, r.parse(c.query), compile.Options{ETag: true})
		if err != nil {
			t.Errorf("%s: %v", c.query, err)
			continue
		}
		got, err := r.run(s)
		if err != nil {
			t.Errorf("%s: %v\n%s", c.query, err, s.SQL)
			continue
		}
		if diff := cmp.Diff(c.want, compact(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", c.query, diff, s.SQL)
		}
		if s, err = r.c.CountFrom(c.src, c.rel, r.parse(c.query)); err != nil {
			t.Fatal(err)
		}
		if got, err = r.run(s); err != nil || got != `[{"count":`+c.count+`}]` {
			t.Errorf("count of %s: %s %v", c.query, got, err)
		}
	}
	for raw, want := range map[string]string{"squares=eq.1": "42703", "select=posts(id)": "PGRST200"} {
		_, err := r.c.SelectFrom(pairs, nil, r.parse(raw), compile.Options{})
		if code(err) != want {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestReturning(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, c := range []struct {
		query, list string
		outputs     []compile.Output
		ok          bool
	}{
		{"", `t."id", t."name"`, []compile.Output{{Name: "id", Encoding: compile.Number}, {Name: "name"}}, true},
		{"select=n:name,id::text", `t."name", (t."id")::text`, []compile.Output{{Name: "n"}, {Name: "id"}}, true},
		{"select=id&id=eq.1&columns=id", `t."id"`, []compile.Output{{Name: "id", Encoding: compile.Number}}, true},
		{"select=", "", nil, false},
		{"select=posts(id)", "", nil, false},
		{"select=count()", "", nil, false},
		{"order=id", "", nil, false},
		{"limit=1", "", nil, false},
		{"@distinct", "", nil, false},
	} {
		list, outputs, ok, err := r.c.Returning(r.relation("tags"), r.parse(c.query))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.list, list) + cmp.Diff(c.outputs, outputs) + cmp.Diff(c.ok, ok); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.query, diff)
		}
	}
	if _, _, _, err := r.c.Returning(r.relation("tags"), r.parse("select=nam")); code(err) != "42703" {
		t.Error(err)
	}
}

func TestRowVersions(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, raw := range []string{"id=eq.1", "select=id,comments(id),shout:author_id(shout)&limit=1", "select=id,top_comment(id)&limit=1"} {
		s, err := r.c.Select(r.relation("posts"), r.parse(raw), compile.Options{ETag: true})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.rows(s)
		if err != nil {
			t.Fatalf("%v: %s", err, s.SQL)
		}
		last := len(s.Output) - 1
		if diff := cmp.Diff(compile.Output{Name: "xmin", Hidden: true}, s.Output[last]); diff != "" {
			t.Error(diff)
		}
		var want string
		if err := r.conn.QueryRow(context.Background(), "select xmin::text from posts where id = 1").Scan(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(rows[0][last])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
	for relation, raw := range map[string]string{"popular": "", "posts": "select=count()"} {
		s, err := r.c.Select(r.relation(relation), r.parse(raw), compile.Options{ETag: true})
		if err != nil {
			t.Fatal(err)
		}
		if last := s.Output[len(s.Output)-1]; last.Name == "xmin" {
			t.Errorf("%s has no xmin", relation)
		}
		if _, err := r.run(s); err != nil {
			t.Error(err)
		}
	}
}

func TestRowsAreBounded(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	r.c.MaxRows = 2
	r.check([]readCase{
		{"tags", "select=id&order=id", ids(1, 2)},
		{"tags", "select=id&order=id&limit=5&offset=1", ids(2, 3)},
		{"tags", "select=id&order=id&limit=1", ids(1)},
		{"posts", "select=id,comments(id)&order=id&limit=1&comments.order=id", `[{"id":1,"comments":[{"id":1},{"id":2}]}]`},
	})
}

// The star stands for what the role may read.
func TestStarFollowsPrivileges(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	if _, err := r.conn.Exec(context.Background(), "set role compile_reader"); err != nil {
		t.Fatal(err)
	}
	r.c.Role = r.c.Schema.Role("compile_reader")
	r.check([]readCase{
		{"authors", "id=eq.1", `[{"id":1,"name":"Ann","mood":"happy"}]`},
		{"posts", "select=id,author_id(*),comments(id,author_id(*))&comments.limit=1&comments.order=id&id=eq.1",
			`[{"id":1,"author_id":{"id":1,"name":"Ann","mood":"happy"},"comments":[{"id":1,"author_id":{"id":2,"name":"Bob","mood":"sad"}}]}]`},
		{"authors", "select=id,posts!author_id(id)&posts.order=id&limit=1&order=id", `[{"id":1,"posts":[{"id":1},{"id":2}]}]`},
	})
	if _, err := r.get("authors", "select=secret"); code(err) != "42501" {
		t.Errorf("a column without privilege: %v", err)
	}
	r.c.Role = len(r.c.Schema.Roles)
	if s, err := r.c.Select(r.relation("tags"), &query.Request{}, compile.Options{}); err != nil || len(s.Output) != 2 {
		t.Errorf("a role without privileges: %v %v", s, err)
	}
}

// The text of a statement does not depend on values, but for limits up to a thousand.
func TestShapeDecidesTheText(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, c := range [][2]string{
		{"id=eq.1&title=in.(a,b)&limit=1001", "id=eq.22&title=in.(c)&limit=7000"},
		{"offset=5&title=fts(english).a", "offset=6&title=fts(german).b"},
		{"select=id,comments(id)&comments.id=eq.1&comments.limit=3", "select=id,comments(id)&comments.id=eq.7&comments.limit=3"},
		{"title=like(any).{a,b,c}", "title=like(any).{}"},
	} {
		var texts [2]string
		for i, raw := range c {
			s, err := r.c.Select(r.relation("posts"), r.parse(raw), compile.Options{})
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = s.SQL
		}
		if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
			t.Errorf("%s (-first +second):\n%s", c[0], diff)
		}
	}
}
