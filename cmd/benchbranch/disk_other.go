//go:build !linux

package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// fileSystem cannot tell the file system here.
func fileSystem(string) (name string, free int64, err error) { return "files", 1 << 62, nil }

// diskUsage returns the blocks of the files below a directory. Blocks that are shared count as if they were not.
func diskUsage(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
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
		total += info.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
	return total, err
}
