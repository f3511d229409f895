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

// process is what /proc says about one.
type process struct {
	parent   int
	own      time.Duration // CPU time of its threads
	children time.Duration // of its children that have ended
}

// readProcess reads what a process has used so far.
func readProcess(pid int) (process, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, fmt.Errorf("reading CPU times, which needs Linux: %w", err)
	}
	return parseStat(data)
}

var errStat = errors.New("/proc/<pid>/stat has another form than expected")

// parseStat reads /proc/<pid>/stat (proc_pid_stat(5)). The name in it may have spaces and parentheses.
func parseStat(data []byte) (p process, err error) {
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return p, errStat
	}
	const ppid, utime, stime, cutime, cstime = 1, 11, 12, 13, 14 // after the name
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) <= cstime {
		return p, errStat
	}
	number := func(i int) int64 {
		n, failed := strconv.ParseInt(fields[i], 10, 64)
		err = errors.Join(err, failed)
		return n
	}
	ticks := func(a, b int) time.Duration { return time.Duration(number(a)+number(b)) * time.Second / clockTicks }
	p = process{parent: int(number(ppid)), own: ticks(utime, stime), children: ticks(cutime, cstime)}
	return p, err
}

// cpuOf is the CPU time that a process has used.
func cpuOf(pid int) (time.Duration, error) {
	p, err := readProcess(pid)
	return p.own, err
}

// cpuOfFamily is the CPU time that a process and its children have used, those included that have ended.
func cpuOfFamily(pid int) (time.Duration, error) {
	// The parent last: a child that ends meanwhile is then counted twice rather than not at all, which one can see.
	children, err := childrenOf(pid)
	if err != nil {
		return 0, err
	}
	var total time.Duration
	for _, c := range children {
		total += c.own
	}
	p, err := readProcess(pid)
	return total + p.own + p.children, err
}

func childrenOf(pid int) (children []process, err error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if p, err := parseStat(data); err != nil {
			return nil, err
		} else if p.parent == pid {
			children = append(children, p)
		}
	}
	return children, nil
}

// memory is what a process has in memory, in bytes. file is the part of now that are pages of its program's file, which
// the system can take back.
type memory struct{ now, file, peak int64 }

func memoryOf(pid int) (m memory, err error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return m, err
	}
	return parseMemory(string(data))
}

func parseMemory(status string) (m memory, err error) {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		var into *int64
		switch name {
		case "VmRSS":
			into = &m.now
		case "RssFile":
			into = &m.file
		case "VmHWM":
			into = &m.peak
		default:
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return m, fmt.Errorf("reading %s: %w", name, err)
		}
		*into = kilobytes << 10
	}
	if m.now == 0 || m.peak == 0 {
		return m, errors.New("/proc/<pid>/status says nothing about memory")
	}
	return m, nil
}

// forgetPeak lets the peak begin again at what is in memory now.
func forgetPeak(pid int) error {
	return os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "clear_refs"), []byte("5"), 0)
}
