package document

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// How long a document is good for. Documents that should not be kept at all are kept for a sign-in, so that its steps
// see the same client and a flood of requests does not become one at the client's host.
const (
	minLife     = 5 * time.Minute
	defaultLife = time.Hour
	maxLife     = 24 * time.Hour
)

// expires says when a document is to be fetched again.
func expires(h http.Header, now time.Time) time.Time {
	return now.Add(min(max(freshness(h, now), minLife), maxLife)).UTC()
}

// freshness is the lifetime of an answer as RFC 9111, section 4.2, has it for a shared cache, less its age.
func freshness(h http.Header, now time.Time) time.Duration {
	age := seconds(h.Get("Age"))
	var maxAge, shared string
	var hasMaxAge, hasShared bool
	for directive := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			maxAge, hasMaxAge = strings.Trim(value, `"`), true
		case "s-maxage":
			shared, hasShared = strings.Trim(value, `"`), true
		}
	}
	switch {
	case hasShared:
		return seconds(shared) - age
	case hasMaxAge:
		return seconds(maxAge) - age
	case h.Get("Expires") == "":
		return defaultLife
	}
	// Both times are by the clock of the answering server, which may be another than ours.
	at, err := http.ParseTime(h.Get("Expires"))
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), 0) - age
}

// seconds reads a number of seconds: 0 for none, and no more than matters here.
func seconds(s string) time.Duration {
	n, err := strconv.ParseUint(s, 10, 31)
	if errors.Is(err, strconv.ErrRange) {
		return 2 * maxLife
	}
	return min(time.Duration(n)*time.Second, 2*maxLife)
}
