package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// at is a moment in milliseconds.
func at(ms int) time.Time { return time.UnixMilli(1_000_000 + int64(ms)) }

func TestObserve(t *testing.T) {
	// Two clients; the branch is made from 100 to 200, and main is held from 110 to 205.
	requests := []request{
		{began: at(0), ended: at(40)}, {began: at(40), ended: at(90)}, {began: at(90), ended: at(108)}, {began: at(108), ended: at(210)},
		{began: at(0), ended: at(60)}, {began: at(60), ended: at(110)}, {began: at(110), ended: at(215), failed: true},
		{began: at(215), ended: at(216)}, {began: at(210), ended: at(500)},
	}
	for name, c := range map[string]struct {
		from, to int
		want     traffic
	}{
		"before": {0, 100, traffic{Longest: 60 * time.Millisecond, Gap: 30 * time.Millisecond, Requests: 3, Rate: 30}},
		"while held": {100, 200, traffic{
			Longest: 105 * time.Millisecond, Gap: 100 * time.Millisecond, Requests: 2, Failed: 1, Rate: 20,
		}},
		"afterwards": {220, 400, traffic{Longest: 290 * time.Millisecond, Gap: 284 * time.Millisecond}},
		"never":      {600, 600, traffic{}},
	} {
		if diff := cmp.Diff(c.want, observe(requests, at(c.from), at(c.to))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSumsOfOneMomentAgree(t *testing.T) {
	good := sums{Accounts: 5, Tellers: 5, Branches: 5, History: 5, AccountRows: 100, HistoryRows: 10}
	if err := good.check(100, 10, 10); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*sums){
		"a lost account":     func(s *sums) { s.AccountRows-- },
		"half a transaction": func(s *sums) { s.Tellers++ },
		"an old moment":      func(s *sums) { s.HistoryRows-- },
		"a later moment":     func(s *sums) { s.HistoryRows++ },
	} {
		bad := good
		change(&bad)
		if err := bad.check(100, 10, 10); err == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}

func TestRowsOfCopy(t *testing.T) {
	got, err := io.ReadAll(rows(3, func(i int) int { return 10 * i }, true))
	if want := "1\t10\t0\t\n2\t20\t0\t\n3\t30\t0\t\n"; err != nil || string(got) != want {
		t.Errorf("rows = %q, %v, want %q", got, err, want)
	}
	got, err = io.ReadAll(rows(100_000, nil, false))
	if n := strings.Count(string(got), "\t0\n"); err != nil || n != 100_000 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestDatasetHasTheSize(t *testing.T) {
	d, err := newDataset("postgres://u:p@localhost:1/postgres", gigabyte)
	if err != nil {
		t.Fatal(err)
	}
	if d.name != "main_1024" || d.accounts != 6_829_187 || d.branches != 68 || d.tellers() != 680 {
		t.Errorf("%+v", d)
	}
}

func TestExpectedTime(t *testing.T) {
	const fixedCost = 2 * time.Second
	known := fixedCost + 2*time.Second
	for name, c := range map[string]struct {
		m    method
		want time.Duration
	}{
		"grows with main":  {method{strategy: "file_copy"}, fixedCost + 20*time.Second},
		"shares blocks":    {method{strategy: "reflink"}, known},
		"reads the schema": {method{schemaOnly: true}, known},
	} {
		if got := expect(known, fixedCost, c.m, 10); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := expect(0, fixedCost, method{}, 10); got != 0 {
		t.Errorf("nothing known: %s", got)
	}
}
