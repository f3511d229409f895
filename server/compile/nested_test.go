package compile_test

import (
	"context"
	"strings"
	"testing"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/introspect"
	"github.com/boughdb/bough/server/query"
)

const nestedDDL = `
create table authors (id int generated always as identity primary key, name text unique, bio text default 'none');
create table posts (id uuid primary key default gen_random_uuid(), title text not null, author_id int references authors,
	reviewer_id int constraint posts_reviewer_fk references authors, meta jsonb, n serial);
alter table posts drop constraint posts_author_id_fkey;
alter table posts add constraint posts_author_fk foreign key (author_id) references authors;
create table comments (id bigserial primary key, post_id uuid not null references posts, body text default 'empty', tags text[]);
create table likes (comment_id bigint references comments, who text, primary key (comment_id, who));
create table tags (id int primary key, label text);
create table posts_tags (post_id uuid references posts, tag_id int references tags, primary key (post_id, tag_id));
create table details (post_id uuid primary key references posts, text text);
create table nodes (id serial primary key, name text, parent_id int references nodes);
`

func (w *writer) nested(t *testing.T, rel *introspect.Relation, json string, n compile.Nested) []string {
	t.Helper()
	n.Body = body(t, json)
	s, _, err := w.InsertNested(rel, &query.Request{}, n)
	return w.mustRun(t, s, err)
}

const postsView = `select p.title, a.name, r.name, (select string_agg(body || coalesce(tags::text, '') || (select coalesce(string_agg(who, '+' order by who), '')
	from likes l where l.comment_id = c.id), ',' order by c.id) from comments c where c.post_id = p.id),
	(select string_agg(label, ',' order by g.id) from posts_tags pt join tags g on g.id = pt.tag_id where pt.post_id = p.id),
	(select text from details d where d.post_id = p.id)
	from posts p left join authors a on a.id = p.author_id left join authors r on r.id = p.reviewer_id order by p.title`

func TestInsertNested(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nestedDDL)
	keys := w.nested(t, w.rel(t, "posts"), `[
		{"title":"p1","authors!posts_author_fk":{"name":"ann"},"posts_reviewer_fk":{"name":"rob"},
			"comments":[{"body":"c1","likes":[{"who":"x"},{"who":"y"}]},{"tags":["a,b"]}],
			"tags":[{"id":1,"label":"one"},{"id":2,"label":"two"}],"details":{"text":"d1"}},
		{"title":"p2","comments":[{"body":null,"likes":[]},{"body":"c4","likes":[{"who":"z"}]}],"tags":[{"id":3,"label":"three"}]},
		{"title":"p3","posts_author_fk":{"name":"cat"},"details":null}
	]`, compile.Nested{Return: compile.ReturnKeys})
	if len(keys) != 3 {
		t.Errorf("keys %v", keys)
	}
	same(t, w.rows(t, postsView), []string{
		"p1|ann|rob|c1x+y,empty{\"a,b\"}|one,two|d1", "p2|NULL|NULL|c4z|three|NULL", "p3|cat|NULL|NULL|NULL|NULL"})
	same(t, w.rows(t, "select id, title from posts where id = '"+keys[1]+"'"), []string{keys[1] + "|p2"})

	same(t, w.nested(t, w.rel(t, "nodes"), `{"name":"root","nodes":[{"name":"a","nodes":[{"name":"a1"}]},{"name":"b"}]}`,
		compile.Nested{Return: compile.ReturnKeys}), []string{"1"})
	w.nested(t, w.rel(t, "nodes"), `{"name":"leaf","nodes":{"name":"top"}}`, compile.Nested{})
	same(t, w.rows(t, "select n.name, p.name from nodes n left join nodes p on p.id = n.parent_id order by n.name"), []string{
		"a|root", "a1|a", "b|root", "leaf|top", "root|NULL", "top|NULL"})
}

// TestNestedRowsFindTheirParents inserts many parents whose rows look alike.
func TestNestedRowsFindTheirParents(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nestedDDL)
	var rows []string
	for range 300 {
		rows = append(rows, `{"title":"t","comments":[{"body":"1"},{"body":"2"}],"posts_author_fk":{"bio":"b"}}`)
	}
	w.nested(t, w.rel(t, "posts"), "["+strings.Join(rows, ",")+"]", compile.Nested{})
	same(t, w.rows(t, `select count(*), count(distinct author_id), min(k), max(k) from posts p,
		lateral (select count(*) k from comments c where c.post_id = p.id) x`), []string{"300|300|2|2"})
}

