// Benchmcp measures what it costs to ask for records through the MCP server, beside the same query over the tables API: it
// starts the real program on a PostgreSQL of its own and asks it both ways in turn, over as many connections. The CPU time
// that the server and PostgreSQL take for each request is steadier than the rate, which depends on whatever else the
// machine does; what counts is the ratio within a round.
//
// Everything lies in a directory that is removed at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	dir         string
	binDir      string
	program     string
	rows        int
	connections int
	rounds      int
	duration    time.Duration
	limit       time.Duration
}

func main() {
	o, err := parseFlags(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "benchmcp:", err)
		os.Exit(2)
	}
	// Never given back: further signals must not cut the cleaning up short.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "benchmcp:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("benchmcp", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.dir, "dir", "", "directory to measure in (default: the directory for temporary files)")
	f.StringVar(&o.binDir, "postgres-bin", "", "directory with PostgreSQL's programs (default: as the server finds them)")
	f.StringVar(&o.program, "bough", "", "program to measure (default: one that is built from the sources)")
	f.IntVar(&o.rows, "rows", 10_000, "rows of the table")
	f.IntVar(&o.connections, "connections", 16, "connections of clients")
	f.IntVar(&o.rounds, "rounds", 3, "times to measure each; medians are shown")
	f.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "how long to measure each time")
	f.DurationVar(&o.limit, "time-limit", 5*time.Minute, "when to give up")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.rows < pageRows || o.connections < 1 || o.rounds < 1 || o.duration <= 0 || o.limit <= 0 {
		return o, fmt.Errorf("connections, rounds, duration and time-limit must be positive, rows at least %d", pageRows)
	}
	return o, nil
}

// run measures everything, then prints it.
func run(ctx context.Context, o options, out, remarks io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	s, err := startStage(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	rows := make([]row, 0, len(scenarios))
	for _, sc := range scenarios {
		size, err := sc.tryOnce(s.addr, o.rows)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		rows = append(rows, row{scenario: sc, size: size})
	}
	for round := range o.rounds {
		for i := range rows {
			sample, err := s.measure(ctx, rows[i].scenario, o)
			if err != nil {
				return fmt.Errorf("%s: %w", rows[i].name, err)
			}
			rows[i].samples = append(rows[i].samples, sample)
			fmt.Fprintf(remarks, "%d/%d %s: %.0f requests a second\n", round+1, o.rounds, rows[i].name, sample.rate)
		}
	}
	memory, err := memoryOf(s.pid())
	if err != nil {
		return err
	}
	show(out, rows, o, s.version, memory)
	return nil
}
