package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boughdb/bough/gen/client"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// Main and a branch have a table of the same name with other columns. Requests at the same time never see the other's.
func TestMainAndBranchesAreNeverMixed(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, "create table thing (id int primary key, name text); insert into thing select g, 'main' from generate_series(1, 20) g")
	c := s.Service(t)
	branch := create(t, c, full("other"))
	s.Exec(t, database(t, c, branch.Slug), "alter table thing drop column name; alter table thing add column weight numeric default 1.50; update thing set id = id + 1000")
	wants := map[string]string{"": `{"id":1,"name":"main"}`, branch.Slug: `{"id":1001,"weight":1.50}`, branch.ID.String(): `{"id":1001,"weight":1.50}`}
	var wg sync.WaitGroup
	for ref, want := range wants {
		for range 4 {
			wg.Go(func() {
				headers := serviceKey()
				if ref != "" {
					headers = append(headers, "X-Branch", ref)
				}
				for range 40 {
					resp, body := call(t, s, "GET", "/api/v1/tables/things?order=id&limit=1", "", headers...)
					if resp.StatusCode != 200 || body != "["+want+"]" {
						t.Errorf("branch %q: %d %s", ref, resp.StatusCode, body)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	on := func(ref string) []string { return append(serviceKey(), "X-Branch", ref) }
	request{path: "tables/things?select=name&limit=1", status: 400, code: "42703", want: "name"}.run(t, s, on(branch.Slug)...)
	request{method: "POST", path: "tables/things", body: `{"id": 1, "weight": 2}`, status: 201, want: `{"id":1,"weight":2}`}.run(t, s, on(branch.Slug)...)
	request{path: "tables/things/1", want: `{"id":1,"name":"main"}`}.run(t, s, serviceKey()...)
	request{path: "tables/things", status: 404, code: "branch_not_found", want: "nowhere"}.run(t, s, on("nowhere")...)
	request{path: "tables", want: "*"}.run(t, s, on("main")...)

	// A reset brings main's columns, a deletion takes the branch away.
	must[*client.ResetBranchResponse](t, 200)(c.ResetBranchWithResponse(t.Context(), branch.Slug))
	eventually(t, "main's columns in the branch", func() bool {
		resp, body := call(t, s, "GET", "/api/v1/tables/things/1", "", on(branch.Slug)...)
		return resp.StatusCode == 200 && body == `{"id":1,"name":"main"}`
	})
	must[*client.DeleteBranchResponse](t, 204)(c.DeleteBranchWithResponse(t.Context(), branch.Slug, nil))
	eventually(t, "the end of the branch", func() bool {
		resp, _ := call(t, s, "GET", "/api/v1/tables/things/1", "", on(branch.Slug)...)
		return resp.StatusCode == 404
	})
}

// Changes of the schema under load fail no request, and are seen at once.
func TestSchemaChangesUnderLoad(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, "create table thing (id int primary key, name text default 'x'); insert into thing select g from generate_series(1, 50) g")
	var stop atomic.Bool
	var served atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	for i := range 4 {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				method, path, body := "GET", "/api/v1/tables/things?order=id&limit=5", ""
				if i == 0 {
					method, path, body = "PATCH", fmt.Sprintf("/api/v1/tables/things/%d", n%50+1), `{"name": "y"}`
				}
				if resp, answer := call(t, s, method, path, body, serviceKey()...); resp.StatusCode != 200 {
					t.Errorf("%s: %d %s", method, resp.StatusCode, answer)
					return
				}
				served.Add(1)
			}
		})
	}
	for i := range 15 {
		s.Exec(t, s.Main, fmt.Sprintf("alter table thing add column c%d int default %d", i, i))
		request{path: fmt.Sprintf("tables/things/1?select=id,c%d", i), want: fmt.Sprintf(`{"id":1,"c%d":%d}`, i, i)}.run(t, s, serviceKey()...)
		if i%3 == 2 {
			s.Exec(t, s.Main, fmt.Sprintf("alter table thing alter column c%d type text; alter table thing drop column c%d", i, i-1))
		}
		s.Exec(t, s.Main, fmt.Sprintf("create table fresh%d (id int primary key)", i))
		request{path: fmt.Sprintf("tables/fresh%d", i), want: `[]`}.run(t, s, serviceKey()...)
	}
	if served.Load() == 0 {
		t.Error("no request was served meanwhile")
	}
}

// A long answer takes little memory, however slowly it is read, and ends as it should.
func TestLongAnswersAreStreamed(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	const rows = 400_000
	s.Exec(t, s.Main, fmt.Sprintf("create view long as select g as id, repeat('x', 100) as text from generate_series(1, %d) g", rows))
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/api/v1/tables/long", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Service-Key", servertest.ServiceKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	dec := json.NewDecoder(in)
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	n, most := 0, uint64(0)
	for ; dec.More(); n++ {
		var record struct{ ID int }
		if err := dec.Decode(&record); err != nil || record.ID != n+1 {
			t.Fatalf("record %d: %+v, %v", n, record, err)
		}
		if n%40_000 == 0 {
			time.Sleep(20 * time.Millisecond) // a slow reader
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
		}
	}
	if n != rows {
		t.Errorf("%d records, want %d", n, rows)
	}
	// The whole answer has 50 MB. Other tests share the process.
	if grown := int64(most) - int64(before.HeapInuse); grown > 25<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
}

// An answer that fails half-way does not look complete.
func TestBrokenAnswersDoNotLookWhole(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, "create view broken as select g as id, repeat('x', 100) as text, 1 / (20000 - g) as d from generate_series(1, 30000) g")
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/api/v1/tables/broken", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Service-Key", servertest.ServiceKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the answer of %d bytes ended well: …%s", len(body), body[len(body)-40:])
	}
	request{path: "tables/broken?id.lte=2&select=id", want: `[{"id":1},{"id":2}]`}.run(t, s, serviceKey()...)
	request{path: "tables/broken?id.gte=20000&limit=1", status: 400, code: "22012", want: "division by zero"}.run(t, s, serviceKey()...)
}

