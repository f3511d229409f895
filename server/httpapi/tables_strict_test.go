package httpapi_test

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// unusual has the relations whose rows and keys are not like those of other tables.
const unusual = `
create table parted (id int, region text, v int, primary key (id, region)) partition by list (region);
create table parted_a partition of parted for values in ('a');
create table plain (id int primary key, v text);
create view seen as select * from plain;
create table always (id int generated always as identity primary key, v int);
create table later (id int primary key, o int unique deferrable initially deferred);
create table spot (id int primary key, at point, note jsonb);
insert into spot values (1, '(1,2)', '"x"');
create materialized view stale as select * from plain with no data;

create table guarded (id int primary key, what text, seen int default 0);
create function guard() returns trigger language plpgsql as $$ begin
	if new.what = 'no' then return null; end if;
	if new.what = 'pay' then raise sqlstate 'PT402' using message = 'pay', detail = 'first', hint = 'then ask'; end if;
	return new;
end $$;
create trigger guard before insert on guarded for each row execute function guard();

create table partly (id int primary key, a int default 1, secret int default 42);
insert into partly values (1, 1, 42);
grant select (id, a), insert (id, a), update (a) on partly to anon;
`

func startUnusual(t *testing.T) *servertest.Server {
	t.Helper()
	s := startShop(t, func(c *server.Config) { c.Auth.AnonymousAccess = true })
	s.Exec(t, s.Main, unusual)
	return s
}

func TestWritesSayWhatBecameOfRecords(t *testing.T) {
	t.Parallel()
	s := startUnusual(t)
	merge, returning := []string{"Prefer", "resolution=merge-duplicates"}, []string{"Prefer", "return=representation"}
	single := []string{"Accept", "application/vnd.pgrst.object+json"}
	runAll(t, s, []request{
		{name: "a new record of partitions", method: "PUT", path: "tables/parted/1,a", body: `{"v": 1}`, status: 201, want: `{"id":1,"region":"a","v":1}`,
			head: map[string]string{"Location": "/api/v1/tables/parted/1,a"}},
		{name: "the same again", method: "PUT", path: "tables/parted/1,a", body: `{"v": 2}`, want: `{"id":1,"region":"a","v":2}`, head: map[string]string{"Location": ""}},
		{name: "an upsert there", method: "POST", path: "tables/parted", headers: merge, body: `{"id":1,"region":"a","v":3}`, want: `{"id":1,"region":"a","v":3}`},
		{name: "through a view", method: "PUT", path: "tables/seen/1", body: `{"v": "x"}`, status: 201, want: `{"id":1,"v":"x"}`},
		{name: "through a view again", method: "PUT", path: "tables/seen/1", body: `{"v": "y"}`, want: `{"id":1,"v":"y"}`},
		{name: "an upsert of which the last is there", method: "POST", path: "tables/plain", headers: merge, body: `[{"id":2,"v":"n"},{"id":1,"v":"m"}]`, status: 201, want: `[{"id":2,"v":"n"},{"id":1,"v":"m"}]`},
		{name: "an identity that is always drawn", method: "POST", path: "tables/alwayss", body: `{"v": 1}`, status: 404, code: "PGRST205", want: "always"},
		{method: "POST", path: "tables/always", body: `{"v": 1}`, status: 201, want: `{"id":1,"v":1}`},
		{name: "is replaced, not made", method: "PUT", path: "tables/always/1", body: `{"v": 2}`, want: `{"id":1,"v":2}`},
		{method: "PUT", path: "tables/always/9", body: `{"v": 2}`, status: 404, code: "not_found", want: "9"},
		{name: "If-Match: * makes none", method: "PUT", path: "tables/plain/9", headers: []string{"If-Match", "*"}, body: `{"v": "x"}`, status: 404, code: "not_found", want: "9"},
		{name: "If-None-Match is not for writes", method: "PUT", path: "tables/plain/1", headers: []string{"If-None-Match", "*"}, body: `{"v": "x"}`, status: 400, code: "validation_error", want: "If-None-Match"},
		{name: "a trigger takes the record away", method: "POST", path: "tables/guarded", body: `{"id": 1, "what": "no"}`, status: 204, want: ""},
		{name: "of several", method: "POST", path: "tables/guarded", body: `[{"id": 1, "what": "no"}, {"id": 2}]`, status: 201, want: `[{"id":2,"what":null,"seen":0}]`},
		{name: "a trigger's own status", method: "POST", path: "tables/guarded", body: `{"id": 1, "what": "pay"}`, status: 402, code: "PT402", want: "then ask"},
		{name: "an upsert without a key", method: "POST", path: "tables/nokey", headers: merge, body: `{"a": 1}`, status: 400, code: "validation_error", want: "on_conflict"},
		{name: "an upsert by a key that is checked late", method: "POST", path: "tables/later?on_conflict=o", headers: merge, body: `{"id": 1, "o": 1}`, status: 400, code: "55000", want: "deferrable"},
		{name: "a view without rows yet", path: "tables/stale", status: 500, code: "55000", want: "REFRESH"},

		{name: "PostgREST's status of no records", method: "POST", path: "/rest/v1/plain", body: `[]`, status: 201, want: "", head: map[string]string{"Content-Range": "*/*"}},
		{method: "POST", path: "/rest/v1/guarded", body: `{"id": 1, "what": "no"}`, status: 201, want: ""},
		{name: "PostgREST's status of an upsert that inserts nothing", method: "POST", path: "/rest/v1/plain", headers: merge, body: `{"id":1,"v":"z"}`, status: 200, want: ""},
		{name: "PostgREST's ranges", method: "PATCH", path: "/rest/v1/plain?id=gt.0", body: `{"v":"z"}`, status: 204, want: "", head: map[string]string{"Content-Range": "0-1/*"}},
		{method: "DELETE", path: "/rest/v1/plain?id=eq.99", headers: []string{"Prefer", "count=exact"}, status: 204, want: "", head: map[string]string{"Content-Range": "*/0"}},
		{method: "PUT", path: "/rest/v1/plain?id=eq.1", headers: returning, body: `{"id":1,"v":"put"}`, want: `[{"id":1,"v":"put"}]`, head: map[string]string{"Content-Range": ""}},
		{name: "one object is asked for, without a representation", method: "PATCH", path: "/rest/v1/plain?id=gt.0", headers: single, body: `{"v":"two"}`, status: 406,
			want: `{"code":"PGRST116","details":"The result contains 2 rows","hint":null,"message":"Cannot coerce the result to a single JSON object"}`},
		{method: "DELETE", path: "/rest/v1/plain?id=gt.0", headers: single, status: 406, want: "*"},
		{method: "POST", path: "/rest/v1/plain", headers: single, body: `[{"id":7},{"id":8}]`, status: 406, want: "*"},
		{name: "nothing of it was done", path: "tables/plain?order=id", want: `[{"id":1,"v":"put"},{"id":2,"v":"z"}]`},
	})
	for _, r := range []request{
		{name: "a record of which some columns may be read", path: "tables/partly/1", want: `{"id":1,"a":1}`, head: map[string]string{"ETag": ""}},
		{name: "is replaced as far as it may be", method: "PUT", path: "tables/partly/1", body: `{"a": 2}`, want: `{"id":1,"a":2}`},
	} {
		r.run(t, s)
	}
}

