package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTicks is how many units of /proc/<pid>/stat a second has (USER_HZ), on every Linux there is.
const clockTicks = 100

// process is what /proc says of a process.
type process struct {
	parent        int
	own, children time.Duration // CPU time of the process, and of its children that have ended
}

func readProcess(pid string) (process, error) {
	data, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return process{}, fmt.Errorf("reading CPU times, which needs Linux: %w", err)
	}
	return parseStat(data)
}

var errStat = errors.New("/proc/<pid>/stat has another form than expected")

// parseStat reads /proc/<pid>/stat (proc_pid_stat(5)). The name in it may have spaces and parentheses.
func parseStat(data []byte) (p process, err error) {
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 15 || !bytes.Contains(data, []byte(")")) {
		return p, errStat
	}
	var ticks [4]int64 // utime, stime, cutime, cstime
	for i := range ticks {
		n, failed := strconv.ParseInt(fields[11+i], 10, 64)
		ticks[i], err = n, errors.Join(err, failed)
	}
	parent, failed := strconv.Atoi(fields[1])
	cpu := func(a, b int64) time.Duration { return time.Duration(a+b) * time.Second / clockTicks }
	return process{parent, cpu(ticks[0], ticks[1]), cpu(ticks[2], ticks[3])}, errors.Join(err, failed)
}

// clocks are the CPU times that the program and PostgreSQL have used.
type clocks struct{ server, postgres time.Duration }

// cpu reads the clocks. PostgreSQL's has all its processes, those included that have ended.
func (s *stage) cpu() (c clocks, err error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return c, err
	}
	for _, name := range names {
		// One that has ended meanwhile is counted by its parent.
		if p, err := readProcess(filepath.Base(name)); err == nil && p.parent == s.postmaster {
			c.postgres += p.own
		}
	}
	parent, err := readProcess(strconv.Itoa(s.postmaster))
	c.postgres += parent.own + parent.children
	program, failed := readProcess(strconv.Itoa(s.pid()))
	c.server = program.own
	return c, errors.Join(err, failed)
}

// memoryOf is what a process has in memory, in bytes.
func memoryOf(pid int) (int64, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, errors.New("/proc/<pid>/status says nothing about memory")
}
