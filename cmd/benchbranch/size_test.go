package main

import (
	"slices"
	"testing"
)

func TestSizesAreReadAndSorted(t *testing.T) {
	for list, want := range map[string][]int64{
		"100MB":             {100 * megabyte},
		"1GB,100MB":         {100 * megabyte, gigabyte},
		"1.5gb, 16 MB,16MB": {16 * megabyte, gigabyte * 3 / 2},
		"0.5TB,":            {512 * gigabyte},
	} {
		got, err := parseSizes(list)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("parseSizes(%q) = %v, %v, want %v", list, got, err, want)
		}
	}
}

func TestBadSizesAreRefused(t *testing.T) {
	for _, list := range []string{"", ",", "100", "GB", "1PB", "-1GB", "1 MB", "NaNGB", "InfGB", "100MB,x", "11TB", "1e30GB"} {
		if got, err := parseSizes(list); err == nil {
			t.Errorf("parseSizes(%q) = %v, want an error", list, got)
		}
	}
}

func TestSizesAreWrittenShort(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", kilobyte: "1 KB", 100 * megabyte: "100 MB", gigabyte * 3 / 2: "1.5 GB",
		gigabyte - 1: "1024 MB", 12345678: "11.8 MB", -2 * megabyte: "-2 MB", 5 * gigabyte << 10: "5 TB",
	} {
		if got := formatSize(n); got != want {
			t.Errorf("formatSize(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestSecondsAreWrittenShort(t *testing.T) {
	for s, want := range map[float64]string{
		0: "0", 0.0004: "0ms", 0.0849: "85ms", 0.9994: "999ms", 0.9996: "1s", 1.234: "1.23s", 12.34: "12.3s", 99.96: "100s", 123.4: "123s",
	} {
		if got := formatSeconds(s); got != want {
			t.Errorf("formatSeconds(%v) = %q, want %q", s, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 100}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}
