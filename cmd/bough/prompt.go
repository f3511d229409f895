package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// errDeclined is a no to the question of confirm.
var errDeclined = errors.New("cancelled, nothing was changed")

// mayAsk returns a usage error when a question could not be answered; whoever runs a script has to say --force.
func (c *cli) mayAsk(force bool) error {
	if force || c.stdinIsTerminal {
		return nil
	}
	return usagef("there is no terminal to confirm this: say --force to do it without a question")
}

// confirm asks whether to go on, which only "y" and "yes" mean.
func (c *cli) confirm(cmd *cobra.Command, question string) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", harmlessLines(question))
	line, err := c.readLine(cmd)
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

// readLine returns the next line of standard input, without its end.
func (c *cli) readLine(cmd *cobra.Command) (string, error) {
	in := bufio.NewReader(cmd.InOrStdin())
	return interruptible(cmd.Context(), func() (string, error) {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return strings.TrimRight(line, "\r\n"), err
	})
}

// askSecret asks for a line that is not shown.
func (c *cli) askSecret(cmd *cobra.Command, prompt string) (string, error) {
	fmt.Fprint(cmd.ErrOrStderr(), prompt)
	secret, err := interruptible(cmd.Context(), c.readSecret)
	c.restore()
	fmt.Fprintln(cmd.ErrOrStderr())
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(secret), err
}

// interruptible returns what f returns, or earlier when ctx ends. Reading from a terminal cannot be stopped, so f then
// goes on until the process ends, which is soon.
func interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := f()
		done <- outcome{v, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}