func TestPatchesThatDoNotFit(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	document := []string{"Content-Type", "application/json-patch+json"}
	merge := []string{"Content-Type", "application/merge-patch+json"}
	runAll(t, s, []request{
		{name: "a test that fails", method: "PATCH", path: "tables/purchases/1", headers: document, body: `[{"op":"test","path":"/data/n","value":9},{"op":"remove","path":"/data/n"}]`, status: 409, code: "conflict", want: "test"},
		{name: "nothing to remove", method: "PATCH", path: "tables/purchases/1", headers: document, body: `[{"op":"remove","path":"/data/zz"}]`, status: 409, code: "conflict", want: "not there"},
		{name: "no such record", method: "PATCH", path: "tables/purchases/99", headers: document, body: `[{"op":"remove","path":"/data/zz"}]`, status: 404, code: "not_found", want: "99"},
		{name: "no operations", method: "PATCH", path: "tables/purchases/3?select=id", headers: document, body: `[]`, want: `{"id":3}`},
		{name: "nothing to merge", method: "PATCH", path: "tables/purchases/3?select=id", headers: merge, body: `{}`, want: `{"id":3}`},
		{name: "nothing to change", method: "PATCH", path: "tables/purchases/3?select=id", body: `{}`, want: `{"id":3}`},
		{name: "nothing to change of no record", method: "PATCH", path: "tables/purchases/99", headers: merge, body: `{}`, status: 404, code: "not_found", want: "99"},
		{name: "a version for nothing", method: "PATCH", path: "tables/purchases/3", headers: []string{"If-Match", `"1"`}, body: `{}`, status: 400, code: "validation_error", want: "If-Match"},
		{name: "nothing was changed", path: "tables/purchases/1?select=data", want: `{"data":{"n":1,"tags":["a","b"]}}`},
		{name: "related records and an upsert", method: "POST", path: "tables/customers", headers: []string{"Prefer", "resolution=merge-duplicates"},
			body: `{"id": 1, "name": "Ann", "purchase": [{"id": 9}]}`, status: 400, code: "validation_error", want: "nested=merge"},
	})
}

