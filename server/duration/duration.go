// Package duration reads the durations that people give to Bough: numbers with the units s, m, h, d and w, such as
// 30m, 24h, 7d or 1d12h.
package duration

import (
	"errors"
	"fmt"
	"math"
	"time"
)

var units = map[byte]time.Duration{
	's': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour,
}

// ErrForm is the error of a text that is no duration.
var ErrForm = errors.New("write a duration as whole numbers with the units m, h, d or w, such as 30m, 24h, 7d or 1d12h")

// Parse reads a positive duration. Units go from large to small and come once each; signs, fractions and spaces are
// not part of the form. A duration longer than about 292 years is ErrForm too.
func Parse(s string) (time.Duration, error) {
	if s == "" || len(s) > 32 {
		return 0, ErrForm
	}
	var total time.Duration
	last := time.Duration(math.MaxInt64)
	for i := 0; i < len(s); {
		start := i
		var n int64
		for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
			if n > (math.MaxInt64-9)/10 {
				return 0, ErrForm
			}
			n = n*10 + int64(s[i]-'0')
		}
		if i == start || i == len(s) {
			return 0, ErrForm
		}
		unit, ok := units[s[i]]
		if !ok || unit >= last || n > int64(math.MaxInt64-total)/int64(unit) {
			return 0, ErrForm
		}
		total += time.Duration(n) * unit
		last = unit
		i++
	}
	if total <= 0 {
		return 0, fmt.Errorf("a duration must be longer than nothing: %w", ErrForm)
	}
	return total, nil
}

// Format writes a duration in the form that Parse reads, rounded down to seconds.
func Format(d time.Duration) string {
	if d < time.Second {
		return "0s"
	}
	var out []byte
	for _, u := range []byte{'w', 'd', 'h', 'm', 's'} {
		if n := d / units[u]; n > 0 {
			out = fmt.Appendf(out, "%d%c", n, u)
			d -= n * units[u]
		}
	}
	return string(out)
}
