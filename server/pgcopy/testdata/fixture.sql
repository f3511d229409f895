-- A database with something of everything that both schema readers can copy,
-- on every supported version. The roles pgcopy_alice and pgcopy_bob exist.
-- The one who executes it is the owner and a superuser.

create schema "Odd ""Schema"".with dots";
create schema app;
create schema secret authorization pgcopy_alice;
comment on schema app is 'it''s the application';
comment on schema public is 'nothing special';
grant usage on schema app to pgcopy_bob, pgcopy_alice with grant option;
revoke usage on schema public from public;
grant create on schema public to pgcopy_bob;

create extension citext with schema app;
create extension pg_trgm with schema public;
create extension postgres_fdw;
comment on extension citext is 'letters large or small';
revoke execute on function public.similarity(text, text) from public;
grant execute on function public.similarity(text, text) to pgcopy_bob;
revoke execute on function pg_catalog.pg_sleep(double precision) from public;

-- types
create type app.mood as enum ('sad', 'it''s ok', 'glücklich');
alter type app.mood add value 'between' before 'glücklich';
create type app.point3 as (x double precision, y double precision, z app.mood, "last One" text collate "C");
comment on column app.point3.x is 'horizontal';
comment on type app.point3 is 'somewhere';
create domain app.email as text collate "C" default 'nobody@example.org'
	constraint has_at check (value like '%@%') constraint "Not Long" check (length(value) < 100);
comment on constraint has_at on domain app.email is 'a weak test';
create domain app.positive as int not null check (value > 0);
alter domain app.positive add constraint small check (value < 1000000) not valid;
create domain app.mails as app.email[];
create function app.minus(a text, b text) returns double precision language sql immutable as 'select length(a)::float8 - length(b)';
create type app.textrange as range (subtype = text, subtype_diff = app.minus, collation = "C", multirange_type_name = app."Text Multi");
create type app.floats as range (subtype = float8);
create type app.shell;
grant usage on type app.mood to pgcopy_bob;
revoke usage on type app.email from public;
alter type app.textrange owner to pgcopy_alice;
create collation app."Odd" (provider = libc, locale = 'C');
comment on collation app."Odd" is 'plain';

-- routines
create function app.add(a int, b int default 1, out sum int) language plpgsql stable strict parallel safe cost 7
	set work_mem = '1MB' as $fn$ begin sum := a + b; end $fn$;
create function app.rows_of(n int, variadic names text[] default '{a}') returns table (i int, name text) language sql rows 5
	as 'select i, n from generate_series(1, $1) i, unnest($2) n';
create procedure app.clean(inout n int) language plpgsql as $$ begin n := 0; end; $$;
create function app.standard(a int) returns int begin atomic select case when a > 0 then a else -a end; end;
create function app."; odd $$ 'name" (text) returns text language sql as $_$ select $1 || '$$;' $_$;
create function app.touch() returns trigger language plpgsql as $$ begin new.note := coalesce(new.note, '') || '!'; return new; end $$;
create function app.watch() returns event_trigger language plpgsql as $$ begin perform 1; end $$;
create function app.secret() returns int language sql security definer leakproof as 'select 1';
revoke execute on function app.secret() from public;
grant execute on function app.secret() to pgcopy_alice;
alter function app.secret() owner to pgcopy_alice;
comment on function app.secret() is 'for few';
comment on procedure app.clean(int) is 'empties';
create aggregate app.total(int) (sfunc = int4pl, stype = int, initcond = '0', combinefunc = int4pl, parallel = safe);
create aggregate app.nothing(*) (sfunc = int8inc, stype = bigint, initcond = '0');
create aggregate app.middle(float8 order by anyelement) (sfunc = ordered_set_transition, stype = internal, finalfunc = percentile_disc_final, finalfunc_extra);
create aggregate app.moving(int) (sfunc = int4pl, stype = int, msfunc = int4pl, minvfunc = int4mi, mstype = int, msspace = 8, initcond = '0', minitcond = '0');
comment on aggregate app.total(int) is 'a sum';
comment on aggregate app.nothing(*) is 'a count';
alter aggregate app.total(int) owner to pgcopy_bob;
create function app.near(int, int) returns boolean language sql immutable as 'select abs($1 - $2) < 10';
create operator app.<~> (function = app.near, leftarg = int, rightarg = int, commutator = operator(app.<~>), restrict = eqsel, join = eqjoinsel);
create operator app.!! (function = app.standard, rightarg = int);
comment on operator app.!! (none, int) is 'makes positive';
alter operator app.<~> (int, int) owner to pgcopy_alice;
create function app.to_point(app.mood) returns app.point3 language sql immutable as $$ select row(0, 0, $1, 'x')::app.point3 $$;
create cast (app.mood as app.point3) with function app.to_point(app.mood) as assignment;
create cast (app.point3 as text) with inout;
comment on cast (app.mood as app.point3) is 'odd';

