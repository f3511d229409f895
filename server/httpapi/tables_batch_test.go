package httpapi_test

import (
	"strings"
	"testing"
)

func TestBatchesAreReadStrictly(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	s.Exec(t, s.Main, "create function add(a int, b int default 10) returns int language sql immutable as 'select a + b'")
	batch := func(name, body string, status int, code, want string) request {
		return request{name: name, method: "POST", path: "tables", body: body, status: status, code: code, want: want}
	}
	runAll(t, s, []request{
		batch("no array", `{}`, 400, "PGRST102", "array of operations"),
		batch("no objects", `[1]`, 400, "PGRST102", "are objects"),
		batch("no JSON", `[{]`, 400, "PGRST102", "byte"),
		batch("more after it", `[{"method":"GET","table":"customer"}] []`, 400, "PGRST102", "after"),
		batch("an unknown field", `[{"method":"GET","table":"customer","foo":1}]`, 400, "PGRST102", `"foo"`),
		batch("another case", `[{"Method":"GET","table":"customer"}]`, 400, "PGRST102", `"Method"`),
		batch("a field twice", `[{"method":"GET","method":"DELETE","table":"customer","id":1}]`, 400, "validation_error", "twice"),
		batch("a filter twice", `[{"method":"GET","table":"customer","query":{"id":1,"id":2}}]`, 400, "validation_error", "twice"),
		batch("a query that is a text", `[{"method":"GET","table":"customer","query":"id=1"}]`, 400, "PGRST102", "an object"),
		batch("no method", `[{"table":"customer"}]`, 400, "PGRST102", "operation 0"),
		batch("a body for a read", `[{"method":"GET","table":"customer","body":{}}]`, 400, "validation_error", "no body"),
		batch("an id for a function", `[{"method":"POST","table":"rpc/add","id":1}]`, 400, "validation_error", "no id"),
		batch("not UTF-8", "[{\"method\":\"GET\",\"table\":\"customer\",\"query\":{\"name\":\"\xff\"}}]", 400, "validation_error", "UTF-8"),
		batch("brackets", strings.Repeat("[", 50_000), 400, "PGRST102", ""),
		batch("functions of results", `[{"method":"GET","table":"rpc/add","query":{"a":1}},{"method":"POST","table":"rpc/add","body":{"a":{"$ref":"0"},"b":1}}]`, 200, "", `[{"status":200,"body":11},{"status":200,"body":12}]`),
		batch("functions by GET", `[{"method":"GET","table":"rpc/add","query":{"a":1,"b":2}},{"method":"POST","table":"rpc/add","body":{"a":1}}]`, 200, "", `[{"status":200,"body":3},{"status":200,"body":11}]`),
		batch("an argument that is a list", `[{"method":"GET","table":"rpc/add","query":{"a":[1]}}]`, 400, "validation_error", `"a"`),
		{name: "another media type", method: "POST", path: "tables", headers: []string{"Accept", "text/csv"}, body: `[{"method":"GET","table":"customer"}]`, status: 406, code: "PGRST107", want: "application/json"},
		{name: "If-Match", method: "POST", path: "tables", headers: []string{"If-Match", `"1"`}, body: `[{"method":"GET","table":"customer"}]`, status: 400, code: "validation_error", want: "If-Match"},
	})
}
