package readsql_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatementsThatOnlyReadAreRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	cases := []struct {
		sql    string
		params []string
		want   string
	}{
		{"select 1", nil, "1"},
		{"select id, body from notes order by id", nil, `1,"hers";2,"also hers"`},
		{"select id from notes where body = $1", []string{`"hers"`}, "1"},
		{"select id from notes where id = any($1) order by 1", []string{"[1,2,3]"}, "1;2"},
		{"select $1::text[] -- ends here", []string{`["a\"b", null, "c\\d", "ä,{}"]`}, `["a\"b",null,"c\\d","ä,{}"]`},
		{"select $1::int[]", []string{"[[1,2],[3,4]]"}, "[[1,2],[3,4]]"},
		{"select $1::jsonb->'a'", []string{`{"a": [1, 2]}`}, "[1, 2]"},
		{"select $1::jsonb[]", []string{`[{"a": 1}, [2]]`}, `[{"a": 1},[2]]`},
		{"select $1::int + $2, $3::bool, $4::text", []string{"1", "2", "true", "null"}, "3,true,null"},
		{"/* a comment */ select 1 as a, 2 as a, 3 -- and another\n;", nil, "1,2,3"},
		{"values (1, 'a'), (2, 'b')", nil, `1,"a";2,"b"`},
		{"table all_notes order by id", nil, `1,"ann";2,"ann";3,"bob"`},
		{"with x as (select id from notes), y as materialized (select max(id) as m from x) select * from y", nil, "2"},
		{"with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select sum(n) from r", nil, "15"},
		{"with recursive r(n) as (select 1 union all select n % 3 + 1 from r) cycle n set c using p select n, c from r", nil, `1,false;2,false;3,false;1,true`},
		{"with recursive r(n) as (select 1 union all select n + 1 from r where n < 3) search depth first by n set o select n from r order by o", nil, "1;2;3"},
		{"select id, row_number() over w, sum(id) over (order by id range between 1 preceding and current row) from notes window w as (order by id desc) order by id", nil, "1,2,1;2,1,3"},
		{"select data->>'k', data @> '{\"k\": 1}', tags[1], array_length(tags, 1), 'a' = any(tags), tags, data, mood, at from notes where id = 1", nil,
			`"1",true,"a",2,true,["a","b"],{"k": 1},"happy","2024-05-01T12:00:00+00:00"`},
		{"select jsonb_path_query_first('{\"a\": [1, 2]}', '$.a[1]'), jsonb_agg(id order by id), json_object_agg(id, body) from notes", nil, `2,[1, 2],{ "1" : "hers", "2" : "also hers" }`},
		{"select to_tsvector('english', body) @@ websearch_to_tsquery('english', 'also -cat') or to_tsvector('english', 'the notes') @@ to_tsquery('note') from notes where id = 2", nil, "true"},
		{"select ts_headline('the fat cat', to_tsquery('cat'))", nil, `"the fat <b>cat</b>"`},
		{"select i, d::date from generate_series(1, 2) i, generate_series(timestamp '2024-01-01', '2024-01-02', '1 day') d where i = 1", nil, `1,"2024-01-01";1,"2024-01-02"`},
		{"select date_trunc('month', timestamp '2024-05-17'), extract(year from date '2024-05-17'), age(date '2024-05-17', date '2024-05-01'), timestamptz '2024-01-01 00:00Z' at time zone 'UTC'", nil,
			`"2024-05-01T00:00:00",2024,"16 days","2024-01-01T00:00:00"`},
		{"select now() = transaction_timestamp(), clock_timestamp() >= now(), random() < 1, length(gen_random_uuid()::text)", nil, "true,true,true,36"},
		{"select count(*) > 0 from information_schema.role_table_grants where grantee = 'reader'", nil, "true"},
		{"select proname, provolatile from pg_proc where proname = 'twice'", nil, `"twice","i"`},
		{"select count(*) from pg_class where relname = 'notes'", nil, "1"},
		{"select column_name, data_type from information_schema.columns where table_name = 'open_table' order by ordinal_position", nil, `"id","integer";"name","text"`},
		{"select pg_size_pretty(pg_total_relation_size('notes')) is not null", nil, "true"},
		{"select current_user, auth.uid(), current_setting('request.jwt.claims')::json->>'sub', current_setting('server_version') is null", nil, `"reader","ann","ann",false`},
		{"select twice(21), (select count(*) from newest()), total(id) from notes", nil, "42,2,3"},
		{"select count(*) from (select distinct on (owner) * from notes) s", nil, "1"},
		{"select grouping(id), id, count(*) from notes group by rollup (id) order by 1, 2", nil, "0,1,1;0,2,1;1,null,2"},
		{"select percentile_cont(0.5) within group (order by id), string_agg(body, ', ' order by id), count(*) filter (where id > 1) from notes", nil, `1.5,"hers, also hers",1`},
		{"(select 1 union select 2) intersect select 2 order by 1 fetch first 1 rows with ties", nil, "2"},
		{"select x.a, l.b from (values (1), (2)) x(a) left join lateral (select x.a * 10 as b) l on true", nil, "1,10;2,20"},
		{"select id from open_table tablesample bernoulli (100) where id < 3 order by id", nil, "1;2"},
		{"select xmltable.* from xmltable('/r/a' passing '<r><a>1</a></r>' columns n int path '.')", nil, "1"},
		{"select * from rows from (generate_series(1, 2), unnest(array['a'])) with ordinality", nil, `1,"a",1;2,null,2`},
		{"select * from json_to_recordset('[{\"a\": 1}]') as r(a int, b text)", nil, "1,null"},
		{"select (row(1, 'x')::pair).y, row(1, 'x')::pair, row(1, 2), '5'::tiny, nullif(1, 1), greatest(1, 2), coalesce(null, 3), case 1 when 1 then 'one' end", nil,
			`"x",{"x":1,"y":"x"},{"f1":1,"f2":2},5,null,2,3,"one"`},
		{"select 'NaN'::numeric, 'Infinity'::float8, 12345678901234567890::numeric, '\\xdead'::bytea, '1 day'::interval, '[1,2)'::int4range", nil, `"NaN","Infinity",12345678901234567890,"\\xdead","1 day","[1,2)"`},
		{`select 1 as ":funcid 2077", 'E{FUNCEXPR :funcid 2077}' as "}) ( {", U&'d\0061t' as U&"d\0061ta", E'a\nb', $$it's$$, $q$$$ $1$q$`, nil, `1,"E{FUNCEXPR :funcid 2077}","dat","a\nb","it's","$$ $1"`},
		{`with "x} {FUNCEXPR :funcid 1 (" as (select 1 as "b { :opno 1") select "x} {FUNCEXPR :funcid 1 ("."b { :opno 1", sum(1) over "w (" from "x} {FUNCEXPR :funcid 1 (" window "w (" as (order by 1)`, nil, "1,1"},
		{"select '<>' as \"<>\", '' as \"1\", '(' as \"-1\", 1 as \"\"\"q\", E'\\t' as \"a\tb\nc\", 2 as \"\\\\\"", nil, `"<>","","(",1,"\t",2`},
		{"select n from (select id, body from notes where id = 1) n", nil, `{"id":1,"body":"hers"}`},
		{"select body from notes natural join (select 1 as id) x", nil, `"hers"`},
		{"select count(*) from notes a join notes b using (id) as j", nil, "2"},
		{"select id from notes order by id for read only;;", nil, "1;2"},
		{"select nothing(), null::record, textout('x')", nil, `null,null,"x"`},
		{"select tablename, rowsecurity from pg_tables where tablename = 'notes'", nil, `"notes",true`},
		{"select null_frac from pg_stats where tablename = 'open_table' and attname = 'id'", nil, "0"},
		{"select policyname, cmd from pg_policies", nil, `"own","ALL"`},
		{"select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'notes'::regclass and contype = 'p'", nil, `"notes_pkey","PRIMARY KEY (id)"`},
		{"select", nil, ""},
		{"select pg_typeof(1), 'notes'::regclass, 1::oid", nil, `"integer","notes","1"`},
		{"select * from notes where false", nil, ""},
	}
	for _, c := range cases {
		t.Run(c.sql, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the second time the verdict is known
				res, err := w.runner.Run(t.Context(), w.query(c.sql, c.params...))
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(c.want, show(res)); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			}
		})
	}
}
