package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"x"}, {"-rows", "3"}, {"-connections", "0"}, {"-rounds", "0"}, {"-duration", "0"}, {"-time-limit", "0"}} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if o, err := parseFlags(nil, io.Discard); err != nil || o.rows < pageRows {
		t.Errorf("the defaults: %+v, %v", o, err)
	}
}

// All scenarios ask for the same rows, in requests that a server can read.
func TestRequests(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(s.request("host:1", 41))))
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if r.Host != "host:1" || r.Header.Get("X-Service-Key") != serviceKey {
			t.Errorf("%s: %+v", s.name, r)
		}
		if r.Method == http.MethodGet {
			if q := r.URL.Query(); q.Get("id.gt") != "41" || q.Get("limit") != strconv.Itoa(pageRows) || q.Get("order") != "id.asc" {
				t.Errorf("%s asks for %v", s.name, q)
			}
			continue
		}
		var message struct {
			Method string `json:"method"`
			Params struct {
				Arguments json.RawMessage `json:"arguments"`
			} `json:"params"`
		}
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		if message.Method == "tools/call" {
			want := `{"filters":[{"column":"id","op":"gt","value":41}],"limit":20,"order":[{"column":"id"}],"table":"items"}`
			if d := cmp.Diff(want, string(message.Params.Arguments)); d != "" {
				t.Errorf("%s (-want +got):\n%s", s.name, d)
			}
		}
	}
}

func TestAnswersAreChecked(t *testing.T) {
	t.Parallel()
	page := func(first, n int) string {
		list := make([]item, n)
		for i := range list {
			list[i].ID = first + i
		}
		data, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	result := func(rows, more string) string {
		return `{"result":{"structuredContent":{"rows":` + rows + `}` + more + `}}`
	}
	for name, c := range map[string]struct {
		check func([]byte, int) error
		body  string
		good  bool
	}{
		"the page":         {checkTables, page(8, pageRows), true},
		"another page":     {checkTables, page(9, pageRows), false},
		"a part of it":     {checkTables, page(8, pageRows-1), false},
		"no list":          {checkTables, `{"error":"x"}`, false},
		"a call":           {checkCall, result(page(8, pageRows), ""), true},
		"a failed call":    {checkCall, result(page(8, pageRows), `,"isError":true`), false},
		"an empty call":    {checkCall, result("[]", ""), false},
		"an error":         {checkCall, `{"error":{"code":1}}`, false},
		"a list":           {checkList, `{"result":{"tools":[{}]}}`, true},
		"an empty list":    {checkList, `{"result":{"tools":[]}}`, false},
		"a page of a site": {checkList, `<html>`, false},
	} {
		if err := c.check([]byte(c.body), 7); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The client keeps its connection over answers with a length and in chunks, and takes another when it breaks.
func TestClient(t *testing.T) {
	t.Parallel()
	connections := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		if r.URL.Path == "/chunks" {
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, "hello "+r.URL.Path)
	}))
	defer server.Close()
	c := &client{addr: strings.TrimPrefix(server.URL, "http://")}
	defer c.close()
	for path, want := range map[string]int{"/plain": 200, "/chunks": 200, "/missing": 404} {
		var body bytes.Buffer
		status, err := c.do([]byte("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"), &body)
		if err != nil || status != want || body.String() != "hello "+path {
			t.Errorf("%s: %d %q %v", path, status, body.String(), err)
		}
	}
	if len(connections) != 1 {
		t.Errorf("%d connections", len(connections))
	}
	server.CloseClientConnections()
	if _, err := c.do([]byte("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n"), io.Discard); err == nil {
		t.Error("a broken connection answers")
	}
	if _, err := c.do([]byte("GET /plain HTTP/1.1\r\nHost: x\r\n\r\n"), io.Discard); err != nil {
		t.Errorf("no new connection is made: %v", err)
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	line := "42 (a (b) c) S 7 1 1 0 -1 0 0 0 0 0 100 50 20 30 20 0 1 0 9\n"
	got, err := parseStat([]byte(line))
	want := process{7, 1500 * time.Millisecond, 500 * time.Millisecond}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "42 (x", "42 (x) S 7", strings.Replace(line, " 100 ", " x ", 1)} {
		if p, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, p)
		}
	}
	if m, err := memoryOf(os.Getpid()); err != nil || m < 1<<20 {
		t.Errorf("this program has %d bytes, %v", m, err)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	at := func(rate float64, cpu time.Duration) sample {
		return sample{rate: rate, middle: 2 * time.Millisecond, slow: 5 * time.Millisecond, server: cpu, postgres: 100 * time.Microsecond}
	}
	rows := []row{
		{scenario{name: "first"}, 10, []sample{at(1000, 100*time.Microsecond), at(500, 300*time.Microsecond), at(800, 200*time.Microsecond)}},
		{scenario{name: "second", base: "first"}, 20, []sample{at(500, 300*time.Microsecond), at(400, 700*time.Microsecond), at(400, 500*time.Microsecond)}},
	}
	got := [][]string{cells(&rows[0], rows), cells(&rows[1], rows)}
	want := [][]string{
		{"first", "10", "800", "2.0", "5.0", "200", "100", "–", "–"},
		{"second", "20", "400", "2.0", "5.0", "500", "100", "0.50", "2.00"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
