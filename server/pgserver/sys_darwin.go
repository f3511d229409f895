package pgserver

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// setDeathSignal does nothing: the system has no such signal. The next Start
// stops the server that a killed Bough left behind.
func setDeathSignal(*syscall.SysProcAttr) {}

// serves reports whether the process is a postmaster of the cluster, by its
// command line, which Start writes with the cluster's resolved path.
func serves(pid int, cluster string) bool {
	out, err := exec.Command("/bin/ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false
	}
	command := strings.TrimSpace(string(out))
	return strings.Contains(command, "postgres") && strings.Contains(command+" ", " -D "+cluster+" ")
}

// clusterProcesses returns nothing: the system does not tell which orphaned
// backend belongs to which cluster. The server itself refuses to start beside
// them, and Start waits for that to pass.
func clusterProcesses(string) []int { return nil }

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
	dst := src.Name() + ".copy"
	defer os.Remove(dst)
	return unix.Clonefile(src.Name(), dst, 0) == nil
}

// memoryBytes returns the machine's memory, 0 if unknown.
func memoryBytes() uint64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return n
}

// syncFiles writes all file systems to their disks, that of dir included.
func syncFiles(string) error { return unix.Sync() }

// allocate gives a new file its blocks.
func allocate(f *os.File, size int64) error { return fill(f, size) }

// inMemory reports whether a directory's file system is one that memory holds, where that can be known.
func inMemory(string) bool { return false }

// limited returns the program: there is no limit to set here.
func limited(program string, _ uint64) (string, []string) { return program, nil }

// limitData does nothing: there is no such limit for another process here.
func limitData(int, uint64) error { return nil }