func TestNothingIsIgnored(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	s.Exec(t, s.Main, "create function add(a int, b int default 10) returns int language sql immutable as 'select a + b'")
	runAll(t, s, []request{
		{name: "If-Match on a list", path: "tables/customers", headers: []string{"If-Match", `"1"`}, status: 400, code: "validation_error", want: "single record"},
		{name: "If-Match on a record", path: "tables/customers/1", headers: []string{"If-Match", `"1"`}, status: 412, code: "precondition_failed", want: "changed"},
		{name: "a coding", method: "POST", path: "tables/customers", headers: []string{"Content-Encoding", "gzip"}, body: `{}`, status: 415, code: "unsupported_media_type", want: "gzip"},
		{name: "a charset", method: "POST", path: "tables/customers", headers: []string{"Content-Type", "application/json; charset=latin1"}, body: `{}`, status: 415, code: "unsupported_media_type", want: "UTF-8"},
		{name: "an override of another method", method: "PATCH", path: "tables/customers?id.eq=1", headers: []string{"X-HTTP-Method-Override", "DELETE"}, body: `{"vip":true}`, status: 400, code: "validation_error", want: "POST"},
		{name: "an argument that comes twice", path: "rpc/add?a=1&a=2", status: 400, code: "validation_error", want: `"a"`},
		{name: "as PostgREST does", path: "/rest/v1/rpc/add?a=1&a=2", want: `12`},
		{name: "the plan of a value", path: "rpc/add?a=1", headers: []string{"Accept", "application/vnd.pgrst.plan"}, status: 406, code: "PGRST107", want: "records"},
	})
	for _, name := range []string{"Range", "If-Match", "Content-Type", "Accept-Profile", "Content-Profile"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/tables/customers", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Service-Key", servertest.ServiceKey)
		req.Header[name] = []string{"0-0", "1-1"}
		resp, err := (&http.Client{Transport: servertest.Contract(t)}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("two headers %s: status %d", name, resp.StatusCode)
		}
	}
}

func TestPathsThatAreNotServed(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	runAll(t, s, []request{
		{path: "tables/", status: 404, code: "not_found", want: "nothing at this path"},
		{method: "TRACE", path: "tables/customers", status: 405, code: "method_not_allowed", want: "PATCH"},
		{method: "PUT", path: "rpc/add", status: 405, code: "method_not_allowed", want: "POST"},
		{path: "/rest/v1/", status: 404, want: `{"code":"PGRST125","details":null,"hint":null,"message":"Invalid path specified in request URL"}`},
		{path: "/rest/v1/customer/1", status: 404, want: `{"code":"PGRST125","details":null,"hint":null,"message":"Invalid path specified in request URL"}`},
		{method: "TRACE", path: "/rest/v1/customer", status: 405, want: `{"code":"PGRST117","details":null,"hint":"TRACE is not served here; GET, POST, DELETE, PATCH, PUT, HEAD, QUERY, OPTIONS is","message":"Unsupported HTTP method: TRACE"}`,
			head: map[string]string{"Allow": "GET, POST, DELETE, PATCH, PUT, HEAD, QUERY, OPTIONS"}},
		{name: "a plural is no name in PostgREST", path: "/rest/v1/customers", status: 404,
			want: `{"code":"PGRST205","details":null,"hint":"Perhaps you meant the table 'public.customer'","message":"Could not find the table 'public.customers' in the schema cache"}`},
	})
}

func TestBodiesThatBreakOff(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	for _, c := range []struct{ name, header, body string }{
		{"a chunk without a length", "Transfer-Encoding: chunked", "5\r\n{\"id\"\r\nzz\r\n\r\n"},
		{"a body that is shorter than it says", "Content-Length: 100", `{"id": 1}`},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = conn.Write([]byte("POST /api/v1/tables/customers HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nX-Service-Key: " +
			servertest.ServiceKey + "\r\n" + c.header + "\r\n\r\n" + c.body))
		_ = conn.(*net.TCPConn).CloseWrite()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", c.name, resp.StatusCode)
		}
		conn.Close()
	}
}

func TestCountsAndText(t *testing.T) {
	t.Parallel()
	s := startUnusual(t)
	s.Exec(t, s.Main, "insert into plain select g, repeat('x', 100) from generate_series(1, 2000) g")
	runAll(t, s, []request{
		{name: "count as a column", path: "tables/customers?select=id,purchase(count)&order=id", want: `[{"id":1,"purchase":[{"count":2}]},{"id":2,"purchase":[{"count":0}]},{"id":3,"purchase":[{"count":1}]}]`},
		{path: "tables/customers?select=vip,n:count&order=vip", want: `[{"vip":false,"n":2},{"vip":true,"n":1}]`},
		{path: "/rest/v1/customer?select=count", want: `[{"count":3}]`},
		{name: "an estimate refuses nothing", path: "tables/plain?select=id&order=id&offset=1998", headers: []string{"Prefer", "count=planned"}, status: 206, want: `[{"id":1999},{"id":2000}]`},
		{name: "and is not below what is seen", path: "tables/nokey?select=a&b=eq.x", headers: []string{"Prefer", "count=planned"}, status: 206, want: "*"},
		{name: "values without a JSON form of their own", path: "tables/spots", headers: []string{"Accept", "text/csv"}, want: "id,at,note\n1,\"(1,2)\",\"\"\"x\"\"\"\n"},
		{path: "tables/spots", want: `[{"id":1,"at":"(1,2)","note":"x"}]`},
	})
	// The range of rows that are on their way is not known from an estimate.
	resp, _ := call(t, s, "GET", "/api/v1/tables/plain", "", append(serviceKey(), "Prefer", "count=planned")...)
	if r := resp.Header.Get("Content-Range"); resp.StatusCode != 200 || !strings.HasPrefix(r, "*/") {
		t.Errorf("status %d, Content-Range %q", resp.StatusCode, r)
	}
}
