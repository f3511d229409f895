package compile_test

import "testing"

func TestAggregates(t *testing.T) {
	t.Parallel()
	newReader(t).check([]readCase{
		{"comments", "select=count()", `[{"count":5}]`},
		{"comments", "select=likes.sum(),likes.avg()::numeric(4,2),most:likes.max(),likes.min(),n:author_id.count()", `[{"sum":10,"avg":2.00,"most":5,"min":0,"n":4}]`},
		{"comments", "select=post_id,count(),likes.sum()&order=post_id", `[{"post_id":1,"count":3,"sum":4},{"post_id":2,"count":1,"sum":5},{"post_id":3,"count":1,"sum":1}]`},
		{"comments", "select=post_id,total:likes.sum()&order=total.desc", `[{"post_id":2,"total":5},{"post_id":1,"total":4},{"post_id":3,"total":1}]`},
		{"comments", "select=post_id,total:likes.sum()&total.gt=3&order=post_id", `[{"post_id":1,"total":4},{"post_id":2,"total":5}]`},
		{"comments", "select=post_id,total:likes.sum(),count()&or=(total.gt.4,count.eq.3)&id=gt.0&order=post_id", `[{"post_id":1,"total":4,"count":3},{"post_id":2,"total":5,"count":1}]`},
		{"comments", "select=count()::text,s:likes::text.max()", `[{"count":"5","s":"5"}]`},
		{"comments", "select=count", `[{"count":5}]`}, // a column that does not exist, as PostgreSQL reads it
		{"comments", "select=post_id,n:count::text&order=n.desc,post_id&limit=1", `[{"post_id":1,"n":"3"}]`},
		{"posts", "select=id,comments(count)&id=eq.1", `[{"id":1,"comments":[{"count":3}]}]`},
		{"comments", "select=post_id,count()&post_id=eq.9", `[]`},
		{"comments", "select=count()&post_id=eq.9", `[{"count":0}]`},
		{"posts", "select=data->a->>b,count()&order=data->a->>b.nullsfirst", `[{"b":null,"count":2},{"b":"deep","count":1},{"b":"shallow","count":1}]`},
		{"posts", "select=n:data->n::int.sum(),labels.max(),created.max(),score.sum()", `[{"n":20,"max":"2024-04-01T10:00:00+00","sum":"NaN"}]`},
		{"posts", "select=plain,labels,count()&id=in.(1,2)&order=labels.desc", `[{"plain":{"a":[true],"z":1},"labels":["a","b"],"count":1},{"plain":null,"labels":[],"count":1}]`},
		{"posts", "select=m:labels.max()", `[{"m":["with space","c,d","q\"x"]}]`},
		{"authors", "select=mood,count()&order=count.desc,mood.nullslast&limit=1", `[{"mood":"happy","count":1}]`},
		// in embeds
		{"posts", "select=id,comments(count())&order=id", `[{"id":1,"comments":[{"count":3}]},{"id":2,"comments":[{"count":1}]},
			{"id":3,"comments":[{"count":1}]},{"id":4,"comments":[{"count":0}]}]`},
		{"posts", "select=id,comments(author_id,likes.sum())&comments.order=sum.desc&id=eq.1", `[{"id":1,"comments":[{"author_id":2,"sum":4},{"author_id":3,"sum":0}]}]`},
		{"posts", "select=id,comments(author_id,n:count())&comments.n.gt=1&id=eq.1", `[{"id":1,"comments":[{"author_id":2,"n":2}]}]`},
		{"posts", "select=id,comments!inner(n:count())&comments.n.gt=1&order=id", `[{"id":1,"comments":[{"n":3}]}]`},
		{"posts", "select=id,comments!inner(author_id,n:count())&comments.n.gt=1&order=id", `[{"id":1,"comments":[{"author_id":2,"n":2}]}]`},
		{"posts", "select=id,...comments(likes.sum(),count())&order=id", `[{"id":1,"sum":[4],"count":[3]},{"id":2,"sum":[5],"count":[1]},
			{"id":3,"sum":[1],"count":[1]},{"id":4,"sum":[null],"count":[0]}]`},
		{"posts", "select=id,comments!inner(...posts(total:cost.sum()))&comments.total=gt.4", `[{"id":1,"comments":[{"total":15}]}]`},
		// groups by what is related
		{"comments", "select=...posts(title),n:count(),likes.sum()&order=n.desc,sum.desc", `[{"title":"First","n":3,"sum":4},{"title":"Second","n":1,"sum":5},{"title":"Third","n":1,"sum":1}]`},
		{"comments", "select=posts(title),count()&order=count.desc&limit=1", `[{"posts":{"title":"First"},"count":3}]`},
		{"posts", "select=title,comments(text),n:count()&id=eq.2", `[{"title":"Second","comments":[{"text":"ok"}],"n":1}]`},
		{"comments", "select=post_id,...posts(total:cost.sum())&total=gt.4&order=total.desc,post_id", `[{"post_id":1,"total":15}]`},
		{"comments", "select=post_id,...posts(cost.sum())&order=post_id", `[{"post_id":1,"sum":15},{"post_id":2,"sum":3},{"post_id":3,"sum":null}]`},
		{"comments", "select=...posts(...authors!author_id(name,born.max())),n:count()&order=n.desc", `[{"name":"Ann","max":"1970-05-01","n":4},{"name":"Bob","max":"1980-12-31","n":1}]`},
	})
}

func TestDistinct(t *testing.T) {
	t.Parallel()
	newReader(t).check([]readCase{
		{"unkeyed", "@distinct&order=a", `[{"a":1,"b":"x"},{"a":2,"b":null}]`},
		{"comments", "select=&@distinct", `[{}]`},
		{"comments", "select=&@distinct=post_id", `[{},{},{}]`},
		{"comments", "select=post_id&@distinct&order=post_id.desc&limit=2", `[{"post_id":3},{"post_id":2}]`},
		{"posts", "select=labels,plain&@distinct&order=labels.nullsfirst&limit=2", `[{"labels":null,"plain":[]},{"labels":[],"plain":null}]`},
		{"posts", "select=author_id(name)&@distinct", `[{"author_id":{"name":"Ann"}},{"author_id":{"name":"Bob"}},{"author_id":{"name":"Cid"}}]`},
		{"comments", "select=post_id,id&@distinct=post_id&order=likes.desc", `[{"post_id":1,"id":1},{"post_id":2,"id":3},{"post_id":3,"id":4}]`},
		{"comments", "select=post_id,id&@distinct=post_id&order=id.desc,post_id.desc", `[{"post_id":3,"id":4},{"post_id":2,"id":3},{"post_id":1,"id":5}]`},
		{"posts", "select=id&@distinct=data->a&order=id", `[{"id":1},{"id":2},{"id":3}]`},
		{"comments", "select=post_id,posts(title)&@distinct=post_id&order=post_id,id", `[{"post_id":1,"posts":{"title":"First"}},{"post_id":2,"posts":{"title":"Second"}},{"post_id":3,"posts":{"title":"Third"}}]`},
	})
}