create text search dictionary app.simple_en (template = pg_catalog.simple, stopwords = english, accept = false);
create text search configuration app.search (parser = pg_catalog."default");
alter text search configuration app.search add mapping for asciiword, word with app.simple_en, english_stem;
alter text search configuration app.search add mapping for int with simple;
comment on text search configuration app.search is 'words';
alter text search dictionary app.simple_en owner to pgcopy_alice;

-- sequences and tables
create sequence app.counter as smallint start 5 increment -2 minvalue -100 maxvalue 100 cache 3 cycle;
create sequence app."Quoted ""seq""" start 10;
create unlogged sequence app.light;
grant usage, select on sequence app.counter to pgcopy_bob;
comment on sequence app.counter is 'down';

create table app.users (
	id bigint generated always as identity (start with 100 increment by 5),
	by_default int generated by default as identity,
	dropped int,
	name text not null default 'x''y',
	email app.email,
	nick app.citext,
	feeling app.mood default 'it''s ok',
	"Größe" numeric(10,3),
	"select" int check ("select" <> 13),
	"a.b""c d" text,
	note text collate "C",
	doubled int generated always as ("select" * 2) stored,
	area app.point3,
	tags text[] not null default '{}',
	moods app.mood[],
	points app.point3[],
	range app.textrange,
	multi app."Text Multi",
	ref regclass,
	refs regtype[],
	acl aclitem,
	doc jsonb,
	raw bytea,
	at timestamptz default '2024-05-06 07:08:09+02',
	span interval default '1 day 02:03:04',
	amount money,
	bits bit varying(20),
	net inet,
	search tsvector,
	constraint users_pkey primary key (id),
	constraint "Users Name" unique (name) include (note),
	constraint named check (length(name) > 0 and name <> E'\\''\n')
) with (fillfactor = 70, toast.autovacuum_enabled = false);
alter table app.users drop column dropped;
alter table app.users alter column raw set storage external, alter column name set statistics 500, alter column doc set compression pglz,
	alter column "select" set (n_distinct = -0.5);
alter table app.users add constraint late check ("select" < 1000) not valid;
comment on table app.users is E'people\nand \\others';
comment on column app.users."a.b""c d" is 'odd';
comment on constraint named on app.users is 'not empty';
comment on constraint users_pkey on app.users is 'key';
comment on sequence app.users_id_seq is 'of identity';
grant select (id, name), update (name) on app.users to pgcopy_bob;
grant select, insert on app.users to pgcopy_alice with grant option;
set role pgcopy_alice;
grant select on app.users to pgcopy_bob;
reset role;
revoke truncate on app.users from current_user;
grant usage on sequence app.users_by_default_seq to pgcopy_bob;

