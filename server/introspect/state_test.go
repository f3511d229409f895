package introspect_test

import (
	"testing"

	"github.com/boughdb/bough/server/introspect"
)

func TestWhichStatementsLeaveStateBehind(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create schema auth;
		create function auth.uid() returns text stable language sql as $$ select current_setting('request.jwt.claims', true) $$;
		create schema hidden;
		create function hidden.leave() returns boolean volatile language sql as $$ select set_config('a.b', 'c', false) is not null $$;
		create function hidden.member() returns boolean stable language plpgsql as $$ begin return true; end $$;
		create function hidden.same(int) returns int immutable language sql as $$ select $1 $$;
		create function hidden.touch() returns trigger language plpgsql as $$ begin return new; end $$;

		create table plain (id bigserial primary key, n int default 1 check (hidden.same(n) > 0), at timestamptz default now());
		create table own (id int primary key, owner text);
		alter table own enable row level security;
		create policy p on own using (owner = auth.uid());
		create table guarded (id int primary key);
		alter table guarded enable row level security;
		create policy p on guarded using (hidden.member());
		create table builtin (id int primary key);
		create policy p on builtin for select using (set_config('a.b', 'c', false) is not null);
		create table write_guarded (id int primary key);
		create policy p on write_guarded for insert with check (hidden.member());
		create table asks_guarded (id int primary key);
		create policy p on asks_guarded using (exists (select from guarded));
		create table touched (id int primary key);
		create trigger t before update on touched for each row execute function hidden.touch();
		create table parent (id int primary key);
		create table child (id int primary key references parent on delete cascade);
		create trigger t before delete on child for each row execute function hidden.touch();
		create table restricted (id int primary key);
		create table restricted_child (id int primary key references restricted);
		create trigger t before delete on restricted_child for each row execute function hidden.touch();
		create table defaulted (id int, ok boolean default hidden.member());
		create table checked (id int check (hidden.member()));
		create table divided (id int) partition by list (id);
		create table part partition of divided for values in (1);
		create trigger t before insert on part for each row execute function hidden.touch();
		create view calm as select * from plain;
		create view volatile_view as select id, hidden.leave() from plain;
		create view locking_view as select id, pg_try_advisory_lock(id) from plain;
		create view over_view as select id from volatile_view;
		create view over_touched as select * from touched;
		create view over_guarded as select * from guarded;
		create function rpc() returns int immutable language sql as 'select 1';
		create function label(plain) returns text stable language sql as 'select $1.n::text';
		create table "odd ""name" (id int);
		`, introspect.Options{Schemas: []string{"public"}, Roles: []string{"anon"}})
	for _, c := range []struct {
		sql            string
		reading, write bool
	}{
		{`select t."id" from "public"."plain" t`, false, false},
		{`select t."id" from "public"."own" t`, false, false},
		{`select t."id" from "public"."calm" t`, false, false},
		{`select t."id" from "public"."restricted" t`, false, false},
		{`select t."id" from "public"."guarded" t`, true, true},
		{`select t."id" from "public"."builtin" t`, true, true},
		{`select t."id" from "public"."write_guarded" t`, false, true},
		{`select t."id" from "public"."asks_guarded" t`, true, true},
		{`select t."id" from "public"."touched" t`, false, true},
		{`select t."id" from "public"."parent" t`, false, true},
		{`select t."id" from "public"."defaulted" t`, false, true},
		{`select t."id" from "public"."checked" t`, false, true},
		{`select t."id" from "public"."divided" t`, false, true},
		{`select t."id" from "public"."volatile_view" t`, true, true},
		{`select t."id" from "public"."locking_view" t`, true, true},
		{`select t."id" from "public"."over_view" t`, true, true},
		{`select t."id" from "public"."over_touched" t`, false, true},
		{`select t."id" from "public"."over_guarded" t`, true, true},
		{`select t."id" from "public"."plain" t left join "public"."guarded" g on true`, true, true},
		{`select r.v from "public"."rpc"() as r(v)`, true, true},
		{`select "public"."label"(t) from "public"."plain" t`, true, true},
		{`select t."id" from "public"."odd ""name" t`, true, true},
	} {
		if got := s.LeavesState(c.sql, false); got != c.reading {
			t.Errorf("reading %s: got %v, want %v", c.sql, got, c.reading)
		}
		if got := s.LeavesState(c.sql, true); got != c.write {
			t.Errorf("writing %s: got %v, want %v", c.sql, got, c.write)
		}
	}
}

func BenchmarkLeavesState(b *testing.B) {
	s := load(b, `create table plain (id int, a int, b int); create function f() returns int language sql as 'select 1'`,
		introspect.Options{Schemas: []string{"public"}})
	const sql = `select t."id", t."a", t."b" from "public"."plain" t where t."id" = $1 order by t."id" limit 50`
	for b.Loop() {
		if s.LeavesState(sql, false) {
			b.Fatal("it leaves nothing")
		}
	}
}
