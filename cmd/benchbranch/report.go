package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all that was measured.
type report struct {
	Time    time.Time `json:"time"`
	System  string    `json:"system"`
	CPUs    int       `json:"cpus"`
	Load    string    `json:"load,omitempty"` // of the machine at the start: that of others
	Clients int       `json:"clients"`
	Rounds  int       `json:"rounds"`
	Rows    []*row    `json:"rows"`
	Remarks []string  `json:"remarks"`
}

// row is what was measured of one method on one server and size of main.
type row struct {
	Server  string   `json:"server"` // version of PostgreSQL
	Files   string   `json:"files"`  // file system
	Size    int64    `json:"size"`   // asked for
	Actual  int64    `json:"actual_size"`
	Method  string   `json:"method"`
	Samples []sample `json:"samples"`
	Median  sample   `json:"median"`
	Ratio   float64  `json:"times_faster_than_dump,omitempty"`
	// Foreign says that there was no dump of this server and Ratio is to that of this other one.
	Foreign string `json:"dump_of,omitempty"`
	Error   string `json:"error,omitempty"`

	method method
}

func newReport(o options) *report {
	return &report{
		Time: time.Now().UTC(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Load: loadAverage(),
		Clients: o.workers, Rounds: o.rounds,
	}
}

// loadAverage is how many processes wanted to run during the last minute, "" if unknown.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// row returns the row of a method, new if there is none yet.
func (r *report) row(s *server, main *dataset, m method) *row {
	wanted := row{Server: s.Installation().Version, Files: s.files, Size: main.size, Actual: main.actual, Method: m.name, method: m}
	for _, have := range r.Rows {
		if have.Server == wanted.Server && have.Files == wanted.Files && have.Size == wanted.Size && have.Method == wanted.Method {
			return have
		}
	}
	r.Rows = append(r.Rows, &wanted)
	return &wanted
}

// finish computes medians and ratios and brings the rows into the order in which they are read.
func (r *report) finish() {
	for _, w := range r.Rows {
		w.Median = medians(w.Samples)
	}
	for _, w := range r.Rows {
		dump := r.yardstick(w)
		if w.method.dump || dump == nil || w.Median.Ready == 0 {
			continue
		}
		w.Ratio = dump.Median.Ready / w.Median.Ready
		if dump.Server != w.Server || dump.Files != w.Files {
			w.Foreign = "PostgreSQL " + dump.Server + " on " + dump.Files
		}
	}
	first := map[string]int{}
	for i, w := range r.Rows {
		if _, seen := first[w.Server+w.Files]; !seen {
			first[w.Server+w.Files] = i
		}
	}
	slices.SortStableFunc(r.Rows, func(a, b *row) int {
		if d := first[a.Server+a.Files] - first[b.Server+b.Files]; d != 0 {
			return d
		}
		return int((a.Size - b.Size) / megabyte)
	})
}

// yardstick finds the dump that a row is compared with: of the same server, else of another one on the same file
// system, else of any.
func (r *report) yardstick(w *row) *row {
	var best *row
	score := -1
	for _, d := range r.Rows {
		if !d.method.dump || d.method.schemaOnly != w.method.schemaOnly || d.Size != w.Size || len(d.Samples) == 0 {
			continue
		}
		s := 0
		if d.Files == w.Files {
			s += 2
		}
		if d.Server == w.Server {
			s++
		}
		if s > score {
			best, score = d, s
		}
	}
	return best
}

// medians takes the median of each value, but the sum of the requests.
func medians(samples []sample) sample {
	of := func(value func(sample) float64) float64 {
		var all []float64
		for _, s := range samples {
			all = append(all, value(s))
		}
		return median(all)
	}
	m := sample{
		Ready: of(func(s sample) float64 { return s.Ready }), Held: of(func(s sample) float64 { return s.Held }),
		Pause: of(func(s sample) float64 { return s.Pause }), Gap: of(func(s sample) float64 { return s.Gap }),
		RateBefore: of(func(s sample) float64 { return s.RateBefore }), RateDuring: of(func(s sample) float64 { return s.RateDuring }),
		LongestYet: of(func(s sample) float64 { return s.LongestYet }), Drop: of(func(s sample) float64 { return s.Drop }),
		Disk:      int64(of(func(s sample) float64 { return float64(s.Disk) })),
		DiskLater: int64(of(func(s sample) float64 { return float64(s.DiskLater) })),
		WAL:       int64(of(func(s sample) float64 { return float64(s.WAL) })),
	}
	for _, s := range samples {
		m.Requests += s.Requests
		m.Failed += s.Failed
	}
	return m
}

// span returns the least and the greatest of a value.
func span(samples []sample, value func(sample) float64) (least, greatest float64) {
	for i, s := range samples {
		v := value(s)
		if i == 0 || v < least {
			least = v
		}
		greatest = max(greatest, v)
	}
	return least, greatest
}

const legend = `
READY     median time until the branch is complete, and the range of all rounds
VS DUMP   how many times faster than pg_dump | psql into an empty database
PAUSE     longest request that a client of main saw meanwhile: median and worst round
GAP       longest time in which no client got an answer: median
FAILED    requests that failed, of all, before, during and after
TPS       transactions a second before and while the branch was made
DISK      blocks that only the branch has when it is ready; LATER: after half a second of writing to main and a checkpoint
WAL       written meanwhile, the clients' own included
Methods without time had none left; give more by -time-limit, or measure less. Failures are told below.
Each branch was checked: one consistent moment of main with every transaction confirmed before.`

// print writes the table.
func (r *report) print(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVER\tFILES\tMAIN\tMETHOD\tN\tREADY\tRANGE\tVS DUMP\tPAUSE\tWORST\tGAP\tFAILED\tTPS\tDISK\tLATER\tWAL\tDROP")
	restEmpty := strings.Repeat("\t", 11) // a shorter line would break the columns
	foreign := map[string]bool{}
	for _, w := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t", w.Server, w.Files, formatSize(w.Size), w.Method, len(w.Samples))
		switch {
		case w.Error != "":
			fmt.Fprintln(t, "failed"+restEmpty)
			continue
		case len(w.Samples) == 0:
			fmt.Fprintln(t, "no time"+restEmpty)
			continue
		}
		m := w.Median
		least, greatest := span(w.Samples, func(s sample) float64 { return s.Ready })
		_, worst := span(w.Samples, func(s sample) float64 { return s.Pause })
		ratio := "–"
		if w.Ratio > 0 {
			ratio = "×" + threeDigits(w.Ratio)
		}
		if w.Foreign != "" {
			ratio += "*"
			foreign[fmt.Sprintf("* no dump of PostgreSQL %s on %s; compared with %s", w.Server, w.Files, w.Foreign)] = true
		}
		fmt.Fprintf(t, "%s\t%s–%s\t%s\t%s\t%s\t%s\t%d of %d\t%.0f → %.0f\t%s\t%s\t%s\t%s\n",
			formatSeconds(m.Ready), formatSeconds(least), formatSeconds(greatest), ratio, formatSeconds(m.Pause), formatSeconds(worst),
			formatSeconds(m.Gap), m.Failed, m.Requests, m.RateBefore, m.RateDuring, formatSize(m.Disk), formatSize(m.DiskLater),
			formatSize(m.WAL), formatSeconds(m.Drop))
	}
	_ = t.Flush() // out is a terminal or a buffer
	fmt.Fprintln(out, legend)
	fmt.Fprintf(out, "%d clients, at most %d rounds, %s, %d CPUs", r.Clients, r.Rounds, r.System, r.CPUs)
	if r.Load != "" {
		fmt.Fprintf(out, ", load before the start %s", r.Load)
	}
	fmt.Fprintln(out)
	for _, line := range slices.Sorted(maps.Keys(foreign)) {
		fmt.Fprintln(out, line)
	}
	for _, line := range r.Remarks {
		fmt.Fprintln(out, line)
	}
	for _, w := range r.Rows {
		if w.Error != "" {
			fmt.Fprintf(out, "%s: %s\n", w.label(), w.Error)
		}
	}
}

func (w *row) label() string {
	return fmt.Sprintf("PostgreSQL %s, %s, %s, %s", w.Server, w.Files, formatSize(w.Size), w.Method)
}

// progress is a line about the latest measurement.
func (w *row) progress() string {
	if w.Error != "" {
		return w.label() + ": " + w.Error
	}
	s := w.Samples[len(w.Samples)-1]
	return fmt.Sprintf("%s: %s, pause %s", w.label(), formatSeconds(s.Ready), formatSeconds(s.Pause))
}

// failure returns an error if something that was to be measured failed.
func (r *report) failure() error {
	var errs []error
	for _, w := range r.Rows {
		if w.Error != "" {
			errs = append(errs, errors.New(w.label()+": "+w.Error))
		}
		if w.Median.Failed > 0 {
			errs = append(errs, fmt.Errorf("%s: %d requests to main failed", w.label(), w.Median.Failed))
		}
	}
	return errors.Join(errs...)
}

func (r *report) save(name string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(data, '\n'), 0o644)
}

func formatSeconds(s float64) string {
	switch {
	case s == 0:
		return "0"
	case s < 0.9995:
		return strconv.FormatFloat(s*1000, 'f', 0, 64) + "ms"
	}
	return threeDigits(s) + "s"
}
