package compile_test

import (
	"strings"
	"testing"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/query"
)

const itemsDDL = `
create table items (id int primary key, a text default 'da', n int default 5, g int generated always as (n * 2) stored,
	j jsonb, tags text[], hits bigint);
insert into items (id, a, n, j, tags) values
	(1, 'one', 1, '{"a":{"b":1}}', '{x}'), (2, 'two', 2, null, null), (3, 'three', 3, '[]', '{}');
create table keyed (id int generated always as identity primary key, a text default 'da');
insert into keyed (a) values ('x');
create table pairs (x int, y text, v int default 7, w text, primary key (x, y));
insert into pairs values (1, 'a', 1, 'w1'), (1, 'b', 2, 'w2'), (2, 'a', 3, 'w3');
create table uuids (id uuid primary key, a text);
insert into uuids values ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'u');
create table nokey (a int);
create view items_view as select id, a from items;
`

func TestUpdate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, json     string
		q              *query.Request
		u              compile.Update
		returned, want string
	}{
		{"filtered", `{"a":"new","n":null}`, where("id", "2"), compile.Update{},
			"2", "1|one|1;2|new|NULL;3|three|3"},
		{"all", `{"n":9}`, where(), compile.Update{}, "1;2;3", "1|one|9;2|two|9;3|three|9"},
		{"several filters", `{"n":9}`, where("id", "2", "a", "one"), compile.Update{}, "", "1|one|1;2|two|2;3|three|3"},
		{"columns", `{"a":"x","n":9,"nonsense":1}`, where("id", "1"), compile.Update{Columns: []string{"n"}},
			"1", "1|one|9;2|two|2;3|three|3"},
		{"array of one", `[{"n":9}]`, where("id", "1"), compile.Update{}, "1", "1|one|9;2|two|2;3|three|3"},
		{"nothing to set", `{}`, where("id", "1"), compile.Update{}, "", "1|one|1;2|two|2;3|three|3"},
		{"no object", `[]`, where("id", "1"), compile.Update{Columns: []string{"n"}}, "", "1|one|1;2|two|2;3|three|3"},
		{"xmin of another row", `{"n":9}`, where("id", "1"), compile.Update{IfMatch: new("1")}, "", "1|one|1;2|two|2;3|three|3"},
		{"tag of another making", `{"n":9}`, where("id", "1"), compile.Update{IfMatch: new("x' or true")}, "",
			"1|one|1;2|two|2;3|three|3"},
		{"value with SQL", `{"a":"'; drop table items; --"}`, where("id", "1"), compile.Update{}, "1",
			"1|'; drop table items; --|1;2|two|2;3|three|3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWriter(t, itemsDDL)
			tt.u.Body, tt.u.Return = body(t, tt.json), compile.ReturnKeys
			s, err := w.Update(w.rel(t, "items"), tt.q, tt.u)
			same(t, strings.Join(w.mustRun(t, s, err), ";"), tt.returned)
			same(t, strings.Join(w.rows(t, "select id, a, n from items order by id"), ";"), tt.want)
		})
	}
}

func TestUpdateReturns(t *testing.T) {
	t.Parallel()
	w := newWriter(t, itemsDDL)
	rel := w.rel(t, "items")
	xmin := w.rows(t, "select xmin from items where id = 1")[0]
	s, err := w.Update(rel, selecting(where("id", "1"), "g", "a"), compile.Update{Body: body(t, `{"n":21}`),
		Return: compile.ReturnRepresentation, IfMatch: &xmin})
	same(t, w.mustRun(t, s, err), []string{"42|one"})
	s, err = w.Update(rel, selecting(where("id", "1"), "a"), compile.Update{Body: body(t, `{}`), Return: compile.ReturnRepresentation})
	same(t, w.mustRun(t, s, err), []string{})
	s, err = w.Update(rel, where("id", "1"), compile.Update{Body: body(t, `{}`)})
	same(t, w.mustRun(t, s, err), []string{})
	s, err = w.Update(w.rel(t, "items_view"), where("id", "1"), compile.Update{Body: body(t, `{"a":"v"}`),
		Return: compile.ReturnRepresentation})
	same(t, w.mustRun(t, s, err), []string{"1|v"})
	s, err = w.Delete(rel, selecting(where("id", "1"), "a"), compile.Delete{Return: compile.ReturnRepresentation, IfMatch: &xmin})
	same(t, w.mustRun(t, s, err), []string{}) // it has another xmin by now
	s, err = w.Delete(rel, selecting(where("id", "1"), "a"), compile.Delete{Return: compile.ReturnRepresentation})
	same(t, w.mustRun(t, s, err), []string{"v"})
	s, err = w.Delete(rel, where(), compile.Delete{Return: compile.ReturnKeys})
	same(t, w.mustRun(t, s, err), []string{"2", "3"})
}

