// Package limits bounds what callers may use up: memory for large requests and answers, things of which each caller may
// have a few at a time, and the time that slow clients may take.
package limits

import (
	"sync"
	"sync/atomic"
	"time"
)

// Budget bounds the bytes of large buffers of all requests together. Its zero value, and nil, have no bound.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget returns a budget of so many bytes; 0 for no bound.
func NewBudget(bytes int64) *Budget { return &Budget{max: bytes} }

// Take takes bytes from the budget, and reports false where there are not enough left.
func (b *Budget) Take(bytes int64) bool {
	if b == nil || b.max <= 0 {
		return true
	}
	if b.used.Add(bytes) <= b.max {
		return true
	}
	b.used.Add(-bytes)
	return false
}

// Give gives back what was taken.
func (b *Budget) Give(bytes int64) {
	if b != nil && b.max > 0 {
		b.used.Add(-bytes)
	}
}

// Slots bound how many of something there are at a time: of each caller, and of all together.
type Slots struct {
	each, all int

	mu    sync.Mutex
	taken map[string]int
	total int
}

// NewSlots returns slots; a bound of 0 is none.
func NewSlots(each, all int) *Slots { return &Slots{each: each, all: all, taken: map[string]int{}} }

// Take takes a slot for a caller. release gives it back, and must be called once; it is nil where there is no slot.
func (s *Slots) Take(caller string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.each > 0 && s.taken[caller] >= s.each || s.all > 0 && s.total >= s.all {
		return nil
	}
	s.taken[caller]++
	s.total++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total--
		if s.taken[caller]--; s.taken[caller] == 0 {
			delete(s.taken, caller)
		}
	}
}

// Pace is the least average rate at which a client must send a request or take an answer. Only the time counts in which
// the server waits for the client.
type Pace struct {
	// BytesPerSecond is the rate; 0 for none.
	BytesPerSecond int64
	// Grace is how long a client may be slower than that, in all.
	Grace time.Duration
}

// Meter follows one request or answer.
type Meter struct {
	Pace
	bytes  int64
	waited time.Duration
}

// Left is how long the next bytes may take; ok is false where there is no bound.
func (m *Meter) Left(bytes int) (left time.Duration, ok bool) {
	if m.BytesPerSecond <= 0 {
		return 0, false
	}
	// In seconds first: the product in nanoseconds is too large from 9 GB on.
	n := m.bytes + int64(bytes)
	allowed := time.Duration(n/m.BytesPerSecond)*time.Second + time.Duration(n%m.BytesPerSecond)*time.Second/time.Duration(m.BytesPerSecond)
	return max(m.Grace+allowed-m.waited, time.Millisecond), true
}

// Passed adds bytes, and the time that the client took for them.
func (m *Meter) Passed(bytes int, took time.Duration) {
	m.bytes += int64(bytes)
	m.waited += took
}

// Waited is how long the client took so far.
func (m *Meter) Waited() time.Duration { return m.waited }
