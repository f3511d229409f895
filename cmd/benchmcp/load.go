package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// client speaks HTTP/1.1 over one connection that it keeps, with less effort than that of net/http.
type client struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

// patience is how long an answer may take.
const patience = 20 * time.Second

// do sends a request and copies the answer's body.
func (c *client) do(request []byte, body io.Writer) (status int, err error) {
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.conn == nil {
		dialer := net.Dialer{Timeout: patience}
		if c.conn, err = dialer.DialContext(context.Background(), "tcp", c.addr); err != nil {
			return 0, err
		}
		c.in = bufio.NewReader(c.conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(body, answer.Body)
	return answer.StatusCode, err
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close() // nothing more is expected of it
		c.conn = nil
	}
}

// sample is one measurement of a scenario. Times are for each request.
type sample struct {
	rate             float64 // requests a second
	middle, slow     time.Duration
	server, postgres time.Duration // of CPU
}

func (s sample) cpu() time.Duration { return s.server + s.postgres }

// warmUp is the time for connections, plans and caches.
const warmUp = 400 * time.Millisecond

// measure lets clients ask for a while. A request that fails ends it.
func (s *stage) measure(ctx context.Context, sc scenario, o options) (sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var counting atomic.Bool
	all := make([][]time.Duration, o.connections)
	for i := range all {
		wg.Go(func() {
			c := &client{addr: s.addr}
			defer c.close()
			for ctx.Err() == nil {
				began, counts := time.Now(), counting.Load()
				status, err := c.do(sc.request(s.addr, rand.IntN(o.rows-pageRows)), io.Discard)
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("a request was answered %d", status)
				}
				if err != nil {
					cancel(err)
					return
				}
				if counts {
					all[i] = append(all[i], time.Since(began))
				}
			}
		})
	}
	sleep(ctx, warmUp)
	from, failed := s.cpu()
	counting.Store(true)
	began := time.Now()
	sleep(ctx, o.duration)
	took := time.Since(began)
	to, err := s.cpu()
	cause := context.Cause(ctx)
	cancel(nil)
	wg.Wait()
	if err := errors.Join(failed, err, cause); err != nil {
		return sample{}, err
	}
	latency := slices.Concat(all...)
	if len(latency) == 0 {
		return sample{}, errors.New("no request was answered")
	}
	slices.Sort(latency)
	n := time.Duration(len(latency))
	return sample{
		rate: float64(n) / took.Seconds(), middle: latency[len(latency)/2], slow: latency[len(latency)*99/100],
		server: (to.server - from.server) / n, postgres: (to.postgres - from.postgres) / n,
	}, nil
}

// sleep returns early when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
