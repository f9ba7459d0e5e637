package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times in /proc/<pid>/stat: USER_HZ, which is 100 on
// every Linux that Go runs on.
const tick = time.Second / 100

// memory is what a process has of the machine's, in MB.
type memory struct {
	private float64 // pages that no other process shares
	rss     float64
}

// memoryOf reads /proc/<pid>/smaps_rollup, whose lines are "Rss: 1234 kB".
func memoryOf(pid int) (memory, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return memory{}, err
	}
	var m memory
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kb, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return memory{}, err
		}
		switch fields[0] {
		case "Private_Clean:", "Private_Dirty:":
			m.private += kb / 1024
		case "Rss:":
			m.rss += kb / 1024
		}
	}
	return m, nil
}

// residentOf reads how much memory a process has now, in MB. It also works on a
// process that hides its memory.
func residentOf(pid int) (float64, error) { return statusMB(pid, "VmRSS:") }

// privateOf reads how much of it is the process's own.
func privateOf(pid int) (float64, error) { return statusMB(pid, "RssAnon:") }

// peakOf reads the most that it ever had.
func peakOf(pid int) (float64, error) { return statusMB(pid, "VmHWM:") }

func statusMB(pid int, name string) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == name {
			kb, err := strconv.ParseFloat(fields[1], 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, name)
}

// stat is what the benchmark needs of /proc/<pid>/stat.
type stat struct {
	parent int
	cpu    time.Duration // user and system, with children that were waited for
}

func statOf(pid int) (stat, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// Fields are counted after the name, which may hold blanks: state is
	// number 3 of proc(5), and here number 0.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	const parent, utime, cstime = 4 - 3, 14 - 3, 17 - 3
	if len(fields) <= cstime {
		return stat{}, fmt.Errorf("unreadable stat of process %d", pid)
	}
	var s stat
	if s.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return stat{}, err
	}
	for _, field := range fields[utime : cstime+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.cpu += time.Duration(ticks) * tick
	}
	return s, nil
}

// children lists the processes whose parent is pid.
func children(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		if s, err := statOf(child); err == nil && s.parent == pid {
			found = append(found, child)
		}
	}
	return found, nil
}

// cpuOf sums the CPU time of a process and all below it, in milliseconds.
// Processes that end meanwhile are counted by their parents.
func cpuOf(pid int) (float64, error) {
	s, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	total := milliseconds(s.cpu)
	below, err := children(pid)
	if err != nil {
		return 0, err
	}
	for _, child := range below {
		if more, err := cpuOf(child); err == nil {
			total += more
		}
	}
	return total, nil
}

// isMCP reports whether a process is our MCP process: its first argument says
// so.
func isMCP(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	argv := strings.Split(string(line), "\x00")
	return err == nil && len(argv) > 1 && argv[1] == "mcp"
}
