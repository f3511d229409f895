package diskspace

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestReserveIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in, out string
		of      int64 // on a disk of 10 GB
	}{
		{"", "auto", 512 << 20}, {"auto", "auto", 512 << 20}, {"0", "0", 0}, {"512MB", "512MB", 512 << 20}, {"1024MB", "1GB", 1 << 30},
		{"2 GB", "2GB", 2 << 30}, {"5%", "5%", 512 << 20}, {"12.5 %", "12.5%", 1280 << 20}, {"1000", "1000", 1000}, {"3kB", "3kB", 3 << 10},
	} {
		var r Reserve
		if err := r.Set(tc.in); err != nil {
			t.Errorf("%q: %v", tc.in, err)
			continue
		}
		if r.String() != tc.out || r.Of(10<<30) != tc.of {
			t.Errorf("%q is %s, %d bytes; want %s, %d", tc.in, r, r.Of(10<<30), tc.out, tc.of)
		}
		var again Reserve
		if err := again.Set(r.String()); err != nil || again != r {
			t.Errorf("%q written as %s is read as %v, %v", tc.in, r, again, err)
		}
	}
	for _, bad := range []string{"-1", "x", "5 percent", "0%", "51%", "1e3", "MB", "99999999999TB", "NaN%", "1.5GB"} {
		var r Reserve
		if err := r.Set(bad); err == nil {
			t.Errorf("%q is taken for %s", bad, r)
		}
	}
}

func TestDefaultReserveFitsSmallAndLargeDisks(t *testing.T) {
	t.Parallel()
	for total, want := range map[int64]int64{100 << 20: 25 << 20, 400 << 20: 64 << 20, 4 << 30: (4 << 30) / 20, 100 << 30: 1 << 30, 8 << 40: 1 << 30} {
		if got := (Reserve{}).Of(total); got != want {
			t.Errorf("of %s: %s, want %s", Format(total), Format(got), Format(want))
		}
	}
}

// disk is a file system that a test fills.
type disk struct{ free atomic.Int64 }

func (d *disk) guard() *Guard {
	return &Guard{
		usage: func(string) (Usage, error) { return Usage{Free: d.free.Load(), Total: 1 << 30}, nil },
		every: time.Millisecond, settle: time.Millisecond,
	}
}

func TestRequireKeepsTheReserve(t *testing.T) {
	t.Parallel()
	d := &disk{}
	g := d.guard()
	for _, tc := range []struct {
		free, need int64
		ok         bool
	}{
		{200 << 20, 100 << 20, true}, {200 << 20, 136 << 20, true}, {200 << 20, 137 << 20, false}, {64 << 20, 0, true}, {63 << 20, 0, false},
	} {
		d.free.Store(tc.free)
		err := g.Require(tc.need, "the copy")
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrInsufficient) {
			t.Errorf("%s of %s: %v", Format(tc.need), Format(tc.free), err)
		}
	}
	d.free.Store(200 << 20)
	if err := g.Require(500<<20, "the copy"); err == nil || !strings.Contains(err.Error(), "200 MB are free, of which 64 MB are kept in reserve; the copy needs about 500 MB") {
		t.Errorf("the message: %v", err)
	}
	var unknown *Guard
	if err := unknown.Require(1<<60, "the copy"); err != nil {
		t.Errorf("where nothing is known: %v", err)
	}
}

func TestWatchGivesUpTheNewestWorkFirst(t *testing.T) {
	t.Parallel()
	d := &disk{}
	d.free.Store(200 << 20)
	g := d.guard()
	first, stopFirst := g.Watch(t.Context(), "the first")
	second, stopSecond := g.Watch(t.Context(), "the second")
	d.free.Store(50 << 20) // below the reserve, above half of it
	<-second.Done()
	if err := stopSecond(second.Err()); !errors.Is(err, ErrInsufficient) || !strings.Contains(err.Error(), "the second") {
		t.Errorf("the second ended with %v", err)
	}
	<-first.Done() // it is the newest now
	if err := stopFirst(errors.New("broken off")); !errors.Is(err, ErrInsufficient) {
		t.Errorf("the first ended with %v", err)
	}
	// What was done all the same is no failure.
	d.free.Store(0)
	third, stopThird := g.Watch(t.Context(), "the third")
	<-third.Done()
	if err := stopThird(nil); err != nil {
		t.Errorf("work that was done: %v", err)
	}
}

func TestWatchLeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	d := &disk{}
	d.free.Store(200 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	watched, stop := d.guard().Watch(ctx, "the copy")
	cancel()
	<-watched.Done()
	want := errors.New("its own")
	if err := stop(want); !errors.Is(err, want) || errors.Is(err, ErrInsufficient) {
		t.Errorf("got %v", err)
	}
}

func TestUsageOfTheFileSystem(t *testing.T) {
	t.Parallel()
	u, err := Of(t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	if u.Total <= 0 || u.Free < 0 || u.Free > u.Total {
		t.Errorf("%+v", u)
	}
}
