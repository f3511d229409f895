// Benchbranch measures what a branch costs: how long until it is ready, how long main's clients have to wait, how much
// disk it takes. It does so for each strategy that the server and the file system allow, while clients write to main,
// and beside what one would do without Bough: pg_dump | psql.
//
// It runs PostgreSQL servers of its own, with the settings that Bough gives them, in directories that are removed at the
// end. Nothing else on the machine is touched, but everything else on the machine is measured too: let it be quiet.
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
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	sizes    []int64
	dirs     []string
	binDirs  []string
	methods  []string
	loop     bool
	tables   int
	workers  int
	rounds   int
	calm     time.Duration
	limit    time.Duration
	jsonFile string
	verbose  bool
}

func main() {
	o, err := parseFlags(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "benchbranch:", err)
		os.Exit(2)
	}
	// Never given back: further signals must not cut the cleaning up short.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "benchbranch:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("benchbranch", flag.ContinueOnError)
	f.SetOutput(out)
	sizes := f.String("sizes", "100MB,1GB", "sizes of main")
	dirs := f.String("dir", "", "directories to measure in, one for each file system (default: the directory for temporary files)")
	bins := f.String("postgres-bin", "", "directories with PostgreSQL's programs (default: one installation of each major version found)")
	methods := f.String("methods", "", "what to measure: "+strings.Join(methodNames, ", ")+"; dump stands for pg_dump | psql (default: all that is possible)")
	f.BoolVar(&o.loop, "xfs", true, "measure on XFS with shared blocks too, in a file mounted for the purpose, where that is possible (root, mkfs.xfs)")
	f.IntVar(&o.tables, "tables", 0, "tables that main has beside pgbench's four, with keys, indexes, checks, views and functions")
	f.IntVar(&o.workers, "workers", 4, "clients that write to main")
	f.IntVar(&o.rounds, "rounds", 3, "times to measure each; medians are shown")
	f.DurationVar(&o.calm, "calm", time.Second, "how long clients write before each branch; the longer, the more is in memory only when it is made")
	f.DurationVar(&o.limit, "time-limit", 5*time.Minute+30*time.Second, "time for everything; what does not fit is measured less often or left out")
	f.StringVar(&o.jsonFile, "json", "", "file for all that was measured")
	f.BoolVar(&o.verbose, "v", false, "show what the servers log")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if o.sizes, err = parseSizes(*sizes); err != nil {
		return o, err
	}
	if o.tables < 0 {
		return o, errors.New("tables must not be negative")
	}
	if o.workers < 1 || o.rounds < 1 || o.limit <= 0 || o.calm <= 0 {
		return o, errors.New("workers, rounds, calm and time-limit must be positive")
	}
	o.methods = splitList(*methods)
	for _, name := range o.methods {
		if !slices.Contains(methodNames, name) {
			return o, fmt.Errorf("%q is no method", name)
		}
	}
	o.dirs, o.binDirs = splitList(*dirs), splitList(*bins)
	if len(o.dirs) == 0 {
		o.dirs = []string{os.TempDir()}
	}
	return o, nil
}

func splitList(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

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
	b.report.finish()
	if len(b.report.Rows) > 0 {
		fmt.Println()
		b.report.print(os.Stdout)
	}
	if o.jsonFile != "" {
		err = errors.Join(err, b.report.save(o.jsonFile))
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return errors.Join(err, b.report.failure())
}
