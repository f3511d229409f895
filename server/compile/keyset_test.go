package compile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/query"
)

// Pages that follow each other give every row once, in the order of one large page.
func TestPagesByCursorGiveEveryRowOnce(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	var orders []struct{ relation, order string }
	add := func(relation string, list ...string) {
		for _, o := range list {
			orders = append(orders, struct{ relation, order string }{relation, o})
		}
	}
	add("keyed", "", "a,b", "a.desc,b.desc", "a.desc", "a,b.desc", "b,a.desc")
	for _, nullable := range []string{"c", "d"} {
		for _, direction := range []string{"", ".asc", ".desc"} {
			for _, nulls := range []string{"", ".nullsfirst", ".nullslast"} {
				for _, rest := range []string{"", ",a.desc", ",b.desc,a"} {
					add("keyed", nullable+direction+nulls+rest, "a"+direction+","+nullable+nulls+rest)
				}
			}
		}
	}
	add("keyed", "c.nullsfirst,d.desc.nullslast", "d.desc,c", "c.desc.nullslast,d.nullsfirst")
	add("authors", "mood", "mood.desc.nullslast,name", "born.desc", "shout.desc", "home->zip.desc.nullslast")
	add("posts", "created.desc", "score.desc", "data->n.nullsfirst", "data->a->>b.desc", "published.desc,views", "labels.desc.nullslast", "during")
	add("popular", "score.desc.nullslast")
	add(`Odd "Names".x`, `"quo\"te".desc`)
	for _, o := range orders {
		rel := r.relation(o.relation)
		raw := "limit=1"
		if o.order != "" {
			raw += "&order=" + o.order
		}
		q := r.parse(raw)
		var err error
		if q.Order, err = r.c.CompleteOrder(rel, q.Order); err != nil {
			t.Fatal(err)
		}
		all := *q
		all.Limit = nil
		s, err := r.c.Select(rel, &all, compile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.run(s)
		if err != nil {
			t.Fatalf("%s: %v", s.SQL, err)
		}
		var pages []string
		for range 10 {
			s, err := r.c.Select(rel, q, compile.Options{Cursor: q.Order})
			if err != nil {
				t.Fatal(err)
			}
			rows, err := r.rows(s)
			if err != nil {
				t.Fatalf("%s: %v\n%s", o.order, err, s.SQL)
			}
			if len(rows) == 0 {
				break
			}
			page, err := r.run(s)
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, strings.Trim(page, "[]"))
			k := &query.Keyset{Order: q.Order}
			for i, out := range s.Output {
				if !out.Hidden {
					continue
				}
				var v *string
				if text := rows[0][i]; text != nil {
					s := string(text)
					v = &s
				}
				k.Values = append(k.Values, v)
			}
			q.Where = []query.Cond{k}
		}
		got := "[" + strings.Join(pages, ",") + "]"
		// Trim removes the brackets of a last array as well.
		if diff := cmp.Diff(strings.ReplaceAll(want, "]", ""), strings.ReplaceAll(got, "]", "")); diff != "" {
			t.Errorf("%s order=%s (-want +got):\n%s", o.relation, o.order, diff)
		}
	}
}

func TestCursorsUseRowComparisonsWherePossible(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	one := "1"
	for _, c := range []struct{ relation, order, want string }{
		{"keyed", "a,b", ` where (t."a", t."b") > ($1, $2)`},
		{"keyed", "a.desc,b.desc", ` where (t."a", t."b") < ($1, $2)`},
		{"keyed", "a,b.desc", ` where (t."a" >= $1 and (t."a" > $1 or t."a" = $1 and t."b" < $2))`},
		{"keyed", "c.desc,a", ` where (t."c" <= $1 and (t."c" < $1 or t."c" = $1 and t."a" > $2))`},
		{"keyed", "c,a", ` where ((t."c" > $1 or t."c" is null) or t."c" = $1 and t."a" > $2)`},
	} {
		rel := r.relation(c.relation)
		q := r.parse("order=" + c.order)
		q.Where = []query.Cond{&query.Keyset{Order: q.Order, Values: []*string{&one, &one}}}
		s, err := r.c.Count(rel, q)
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(s.SQL, " t where")
		if diff := cmp.Diff(c.want, " where"+got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.order, diff)
		}
	}
}

func TestCursorsThatCannotBe(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	if _, err := r.c.CompleteOrder(r.relation("unkeyed"), nil); code(err) != "validation_error" {
		t.Errorf("no key: %v", err)
	}
	if _, err := r.c.CompleteOrder(nil, nil); code(err) != "validation_error" {
		t.Errorf("no relation: %v", err)
	}
	for _, raw := range []string{"select=count()", "select=a&@distinct", "@distinct=a", "order=wide(id)&select=wide()"} {
		relation := "keyed"
		if strings.Contains(raw, "wide") {
			relation = "wide"
		}
		q := r.parse(raw)
		order := q.Order
		if order == nil {
			order = []query.Order{{Field: query.Field{Name: "a"}}}
		}
		if _, err := r.c.Select(r.relation(relation), q, compile.Options{Cursor: order}); err == nil {
			t.Errorf("%s: no error", raw)
		}
	}
	value := "x"
	for _, k := range []*query.Keyset{
		{},
		{Order: []query.Order{{Field: query.Field{Name: "a"}}}},
		{Order: []query.Order{{Embed: "wide", Field: query.Field{Name: "id"}}}, Values: []*string{&value}},
	} {
		q := &query.Request{Where: []query.Cond{k}}
		if _, err := r.c.Select(r.relation("keyed"), q, compile.Options{}); code(err) != "validation_error" {
			t.Errorf("%v: %v", k, err)
		}
	}
	// A value that is not of the column's type is PostgreSQL's error.
	q := &query.Request{Where: []query.Cond{&query.Keyset{
		Order: []query.Order{{Field: query.Field{Name: "a"}}}, Values: []*string{&value},
	}}}
	s, err := r.c.Select(r.relation("keyed"), q, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.run(s); code(err) != "22P02" {
		t.Error(err)
	}
}
