package introspect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/introspect"
)

func describeFunction(f *introspect.Function) string {
	var b strings.Builder
	arg := func(a introspect.Argument) {
		fmt.Fprintf(&b, "[%s %s", a.Name, a.Type.SQL)
		if a.HasDefault {
			b.WriteString(" default")
		}
		if a.Variadic {
			b.WriteString(" variadic")
		}
		b.WriteString("]")
	}
	fmt.Fprintf(&b, "%c %s", f.Volatility, f.Name)
	for _, a := range f.Args {
		arg(a)
	}
	if f.Procedure {
		b.WriteString(" procedure")
	}
	for _, a := range f.Outs {
		b.WriteString(" out ")
		arg(a)
	}
	if f.ReturnsSet {
		b.WriteString(" set of")
	}
	b.WriteString(" " + f.Returns.SQL)
	for i, c := range f.Columns {
		fmt.Fprintf(&b, "%c%s %s", "(,"[min(i, 1)], c.Name, c.Type.SQL)
	}
	if f.Columns != nil {
		b.WriteString(")")
	}
	if f.Relation != nil {
		b.WriteString(" of " + f.Relation.Name)
	}
	if f.SingleRow {
		b.WriteString(" single")
	}
	if f.Comment != "" {
		b.WriteString(" -- " + f.Comment)
	}
	return b.String()
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create schema hidden;
		create table hidden.things (a int, b text);
		create table things (id int primary key, name text);
		create type pair as (x int, y text);
		create domain positive as int check (value > 0);
		create function add(a int, b int default 1, c int default 2) returns int immutable language sql as 'select a + b + c';
		create function add(a text) returns text language sql as 'select a';
		create function add() returns int stable language sql as 'select 1';
		create function unnamed(int, text) returns void language sql as '';
		create function many(variadic list int[]) returns bigint language sql as 'select count(*) from unnest(list)';
		create function outs(in a int, out b int, inout c text) language sql as 'select 1, c';
		create function one_out(out b int) language sql as 'select 1';
		create function bare_out(out int) language sql as 'select 1';
		create function bare_outs(out int, out text) language sql as $$select 1, 'x'$$;
		create function tab(a int) returns table (p int, q text) language sql as $$select 1, 'x'$$;
		create function tab1() returns table (p int) language sql as 'select 1';
		create function rel() returns setof things language sql as 'select * from things';
		create function rel1() returns setof things rows 1 language sql as 'select * from things limit 1';
		create function scalar_rel() returns things language sql as 'select * from things limit 1';
		create function hidden_rel() returns setof hidden.things language sql as 'select * from hidden.things';
		create function comp() returns pair language sql as $$select 1, 'x'$$;
		create function rec() returns record language sql as 'select 1, 2';
		create function dom(positive) returns positive[] language sql as 'select array[$1]';
		create function trig() returns trigger language plpgsql as 'begin return null; end';
		create function event_trig() returns event_trigger language plpgsql as 'begin end';
		create function poly(anyelement) returns anyelement language sql as 'select $1';
		create function hidden.unseen() returns int language sql as 'select 1';
		create procedure act(a int, b text default 'x') language sql as '';
		create procedure act_out(a int, inout b int, out c int) language plpgsql as 'begin b := a; c := b; end';
		create aggregate total(int) (sfunc = int4pl, stype = int);
		create function of_extension() returns int language sql as 'select 1';
		create table extension_table (a int);
		alter extension plpgsql add function of_extension();
		alter extension plpgsql add table extension_table;
		comment on function add() is 'adds nothing'`, options)
	want := []string{
		"v act[a integer][b text default] procedure void",
		"v act_out[a integer][b integer] procedure out [c integer] record(b integer,c integer)",
		"s add integer -- adds nothing",
		"i add[a integer][b integer default][c integer default] integer",
		"v add[a text] text",
		"v bare_out integer",
		"v bare_outs record(column1 integer,column2 text)",
		"v comp public.pair(x integer,y text)",
		"v dom[ public.positive] public.positive[]",
		"v hidden_rel set of hidden.things(a integer,b text)",
		"v many[list integer[] variadic] bigint",
		"v one_out integer(b integer)",
		"v outs[a integer][c text] record(b integer,c text)",
		"v rec record",
		"v rel set of public.things(id integer,name text) of things",
		"v rel1 set of public.things(id integer,name text) of things single",
		"v scalar_rel public.things(id integer,name text) of things",
		"v tab[a integer] set of record(p integer,q text)",
		"v tab1 set of integer(p integer)",
		"v unnamed[ integer][ text] void",
	}
	var got []string
	for _, f := range s.Functions {
		got = append(got, describeFunction(f))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("(-want +got):\n" + diff)
	}
	if n := len(s.Overloads("public", "add")); n != 3 || s.Overloads("public", "none") != nil {
		t.Errorf("add has %d overloads", n)
	}
	if s.Relation("public", "extension_table") != nil {
		t.Error("a table of an extension is exposed")
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	conn := connectTo(t)
	reader, writer, stranger, member, absent := roleFor(t, conn), roleFor(t, conn), roleFor(t, conn), roleFor(t, conn), "nobody of this name"
	ddl := strings.NewReplacer("READER", reader, "WRITER", writer, "STRANGER", stranger, "MEMBER", member).Replace(`
		create table t (id int, secret text, note text);
		create table open (id int);
		create view v as select id from t;
		create function f() returns int language sql as 'select 1';
		create function g() returns int language sql as 'select 1';
		revoke usage on schema public from public;
		revoke execute on function f() from public;
		grant usage on schema public to READER, WRITER;
		grant select on t to READER;
		grant select (id, note), insert (note), update (note) on t to WRITER;
		grant insert, update, delete, select on open to WRITER, STRANGER;
		grant select on v to public;
		grant execute on function f() to WRITER, STRANGER;
		grant READER to MEMBER`)
	s := load(t, ddl, introspect.Options{Schemas: []string{"public"}, Roles: []string{reader, writer, stranger, member, absent}})
	letters := func(g introspect.Grants) string {
		var list []string
		for role := range s.Roles {
			text := ""
			for i, p := range []introspect.Privilege{introspect.Select, introspect.Insert, introspect.Update, introspect.Delete, introspect.Execute} {
				if g.Can(role, p) {
					text += "siudx"[i : i+1]
				}
			}
			list = append(list, text)
		}
		return strings.Join(list, ",")
	}
	got := map[string]string{}
	for _, r := range s.Relations {
		got[r.Name] = letters(r.Grants)
		for _, c := range r.Columns {
			got[r.Name+"."+c.Name] = letters(c.Grants)
		}
	}
	for _, f := range s.Functions {
		got[f.Name+"()"] = letters(f.Grants)
	}
	want := map[string]string{
		"t": "s,,,s,", "t.id": "s,s,,s,", "t.secret": "s,,,s,", "t.note": "s,siu,,s,",
		"open": ",siud,,,", "open.id": ",siud,,,", "v": "s,s,,s,", "v.id": "s,s,,s,",
		"f()": ",x,,,", "g()": "x,x,,x,",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("(-want +got):\n" + diff)
	}
	role := s.Role("a role that was not asked for")
	if g := relation(t, s, "t").Grants; g.Can(role, introspect.Select) || !g.Can(introspect.Owner, introspect.Delete) || s.Role("") != introspect.Owner || s.Role(writer) != 1 {
		t.Error("roles are not told apart")
	}
}
