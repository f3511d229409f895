package datatools_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/auth"
	"github.com/boughdb/bough/server/mcp"
	"github.com/boughdb/bough/server/mcp/datatools"
)

func TestToolsThatReadAnswer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := []struct{ tool, arguments, want string }{
		{"query_table", `{"table": "notes", "select": ["id", "title"]}`,
			`{"rows":[{"id":1,"title":"first"},{"id":2,"title":"second, \"quoted\""},{"id":3,"title":"third"}],"truncated":false}`},
		{"query_table", `{"table": "note", "select": ["id"], "order": [{"column": "price", "direction": "desc"}, {"column": "id"}], "limit": 2}`, ``},
		{"query_table", `{"table": "notes", "select": ["id"], "order": [{"column": "id", "direction": "desc"}], "limit": 2}`, `{"rows":[{"id":3},{"id":2}],"truncated":true,"next_offset":2}`},
		{"query_table", `{"table": "notes", "select": ["id"], "order": [{"column": "id"}], "limit": 2, "offset": 2}`, `{"rows":[{"id":3}],"truncated":false}`},
		{"query_table", `{"table": "notes", "select": ["odd \"name, really"], "filters": [{"column": "odd \"name, really", "op": "eq", "value": "x,y"}]}`, `{"rows":[{"odd \"name, really":"x,y"}],"truncated":false}`},
		{"query_table", `{"table": "notes", "select": ["id", "authors(name)"], "filters": [{"column": "id", "op": "eq", "value": 1}]}`, `{"rows":[{"id":1,"authors":{"name":"Ann"}}],"truncated":false}`},
		{"query_table", `{"table": "notes", "select": ["data->>tag"], "filters": [{"column": "data->>tag", "op": "eq", "value": "b"}]}`, `{"rows":[{"tag":"b"}],"truncated":false}`},
		{"query_table", `{"table": "second.things"}`, `{"rows":[{"id":1,"name":"thing"}],"truncated":false}`},
		{"get_record", `{"table": "notes", "id": 2, "select": ["title", "price"]}`, `{"record":{"title":"second, \"quoted\"","price":2.5}}`},
		{"get_record", `{"table": "notes", "id": "2", "select": ["id"]}`, `{"record":{"id":2}}`},
		{"get_record", `{"table": "pairs", "id": [1, "x,y"]}`, `{"record":{"a":1,"b":"x,y","v":10}}`},
		{"aggregate_table", `{"table": "notes", "aggregates": [{"fn": "count"}, {"fn": "sum", "column": "price"}, {"fn": "avg", "column": "price"}, {"fn": "min", "column": "title"}, {"fn": "count", "column": "price"}]}`,
			`{"rows":[{"count":3,"sum_price":4.0,"avg_price":2.0000000000000000,"min_title":"first","count_price":2}],"truncated":false}`},
		{"aggregate_table", `{"table": "notes", "aggregates": [{"fn": "count"}], "group_by": ["author_id"], "filters": [{"column": "id", "op": "lt", "value": 10}]}`,
			`{"rows":[{"author_id":1,"count":2},{"author_id":null,"count":1}],"truncated":false}`},
		{"run_sql_query", `{"sql": "select n.id, a.name, n.id from notes n join authors a on a.id = n.author_id where price > $1 order by 1", "params": [2]}`,
			`{"columns":[{"name":"id","type":"integer"},{"name":"name","type":"text"},{"name":"id","type":"integer"}],"rows":[[2,"Ann",2]],"truncated":false}`},
		{"run_sql_query", `{"sql": "select id from many order by id", "limit": 2}`, `{"columns":[{"name":"id","type":"integer"}],"rows":[[1],[2]],"truncated":true}`},
		{"run_sql_query", `{"sql": "select twice(3), auth.uid()"}`, `{"columns":[{"name":"twice","type":"integer"},{"name":"uid","type":"uuid"}],"rows":[[6,"00000000-0000-4000-8000-00000000000a"]],"truncated":false}`},
		{"call_procedure", `{"name": "twice", "args": {"n": 21}}`, `{"result":42,"truncated":false}`},
		{"call_procedure", `{"name": "titles", "args": {"min_price": "2"}}`, `{"result":["second, \"quoted\""],"truncated":false}`},
		{"call_procedure", `{"name": "titles"}`, `{"result":["first","second, \"quoted\""],"truncated":false}`},
		{"call_procedure", `{"name": "whoami"}`, `{"result":"00000000-0000-4000-8000-00000000000a on","truncated":false}`},
		{"call_procedure", `{"name": "total", "args": {"numbers": [1, 2, 3]}}`, `{"result":6,"truncated":false}`},
		{"call_procedure", `{"name": "of_null", "args": {"n": null}}`, `{"result":"null","truncated":false}`},
		{"call_procedure", `{"name": "page", "args": {"size": 5, "limit": 2}}`, `{"result":[1,2],"truncated":false}`},
		{"call_procedure", `{"name": "nothing"}`, `{"result":null,"truncated":false}`},
		{"list_procedures", `{"search": "NOTE OF"}`,
			`{"procedures":[{"name":"add_note","arguments":[{"name":"id","type":"integer"},{"name":"title","type":"text"}],"returns":"notes","volatility":"volatile","comment":"Adds a note of the caller."}],"truncated":false}`},
		{"list_procedures", `{"search": "titles"}`, `{"procedures":[{"name":"titles","arguments":[{"name":"min_price","type":"numeric","optional":true}],"returns":"set of text","volatility":"stable"}],"truncated":false}`},
		{"list_procedures", `{"search": "forbidden"}`, `{"procedures":[],"truncated":false}`},
	}
	for _, c := range cases {
		t.Run(c.tool+" "+c.arguments, func(t *testing.T) {
			t.Parallel()
			r, err := w.do(t, ann, c.tool, c.arguments)
			if c.want == "" {
				refused(t, err, "Could not find the table 'public.note'")
				refused(t, err, "Perhaps you meant the table 'public.notes'")
				return
			}
			got := structured(t, r, err)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if !r.Untrusted {
				t.Error("the result is not marked as untrusted")
			}
		})
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := []struct{ column, op, value, want string }{
		{"id", "eq", "2", "2"}, {"title", "eq", `"second, \"quoted\""`, "2"}, {"title", "eq", `"eq.first"`, ""}, {"id", "neq", "2", "1 3"},
		{"id", "gt", "1", "2 3"}, {"id", "gte", "2", "2 3"}, {"price", "lt", "2.5", "1"}, {"price", "lte", "2.5", "1 2"},
		{"title", "like", `"%ir%"`, "1 3"}, {"title", "like", `"*ir*"`, ""}, {"title", "ilike", `"FIRST"`, "1"},
		{"id", "in", "[1, 3, 4]", "1 3"}, {"title", "in", `["third", "second, \"quoted\"", "(", ")\\"]`, "2 3"}, {"id", "in", "[]", ""},
		{"price", "is", "null", "3"}, {"price", "is", `"not null"`, "1 2"}, {"done", "is", "true", "1"}, {"done", "eq", "false", "2"}, {"done", "is", `"unknown"`, "3"},
	}
	for _, c := range cases {
		t.Run(c.column+" "+c.op+" "+c.value, func(t *testing.T) {
			t.Parallel()
			r, err := w.do(t, ann, "query_table", fmt.Sprintf(`{"table": "notes", "select": ["id"], "order": [{"column": "id"}], "filters": [{"column": %q, "op": %q, "value": %s}]}`, c.column, c.op, c.value))
			got := strings.Join(regexp.MustCompile(`\d+`).FindAllString(structured(t, r, err), -1), " ")
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestToolsThatWrite(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, tool, arguments, want, state, wantState string }{
		{"insert", "insert_records", `{"table": "notes", "records": [{"id": 10, "title": "a"}, {"id": 11, "title": "b", "data": {"x": [1]}}]}`, `{"written":2}`,
			"select string_agg(concat_ws(' ', id, owner = '00000000-0000-4000-8000-00000000000a', title, data), ';' order by id) from notes where id >= 10", `10 t a;11 t b {"x": [1]}`},
		{"insert returning", "insert_records", `{"table": "notes", "records": [{"id": 10, "title": "a"}], "returning": ["id", "title"]}`, `{"written":1,"rows":[{"id":10,"title":"a"}]}`, "", ""},
		{"insert ignoring", "insert_records", `{"table": "notes", "records": [{"id": 1, "title": "new"}, {"id": 10, "title": "a"}], "on_conflict": {"action": "ignore"}, "returning": ["id"]}`, `{"written":1,"rows":[{"id":10}]}`,
			"select title from notes where id = 1", "first"},
		{"insert updating", "insert_records", `{"table": "authors", "records": [{"id": 1, "name": "Bob"}], "on_conflict": {"columns": ["id"], "action": "update"}, "returning": ["id"]}`, "", "", ""},
		{"insert updating by a key", "insert_records", `{"table": "authors", "records": [{"id": 1, "name": "Anna"}], "on_conflict": {"columns": ["id"], "action": "update"}}`, `{"written":1}`,
			"select name from authors where id = 1", "Anna"},
		{"update", "update_records", `{"table": "notes", "filters": [{"column": "id", "op": "lte", "value": 2}], "values": {"title": "new", "price": null}}`, `{"affected":2,"dry_run":false}`,
			"select string_agg(concat_ws(' ', id, title, price), ';' order by id) from notes", "1 new;2 new;3 third;4 his 100"},
		{"update nothing", "update_records", `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 99}], "values": {"title": "new"}}`, `{"affected":0,"dry_run":false}`, "", ""},
		{"dry update", "update_records", `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 1}], "values": {"title": "new"}, "dry_run": true}`,
			`{"affected":1,"dry_run":true,"sample":[{"id":1,"owner":"00000000-0000-4000-8000-00000000000a","author_id":1,"title":"first","price":1.5,"data":{"tag":"a"},"odd \"name, really":"x,y","done":true}]}`,
			"select title from notes where id = 1", "first"},
		{"delete", "delete_records", `{"table": "notes", "filters": [{"column": "id", "op": "in", "value": [1, 2, 4]}]}`, `{"affected":2,"dry_run":false}`, "select string_agg(id::text, ' ' order by id) from notes", "3 4"},
		{"dry delete", "delete_records", `{"table": "many", "filters": [{"column": "id", "op": "gt", "value": 0}], "max_rows": 1, "dry_run": true}`, "300 5", "select count(*) from many", "300"},
		{"delete in another schema", "delete_records", `{"table": "second.things", "filters": [{"column": "id", "op": "eq", "value": 1}]}`, `{"affected":1,"dry_run":false}`, "select count(*) from second.things", "0"},
		{"volatile function", "call_procedure", `{"name": "add_note", "args": {"id": 20, "title": "made"}}`, `{"result":{"id":20,"owner":"00000000-0000-4000-8000-00000000000a","author_id":null,"title":"made","price":null,"data":null,"odd \"name, really":null,"done":null},"truncated":false}`,
			"select owner from notes where id = 20", "00000000-0000-4000-8000-00000000000a"},
		{"procedure", "call_procedure", `{"name": "clean", "args": {"ident": 3}}`, `{"result":null,"truncated":false}`, "select count(*) from notes", "3"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			r, err := w.do(t, ann, c.tool, c.arguments)
			switch c.want {
			case "":
				refused(t, err, "authors_name_key")
			case "300 5":
				got := structured(t, r, err)
				if !strings.HasPrefix(got, `{"affected":300,"dry_run":true,"sample":[{`) || strings.Count(got, `"id":`) != 5 || !strings.Contains(r.Summary, "more than max_rows = 1") {
					t.Errorf("got %.200s, %s", got, r.Summary)
				}
			default:
				if d := cmp.Diff(c.want, structured(t, r, err)); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			}
			if c.state != "" {
				if d := cmp.Diff(c.wantState, w.value(t, c.state)); d != "" {
					t.Errorf("state (-want +got):\n%s", d)
				}
			}
		})
	}
}

func TestWhatIsWrongIsTold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := []struct{ tool, arguments, says string }{
		{"query_table", `{"table": "nots"}`, "Perhaps you meant the table 'public.notes'"},
		{"query_table", `{"table": "third.things"}`, "Could not find the table 'public.third.things'"},
		{"query_table", `{"table": "secret"}`, "permission denied for table secret"},
		{"query_table", `{"table": "notes", "select": ["titel"]}`, "titel"},
		{"query_table", `{"table": "notes", "select": ["id,owner"]}`, "id,owner"},
		{"query_table", `{"table": "notes", "filters": [{"column": "titel", "op": "eq", "value": 1}]}`, "titel"},
		{"query_table", `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": "x"}]}`, `invalid input syntax for type integer: "x"`},
		{"query_table", `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": null}]}`, "compares with null"},
		{"query_table", `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": [1]}]}`, "a list of values is for the operator in"},
		{"query_table", `{"table": "notes", "filters": [{"column": "id", "op": "in", "value": 1}]}`, "needs a list"},
		{"query_table", `{"table": "notes", "filters": [{"column": "id", "op": "in", "value": [[1]]}]}`, "something else in it"},
		{"query_table", `{"table": "notes", "filters": [{"column": "id", "op": "is", "value": "nil"}]}`, "nil"},
		{"query_table", `{"table": "notes", "filters": [{"column": "id", "op": "regex", "value": 1}]}`, "op"},
		{"query_table", `{"table": "notes", "limit": 201}`, "limit"},
		{"query_table", `{"table": "notes", "offset": -1}`, "offset"},
		{"query_table", `{"table": "notes", "where": {}}`, "where"},
		{"query_table", `{}`, "table"},
		{"get_record", `{"table": "notes", "id": 99}`, `there is no record "99" in notes`},
		{"get_record", `{"table": "notes", "id": null}`, "id"},
		{"get_record", `{"table": "notes", "id": {"a": 1}}`, "must be a text or a number"},
		{"get_record", `{"table": "pairs", "id": []}`, "must not be an empty list"},
		{"get_record", `{"table": "pairs", "id": 1}`, "the key of pairs has 2 parts, a,b"},
		{"aggregate_table", `{"table": "notes", "aggregates": []}`, "aggregates"},
		{"aggregate_table", `{"table": "notes", "aggregates": [{"fn": "sum"}]}`, "must name a column for sum"},
		{"aggregate_table", `{"table": "notes", "aggregates": [{"fn": "count"}, {"fn": "count"}]}`, "count twice"},
		{"aggregate_table", `{"table": "notes", "aggregates": [{"fn": "median", "column": "price"}]}`, "median"},
		{"run_sql_query", `{"sql": "delete from notes"}`, "only one SELECT"},
		{"run_sql_query", `{"sql": "select set_config('role', 'none', true)"}`, "set_config"},
		{"run_sql_query", `{"sql": "select nope from notes"}`, `column "nope" does not exist`},
		{"run_sql_query", `{"sql": "select add_note(1, 'x')"}`, "call it by call_procedure"},
		{"run_sql_query", `{"sql": "select 1", "limit": 1001}`, "limit"},
		{"explain_query", `{"sql": "delete from notes", "analyze": true}`, "only one SELECT"},
		{"insert_records", `{"table": "notes", "records": []}`, "records"},
		{"insert_records", `{"table": "notes", "records": [{"id": 1, "title": "x"}]}`, "notes_pkey"},
		{"insert_records", `{"table": "notes", "records": [{"id": 9, "titel": "x"}]}`, "titel"},
		{"insert_records", `{"table": "notes", "records": [{"id": 9}]}`, "title"},
		{"insert_records", `{"table": "notes", "records": [{"id": 9, "title": "x"}], "on_conflict": {"columns": ["id"], "action": "error"}}`, "on_conflict"},
		{"insert_records", `{"table": "notes", "records": [{"id": 9, "title": "x"}], "on_conflict": {"columns": ["title"], "action": "ignore"}}`, "no unique or exclusion constraint"},
		{"update_records", `{"table": "notes", "filters": [], "values": {"title": "x"}}`, "filters"},
		{"update_records", `{"table": "notes", "values": {"title": "x"}}`, "filters"},
		{"update_records", `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 1}], "values": {}}`, "must have at least one column"},
		{"update_records", `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 1}], "values": {"titel": "x"}}`, "titel"},
		{"update_records", `{"table": "notes", "filters": [{"column": "id", "op": "gt", "value": 0}], "values": {"title": "x"}, "max_rows": 2}`, "more than max_rows = 2 records match, so nothing was updated"},
		{"delete_records", `{"table": "notes", "filters": [{"column": "id", "op": "gt", "value": 0}], "max_rows": 2}`, "more than max_rows = 2 records match, so nothing was deleted"},
		{"delete_records", `{"table": "notes", "filters": []}`, "filters"},
		{"call_procedure", `{"name": "twiced", "args": {"n": 1}}`, "twice"},
		{"call_procedure", `{"name": "twice", "args": {"m": 1}}`, "twice"},
		{"call_procedure", `{"name": "twice", "args": {"n": "x"}}`, "invalid input syntax"},
		{"call_procedure", `{"name": "forbidden"}`, "permission denied for function forbidden"},
	}
	before := w.value(t, "select md5(string_agg(n::text, ',' order by id)) from notes n")
	for _, c := range cases {
		_, err := w.do(t, ann, c.tool, c.arguments)
		t.Run(c.tool+" "+c.arguments, func(t *testing.T) { refused(t, err, c.says) })
	}
	if after := w.value(t, "select md5(string_agg(n::text, ',' order by id)) from notes n"); after != before {
		t.Error("a refused call changed something")
	}
}

// What one user does, no tool lets another one see or touch.
func TestOtherUsersRowsAreOutOfReach(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.value(t, "select n::text from notes n where id = 4")
	filters := `"filters": [{"column": "id", "op": "eq", "value": 4}]`
	for _, c := range []struct{ tool, arguments, want string }{
		{"query_table", `{"table": "notes", ` + filters + `}`, `{"rows":[],"truncated":false}`},
		{"aggregate_table", `{"table": "notes", "aggregates": [{"fn": "count"}], ` + filters + `}`, `{"rows":[{"count":0}],"truncated":false}`},
		{"run_sql_query", `{"sql": "select id from notes where id = 4"}`, `{"columns":[{"name":"id","type":"integer"}],"rows":[],"truncated":false}`},
		{"update_records", `{"table": "notes", "values": {"title": "mine"}, ` + filters + `}`, `{"affected":0,"dry_run":false}`},
		{"update_records", `{"table": "notes", "values": {"title": "mine"}, "dry_run": true, ` + filters + `}`, `{"affected":0,"dry_run":true}`},
		{"delete_records", `{"table": "notes", ` + filters + `}`, `{"affected":0,"dry_run":false}`},
		{"call_procedure", `{"name": "clean", "args": {"ident": 4}}`, `{"result":null,"truncated":false}`},
		{"call_procedure", `{"name": "titles", "args": {"min_price": 50}}`, `{"result":[],"truncated":false}`},
	} {
		r, err := w.do(t, ann, c.tool, c.arguments)
		if d := cmp.Diff(c.want, structured(t, r, err)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.tool, d)
		}
	}
	_, err := w.do(t, ann, "get_record", `{"table": "notes", "id": 4}`)
	refused(t, err, `there is no record "4" in notes`)
	_, err = w.do(t, ann, "insert_records", `{"table": "notes", "records": [{"id": 30, "title": "x", "owner": "00000000-0000-4000-8000-00000000000b"}]}`)
	refused(t, err, "row-level security")
	_, err = w.do(t, ann, "insert_records", `{"table": "notes", "records": [{"id": 4, "title": "mine"}], "on_conflict": {"action": "update"}}`)
	refused(t, err, "row-level security")
	_, err = w.do(t, ann, "run_sql_query", `{"sql": "select set_config('request.jwt.claims', '{\"sub\":\"00000000-0000-4000-8000-00000000000b\"}', true), * from notes"}`)
	refused(t, err, "set_config")
	r, err := w.do(t, ann, "explain_query", `{"sql": "select 1 from notes where title = 'his'", "analyze": true}`)
	if plan := structured(t, r, err); strings.Contains(plan, "Removed") || !strings.Contains(plan, "Execution Time") {
		t.Errorf("the plan is %s", plan)
	}
	if after := w.value(t, "select n::text from notes n where id = 4"); after != before {
		t.Errorf("the note is %s, was %s", after, before)
	}
	r, err = w.do(t, bob, "query_table", `{"table": "notes", "select": ["id"]}`)
	if got := structured(t, r, err); got != `{"rows":[{"id":4}],"truncated":false}` {
		t.Errorf("bob sees %s", got)
	}
	// A service key is not bound by row-level security.
	r, err = w.do(t, &auth.Principal{Service: true, Admin: true}, "run_sql_query", `{"sql": "select count(*) from notes"}`)
	if got := structured(t, r, err); !strings.Contains(got, `"rows":[[4]]`) {
		t.Errorf("the service sees %s", got)
	}
}

