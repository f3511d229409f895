package query_test

import (
	"testing"

	"github.com/boughdb/bough/server/query"
)

func BenchmarkParse(b *testing.B) {
	for _, bc := range []struct{ name, query string }{
		{"list", "select=id,title&author_id.eq=7&order=id.desc&limit=50"},
		{"get", "id=eq.5"},
		{"embed", "select=id,title,author:people!author_id(name,email),comments(*,author(name))&author.name.ilike=%25bo%25&comments.order=id.desc&comments.limit=3"},
		{"logic", "or=(age.gte.18,and(name.like.*x*,id.in.(1,2,3)))&order=name,id&limit=20&offset=40"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := query.Parse(bc.query); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseAccept(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := query.ParseAccept("application/json"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParsePrefer(b *testing.B) {
	values := []string{"return=representation, count=exact"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := query.ParsePrefer(values); err != nil {
			b.Fatal(err)
		}
	}
}
