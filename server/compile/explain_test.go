package compile_test

import (
	"strings"
	"testing"

	"github.com/boughdb/bough/server/compile"
)

// PostgreSQL makes plain joins of what is joined, and semi and anti joins of what is only asked for.
func TestPlans(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	for _, c := range []struct{ relation, query, has, hasNot string }{
		{"posts", "select=id,author_id(name)", "Left Join", "Subquery Scan"},
		{"posts", "select=id,author_id!inner(name)&author_id.name=eq.Ann", "Join Filter|Hash Cond|Index Cond|Merge Cond", "Subquery Scan"},
		{"posts", "select=id,...author_id(name,mentor_id(name))&order=author_id(name)", "Left Join", "Subquery Scan"},
		{"posts", "select=id,comments!inner()&comments.likes.gt=2", "Semi Join|Unique|HashAggregate", "SubPlan"},
		{"posts", "select=id,comments()&comments.is.null", "Anti Join", "SubPlan"},
		{"posts", "select=id,comments(id)&order=title&limit=2", "Limit", "Join"},
	} {
		s, err := r.c.Select(r.relation(c.relation), r.parse(c.query), compile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.rows(&compile.Statement{SQL: "explain (costs off) " + s.SQL, Args: s.Args, Output: make([]compile.Output, 1)})
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for _, row := range rows {
			plan.Write(row[0])
			plan.WriteByte('\n')
		}
		found := false
		for part := range strings.SplitSeq(c.has, "|") {
			found = found || strings.Contains(plan.String(), part)
		}
		if !found || strings.Contains(plan.String(), c.hasNot) {
			t.Errorf("%s: want %s and no %s:\n%s", c.query, c.has, c.hasNot, plan.String())
		}
	}
}
