package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fileSystem names the file system of a directory and says how much room it has.
func fileSystem(dir string) (name string, free int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", 0, fmt.Errorf("looking at the file system of %s: %w", dir, err)
	}
	free = int64(st.Bavail) * st.Bsize
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
		unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.F2FS_SUPER_MAGIC: "f2fs", 0x2fc12fc1: "zfs",
		0xca451a4e: "bcachefs",
	}
	name, known := names[int64(st.Type)] // int32 on some platforms
	if !known {
		name = fmt.Sprintf("type %#x", st.Type)
	}
	return name, free, nil
}

// diskUsage returns the blocks that the files below a directory have for themselves: what removing them would give
// back. Blocks that other files share do not count.
func diskUsage(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // PostgreSQL removes files while we look
		}
		if err != nil {
			return err
		}
		blocks := info.Sys().(*syscall.Stat_t).Blocks * 512
		if blocks == 0 {
			return nil
		}
		shared, err := sharedBytes(path)
		total += max(blocks-shared, 0)
		return err
	})
	return total, err
}

// fiemap is the head of struct fiemap with room for some extents (linux/fiemap.h).
type fiemap struct {
	start, length uint64
	flags         uint32
	mapped        uint32
	count         uint32
	_             uint32
	extents       [512]fiemapExtent
}

type fiemapExtent struct {
	logical, physical, length uint64
	_                         [2]uint64
	flags                     uint32
	_                         [3]uint32
}

const (
	fsIocFiemap        = 0xc020660b
	fiemapExtentLast   = 0x1
	fiemapExtentShared = 0x2000
)

// sharedBytes is how much of a file lies in blocks that it shares with others; 0 where the file system cannot say.
func sharedBytes(path string) (shared int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for start := uint64(0); ; {
		m := fiemap{start: start, length: ^uint64(0) - start}
		m.count = uint32(len(m.extents))
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fsIocFiemap, uintptr(unsafe.Pointer(&m)))
		switch {
		case errors.Is(errno, unix.EOPNOTSUPP), errors.Is(errno, unix.ENOTTY):
			return 0, nil
		case errno != 0:
			return 0, fmt.Errorf("mapping %s: %w", path, errno)
		case m.mapped == 0:
			return shared, nil
		}
		for _, e := range m.extents[:m.mapped] {
			if e.flags&fiemapExtentShared != 0 {
				shared += int64(e.length)
			}
			if e.flags&fiemapExtentLast != 0 {
				return shared, nil
			}
			start = e.logical + e.length
		}
	}
}
