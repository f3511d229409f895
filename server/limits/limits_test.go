package limits_test

import (
	"testing"
	"time"

	"github.com/boughdb/bough/server/limits"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	b := limits.NewBudget(10)
	if !b.Take(10) || b.Take(1) {
		t.Error("a budget of 10 is not 10")
	}
	b.Give(4)
	if !b.Take(4) || b.Take(1) {
		t.Error("what was given back is not there")
	}
	var none *limits.Budget
	if !none.Take(1<<60) || !limits.NewBudget(0).Take(1<<60) {
		t.Error("no bound is one")
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	s := limits.NewSlots(2, 3)
	one, two := s.Take("ann"), s.Take("ann")
	if one == nil || two == nil || s.Take("ann") != nil {
		t.Fatal("a caller has not two slots")
	}
	three := s.Take("bob")
	if three == nil || s.Take("eve") != nil {
		t.Fatal("there are not three slots")
	}
	one()
	if s.Take("eve") == nil {
		t.Error("a slot that was given back is not there")
	}
	two()
	three()
	for i, want := range []bool{true, true, false} {
		if got := s.Take("ann") != nil; got != want {
			t.Errorf("slot %d: taken %t", i, got)
		}
	}
}

func TestPaceIsAnAverage(t *testing.T) {
	t.Parallel()
	m := limits.Meter{Pace: limits.Pace{BytesPerSecond: 1000, Grace: 10 * time.Second}}
	want := func(left time.Duration) {
		t.Helper()
		if got, ok := m.Left(1000); !ok || got != left {
			t.Errorf("got %v, want %v", got, left)
		}
	}
	want(11 * time.Second)
	m.Passed(1000, 5*time.Second)
	want(7 * time.Second)
	m.Passed(5000, 0) // in one burst
	want(12 * time.Second)
	m.Passed(0, 12*time.Second)
	want(time.Millisecond)
	m.Passed(20_000_000_000_000, 0)
	if got, _ := m.Left(0); got < time.Hour {
		t.Errorf("a large answer leaves %v", got)
	}
	if _, ok := (&limits.Meter{}).Left(1); ok {
		t.Error("no pace is one")
	}
}
