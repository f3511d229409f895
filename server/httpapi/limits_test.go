package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// A procedure that ends the transaction would go on without the role and the claims of the request.
func TestProceduresCannotEndTheTransaction(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	s.Exec(t, s.Main, `
		create table note (id int primary key, owner text);
		insert into note values (1, 'ann'), (2, 'bob');
		alter table note enable row level security;
		create procedure tidy() language plpgsql as $$ begin commit; delete from note; end $$;
		create procedure undo() language plpgsql as $$ begin rollback; delete from note; end $$;
		create procedure fine(inout n int) language plpgsql as $$ begin n := 1; end $$;
		grant all on note to authenticated; grant execute on all routines in schema public to authenticated`)
	user := "Bearer " + s.Token(t, uuid.New(), nil)
	for _, name := range []string{"tidy", "undo"} {
		request{method: "POST", path: "rpc/" + name, body: "{}", status: 400, code: "2D000", want: "COMMIT and ROLLBACK are not allowed"}.run(t, s, "Authorization", user)
		request{method: "POST", path: "tables", body: `[{"method": "POST", "table": "rpc/` + name + `"}]`, status: 400, code: "2D000", want: "COMMIT"}.run(t, s, "Authorization", user)
	}
	request{method: "POST", path: "rpc/fine", body: `{"n": 0}`, want: `{"n":1}`}.run(t, s, "Authorization", user)
	request{path: "tables/notes?select=id&order=id", want: `[{"id":1},{"id":2}]`}.run(t, s, serviceKey()...)
}

// What a request leaves with its session is not there for the next one.
func TestRequestsHandNothingOn(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) { cfg.Pool.Main = 1 })
	s.Exec(t, s.Main, `
		create schema hidden;
		create function hidden.leave() returns void language plpgsql security definer as $$ begin
			perform set_config('app.tenant', 'acme', false), pg_advisory_lock(42);
			if to_regclass('pg_temp.secret') is null then create temp table secret as select 'acme' as tenant; end if;
			if not exists (select from pg_prepared_statements where name = 'own') then execute 'prepare own as select 1'; end if;
			listen chatter;
		end $$;
		create function hidden.left_behind() returns text language sql as $$ select concat_ws(' ',
			nullif(current_setting('app.tenant', true), ''),
			(select 'lock' from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and objid = 42),
			(select 'table' where to_regclass('pg_temp.secret') is not null),
			(select 'statement' from pg_prepared_statements where from_sql),
			(select 'channel' from pg_listening_channels())) $$;
		create function leave() returns int language plpgsql as $$ begin perform hidden.leave(); return 1; end $$;
		create procedure leave_by_call() language plpgsql as $$ begin perform hidden.leave(); end $$;
		create function left_behind() returns text stable language sql as 'select hidden.left_behind()';
		grant usage on schema hidden to public;
		create table plain (id int primary key);
		create table touched (id int primary key);
		create function hidden.touch() returns trigger language plpgsql as $$ begin perform hidden.leave(); return new; end $$;
		create trigger t before insert on touched for each row execute function hidden.touch();
		create function label(plain) returns text language plpgsql stable as $$ begin perform set_config('app.tenant', 'acme', false); return 'x'; end $$;
		create view seen as select set_config('app.tenant', 'acme', false) as tenant;
		insert into plain values (1);`)
	left := func(what string) {
		t.Helper()
		if _, got := call(t, s, "POST", "/api/v1/rpc/left_behind", "{}", serviceKey()...); got != `""` {
			t.Errorf("%s leaves %s", what, got)
		}
	}
	left("nothing")
	for _, r := range []request{
		{method: "POST", path: "rpc/leave", body: "{}", want: "1"},
		{method: "POST", path: "rpc/leave", body: "{}", headers: []string{"Prefer", "tx=rollback"}, want: "1"},
		{method: "POST", path: "rpc/leave_by_call", body: "{}", status: 204},
		{method: "POST", path: "tables/touched", body: `{"id": 1}`, status: 201, want: `{"id":1}`},
		{method: "POST", path: "tables/touched", body: `{"id": 1}`, status: 409, code: "23505"},
		{method: "POST", path: "tables", body: `[{"method": "POST", "table": "plain", "body": {"id": 7}}, {"method": "POST", "table": "rpc/leave"}]`, want: "*"},
		{method: "POST", path: "tables", body: `[{"method": "POST", "table": "rpc/leave"}, {"method": "POST", "table": "plain", "body": {"id": 1}}]`, status: 409, code: "23505"},
		{path: "tables/plain?select=label&id.eq=1", want: `[{"label":"x"}]`},
		{path: "tables/seen", want: `[{"tenant":"acme"}]`},
	} {
		r.run(t, s, serviceKey()...)
		left(r.method + " " + r.path)
	}
}

