package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is a scenario with what was measured.
type row struct {
	scenario
	size    int // of an answer
	samples []sample
}

// median is the middle one of a value of all samples.
func median[T cmp.Ordered](samples []sample, value func(sample) T) T {
	all := make([]T, 0, len(samples))
	for _, s := range samples {
		all = append(all, value(s))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// ratio is the median of the ratios within each round: what disturbs a round disturbs both.
func ratio(of, to []sample, value func(sample) float64) float64 {
	paired := make([]sample, min(len(of), len(to)))
	for i := range paired {
		paired[i].rate = value(of[i]) / value(to[i])
	}
	return median(paired, func(s sample) float64 { return s.rate })
}

const legend = `
RATE      requests a second; P50, P99: their latency in milliseconds
SERVER    microseconds of CPU that the server takes for a request; PG: what PostgreSQL takes, all its processes
VS RATE   RATE as a share of that of the same query over the tables API; VS CPU: SERVER + PG as a multiple
Each figure is the median of all rounds; ratios are those within a round.`

// show writes the table.
func show(out io.Writer, rows []row, o options, version string, memory int64) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REQUEST\tBYTES\tRATE\tP50\tP99\tSERVER\tPG\tVS RATE\tVS CPU")
	for i := range rows {
		fmt.Fprintln(t, strings.Join(cells(&rows[i], rows), "\t"))
	}
	_ = t.Flush() // out is a terminal or a buffer
	fmt.Fprintln(out, legend)
	fmt.Fprintf(out, "%s, %d rows of which a request gets %d, %d connections, %d rounds, %d CPUs; the server has %.1f MiB in memory afterwards\n",
		version, o.rows, pageRows, o.connections, o.rounds, runtime.NumCPU(), float64(memory)/(1<<20))
}

// cells are a scenario's line.
func cells(r *row, rows []row) []string {
	number := func(format string, value func(sample) float64) string {
		return fmt.Sprintf(format, median(r.samples, value))
	}
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	line := []string{
		r.name, fmt.Sprint(r.size), number("%.0f", func(s sample) float64 { return s.rate }),
		number("%.1f", func(s sample) float64 { return micros(s.middle) / 1000 }), number("%.1f", func(s sample) float64 { return micros(s.slow) / 1000 }),
		number("%.0f", func(s sample) float64 { return micros(s.server) }), number("%.0f", func(s sample) float64 { return micros(s.postgres) }),
	}
	base := slices.IndexFunc(rows, func(other row) bool { return other.name == r.base })
	if base < 0 {
		return append(line, "–", "–")
	}
	return append(line,
		fmt.Sprintf("%.2f", ratio(r.samples, rows[base].samples, func(s sample) float64 { return s.rate })),
		fmt.Sprintf("%.2f", ratio(r.samples, rows[base].samples, func(s sample) float64 { return float64(s.cpu()) })))
}
