package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// usageError is a command line that cannot be meant.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// hintError is an error together with what to do about it.
type hintError struct {
	error
	hint string
}

func (e hintError) Unwrap() error { return e.error }

// interruptedError says what goes on although the user stopped waiting for it.
type interruptedError string

func (e interruptedError) Error() string { return string(e) }

func (e interruptedError) Unwrap() error { return context.Canceled }

// apiError is the server's refusal.
type apiError struct {
	status int
	body   client.Error
}

func (e *apiError) Error() string { return e.body.Error }

// hasCode tells whether err is a refusal with that code.
func hasCode(err error, code string) bool {
	var refused *apiError
	return errors.As(err, &refused) && refused.body.Code == code
}

// report writes err for people and returns the exit code for it. cmd is the command that failed.
func report(ctx context.Context, w io.Writer, s styles, cmd *cobra.Command, err error) int {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		stopped := interruptedError("interrupted")
		errors.As(err, &stopped)
		fmt.Fprintln(w, harmlessLines(stopped.Error()))
		return exitInterrupted
	}

	fmt.Fprintf(w, "%s %s\n", s.red("Error:"), harmlessLines(message(err)))
	var refused *apiError
	if errors.As(err, &refused) && value(refused.body.Details) != "" {
		fmt.Fprintf(w, "%s %s\n", s.bold("Detail:"), harmlessLines(*refused.body.Details))
	}
	for _, hint := range hints(err) {
		fmt.Fprintf(w, "%s %s\n", s.bold("Hint:"), harmlessLines(hint))
	}
	if refused != nil {
		if line := reference(refused.body); line != "" {
			fmt.Fprintln(w, s.dim(harmless(line)))
		}
	}
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(w, "Run \"%s --help\" for usage.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailed
}

// message returns what went wrong.
func message(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return err.Error()
	}
	var inner hintError
	if errors.As(request.Err, &inner) { // the request was not sent, for a reason that says what to do
		return inner.Error()
	}
	server := request.URL
	if u, parseErr := url.Parse(request.URL); parseErr == nil {
		server = u.Scheme + "://" + u.Host
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no server answers at %s: connection refused", server)
	case request.Timeout():
		return fmt.Sprintf("the server at %s did not answer in time", server)
	}
	return fmt.Sprintf("reaching %s: %v", server, request.Err)
}

// hints returns what could be done about err.
func hints(err error) []string {
	var all []string
	var refused *apiError
	if errors.As(err, &refused) {
		if hint := value(refused.body.Hint); hint != "" {
			all = append(all, hint)
		}
		if refused.status == http.StatusUnauthorized {
			all = append(all, `sign in with "bough login", or set BOUGH_SERVICE_KEY, BOUGH_CLIENT_KEY or BOUGH_TOKEN`)
		}
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if h, ok := e.(hintError); ok {
			all = append(all, h.hint)
		}
	}
	var request *url.Error
	if errors.As(err, &request) && errors.Is(err, syscall.ECONNREFUSED) {
		all = append(all, `start a server with "bough serve", or name another one with --base-url or BOUGH_BASE_URL`)
	}
	return all
}

// reference returns the line by which support and the log find the refusal.
func reference(body client.Error) string {
	var parts []string
	if body.Code != "" {
		parts = append(parts, body.Code)
	}
	if body.RequestID != "" {
		parts = append(parts, "request "+body.RequestID)
	}
	if len(parts) == 0 {
		return ""
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// value returns what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
