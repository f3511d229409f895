package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitPassword(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ dsn, without, password string }{
		{"postgresql://bough:s%2Fe@127.0.0.1:5432/demo?sslmode=disable", "postgresql://bough@127.0.0.1:5432/demo?sslmode=disable", "s/e"},
		{"postgres://u@h/d", "postgres://u@h/d", ""},
		{"postgresql:///d?host=/run/bough&user=u", "postgresql:///d?host=/run/bough&user=u", ""},
		{"postgresql://u:p@%2Frun%2Fbough/d", "postgresql://u@%2Frun%2Fbough/d", "p"},
		{"postgresql://u:p@h1:1,h2:2/d", "postgresql://u@h1:1,h2:2/d", "p"},
		{"postgresql://h/d?user=u&password=a%26b", "postgresql://h/d?user=u", "a&b"},
		{"postgresql://u:a@b@h/d", "postgresql://u@h/d", "a@b"},
	} {
		without, password, err := splitPassword(test.dsn)
		if err != nil || without != test.without || password != test.password {
			t.Errorf("%s: %s, %s, %v", test.dsn, without, password, err)
		}
	}
	if _, _, err := splitPassword("host=x password=y"); err == nil {
		t.Error("a keyword string was accepted")
	}
}

func TestPsqlGetsThePasswordInItsEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "psql"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	w := setup(t)
	var argv, env []string
	w.exec = func(_ string, a, e []string) error {
		argv, env = a, e
		return nil
	}
	w.ok(t, "psql", "demo", "--", "-c", "select 1", "--csv")
	want := []string{"psql", "--dbname=postgresql://bough@127.0.0.1:54321/branch_demo?sslmode=disable", "-c", "select 1", "--csv"}
	if diff := cmp.Diff(want, argv); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.Contains(env, "PGPASSWORD=s/ecret") || slices.Contains(env, "PGPASSWORD=other") {
		t.Errorf("environment: %v", env)
	}
	w.ok(t, "psql", "--", "-l")
	if argv[len(argv)-1] != "-l" {
		t.Errorf("argv: %q", argv)
	}
	t.Setenv("PATH", t.TempDir())
	if got := w.run(t, "psql"); got.code != exitFailed || !strings.Contains(got.stderr, "bough sql") {
		t.Errorf("exit code %d, stderr %s", got.code, got.stderr)
	}
}