// A client that goes away takes its statement with it, and a statement that takes too long is given up.
func TestStatementsEndWithTheirRequests(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(c *server.Config) { c.API.StatementTimeout = 2 * time.Second })
	s.Exec(t, s.Main, "create function nap(seconds float) returns int language plpgsql as $$begin perform pg_sleep(seconds); return 1; end$$; create table t (id int primary key)")
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/v1/rpc/nap", strings.NewReader(`{"seconds": 60}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Service-Key", servertest.ServiceKey)
	time.AfterFunc(300*time.Millisecond, cancel)
	if _, err := http.DefaultClient.Do(req); err == nil {
		t.Fatal("the request was answered")
	}
	napping := func() bool {
		return servertest.Value[int64](t, s.Main, "select count(*) from pg_stat_activity where datname = current_database() and state = 'active' and query like '%nap%' and pid <> pg_backend_pid()") > 0
	}
	eventually(t, "the end of the statement", func() bool { return !napping() })
	began := time.Now()
	request{method: "POST", path: "rpc/nap", body: `{"seconds": 60}`, status: 503, code: "57014", want: "too long"}.run(t, s, serviceKey()...)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it was given up after %s", took)
	}
	eventually(t, "the end of the statement", func() bool { return !napping() })
	request{method: "POST", path: "tables/ts", body: `{"id": 1}`, status: 201, want: `{"id":1}`}.run(t, s, serviceKey()...)
}

// Deferred constraints fail at the end, and then nothing has been answered or done.
func TestDeferredConstraints(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, "create table parent (id int primary key); create table child (id int primary key, parent int references parent deferrable initially deferred)")
	request{method: "POST", path: "tables/children", body: `{"id": 1, "parent": 7}`, status: 409, code: "23503", want: "foreign key"}.run(t, s, serviceKey()...)
	request{path: "tables/children", want: `[]`}.run(t, s, serviceKey()...)
	request{method: "POST", path: "tables", body: `[{"method": "POST", "table": "children", "body": {"id": 1, "parent": 7}}, {"method": "POST", "table": "parents", "body": {"id": 7}}]`,
		want: `[{"status":201,"body":{"id":1,"parent":7}},{"status":201,"body":{"id":7}}]`}.run(t, s, serviceKey()...)
}

// Queries too long for a URL come in the body.
func TestLongQueries(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	ids := "id.in=(" + strings.Repeat("9999,", 20_000) + "2)"
	request{method: "QUERY", path: "tables/customers?select=id", headers: form, body: ids, want: `[{"id":2}]`}.run(t, s, serviceKey()...)
	request{method: "POST", path: "tables/customers?select=id", headers: append(form, "X-HTTP-Method-Override", "GET"), body: ids, want: `[{"id":2}]`}.run(t, s, serviceKey()...)
	request{method: "POST", path: "tables/lines", headers: append(form, "X-HTTP-Method-Override", "DELETE"), body: "purchase_id.eq=2&select=product", want: `[{"product":"tea"}]`}.run(t, s, serviceKey()...)
}