// dial sends a request over a connection of its own.
func dial(t *testing.T, s *servertest.Server, request string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Clients that do not read what they asked for do not keep others from the database.
func TestSlowReadersLeaveConnectionsToOthers(t *testing.T) {
	t.Parallel()
	const connections = 4
	s := servertest.Start(t, func(cfg *server.Config) {
		cfg.Pool.Main, cfg.Pool.Wait = connections, 30*time.Second
		cfg.Auth.AnonymousAccess = true
	})
	s.Exec(t, s.Main, `create table long (id int primary key, body text); insert into long select g, repeat('x', 1000) from generate_series(1, 60000) g;
		grant select on long to anon, authenticated`)
	for i := range 3 * connections {
		credential := ""
		switch i % 3 {
		case 0:
			credential = "X-Service-Key: " + servertest.ServiceKey + "\r\n"
		case 1:
			credential = "Authorization: Bearer " + s.Token(t, uuid.New(), nil) + "\r\n"
		}
		conn := dial(t, s, "GET /api/v1/tables/long HTTP/1.1\r\nHost: localhost\r\n"+credential+"\r\n")
		// Each has begun to stream, or waits for a connection.
		go func() { _, _ = bufio.NewReaderSize(conn, 16).ReadByte() }()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second) // less than a client may stall
	defer cancel()
	for range 10 {
		req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/v1/tables/long/1?select=id", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Service-Key", servertest.ServiceKey)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("others are not served: %v", err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || string(body) != `{"id":1}` {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
	}
}

// An answer that a client takes too slowly is aborted, and does not look complete.
func TestSlowReadersAreGivenUp(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) { cfg.HTTP.MinRate, cfg.HTTP.Grace = 1<<30, time.Second })
	s.Exec(t, s.Main, `create table long (id int primary key, body text); insert into long select g, repeat('x', 1000) from generate_series(1, 60000) g`)
	for name, headers := range map[string]string{"streamed": "", "held": "If-None-Match: \"x\"\r\n"} {
		conn := dial(t, s, "GET /api/v1/tables/long HTTP/1.1\r\nHost: localhost\r\n"+headers+"X-Service-Key: "+servertest.ServiceKey+"\r\n\r\n")
		// The server waits for the client until it gives up. Had it not, all would come now.
		time.Sleep(5 * time.Second)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err == nil {
			t.Errorf("%s: the client has all %d bytes", name, n)
		}
	}
}

func TestLargeAnswersAreBounded(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) {
		cfg.API.MaxRecord, cfg.API.MaxHeld, cfg.API.MaxColumns = 2<<20, 1<<20, 50
	})
	s.Exec(t, s.Main, `create table doc (id int primary key, body text, n int); insert into doc values (1, repeat('x', 500000), 0);
		insert into doc select g, repeat('y', 100000), 0 from generate_series(2, 30) g;
		create function grow() returns setof text language plpgsql as $$ begin update doc set n = -1 where id = 1; return query select body from doc; end $$;
		create function docs() returns setof doc stable language sql as 'select * from doc'`)
	aliases := func(n int) string {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf("a%d:body", i)
		}
		return strings.Join(items, ",")
	}
	key := serviceKey()
	request{path: "tables/docs?select=" + aliases(51), status: 400, code: "validation_error", want: "select has 51 items"}.run(t, s, key...)
	request{path: "tables/docs?select=id,doc(" + aliases(50) + ")", status: 400, code: "validation_error", want: "select has 52 items"}.run(t, s, key...)
	request{path: "rpc/docs?select=" + aliases(51), status: 400, code: "validation_error", want: "select has 51 items"}.run(t, s, key...)
	request{method: "POST", path: "tables", body: `[{"method": "GET", "table": "docs", "query": {"select": "` + aliases(51) + `"}}]`, status: 400, code: "validation_error"}.run(t, s, key...)
	request{path: "tables/docs?id.eq=1&select=" + aliases(40), status: 400, code: "too_large", want: "one of the records"}.run(t, s, key...)
	request{path: "tables/docs/1?select=" + aliases(40), status: 400, code: "too_large", want: "one of the records"}.run(t, s, key...)
	request{path: "tables/docs/1?select=" + aliases(3), status: 400, code: "too_large", want: "1048576 bytes"}.run(t, s, key...)
	request{path: "tables/docs?id.eq=1&select=" + aliases(3), want: "*"}.run(t, s, key...)
	request{path: "tables/docs", want: "*"}.run(t, s, key...)

	// A write is done, and says so; one that is to be decided before the commit is not.
	request{method: "PATCH", path: "tables/docs?@all=true", body: `{"n": 1}`, status: 400, code: "too_large", want: "the changes were made"}.run(t, s, key...)
	request{path: "tables/docs?select=n&@distinct=", want: `[{"n":1}]`}.run(t, s, key...)
	request{method: "PATCH", path: "tables/docs?@all=true", headers: []string{"Prefer", "handling=strict, max-affected=100"}, body: `{"n": 2}`, status: 400, code: "too_large", want: "nothing was changed"}.run(t, s, key...)
	request{path: "tables/docs?select=n&@distinct=", want: `[{"n":1}]`}.run(t, s, key...)
	request{method: "PATCH", path: "tables/docs?@all=true", headers: []string{"Prefer", "return=minimal"}, body: `{"n": 3}`, status: 204}.run(t, s, key...)
	request{method: "POST", path: "rpc/grow", body: "{}", status: 400, code: "too_large", want: "the changes were made"}.run(t, s, key...)
	request{method: "POST", path: "tables", body: `[{"method": "PATCH", "table": "docs", "query": {"@all": true}, "body": {"n": 4}}]`, status: 400, code: "too_large", want: "nothing was changed"}.run(t, s, key...)
	request{path: "tables/docs?select=n&@distinct=&order=n", want: `[{"n":-1},{"n":3}]`}.run(t, s, key...)
}

