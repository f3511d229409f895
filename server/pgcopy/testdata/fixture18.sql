-- What version 18 added.
create table app.modern (
	id int constraint id_there not null,
	v int constraint v_there not null no inherit,
	virtual int generated always as (id * 2) virtual,
	stored int generated always as (id + 1) stored,
	during daterange,
	constraint unforced check (v > 0) not enforced
);
insert into app.modern (id, v) select i, -i from generate_series(1, 50) i;
alter table app.modern alter column during set default 'empty';
create table app.maybe (a int, b int);
insert into app.maybe values (null, 1);
alter table app.maybe add constraint later not null a not valid;
create extension btree_gist with schema public;
create table app.temporal (id int, during daterange, primary key (id, during without overlaps));
create table app.temporal_fk (id int, during daterange, foreign key (id, period during) references app.temporal (id, period during));
insert into app.temporal values (1, '[2024-01-01,2025-01-01)');
insert into app.temporal_fk values (1, '[2024-02-01,2024-03-01)');
create table app.soft (id int references app.empty not enforced);
create table app.identity_parts (id int generated always as identity, v int) partition by range (v);
create table app.identity_part partition of app.identity_parts for values from (0) to (10);
insert into app.identity_parts (v) values (1), (2);
create table app.kin (a int constraint a_there not null);
create table app.kid (b int, constraint a_mine not null a) inherits (app.kin);
create domain app.named as int constraint there not null;
create publication generated for table app.modern with (publish_generated_columns = stored);
create collation app.builtin (provider = builtin, locale = 'C.UTF-8');
