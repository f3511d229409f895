package compile_test

import (
	"testing"
)

func TestColumns(t *testing.T) {
	t.Parallel()
	newReader(t).check([]readCase{
		{"tags", "order=id", `[{"id":1,"name":"go"},{"id":2,"name":"sql"},{"id":3,"name":"unused"}]`},
		{"tags", "select=*&id=eq.1", `[{"id":1,"name":"go"}]`},
		{"tags", "select=&id=eq.1", `[{}]`},
		{"tags", "select=name,key:id&id=eq.2", `[{"name":"sql","key":2}]`},
		{"tags", "select=id,name,id::text&id=eq.2", `[{"name":"sql","id":"2"}]`},
		{"tags", "select=id::text,n:name::varchar(1),a:id::numeric(10,2),id2:id::double precision&id=eq.2",
			`[{"id":"2","n":"s","a":2.00,"id2":2}]`},
		{"posts", "select=score,views,published,created,labels,words,during,search,plain&order=id",
			`[{"score":4.50,"views":10,"published":true,"created":"2024-01-01T10:00:00+00","labels":["a","b"],"words":["x"],
				"during":"[1,10)","search":"'hello':1 'world':2","plain":{"z": 1, "a": [true]}},
			{"score":3.25,"views":null,"published":false,"created":"2024-02-01T10:00:00+00","labels":[],"words":null,
				"during":"[10,20)","search":"'cat':2 'run':4","plain":null},
			{"score":null,"views":7,"published":null,"created":"2024-03-01T10:00:00+00","labels":null,"words":["y","z"],
				"during":null,"search":null,"plain":[]},
			{"score":"NaN","views":1,"published":true,"created":"2024-04-01T10:00:00+00","labels":["with space","c,d","q\"x"],
				"words":null,"during":"empty","search":null,"plain":null}]`},
		{"authors", "select=name,mood,born,home,shout&id=in.(1,3)&order=id",
			`[{"name":"Ann","mood":"happy","born":"1970-05-01","home":{"street":"Main St","zip":12345},"shout":"ANN!"},
			{"name":"Cid","mood":null,"born":null,"home":{"street":"Side \"St\", 5","zip":null},"shout":"CID!"}]`},
		{"authors", "select=m:mood::text,home->>street,home->zip&id=eq.1", `[{"m":"happy","street":"Main St","zip":12345}]`},
		{"authors", "select=mood::mood,b:mood::public.mood&id=eq.9", `[]`},
		{"posts", "select=id,data->a->>b,data->n,list:data->list->0,last:data->list->-1,data->n::int,labels->0&order=id&limit=2",
			`[{"id":1,"b":"deep","list":1,"last":3,"n":5,"labels":"a"},{"id":2,"b":"shallow","list":null,"last":null,"n":15,"labels":null}]`},
		{"posts", `select=data->>"k'q",x:data->'%5C&id=eq.1`, `[{"k'q":"quote","x":null}]`},
		{"posts", "select=id&order=score.desc.nullslast,id&limit=2&offset=1", `[{"id":1},{"id":2}]`},
		{"posts", "select=id&order=data->n.desc.nullsfirst,id.desc", `[{"id":4},{"id":3},{"id":2},{"id":1}]`},
		{"authors", "select=id&order=shout.desc&limit=1", `[{"id":4}]`},
		{"popular", "select=*&order=id", `[{"id":1,"title":"First","author_id":1,"score":4.50},
			{"id":2,"title":"Second","author_id":1,"score":3.25},{"id":4,"title":"Fourth","author_id":3,"score":"NaN"}]`},
		{`Odd "Names".x`, "order=Id", `[{"Id":1,"a.b":"dot","white space":"sp","quo\"te":"q","snowman ☃":7,"select":"kw","limit":3,"parent":null},
			{"Id":2,"a.b":null,"white space":"x","quo\"te":"y","snowman ☃":null,"select":null,"limit":null,"parent":1}]`},
		{`Odd "Names".x`, `select="a.b","white space","quo\"te","snowman ☃","sel\"":select&a.b.eq=dot&limit.eq=3&white space=eq.sp`,
			`[{"a.b":"dot","white space":"sp","quo\"te":"q","snowman ☃":7,"sel\"":"kw"}]`},
	})
}
