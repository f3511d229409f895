package readsql_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// attacks are statements that must not run, with what their refusal says.
var attacks = []struct{ sql, says string }{
	// Another role, or another user, by the settings of the session.
	{"select set_config('role', 'postgres', true), query_to_xml('select * from notes', true, true, '')", "set_config"},
	{"select set_config('request.jwt.claims', '{\"sub\":\"bob\"}', true), * from notes", "set_config(text,text,boolean) is not allowed"},
	{"select * from notes where set_config('request.jwt.claims', '{\"sub\":\"bob\"}', true) <> ''", "set_config"},
	{"with c as materialized (select set_config('request.jwt.claims', '{\"sub\":\"bob\"}', true)) select notes.* from c, notes", "set_config"},
	{"select pg_catalog . \"set_config\" ('role', 'none', true)", "set_config"},
	{`select U&"s\0065t_config"('role', 'none', true)`, "set_config"},
	{`select U&"!0073et_config" uescape '!' ('role', 'none', true)`, "set_config"},
	{"/* select */ select /* x */ set_config/**/('role', 'none', true)", "set_config"},
	{"-- a comment\nselect set_config('role', 'none', true)", "set_config"},
	{"select 1 limit length(set_config('role', 'none', true))", "set_config"},
	{"select 1 offset length(set_config('role', 'none', true))", "set_config"},
	{"values (set_config('role', 'none', true))", "set_config"},
	{"select 1 order by set_config('role', 'none', true)", "set_config"},
	{"select 1 group by set_config('role', 'none', true)", "set_config"},
	{"select distinct on (set_config('role', 'none', true)) 1", "set_config"},
	{"select count(*) from notes having set_config('role', 'none', true) = ''", "set_config"},
	{"select count(*) filter (where set_config('role', 'none', true) = '') from notes", "set_config"},
	{"select count(*) over (partition by set_config('role', 'none', true)) from notes", "set_config"},
	{"select sum(id) over w from notes window w as (order by set_config('role', 'none', true))", "set_config"},
	{"select sum(id) over (rows length(set_config('role', 'none', true)) preceding) from notes", "set_config"},
	{"select string_agg(body, ',' order by set_config('role', 'none', true)) from notes", "set_config"},
	{"select percentile_disc(0.5) within group (order by set_config('role', 'none', true)) from notes", "set_config"},
	{"select * from set_config('role', 'none', true)", "set_config"},
	{"select * from rows from (generate_series(1, 2), set_config('role', 'none', true)) with ordinality", "set_config"},
	{"select * from notes, lateral (select set_config('role', owner, true)) l", "set_config"},
	{"select * from notes left join open_table on set_config('role', 'none', true) = ''", "set_config"},
	{"select * from open_table tablesample system (length(set_config('role', 'none', true)))", "set_config"},
	{"select * from open_table tablesample system (10) repeatable (length(set_config('role', 'none', true)))", "set_config"},
	{"select case when true then set_config('role', 'none', true) end", "set_config"},
	{"select array[set_config('role', 'none', true)], row(set_config('role', 'none', true))", "set_config"},
	{"select (array[1])[length(set_config('role', 'none', true))]", "set_config"},
	{"select 'x' in (select set_config('role', 'none', true))", "set_config"},
	{"select 1 union all select length(set_config('role', 'none', true))", "set_config"},
	{"select coalesce(null, set_config('role', 'none', true)), greatest('', set_config('role', 'none', true))", "set_config"},
	{"select xmlelement(name x, set_config('role', 'none', true))", "set_config"},
	{"select * from xmltable('/r' passing (set_config('role', 'none', true)::xml) columns a int)", "set_config"},
	{"select * from xmltable('/r' passing '<r/>' columns a text default set_config('role', 'none', true))", "set_config"},
	{"select exists (select from notes where body = set_config('role', 'none', true))", "set_config"},
	{`select 1 as ":funcid", 'x :funcid 1 {FUNCEXPR :funcid 1}' as "} } )", set_config('role', 'none', true)`, "set_config"},
	{`select set_config('role', 'none', true) as ":location"`, "set_config"},
	{`select "x}"."\" from (select set_config('role', 'none', true)) as "x}"("\")`, "set_config"},
	{"set role none", "only one SELECT"},
	{"set local request.jwt.claims = '{}'", "only one SELECT"},
	{"reset role", "only one SELECT"},
	{"show role", "only one SELECT"},

	// SQL that is in a text.
	{"select query_to_xml('select * from notes', true, true, '')", "query_to_xml"},
	{"select query_to_xmlschema('select 1', true, true, '')", "query_to_xmlschema"},
	{"select cursor_to_xml('bough_rows', 1, true, true, '')", "cursor_to_xml"},
	{"select table_to_xml(('hidden.' || 'things')::regclass, true, true, '')", "table_to_xml"},
	{"select table_to_xml('hidden.things', true, true, '')", "the schema hidden is not exposed"},
	{"select schema_to_xml('hidden', true, true, '')", "schema_to_xml"},
	{"select database_to_xml(true, true, '')", "database_to_xml"},
	{"select * from ts_stat('select to_tsvector(set_config(''role'', ''none'', true))')", "ts_stat"},
	{"select ts_rewrite('a'::tsquery, 'select ''a''::tsquery, ''b''::tsquery')", "ts_rewrite"},
	{"select * from crosstab('select 1, 2, set_config(''role'', ''none'', true)') as c(a int, b text)", "crosstab"},
	{"select * from connectby('notes', 'id', 'id', '1', 0) as c(a int, b int, l int)", "connectby"},
	{"select * from dblink('dbname=postgres', 'select 1') as d(a int)", "dblink"},
	{"select dblink_exec('dbname=postgres', 'create table x()')", "dblink_exec"},
	{"select * from xpath_table('id', 'body', 'notes', '/', 'true') as x(a int, b text)", "xpath_table"},

	// More than one statement, and others than SELECT.
	{"select 1; select 2", "only one SELECT"},
	{"commit; drop table notes", "only one SELECT"},
	{"select 1; commit; drop table open_table; begin", "only one SELECT"},
	{"select 1; end; drop table open_table", "only one SELECT"},
	{"select 1; end", "only one SELECT"},
	{"select 1; end --", "only one SELECT"},
	{"select 1 /*", "comment"},
	{"select 'x", "string"},
	{"select $x$", "string"},
	{"select 1) as t; --", "syntax"},
	{"", "only one SELECT"},
	{";", "only one SELECT"},
	{"-- nothing", "only one SELECT"},
	{"return 1", "syntax"},
	{"do $$ begin execute 'drop table notes'; end $$", "only one SELECT"},
	{"begin", "only one SELECT"},
	{"commit", "only one SELECT"},
	{"rollback", "only one SELECT"},
	{"commit and chain", "only one SELECT"},
	{"set transaction read write", "only one SELECT"},
	{"prepare p as select 1", "only one SELECT"},
	{"deallocate all", "only one SELECT"},
	{"discard all", "only one SELECT"},
	{"close all", "only one SELECT"},
	{"declare d cursor with hold for select 1", "only one SELECT"},
	{"fetch all from bough_rows", "only one SELECT"},
	{"explain analyze delete from open_table", "only one SELECT"},
	{"explain select 1", "only one SELECT"},
	{"call p()", "does not exist"},
	{"lock table open_table", "only one SELECT"},
	{"listen bough_ddl", "only one SELECT"},
	{"notify bough_ddl", "only one SELECT"},
	{"vacuum", "only one SELECT"},
	{"copy open_table to program 'touch /tmp/bough_attack'", "only one SELECT"},
	{"copy open_table from '/etc/passwd'", "only one SELECT"},
	{"copy (select 1) to stdout", "only one SELECT"},
	{"load 'auto_explain'", "only one SELECT"},
	{"create table made as select 1", "only one SELECT"},
	{"create temp table made (id int)", "only one SELECT"},
	{"select 1 into made", "only one SELECT"},
	{"drop table open_table", "only one SELECT"},
	{"truncate open_table", "only one SELECT"},
	{"alter table open_table add x int", "only one SELECT"},
	{"grant all on notes to public", "only one SELECT"},
	{"refresh materialized view m", "only one SELECT"},
	{"insert into open_table values (2000, 'x')", "only one SELECT"},
	{"insert into open_table values (2000, 'x') returning *", "only one SELECT"},
	{"update open_table set name = 'x' returning *", "only one SELECT"},
	{"delete from open_table returning *", "only one SELECT"},
	{"merge into open_table using (select 1) s on true when matched then delete", "only one SELECT"},
	{"with d as (delete from open_table returning *) select * from d", "only one SELECT"},
	{"with d as (insert into open_table values (2000, 'x')) select 1", "only one SELECT"},
	{"with u as (update open_table set name = 'x') table notes", "only one SELECT"},
	{"select * from notes for update", "lock"},
	{"select * from open_table for key share", "lock"},
	{"select * from (select * from open_table for share) s", "lock"},
	{"with x as (select * from open_table for no key update skip locked) select 1", "lock"},

	// Files and large objects, locks, messages, sequences, other sessions.
	{"select pg_read_file('/etc/passwd')", "pg_read_file"},
	{"select pg_read_binary_file('/etc/passwd')", "pg_read_binary_file"},
	{"select * from pg_ls_dir('/')", "pg_ls_dir"},
	{"select * from pg_stat_file('/etc/passwd')", "pg_stat_file"},
	{"select * from pg_ls_logdir()", "pg_ls_logdir"},
	{"select lo_import('/etc/passwd')", "lo_import"},
	{"select lo_create(0)", "lo_create"},
	{"select lo_from_bytea(0, 'x')", "lo_from_bytea"},
	{"select lo_get(1)", "lo_get"},
	{"select lo_unlink(1)", "lo_unlink"},
	{"select nextval('counter')", "nextval"},
	{"select setval('counter', 100)", "setval"},
	{"select currval('counter')", "currval"},
	{"select lastval()", "lastval"},
	{"select pg_advisory_lock(1)", "pg_advisory_lock"},
	{"select pg_try_advisory_xact_lock(1)", "pg_try_advisory_xact_lock"},
	{"select pg_notify('bough_ddl', '')", "pg_notify"},
	{"select pg_sleep(1)", "pg_sleep"},
	{"select pg_terminate_backend(pg_backend_pid())", "pg_terminate_backend"},
	{"select pg_cancel_backend(1)", "pg_cancel_backend"},
	{"select pg_reload_conf()", "pg_reload_conf"},
	{"select pg_logical_emit_message(true, 'a', 'b')", "pg_logical_emit_message"},
	{"select pg_export_snapshot()", "pg_export_snapshot"},
	{"select pg_current_xact_id()", "pg_current_xact_id"},
	{"select txid_current()", "txid_current"},
	{"select setseed(0.5)", "setseed"},
	{"select pg_switch_wal()", "pg_switch_wal"},
	{"select pg_stat_reset()", "pg_stat_reset"},
	{"select pg_prepared_statement()", "pg_prepared_statement"},
	{"select * from pg_prepared_statements", "pg_prepared_statements"},
	{"select current_query()", "current_query"},

	// Secrets in settings.
	{"select current_setting('app.secret')", "current_setting"},
	{"select current_setting('app.' || 'secret', true)", "current_setting"},
	{"select current_setting(name) from (values ('app.secret')) v(name)", "current_setting"},
	{"select rolconfig from pg_roles", "is not shown here"},
	{"select * from pg_roles", "is not shown here"},
	{"select r from pg_roles r", "is not shown here"},
	{"select row_to_json(r) from pg_roles as r", "is not shown here"},
	{"select 1 from pg_roles as r (a, b, c, d, e, f, g, h, i, j, k, l) where l is not null", "is not shown here"},
	{"select oid from pg_roles where rolconfig::text like '%secret%'", "is not shown here"},
	{"select * from pg_db_role_setting", "pg_db_role_setting"},
	{"select useconfig from pg_user", "is not shown here"},
	{"select prosrc from pg_proc where proname = 'trick'", "pg_proc.prosrc"},
	{"select pg_get_functiondef('trick'::regproc)", ""},
	{"select pg_get_functiondef(oid) from pg_proc", "pg_get_functiondef"},
	{"select pg_get_triggerdef(oid) from pg_trigger", "pg_get_triggerdef"},
	{"with t as (select tgargs from pg_trigger) select count(*) from t", "pg_trigger.tgargs"},
	{"select most_common_vals, histogram_bounds from pg_stats where schemaname = 'hidden'", "pg_stats."},
	{"select umoptions from pg_user_mappings", "is not shown here"},
	{"select srvoptions from pg_foreign_server", "is not shown here"},
	{"select * from information_schema.user_mapping_options", "is not shown here"},

	// What is not exposed, or not the caller's.
	{"select * from closed", "permission denied"},
	{"select * from hidden.things", "the schema hidden is not exposed"},
	{"select 1 where exists (select from hidden.things)", "the schema hidden is not exposed"},
	{"select hidden.peek()", "the schema hidden is not exposed"},
	{"select rolpassword from pg_authid", "is not shown here"},
	{"select usename from pg_shadow", "is not shown here"},
	{"select tgargs from pg_trigger", "pg_trigger.tgargs is not shown"},
	{"select * from information_schema.triggers", "is not shown"},
	{"select action_statement from information_schema.triggers", "triggers.action_statement is not shown"},
	{"select routine_definition from information_schema.routines", "routines.routine_definition is not shown"},
	{"select view_definition from information_schema.views", "views.view_definition is not shown"},
	{"select definition from pg_views", "pg_views.definition is not shown"},
	{"select pg_get_viewdef('all_notes'::regclass)", "pg_get_viewdef(oid) is not allowed"},
	{"select pg_get_triggerdef(oid) from pg_trigger", "pg_get_triggerdef(oid) is not allowed"},
	{"select pg_get_functiondef('twice'::regproc)", "pg_get_functiondef(oid) is not allowed"},
	{"select ev_action from pg_rewrite", "pg_rewrite.ev_action is not shown"},
	{"select ftoptions from pg_foreign_table", "pg_foreign_table.ftoptions is not shown"},
	{"select attfdwoptions from pg_attribute", "pg_attribute.attfdwoptions is not shown"},
	{"select a from pg_attribute a", "pg_attribute.attfdwoptions is not shown"},
	{"select attmissingval from pg_attribute", "pg_attribute.attmissingval is not shown"},
	{"select * from information_schema.column_options", "column_options is not shown"},
	{"select * from information_schema.foreign_table_options", "foreign_table_options is not shown"},
	{"select polqual from pg_policy", "pg_policy.polqual is not shown"},
	{"select query from pg_stat_activity", "pg_stat_activity is not shown"},
	{"select pg_stat_get_backend_activity(1)", "is not allowed"},
	{"select most_common_vals from pg_stats", "pg_stats.most_common_vals is not shown"},
	{"select stavalues1 from pg_statistic", "is not shown"},
	{"select setting from pg_settings where name like 'app.%'", "pg_settings is not shown"},
	{"select datname from pg_database", "pg_database is not shown"},
	{"select datname from pg_stat_database", "pg_stat_database is not shown"},
	{"select pg_database_size('postgres')", "pg_database_size(name) is not allowed"},
	{"select has_database_privilege('bough_branch', 'connect')", "has_database_privilege(text,text) is not allowed"},
	{"select pg_describe_object('pg_database'::regclass, 1, 0)", "is not allowed"},
	{"select pg_identify_object('pg_authid'::regclass, 10, 0)", "is not allowed"},
	{"select shobj_description(1, 'pg_database')", "is not allowed"},
	{"select pg_get_userbyid(10)", "is not allowed"},
	{"select oid::regrole from generate_series(10, 20) oid", "names of roles are not shown"},
	{"select (oid::oid::regrole)::text from generate_series(10, 20) oid", "names of roles are not shown"},
	{"select array['10'::regrole]", ""},
	{"select to_regrole('reader')", ""},
	{"select rolname from pg_roles", "pg_roles is not shown"},
	{"select * from pg_auth_members", "is not shown"},
	{"select * from pg_stat_statements", "belongs to the extension pg_stat_statements"},
	{"select * from pg_toast.pg_toast_1255", "permission denied"},
	{"select * from missing", "does not exist"},

	// Functions of the user's that are volatile, called by what looks harmless.
	{"select dangerous()", "dangerous() is not allowed"},
	{"select 1 <=== 2", "trick(integer,integer)"},
	{"select 1 operator(public.<===) any (array[2])", "trick(integer,integer)"},
	{"select row(1) operator(public.<===) row(2)", ""},
	{"select collect(id) from open_table", "collecting(integer,integer)"},
	{"select collect(id) over () from open_table", "collecting(integer,integer)"},
	{"select open_table::text from open_table", "casting"},
	{"select o.casting from open_table o", "casting"},
	{"select * from touched", "read-only"},
}

func TestStatementsThatDoMoreThanReadAreRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.exec(t, "create schema ext", "grant usage on schema ext to reader", "create extension tablefunc", "create extension dblink", "create extension xml2", "create extension pg_stat_statements", "alter database "+w.name+" set app.secret = 'key'")
	state := `select concat_ws(' ', (select md5(string_agg(n::text, ',' order by id)) from notes n), (select md5(string_agg(concat(id, name), ',' order by id)) from open_table o),
		(select last_value from counter), (select count(*) from pg_class), (select count(*) from pg_proc), (select count(*) from pg_largeobject_metadata),
		(select count(*) from pg_locks where locktype = 'advisory'), (select count(*) from pg_listening_channels()))`
	before := w.value(t, state)
	runner := w.run(t, w.url)
	for _, a := range attacks {
		for range 2 {
			res, err := runner.Run(t.Context(), w.query(a.sql))
			if err == nil {
				t.Errorf("%s: ran and gave %s", a.sql, show(res))
				continue
			}
			t.Run(a.sql, func(t *testing.T) { refused(t, err, a.says) })
		}
		if _, err := runner.Explain(t.Context(), w.query(a.sql), true); err == nil {
			t.Errorf("%s: was explained", a.sql)
		}
	}
	if d := cmp.Diff(before, w.value(t, state)); d != "" {
		t.Errorf("the attacks changed something (-want +got):\n%s", d)
	}
	res, err := runner.Run(t.Context(), w.query("select id, auth.uid(), current_user, current_setting('transaction_read_only') from notes order by id"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(`1,"ann","reader","on";2,"ann","reader","on"`, show(res)); d != "" {
		t.Errorf("after the attacks (-want +got):\n%s", d)
	}
}

// What runs is what was judged: a view, a policy or a function is the owner's, and she is trusted, but not the text.
func TestNamesMeanTheSameForJudgeAndCaller(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ctx := context.Background()
	// For the connection's own role, first.f comes first; the caller may not use that schema, so that public.f is hers.
	w.exec(t, "create schema first", "create function first.f() returns int immutable language sql as 'select 1'",
		"create function f() returns int language plpgsql as $$ begin perform set_config('bough.seen', 'yes', false); return 2; end $$",
		"alter database "+w.name+" set search_path = first, public")
	runner := w.run(t, w.url)
	_, err := runner.Run(ctx, w.query("select f()"))
	refused(t, err, "f() is not allowed in a query: it is volatile")
	_, err = runner.Run(ctx, w.query("select first.f()"))
	refused(t, err, "permission denied for schema first")
	// An overload that fits better than PostgreSQL's own function is what the caller's name means, too.
	w.exec(t, "create function lower(int) returns text language plpgsql as $$ begin return set_config('role', 'none', true); end $$")
	_, err = runner.Run(ctx, w.query("select lower(1)"))
	refused(t, err, "lower(integer) is not allowed")
}
