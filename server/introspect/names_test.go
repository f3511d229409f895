package introspect_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/boughdb/bough/server/introspect"
)

func TestWeirdNames(t *testing.T) {
	t.Parallel()
	names := []string{
		`say "hi"`, "with space", "a.b", "Größe €", "UPPER", "it's", `back\slash`, "{curly}", "(round)", "a,b", "null", "select",
		"%d $1 {{", "\ttab\nline", strings.Repeat("x", 63), `":"`, "日本語", "'", "user",
	}
	quote := func(n string) string { return pgx.Identifier{n}.Sanitize() }
	ddl := "create schema " + quote(names[0]) + ";"
	for i, n := range names {
		table := quote(names[0]) + "." + quote(n)
		ddl += "create table " + table + " (" + quote(n) + " int primary key, " + quote(prefixed("2", n)) + " text);"
		if i > 0 {
			ddl += "alter table " + table + " add ref int constraint " + quote(n) + " references " + quote(names[0]) + "." + quote(names[i-1]) + ";"
		}
		ddl += "create view " + quote(names[0]) + "." + quote(prefixed("v", n)) + " as select " + quote(n) + " from " + table + ";"
		ddl += "create function " + quote(names[0]) + "." + quote(n) + "(" + quote(n) + " " + table + ") returns " + table + " language sql as 'select $1';"
		ddl += "create type " + quote(names[0]) + "." + quote(prefixed("t", n)) + " as enum (" + "'" + strings.ReplaceAll(n, "'", "''") + "');"
		ddl += "comment on table " + table + " is '" + strings.ReplaceAll(n, "'", "''") + "';"
	}
	s := load(t, ddl, introspect.Options{Schemas: []string{names[0]}, Roles: names})
	for i, n := range names {
		r := s.Relation(names[0], n)
		if r == nil {
			t.Errorf("the table %q is not there", n)
			continue
		}
		if r.Column(n) == nil || keyOf(r) != n || r.Comment != n || len(s.Overloads(names[0], n)) != 1 || s.Overloads(names[0], n)[0].Args[0].Name != n {
			t.Errorf("%q: got %+v", n, r)
		}
		if v := s.Relation(names[0], prefixed("v", n)); v == nil || keyOf(v) != n {
			t.Errorf("%q: the view is %+v", n, v)
		}
		found := false
		for _, x := range r.Relationships {
			found = found || i > 0 && x.Name == n && x.To.Name == names[i-1] && pairs(x.Columns) == "ref="+names[i-1]
		}
		if i > 0 && !found {
			t.Errorf("%q: relationships %q", n, describeRelationships(r))
		}
	}
}

func TestPlurals(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create table person (a int); create table category (a int); create table orders (a int);
		create table "user" (a int); create table users (b int);
		create view box as select 1 as a; create table boxe (a int);
		create table order_item (a int);
		create schema other; create table other.person (z int);
		create table matrix (a int) partition by list (a); create table matrix1 partition of matrix default`,
		introspect.Options{Schemas: []string{"public", "other"}})
	want := map[string]string{
		"person": "person", "people": "person", "category": "category", "categories": "category", "orders": "orders",
		"user": "user", "users": "users", "box": "box", "boxes": "boxe", "order_items": "order_item", "nothing": "",
		"matrices": "matrix", "order": "", "People": "",
	}
	got := map[string]string{}
	for name := range want {
		got[name] = ""
		if r := s.Resolve("public", name); r != nil {
			got[name] = r.Name
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("(-want +got):\n" + diff)
	}
	for _, r := range s.Relations {
		if s.Resolve(r.Schema, r.Plural) != r {
			t.Errorf("the plural %q of %q names another relation", r.Plural, r.Name)
		}
	}
	if r := s.Resolve("other", "people"); r == nil || r.Column("z") == nil {
		t.Error("plurals of schemas are mixed")
	}
}

func TestSimilar(t *testing.T) {
	t.Parallel()
	s := load(t, `
		create table customers (id int, email text, created_at timestamptz, total numeric); create table order_item (a int);
		create table x (a int); create view "Reports" as select 1 as a;
		create function calculate_total() returns int language sql as 'select 1';
		create function shout(customers) returns text language sql as 'select upper($1.email)'`, options)
	relations := map[string]string{
		"custmers": "customers", "Customers": "customers", "cusotmers": "customers", "customer": "customers", "orderitems": "order_items",
		"order_item": "order_item", "reports": "Reports", "zebra": "", "y": "", "X": "x", "": "", strings.Repeat("a", 5000): "",
	}
	for name, want := range relations {
		if got := s.SimilarRelation("public", name); got != want {
			t.Errorf("for the relation %.20q: %q, want %q", name, got, want)
		}
	}
	if got := s.SimilarRelation("other", "customers"); got != "" {
		t.Errorf("suggested %q of another schema", got)
	}
	columns := map[string]string{"emial": "email", "createdAt": "created_at", "createdat": "created_at", "ID": "id", "foo": "", "shuot": "shout", "totl": "total"}
	for name, want := range columns {
		if got := relation(t, s, "customers").SimilarColumn(name); got != want {
			t.Errorf("for the column %q: %q, want %q", name, got, want)
		}
	}
	if got := s.SimilarFunction("public", "calculate_totals"); got != "calculate_total" {
		t.Errorf("for the function: %q", got)
	}
}

// prefixed is n with something before it, within PostgreSQL's limit for names.
func prefixed(prefix, n string) string {
	if len(n) == 63 {
		n = n[1:]
	}
	return prefix + n
}