func TestNestedRepresentation(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nestedDDL)
	q := selecting(&query.Request{}, "title")
	q.Select = append(q.Select, query.Item{Kind: query.Embed, Target: "comments", Select: selecting(&query.Request{}, "body").Select})
	write, read, err := w.InsertNested(w.rel(t, "posts"), q, compile.Nested{Return: compile.ReturnRepresentation,
		Body: body(t, `[{"title":"b","comments":[{"body":"x"}]},{"title":"a"}]`)})
	if err != nil {
		t.Fatal(err)
	}
	w.sql(t, "begin")
	w.mustRun(t, write, nil)
	same(t, w.mustRun(t, read, nil), []string{`b|[{"body":"x"}]`, "a|[]"})
	w.sql(t, "commit")
	if write.Output[0].Hidden != true {
		t.Error("the keys are shown")
	}
}

func TestNestedMerge(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nestedDDL+`insert into tags values (1, 'old'), (2, 'two');`)
	w.nested(t, w.rel(t, "posts"), `[{"title":"a","tags":[{"id":1,"label":"new"},{"id":5,"label":"five"}]},
		{"title":"b","tags":[{"id":1,"label":"newer"},{"id":2,"label":"two"}]}]`, compile.Nested{Mode: compile.NestedMerge})
	same(t, w.rows(t, "select * from tags order by id"), []string{"1|newer", "2|two", "5|five"})
	same(t, w.rows(t, postsView), []string{"a|NULL|NULL|NULL|newer,five|NULL", "b|NULL|NULL|NULL|newer,two|NULL"})
	// An object with nothing but its key connects.
	w.nested(t, w.rel(t, "posts"), `{"title":"c","tags":[{"id":2}]}`, compile.Nested{Mode: compile.NestedMerge})
	same(t, w.rows(t, postsView)[2], "c|NULL|NULL|NULL|two|NULL")
	// So does the key of an identity column that is always generated.
	w.sql(t, "insert into authors (name) values ('ann')")
	w.nested(t, w.rel(t, "posts"), `[{"title":"d","posts_author_fk":{"id":1,"name":"ANN"}},{"title":"e","posts_author_fk":{"name":"eve"}}]`,
		compile.Nested{Mode: compile.NestedMerge})
	w.nested(t, w.rel(t, "posts"), `[{"title":"f","posts_author_fk":{"id":1}}]`, compile.Nested{Mode: compile.NestedMerge})
	same(t, w.rows(t, postsView)[3:], []string{
		"d|ANN|NULL|NULL|NULL|NULL", "e|eve|NULL|NULL|NULL|NULL", "f|ANN|NULL|NULL|NULL|NULL"})
	b := body(t, `{"title":"c","tags":[{"id":2},{"id":3,"label":"x"}]}`)
	_, _, err := w.InsertNested(w.rel(t, "posts"), where(), compile.Nested{Body: b, Mode: compile.NestedMerge})
	wantFault(t, err, "validation_error", "All objects of 'tags' must have the key 'label'")
	s, _, err := w.InsertNested(w.rel(t, "posts"), where(), compile.Nested{Body: b})
	w.wantSQLState(t, s, err, "23505")
}

func TestUpdateNested(t *testing.T) {
	t.Parallel()
	const id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
	w := newWriter(t, nestedDDL+`insert into authors (name) values ('ann');
		insert into posts (id, title, author_id) values ('`+id+`', 'p', 1), (gen_random_uuid(), 'q', 1);
		insert into comments (post_id, body) select id, title || i from posts, generate_series(1, 2) i order by title, i;
		insert into tags values (1, 'one'), (2, 'two');
		insert into posts_tags select id, g from posts, generate_series(1, 2) g`)
	rel := w.rel(t, "posts")
	update := func(key, json string, mode compile.NestedMode) []string {
		t.Helper()
		s, _, err := w.UpdateNested(rel, where(), []string{key}, compile.Nested{Body: body(t, json), Mode: mode, Return: compile.ReturnKeys})
		return w.mustRun(t, s, err)
	}
	same(t, update(id, `{"meta":{"a":1},"comments":[{"id":1,"body":"P1"},{"body":"p3"}]}`, compile.NestedMerge), []string{id})
	same(t, w.rows(t, postsView), []string{"p|ann|NULL|P1,p2,p3|one,two|NULL", "q|ann|NULL|q1,q2|one,two|NULL"})
	same(t, update(id, `{"comments":[{"id":1,"body":"P1"},{"body":"p4"}],"tags":[{"id":2,"label":"TWO"},{"id":3,"label":"three"}]}`,
		compile.NestedReplace), []string{id})
	same(t, w.rows(t, postsView), []string{"p|ann|NULL|P1,p4|TWO,three|NULL", "q|ann|NULL|q1,q2|one,TWO|NULL"})
	same(t, update(id, `{"id":"`+id+`","title":"pp","posts_reviewer_fk":{"name":"rob"},"tags":[]}`, compile.NestedReplace), []string{id})
	same(t, w.rows(t, postsView), []string{"pp|ann|rob|P1,p4|NULL|NULL", "q|ann|NULL|q1,q2|one,TWO|NULL"})
	same(t, update(id, `{"comments":[{"body":"only"}]}`, compile.NestedReplace), []string{id})
	same(t, w.rows(t, postsView)[0], "pp|ann|rob|only|NULL|NULL")

	same(t, update(id, `{"posts_reviewer_fk":null,"details":{"text":"d"}}`, compile.NestedMerge), []string{id})
	same(t, w.rows(t, postsView)[0], "pp|ann|NULL|only|NULL|d")
	same(t, update(id, `{"details":null}`, compile.NestedReplace), []string{id})
	same(t, w.rows(t, postsView)[0], "pp|ann|NULL|only|NULL|NULL")

	// Nothing is written for a row that is not there.
	count := "select (select count(*) from authors), (select count(*) from comments), (select count(*) from tags)"
	before := w.rows(t, count)
	same(t, update("00000000-0000-0000-0000-000000000000", `{"title":"x","posts_reviewer_fk":{"name":"nobody"},
		"comments":[{"body":"x"}],"tags":[{"id":77}]}`, compile.NestedReplace), []string{})
	same(t, w.rows(t, count), before)
}

