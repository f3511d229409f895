package main

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	allowed := cmp.AllowUnexported(process{})
	for name, text := range map[string]string{
		"a plain name":                  "12 (postgres) S 7 12 12 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 100 1 1",
		"a name with all that may hurt": "12 (a ) S 1 (b) S 7 12 12 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 100 1 1",
	} {
		got, err := parseStat([]byte(text))
		want := process{parent: 7, own: 2 * time.Second, children: 500 * time.Millisecond}
		if diff := cmp.Diff(want, got, allowed); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, text := range []string{"", "12 (postgres", "12 (postgres) S 7 12", "12 (p) S x 12 12 0 -1 4194560 1 2 3 4 150 50 30 20 20"} {
		if got, err := parseStat([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestParseMemory(t *testing.T) {
	t.Parallel()
	got, err := parseMemory("Name:\tbough\nVmHWM:\t  2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t     256 kB\nRssFile:\t     512 kB\nThreads:\t9\n")
	if diff := cmp.Diff(memory{now: 1 << 20, file: 512 << 10, peak: 2 << 20}, got, cmp.AllowUnexported(memory{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"", "VmHWM:\t x kB\nVmRSS:\t1 kB\n", "VmRSS:\t1 kB\n"} {
		if got, err := parseMemory(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// A child's time must not be lost when it ends: PostgreSQL's sessions come and go.
func TestFamilyKeepsTheTimeOfChildrenThatEnded(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("system: there is no /proc")
	}
	before, err := cpuOfFamily(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	busy := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	if err := busy.Run(); err != nil {
		t.Fatal(err)
	}
	used := busy.ProcessState.UserTime() + busy.ProcessState.SystemTime()
	after, err := cpuOfFamily(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got := after - before; got < used-20*time.Millisecond {
		t.Errorf("the family used %v, the child alone %v", got, used)
	}
}