insert into app.users (name, email, nick, feeling, "Größe", "select", "a.b""c d", note, area, tags, moods, points, range, multi, ref, refs, acl, doc, raw, span, amount, bits, net, search)
select 'n' || i, 'u' || i || '@example.org', 'Nick' || i, (array['sad', 'between', 'glücklich', null])[1 + i % 4]::app.mood,
	i / 3.0, case when i % 7 = 6 then null else i % 500 + 20 end, E'tab\t\\nl\n' || i, repeat('ü', i % 50), row(i, 'infinity', 'sad', e'a,"b')::app.point3, array['a', null, 'c,d"' || i],
	array['sad', 'between']::app.mood[], array[row(1, 'nan', 'sad', null)]::app.point3[], app.textrange('a', 'b' || i), '{[a,b),[c,d]}', 'app.users', '{app.mood,int[]}',
	'pgcopy_bob=r/pgcopy_alice', jsonb_build_object('i', i, 'x', null), decode(md5(i::text), 'hex'), make_interval(days => i), i, '10101', '10.0.0.1/8', to_tsvector('simple', 'a b ' || i)
from generate_series(1, 2000) i;

create table app."Extremes" (n numeric, f real, d double precision, ts timestamp, tz timestamptz, dt date, t time, tt timetz, u uuid, b boolean, c "char", bp char(5), o oid, x xml, l bigint, raw bytea);
insert into app."Extremes" values
	('NaN', 'NaN', '-Infinity', 'infinity', '-infinity', 'infinity', '24:00', '23:59:59.999999+14', gen_random_uuid(), true, 'x', 'ab', 4294967295, '<a>b</a>', 9223372036854775807, ''),
	('Infinity', 3.4e38, 5e-324, '4713-01-01 BC', '294276-12-31 23:59:59.999999+00', '5874897-12-31', '00:00', '00:00-15:59', null, false, '', '', 0, null, -9223372036854775808, '\x00ff00'),
	(('1' || repeat('0', 3000) || '.' || repeat('7', 2000))::numeric, -0.0, 1.7976931348623157e308, null, null, '4713-01-01 BC', null, null, null, null, null, null, null, null, null, null),
	(-0.000000000000000000000000000001, 1.17549435e-38, 0.1, null, null, null, null, null, null, null, null, null, null, null, null, null);

create table app.nothing_in_it ();
insert into app.nothing_in_it select from generate_series(1, 7);
create table app.only_generated (one int generated always as (1) stored);
insert into app.only_generated select from generate_series(1, 3);
create table app.empty (id int primary key, v text default current_user);
create unlogged table app.fast (id serial primary key, v text);
insert into app.fast (v) select 'v' || i from generate_series(1, 100) i;
alter table app.fast owner to pgcopy_alice;
create table app.typed of app.point3;
insert into app.typed values (1, 2, 'sad', 'z');
create table public."UPPER lower" ("from" int references app.empty, "to" int default nextval('app."Quoted ""seq"""'));
create table "Odd ""Schema"".with dots"."Tab""le" (id int generated always as identity primary key, "käse" text);
insert into "Odd ""Schema"".with dots"."Tab""le" ("käse") values ('a'), (null), ('c');
select nextval('app.counter'), nextval('app.counter'), setval('app."Quoted ""seq"""', 77, false);

-- inheritance and partitions
create table app.parent (id int not null, v text default 'p', constraint v_short check (length(v) < 99), old int);
create table app.child (extra int default 3, constraint extra_small check (extra < 50)) inherits (app.parent);
alter table app.child alter column v set default 'c';
alter table app.parent add column added int default 8;
create table app.no_default () inherits (app.parent);
alter table app.no_default alter column v drop default;
insert into app.parent values (1), (2);
insert into app.child values (3), (4);

