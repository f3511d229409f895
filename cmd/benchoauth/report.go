package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all that was measured.
type report struct {
	Server      string
	Connections int
	Rounds      int
	Requests    int
	Load        string // of the machine at the start: that of others
	Rows        []*row
}

// row is something that was measured, in one way.
type row struct {
	Name    string
	Samples []sample
}

// sample is a round's measurement.
type sample struct {
	Rate         float64 // a second
	Middle, Slow time.Duration
	Yard         float64 // pgbench's rate
}

func newReport(o options) *report {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	return &report{Connections: o.connections, Rounds: o.rounds, Requests: o.requests, Load: load}
}

func (r *report) add(name string, s sample) {
	i := slices.IndexFunc(r.Rows, func(w *row) bool { return w.Name == name })
	if i < 0 {
		i = len(r.Rows)
		r.Rows = append(r.Rows, &row{Name: name})
	}
	r.Rows[i].Samples = append(r.Rows[i].Samples, s)
}

func (r *report) hasSamples() bool { return len(r.Rows) > 0 }

// middle is the median of a value of all rounds.
func (w *row) middle(value func(sample) float64) float64 {
	var all []float64
	for _, s := range w.Samples {
		all = append(all, value(s))
	}
	slices.Sort(all)
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

const legend = `
RATE      a second; P50, P99: the latency in milliseconds
PGBENCH   how often a second pgbench does the same SQL, prepared, over as many connections, without HTTP and without
          anything that a program has to do
RATIO     RATE / PGBENCH. A check of a token that is remembered needs no SQL, and has a ratio above 1 for it
Each figure is the median of all rounds; ratios are those within a round. Limits for networks are off.`

// print writes the table.
func (r *report) print(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tRATE\tP50\tP99\tPGBENCH\tRATIO")
	for _, w := range r.Rows {
		fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.2f\t%.0f\t%.2f\n", w.Name, w.middle(func(s sample) float64 { return s.Rate }),
			w.middle(func(s sample) float64 { return millis(s.Middle) }), w.middle(func(s sample) float64 { return millis(s.Slow) }),
			w.middle(func(s sample) float64 { return s.Yard }), w.middle(func(s sample) float64 { return s.Rate / s.Yard }))
	}
	_ = t.Flush() // out is a terminal or a buffer
	fmt.Fprintln(out, legend)
	fmt.Fprintf(out, "%s, %d connections, %d rounds of %d, %d CPUs", r.Server, r.Connections, r.Rounds, r.Requests, runtime.NumCPU())
	if r.Load != "" {
		fmt.Fprintf(out, ", load before the start %s", r.Load)
	}
	fmt.Fprintln(out)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
