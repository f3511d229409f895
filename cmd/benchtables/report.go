package main

import (
	"errors"
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
	RowCount    int
	Load        string // of the machine at the start: that of others
	Rows        []*row
	Memory      memory
	Large       *large
	Wide        *wide
	Changes     *changes
	Notes       []string
}

// row is a scenario with what was measured.
type row struct {
	scenario
	Size    int64 // of the answer
	Samples []sample
}

func newReport(o options) *report {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	return &report{Connections: o.connections, Rounds: o.rounds, RowCount: o.rows, Load: load}
}

func (r *report) note(text string) {
	if !slices.Contains(r.Notes, text) {
		r.Notes = append(r.Notes, text)
	}
}

func (r *report) hasSamples() bool {
	return r.Large != nil || r.Wide != nil || r.Changes != nil ||
		slices.ContainsFunc(r.Rows, func(w *row) bool { return len(w.Samples) > 0 })
}

// middle is the median of a value of all samples.
func (w *row) middle(value func(sample) float64) float64 {
	var all []float64
	for _, s := range w.Samples {
		all = append(all, value(s))
	}
	return median(all)
}

// ratio is the median of the ratios within each round: what disturbs a round disturbs both.
func (w *row) ratio(of, to func(sample) float64) float64 {
	return w.middle(func(s sample) float64 {
		if to(s) == 0 {
			return 0
		}
		return of(s) / to(s)
	})
}

func (s sample) total() float64 { return s.Server + s.Postgres }
func (s sample) yard() float64  { return s.BenchPostgres + s.BenchSelf }

func (w *row) failed() (n int) {
	for _, s := range w.Samples {
		n += s.Failed
	}
	return n
}

// constant is the cost of the constant answer, which scenarios of one size share.
func (r *report) constant(w *row) float64 {
	for _, other := range r.Rows {
		if other.flag == w.sameSize {
			w = other
		}
	}
	return w.middle(func(s sample) float64 { return s.Constant })
}

const legend = `
RATE      requests a second; P50, P99: their latency in milliseconds
SERVER    microseconds of CPU that the server takes for a request; PG: what PostgreSQL takes, all its processes
PGBENCH   the same statements with role and claims set, in one pipeline, prepared, with as many connections:
          microseconds of CPU of PostgreSQL + pgbench itself, and transactions a second (TPS)
VS PGB    (SERVER + PG) / (PostgreSQL + pgbench), as a client of the database would cost without HTTP: the yardstick
VS PG     (SERVER + PG) / (PostgreSQL under pgbench alone)
AT RATE   PGBENCH when it makes no more transactions than the server; VS: the ratio to that. Both wait more often then,
          and each time a process is woken costs CPU, which is most of what PG is above PGBENCH. Measured once
CONST     microseconds of CPU of a server that always gives an answer of the same size; VS C: SERVER / CONST
Each figure is the median of all rounds; ratios are those within a round.`

