package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/boughdb/bough/server/pgserver"
)

// Start starts a server for one test, stopped and removed after it. The
// programs are those in binDir, or the ones the package's server uses if it is
// "". settings are PostgreSQL's, set beyond those that make it fast and unsafe.
func Start(t testing.TB, binDir string, settings map[string]string) *pgserver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := start(ctx, binDir, settings)
	if err != nil {
		t.Fatal("pgtest:", err)
	}
	t.Cleanup(func() {
		if err := stop(s); err != nil {
			t.Errorf("pgtest: stopping PostgreSQL: %v", err)
		}
	})
	return s
}

// DataDir returns a new temporary directory, removed after the test, that is
// fit for a [pgserver.Options.DataDir]: unlike that of
// t.TempDir, PostgreSQL's user can enter it when the test runs as root.
func DataDir(t testing.TB) string {
	t.Helper()
	dir, err := newDir()
	if err != nil {
		t.Fatal("pgtest:", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return dir
}

// Cluster returns a new data directory like [DataDir] with an initialised
// cluster in it, which saves a test the seconds that making one takes. binDir
// is as for [Start].
func Cluster(t testing.TB, binDir string) string {
	t.Helper()
	dir := DataDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	inst, err := installation(binDir)
	if err == nil {
		err = seed(ctx, dir, inst)
	}
	if err != nil {
		t.Fatal("pgtest:", err)
	}
	return dir
}

// fast are the settings of a server whose data nobody will miss.
var fast = map[string]string{
	"fsync":              "off",
	"synchronous_commit": "off",
	"full_page_writes":   "off",
	"shared_buffers":     "64MB",
	"max_connections":    "600", // of many servers at once, each with its pools
	"max_wal_size":       "256MB",
}

func installation(binDir string) (pgserver.Installation, error) {
	if binDir == "" {
		binDir = os.Getenv("BOUGH_TEST_POSTGRES_BIN")
	}
	return pgserver.Find(pgserver.FindOptions{BinDir: binDir, CacheDir: pgserver.DefaultCacheDir()})
}

// start starts a server in a new temporary directory.
func start(ctx context.Context, binDir string, settings map[string]string) (*pgserver.Server, error) {
	sweep()
	inst, err := installation(binDir)
	if err != nil {
		return nil, err
	}
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	if err := seed(ctx, dir, inst); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s, err := pgserver.Start(ctx, options(dir, inst, settings))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func options(dir string, inst pgserver.Installation, settings map[string]string) pgserver.Options {
	all := maps.Clone(fast)
	maps.Copy(all, settings)
	return pgserver.Options{DataDir: dir, BinDir: inst.BinDir, Settings: all, NoSync: true, NoBallast: true}
}

// stop stops a server and removes its data.
func stop(s *pgserver.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(s.Stop(ctx), os.RemoveAll(s.DataDir()))
}

const dirPrefix = "bough-pgtest-"

func newDir() (string, error) {
	dir, err := os.MkdirTemp(tempDir(), dirPrefix)
	if err != nil {
		return "", err
	}
	if os.Geteuid() == 0 {
		err = os.Chmod(dir, 0o711)
	}
	return dir, err
}

// memoryDir is a file system in memory on Linux. Copying a database there takes
// a fifth of the time that it takes on a disk.
const memoryDir = "/dev/shm"

// tempDir returns where to put temporary clusters: in memory if there is plenty
// of it (containers often have 64 MB there) and TMPDIR says nothing else.
func tempDir() string {
	var st syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || runtime.GOOS != "linux" || syscall.Statfs(memoryDir, &st) != nil {
		return os.TempDir()
	}
	if uint64(st.Bavail)*uint64(st.Bsize) < 4<<30 {
		return os.TempDir()
	}
	return memoryDir
}

// sweep removes what test processes left that had no time to clean up, because
// they were killed or timed out. A directory in use is locked; one without a
// lock file may be about to be used, if it is young.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	inMemory, _ := filepath.Glob(filepath.Join(memoryDir, dirPrefix+"*"))
	dirs = append(dirs, inMemory...)
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < 10*time.Minute {
			continue
		}
		if lock, err := os.Open(filepath.Join(dir, "bough.lock")); err == nil {
			busy := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
			lock.Close()
			if busy {
				continue
			}
		}
		os.RemoveAll(dir)
	}
}

// seedFormat is part of the name of a prepared cluster, to be counted up when
// the way of making one changes.
const seedFormat = "1"

// seed fills a data directory with a cluster, copied from one prepared before
// by the same programs for the same user. If none can be kept, dir stays empty
// and pgserver.Start makes its own.
func seed(ctx context.Context, dir string, inst pgserver.Installation) error {
	cache := pgserver.DefaultCacheDir()
	if cache == "" {
		return nil
	}
	program, err := os.Stat(filepath.Join(inst.BinDir, "postgres"))
	if err != nil {
		return err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d %d", seedFormat, inst.BinDir, inst.Version, program.ModTime().UnixNano(), os.Geteuid()))
	prepared := filepath.Join(cache, "pgtest", hex.EncodeToString(key[:8]))
	if _, err := os.Stat(prepared); errors.Is(err, fs.ErrNotExist) {
		if err := prepare(ctx, prepared, inst); err != nil {
			return err
		}
	}
	if _, err := os.Stat(prepared); err != nil {
		return nil
	}
	if err := copyTree(prepared, dir); err != nil {
		return fmt.Errorf("copying the prepared cluster (removing %s makes a new one): %w", prepared, err)
	}
	return nil
}

// prepare makes the cluster that others are copied from. Two processes may do
// it at once; the first to finish wins.
func prepare(ctx context.Context, prepared string, inst pgserver.Installation) error {
	if err := os.MkdirAll(filepath.Dir(prepared), 0o755); err != nil {
		return nil // no place to keep one
	}
	dir, err := newDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := pgserver.Start(ctx, options(dir, inst, nil))
	if err != nil {
		return err
	}
	if err := s.Stop(ctx); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(filepath.Dir(prepared), "new-")
	if err != nil {
		return nil
	}
	defer os.RemoveAll(staging)
	// The port is each copy's own.
	if err := os.Remove(filepath.Join(dir, "postgres.port")); err != nil {
		return err
	}
	if err := copyTree(dir, staging); err != nil {
		return err
	}
	if err := os.Rename(staging, prepared); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return err
	}
	return nil
}

// copyTree copies the files and directories of a stopped cluster with modes
// and, as root, owners. to exists.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case info.IsDir():
			err = os.Mkdir(target, info.Mode().Perm())
		case info.Mode().IsRegular():
			err = copyFile(path, target, info.Mode().Perm())
		default:
			return nil // a link to another place is not ours to follow, a socket is dead
		}
		if err == nil && os.Geteuid() == 0 {
			st := info.Sys().(*syscall.Stat_t)
			err = os.Chown(target, int(st.Uid), int(st.Gid))
		}
		return err
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // by reference where the file system can
	return errors.Join(err, out.Close())
}
