-- The tables that the tests of reading are about.

create type mood as enum ('happy', 'so so', 'sad');
create type address as (street text, zip int);
create domain positive as int check (value > 0);
create domain taglist as text[];

create table authors (
	id int primary key,
	name text not null,
	mood mood,
	born date,
	mentor_id int references authors (id),
	home address,
	secret text
);
create table profiles (
	author_id int primary key references authors (id),
	bio text,
	links text[]
);
create table posts (
	id int primary key,
	title text not null,
	body text,
	author_id int not null references authors (id),
	editor_id int constraint posts_editor references authors (id),
	score numeric(6, 2),
	views positive,
	published boolean,
	created timestamptz not null default '2024-01-01 00:00:00+00',
	labels text[],
	words taglist,
	data jsonb,
	plain json,
	during int4range,
	search tsvector,
	cost numeric,
	unique (author_id, title)
);
create table comments (
	id int primary key,
	post_id int not null references posts (id),
	author_id int references authors (id),
	text text not null,
	likes int not null default 0
);
create table tags (id int primary key, name text not null unique);
create table post_tags (
	post_id int references posts (id),
	tag_id int references tags (id),
	primary key (post_id, tag_id)
);
create table follows (
	follower_id int constraint follows_follower references authors (id),
	followed_id int constraint follows_followed references authors (id),
	primary key (follower_id, followed_id)
);
create table region (country text, code text, name text, primary key (country, code));
create table cities (
	id int primary key,
	name text,
	country text,
	region text,
	foreign key (country, region) references region (country, code)
);
create table keyed (a int not null, b text not null, c int, d float8, primary key (a, b));
create table "Odd ""Names"".x" (
	"Id" int primary key,
	"a.b" text,
	"white space" text,
	"quo""te" text,
	"snowman ☃" int,
	"select" text,
	"limit" int,
	parent int references "Odd ""Names"".x" ("Id")
);
create table wide (id int primary key, parent int references wide (id));
do $$ begin
	for i in 1 .. 60 loop
		execute format('alter table wide add column c%s int default %s', i, i);
	end loop;
end $$;
create table unkeyed (a int, b text);

create view popular as select p.id, p.title, p.author_id, p.score from posts p where p.score > 3;
create view happy_authors as select id, name from authors where mood = 'happy';

insert into authors values
	(1, 'Ann', 'happy', '1970-05-01', null, row('Main St', 12345), 's1'),
	(2, 'Bob', 'sad', '1980-12-31', 1, null, 's2'),
	(3, 'Cid', null, null, 1, row('Side "St", 5', null), 's3'),
	(4, 'Dee', 'so so', '1990-07-15', 2, null, 's4');
insert into profiles values (1, 'writes', '{http://a,http://b}'), (3, 'reads', null);
insert into posts values
	(1, 'First', 'hello world', 1, 2, 4.50, 10, true, '2024-01-01 10:00:00+00', '{a,b}', '{x}',
		'{"a": {"b": "deep"}, "n": 5, "list": [1, 2, 3], "k''q": "quote"}', '{"z": 1, "a": [true]}', '[1,10)', to_tsvector('english', 'hello world'), 5),
	(2, 'Second', 'the cats are running', 1, null, 3.25, null, false, '2024-02-01 10:00:00+00', '{}', null,
		'{"a": {"b": "shallow"}, "n": 15, "list": []}', null, '[10,20)', to_tsvector('english', 'the cats are running'), 3),
	(3, 'Third', null, 2, 3, null, 7, null, '2024-03-01 10:00:00+00', null, '{y,z}', null, '[]', null, null, null),
	(4, 'Fourth', '100% \ "odd"', 3, 1, 'NaN', 1, true, '2024-04-01 10:00:00+00', '{"with space","c,d","q\"x"}', null, '[10, 20]', null, 'empty', null, 1);
insert into comments values
	(1, 1, 2, 'nice', 3), (2, 1, 3, 'meh', 0), (3, 2, 2, 'ok', 5), (4, 3, null, 'anonymous', 1), (5, 1, 2, 'again', 1);
insert into tags values (1, 'go'), (2, 'sql'), (3, 'unused');
insert into post_tags values (1, 1), (1, 2), (2, 2);
insert into follows values (1, 2), (1, 3), (2, 1);
insert into region values ('at', 'w', 'Wien'), ('at', 't', 'Tirol');
insert into cities values (1, 'Vienna', 'at', 'w'), (2, 'Innsbruck', 'at', 't'), (3, 'Nowhere', null, null);
insert into keyed values (1, 'a', 1, 1.5), (1, 'b', null, 'NaN'), (2, 'a', 3, null), (2, 'b', 2, '-Infinity'), (3, 'c', null, 0.1);
insert into "Odd ""Names"".x" values (1, 'dot', 'sp', 'q', 7, 'kw', 3, null), (2, null, 'x', 'y', null, null, null, 1);
insert into wide (id, parent) values (1, null), (2, 1);
insert into unkeyed values (1, 'x'), (1, 'x'), (2, null);

create function shout(authors) returns text stable language sql as $$ select upper($1.name) || '!' $$;
create function top_comment(posts) returns setof comments rows 1 stable language sql as
	$$ select * from comments where post_id = $1.id order by likes desc $$;
create function fans(authors) returns setof authors stable language sql as
	$$ select a.* from authors a join follows f on f.follower_id = a.id where f.followed_id = $1.id $$;
create function posts_since(since timestamptz) returns setof posts stable language sql as
	$$ select * from posts where created >= since $$;
create function pairs(n int) returns table (i int, square bigint, list int[]) stable language sql as
	$$ select i, (i * i)::bigint, array[i] from generate_series(1, n) i $$;

grant usage on schema public to compile_reader;
grant select on all tables in schema public to compile_reader;
revoke select on authors from compile_reader;
grant select (id, name, mood) on authors to compile_reader;

analyze;