func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for range 2 { // a connection on which a result was broken off is of use
		r, err := w.do(t, ann, "query_table", `{"table": "many", "order": [{"column": "id"}], "limit": 200}`)
		got := structured(t, r, err)
		if n := strings.Count(got, `"id":`); n < 50 || n > 60 || len(got) > 64<<10 || !strings.Contains(got, fmt.Sprintf(`"truncated":true,"next_offset":%d}`, n)) {
			t.Errorf("%d rows, %d bytes, …%s", n, len(got), got[len(got)-60:])
		}
		if !strings.Contains(r.Summary, "call again with offset") {
			t.Errorf("summary %q", r.Summary)
		}
	}
	r, err := w.do(t, ann, "run_sql_query", `{"sql": "select * from many order by id", "limit": 1000}`)
	if got := structured(t, r, err); len(got) > 64<<10 || !strings.Contains(got, `"truncated":true`) || !strings.Contains(r.Summary, "Select fewer columns") {
		t.Errorf("%d bytes, %s", len(got), r.Summary)
	}
	r, err = w.do(t, ann, "call_procedure", `{"name": "numbers"}`)
	if got := structured(t, r, err); strings.Count(got, ",") != 200 || !strings.Contains(got, `"truncated":true`) {
		t.Errorf("got %s", got)
	}
	w.exec(t, "update many set body = repeat('y', 100000) where id = 1")
	_, err = w.do(t, ann, "get_record", `{"table": "many", "id": 1}`)
	refused(t, err, "select fewer columns")
	_, err = w.do(t, ann, "query_table", `{"table": "many", "filters": [{"column": "id", "op": "eq", "value": 1}]}`)
	refused(t, err, "the first record alone")
	// Everything is written, even where it cannot all be shown.
	var records []string
	for i := range 100 {
		records = append(records, fmt.Sprintf(`{"id": %d, "body": %q}`, 1000+i, strings.Repeat("z", 1000)))
	}
	r, err = w.do(t, ann, "insert_records", `{"table": "many", "records": [`+strings.Join(records, ",")+`], "returning": ["id", "body"]}`)
	if got := structured(t, r, err); len(got) > 64<<10 || !strings.HasPrefix(got, `{"written":100,`) || !strings.HasSuffix(got, `"truncated":true}`) {
		t.Errorf("%d bytes, %.40s", len(got), got)
	}
	if n := w.value(t, "select count(*) from many where id >= 1000"); n != "100" {
		t.Errorf("%s records were written", n)
	}
}

