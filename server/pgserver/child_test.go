package pgserver

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestServerLogLevels(t *testing.T) {
	t.Parallel()
	const in = `[12] LOG:  starting PostgreSQL 18.4
[13] [app] ERROR:  relation "a" does not exist at character 15
[13] [app] STATEMENT:  select *
	from a
[12] WARNING:  could not open statistics file
[12] HINT:  look
[14] [app] FATAL:  the database system is starting up
[14] [app] FATAL:  password authentication failed for user "bough"
[15] PANIC:  could not write to file
initdb: some text
`
	var out bytes.Buffer
	l := &serverLog{out: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))}
	l.read(strings.NewReader(in + strings.Repeat("x", 3*longestLog) + "\n[12] LOG:  after a long line\n"))
	got := strings.Replace(out.String(), strings.Repeat("x", longestLog), "xxx", 1)
	want := `level=DEBUG msg="postgres: starting PostgreSQL 18.4" pid=12 severity=LOG
level=DEBUG msg="postgres: relation \"a\" does not exist at character 15" pid=13 database=app severity=ERROR
level=DEBUG msg="postgres: select *" pid=13 database=app severity=STATEMENT
level=DEBUG msg="postgres: from a"
level=WARN msg="postgres: could not open statistics file" pid=12 severity=WARNING
level=WARN msg="postgres: look" pid=12 severity=HINT
level=DEBUG msg="postgres: the database system is starting up" pid=14 database=app severity=FATAL
level=WARN msg="postgres: password authentication failed for user \"bough\"" pid=14 database=app severity=FATAL
level=ERROR msg="postgres: could not write to file" pid=15 severity=PANIC
level=ERROR msg="postgres: initdb: some text"
level=ERROR msg="postgres: xxx"
level=DEBUG msg="postgres: after a long line" pid=12 severity=LOG
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if tail := l.tail(); !strings.HasSuffix(tail, "\n\tLOG: after a long line") || !strings.Contains(tail, "PANIC: could not write to file") {
		t.Errorf("tail is %q", tail)
	}
}

func TestSharedBuffers(t *testing.T) {
	t.Parallel()
	for memory, want := range map[uint64]string{0: "128MB", 256 << 20: "128MB", 2 << 30: "512MB", 64 << 30: "1024MB"} {
		if diff := cmp.Diff(want, sharedBuffers(memory)); diff != "" {
			t.Errorf("with %d bytes (-want +got):\n%s", memory, diff)
		}
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var f failures
	for i := range 100 {
		f.add(now.Add(time.Duration(i) * 20 * time.Second))
	}
	if want := 7; len(f) != want { // of the last two minutes, ends included
		t.Errorf("%d failures are remembered, want %d", len(f), want)
	}

	f = nil
	var got []time.Duration
	for range 8 {
		got = append(got, f.backOff(lastBackOff))
		f.add(now)
	}
	const ms = time.Millisecond
	want := []time.Duration{0, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("back-off (-want +got):\n%s", diff)
	}
}
