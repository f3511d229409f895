package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/boughdb/bough/server/servertest"
)

// A statement that was prepared keeps the types of its parameters when those of the columns change.
func TestColumnTypesChange(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, "create table thing (id int primary key, v date); insert into thing values (1, '2026-01-01'), (2, '2026-01-02')")
	steps := func(value, more, as string) {
		t.Helper()
		runAll(t, s, []request{
			{path: "tables/thing?select=id&v.eq=" + value, want: `[{"id":1}]`},
			{path: "tables/thing?select=id&v.gt=" + more, want: `[{"id":2}]`},
			{method: "PATCH", path: "tables/thing/1", body: `{"v": "` + value + `"}`, want: `{"id":1,"v":"` + as + `"}`},
			{method: "PUT", path: "tables/thing/1", body: `{"v": "` + value + `"}`, want: `{"id":1,"v":"` + as + `"}`},
			{method: "POST", path: "tables", body: `[{"method":"PATCH","table":"thing","id":1,"body":{"v":"` + value + `"}}]`, want: `[{"status":200,"body":{"id":1,"v":"` + as + `"}}]`},
			{path: "tables/thing/1", want: `{"id":1,"v":"` + as + `"}`},
		})
	}
	for range 2 {
		steps("2026-01-01", "2026-01-01", "2026-01-01")
	}
	s.Exec(t, s.Main, "alter table thing alter v type timestamp; update thing set v = '2026-01-01 12:30:00' where id = 1")
	// Noon is lost where the parameter is still a date.
	known := func(where, want string) {
		t.Helper()
		eventually(t, "the new type is known", func() bool {
			_, body := call(t, s, "GET", "/api/v1/tables/thing?"+where, "", serviceKey()...)
			return body == want
		})
	}
	known("select=v&id.eq=1", `[{"v":"2026-01-01T12:30:00"}]`)
	for range 2 {
		steps("2026-01-01T12:30:00", "2026-01-01T12:30:00", "2026-01-01T12:30:00")
	}
	s.Exec(t, s.Main, "alter table thing alter v type text")
	known("select=id&v.eq=none", `[]`)
	s.Exec(t, s.Main, "update thing set v = id::text")
	steps("1", "1", "1")
	s.Exec(t, s.Main, "alter table thing alter id type text; alter table thing alter v type int using v::int")
	known("select=id,v&id=eq.1", `[{"id":"1","v":1}]`)
	for range 2 {
		request{path: "tables/thing/1", want: `{"id":"1","v":1}`}.run(t, s, serviceKey()...)
		request{method: "PATCH", path: "tables/thing/1", body: `{"v": 1}`, want: `{"id":"1","v":1}`}.run(t, s, serviceKey()...)
	}
}

// A connection that breaks is the server's matter: the client may ask again, and then is served.
func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	s.Exec(t, s.Main, "create function nap(seconds float) returns int language plpgsql as $$begin perform pg_sleep(seconds); return 1; end$$")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			resp, body := call(t, s, "POST", "/api/v1/rpc/nap", `{"seconds": 30}`, serviceKey()...)
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
				t.Errorf("status %d, %s", resp.StatusCode, body)
			}
		})
	}
	napping := "from pg_stat_activity where datname = current_database() and state = 'active' and query like '%nap%' and pid <> pg_backend_pid()"
	eventually(t, "the statements have begun", func() bool { return servertest.Value[int64](t, s.Main, "select count(*) "+napping) == 4 })
	s.Exec(t, s.Main, "do $$ begin perform pg_terminate_backend(pid) "+napping+"; end $$")
	wg.Wait()
	for range 8 {
		request{path: "tables/customers?select=id&id.eq=1", want: `[{"id":1}]`}.run(t, s, serviceKey()...)
	}
}

func TestOneOfManyChangesWins(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	for _, method := range []string{"PATCH", "PUT", "DELETE"} {
		resp, _ := call(t, s, "GET", "/api/v1/tables/customers/2", "", serviceKey()...)
		tag := resp.Header.Get("ETag")
		var mu sync.Mutex
		var wg sync.WaitGroup
		statuses := map[int]int{}
		for i := range 20 {
			wg.Go(func() {
				body := fmt.Sprintf(`{"name": "B%d"}`, i)
				if method == "DELETE" {
					body = ""
				}
				resp, _ := call(t, s, method, "/api/v1/tables/customers/2", body, append(serviceKey(), "If-Match", tag)...)
				mu.Lock()
				statuses[resp.StatusCode]++
				mu.Unlock()
			})
		}
		wg.Wait()
		done := http.StatusOK
		if method == "DELETE" {
			done = http.StatusNoContent
		}
		diff(t, method, map[int]int{done: 1, 412: 19}, statuses)
	}
}

// A cursor leads through every record, whatever the request's query string is written with.
func TestLinksAreURLs(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	resp, _ := call(t, s, "GET", `/api/v1/tables/purchases?select=id&order=data->n,id&data->>"zz".is.null&limit=2&@cursor=`, "", serviceKey()...)
	link, relation, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
	if relation != `; rel="next"` {
		t.Fatalf("Link: %q", resp.Header.Get("Link"))
	}
	request{path: link, want: `[{"id":3}]`}.run(t, s, serviceKey()...)
}
