package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Sizes are powers of two, as PostgreSQL counts them.
const (
	kilobyte int64 = 1 << (10 * (iota + 1))
	megabyte
	gigabyte
)

// minSize leaves room for what every database has in it.
const minSize = 16 * megabyte

var units = []struct {
	name  string
	bytes int64
}{{"TB", gigabyte << 10}, {"GB", gigabyte}, {"MB", megabyte}, {"KB", kilobyte}}

// parseSizes reads a list of sizes such as "100MB,1GB" and sorts it.
func parseSizes(list string) ([]int64, error) {
	var sizes []int64
	for _, text := range splitList(list) {
		size, err := parseSize(text)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
	}
	if len(sizes) == 0 {
		return nil, fmt.Errorf("%q names no size", list)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}

func parseSize(text string) (int64, error) {
	upper := strings.ToUpper(strings.TrimSpace(text))
	for _, u := range units {
		number, found := strings.CutSuffix(upper, u.name)
		if !found {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		size := n * float64(u.bytes)
		switch {
		case err != nil || n != n:
		case size < float64(minSize) || size > float64(10*gigabyte<<10):
			return 0, fmt.Errorf("size %q is not between %s and 10TB", text, formatSize(minSize))
		default:
			return int64(size), nil
		}
	}
	return 0, fmt.Errorf("%q is not a size; write 100MB or 1.5GB", text)
}

// formatSize writes a size with at most three digits.
func formatSize(n int64) string {
	for _, u := range units {
		if abs := max(n, -n); abs >= u.bytes {
			return threeDigits(float64(n)/float64(u.bytes)) + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

// threeDigits writes a number with three significant digits, without a fraction from 100 on.
func threeDigits(n float64) string {
	digits := 2
	switch abs := max(n, -n); {
	case abs >= 99.95:
		digits = 0
	case abs >= 9.995:
		digits = 1
	}
	text := strconv.FormatFloat(n, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// median of no values is 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}
