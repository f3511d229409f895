// Package diskspace keeps a reserve of free space on the disk that holds the databases. PostgreSQL stops when it cannot
// write its log any more, so nothing that can be refused or given up may take the last of the space: work is checked
// against what is free before it begins, and watched while it goes on.
package diskspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/boughdb/bough/server/fault"
)

// ErrInsufficient is the error of work that the disk has no room for.
var ErrInsufficient = fault.New(fault.InsufficientStorage, "insufficient_storage", "not enough disk space").
	WithHint("delete branches that are not needed, or make the disk larger")

// Usage is the size of a file system and what of it programs without special rights can still fill, in bytes.
type Usage struct{ Free, Total int64 }

// Bounds of the default reserve. PostgreSQL makes the files of its log 16 MB at a time and needs some of them for a
// checkpoint, so less than the lower bound would protect nothing.
const (
	minReserve = 64 << 20
	maxReserve = 1 << 30
)

// Reserve is a setting: how much space is kept free. The zero value is the default, 5 % of the file system between
// 64 MB and 1 GB, and at most a quarter of it.
type Reserve struct {
	bytes   int64
	percent float64
	set     bool
}

// Of returns the reserve on a file system of the given size.
func (r Reserve) Of(total int64) int64 {
	switch {
	case !r.set:
		return min(max(total/20, minReserve), maxReserve, total/4)
	case r.percent > 0:
		return int64(float64(total) / 100 * r.percent)
	}
	return r.bytes
}

// units are those of PostgreSQL's settings, each 1024 times the one before.
var units = []string{"kB", "MB", "GB", "TB"}

// Set reads auto, a number of bytes with or without a unit of PostgreSQL (512MB), or a share of the file system (5%).
func (r *Reserve) Set(text string) error {
	text = strings.TrimSpace(text)
	if text == "" || text == "auto" {
		*r = Reserve{}
		return nil
	}
	if share, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		if err != nil || !(percent > 0 && percent <= 50) {
			return fmt.Errorf("%q must be more than 0%% and at most 50%%", text)
		}
		*r = Reserve{percent: percent, set: true}
		return nil
	}
	number, factor := text, int64(1)
	for i, unit := range units {
		if n, ok := strings.CutSuffix(text, unit); ok {
			number, factor = strings.TrimSpace(n), int64(1)<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		return fmt.Errorf("%q is not a size, such as 512MB, nor a share, such as 5%%", text)
	}
	*r = Reserve{bytes: n * factor, set: true}
	return nil
}

func (r Reserve) String() string {
	switch {
	case !r.set:
		return "auto"
	case r.percent > 0:
		return strconv.FormatFloat(r.percent, 'g', -1, 64) + "%"
	}
	n, unit := r.bytes, ""
	for _, next := range units {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, next
	}
	return strconv.FormatInt(n, 10) + unit
}

// Type is the name of the setting's type in help texts.
func (Reserve) Type() string { return "size" }

// Format writes a number of bytes for people, as pg_size_pretty does.
func Format(n int64) string {
	unit := ""
	value := float64(n)
	for _, next := range units {
		if value < 10240 && value > -10240 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "" {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatFloat(value, 'f', 0, 64) + " " + unit
}

// Guard watches over a file system. A nil Guard knows nothing and allows everything.
type Guard struct {
	dir     string
	reserve Reserve
	usage   func(dir string) (Usage, error)
	every   time.Duration
	settle  time.Duration

	mu      sync.Mutex
	working []*work   // oldest first
	gaveUp  time.Time // when work was last given up
}

// work is what is watched.
type work struct{ cancel context.CancelCauseFunc }

// How often free space is looked at while work goes on. A fast disk takes some 10 MB in that time.
const watchEvery = 20 * time.Millisecond

// How long the space of work that was given up may take to come back before other work is given up too.
const settleTime = 10 * time.Second

// New returns a guard of the file system that dir is on.
func New(dir string, reserve Reserve) *Guard {
	return &Guard{dir: dir, reserve: reserve, usage: Of, every: watchEvery, settle: settleTime}
}

// NewFunc returns a guard that asks usage; tests have one that tells what they want.
func NewFunc(usage func() (Usage, error), reserve Reserve) *Guard {
	g := New("", reserve)
	g.usage = func(string) (Usage, error) { return usage() }
	return g
}

// Dir is the directory whose file system is watched.
func (g *Guard) Dir() string { return g.dir }

// Usage returns how full the file system is, and how much of it is kept free. ok is false where that is not known.
func (g *Guard) Usage() (u Usage, reserve int64, ok bool) {
	if g == nil {
		return Usage{}, 0, false
	}
	u, err := g.usage(g.dir)
	if err != nil {
		return Usage{}, 0, false
	}
	return u, g.reserve.Of(u.Total), true
}

// Require returns an ErrInsufficient when need bytes do not fit beside the reserve; need 0 asks whether the reserve
// itself is there. what names the work, such as "the copy".
func (g *Guard) Require(need int64, what string) error {
	u, reserve, ok := g.Usage()
	if !ok || reserve == 0 && need == 0 || u.Free-need >= reserve {
		return nil
	}
	if need == 0 {
		return ErrInsufficient.Msgf("not enough disk space for %s: %s are free, and %s are kept in reserve", what, Format(u.Free), Format(reserve))
	}
	return ErrInsufficient.Msgf("not enough disk space: %s are free, of which %s are kept in reserve; %s needs about %s",
		Format(u.Free), Format(reserve), what, Format(need))
}

// Watch returns a context for work that fills the disk. It ends with an ErrInsufficient when free space falls below the
// reserve. stop ends the watching and returns the error of the work: that ErrInsufficient where it was the cause.
//
// Of several at a time the one that began last is given up first; the others go on as long as half of the reserve is
// left.
func (g *Guard) Watch(ctx context.Context, what string) (watched context.Context, stop func(error) error) {
	if _, _, ok := g.Usage(); !ok {
		return ctx, func(err error) error { return err }
	}
	watched, cancel := context.WithCancelCause(ctx)
	w := &work{cancel}
	g.mu.Lock()
	g.working = append(g.working, w)
	g.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(g.every)
		defer tick.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-tick.C:
			}
			if err := g.low(w, what); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return watched, func(err error) error {
		cancel(context.Canceled)
		<-done
		g.mu.Lock()
		g.working = slices.DeleteFunc(g.working, func(o *work) bool { return o == w })
		g.mu.Unlock()
		if cause := context.Cause(watched); err != nil && errors.Is(cause, ErrInsufficient) {
			return cause
		}
		return err
	}
}

// low returns an error when the work is to be given up.
func (g *Guard) low(w *work, what string) error {
	u, reserve, ok := g.Usage()
	if !ok || u.Free >= reserve {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	next := g.working[len(g.working)-1] == w && time.Since(g.gaveUp) > g.settle
	if !next && u.Free >= reserve/2 {
		return nil
	}
	g.gaveUp = time.Now()
	return ErrInsufficient.Msgf("%s was given up since the disk was getting full: %s were free, and %s are kept in reserve",
		what, Format(u.Free), Format(reserve))
}
