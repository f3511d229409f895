package httpapi_test

import "testing"

// toolCases has a case for each tool.
var toolCases = map[string]*toolCase{
	"get_database_overview": {
		scopes: "read:schema",
		works:  []step{{`{}`, `{"branch": "main", "role": "authenticated", "extensions": [], "tables_with_rls": 1, "schemas": [{"name": "public", "tables": 2, "functions": 2}]}`}},
		bad:    []wrong{{`{"schema": "x"}`, "schema"}, {`{"branch": 1}`, "branch"}},
		branch: step{`{"branch": "lab"}`, `{"branch": "lab", "schemas": [{"name": "public", "tables": 3, "functions": 3}]}`},
	},
	"list_tables": {
		scopes: "read:schema",
		works:  []step{{`{"search": "notes"}`, `{"schema": "public", "tables": [{"name": "notes", "kind": "table", "rls": "on", "comment": "What people write down."}], "total": 1}`}},
		bad:    []wrong{{`{"limit": 0}`, "limit"}, {`{"schema": 1}`, "schema"}, {`{"cursor": "?"}`, "cursor"}},
		branch: step{`{"branch": "lab", "search": "only"}`, `{"tables": [{"name": "only_lab"}]}`},
	},
	"describe_table": {
		scopes: "read:schema",
		works: []step{{`{"table": "notes"}`, `{
			"name": "notes", "primary_key": ["id"], "rls": "on", "privileges": ["select", "insert", "update", "delete"],
			"columns": [{"name": "id", "type": "integer", "nullable": false}, {"name": "owner", "default": "auth.uid()"}, {"name": "body"}, {"name": "words"}],
			"indexes": ["CREATE UNIQUE INDEX notes_pkey ON public.notes USING btree (id)…", "CREATE INDEX notes_owner_idx…"],
			"policies": ["own for all to public using ((owner = auth.uid()))…"]}`}},
		bad:    []wrong{{`{}`, "table"}, {`{"table": "note"}`, "note"}, {`{"table": "pg_catalog.pg_authid"}`, "pg_authid"}},
		branch: step{`{"table": "only_lab", "branch": "lab"}`, `{"name": "only_lab", "columns": [{"name": "id"}], "privileges": ["select"]}`},
	},
	"search_schema": {
		scopes: "read:schema",
		works:  []step{{`{"query": "write down"}`, `{"matches": [{"kind": "table", "name": "notes", "comment": "What people write down."}], "total": 1}`}},
		bad:    []wrong{{`{}`, "query"}, {`{"query": ""}`, "query"}, {`{"query": "x", "limit": 1000000}`, "limit"}},
		branch: step{`{"query": "only_lab", "branch": "lab"}`, `{"matches": [{"kind": "table", "name": "only_lab"}], "total": 1}`},
	},
	"get_advisors": {
		scopes: "read:schema",
		works:  []step{{`{"kind": "security"}`, `{"findings": [{"code": "rls_disabled", "object": "public.open", "level": "error"}], "total": 1}`}},
		bad:    []wrong{{`{"kind": "beauty"}`, "kind"}},
		branch: step{`{"kind": "performance", "branch": "lab"}`, `{"findings": [{"code": "policy_calls_per_row", "object": "public.notes"}], "total": 1}`},
	},
	"list_slow_queries": {
		scopes: "read:schema", admin: true, // it works in TestMCPSlowQueries
		bad: []wrong{{`{"order": "random"}`, "order"}, {`{"limit": 0}`, "limit"}, {`{}`, "pg_stat_statements"}, {`{"branch": "nowhere"}`, "branch_not_found"}},
	},
	"query_table": {
		scopes: "read:tables",
		works: []step{
			{
				`{"table": "notes", "filters": [{"column": "id", "op": "in", "value": [1, 2, 11]}], "order": [{"column": "id"}], "select": ["id", "body"]}`,
				`{"rows": [{"id": 1, "body": "tea"}, {"id": 2, "body": "more tea"}], "truncated": false}`,
			},
			{`{"table": "notes", "order": [{"column": "id"}], "limit": 1}`, `{"rows": [{"id": 1}], "truncated": true, "next_offset": 1}`},
		},
		bad: []wrong{
			{`{}`, "table"},
			{`{"table": "nots"}`, "nots"},
			{`{"table": "notes", "limit": 201}`, "limit"},
			{`{"table": "notes", "select": ["bodi"]}`, "bodi"},
			{`{"table": "notes", "filters": [{"column": "id", "op": "near", "value": 1}]}`, "op"},
			{`{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": "x"}]}`, "id"},
			{`{"table": "pg_catalog.pg_authid"}`, "pg_authid"},
			{`{"table": "notes", "where": "true"}`, "where"},
		},
		others: []step{{`{"table": "notes", "filters": [{"column": "owner", "op": "neq", "value": "ADA"}]}`, `{"rows": []}`}},
		branch: step{`{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 1}], "branch": "lab"}`, `{"rows": [{"id": 1, "body": "lab tea", "mood": "lab mood"}]}`},
	},
	"get_record": {
		scopes:  "read:tables",
		works:   []step{{`{"table": "notes", "id": 1}`, `{"record": {"id": 1, "body": "tea", "owner": "ADA"}}`}},
		bad:     []wrong{{`{"table": "notes"}`, "id"}, {`{"table": "notes", "id": {}}`, "id"}, {`{"table": "notes", "id": 999}`, "no"}, {`{"table": "notes", "id": [1, 2]}`, "id"}},
		refused: []wrong{{`{"table": "notes", "id": 11}`, "no"}},
		branch:  step{`{"table": "notes", "id": "2", "branch": "lab"}`, `{"record": {"id": 2, "body": "lab more tea", "mood": "lab mood"}}`},
	},
	"aggregate_table": {
		scopes: "read:tables",
		works: []step{{
			`{"table": "notes", "aggregates": [{"fn": "count"}, {"fn": "sum", "column": "words"}], "group_by": ["owner"], "filters": [{"column": "id", "op": "lte", "value": 2}]}`,
			`{"rows": [{"owner": "ADA", "count": 2, "sum_words": 3}]}`,
		}},
		bad:    []wrong{{`{"table": "notes"}`, "aggregates"}, {`{"table": "notes", "aggregates": []}`, "aggregates"}, {`{"table": "notes", "aggregates": [{"fn": "sum"}]}`, "aggregates"}, {`{"table": "notes", "aggregates": [{"fn": "median", "column": "id"}]}`, "fn"}},
		others: []step{{`{"table": "notes", "aggregates": [{"fn": "count"}, {"fn": "max", "column": "words"}], "filters": [{"column": "id", "op": "gte", "value": 11}]}`, `{"rows": [{"count": 0, "max_words": null}]}`}},
		branch: step{`{"table": "notes", "aggregates": [{"fn": "count"}], "group_by": ["mood"], "filters": [{"column": "id", "op": "lte", "value": 2}], "branch": "lab"}`, `{"rows": [{"mood": "lab mood", "count": 2}]}`},
	},
	"run_sql_query": {
		scopes: "read:tables",
		works: []step{
			{`{"sql": "select body, count(*) over () from notes where id <= $1 order by id", "params": [2]}`, `{"columns": [{"name": "body", "type": "text"}, {"name": "count", "type": "bigint"}], "rows": [["tea", 2], ["more tea", 2]]}`},
			{`{"sql": "select n from generate_series(1, 10) n", "limit": 2}`, `{"rows": [[1], [2]], "truncated": true}`},
		},
		bad:    []wrong{{`{}`, "sql"}, {`{"sql": ""}`, "sql"}, {`{"sql": "select 1", "limit": 1001}`, "limit"}, {`{"sql": "select bodi from notes"}`, "bodi"}, {`{"sql": "select $1::int", "params": ["x"]}`, "integer"}, {`{"sql": "select $1", "params": []}`, "param"}},
		others: []step{{`{"sql": "select * from notes where owner <> auth.uid() or id in (11, 12)"}`, `{"rows": []}`}},
		branch: step{`{"sql": "select body, mood from notes where id = 1", "branch": "lab"}`, `{"rows": [["lab tea", "lab mood"]]}`},
	},
	"explain_query": {
		scopes: "read:tables",
		works: []step{
			{`{"sql": "select * from open"}`, `{"plan": [{"Plan": {"Relation Name": "open", "Actual Rows": null}, "Execution Time": null}]}`},
			{`{"sql": "select * from notes where id = $1", "params": [1], "analyze": true}`, `{"plan": [{"Plan": {"Relation Name": "notes", "Actual Rows": 1}}]}`},
		},
		bad: []wrong{{`{}`, "sql"}, {`{"sql": "select nothing from notes"}`, "nothing"}, {`{"sql": "select 1", "analyze": "yes"}`, "analyze"}, {`{"sql": "explain select 1"}`, "SELECT"}},
		// How many rows were kept from her is nothing that she may count.
		others: []step{{`{"sql": "select * from notes where id = 11", "analyze": true}`, `{"plan": [{"Plan": {"Actual Rows": 0, "Rows Removed by Filter": null, "Shared Hit Blocks": null}}]}`}},
		branch: step{`{"sql": "select id from only_lab", "branch": "lab"}`, `{"plan": [{"Plan": {"Relation Name": "only_lab"}}]}`},
	},
	"insert_records": {
		scopes: "write:tables",
		works: []step{
			{`{"table": "notes", "records": [{"id": 100, "body": "new"}, {"id": 101, "body": "newer"}], "returning": ["id", "owner"]}`, `{"written": 2, "rows": [{"id": 100, "owner": "ADA"}, {"id": 101, "owner": "ADA"}]}`},
			{`{"table": "notes", "records": [{"id": 101, "body": "newest"}], "on_conflict": {"action": "update"}}`, `{"written": 1}`},
			{`{"table": "notes", "records": [{"id": 101, "body": "ignored"}], "on_conflict": {"action": "ignore"}}`, `{"written": 0}`},
		},
		after: "select string_agg(body, ' ' order by id) = 'new newest' from notes where id in (100, 101)",
		bad: []wrong{
			{`{"table": "notes"}`, "records"},
			{`{"table": "notes", "records": []}`, "records"},
			{`{"table": "notes", "records": [{"id": 5, "bodi": "x"}]}`, "bodi"},
			{`{"table": "notes", "records": [{"id": 5, "body": "x"}, {"id": "y", "body": "x"}]}`, "y"},
			{`{"table": "notes", "records": [{"id": 1, "body": "x"}]}`, "Code: 23505"},
			{`{"table": "notes", "records": [{"id": 5, "body": "x"}], "on_conflict": {"action": "replace"}}`, "action"},
		},
		refused: []wrong{
			{`{"table": "notes", "records": [{"id": 5, "body": "x", "owner": "EVE"}]}`, "row-level security"},
			{`{"table": "notes", "records": [{"id": 11, "body": "x"}], "on_conflict": {"action": "update"}}`, "row-level security"},
		},
		branch: step{`{"table": "notes", "records": [{"id": 102, "body": "on lab", "mood": "new"}], "returning": ["mood"], "branch": "lab"}`, `{"written": 1, "rows": [{"mood": "new"}]}`},
	},
	"update_records": {
		scopes: "write:tables",
		works: []step{
			{`{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 3}], "values": {"body": "x"}, "dry_run": true}`, `{"affected": 1, "dry_run": true, "sample": [{"id": 3, "body": "to be changed"}]}`},
			{`{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 3}], "values": {"body": "changed"}}`, `{"affected": 1, "dry_run": false}`},
		},
		after: "select body = 'changed' from notes where id = 3",
		bad: []wrong{
			{`{"table": "notes", "values": {"body": "x"}}`, "filters"},
			{`{"table": "notes", "filters": [], "values": {"body": "x"}}`, "filters"},
			{`{"table": "notes", "filters": [{"column": "id", "op": "gt", "value": 0}], "values": {}}`, "values"},
			{`{"table": "notes", "filters": [{"column": "id", "op": "gt", "value": 0}], "values": {"bodi": "x"}}`, "bodi"},
			{`{"table": "notes", "filters": [{"column": "id", "op": "gt", "value": 0}], "values": {"body": "x"}, "max_rows": 1}`, "max_rows"},
		},
		others:  []step{{`{"table": "notes", "filters": [{"column": "owner", "op": "eq", "value": "EVE"}], "values": {"body": "x"}}`, `{"affected": 0}`}},
		refused: []wrong{{`{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 1}], "values": {"owner": "EVE"}}`, "row-level security"}},
		branch:  step{`{"table": "notes", "filters": [{"column": "mood", "op": "eq", "value": "lab mood"}, {"column": "id", "op": "eq", "value": 1}], "values": {"mood": "changed"}, "branch": "lab"}`, `{"affected": 1}`},
	},
	"delete_records": {
		scopes: "write:tables",
		works:  []step{{`{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 4}], "dry_run": true}`, `{"affected": 1, "dry_run": true}`}, {`{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 4}]}`, `{"affected": 1}`}},
		after:  "select count(*) = 0 from notes where id = 4",
		bad:    []wrong{{`{"table": "notes"}`, "filters"}, {`{"table": "notes", "filters": []}`, "filters"}, {`{"table": "notes", "filters": [{"column": "id", "op": "gt", "value": 0}], "max_rows": 1}`, "max_rows"}, {`{"table": "notes", "filters": [{"column": "idd", "op": "gt", "value": 0}]}`, "idd"}},
		others: []step{{`{"table": "notes", "filters": [{"column": "id", "op": "gte", "value": 11}, {"column": "id", "op": "lte", "value": 12}]}`, `{"affected": 0}`}},
		branch: step{`{"table": "notes", "filters": [{"column": "id", "op": "eq", "value": 3}], "branch": "lab"}`, `{"affected": 1}`},
	},
	"list_procedures": {
		scopes: "execute:rpc",
		works:  []step{{`{"search": "jot"}`, `{"procedures": [{"name": "jot", "volatility": "volatile", "arguments": [{"name": "id", "type": "integer"}, {"name": "body", "type": "text"}]}]}`}},
		bad:    []wrong{{`{"search": 1}`, "search"}},
		branch: step{`{"search": "only_on_lab", "branch": "lab"}`, `{"procedures": [{"name": "only_on_lab"}]}`},
	},
	"call_procedure": {
		scopes:  "execute:rpc",
		works:   []step{{`{"name": "jot", "args": {"id": 110, "body": "by procedure"}}`, `{"result": 110}`}},
		after:   "select owner is not null and body = 'by procedure' from notes where id = 110",
		bad:     []wrong{{`{}`, "name"}, {`{"name": "jott"}`, "jott"}, {`{"name": "jot", "args": {"id": 5}}`, "jot"}, {`{"name": "jot", "args": {"id": 5, "body": "x", "more": 1}}`, "more"}, {`{"name": "jot", "args": []}`, "args"}},
		others:  []step{{`{"name": "bodies"}`, `{"result": ["tea", "more tea", "to be changed", "to be deleted"]}`}},
		refused: []wrong{{`{"name": "jot", "args": {"id": 11, "body": "x"}}`, "Code: 23505"}},
		branch:  step{`{"name": "only_on_lab", "branch": "lab"}`, `{"result": 1}`},
	},
	"list_branches": {
		scopes: "read:branches",
		works:  []step{{`{}`, `{"branches": [{"slug": "lab", "status": "ready", "parent": "main"}], "total": 1}`}},
		bad:    []wrong{{`{"status": "asleep"}`, "status"}, {`{"limit": 0}`, "limit"}, {`{"type": "x"}`, "type"}},
	},
	"get_branch": {
		scopes: "read:branches",
		works:  []step{{`{"branch": "lab"}`, `{"slug": "lab", "status": "ready", "data_clone_mode": "full_clone", "parent": "main"}`}},
		bad:    []wrong{{`{}`, "branch"}, {`{"branch": 1}`, "branch"}},
		branch: step{`{"branch": "lab"}`, `{"slug": "lab"}`},
	},
	"compare_branch_schema": {
		scopes: "read:branches read:schema",
		works:  []step{{`{"branch": "lab"}`, `{"branch": "lab", "base": "main", "identical": false, "removed": [], "changed": ["table public.notes"]}`}},
		bad:    []wrong{{`{}`, "branch"}, {`{"branch": "lab", "base": "lab"}`, "base"}, {`{"branch": "lab", "base": 1}`, "base"}},
		branch: step{`{"branch": "lab"}`, `{"branch": "lab"}`},
	},
	"create_branch": {
		scopes: "write:branches", admin: true,
		works: []step{{`{"name": "Made by a tool", "data_clone_mode": "full_clone", "expires_in": "1h"}`, `{"branch": "made-by-a-tool", "status": "ready", "ready": true}`}},
		bad:   []wrong{{`{}`, "name"}, {`{"name": "lab"}`, "lab"}, {`{"name": "x", "expires_in": "soon"}`, "expires_in"}, {`{"name": "x", "data_clone_mode": "half"}`, "data_clone_mode"}, {`{"name": "x", "from": "nowhere"}`, "branch_not_found"}},
	},
	"reset_branch": {
		scopes: "write:branches", admin: true,
		prepare: func(t *testing.T, w *toolWorld) { create(t, w.s.Service(t), full("spoilt")) },
		works:   []step{{`{"branch": "spoilt", "confirm": "spoilt"}`, `{"branch": "spoilt", "ready": true}`}},
		bad:     []wrong{{`{"confirm": "lab"}`, "branch"}, {`{"branch": "lab"}`, "confirm"}, {`{"branch": "lab", "confirm": "main"}`, "confirm"}, {`{"branch": "main", "confirm": "main"}`, "main"}},
	},
	"delete_branch": {
		scopes: "write:branches", admin: true,
		prepare: func(t *testing.T, w *toolWorld) { create(t, w.s.Service(t), full("old")) },
		works:   []step{{`{"branch": "old", "confirm": "old"}`, `{"branch": "old", "deleted": true}`}},
		bad:     []wrong{{`{"confirm": "lab"}`, "branch"}, {`{"branch": "lab"}`, "confirm"}, {`{"branch": "lab", "confirm": "Lab"}`, "confirm"}, {`{"branch": "main", "confirm": "main"}`, "main"}},
	},
	"apply_migration": {
		scopes: "write:schema", admin: true,
		bad: []wrong{
			{`{"name": "x", "branch": "lab"}`, "sql"},
			{`{"sql": "select 1", "branch": "lab"}`, "name"},
			{`{"name": "x", "sql": "", "branch": "lab"}`, "sql"},
			{`{"name": "x", "sql": "create table made (); commit", "branch": "lab"}`, "commit"},
			{`{"name": "x", "sql": "create table made (); select nothing from notes", "branch": "lab"}`, "nothing"},
			{`{"name": "x", "sql": "create table made ()"}`, "main"},
			{`{"name": "x", "sql": "create table made ()", "branch": "main", "confirm": "main"}`, "main"},
		},
		branch: step{`{"name": "add_made", "sql": "create table made (id int primary key); insert into made values (1)", "branch": "lab"}`, `{"branch": "lab", "statements": 2, "added": ["table public.made"], "removed": [], "changed": []}`},
	},
}