func TestNestedRefuses(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nestedDDL)
	for _, tt := range []struct{ table, json, code, message string }{
		{"posts", `{"title":"x","coments":[{"body":"y"}]}`, "PGRST204", "'coments'"},
		{"posts", `{"title":"x","comments":[{"bod":"y"}]}`, "PGRST204", "'bod' column of 'comments'"},
		{"posts", `{"title":"x","comments":{"body":"y"}}`, "validation_error", "an array is needed"},
		{"posts", `{"title":"x","details":[{"text":"y"}]}`, "validation_error", "an object is needed"},
		{"posts", `{"title":"x","comments":[1]}`, "validation_error", "not an object"},
		{"posts", `{"title":"x","authors":{"name":"y"}}`, "validation_error", "'authors!posts_author_fk'"},
		{"posts", `{"title":"x","author_id":1,"posts_author_fk":{"name":"y"}}`, "validation_error", "only one of them"},
		{"posts", `{"title":"x","comments":[{"post_id":"z"}]}`, "validation_error", "comes from the row that it is nested in"},
		{"posts", `{"title":"x","comments":[{"body":"y","body":"z"}]}`, "PGRST102", `"body" twice`},
		{"posts", `{"title":"x","posts_author_fk":{"id":5}}`, "validation_error", "always generated"},
		{"nodes", strings.Repeat(`{"nodes":[`, 10) + strings.Repeat(`]}`, 10), "validation_error", "more than 8 levels"},
	} {
		_, _, err := w.InsertNested(w.rel(t, tt.table), where(), compile.Nested{Body: body(t, tt.json)})
		wantFault(t, err, tt.code, tt.message)
	}
	rel := w.rel(t, "posts")
	if !w.IsNested(rel, body(t, `{"title":1,"comments":[]}`)) || w.IsNested(rel, body(t, `{"title":1,"coments":[]}`)) {
		t.Error("nested bodies are not told apart")
	}
	_, _, err := w.UpdateNested(rel, where(), []string{"1"}, compile.Nested{Body: body(t, `{"id":"2"}`)})
	wantFault(t, err, "PGRST115", "'id'")
	_, _, err = w.UpdateNested(rel, where(), nil, compile.Nested{Body: body(t, `{}`)})
	wantFault(t, err, "validation_error", "1 columns")
}

func FuzzInsertNested(f *testing.F) {
	f.Add(`{"title":"p1","posts_author_fk":{"name":"ann"},"comments":[{"body":"c1","likes":[{"who":"x"}]}],"tags":[{"id":1}],"details":{"text":"d"}}`, byte(0))
	f.Add(`[{"title":"a","tags":[{"id":1},{"id":2,"label":null}],"details":null,"comments":[]},{"comments":[{}]}]`, byte(1))
	w := newWriter(f, nestedDDL)
	rel := w.Schema.Relation("public", "posts")
	f.Fuzz(func(t *testing.T, data string, mode byte) {
		b, err := compile.ParseJSON([]byte(data))
		if err != nil {
			return
		}
		s, _, err := w.InsertNested(rel, &query.Request{}, compile.Nested{Body: b, Mode: compile.NestedMode(mode % 3)})
		if err != nil {
			return
		}
		if _, err = w.conn.Exec(context.Background(), "begin"); err != nil {
			t.Fatal(err)
		}
		_, _, err = w.run(s)
		if _, rollback := w.conn.Exec(context.Background(), "rollback"); rollback != nil {
			t.Fatal(rollback)
		}
		if err != nil && (strings.Contains(err.Error(), "42601") || strings.Contains(err.Error(), "42P18") || strings.Contains(err.Error(), "42703")) {
			t.Fatalf("%v\n%s", err, s.SQL)
		}
	})
}
