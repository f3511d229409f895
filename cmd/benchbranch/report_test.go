package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sampleReport() *report {
	dump := func(server, files string, ready float64) *row {
		return &row{Server: server, Files: files, Size: gigabyte, Method: dumpMethod.name, method: dumpMethod, Samples: []sample{{Ready: ready}}}
	}
	return &report{Clients: 4, Rounds: 3, CPUs: 2, System: "linux/amd64", Rows: []*row{
		{Server: "18.4", Files: "xfs", Size: gigabyte, Method: "reflink", Samples: []sample{
			{Ready: 0.1, Pause: 0.2, Requests: 10, Disk: 8 * kilobyte}, {Ready: 0.3, Pause: 0.9, Requests: 20, Failed: 1}, {Ready: 0.2, Pause: 0.3, Requests: 30},
		}},
		{Server: "18.4", Files: "xfs", Size: 100 * megabyte, Method: "copy"},
		{Server: "15.20", Files: "ext4", Size: gigabyte, Method: "wal_log", Samples: []sample{{Ready: 5}}},
		{Server: "15.20", Files: "ext4", Size: gigabyte, Method: "copy", Error: "it broke"},
		dump("15.20", "ext4", 20),
		dump("15.20", "xfs", 30),
	}}
}

func TestReportComparesWithTheNearestDump(t *testing.T) {
	r := sampleReport()
	r.finish()
	byMethod := map[string]*row{}
	for _, w := range r.Rows {
		byMethod[w.Method] = w
	}
	if w := byMethod["reflink"]; w.Median.Ready != 0.2 || w.Ratio != 30/0.2 || w.Foreign != "PostgreSQL 15.20 on xfs" {
		t.Errorf("reflink: %+v", w)
	}
	if w := byMethod["wal_log"]; w.Ratio != 4 || w.Foreign != "" {
		t.Errorf("wal_log: %+v", w)
	}
	if w := byMethod[dumpMethod.name]; w.Ratio != 0 {
		t.Errorf("the dump is compared with itself: %+v", w)
	}
	if r.Rows[0].Size != 100*megabyte {
		t.Error("the small main does not come first")
	}
}

func TestTableIsAligned(t *testing.T) {
	r := sampleReport()
	r.finish()
	var b strings.Builder
	r.print(&b)
	lines := strings.Split(b.String(), "\n")
	column := strings.Index(lines[0], "READY")
	for _, line := range lines[1:7] {
		if runes := []rune(line); runes[column] == ' ' || runes[column-1] != ' ' {
			t.Errorf("READY is not in column %d of %q", column, line)
		}
	}
	for _, want := range []string{
		"200ms", "100ms–300ms  ×150*", "300ms  900ms", "1 of 60", "no time", "failed",
		"* no dump of PostgreSQL 18.4 on xfs; compared with PostgreSQL 15.20 on xfs", "ext4, 1 GB, copy: it broke",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestFailuresAreReturned(t *testing.T) {
	r := sampleReport()
	r.finish()
	err := r.failure()
	for _, want := range []string{"it broke", "1 requests to main failed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("failure() = %v, want %q in it", err, want)
		}
	}
	if err := (&report{}).failure(); err != nil {
		t.Error(err)
	}
}

func TestFlags(t *testing.T) {
	o, err := parseFlags([]string{"-sizes", "1GB", "-dir", "a,b", "-workers", "8"}, io.Discard)
	if err != nil || len(o.dirs) != 2 || o.workers != 8 || o.rounds != 3 || !o.loop || o.sizes[0] != gigabyte {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-sizes", "x"}, {"-methods", "magic"}, {"-workers", "0"}, {"-rounds", "0"}, {"-time-limit", "0s"}, {"extra"}, {"-no-such"}} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if _, err := parseFlags([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

func TestDiskUsage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(strings.Repeat("x", int(megabyte))), 0o600); err != nil {
		t.Fatal(err)
	}
	used, err := diskUsage(dir)
	if err != nil || used < megabyte/4 || used > 3*megabyte {
		t.Errorf("diskUsage = %d, %v", used, err)
	}
}
