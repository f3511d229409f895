package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve starts a server and returns its address.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestClientReadsEveryFormOfBody(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/short":
			fmt.Fprint(w, "hello")
		case "/long":
			w.Header().Set("Content-Length", "200000")
			fmt.Fprint(w, strings.Repeat("x", 200_000))
		case "/chunks":
			for range 10 {
				fmt.Fprint(w, strings.Repeat("y", 10_000))
				w.(http.Flusher).Flush()
			}
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		case "/created":
			w.WriteHeader(http.StatusCreated)
		case "/error":
			http.Error(w, "out of order", http.StatusServiceUnavailable)
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c := &client{addr: s.Listener.Addr().String()}
	defer c.close()
	for _, discard := range []bool{true, false} {
		for path, want := range map[string]struct {
			status, size int
			problem      string
		}{
			"/short": {200, 5, ""}, "/long": {200, 200_000, ""}, "/chunks": {200, 100_000, ""},
			"/nothing": {204, 0, ""}, "/created": {201, 0, ""}, "/error": {503, 13, "out of order\n"},
		} {
			var body bytes.Buffer
			var into io.Writer = &body
			if discard {
				into = nil
			}
			a, err := c.do([]byte("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"), into)
			if err != nil || a.status != want.status || int(a.size) != want.size || !discard && body.Len() != want.size {
				t.Errorf("%s: %+v with %d bytes, %v, want %+v", path, a, body.Len(), err, want)
			}
			if discard && a.problem != want.problem {
				t.Errorf("%s: the problem is %q, want %q", path, a.problem, want.problem)
			}
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections were made, not one", n)
	}
}

func TestClientNoticesABodyThatIsCutOff(t *testing.T) {
	t.Parallel()
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "1000")
		}
		fmt.Fprint(w, "the beginning")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	c := &client{addr: addr}
	for _, path := range []string{"/length", "/chunks"} {
		if a, err := c.do([]byte("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"), nil); err == nil {
			t.Errorf("%s: %+v is taken for a whole answer", path, a)
		}
		if c.conn != nil {
			t.Errorf("%s: the connection is kept", path)
		}
	}
}

func TestLoadCountsOnlyGoodAnswersAfterTheMark(t *testing.T) {
	t.Parallel()
	var served, failing atomic.Int64
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1)%10 == 0 {
			failing.Add(1)
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
	})
	r := load{addr: addr, connections: 4, status: 200, next: func(_ *rand.Rand, into []byte) []byte {
		return append(into, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"...)
	}}.start(context.Background())
	serves := func(more int64) {
		for from := served.Load(); served.Load() < from+more; {
			time.Sleep(time.Millisecond)
		}
	}
	serves(100)
	before := served.Load()
	r.mark()
	serves(100)
	got := r.stop()
	after := served.Load() - before
	if got.requests == 0 || int64(got.requests) > after || len(got.latency) != got.requests {
		t.Errorf("%d good requests with %d latencies of %d", got.requests, len(got.latency), after)
	}
	if int64(got.failed) != failing.Load() {
		t.Errorf("%d failures, the server made %d", got.failed, failing.Load())
	}
	if got.firstErr == nil || !strings.Contains(got.firstErr.Error(), "503") {
		t.Errorf("the first error is %v", got.firstErr)
	}
	if low, high := got.quantile(.5), got.quantile(1); low <= 0 || high < low {
		t.Errorf("quantiles %v and %v", low, high)
	}
}

func TestRequestsAreWellFormed(t *testing.T) {
	t.Parallel()
	const rows = 1000
	for _, s := range scenarios(rows) {
		addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if r.Method != s.method || r.Header.Get("X-Service-Key") != "k" || err != nil || (len(body) > 0) != (s.body != nil) {
				t.Errorf("%s: the server sees %s %s with %d bytes, %v", s.name, r.Method, r.URL, len(body), err)
			}
			if s.flag == "get" {
				id, err := strconv.Atoi(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
				if err != nil || id < 1 || id > rows {
					t.Errorf("there is no id in %s", r.URL.Path)
				}
			}
		})
		c := &client{addr: addr}
		random := rand.New(rand.NewPCG(1, 1))
		for range 100 {
			if _, err := c.do(s.request(addr, "X-Service-Key: k", random, nil), nil); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
		c.close()
	}
}

func TestWrongAnswersAreNoticed(t *testing.T) {
	t.Parallel()
	kinds := map[string]scenario{}
	for _, s := range scenarios(1000) {
		kinds[s.flag] = s
	}
	record := `{"id":1,"author_id":1,"title":"","body":"","views":1,"amount":1,"created_at":"","data":{}}`
	list := func(n int, of string) string { return "[" + strings.TrimSuffix(strings.Repeat(of+",", n), ",") + "]" }
	for _, c := range []struct {
		flag   string
		status int
		body   string
		good   bool
	}{
		{"get", 200, record, true},
		{"get", 404, record, false},
		{"get", 200, "{}", false},
		{"get", 200, "[" + record + "]", false},
		{"list", 200, list(50, record), true},
		{"list", 200, list(49, record), false},
		{"embed", 200, list(20, `{"id":1,"title":"","author":{"name":""}}`), true},
		{"embed", 200, list(20, `{"id":1,"title":"","author":null}`), false},
		{"insert", 201, "", true},
		{"insert", 201, record, false},
		{"return", 201, record, true},
		{"return", 201, "", false},
	} {
		s := kinds[c.flag]
		if err := s.check(answer{status: c.status}, []byte(c.body)); (err == nil) != c.good {
			t.Errorf("%s with %d %.60s: %v", c.flag, c.status, c.body, err)
		}
	}
}

func TestCounterFindsMarksAcrossWrites(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(`{"id":1,"title":"a \"\"title"},`, 7)
	for size := 1; size <= len(text); size++ {
		c := &counter{}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			_, _ = c.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if c.n != 7 {
			t.Fatalf("%d records in writes of %d bytes, want 7", c.n, size)
		}
	}
}