// Whoever sends a body must send it, whatever it is for.
func TestSlowBodiesAreGivenUp(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) { cfg.HTTP.MinRate, cfg.HTTP.Grace = 1000, time.Second })
	s.Exec(t, s.Main, "create table note (id int primary key, body text)")
	key := "X-Service-Key: " + servertest.ServiceKey + "\r\n"
	for _, c := range []struct {
		method, path, headers, body string
		status                      int // 0 where the connection may just be closed
	}{
		{"POST", "/api/v1/tables/notes", key + "Content-Type: application/json\r\n", `{"id": 1`, 408},
		{"POST", "/rest/v1/note", key + "Content-Type: application/json\r\n", `{"id": 1`, 408},
		{"POST", "/api/v1/tables", key + "Content-Type: application/json\r\n", `[`, 408},
		{"QUERY", "/api/v1/tables/notes", key + "Content-Type: application/x-www-form-urlencoded\r\n", `id=`, 408},
		{"POST", "/api/v1/rpc/anything", key + "Content-Type: application/json\r\n", `{`, 408},
		{"POST", "/api/v1/admin/branches", key + "Content-Type: application/json\r\n", `{"name": `, 408},
		{"POST", "/api/v1/auth/signin", "Content-Type: application/json\r\n", `{"email": `, 408},
		{"POST", "/oauth/token", "Content-Type: application/x-www-form-urlencoded\r\n", `grant_type=`, 0},
		{"POST", "/oauth/register", "Content-Type: application/json\r\n", `{`, 0},
		{"POST", "/mcp", key + "Content-Type: application/json\r\n", `{`, 408},
		{"POST", "/mcp", "Content-Type: application/json\r\n", `{`, 401},
		{"POST", "/api/v1/tables/notes", "Content-Type: application/json\r\n", `{`, 401},
		{"POST", "/nowhere", "Content-Type: application/json\r\n", `{`, 404},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, s, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: 100000\r\n\r\n%s",
				c.method, c.path, strings.TrimPrefix(s.URL, "http://"), c.headers, c.body))
			if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(conn) // to the end of the connection
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Fatalf("the connection stays open; so far: %s", data)
			}
			status := ""
			if c.status != 0 {
				status = fmt.Sprintf("HTTP/1.1 %d ", c.status)
			}
			if !strings.HasPrefix(string(data), status) {
				t.Errorf("got %q, want %s", data, status)
			}
		})
	}
	// A connection goes on after a body that came in time.
	conn := dial(t, s, "")
	in := bufio.NewReader(conn)
	for i := range 3 {
		if i == 2 {
			time.Sleep(2 * time.Second) // longer than the grace
		}
		body := fmt.Sprintf(`{"id": %d}`, i)
		if _, err := fmt.Fprintf(conn, "POST /api/v1/tables/notes HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", key, len(body), body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 201 {
			t.Errorf("status %d, %v", resp.StatusCode, err)
		}
		_ = resp.Body.Close()
	}
}