create table app.events (at date not null, kind text not null, v int default 0, constraint positive check (v >= 0)) partition by range (at);
create table app.events_2023 partition of app.events for values from ('2023-01-01') to ('2024-01-01');
create table app.events_2024 (v int, dropped int, kind text not null, at date not null, constraint positive check (v >= 0));
alter table app.events_2024 drop column dropped;
alter table app.events attach partition app.events_2024 for values from ('2024-01-01') to ('2025-01-01');
create table app.events_rest partition of app.events default partition by list (kind);
create table app.events_a partition of app.events_rest (constraint more check (v < 1000)) for values in ('a', 'it''s');
create table app.events_other partition of app.events_rest default;
create table app.hashed (id int primary key, v text) partition by hash (id);
create table app.hashed_0 partition of app.hashed for values with (modulus 2, remainder 0);
create table app.hashed_1 partition of app.hashed for values with (modulus 2, remainder 1) with (fillfactor = 50);
alter table app.events add primary key (at, kind);
create index events_v on app.events (v desc nulls last) where v > 0;
create index only_whole on only app.events (kind);
create table app.event_notes (at date, kind text, note text, foreign key (at, kind) references app.events on delete cascade);
create table app.refers (id int references app.hashed deferrable initially deferred) partition by range (id);
create table app.refers_1 partition of app.refers for values from (0) to (1000);
insert into app.events select date '2022-06-01' + i, (array['a', 'b', 'it''s'])[1 + i % 3], i from generate_series(0, 900) i;
insert into app.event_notes select at, kind, 'n' from app.events where v % 10 = 0;
insert into app.hashed select i, i::text from generate_series(1, 100) i;
insert into app.refers select i from generate_series(1, 50) i;

-- indexes, constraints
create index "Index of Users" on app.users using gin (tags) with (fastupdate = off);
create unique index on app.users (lower(name), "Größe") where "select" is not null;
create index expression on app.users ((length(name) + 1), ((area).x));
alter index app.expression alter column 1 set statistics 333;
create index trgm on app.users using gin (note public.gin_trgm_ops);
create index brin on app.users using brin (at) with (pages_per_range = 4);
alter table app.users cluster on users_pkey;
comment on index app.expression is 'of two';
create table app.rooms (room int, during tsrange, who bigint, constraint no_overlap exclude using gist (during with &&) where (room > 0),
	constraint nulls unique nulls not distinct (who, room) with (fillfactor = 80));
insert into app.rooms values (1, '[2024-01-01, 2024-01-02)', 100), (2, '[2024-01-02, 2024-01-03)', null), (0, '[2024-01-01, 2024-01-09)', 12345678);
alter table app.rooms add constraint who_fk foreign key (who) references app.users (id) on update cascade on delete set null not valid;
create table app.self (id int primary key, parent int references app.self, other int);
create table app.cyclic (id int primary key, self int references app.self);
alter table app.self add foreign key (other) references app.cyclic;
insert into app.self values (1, null, null), (2, 1, null);
insert into app.cyclic values (1, 2);
update app.self set other = 1;
create table app.replicated (id int not null, v text);
create unique index replica on app.replicated (id);
alter table app.replicated replica identity using index replica;
alter table app.event_notes replica identity full;
create statistics app.related (dependencies, ndistinct) on name, note from app.users;
create statistics app."On Expression" on (length(name)), (lower(note)) from app.users;
alter statistics app.related set statistics 77;
comment on statistics app.related is 'both';

-- what needs its own table, or itself
create table app.looped (a int, b int);
create function app.sum_of(app.looped) returns int language sql immutable as 'select $1.a + $1.b';
alter table app.looped add constraint sum_small check (app.sum_of(looped) < 100);
create function app.next_default() returns int language sql as 'select count(*)::int from app.looped';
alter table app.looped alter column b set default app.next_default();
create index by_sum on app.looped (app.sum_of(looped));
insert into app.looped values (1, 2), (3, 4);

-- views
create view app.names as select id, name, "Größe" as "Size" from app.users where "select" > 100;
create view app.safe with (security_barrier) as select * from app.names;
create view app.checked with (security_invoker = true, check_option = cascaded) as select id, v from app.parent where id > 0;
alter view app.checked alter column v set default 'from view';
create view app.grouped as select u.id, u.name, u.note, count(*) from app.users u join app.rooms on who = u.id group by u.id;
create view app.uses_grouped as select count(*) from app.grouped;
create view app.one as select 1 as a, 'x'::text collate "C" as b, null::app.mood as m;
create function app.of_one() returns setof app.one language sql begin atomic select * from app.one; end;
create view app.two as select a, b, m from app.of_one();
create or replace view app.one as select a, b, m from app.two where false union all select 1, 'x', null;
create view app.none as select;
comment on view app.names is 'some';
comment on column app.names."Size" is 'a view''s column';
grant select on app.names to pgcopy_bob;
alter view app.names owner to pgcopy_alice;
create materialized view app.totals as select "select" % 10 as k, count(*) as n from app.users group by 1;
create materialized view app.of_totals with (fillfactor = 60) as select sum(n) as all from app.totals;
create materialized view app.alphabetically_first as select * from app.of_totals;
create materialized view app.not_filled as select 1 as a with no data;
create unique index totals_key on app.totals (k);
create index on app.not_filled (a);
alter materialized view app.totals cluster on totals_key;
alter materialized view app.totals alter column n set statistics 12;
comment on materialized view app.totals is 'sums';

