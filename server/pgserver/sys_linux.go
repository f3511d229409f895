package pgserver

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// setDeathSignal asks for a fast shutdown of the child when the thread that
// forked it ends, which covers Bough being killed with SIGKILL.
func setDeathSignal(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }

// serves reports whether the process is a postgres at work in the cluster. The
// postmaster and all its children have the cluster as working directory. A
// zombie has neither program nor directory and is not one.
func serves(pid int, cluster string) bool {
	proc := "/proc/" + strconv.Itoa(pid)
	exe, err := os.Readlink(proc + "/exe")
	if err != nil {
		return false
	}
	// A package upgrade removes the running program's file.
	if filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != "postgres" {
		return false
	}
	cwd, err := os.Stat(proc + "/cwd")
	if err != nil {
		return false
	}
	dir, err := os.Stat(cluster)
	return err == nil && os.SameFile(cwd, dir)
}

// clusterProcesses lists the processes that serve the cluster.
func clusterProcesses(cluster string) []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && serves(pid, cluster) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// clones reports whether the file system of dir copies files by reference.
func clones(dir string) bool {
	src, err := os.CreateTemp(dir, "bough-clone-*")
	if err != nil {
		return false
	}
	defer os.Remove(src.Name())
	defer src.Close()
	if _, err := src.Write(make([]byte, 8192)); err != nil {
		return false
	}
	dst, err := os.CreateTemp(dir, "bough-clone-*")
	if err != nil {
		return false
	}
	defer os.Remove(dst.Name())
	defer dst.Close()
	return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil
}

// memoryBytes returns the memory this process may use: the machine's, or the
// control group's limit where that is lower. 0 if unknown.
func memoryBytes() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	total := uint64(info.Totalram) * uint64(info.Unit)
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
			total = min(total, limit)
		}
	}
	return total
}

// syncFiles writes the file system of dir to its disk.
func syncFiles(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

// allocate gives a new file its blocks.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fill(f, size)
	}
	return err
}

// inMemory reports whether a directory's file system is one that memory holds.
func inMemory(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && (st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC)
}

// limited returns a program, and the arguments that come before its own, to run
// another one whose private memory, and that of the processes it forks, is
// bounded; shared memory does not count. A process limits itself, for which it
// needs no privilege. Without a shell the program stays as it is.
func limited(program string, limit uint64) (string, []string) {
	const shell = "/bin/sh"
	if _, err := os.Stat(shell); err != nil || limit == 0 {
		return program, nil
	}
	kilobytes := strconv.FormatUint(limit>>10, 10)
	// A lower limit that is in force stays.
	return shell, []string{"-c", `ulimit -d "$0" 2>/dev/null; exec "$@"`, kilobytes, program}
}

// limitData bounds the private memory of a process, and of the processes that
// it will fork. Shared memory does not count.
func limitData(pid int, limit uint64) error {
	var current unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, nil, &current); err != nil {
		return err
	}
	limit = min(limit, current.Max)
	return unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}, nil)
}
