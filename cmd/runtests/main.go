// Command runtests runs go test and sums up at the end which tests were skipped, and why.
//
//	runtests -race ./...
//
// The arguments are go test's, and so are output and exit code. If BOUGH_TEST_RESULTS names a file, the outcome of each
// test is appended to it; after several runs, on other versions of PostgreSQL for instance,
//
//	runtests -check
//
// fails if a test was skipped in each of them, unless for a reason that starts with "system: ", what the operating system
// or its file system does not have, or with "make ", the command that runs it.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	file := os.Getenv("BOUGH_TEST_RESULTS")
	var err error
	if slices.Equal(os.Args[1:], []string{"-check"}) {
		err = check(file, os.Stdout)
	} else {
		err = run(os.Args[1:], file)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(exit.ExitCode(), 1))
	case err != nil:
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}
}

// run executes go test with the arguments and appends the outcomes to file unless that is "".
func run(args []string, file string) error {
	command := exec.CommandContext(context.Background(), "go", append([]string{"test", "-json"}, args...)...)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	outcomes, readErr := report(out, os.Stdout)
	err = errors.Join(command.Wait(), readErr)
	summarize(outcomes, os.Stdout)
	if file != "" {
		err = errors.Join(err, record(outcomes, file))
	}
	return err
}

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output string
}

// outcome is how a test ended, if it did.
type outcome struct {
	Package, Test string
	Action        string // pass, fail or skip
	Reason        string `json:",omitempty"` // for which it was skipped
}

func (o outcome) name() string {
	return strings.TrimPrefix(o.Package, "github.com/boughdb/bough/") + " " + o.Test
}

// report writes to w what go test without -json and -v writes, and returns the outcomes of the tests.
func report(r io.Reader, w io.Writer) (outcomes []outcome, err error) {
	type test struct{ pkg, name string }
	output := map[test][]string{}  // of tests that have not passed
	order := map[string][]string{} // of a package's tests
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return outcomes, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return outcomes, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			if _, err := w.Write(line); err != nil {
				return outcomes, err
			}
			continue
		}
		key := test{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "output":
			if _, ok := output[key]; !ok {
				order[e.Package] = append(order[e.Package], e.Test)
			}
			output[key] = append(output[key], e.Output)
		case "pass", "fail", "skip":
			if e.Test != "" {
				outcomes = append(outcomes, outcome{e.Package, e.Test, e.Action, reason(e.Action, output[key])})
				if e.Action != "fail" {
					output[key] = nil
				}
				continue
			}
			text := output[key]
			if e.Action != "fail" {
				text = text[max(len(text)-1, 0):] // "ok", the package and the time
			} else {
				for _, name := range order[e.Package] {
					if name != "" {
						printTest(w, output[test{e.Package, name}])
					}
				}
			}
			printTest(w, text)
			for _, name := range order[e.Package] {
				delete(output, test{e.Package, name})
			}
			delete(order, e.Package)
		}
	}
}

// printTest writes the output without the lines that say when tests start and pause.
func printTest(w io.Writer, output []string) {
	for _, line := range output {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(w, line)
		}
	}
}

var logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)

// reason is what a test that was skipped said last.
func reason(action string, output []string) string {
	if action != "skip" {
		return ""
	}
	for _, line := range slices.Backward(output) {
		if match := logged.FindStringSubmatch(line); match != nil {
			return match[1]
		}
	}
	return "no reason was given"
}

// summarize lists the skipped tests by reason.
func summarize(outcomes []outcome, w io.Writer) {
	tests := map[string][]string{}
	for _, o := range outcomes {
		if o.Action == "skip" {
			tests[o.Reason] = append(tests[o.Reason], o.name())
		}
	}
	if len(tests) == 0 {
		return
	}
	fmt.Fprintln(w, "\nSkipped:")
	for _, reason := range slices.Sorted(maps.Keys(tests)) {
		slices.Sort(tests[reason])
		fmt.Fprintf(w, "  %s\n    %s\n", reason, strings.Join(slices.Compact(tests[reason]), "\n    "))
	}
}

func record(outcomes []outcome, file string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	encoder := json.NewEncoder(w)
	for _, o := range outcomes {
		err = errors.Join(err, encoder.Encode(o))
	}
	return errors.Join(err, w.Flush(), f.Close())
}

// check returns an error that names the tests of the file that ran in no run and could have.
func check(file string, w io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	ran, skipped := map[string]bool{}, map[string]outcome{}
	decoder := json.NewDecoder(f)
	for {
		var o outcome
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		switch {
		case o.Action != "skip", strings.HasPrefix(o.Reason, "system: "), strings.HasPrefix(o.Reason, "make "):
			ran[o.name()] = true // or could not, in the run in which it would
		default:
			skipped[o.name()] = o
		}
	}
	if len(ran) == 0 {
		return fmt.Errorf("%s has no tests that ran", file)
	}
	maps.DeleteFunc(skipped, func(name string, _ outcome) bool { return ran[name] })
	if len(skipped) == 0 {
		return nil
	}
	summarize(slices.SortedFunc(maps.Values(skipped), func(a, b outcome) int { return cmp.Compare(a.name(), b.name()) }), w)
	return fmt.Errorf("%d tests were skipped in every run", len(skipped))
}