-- rules, triggers, row security
create rule no_delete as on delete to app.replicated do instead nothing;
create rule twice as on insert to app.looped do also (insert into app.empty values (-1) on conflict do nothing; notify looped);
alter table app.looped disable rule twice;
create rule to_names as on insert to app.names do instead insert into app.users (name) values (new.name);
create trigger touch before insert or update of name, note on app.users for each row when (new.name <> 'x') execute function app.touch();
create trigger "Off" after update on app.users for each statement execute function app.touch('an argument', '''quoted''');
alter table app.users disable trigger "Off";
create trigger always before insert on app.fast for each row execute function app.touch();
alter table app.fast enable always trigger always;
create constraint trigger deferred after insert on app.empty deferrable initially deferred for each row execute function app.touch();
create trigger of_all before insert on app.events for each row execute function app.touch();
alter table app.events_2023 disable trigger of_all;
create trigger instead instead of update on app.safe for each row execute function app.touch();
comment on trigger touch on app.users is 'changes notes';
comment on rule no_delete on app.replicated is 'keeps';

alter table app.users enable row level security;
alter table app.empty enable row level security;
create policy own on app.users as restrictive for update to pgcopy_bob, pgcopy_alice using (name = current_user) with check (length(name) > 2);
create policy "Every One" on app.users for select using (true);
create policy uses_other on app.empty to public using (exists (select from app.users where id = v::int));
comment on policy own on app.users is 'only one''s own';

-- replication, foreign data, events
create publication "some" for table app.users (id, name), app.events where (v > 5) with (publish = 'insert, update', publish_via_partition_root = true);
create publication of_schema for tables in schema secret;
create publication everything for all tables;
comment on publication "some" is 'a few';
create foreign data wrapper dummy options (debug 'true');
create server loop type 'x' version '1' foreign data wrapper postgres_fdw options (host 'example.invalid', dbname 'it''s', "port" '1');
create user mapping for current_user server loop options (user 'u', password 'secret');
create user mapping for public server loop options (password 'secret too');
create foreign table app.remote (id int options (column_name 'ID') not null, v text default 'r') server loop options (schema_name 'a', table_name 'b "c"');
alter foreign table app.remote add constraint id_positive check (id > 0);
grant usage on foreign server loop to pgcopy_bob;
comment on server loop is 'itself';
create event trigger watch_ddl on ddl_command_end when tag in ('CREATE TABLE', 'DROP TABLE') execute function app.watch();
create event trigger watch_drops on sql_drop execute function app.watch();
alter event trigger watch_drops disable;
comment on event trigger watch_ddl is 'looks';

-- privileges of what comes
alter default privileges in schema app grant select on tables to pgcopy_bob;
alter default privileges for role pgcopy_alice revoke execute on functions from public;
alter default privileges for role pgcopy_alice in schema secret grant usage on sequences to pgcopy_bob with grant option;
alter default privileges grant usage on schemas to pgcopy_bob;

-- large objects
select lo_from_bytea(424242, 'small'), lo_from_bytea(424243, ''), lo_from_bytea(424244, decode(repeat('00ff1234', 700000), 'hex'));
select lo_put(424244, 5000000, 'after a hole');
alter large object 424243 owner to pgcopy_alice;
grant select on large object 424242 to pgcopy_bob;
comment on large object 424244 is 'large';
