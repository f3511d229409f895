//go:build !linux && !darwin

package pgserver

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func setDeathSignal(*syscall.SysProcAttr) {}

// serves reports whether the process is a postmaster of the cluster, by its
// command line.
func serves(pid int, cluster string) bool {
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false
	}
	command := strings.TrimSpace(string(out))
	return strings.Contains(command, "postgres") && strings.Contains(command+" ", " -D "+cluster+" ")
}

func clusterProcesses(string) []int { return nil }

func clones(string) bool { return false }

func memoryBytes() uint64 { return 0 }

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
