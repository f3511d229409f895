package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/boughdb/bough/gen/client"
)

const (
	firstPoll = 150 * time.Millisecond
	lastPoll  = 2 * time.Second
	// maxMisses is how many requests in a row may fail before waiting ends.
	maxMisses = 5
)

// waiting is a branch that is on its way to ready.
type waiting struct {
	id, name, slug string
	what           string // what goes on when waiting stops: "creation", "reset"
	since          time.Time
	// resetBefore is when the branch had last been reset before this reset, and resetOf tells that it had been ready.
	resetBefore *time.Time
	resetReady  bool
}

// wait waits until a branch is ready and shows what is being done meanwhile.
func (c *cli) wait(cmd *cobra.Command, a *api, on waiting) (client.Branch, answer, error) {
	ctx := cmd.Context()
	show := &progress{w: cmd.ErrOrStderr(), name: on.name, since: on.since, now: c.now, terminal: c.stderrIsTerminal, width: c.width()}
	defer show.clear()

	misses := 0
	for pause := firstPoll; ; pause = min(pause*3/2, lastPoll) {
		b, got, err := readAs[client.Branch](a.GetBranch(ctx, on.id))
		var refused *apiError
		switch {
		case ctx.Err() != nil:
			return b, got, c.stoppedWaiting(on)
		case hasCode(err, "branch_not_found"):
			return b, got, fmt.Errorf("branch %q was deleted meanwhile", on.name)
		case errors.As(err, &refused) && refused.status < 500:
			return b, got, err
		case err != nil:
			if misses++; misses == maxMisses {
				return b, got, hintError{err, fmt.Sprintf("the %s may go on: see \"bough branch status %s\"", on.what, on.slug)}
			}
		default:
			misses = 0
			switch b.Status {
			case client.BranchStatusReady:
				show.clear()
				if on.resetReady && sameTime(b.ResetAt, on.resetBefore) {
					return b, got, c.failedReset(b)
				}
				remark(cmd, "Branch %q is ready after %s.", b.Name, elapsed(c.now().Sub(on.since)))
				return b, got, nil
			case client.BranchStatusError:
				return b, got, c.failedBranch(b)
			case client.BranchStatusDeleting:
				return b, got, fmt.Errorf("branch %q is being deleted", b.Name)
			}
			show.phase(phaseOf(b))
		}
		if err := show.pause(ctx, pause); err != nil {
			return b, got, c.stoppedWaiting(on)
		}
	}
}

func (c *cli) stoppedWaiting(on waiting) error {
	return interruptedError(fmt.Sprintf("Stopped waiting; the %s of %q goes on. See \"bough branch status %s\".", on.what, on.name, on.slug))
}

// failedBranch says why b could not be made.
func (c *cli) failedBranch(b client.Branch) error {
	reason := value(b.ErrorMessage)
	if reason == "" {
		reason = "the server gives no reason"
	}
	return hintError{
		fmt.Errorf("branch %q could not be made: %s", b.Name, reason),
		fmt.Sprintf("\"bough branch reset %s\" tries again, \"bough branch delete %s\" removes it", b.Slug, b.Slug),
	}
}

// failedReset says that b is as it was.
func (c *cli) failedReset(b client.Branch) error {
	msg := fmt.Sprintf("branch %q could not be reset and is as it was", b.Name)
	if reason := value(b.ErrorMessage); reason != "" {
		msg += ": " + reason
	}
	return hintError{errors.New(msg), fmt.Sprintf("\"bough branch activity %s\" shows what happened", b.Slug)}
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

func phaseOf(b client.Branch) string {
	if phase := value(b.Phase); phase != "" {
		return strings.ReplaceAll(phase, "_", " ")
	}
	return string(b.Status)
}

func elapsed(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Minute).String()
}

// progress shows what a branch is waiting for: in one changing line on a terminal, else in a line for each phase.
type progress struct {
	w        io.Writer
	name     string
	since    time.Time
	now      func() time.Time
	terminal bool
	width    int

	current string
	frame   int
	shown   bool
}

var frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func (p *progress) phase(phase string) {
	if !p.terminal && phase != p.current {
		fmt.Fprintf(p.w, "%s: %s\n", harmless(p.name), harmless(phase))
	}
	p.current = phase
}

// pause waits for d and keeps the line moving.
func (p *progress) pause(ctx context.Context, d time.Duration) error {
	for step := 100 * time.Millisecond; d > 0; d -= step {
		p.draw()
		if err := sleep(ctx, min(d, step)); err != nil {
			return err
		}
	}
	return nil
}

func (p *progress) draw() {
	if !p.terminal || p.current == "" {
		return
	}
	line := fmt.Sprintf("%s %s: %s, %s", frames[p.frame], harmless(p.name), harmless(p.current), elapsed(p.now().Sub(p.since).Truncate(time.Second)))
	p.frame = (p.frame + 1) % len(frames)
	// A line as wide as the terminal would wrap on some.
	fmt.Fprint(p.w, "\r\x1b[K"+fit(line, p.width-1))
	p.shown = true
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}
