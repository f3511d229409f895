package mcp

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Most callers whose rates are remembered.
const maxLimited = 10_000

// limiter bounds the requests of each caller.
type limiter struct {
	rate  rate.Limit
	burst int
	now   func() time.Time

	mu      sync.Mutex
	callers map[string]*rate.Limiter
}

// newLimiter returns nil for no limit.
func newLimiter(l RateLimit) *limiter {
	if l.PerMinute <= 0 {
		return nil
	}
	burst := l.Burst
	if burst <= 0 {
		burst = l.PerMinute
	}
	return &limiter{rate: rate.Limit(float64(l.PerMinute) / 60), burst: burst, now: time.Now, callers: map[string]*rate.Limiter{}}
}

// take takes n requests of what the caller has left. When there is not enough, it takes none and says how long to wait.
func (l *limiter) take(caller string, n int) (wait time.Duration, ok bool) {
	if l == nil {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	c := l.callers[caller]
	if c == nil {
		if len(l.callers) >= maxLimited {
			l.forget(now)
		}
		c = rate.NewLimiter(l.rate, l.burst)
		l.callers[caller] = c
	}
	r := c.ReserveN(now, min(n, l.burst))
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, false
	}
	return 0, true
}

// forget drops the callers that have all their requests left, who lose nothing by it; all, if there is none of those.
func (l *limiter) forget(now time.Time) {
	for key, c := range l.callers {
		if c.TokensAt(now) >= float64(l.burst) {
			delete(l.callers, key)
		}
	}
	if len(l.callers) >= maxLimited {
		clear(l.callers)
	}
}
