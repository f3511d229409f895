package pgserver_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/boughdb/bough/server/pgserver"
	"github.com/boughdb/bough/server/pgtest"
)

// Directories of databases that do not exist are removed at the start, and nothing about which there is any doubt.
func TestLeftoverDirectoriesAreRemoved(t *testing.T) {
	t.Parallel()
	o := options(pgtest.Cluster(t, ""))
	log := &buffer{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	s, err := pgserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, s.URL("postgres"), "create database kept")
	execute(t, s.URL("kept"), "create table t (id int); insert into t values (1)")
	base := filepath.Join(s.ClusterDir(), "base")
	kept := strconv.Itoa(int(query[int64](t, s.URL("postgres"), "select oid::bigint from pg_database where datname = 'kept'")))
	stop(t, s)

	put := func(dir string, files ...string) string {
		t.Helper()
		at := filepath.Join(base, dir)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(at, f), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "PG_VERSION"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(base, "70003")); err != nil {
		t.Fatal(err)
	}
	removed := []string{
		put("70001", "PG_VERSION", "pg_filenode.map", "1259", "1259_fsm", "1259_vm", "16400_init", "16401.1", "16402_fsm.1", "t3_16403", "pg_internal.init", "pgsql_tmp12.0"),
		put("70002"),
		put("4294967295", "PG_VERSION"),
	}
	left := []string{
		put("70004", "PG_VERSION", "notes.txt"), put("70005/sub"), "70003", put("pgsql_tmp"), put("somebody", "1259"), put("070006", "1259"),
		put("9999", "1259"), put("4294967296", "1259"), kept, "1", "4", "5",
	}
	s = start(t, o)
	for _, dir := range removed {
		if _, err := os.Lstat(filepath.Join(base, dir)); !os.IsNotExist(err) {
			t.Errorf("base/%s is still there: %v", dir, err)
		}
	}
	left[1] = "70005"
	for _, dir := range left {
		if _, err := os.Lstat(filepath.Join(base, dir)); err != nil {
			t.Errorf("base/%s was removed: %v", dir, err)
		}
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "PG_VERSION")); err != nil {
		t.Errorf("what a link leads to: %v", err)
	}
	if n := query[int64](t, s.URL("kept"), "select count(*) from t"); n != 1 {
		t.Errorf("%d rows", n)
	}
	if got := log.String(); strings.Count(got, "it is left alone") != 2 || !strings.Contains(got, "70004") || !strings.Contains(got, "70005") {
		t.Errorf("the log:\n%s", got)
	}
}

// What a CREATE DATABASE of a killed server left goes with its next start.
func TestKilledCreationLeavesNothing(t *testing.T) {
	t.Parallel()
	o := options(pgtest.Cluster(t, ""))
	s := start(t, o)
	execute(t, s.URL("postgres"), "create database source")
	execute(t, s.URL("source"), "create table big as select g, repeat('x', 800) from generate_series(1, 60000) g")
	base := filepath.Join(s.ClusterDir(), "base")
	before := len(entries(t, base))
	conn := connect(t, s.URL("postgres"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.Exec(t.Context(), "create database half template source strategy file_copy")
	}()
	for len(entries(t, base)) == before {
		select {
		case <-done:
			t.Fatal("the creation ended unseen")
		default:
		}
	}
	former := postmaster(s.ClusterDir())
	kill(t, former)
	<-done
	eventually(t, "the next start", func() bool {
		pid := postmaster(s.ClusterDir())
		return pid > 0 && pid != former && serving(s.URL("postgres"))
	})
	exists := query[bool](t, s.URL("postgres"), "select exists (select from pg_database where datname = 'half')")
	want := before
	if exists { // it was done just before
		want++
	}
	eventually(t, "nothing is left in base", func() bool { return len(entries(t, base)) == want })
	if n := query[int64](t, s.URL("source"), "select count(*) from big"); n != 60000 {
		t.Errorf("%d rows in the source", n)
	}
}

// buffer keeps a log that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
