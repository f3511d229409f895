package fidelity

import (
	"fmt"
	"strings"
)

// Generate returns a script that creates a schema of n tables as applications have them: with keys, foreign keys,
// indexes and checks, identity columns and serial ones, and for some of them views, functions, triggers, policies,
// privileges, comments and partitions. Equal n give equal scripts.
func Generate(n int) string {
	var b strings.Builder
	for s := range 5 {
		fmt.Fprintf(&b, "create schema part%d;\n", s)
	}
	b.WriteString("create type part0.state as enum ('new', 'open', 'closed');\n" +
		"create domain part0.amount as numeric(12,2) check (value >= 0);\n" +
		"create function part0.touch() returns trigger language plpgsql as 'begin new.changed := now(); return new; end';\n")
	name := func(i int) string { return fmt.Sprintf("part%d.t%04d", i%5, i) }
	for i := range n {
		t := name(i)
		key := "bigint generated always as identity primary key"
		if i%3 == 0 {
			key = "serial primary key"
		}
		fmt.Fprintf(&b, `
create table %s (
	id %s,
	parent bigint,
	name varchar(100) not null,
	state varchar(20) not null default 'new' check (state in ('new', 'open', 'closed')),
	kind part0.state default 'new',
	price part0.amount,
	data jsonb not null default '{}',
	tags text[],
	created timestamptz not null default now(),
	changed timestamptz,
	doubled numeric generated always as (price * 2) stored,
	constraint t%04[3]d_name unique (name, created),
	check (changed is null or changed >= created)
);
create index on %[1]s (parent);
create index on %[1]s using gin (data);
create index on %[1]s (lower(name)) where state in ('new', 'open');
comment on table %[1]s is 'table number %[3]d';
comment on column %[1]s.name is 'what it''s called';
`, t, key, i)
		if i > 0 {
			fmt.Fprintf(&b, "alter table %s add constraint t%04d_fk foreign key (parent) references %s;\n", t, i, name(i/2))
		}
		if i%3 == 0 {
			fmt.Fprintf(&b, "create view %s_open as select t.id, t.name, t.price, p.name as parent from %[1]s t left join %s p on p.id = t.parent where t.state in ('open');\n", t, name(i/2))
			fmt.Fprintf(&b, "create function %s_count(text) returns bigint stable language sql as 'select count(*) from %[1]s where name = $1';\n", t)
		}
		if i%6 == 0 {
			fmt.Fprintf(&b, "create view %s_sum as select parent, sum(price) as total from %[1]s_open group by parent;\n", t)
		}
		if i%5 == 0 {
			fmt.Fprintf(&b, "create trigger touch before update on %s for each row execute function part0.touch();\n", t)
		}
		if i%7 == 0 {
			fmt.Fprintf(&b, "alter table %s enable row level security;\ncreate policy own on %[1]s using (name = current_user);\n", t)
			fmt.Fprintf(&b, "grant select, update (name) on %s to public;\n", t)
		}
		if i%50 == 0 {
			fmt.Fprintf(&b, "create table %s_log (at date not null, note text, t bigint references %[1]s) partition by range (at);\n", t)
			fmt.Fprintf(&b, "create index on %s_log (note);\n", t)
			for y := range 3 {
				fmt.Fprintf(&b, "create table %s_log_%d partition of %[1]s_log for values from ('%[2]d-01-01') to ('%[3]d-01-01');\n", t, 2020+y, 2021+y)
			}
		}
	}
	return b.String()
}
