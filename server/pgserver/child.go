package pgserver

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is one run of the postmaster.
type child struct {
	pid    int
	exited chan struct{} // closed when the postmaster was reaped, err is set then
	quiet  chan struct{} // closed when all its processes have ended, as their log says
	err    error
	log    *serverLog
}

// startChild starts the postmaster and reads its log.
func startChild(cmd *exec.Cmd, log *slog.Logger) (*child, error) {
	// A pipe of our own: cmd.Wait would wait for the pipe it makes itself, which
	// backends hold open after their postmaster has ended.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	c := &child{exited: make(chan struct{}), quiet: make(chan struct{}), log: &serverLog{out: log}}
	started := make(chan error)
	go func() {
		// The death signal is sent when the forking thread ends, so the thread
		// is kept until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		w.Close()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		r.Close()
		return nil, err
	}
	c.pid = cmd.Process.Pid
	go func() {
		defer close(c.quiet)
		defer r.Close()
		c.log.read(r)
	}()
	return c, nil
}

// stop ends the postmaster: a fast shutdown, which rolls transactions back and
// writes a checkpoint, and after patience or when hurry is closed an immediate
// one, which the next start recovers from.
func (c *child) stop(hurry <-chan struct{}, patience time.Duration) {
	for _, step := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{{syscall.SIGINT, patience}, {syscall.SIGQUIT, immediatePatience}, {syscall.SIGKILL, immediatePatience}} {
		c.signal(step.signal)
		timer := time.NewTimer(step.patience)
		select {
		case <-c.exited:
		case <-timer.C:
		case <-hurry:
			hurry = nil
		}
		timer.Stop()
		if c.hasExited() {
			break
		}
	}
	c.settle(strayPatience)
}

// settle waits until the postmaster's children have ended too.
func (c *child) settle(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.quiet:
	case <-timer.C:
	}
}

// signal signals the postmaster. Between its end and its reaping the number is
// still its own.
func (c *child) signal(s syscall.Signal) {
	if !c.hasExited() {
		syscall.Kill(c.pid, s)
	}
}

func (c *child) hasExited() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// serverLog passes the server's log on to Bough's and keeps its last lines for
// error messages.
type serverLog struct {
	out   *slog.Logger
	level slog.Level // of the last entry, for the lines that continue it

	mu   sync.Mutex
	last []string
}

const (
	logPrefix  = "[%p] %q[%d] "
	lastLines  = 12
	longestLog = 8 << 10
)

var logPattern = regexp.MustCompile(`^(?:\[(\d+)\] (?:\[(.*?)\] )?)?(?:([A-Z]+\d?): +)?(.*)$`)

// read passes lines on until all processes have closed the pipe.
func (l *serverLog) read(r io.Reader) {
	in := bufio.NewReaderSize(r, longestLog)
	for {
		line, long, err := in.ReadLine()
		if err != nil {
			return
		}
		text := string(line)
		for long && err == nil { // the rest of an overlong line is dropped
			_, long, err = in.ReadLine()
		}
		l.line(text)
	}
}

// line passes one line on.
func (l *serverLog) line(text string) {
	m := logPattern.FindStringSubmatch(text)
	if m == nil {
		return
	}
	pid, database, severity, message := m[1], m[2], m[3], m[4]
	switch severity {
	case "", "DETAIL", "HINT", "CONTEXT", "STATEMENT", "QUERY", "LOCATION":
		// continues the entry before
	case "WARNING", "FATAL":
		l.level = slog.LevelWarn
		if expected(message) {
			l.level = slog.LevelDebug
		}
	case "PANIC":
		l.level = slog.LevelError
	default:
		// LOG is for those who look for something, and an ERROR is the answer to
		// somebody's query, who has it.
		l.level = slog.LevelDebug
	}

	message = strings.TrimSpace(message)
	remembered := message
	if severity != "" {
		remembered = severity + ": " + message
	}
	l.mu.Lock()
	l.last = append(l.last, remembered)
	if len(l.last) > lastLines {
		l.last = l.last[1:]
	}
	l.mu.Unlock()

	var attrs []slog.Attr
	if n, err := strconv.Atoi(pid); err == nil {
		attrs = append(attrs, slog.Int("pid", n))
	}
	if database != "" {
		attrs = append(attrs, slog.String("database", database))
	}
	if severity != "" {
		attrs = append(attrs, slog.String("severity", severity))
	}
	l.out.LogAttrs(context.Background(), l.level, "postgres: "+message, attrs...)
}

// expected reports whether a fatal message belongs to starting and stopping.
func expected(message string) bool {
	return slices.ContainsFunc([]string{
		"the database system is starting up",
		"the database system is not yet accepting connections",
		"the database system is shutting down",
		"terminating connection due to administrator command",
	}, func(s string) bool { return strings.HasPrefix(message, s) })
}

// tail returns the last lines.
func (l *serverLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, "\n\t")
}
