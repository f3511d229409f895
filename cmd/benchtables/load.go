package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// warmUp is the time for connections, plans and caches.
const warmUp = 400 * time.Millisecond

// load is many clients that ask one server over and over.
type load struct {
	addr        string
	connections int
	// next writes one request.
	next func(random *rand.Rand, into []byte) []byte
	// status is that of every good answer.
	status int
}

// traffic is what the clients saw.
type traffic struct {
	requests int // good ones
	failed   int
	firstErr error
	took     time.Duration
	latency  []time.Duration // of the good ones, sorted
}

func (t *traffic) rate() float64 { return float64(t.requests) / t.took.Seconds() }

// quantile returns the latency that the share of all requests kept.
func (t *traffic) quantile(share float64) time.Duration {
	if len(t.latency) == 0 {
		return 0
	}
	return t.latency[min(int(share*float64(len(t.latency))), len(t.latency)-1)]
}

// running is a load at work.
type running struct {
	load
	wg       sync.WaitGroup
	stopping atomic.Bool
	phase    atomic.Int32 // a request counts in the phase in which it begins: what straddles its ends balances
	mu       sync.Mutex
	all      map[int32]*traffic
	began    time.Time
}

// start lets the clients go. What they do before the first mark is not counted.
func (l load) start(ctx context.Context) *running {
	r := &running{load: l, all: map[int32]*traffic{}}
	for i := range l.connections {
		r.wg.Go(func() { r.work(ctx, rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))) })
	}
	return r
}

func (r *running) work(ctx context.Context, random *rand.Rand) {
	c := &client{addr: r.addr}
	defer c.close()
	own := map[int32]*traffic{}
	var buf []byte
	for !r.stopping.Load() && ctx.Err() == nil {
		buf = r.next(random, buf[:0])
		phase := r.phase.Load()
		began := time.Now()
		a, err := c.do(buf, nil)
		took := time.Since(began)
		if err == nil && a.status != r.status {
			err = fmt.Errorf("the status is %d, not %d: %.300s", a.status, r.status, a.problem)
		}
		t := own[phase]
		if t == nil {
			t = &traffic{}
			own[phase] = t
		}
		if err != nil {
			t.failed++
			if t.firstErr == nil {
				t.firstErr = fmt.Errorf("%w (%s)", err, bytes.SplitN(buf, []byte(" HTTP"), 2)[0])
			}
			time.Sleep(time.Millisecond) // a server that refuses everything must not keep the machine busy
			continue
		}
		t.requests++
		t.latency = append(t.latency, took)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for phase, t := range own {
		sum := r.all[phase]
		if sum == nil {
			sum = &traffic{}
			r.all[phase] = sum
		}
		sum.requests += t.requests
		sum.failed += t.failed
		sum.latency = append(sum.latency, t.latency...)
		if sum.firstErr == nil {
			sum.firstErr = t.firstErr
		}
	}
}

// mark begins what counts.
func (r *running) mark() {
	r.phase.Store(1)
	r.began = time.Now()
}

// stop ends what counts, waits for the clients and returns what they saw. Failures count from the start.
func (r *running) stop() traffic {
	took := time.Since(r.began)
	r.phase.Store(2)
	r.stopping.Store(true)
	r.wg.Wait()
	t := traffic{}
	if counted := r.all[1]; counted != nil {
		t = *counted
	}
	t.took = took
	for phase, other := range r.all {
		if phase == 1 {
			continue
		}
		t.failed += other.failed
		if t.firstErr == nil {
			t.firstErr = other.firstErr
		}
	}
	slices.Sort(t.latency)
	return t
}

// sleep returns early when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
