// Benchoauth measures how many OAuth tokens the server issues and checks in a second. It starts the real program on a
// PostgreSQL of its own and redeems codes, refreshes tokens and uses them over HTTP. Beside it, in turn with it, pgbench
// runs the SQL that each of these comes to, as often and over as many connections: the yardstick that nothing can beat
// which keeps its tokens in the same tables.
//
// The statements are read from queries/oauth.sql, so that both run the same ones. Everything else lies in a directory that
// is removed at the end.
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
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	dir         string
	binDir      string
	path        string
	connections int
	requests    int
	rounds      int
	limit       time.Duration
	verbose     bool
}

func main() {
	o, err := parseFlags(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "benchoauth:", err)
		os.Exit(2)
	}
	// Never given back: further signals must not cut the cleaning up short.
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "benchoauth:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("benchoauth", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.dir, "dir", "", "directory to measure in (default: the directory for temporary files)")
	f.StringVar(&o.binDir, "postgres-bin", "", "directory with PostgreSQL's programs (default: as the server finds them)")
	f.StringVar(&o.path, "bough", "", "program to measure (default: one that is built from the sources)")
	f.IntVar(&o.connections, "connections", 16, "connections of clients, at the server as of pgbench")
	f.IntVar(&o.requests, "requests", 4000, "requests of each kind in a round")
	f.IntVar(&o.rounds, "rounds", 3, "times to measure each; medians are shown")
	f.DurationVar(&o.limit, "time-limit", 5*time.Minute, "when to give up")
	f.BoolVar(&o.verbose, "v", false, "show what PostgreSQL logs")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.connections < 1 || o.rounds < 1 || o.limit <= 0 || o.requests < o.connections {
		return o, errors.New("connections, rounds and time-limit must be positive, requests at least as many as connections")
	}
	o.requests -= o.requests % o.connections // each connection makes as many
	return o, nil
}

// run measures everything, then prints it. What was measured before an interruption is printed too.
func run(ctx context.Context, o options) error {
	level := slog.LevelWarn
	if o.verbose {
		level = slog.LevelDebug
	}
	b := &bench{
		options: o, remarks: os.Stderr, report: newReport(o),
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
	err := b.run(ctx)
	if b.report.hasSamples() {
		fmt.Println()
		b.report.print(os.Stdout)
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}
