package main

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/term"
)

// cli is what all commands share: the values of the global flags, and the world around the process, so that tests
// can put another one in its place.
type cli struct {
	profile string // --profile
	baseURL string // --base-url

	getenv           func(string) string
	environ          func() []string
	userConfigDir    func() (string, error)
	now              func() time.Time
	stdinIsTerminal  bool
	stdoutIsTerminal bool
	stderrIsTerminal bool
	// terminalWidth returns the width of the terminal that stdout is, or 0.
	terminalWidth func() int
	// readSecret reads a line from the terminal without showing it. restore undoes that when the program ends first.
	readSecret func() (secret []byte, err error)
	restore    func()
	// exec replaces the process by the program at path.
	exec func(path string, argv, env []string) error
}

func newCLI() *cli {
	stdin, stdout := int(os.Stdin.Fd()), int(os.Stdout.Fd())
	c := &cli{
		getenv:           os.Getenv,
		environ:          os.Environ,
		userConfigDir:    os.UserConfigDir,
		now:              time.Now,
		stdinIsTerminal:  term.IsTerminal(stdin),
		stdoutIsTerminal: term.IsTerminal(stdout),
		stderrIsTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		readSecret:       func() ([]byte, error) { return term.ReadPassword(stdin) },
		restore:          func() {},
		exec:             syscall.Exec,
	}
	c.terminalWidth = func() int {
		width, _, err := term.GetSize(stdout)
		if err != nil {
			return 0
		}
		return width
	}
	if state, err := term.GetState(stdin); err == nil {
		c.restore = func() { _ = term.Restore(stdin, state) }
	}
	return c
}

// width returns how many columns a table may take: COLUMNS, else the terminal's width, else 80.
func (c *cli) width() int {
	if n, err := strconv.Atoi(c.getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if c.stdoutIsTerminal {
		if n := c.terminalWidth(); n > 0 {
			return n
		}
	}
	return 80
}

// styles returns the colours for a stream: none unless it is a terminal that wants them.
func (c *cli) styles(terminal bool) styles {
	if !terminal || c.getenv("NO_COLOR") != "" || c.getenv("TERM") == "dumb" {
		return styles{}
	}
	return styles{on: true}
}