// Where the server's own bound is lower than the limit, a full page says that there may be more.
func TestTheServersOwnBoundIsTold(t *testing.T) {
	t.Parallel()
	w := bounded(t, 3)
	r, err := w.do(t, ann, "query_table", `{"table": "many", "select": ["id"], "order": [{"column": "id"}]}`)
	if d := cmp.Diff(`{"rows":[{"id":1},{"id":2},{"id":3}],"truncated":true,"next_offset":3}`, structured(t, r, err)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	r, err = w.do(t, ann, "query_table", `{"table": "many", "select": ["id"], "order": [{"column": "id"}], "offset": 298}`)
	if d := cmp.Diff(`{"rows":[{"id":299},{"id":300}],"truncated":false}`, structured(t, r, err)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What destroys something is confirmed by the person, where her program can ask her.
func TestDestructiveCallsAreConfirmed(t *testing.T) {
	t.Parallel()
	calls := []struct{ tool, arguments string }{
		{"update_records", `{"table": "notes", "filters": [{"column": "id", "op": "lte", "value": 3}], "values": {"title": "new"}}`},
		{"delete_records", `{"table": "notes", "filters": [{"column": "id", "op": "lte", "value": 3}]}`},
		{"insert_records", `{"table": "notes", "records": [{"id": 1, "title": "new"}], "on_conflict": {"action": "update"}}`},
		{"call_procedure", `{"name": "clean", "args": {"ident": 1}}`},
	}
	for _, c := range calls {
		t.Run(c.tool, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			const state = "select md5(string_agg(n::text, ',' order by id)) from notes n"
			before := w.value(t, state)
			_, err := w.answer(t, w.call(ann).Answering(mcp.Declined), c.tool, c.arguments)
			refused(t, err, "the person declined; nothing was changed")
			if w.value(t, state) != before {
				t.Error("a declined call changed something")
			}
			if _, err := w.answer(t, w.call(ann).Answering(mcp.Accepted), c.tool, c.arguments); err != nil {
				t.Error(err)
			}
			if w.value(t, state) == before {
				t.Error("an accepted call changed nothing")
			}
		})
	}
	// A mistake is told before the person is asked, and a call that only reads needs no leave.
	w := setup(t)
	declining := w.call(ann).Answering(mcp.Declined)
	_, err := w.answer(t, declining, "update_records", `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 1}], "values": {"title": null}}`)
	refused(t, err, "violates not-null constraint")
	for tool, arguments := range map[string]string{
		"delete_records": `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 1}], "dry_run": true}`,
		"call_procedure": `{"name": "twice", "args": {"n": 1}}`,
	} {
		if _, err := w.answer(t, declining, tool, arguments); err != nil {
			t.Errorf("%s: %v", tool, err)
		}
	}
}

// A scope that the principal lacks is missing here too, whatever the server in front has checked.
func TestScopesHold(t *testing.T) {
	t.Parallel()
	w := setup(t)
	narrow := *ann
	narrow.Scopes = []string{auth.ReadTables}
	if _, err := w.do(t, &narrow, "query_table", `{"table": "notes"}`); err != nil {
		t.Error(err)
	}
	_, err := w.do(t, &narrow, "run_sql_query", `{"sql": "select twice(1)"}`)
	refused(t, err, "execute:rpc")
	_, err = w.do(t, &narrow, "delete_records", `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 1}]}`)
	refused(t, err, "write:tables")
	_, err = w.do(t, &narrow, "call_procedure", `{"name": "twice", "args": {"n": 1}}`)
	refused(t, err, "execute:rpc")
	// Who writes but does not read gets no sample.
	narrow.Scopes = []string{auth.WriteTables}
	r, err := w.do(t, &narrow, "delete_records", `{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 1}], "dry_run": true}`)
	if got := structured(t, r, err); got != `{"affected":1,"dry_run":true}` {
		t.Errorf("got %s", got)
	}
}

func TestDefinitionsAreShort(t *testing.T) {
	t.Parallel()
	size := 0
	names := []string{}
	for _, tool := range datatools.Tools(datatools.Deps{Exposed: []string{"public"}}) {
		data, err := tool.Definition()
		if err != nil {
			t.Fatal(err)
		}
		size += len(data)
		names = append(names, tool.Name)
		if !tool.Branched || tool.OpenWorld || tool.Description == "" {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
	}
	want := []string{"query_table", "get_record", "aggregate_table", "run_sql_query", "explain_query", "insert_records", "update_records", "delete_records", "list_procedures", "call_procedure"}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if t.Logf("%d bytes", size); size > 16_000 {
		t.Errorf("the definitions have %d bytes", size)
	}
}

func BenchmarkRunSQLQuery(b *testing.B) {
	w := setup(b)
	for _, c := range []struct{ name, arguments string }{
		{"warm", `{"sql": "select id, title from notes where id = $1", "params": [1]}`},
		{"cold", `{"sql": "select id, title from notes where id = $1 -- yesterday", "params": [1]}`}, // is checked each time
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := w.do(b, ann, "run_sql_query", c.arguments); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