func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	w := newWriter(t, itemsDDL)
	rel := w.rel(t, "items")
	one := int64(1)
	for _, q := range []*query.Request{
		{Limit: &one}, {Offset: &one}, {Distinct: &query.Distinct{}},
		{Cursor: new("")},
	} {
		_, err := w.Update(rel, q, compile.Update{Body: body(t, `{"n":1}`)})
		wantFault(t, err, "validation_error", "cannot be used with an update or a delete")
		_, err = w.Delete(rel, q, compile.Delete{})
		wantFault(t, err, "validation_error", "cannot be used with an update or a delete")
	}
	_, err := w.Update(rel, where(), compile.Update{Body: body(t, `[{"n":1},{"n":2}]`)})
	wantFault(t, err, "PGRST102", "one object is needed")
	_, err = w.Update(rel, where(), compile.Update{Body: body(t, `{"nn":1}`)})
	wantFault(t, err, "PGRST204", "'nn'")
	_, err = w.Update(w.rel(t, "items_view"), where(), compile.Update{Body: body(t, `{"a":1}`), IfMatch: new("1")})
	wantFault(t, err, "validation_error", "If-Match")
	s, err := w.Update(rel, where("id", "1"), compile.Update{Body: body(t, `{"g":1}`)})
	w.wantSQLState(t, s, err, "428C9")
}

func TestUpdateMany(t *testing.T) {
	t.Parallel()
	w := newWriter(t, itemsDDL)
	rel := w.rel(t, "items")
	s, err := w.UpdateMany(rel, where(), compile.Update{Body: body(t,
		`[{"id":1,"a":"A"},{"id":"2","n":22,"tags":["t"]},{"id":3,"a":null,"j":{"k":[1]}},{"id":4,"a":"nobody"}]`), Return: compile.ReturnKeys})
	if got := w.mustRun(t, s, err); len(got) != 3 {
		t.Errorf("changed %v", got)
	}
	same(t, w.rows(t, "select id, a, n, j, tags from items order by id"), []string{
		`1|A|1|{"a": {"b": 1}}|{x}`, "2|two|22|NULL|{t}", `3|NULL|3|{"k": [1]}|{}`})
	s, err = w.UpdateMany(rel, where("a", "A"), compile.Update{Body: body(t, `[{"id":1,"n":100},{"id":2,"n":100}]`),
		Columns: []string{"n"}, Return: compile.ReturnRepresentation})
	same(t, w.mustRun(t, s, err), []string{`1|A|100|200|{"a": {"b": 1}}|["x"]|NULL`})
	s, err = w.UpdateMany(rel, where(), compile.Update{Body: body(t, `[{"id":1}]`)})
	same(t, w.mustRun(t, s, err), []string{})
	s, err = w.UpdateMany(rel, where(), compile.Update{Body: body(t, `[]`)})
	same(t, w.mustRun(t, s, err), []string{})
	s, err = w.UpdateMany(w.rel(t, "pairs"), where(), compile.Update{Body: body(t,
		`[{"x":1,"y":"b","w":"B"},{"w":"C","y":"a","x":2,"v":30}]`)})
	w.mustRun(t, s, err)
	same(t, w.rows(t, "select * from pairs order by x, y"), []string{"1|a|1|w1", "1|b|2|B", "2|a|30|C"})

	for _, tt := range []struct{ table, json, code, message string }{
		{"items", `[{"id":1,"a":"x"},{"a":"y"}]`, "validation_error", "Object 2 of the body has no value of 'id'"},
		{"items", `[{"id":null,"a":"x"}]`, "validation_error", "Object 1 of the body has no value of 'id'"},
		{"items", `[{"id":1,"a":"x"},{"id":"01","a":"y"}]`, "validation_error", "Objects 1 and 2 of the body address the same row"},
		{"pairs", `[{"x":1,"w":"x"}]`, "validation_error", "no value of 'y'"},
		{"uuids", `[{"id":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},{"id":"{A0EEBC999C0B4EF8BB6D6BB9BD380A11}"}]`,
			"validation_error", "address the same row"},
		{"nokey", `[{"a":1}]`, "validation_error", "'nokey' has none"},
		{"items", `[{"id":1,"b":"x"}]`, "PGRST204", "'b'"},
	} {
		_, err := w.UpdateMany(w.rel(t, tt.table), where(), compile.Update{Body: body(t, tt.json)})
		wantFault(t, err, tt.code, tt.message)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, table    string
		key            []string
		json           string
		returned, want string
	}{
		{"row that is there", "items", []string{"1"}, `{"n":10}`, "1|f", "1|da|10|NULL;2|two|2|NULL;3|three|3|[]"},
		{"row that is not there", "items", []string{"7"}, `{"id":7,"a":"x"}`, "7|t",
			`1|one|1|{"a": {"b": 1}};2|two|2|NULL;3|three|3|[];7|x|5|NULL`},
		{"empty body", "items", []string{"1"}, `{}`, "1|f", "1|da|5|NULL;2|two|2|NULL;3|three|3|[]"},
		{"always identity", "keyed", []string{"1"}, `{"a":"y"}`, "1", "1|y"},
		{"always identity, not there", "keyed", []string{"5"}, `{"a":"y"}`, "", "1|x"},
		{"always identity, empty body", "keyed", []string{"1"}, `{"id":"1"}`, "1", "1|da"},
		{"composite key", "pairs", []string{"1", "b"}, `{"w":"new"}`, "1|b|f", "1|a|1|w1;1|b|7|new;2|a|3|w3"},
		{"key of another spelling", "uuids", []string{"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"},
			`{"id":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","a":"v"}`, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|f",
			"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|v"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWriter(t, itemsDDL)
			s, err := w.Replace(w.rel(t, tt.table), where(), compile.Replace{Key: tt.key, Body: body(t, tt.json),
				Return: compile.ReturnKeys})
			same(t, strings.Join(w.mustRun(t, s, err), ";"), tt.returned)
			list := "*"
			if tt.table == "items" {
				list = "id, a, n, j"
			}
			same(t, strings.Join(w.rows(t, "select "+list+" from "+tt.table+" order by 1, 2"), ";"), tt.want)
		})
	}
}

