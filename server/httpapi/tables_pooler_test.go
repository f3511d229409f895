package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/pgtest"
	"github.com/boughdb/bough/server/servertest"
)

// marked is what the rows of the tests of poolers say about themselves: their table, and whose they are.
type marked struct {
	Mark  string
	Owner uuid.UUID
	Kids  []marked
}

// poolerTables are tables that differ in nothing but their rows' marks, so that only these tell which one was read.
const poolerTables = 8

func poolerSchema() string {
	var b strings.Builder
	for i := range poolerTables {
		fmt.Fprintf(&b, `
			create table m%[1]d (id bigint generated always as identity primary key, owner uuid not null default auth.uid(), mark text not null default 'm%[1]d', n int not null default 0);
			create table k%[1]d (id bigint generated always as identity primary key, parent bigint references m%[1]d on delete cascade, owner uuid not null default auth.uid(), mark text not null default 'k%[1]d');
			alter table m%[1]d enable row level security; alter table k%[1]d enable row level security;
			create policy own on m%[1]d using (owner = auth.uid()); create policy own on k%[1]d using (owner = auth.uid());
			grant all on m%[1]d, k%[1]d to authenticated;
			create function f%[1]d(n int) returns table (mark text, owner uuid, n int) language sql stable as $$ select 'm%[1]d', auth.uid(), n $$;`, i)
	}
	return b.String()
}

// Behind a pooler every answer is the right table's and the right caller's, whatever is prepared in the sessions.
func TestAnswersBehindPoolers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pooler, setting string
		direct          bool // whether there is a URL around the pooler
	}{
		"session mode":     {"session", "auto", false},
		"transaction mode": {"transaction", "auto", true},
		"transaction mode without a way around it": {"transaction", "transaction", false},
		"transaction mode, said to be session":     {"transaction", "session", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Databases(t)
			direct := s.Main
			// A session for each of the server's connections, but not for each transaction's.
			sessions := map[string]int{"session": 40, "transaction": 4}[c.pooler]
			s.Main = pgtest.Bouncer(t, direct, c.pooler, sessions)
			control := s.Control
			if c.pooler == "session" {
				control = pgtest.Bouncer(t, s.Control, c.pooler, 80)
			}
			s.Run(t, func(cfg *server.Config) {
				cfg.ControlDatabaseURL, cfg.Pool.Main, cfg.Pool.Mode = control, 16, c.setting
				if c.direct {
					cfg.DatabaseDirectURL = direct
				}
			})
			s.Exec(t, direct, poolerSchema())
			eventually(t, "the tables", func() bool {
				resp, _ := call(t, s, "GET", fmt.Sprintf("/api/v1/tables/k%d", poolerTables-1), "", serviceKey()...)
				return resp.StatusCode == 200
			})
			var wg sync.WaitGroup
			for range 16 {
				user := uuid.New()
				u := poolerUser{s, user, []string{"Authorization", "Bearer " + s.Token(t, user, nil)}}
				wg.Go(func() {
					for round := range 3 {
						for table := range poolerTables {
							u.work(t, (table+round)%poolerTables, round)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// poolerUser is a caller who owns rows in all tables.
type poolerUser struct {
	s       *servertest.Server
	id      uuid.UUID
	headers []string
}

// rows makes a request and checks each row of the answer.
func (u *poolerUser) rows(t *testing.T, table int, want int, method, path, body string, headers ...string) {
	t.Helper()
	resp, answer := call(t, u.s, method, fmt.Sprintf(path, table), body, append(headers, u.headers...)...)
	if resp.StatusCode/100 != 2 {
		t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, answer)
		return
	}
	var got []marked
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		var one marked
		if err := json.Unmarshal([]byte(answer), &one); err != nil {
			t.Errorf("%s %s: %s", method, path, answer)
			return
		}
		got = []marked{one}
	}
	if len(got) != want {
		t.Errorf("%s %s: %d rows instead of %d: %s", method, fmt.Sprintf(path, table), len(got), want, answer)
	}
	for _, m := range got {
		if m.Mark != fmt.Sprint("m", table) || m.Owner != u.id {
			t.Errorf("%s %s for %s: a row of %s, %s", method, fmt.Sprintf(path, table), u.id, m.Mark, m.Owner)
		}
		for _, k := range m.Kids {
			if k.Mark != fmt.Sprint("k", table) || k.Owner != u.id {
				t.Errorf("%s %s for %s: an embedded row of %s, %s", method, fmt.Sprintf(path, table), u.id, k.Mark, k.Owner)
			}
		}
	}
}

// work goes through the operations on a table, of which each leaves it as the next one expects.
func (u *poolerUser) work(t *testing.T, table, round int) {
	t.Helper()
	const path = "/api/v1/tables/m%d"
	u.rows(t, table, 2, "POST", path+"?select=mark,owner", `[{"n": 1}, {"n": 2}]`)
	u.rows(t, table, 2, "GET", path+"?order=id", "")
	u.rows(t, table, 1, "GET", path+"?n=eq.1&select=*,kids:k"+fmt.Sprint(table)+"(mark,owner)", "")
	u.rows(t, table, 2, "GET", "/rest/v1/m%d?limit=5", "", "Prefer", "count=exact")
	u.rows(t, table, 1, "PATCH", path+"?n=eq.2", `{"n": 3}`)
	u.rows(t, table, 1, "POST", "/api/v1/rpc/f%d?select=mark,owner", fmt.Sprintf(`{"n": %d}`, round))
	// A transaction of several round trips.
	u.rows(t, table, 1, "PATCH", "/rest/v1/m%d?n=eq.3", `{"n": 4}`, "Prefer", "return=representation, handling=strict, max-affected=1")
	u.batch(t, table)
	u.rows(t, table, 0, "GET", path+"?n=eq.77", "")
	resp, answer := call(t, u.s, "GET", fmt.Sprintf("/api/v1/tables/m%d?n=eq.x", table), "", u.headers...)
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a number that is none: %d %s", resp.StatusCode, answer)
	}
	u.rows(t, table, 2, "DELETE", path+"?n=gt.0", "")
}

// batch changes a row and reads it in one transaction of two round trips.
func (u *poolerUser) batch(t *testing.T, table int) {
	t.Helper()
	body := fmt.Sprintf(`[{"method": "PATCH", "table": "m%d", "query": {"n.eq": 4}, "body": {"n": 5}}, {"method": "GET", "table": "m%[1]d", "query": {"n.eq": 5}}]`, table)
	resp, answer := call(t, u.s, "POST", "/api/v1/tables", body, u.headers...)
	var results []struct{ Body []marked }
	if err := json.Unmarshal([]byte(answer), &results); err != nil || resp.StatusCode != 200 || len(results) != 2 {
		t.Errorf("batch: %d %s", resp.StatusCode, answer)
		return
	}
	for _, r := range results {
		if len(r.Body) != 1 || r.Body[0].Mark != fmt.Sprint("m", table) || r.Body[0].Owner != u.id {
			t.Errorf("batch on table %d for %s: %s", table, u.id, answer)
		}
	}
}
