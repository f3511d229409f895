-- The tables that data.test.mjs works on.
create table authors (id int primary key, name text not null, born date);
insert into authors values (1, 'Ada', '1815-12-10'), (2, 'Grace', '1906-12-09'), (3, 'Katherine', '1918-08-26');

create table posts (
    id int primary key,
    author_id int not null references authors,
    title text not null,
    subtitle text,
    views bigint not null default 0,
    published boolean not null default true,
    labels text[] not null default '{}',
    data jsonb not null default '{}',
    span int4range,
    search tsvector generated always as (to_tsvector('english', title)) stored
);
insert into posts (id, author_id, title, subtitle, views, published, labels, data, span) values
    (1, 1, 'Notes on the engine', null, 5, true, '{math,history}', '{"lang": "en"}', '[1,5)'),
    (2, 1, 'On reckoners of numbers', 'Part two', 100, true, '{math}', '{"lang": "fr"}', '[1,3)'),
    (3, 2, 'The compiler', null, 7, true, '{code}', '{"lang": "en"}', '[7,9)'),
    (4, 3, 'Commas, and (brackets) "quoted"', null, 1000, false, '{}', '{}', null);

create table comments (
    id int primary key,
    post_id int not null references posts on delete cascade,
    parent_id int references comments,
    body text not null
);
insert into comments values (1, 1, null, 'First!'), (2, 1, 1, 'Wonderful');

create table tags (id int primary key, name text not null unique);
create table post_tags (post_id int references posts, tag_id int references tags, primary key (post_id, tag_id));
insert into tags values (1, 'maths'), (2, 'machines');
insert into post_tags values (1, 1), (1, 2);

create table teams (id int primary key, name text);
create table matches (id int primary key, home int, away int,
    constraint matches_home_fkey foreign key (home) references teams,
    constraint matches_away_fkey foreign key (away) references teams);
insert into teams values (1, 'Red'), (2, 'Blue');
insert into matches values (1, 1, 2);

create table things (id int primary key, name text default 'unnamed', amount numeric, code text unique);

create table notes (id int generated always as identity primary key, body text not null, owner uuid not null default auth.uid());
alter table notes enable row level security;
create policy own on notes to authenticated using (owner = (select auth.uid())) with check (owner = (select auth.uid()));
grant select, insert, update, delete on notes to authenticated;
insert into notes (body, owner) values ('mine', '00000000-0000-0000-0000-0000000000aa'), ('hers', gen_random_uuid());

create function add(a int, b int default 10) returns int language sql immutable as 'select a + b';
create function posts_of(author int) returns setof posts language sql stable as 'select * from posts where author_id = author';
create function pair(out low int, out high int) language sql immutable as 'select 1, 2';
create function pairs() returns table (low int, high int) language sql immutable as 'values (1, 2), (3, 4)';
create function sum_of(numbers int[]) returns bigint language sql immutable as 'select sum(n) from unnest(numbers) n';
create function nothing() returns void language sql as '';
create function write_something() returns void language sql as $$insert into things (id) values (-1)$$;
create function teapot() returns void language plpgsql as $$begin raise sqlstate 'PT418' using message = 'I am short and stout'; end$$;
create function fail() returns void language plpgsql as $$begin raise exception 'on purpose'; end$$;
create function nap(seconds int) returns void language sql as 'select pg_sleep(seconds)';
create function still_napping() returns int language plpgsql as $$
declare n int;
begin
    for i in 1..50 loop
        perform pg_stat_clear_snapshot();
        select count(*) into n from pg_stat_activity where datname = current_database() and query ~ 'nap"?\(' and query !~ 'still' and state = 'active';
        exit when n = 0;
        perform pg_sleep(0.1);
    end loop;
    return n;
end$$;
create function whoami() returns uuid language sql stable as 'select auth.uid()';
grant execute on all functions in schema public to authenticated, service_role;

create schema side;
create table side.notes (id int primary key, body text);
insert into side.notes values (1, 'aside');
grant usage on schema side to service_role;
grant select on side.notes to service_role;
