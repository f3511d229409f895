// Command bough is Bough's one program: `bough serve` is the server, the other commands are its client.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Whoever interrupts twice does not want to wait for an orderly end.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, newCLI(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes the command line args and returns the exit code. Errors are reported on stderr.
func run(ctx context.Context, c *cli, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand(c)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	return report(ctx, stderr, c.styles(c.stderrIsTerminal), cmd, err)
}
