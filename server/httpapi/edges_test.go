package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/boughdb/bough/gen/api"
	"github.com/boughdb/bough/server"
	"github.com/boughdb/bough/server/servertest"
)

// What an answer varies with is all said: the page's origin, the caller, the form.
func TestVaryIsKept(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) {
		cfg.CORS.Origins, cfg.Auth.AnonymousAccess = []string{"https://app.example", "https://b.example"}, true
	})
	s.Exec(t, s.Main, "create table notes (id int primary key); insert into notes values (1); grant select on notes to anon, authenticated")
	for _, path := range []string{"/api/v1/tables/notes", "/rest/v1/notes", "/api/v1/tables/notes/1", "/api/v1/tables/none", "/openapi.json", "/api/v1/admin/branches"} {
		for name, headers := range map[string][]string{"service": {"X-Service-Key", servertest.ServiceKey}, "wrong key": {"X-Client-Key", "bough_ck_x"}, "nobody": nil} {
			resp, _ := call(t, s, "GET", path, "", append([]string{"Origin", "https://app.example"}, headers...)...)
			varies := strings.Join(resp.Header.Values("Vary"), ", ")
			want := []string{"Origin", "Authorization"}
			if strings.Contains(path, "notes") && resp.StatusCode == http.StatusOK {
				want = append(want, "Accept", "X-Branch", "Prefer")
			}
			for _, name := range want {
				if !slices.Contains(strings.Split(varies, ", "), name) {
					t.Errorf("%s by %s: Vary is %q", path, name, varies)
				}
			}
			checkCaching(t, path+" by "+name, resp.Header, headers != nil)
			if headers == nil && strings.Contains(resp.Header.Get("Cache-Control"), "private") {
				t.Errorf("%s by nobody is private", path)
			}
		}
	}
	resp, _ := call(t, s, "GET", "/api/v1/tables/notes/1", "", "X-Service-Key", servertest.ServiceKey)
	resp, _ = call(t, s, "GET", "/api/v1/tables/notes/1", "", "X-Service-Key", servertest.ServiceKey, "If-None-Match", resp.Header.Get("ETag"))
	diff(t, "conditional", 304, resp.StatusCode)
	checkCaching(t, "304", resp.Header, true)
}

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// of are the lines that contain the text.
func (l *lines) of(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// A body that breaks off, or is no body, is the client's fault: it is answered with 4xx and is nothing for the operator.
func TestBrokenBodiesAreTheClients(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	log := &lines{}
	s.Log = log
	s.Run(t, unlimited, withMCP)
	s.Exec(t, s.Main, "create table notes (id int primary key)")
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(s.URL, "http://")
	media := []string{"application/json", "application/x-www-form-urlencoded"}
	bodies := map[string]string{
		"too short":           "Content-Length: 100\r\n\r\n{\"a\":",
		"no chunk":            "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
		"chunk too short":     "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"a",
		"chunk without end":   "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
		"chunk without break": "Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n",
	}
	requests := 0
	for _, path := range slices.Sorted(maps.Keys(spec.Paths.Map())) {
		for method, op := range spec.Paths.Map()[path].Operations() {
			if op.RequestBody == nil {
				continue
			}
			id := strings.ToLower(op.OperationID[:1]) + op.OperationID[1:]
			target := decisions[id].target(path, slices.Concat(spec.Paths.Map()[path].Parameters, op.Parameters), "main")
			for name, body := range bodies {
				for _, credential := range []string{"", "X-Service-Key: " + servertest.ServiceKey + "\r\n"} {
					conn, err := net.Dial("tcp", host)
					if err != nil {
						t.Fatal(err)
					}
					requests++
					fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\n%s%s", method, target, host, media[requests%2], credential, body)
					_ = conn.(*net.TCPConn).CloseWrite()
					_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
					resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
					conn.Close()
					// A server may close such a connection without a word.
					if err == nil && (resp.StatusCode < 400 || resp.StatusCode >= 500) && id != "listenMCP" && id != "revokeToken" {
						t.Errorf("%s with a body that is %s: %d", id, name, resp.StatusCode)
					}
				}
			}
		}
	}
	if errors := log.of("level=ERROR"); len(errors) > 0 {
		t.Errorf("%d of %d requests are logged as errors, such as\n%s", len(errors), requests, errors[0])
	}
	t.Logf("%d requests", requests)
}

// A page that has bound its name to the address of a server on loopback gets nothing.
func TestOtherHostsOnLoopback(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, withMCP, func(cfg *server.Config) {
		cfg.PublicBaseURL, cfg.AllowedHosts = "https://bough.example", []string{"Proxy.Internal", "[fd00::7]"}
	})
	ask := func(host, method, path, body string, headers ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Service-Key", servertest.ServiceKey)
		for i := 0; i+1 < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(data)
	}
	const tools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for host, allowed := range map[string]bool{
		"": true, "127.0.0.1": true, "127.0.0.1:8080": true, "127.1.2.3": true, "localhost": true, "LOCALHOST:99": true, "localhost.": true,
		"app.localhost": true, "[::1]": true, "[::1]:8080": true, "bough.example": true, "bough.example:443": true, "BOUGH.example.": true,
		"proxy.internal": true, "[fd00::7]:80": true,
		"evil.example": false, "evil.example:8080": false, "bough.example.evil.example": false, "127.0.0.1.evil.example": false,
		"localhost.evil.example": false, "notlocalhost": false, "192.168.1.7": false, "[fd00::8]": false, "0.0.0.0": false,
	} {
		for _, r := range []struct{ method, path, body string }{
			{"POST", "/mcp", tools}, {"GET", "/api/v1/admin/branches", ""}, {"GET", "/rest/v1/none", ""}, {"GET", "/openapi.json", ""},
			{"GET", "/docs", ""}, {"POST", "/api/v1/auth/signin", "{}"}, {"GET", "/.well-known/oauth-authorization-server", ""}, {"GET", "/nothing", ""},
		} {
			status, body := ask(host, r.method, r.path, r.body, "Accept", "application/json, text/event-stream")
			if refused := status == http.StatusForbidden; refused == allowed {
				t.Errorf("%s for host %q: %d %s", r.path, host, status, body)
			}
			if !allowed && r.path == "/mcp" && !strings.Contains(body, "public_base_url") {
				t.Errorf("the refusal does not say what to do: %s", body)
			}
		}
		if status, _ := ask(host, "GET", "/healthz", ""); status != http.StatusOK {
			t.Errorf("/healthz for host %q: %d", host, status)
		}
	}
	// A preflight of such a page gets no leave, either.
	if status, _ := ask("evil.example", "OPTIONS", "/mcp", "", "Origin", "http://evil.example", "Access-Control-Request-Method", "POST"); status != http.StatusForbidden {
		t.Errorf("a preflight: %d", status)
	}
}

