package compile_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boughdb/bough/server/compile"
	"github.com/boughdb/bough/server/fault"
	"github.com/boughdb/bough/server/query"
)

// FuzzSelect feeds every query string that can be parsed to the compiler, and what it makes of it to PostgreSQL: which
// may find that types do not fit, but never a syntax error.
func FuzzSelect(f *testing.F) {
	for _, seed := range []string{
		"", "select=*", "select=", "select=id,title::text,x:data->a->>b&id=eq.1&order=id.desc.nullslast&limit=1&offset=2",
		"select=id,comments(id,author_id(name))&comments.order=id&comments.limit=1&or=(id.eq.1,and(id.gt.2,title.not.like.a*))",
		"select=id,...authors!author_id(name,...profiles(bio)),...comments(text)&order=authors(name).desc",
		"select=id,comments!inner(n:count())&comments.n=gt.1&tags=is.null&select=tags()",
		"select=author_id,total:score.sum()::int,count()&total.gt=3&order=total.desc",
		"select=labels,plain,data&@distinct", "select=id&@distinct=author_id,data->a&order=score",
		"select=tags!inner(*,posts(title))&tags.name=in.(go,\"sq,l\")", "search=fts(english).a&body=wfts.b&labels=ov.{a,b}",
		"during=adj.[1,2)&data=cs.{}&id=in.()&title=ilike(any).{a,b}", "cost.gt.col=score&views.is.null&published=is.unknown",
		`"a.b".eq=1&a.b.eq=2&select="x\"y":id,'a':title`, "select=top_comment(id,posts(id)),data->0->-1&order=data->-1",
		"select=id::numeric(10,2),b:body::varchar(3),c:labels::text[],d:id::\"x\"", "select=author_id(name),editor_id()&order=editor_id(name)&editor_id=is.null",
		"select=id,comments(posts(comments(posts(id))))&comments.posts.comments.id=eq.1", "select=popular(id)&select=count(),comments(id)",
		"select=count(),comments(id),author_id(name)&order=count", "select=...author_id(id.sum()),views",
	} {
		f.Add(seed)
	}
	r := newReader(f)
	posts, odd := r.relation("posts"), r.relation(`Odd "Names".x`)
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := query.Parse(raw)
		if err != nil {
			return
		}
		order, err := r.c.CompleteOrder(posts, q.Order)
		if err != nil {
			t.Fatal(err)
		}
		for i, make := range []func() (*compile.Statement, error){
			func() (*compile.Statement, error) { return r.c.Select(posts, q, compile.Options{}) },
			func() (*compile.Statement, error) {
				c := r.c
				c.MaxRows = 10
				return c.Select(posts, q, compile.Options{ETag: true, Cursor: order})
			},
			func() (*compile.Statement, error) {
				return r.c.SelectFrom(compile.Source{With: `with "bough_rows" as (select * from posts)`, From: `"bough_rows"`}, posts, q, compile.Options{})
			},
			func() (*compile.Statement, error) { return r.c.Count(posts, q) },
			func() (*compile.Statement, error) { return r.c.Select(odd, q, compile.Options{}) },
		} {
			s, err := make()
			if err != nil {
				var refused *fault.Error
				if !errors.As(err, &refused) {
					t.Fatalf("%d: %q: %v", i, raw, err)
				}
				continue
			}
			description, err := r.conn.PgConn().Prepare(context.Background(), "", s.SQL, nil)
			if err != nil {
				var pgErr *pgconn.PgError
				if !errors.As(err, &pgErr) {
					t.Fatalf("%d: %q: %v", i, raw, err)
				}
				if !dataError(err) {
					t.Fatalf("%d: %q: %v\n%s", i, raw, err, s.SQL)
				}
				continue
			}
			if len(description.Fields) != len(s.Output) || len(description.ParamOIDs) != len(s.Args) {
				t.Fatalf("%d: %q: %d columns and %d parameters, want %d and %d\n%s", i, raw,
					len(description.Fields), len(description.ParamOIDs), len(s.Output), len(s.Args), s.SQL)
			}
			if strings.Count(s.SQL, "$") < len(s.Args) {
				t.Fatalf("%d: %q: parameters that are not used: %s", i, raw, s.SQL)
			}
		}
	})
}
