// Benchtables measures what a request for records costs. It starts the real program on a PostgreSQL of its own, asks it
// over many connections, and counts the CPU time that the server and PostgreSQL take for each request. That is
// steadier than the rate, which depends on whatever else the machine does.
//
// Beside it stand two yardsticks, measured in turn with it: pgbench, which has the same statements run with the same
// settings in one pipeline, and a server that always gives the same answer, of the same size. Besides, it looks at what
// hurts elsewhere: large answers, large schemas, and changes of the schema under load.
//
// Everything lies in a directory that is removed at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	dir         string
	binDir      string
	program     string
	socket      bool
	rows        int
	connections int
	rounds      int
	duration    time.Duration
	only        []string
	limit       time.Duration
	verbose     bool

	constant bool // be the server with the constant answer
}

func main() {
	o, err := parseFlags(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "benchtables:", err)
		os.Exit(2)
	}
	if o.constant {
		if err := serveConstant(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "benchtables:", err)
			os.Exit(1)
		}
		return
	}
	// Never given back: further signals must not cut the cleaning up short.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "benchtables:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("benchtables", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.dir, "dir", "", "directory to measure in (default: the directory for temporary files)")
	f.StringVar(&o.binDir, "postgres-bin", "", "directory with PostgreSQL's programs (default: as the server finds them)")
	f.StringVar(&o.program, "bough", "", "program to measure (default: one that is built from the sources)")
	f.BoolVar(&o.socket, "socket", false, "let server and pgbench reach PostgreSQL over the Unix socket instead of TCP")
	f.IntVar(&o.rows, "rows", 100_000, "rows of the table")
	f.IntVar(&o.connections, "connections", 32, "connections of clients, at the server as of pgbench")
	f.IntVar(&o.rounds, "rounds", 3, "times to measure each; medians are shown")
	f.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "how long to measure each time")
	only := f.String("only", "", "what to measure: "+strings.Join(partNames(), ", ")+" (default: everything)")
	f.DurationVar(&o.limit, "time-limit", 10*time.Minute, "when to give up")
	f.BoolVar(&o.verbose, "v", false, "show what PostgreSQL logs")
	f.BoolVar(&o.constant, "serve-constant", false, "serve the constant answer; the benchmark starts itself so")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.rows < rowsOfAuthor || o.connections < 1 || o.rounds < 1 || o.duration <= 0 || o.limit <= 0 {
		return o, fmt.Errorf("connections, rounds, duration and time-limit must be positive, rows at least %d", rowsOfAuthor)
	}
	o.only = strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	for _, name := range o.only {
		if !contains(partNames(), name) {
			return o, fmt.Errorf("%q is nothing that can be measured", name)
		}
	}
	return o, nil
}

// wants reports whether a part is to be measured.
func (o *options) wants(part string) bool { return len(o.only) == 0 || contains(o.only, part) }

// run measures everything, then prints it. What was measured before an interruption is printed too.
func run(ctx context.Context, o options) error {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	b := &bench{
		options: o,
		log:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
		remarks: os.Stderr,
		report:  newReport(o),
	}
	err := b.run(ctx)
	if b.report.hasSamples() {
		fmt.Println()
		b.report.print(os.Stdout)
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return errors.Join(err, b.report.failure())
}
