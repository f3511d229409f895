package pgserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/boughdb/bough/server/diskspace"
)

// The ballast is a file in the cluster that holds nothing but space. When somebody fills the disk, PostgreSQL ends as soon
// as it cannot write its log, and does not start again before there is room: the ballast is then given up, and what it
// held is enough for the log until the disk is tidied. It is made again when there is ample room.
const (
	ballastName = "bough.ballast"
	// Shares of the file system, and bounds. The log's files are of 16 MB each; a checkpoint needs a few.
	ballastShare = 50 // 2 %
	minBallast   = 48 << 20
	maxBallast   = 256 << 20
	// Below so much free space the ballast is given up, unless space goes on falling by so much between two looks:
	// whoever fills the disk that fast would take the ballast too, and ends when there is nothing left.
	criticalSpace = 32 << 20
	fallingSpace  = 1 << 20

	ballastEvery = 200 * time.Millisecond
)

// Ballast tells what a cluster's ballast is.
type Ballast struct {
	Size int64 // of the file; 0 when there is none
	Want int64 // that it should have on this file system; 0 where there is to be none
}

// BallastOf returns the ballast of a cluster's directory.
func BallastOf(cluster string) (Ballast, error) {
	u, err := diskspace.Of(cluster)
	if err != nil {
		return Ballast{}, err
	}
	b := Ballast{Want: ballastSize(cluster, u)}
	info, err := os.Stat(filepath.Join(cluster, ballastName))
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, err
	}
	b.Size = info.Size()
	return b, nil
}

// ballastSize is what the ballast takes of a file system: none in memory, where it would be memory, and none on one that
// is too small.
func ballastSize(dir string, u diskspace.Usage) int64 {
	size := min(max(u.Total/ballastShare, minBallast), maxBallast)
	if inMemory(dir) || size > u.Total/5 {
		return 0
	}
	return size
}

// keepBallast makes the ballast when there is ample room and gives it up when there is almost none. needed says that
// PostgreSQL is about to start. It is called by one goroutine at a time.
func (s *Server) keepBallast(needed bool) {
	if s.noBallast {
		return
	}
	u, err := diskspace.Of(s.cluster)
	if err != nil {
		return
	}
	falling := u.Free < s.lastFree-fallingSpace
	s.lastFree = u.Free
	name := filepath.Join(s.cluster, ballastName)
	info, err := os.Stat(name)
	there := err == nil && info.Size() > 0
	switch want := ballastSize(s.cluster, u); {
	case there && u.Free < criticalSpace && (needed || !falling):
		if err := os.Remove(name); err != nil {
			s.log.Error("the disk is almost full, and the ballast cannot be given up", "file", name, "error", err)
			return
		}
		s.log.Warn("the disk is almost full: the ballast was given up, so that PostgreSQL can go on for a while; make room",
			"free", diskspace.Format(u.Free), "given_up", diskspace.Format(info.Size()))
	case !there && want > 0 && u.Free > 4*want:
		if err := s.makeBallast(name, want); err != nil && s.ballastFailed.CompareAndSwap(false, true) {
			s.log.Warn("there is no ballast on the disk", "error", err)
		}
	}
}

// makeBallast makes the file, with all its blocks on the disk.
func (s *Server) makeBallast(name string, size int64) error {
	// Under another name first: one that is half made would not be made whole. No link is followed, since the directory
	// may belong to a less privileged user.
	if err := os.Remove(name + ".new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = allocate(f, size)
	if err == nil {
		err = s.account.own(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("allocating %s: %w", diskspace.Format(size), err), os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), name)
}

// outOfSpace reports whether the cluster's disk is so full that no start can be expected to succeed.
func (s *Server) outOfSpace() bool {
	u, err := diskspace.Of(s.cluster)
	return err == nil && u.Free < criticalSpace
}

// fill writes a file of what no file system makes smaller.
func fill(f *os.File, size int64) error {
	_, err := io.CopyN(f, rand.Reader, size)
	if err == nil {
		err = f.Sync()
	}
	return err
}

// logSettings keep PostgreSQL's log from growing to its default of 1 GB on a file system where that is much: at most a
// tenth of it, and no less than what the server needs to work.
func logSettings(cluster string) map[string]string {
	const least, usual = 64, 1024 // MB
	u, err := diskspace.Of(cluster)
	if err != nil || u.Total>>20/10 >= usual {
		return nil
	}
	most := max(u.Total>>20/10, least)
	return map[string]string{"max_wal_size": fmt.Sprintf("%dMB", most), "min_wal_size": fmt.Sprintf("%dMB", min(most/2, 80))}
}
