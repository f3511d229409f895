package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	t.Parallel()
	kinds := scenarios(1000)
	r := &report{Server: "PostgreSQL 18.4", Connections: 32, Rounds: 3, RowCount: 1000, Memory: memory{30 << 20, 20 << 20, 35 << 20}}
	one := sample{Rate: 1000, Middle: 2000, Slow: 9000, Server: 60, Postgres: 40, Yardstick: true, BenchRate: 3000, BenchPostgres: 40, BenchSelf: 10, Constant: 15}
	// Everything takes twice as long in the second round, which must leave the ratios alone; the third is out of line.
	two, three := one, one
	two.Server, two.Postgres, two.BenchPostgres, two.BenchSelf = 120, 80, 80, 20
	three.Server = 6000
	three.Postgres, three.SlowPostgres, three.SlowSelf = 60, 50, 10
	r.Rows = []*row{
		{scenario: kinds[0], Size: 355, Samples: []sample{one, two, three}},
		{scenario: kinds[5], Size: 355, Samples: []sample{{Rate: 500, Server: 90, Postgres: 50}}},
	}
	r.Large = &large{FirstByte: 8 * time.Millisecond, Total: time.Second, Bytes: 1 << 20, Memory: memory{1 << 20, 0, 2 << 20}}
	r.Changes = &changes{Statements: 12, Requests: 100}
	r.note("a note")
	r.note("a note")
	var out bytes.Buffer
	r.print(&out)
	lines := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		name, rest, _ := strings.Cut(line, "  ")
		lines[strings.TrimSpace(name)] = strings.Fields(rest)
	}
	for name, want := range map[string]string{
		"one by id":                                       "355 1000 2.0 9.0 0 120 60 40 + 10 3000 2.00 ≤ 1.6 2.50 50 + 10 101.00 15 8.0",
		"one by id, user":                                 "355 500 0.0 0.0 0 90 50 – – – – – – – 15 6.0", // no pgbench; the constant is the other's
		"memory of the server after the load":             "30.0 MiB, of it 20.0 MiB program, at most 35.0 MiB 40 MiB",
		"first byte of 1000 rows":                         "8.0 ms 50 ms",
		"failed requests during 12 changes of the schema": "0 of 100 0",
	} {
		if got := strings.Join(lines[name], " "); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
	if n := strings.Count(out.String(), "a note"); n != 1 {
		t.Errorf("the note is there %d times", n)
	}
	if err := r.failure(); err != nil {
		t.Error(err)
	}
	r.Rows[0].Samples[1].Failed = 3
	r.Changes.Failed = 1
	if err := r.failure(); err == nil || !strings.Contains(err.Error(), "one by id: 3") || !strings.Contains(err.Error(), "1 requests") {
		t.Errorf("failures are told as %v", err)
	}
}

func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	r := newReport(options{})
	if r.hasSamples() {
		t.Error("there is something")
	}
	r.print(io.Discard)
	if median(nil) != 0 || median([]float64{3, 1}) != 2 || median([]float64{9, 1, 5}) != 5 {
		t.Error("the median is wrong")
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	o, err := parseFlags([]string{"-only", "get,ddl", "-rounds", "1"}, io.Discard)
	if err != nil || !o.wants("get") || !o.wants("ddl") || o.wants("list") {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = parseFlags(nil, io.Discard); err != nil || !o.wants("list") || !o.wants("wide") {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-only", "x"}, {"-rounds", "0"}, {"-rows", "10"}, {"-duration", "0s"}, {"extra"}, {"-no-such"}} {
		if _, err := parseFlags(args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	if _, err := parseFlags([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

func TestProgressOfPgbenchIsRead(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"progress: 1.0 s, 30916.2 tps, lat 1.0 ms stddev 0.4, 0 failed": "30916.2",
		"progress: 12.5 s, 8.0 tps, lat 0.9 ms stddev 0.1":              "8.0",
		"pgbench (18.4)": "",
	} {
		got := ""
		if match := progress.FindStringSubmatch(line); match != nil {
			got = match[1]
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
