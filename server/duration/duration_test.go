package duration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/boughdb/bough/server/duration"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"30m": 30 * time.Minute, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "2w": 14 * 24 * time.Hour,
		"1d12h": 36 * time.Hour, "1w2d3h4m5s": (9*24+3)*time.Hour + 4*time.Minute + 5*time.Second, "90s": 90 * time.Second,
	} {
		if got, err := duration.Parse(in); err != nil || got != want {
			t.Errorf("Parse(%q) = %v, %v; want %v", in, got, err, want)
		}
		if back, err := duration.Parse(duration.Format(want)); err != nil || back != want {
			t.Errorf("Parse(Format(%v)) = %v, %v", want, back, err)
		}
	}
	for _, in := range []string{
		"", "0", "0h", "-1h", "+1h", "7", "h", "7 days", "1.5h", "1e9d", "12h1d", "1d1d", "1h ", " 1h", "1y", "1H",
		"99999999999999999999h", "9223372036854775807d", "15250w1d1h1m1s1m", "１d",
	} {
		if got, err := duration.Parse(in); !errors.Is(err, duration.ErrForm) {
			t.Errorf("Parse(%q) = %v, %v; want ErrForm", in, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1d12h", "9223372036s", "0w", "-1h", "1e9d", "15250w"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := duration.Parse(s)
		if err != nil {
			if !errors.Is(err, duration.ErrForm) {
				t.Fatalf("unknown error %v", err)
			}
			return
		}
		if d < time.Second {
			t.Fatalf("Parse(%q) = %v, shorter than its smallest unit", s, d)
		}
		if back, err := duration.Parse(duration.Format(d)); err != nil || back != d {
			t.Fatalf("Parse(Format(%v)) = %v, %v", d, back, err)
		}
	})
}