func TestReplaceRefuses(t *testing.T) {
	t.Parallel()
	w := newWriter(t, itemsDDL)
	for _, tt := range []struct {
		table         string
		key           []string
		json          string
		code, message string
	}{
		{"items", []string{"1"}, `{"id":2}`, "PGRST115", "Payload values do not match URL in primary key column(s)"},
		{"items", []string{"1"}, `{"id":null}`, "PGRST115", "'id' must be left out"},
		{"items", []string{"1"}, `[{},{}]`, "PGRST102", "one is needed"},
		{"items", []string{"1", "2"}, `{}`, "validation_error", "has 1 columns"},
		{"items", []string{"\x00"}, `{}`, "validation_error", "zero byte"},
		{"nokey", []string{"1"}, `{}`, "validation_error", "'nokey' has none"},
	} {
		_, err := w.Replace(w.rel(t, tt.table), where(), compile.Replace{Key: tt.key, Body: body(t, tt.json)})
		wantFault(t, err, tt.code, tt.message)
	}
	s, err := w.Replace(w.rel(t, "items"), where(), compile.Replace{Key: []string{"9"}, Body: body(t, `{}`),
		IfMatch: new("1"), Return: compile.ReturnKeys})
	same(t, w.mustRun(t, s, err), []string{})
	same(t, w.rows(t, "select count(*) from items"), []string{"3"})
	xmin := w.rows(t, "select xmin from items where id = 3")[0]
	s, err = w.Replace(w.rel(t, "items"), where(), compile.Replace{Key: []string{"3"}, Body: body(t, `{"a":"x"}`),
		IfMatch: &xmin, Return: compile.ReturnRepresentation})
	same(t, w.mustRun(t, s, err), []string{"3|x|5|10|NULL|NULL|NULL"})
}

// TestWritesEmbed: what a write returns can be embedded into, and shows the rows as they were written.
func TestWritesEmbed(t *testing.T) {
	t.Parallel()
	w := newWriter(t, `create table authors (id int primary key, name text);
		create table posts (id int primary key, title text, secret text, author_id int references authors);
		insert into authors values (1, 'ann'), (2, 'bob');
		grant insert, update, delete on posts to `+writeAnon+`; grant select on authors to `+writeAnon+`;
		grant select (id, title, author_id) on posts to `+writeAnon+`; set role `+writeAnon)
	w.Role = w.Schema.Role(writeAnon)
	rel := w.rel(t, "posts")
	request := func(q *query.Request) *query.Request {
		selecting(q, "title")
		q.Select = append(q.Select, query.Item{Kind: query.Embed, Target: "authors", Select: selecting(&query.Request{}, "name").Select})
		return q
	}
	s, err := w.Insert(rel, request(where()), compile.Insert{Return: compile.ReturnRepresentation,
		Body: body(t, `[{"id":1,"title":"a","author_id":2},{"id":2,"title":"b"}]`)})
	same(t, w.mustRun(t, s, err), []string{`a|{"name":"bob"}`, "b|NULL"})
	s, err = w.Insert(rel, request(where()), compile.Insert{Return: compile.ReturnRepresentation, Conflict: compile.ConflictMerge,
		Body: body(t, `{"id":1,"title":"A"}`)})
	same(t, w.mustRun(t, s, err), []string{`f|A|{"name":"bob"}`}) // the row was there
	s, err = w.Update(rel, request(where("id", "1")), compile.Update{Return: compile.ReturnRepresentation,
		Body: body(t, `{"author_id":1,"id":9}`)})
	same(t, w.mustRun(t, s, err), []string{`A|{"name":"ann"}`})
	s, err = w.Delete(rel, request(where("id", "9")), compile.Delete{Return: compile.ReturnRepresentation})
	same(t, w.mustRun(t, s, err), []string{`A|{"name":"ann"}`})
}
