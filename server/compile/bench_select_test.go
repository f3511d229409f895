package compile_test

import (
	"testing"

	"github.com/boughdb/bough/server/compile"
)

func BenchmarkSelect(b *testing.B) {
	r := newReader(b)
	for name, raw := range map[string]string{
		"List":  "author_id.eq=1&order=id.desc&limit=50",
		"Get":   "id=eq.1&select=id,title,body",
		"Embed": "select=id,title,author:author_id(id,name),comments(id,text)&order=created.desc&limit=20&comments.order=id",
	} {
		rel, q := r.relation("posts"), r.parse(raw)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.c.Select(rel, q, compile.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
