-- A schema of everything that is hard to describe.
create schema personal;
create schema hidden;

create type mood as enum ('happy', 'it''s fine', '', 'so-so', 'so_so', '1', 'sad');
comment on type mood is 'How somebody feels.';
create type unspeakable as enum ('a', 'say "b"', 'c\d');
create type hidden.mood as enum ('up', 'down');
create domain email as text check (value like '%@%');
comment on domain email is 'An address.';
create domain positive as integer not null check (value > 0);
create type address as (street text, "zip code" varchar(10), tags text[]);
create type inner_pair as (a int, b numeric);
create type outer_pair as (first inner_pair, rest inner_pair[]);

create table author (
  id bigint generated always as identity primary key,
  name text not null,
  email email,
  mood mood not null default 'happy',
  other_mood hidden.mood, unspeakable unspeakable,
  home address,
  pairs outer_pair
);
comment on table author is E'People who write.\nMore about "them": \\ / <b>.';
comment on column author.name is 'What they are called: "in full".';

create table post (
  id uuid primary key default gen_random_uuid(),
  author_id bigint not null references author,
  editor_id bigint references author,
  title varchar(80) not null default 'it''s new',
  slug char(8) unique,
  body text,
  words integer generated always as (length(body)) stored,
  price numeric(10, 2) not null default 0,
  discount numeric default -1.5,
  small smallint default '-3'::integer,
  big bigint default 9007199254740993,
  ratio real, score double precision default 1e3,
  active boolean not null default true,
  tags text[] default '{}',
  matrix integer[][],
  data jsonb not null default '{}', old_data json,
  period tstzrange, spans int4multirange,
  day date default current_date, at timestamptz not null default now(), local timestamp, clock time, zoned timetz,
  span interval, cash money, addr inet, net cidr, mac macaddr, flags bit(3), bytes bytea, doc xml, place point,
  search tsvector, positive positive default 1
);

-- Names that would be the same to a generator, or are no identifiers at all.
create table "strange names" (
  "id" integer primary key,
  "user id" text, user_id text, "userId" text, "user-id" text not null,
  "select" text, "limit" integer, "order" text, "and" text, "not" text, "eq" text,
  "a.b" text, a jsonb, a_eq text, "quo""te" text, "@at" text, "arr->ow" text, "back\slash" text,
  "größe" text, "表" text, "1st" text, "$ref" text, "type" text
);
create table "a/b?c#d%20{e}" (id integer primary key, "x/y" text);
create table "表格" (id integer primary key);
create table "Größe" (id integer primary key);
create table "123" (id integer primary key);
create table branches (id integer primary key, name text);
create table error (id integer primary key);
create table post_insert (id integer primary key);
create table posts_insert (id integer primary key);
create table "POST" (id integer primary key);
create table filter_in (id integer primary key);
create table nothing ();
create table no_key (a integer, b text);

create table membership (
  author_id bigint references author, post_id uuid references post, "kind,of" char(2), day date not null,
  primary key (post_id, author_id, "kind,of")
);
create table person (id int primary key);
create table people (id int primary key, person_id int references person);

create table measure (at timestamptz not null, value double precision) partition by range (at);
create table measure_2026 partition of measure for values from ('2026-01-01') to ('2027-01-01');

create view happy_authors as select id, name, mood from author where mood = 'happy';
comment on view happy_authors is 'Those who are happy.';
create view author_counts as select author_id, count(*) as posts, max(at) as latest from post group by author_id;
create materialized view post_titles as select id, title from post;

create table personal.author (id integer primary key, note text);
create table personal.diary (id integer primary key, note mood);
create table hidden.secret (id integer primary key);

-- Functions.
create function add(a integer, b integer default 1) returns integer language sql immutable as 'select a + b';
comment on function add is E'Adds two numbers.\n\nThe second is 1 where it is left out.';
create function add(a text, b text) returns text language sql immutable as 'select a || b';
create function search_posts(term text, "limit" integer default 10) returns setof post language sql stable as 'select * from post';
create function top_authors(n integer) returns table (author_id bigint, posts bigint, "mood?" mood) language sql stable as 'select 1::bigint, 2::bigint, null::mood';
create function bump(id uuid) returns void language sql volatile as 'select';
create procedure clean_up(in days integer default 30) language sql as 'select 1';
create function echo(json) returns json language sql immutable as 'select $1';
create function shout(text) returns text language sql immutable as 'select upper($1)';
create function raw_bytes(bytea) returns bytea language sql immutable as 'select $1';
create function unnamed(integer, integer) returns integer language sql immutable as 'select $1';
create function total(variadic numbers integer[]) returns bigint language sql immutable as 'select 1::bigint';
create function complicated(h address, p outer_pair, ts timestamptz[], r tstzrange, j jsonb, m mood) returns address language sql stable as 'select h';
create function "odd name/"("an arg" integer, an_arg text) returns integer language sql volatile as 'select 1';
create function out_args(in x integer, out y integer, out z text) language sql stable as 'select x, ''z''';
create function now_is() returns timestamptz language sql stable as 'select now()';
create function many() returns setof text language sql stable as 'select ''a''';
create function touch() returns trigger language plpgsql as 'begin return new; end';
create function full_name(author) returns text language sql stable as 'select $1.name';
comment on function full_name is 'With everything.';
create function personal.whisper(x text) returns text language sql stable as 'select x';
create function hidden.no() returns integer language sql as 'select 1';

grant usage on schema public, personal to nasty_anon, nasty_user;
revoke execute on all functions in schema public, personal from public;
grant select (id, name) on author to nasty_anon;
grant select on happy_authors, post to nasty_anon;
grant select, insert (title, author_id), update (title) on post to nasty_user;
grant select, delete on no_key to nasty_user;
grant insert on membership to nasty_user;
grant execute on function add(integer, integer), now_is to nasty_anon;