// print writes the tables.
func (r *report) print(out io.Writer) {
	if len(r.Rows) > 0 {
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "REQUEST\tBYTES\tRATE\tP50\tP99\tFAILED\tSERVER\tPG\tPGBENCH\tTPS\tVS PGB\tGOAL\tVS PG\tAT RATE\tVS\tCONST\tVS C")
		for _, w := range r.Rows {
			if len(w.Samples) > 0 {
				fmt.Fprintln(t, strings.Join(r.cells(w), "\t"))
			}
		}
		_ = t.Flush() // out is a terminal or a buffer
		fmt.Fprintln(out)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "BESIDES\tMEASURED\tGOAL")
	line := func(name, value, goal string) { fmt.Fprintf(t, "%s\t%s\t%s\n", name, value, goal) }
	if r.Memory.peak > 0 {
		line("memory of the server after the load", r.Memory.String(), "40 MiB")
	}
	if l := r.Large; l != nil {
		line(fmt.Sprintf("first byte of %d rows", r.RowCount), millis(l.FirstByte), "50 ms")
		line("the whole answer", fmt.Sprintf("%s in %s", megabytes(l.Bytes), millis(l.Total)), "")
		line("memory of the server meanwhile", "at most "+megabytes(l.Memory.peak), "40 MiB")
	}
	if w := r.Wide; w != nil {
		line(fmt.Sprintf("first answer with %d tables more, once it serves", wideTables), millis(w.FirstAnswer), "1 s")
		line("until it serves, from its start", millis(w.Ready), "")
		line("what they add to a request by id", fmt.Sprintf("%+.1f to %.1f µs of CPU", w.Added, w.Without), "0")
		line("memory of that server after the load", w.Memory.String(), "")
	}
	if c := r.Changes; c != nil {
		line(fmt.Sprintf("failed requests during %d changes of the schema", c.Statements), fmt.Sprintf("%d of %d", c.Failed, c.Requests), "0")
		line("the longest request meanwhile", millis(c.Longest), "")
		if c.Deadlocks > 0 {
			line("changes tried again after a deadlock", fmt.Sprint(c.Deadlocks), "")
		}
	}
	_ = t.Flush()
	if len(r.Rows) > 0 {
		fmt.Fprintln(out, legend)
	}
	if len(r.Rows) == 0 {
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%s, %d rows, %d connections, %d rounds, %d CPUs", r.Server, r.RowCount, r.Connections, r.Rounds, runtime.NumCPU())
	if r.Load != "" {
		fmt.Fprintf(out, ", load before the start %s", r.Load)
	}
	fmt.Fprintln(out)
	for _, note := range r.Notes {
		fmt.Fprintln(out, note)
	}
}

// cells are a scenario's line.
func (r *report) cells(w *row) []string {
	number := func(format string, value func(sample) float64) string { return fmt.Sprintf(format, w.middle(value)) }
	cells := []string{
		w.name, fmt.Sprint(w.Size),
		number("%.0f", func(s sample) float64 { return s.Rate }),
		number("%.1f", func(s sample) float64 { return s.Middle / 1000 }),
		number("%.1f", func(s sample) float64 { return s.Slow / 1000 }),
		fmt.Sprint(w.failed()),
		number("%.0f", func(s sample) float64 { return s.Server }),
		number("%.0f", func(s sample) float64 { return s.Postgres }),
	}
	if w.Samples[0].Yardstick {
		goal := "–"
		if w.goal > 0 {
			goal = fmt.Sprintf("≤ %.1f", w.goal)
		}
		cells = append(cells,
			number("%.0f + ", func(s sample) float64 { return s.BenchPostgres })+number("%.0f", func(s sample) float64 { return s.BenchSelf }),
			number("%.0f", func(s sample) float64 { return s.BenchRate }),
			fmt.Sprintf("%.2f", w.ratio(sample.total, sample.yard)), goal,
			fmt.Sprintf("%.2f", w.ratio(sample.total, func(s sample) float64 { return s.BenchPostgres })))
	} else {
		cells = append(cells, "–", "–", "–", "–", "–")
	}
	if last := w.Samples[len(w.Samples)-1]; last.SlowPostgres > 0 {
		slow := last.SlowPostgres + last.SlowSelf
		cells = append(cells, fmt.Sprintf("%.0f + %.0f", last.SlowPostgres, last.SlowSelf), fmt.Sprintf("%.2f", last.total()/slow))
	} else {
		cells = append(cells, "–", "–")
	}
	if constant := r.constant(w); constant > 0 {
		return append(cells, fmt.Sprintf("%.0f", constant),
			fmt.Sprintf("%.1f", w.middle(func(s sample) float64 { return s.Server })/constant))
	}
	return append(cells, "–", "–")
}

// failure returns an error if requests failed. Goals are for people to look at: the machine may be busy.
func (r *report) failure() error {
	var errs []error
	for _, w := range r.Rows {
		if n := w.failed(); n > 0 {
			errs = append(errs, fmt.Errorf("%s: %d requests failed", w.name, n))
		}
	}
	if r.Changes != nil && r.Changes.Failed > 0 {
		errs = append(errs, fmt.Errorf("%d requests failed while the schema changed", r.Changes.Failed))
	}
	return errors.Join(errs...)
}

func (m memory) String() string {
	return fmt.Sprintf("%s, of it %s program, at most %s", megabytes(m.now), megabytes(m.file), megabytes(m.peak))
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
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
