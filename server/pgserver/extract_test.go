package pgserver

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// entry is an entry of an archive that a test builds.
type entry struct {
	name, content string
	mode          int64
	kind          byte
	link          string
}

func pack(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	archive := tar.NewWriter(zipped)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.content))}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := archive.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func links(list string) entry {
	return entry{name: "package/native/pg-symlinks.json", content: list}
}

func TestExtract(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "build")
	err := extract(pack(t,
		entry{name: "package/", kind: tar.TypeDir, mode: 0o700},
		entry{name: "package/package.json", content: "{}"},
		entry{name: "package/native/bin/postgres", content: "program", mode: 0o4755},
		entry{name: "package/native/lib/libpq.so.5.18", content: "library", mode: 0o600},
		entry{name: "package/native/lib/deep/er/data", content: "data"},
		links(`[{"source":"native/lib/libpq.so.5.18","target":"native/lib/libpq.so.5"},
			{"source":"native/lib/libpq.so.5.18","target":"native/other/libpq.so"}]`),
	), dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		value := info.Mode().String()
		if info.Mode()&os.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			value = "-> " + target
		}
		got[rel] = value
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		".":                 "drwxr-xr-x",
		"bin":               "drwxr-xr-x",
		"bin/postgres":      "-rwxr-xr-x",
		"lib":               "drwxr-xr-x",
		"lib/libpq.so.5.18": "-rw-r--r--",
		"lib/libpq.so.5":    "-> libpq.so.5.18",
		"lib/deep":          "drwxr-xr-x",
		"lib/deep/er":       "drwxr-xr-x",
		"lib/deep/er/data":  "-rw-r--r--",
		"other":             "drwxr-xr-x",
		"other/libpq.so":    "-> ../lib/libpq.so.5.18",
		"pg-symlinks.json":  "-rw-r--r--",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unpacked (-want +got):\n%s", diff)
	}
}

func TestExtractRefuses(t *testing.T) {
	t.Parallel()
	good := entry{name: "package/native/lib/a", content: "a"}
	tests := []struct {
		name string
		pkg  []byte
		want string // in the error
	}{
		{"no archive", []byte("hello"), "EOF"},
		{"cut off", pack(t, good)[:40], "EOF"},
		{"parent", pack(t, entry{name: "package/native/../../../evil"}), "plain relative path"},
		{"parent at once", pack(t, entry{name: "../evil"}), "plain relative path"},
		{"parent outside of native", pack(t, entry{name: "package/../../evil"}), "plain relative path"},
		{"parent as directory", pack(t, entry{name: "package/native/../../evil/", kind: tar.TypeDir}), "plain relative path"},
		{"absolute", pack(t, entry{name: "/etc/evil"}), "plain relative path"},
		{"absolute within", pack(t, entry{name: "package/native//etc/evil"}), "plain relative path"},
		{"dot", pack(t, entry{name: "package/native/./evil"}), "plain relative path"},
		{"backslash", pack(t, entry{name: `package/native/..\evil`}), "plain relative path"},
		{"other root", pack(t, entry{name: "native/evil"}), "outside"},
		{"similar root", pack(t, entry{name: "packages/evil"}), "outside"},
		{"symbolic link", pack(t, entry{name: "package/native/lib/b", kind: tar.TypeSymlink, link: "/etc/passwd"}), "neither a file"},
		{"hard link", pack(t, entry{name: "package/native/lib/b", kind: tar.TypeLink, link: "package/native/lib/a"}), "neither a file"},
		{"device", pack(t, entry{name: "package/native/lib/b", kind: tar.TypeChar}), "neither a file"},
		{"pipe", pack(t, entry{name: "package/native/lib/b", kind: tar.TypeFifo}), "neither a file"},
		{"same name twice", pack(t, good, good), "exists"},
		{"file as directory", pack(t, good, entry{name: "package/native/lib/a/b"}), "not a directory"},
		{"links unreadable", pack(t, good, links(`{`)), "pg-symlinks.json"},
		{"link from outside", pack(t, good, links(`[{"source":"native/lib/a","target":"native/../../evil"}]`)), "plain path"},
		{"link absolute", pack(t, good, links(`[{"source":"native/lib/a","target":"/evil"}]`)), "plain path"},
		{"link to outside", pack(t, good, links(`[{"source":"native/../../etc/passwd","target":"native/lib/b"}]`)), "plain path"},
		{"link to absolute", pack(t, good, links(`[{"source":"/etc/passwd","target":"native/lib/b"}]`)), "plain path"},
		{"link to nothing", pack(t, good, links(`[{"source":"native/lib/b","target":"native/lib/c"}]`)), "not a file"},
		{"link to directory", pack(t, good, links(`[{"source":"native/lib","target":"native/c"}]`)), "not a file"},
		{"link to link", pack(t, good, links(`[{"source":"native/lib/a","target":"native/b"},{"source":"native/b","target":"native/c"}]`)), "not a file"},
		{"link over file", pack(t, good, links(`[{"source":"native/lib/a","target":"native/lib/a"}]`)), "exists"},
		{"link through link", pack(t, good, links(`[{"source":"native/lib/a","target":"native/b"},{"source":"native/lib/a","target":"native/b/c"}]`)), "not a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			outer := t.TempDir()
			err := extract(tt.pkg, filepath.Join(outer, "in", "build"))
			if err == nil || !strings.Contains(err.Error(), "no such file") {
				t.Fatalf("into a directory that is not there: %v", err)
			}
			if err := os.Mkdir(filepath.Join(outer, "in"), 0o755); err != nil {
				t.Fatal(err)
			}
			err = extract(tt.pkg, filepath.Join(outer, "in", "build"))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
			for _, dir := range []string{outer, filepath.Join(outer, "in")} {
				if _, err := os.Lstat(filepath.Join(dir, "evil")); err == nil {
					t.Errorf("a file was written to %s", dir)
				}
			}
		})
	}
}
