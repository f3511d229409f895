package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// module is a module with tests of every outcome.
var module = map[string]string{
	"go.mod":            "module example.com/m\n\ngo 1.24\n",
	"good/good.go":      "package good",
	"good/good_test.go": "package good\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) { t.Parallel(); t.Log(\"fine\") }\n\nfunc TestOther(t *testing.T) { t.Parallel() }\n",
	"bad/bad_test.go": `package bad

import (
	"fmt"
	"testing"
)

func TestBad(t *testing.T) {
	fmt.Println("printed")
	t.Log("logged")
	t.Run("one", func(t *testing.T) { t.Parallel(); t.Error("wrong") })
	t.Run("two", func(t *testing.T) { t.Parallel(); t.Log("right") })
}

func TestFine(t *testing.T) { t.Log("not to be seen") }
`,
	"left/left_test.go": `package left

import "testing"

func TestLeft(t *testing.T) {
	t.Run("system", func(t *testing.T) { t.Log("first"); t.Skip("system: no such thing") })
	t.Run("version", func(t *testing.T) { t.Skipf("version %d has it not", 3) })
	t.Run("silent", func(t *testing.T) { t.SkipNow() })
	t.Run("short", func(t *testing.T) {
		if testing.Short() {
			t.Skip("takes long")
		}
	})
}
`,
	"panics/panics_test.go": "package panics\n\nimport \"testing\"\n\nfunc TestPanics(t *testing.T) { t.Log(\"before\"); panic(\"oh no\") }\n",
	"exits/exits_test.go":   "package exits\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestExits(t *testing.T) { os.Exit(3) }\n",
	"broken/broken_test.go": "package broken\n\nfunc f() { undefined() }\n",
	"none/none.go":          "package none",
}

func write(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range module {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// execute runs a program in the directory and returns its output and exit code.
func execute(t *testing.T, dir, results, name string, args ...string) (string, int) {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=", "BOUGH_TEST_RESULTS="+results)
	out, err := command.CombinedOutput()
	if err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), command.ProcessState.ExitCode()
}

func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runtests")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

var changing = regexp.MustCompile(`\(cached\)|[0-9.]+s\b|0x[0-9a-f]+|\+0x.*|goroutine \d+`)

// lines are the lines of an output in an order of their own, without times, stacks, the words that end it, and the exit
// status, which go test -json leaves out.
func lines(out string) []string {
	var all []string
	for line := range strings.Lines(changing.ReplaceAllString(out, "…")) {
		line = strings.TrimSpace(line)
		if line != "" && line != "FAIL" && !strings.HasPrefix(line, "exit status") && !strings.Contains(line, ".go:") && !strings.Contains(line, "testing.") && !strings.Contains(line, "created by") {
			all = append(all, line)
		}
	}
	slices.Sort(all)
	return all
}

// What one sees is what go test shows, and so is the exit code.
func TestOutputIsThatOfGoTest(t *testing.T) {
	t.Parallel()
	dir, runtests := write(t), program(t)
	for _, args := range [][]string{{"./good", "./none"}, {"./..."}, {"./nowhere"}, {"-nosuchflag"}} {
		want, wantCode := execute(t, dir, "", "go", append([]string{"test", "-count=1"}, args...)...)
		got, code := execute(t, dir, "", runtests, append([]string{"-count=1"}, args...)...)
		shown, _, _ := strings.Cut(got, "\nSkipped:\n")
		if diff := cmp.Diff(lines(want), lines(shown)); diff != "" || code != wantCode {
			t.Errorf("%q: exit code %d, want %d, output (-want +got):\n%s\n%s", args, code, wantCode, diff, got)
		}
	}
	if out, _ := execute(t, dir, "", runtests, "./panics"); !strings.Contains(out, "panic: oh no") || !strings.Contains(out, "panics_test.go:5") {
		t.Errorf("a panic shows no stack:\n%s", out)
	}
}

func TestSkippedTestsAreListedByReason(t *testing.T) {
	t.Parallel()
	got, code := execute(t, write(t), "", program(t), "-short", "./left")
	_, got, _ = strings.Cut(got, "\n")
	const want = `
Skipped:
  no reason was given
    example.com/m/left TestLeft/silent
  system: no such thing
    example.com/m/left TestLeft/system
  takes long
    example.com/m/left TestLeft/short
  version 3 has it not
    example.com/m/left TestLeft/version
`
	if diff := cmp.Diff(want, got); diff != "" || code != 0 {
		t.Errorf("exit code %d, (-want +got):\n%s", code, diff)
	}
}

func TestCheckNamesWhatRanInNoRun(t *testing.T) {
	t.Parallel()
	dir, runtests, results := write(t), program(t), filepath.Join(t.TempDir(), "results")
	if out, code := execute(t, dir, results, runtests, "-check"); code != 1 {
		t.Errorf("without results: exit code %d, %s", code, out)
	}
	execute(t, dir, results, runtests, "-short", "./left")
	execute(t, dir, results, runtests, "./left")
	out, code := execute(t, dir, results, runtests, "-check")
	const want = `
Skipped:
  no reason was given
    example.com/m/left TestLeft/silent
  version 3 has it not
    example.com/m/left TestLeft/version
runtests: 2 tests were skipped in every run
`
	if diff := cmp.Diff(want, out); diff != "" || code != 1 {
		t.Errorf("exit code %d, (-want +got):\n%s", code, diff)
	}
	var w bytes.Buffer
	if err := record([]outcome{{"example.com/m/left", "TestLeft/silent", "pass", ""}, {"example.com/m/left", "TestLeft/version", "fail", ""}}, results); err != nil {
		t.Fatal(err)
	}
	if err := check(results, &w); err != nil {
		t.Errorf("after both ran elsewhere: %v, %s", err, w.String())
	}
}
