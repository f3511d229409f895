-- What the built-in reader of pgcopy refuses and pg_dump and templates copy.

create schema odd;

create type odd.base;
create function odd.base_in(cstring) returns odd.base language internal immutable strict as 'int4in';
create function odd.base_out(odd.base) returns cstring language internal immutable strict as 'int4out';
create function odd.base_send(odd.base) returns bytea language internal immutable strict as 'int4send';
create function odd.base_recv(internal) returns odd.base language internal immutable strict as 'int4recv';
create type odd.base (input = odd.base_in, output = odd.base_out, send = odd.base_send, receive = odd.base_recv, like = int4, category = 'N', delimiter = ';', default = '7');
comment on type odd.base is 'like a number';
create function odd.less(odd.base, odd.base) returns bool language internal immutable strict as 'int4lt';
create function odd.same(odd.base, odd.base) returns bool language internal immutable strict as 'int4eq';
create function odd.more(odd.base, odd.base) returns bool language internal immutable strict as 'int4gt';
create function odd.compare(odd.base, odd.base) returns int language internal immutable strict as 'btint4cmp';
create function odd.hash(odd.base) returns int language internal immutable strict as 'hashint4';
create operator odd.< (function = odd.less, leftarg = odd.base, rightarg = odd.base, commutator = operator(odd.>), restrict = scalarltsel, join = scalarltjoinsel);
create operator odd.> (function = odd.more, leftarg = odd.base, rightarg = odd.base, commutator = operator(odd.<), restrict = scalargtsel, join = scalargtjoinsel);
create operator odd.= (function = odd.same, leftarg = odd.base, rightarg = odd.base, commutator = operator(odd.=), merges, hashes, restrict = eqsel, join = eqjoinsel);
create operator family odd.numbers using btree;
create operator class odd.base_ops default for type odd.base using btree family odd.numbers as
	operator 1 odd.<, operator 3 odd.=, operator 5 odd.>, function 1 odd.compare(odd.base, odd.base);
create operator class odd.base_hash default for type odd.base using hash as operator 1 odd.=, function 1 odd.hash(odd.base);
comment on operator class odd.base_ops using btree is 'orders';
comment on operator family odd.numbers using btree is 'of numbers';
create table odd.based (b odd.base default '5' primary key, bs odd.base[]);
insert into odd.based values (default, '{1;2}'), ('9', null);
create index on odd.based using hash (b);


create conversion odd.latin for 'LATIN1' to 'UTF8' from iso8859_1_to_utf8;
create default conversion odd.latin_default for 'LATIN1' to 'UTF8' from iso8859_1_to_utf8;
comment on conversion odd.latin is 'letters';

create function odd.handler() returns language_handler language c as '$libdir/plpgsql', 'plpgsql_call_handler';
create function odd.inline(internal) returns void language c strict as '$libdir/plpgsql', 'plpgsql_inline_handler';
create function odd.validator(oid) returns void language c strict as '$libdir/plpgsql', 'plpgsql_validator';
create trusted language odd handler odd.handler inline odd.inline validator odd.validator;
revoke usage on language odd from public;
comment on language odd is 'like plpgsql';
create function odd.in_odd() returns int language odd as 'begin return 1; end';
create function odd.from_sql(internal) returns internal language internal immutable strict as 'int4recv';
create transform for odd.base language sql (from sql with function odd.from_sql(internal));

create access method heap_too type table handler heap_tableam_handler;
comment on access method heap_too is 'the same';
create table odd.in_heap_too (a int) using heap_too;
insert into odd.in_heap_too select generate_series(1, 5);

create text search parser odd.parser (start = prsd_start, gettoken = prsd_nexttoken, "end" = prsd_end, lextypes = prsd_lextype, headline = prsd_headline);
create text search template odd.template (init = dsimple_init, lexize = dsimple_lexize);
create text search dictionary odd.dictionary (template = odd.template, stopwords = 'english');
create text search configuration odd.configuration (parser = odd.parser);
alter text search configuration odd.configuration add mapping for asciiword with odd.dictionary, simple;
comment on text search parser odd.parser is 'of words';
comment on text search template odd.template is 'simple';