// A server that listens on all addresses has names that it need not know.
func TestAnyHostOnOtherAddresses(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(cfg *server.Config) { cfg.Listen, cfg.PublicBaseURL = "0.0.0.0:0", "http://127.0.0.1" })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/api/v1/admin/branches", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "whatever.example"
	req.Header.Set("X-Service-Key", servertest.ServiceKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	diff(t, "status", 200, resp.StatusCode)
}

// What PostgreSQL has no text for is refused wherever a text can be: in paths, queries, headers and bodies.
func TestTextsThatAreNone(t *testing.T) {
	t.Parallel()
	s := servertest.Databases(t)
	log := &lines{}
	s.Log = log
	s.Run(t, unlimited, withMCP)
	s.Exec(t, s.Main, `create table notes (id int primary key, text text); create function twice(n int) returns int stable language sql as 'select 2 * n'`)
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	session := signUp(t, s, ada)
	requests := 0
	try := func(what, method, target, body string, headers ...string) {
		t.Helper()
		for _, credential := range [][]string{{"X-Service-Key", servertest.ServiceKey}, {"Authorization", "Bearer " + session.AccessToken}} {
			req, err := http.NewRequestWithContext(t.Context(), method, s.URL+target, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set(credential[0], credential[1])
			for i := 0; i+1 < len(headers); i += 2 {
				req.Header.Set(headers[i], headers[i+1])
			}
			requests++
			resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			data, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode >= 500 {
				t.Errorf("%s: %d %s", what, resp.StatusCode, data)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(spec.Paths.Map())) {
		item := spec.Paths.Map()[path]
		for method, op := range item.Operations() {
			id := strings.ToLower(op.OperationID[:1]) + op.OperationID[1:]
			if id == "deleteBranch" || id == "resetBranch" {
				continue
			}
			d := decisions[id]
			params := slices.Concat(item.Parameters, op.Parameters)
			target := d.target(path, params, "main")
			and := "?"
			if strings.Contains(target, "?") {
				and = "&"
			}
			for _, bad := range []string{"%00", "a%00b", "%FF", "a%C3%28"} {
				for _, param := range params {
					name := param.Value.Name
					switch param.Value.In {
					case openapi3.ParameterInQuery:
						try(id+" "+name, method, target+and+url.QueryEscape(name)+"="+bad, d.body)
					case openapi3.ParameterInPath:
						other := d
						other.path = map[string]string{name: bad}
						try(id+" "+name, method, other.target(path, params, "main"), d.body)
					case openapi3.ParameterInHeader:
						if strings.Contains(bad, "%00") {
							continue // no header has one
						}
						value, _ := url.PathUnescape(bad)
						try(id+" "+name, method, target, d.body, name, value)
					}
				}
				try(id+" with another parameter", method, target+and+"x"+bad+"="+bad, d.body)
			}
			for _, body := range badBodies(t, d.body, op.RequestBody) {
				try(id+" "+body, method, target, body)
			}
		}
	}
	resp, body := call(t, s, "GET", "/api/v1/admin/branches/repohost/deliveries?repository=%00", "", "X-Service-Key", servertest.ServiceKey)
	if e := wantError(t, resp, body, 400, "validation_error"); e.Fields["repository"] == "" {
		t.Errorf("the parameter is not named: %s", body)
	}
	if errors := log.of("level=ERROR"); len(errors) > 0 {
		t.Errorf("%d of %d requests are logged as errors, such as\n%s", len(errors), requests, errors[0])
	}
	t.Logf("%d requests", requests)
}

// badBodies are JSON bodies with a text that is none, in the place of each text of the body and in each field of the
// contract.
func badBodies(t *testing.T, body string, ref *openapi3.RequestBodyRef) (bodies []string) {
	t.Helper()
	fields := map[string]any{}
	if body != "" && strings.HasPrefix(body, "{") {
		if err := json.Unmarshal([]byte(body), &fields); err != nil {
			t.Fatal(err)
		}
	}
	names := slices.Collect(maps.Keys(fields))
	if ref != nil {
		if media := ref.Value.Content.Get("application/json"); media != nil && media.Schema != nil {
			names = slices.AppendSeq(names, maps.Keys(media.Schema.Value.Properties))
		}
	}
	for _, name := range names {
		for _, bad := range []string{`"a\u0000b"`, "\"a\xffb\"", `["a\u0000b"]`, `{"a\u0000b":"\u0000"}`, `"\ud800"`} {
			changed := maps.Clone(fields)
			delete(changed, name)
			data, err := json.Marshal(changed)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.TrimSuffix(string(data), "}")
			if len(changed) > 0 {
				text += ","
			}
			bodies = append(bodies, text+`"`+name+`":`+bad+"}")
		}
	}
	return bodies
}
