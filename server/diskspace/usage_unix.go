//go:build linux || darwin || freebsd

package diskspace

import "golang.org/x/sys/unix"

// Of returns the usage of the file system that a file or directory is on.
func Of(path string) (Usage, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(path, &st)
		if err == unix.EINTR { //nolint:errorlint // an errno, never wrapped
			continue
		}
		if err != nil {
			return Usage{}, err
		}
		// Systems differ in the types of the fields.
		return Usage{Free: int64(st.Bavail) * int64(st.Bsize), Total: int64(st.Blocks) * int64(st.Bsize)}, nil //nolint:unconvert // likewise
	}
}
