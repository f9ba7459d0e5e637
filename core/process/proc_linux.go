package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/codex-mmo/codex-mmo/core"
)

// bootID is fixed for the life of this process, which can't outlive its boot.
var bootID = sync.OnceValues(func() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", core.Errorf(core.KindOS, "read the boot id: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
})

// readEntry reads one row of the process table.
func readEntry(pid int) (Entry, error) {
	boot, err := bootID()
	if err != nil {
		return Entry{}, err
	}
	raw, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return Entry{}, procError(pid, "stat", err)
	}
	e, err := parseStat(raw)
	if err != nil {
		return Entry{}, core.Errorf(core.KindOS, "read /proc/%d/stat: %w", pid, err)
	}
	e.BootID = boot
	if isDescriptor(e.Command) {
		e.Command = firstArgument(pid, e.Command)
	}
	return e, nil
}

// parseStat reads the fields of proc(5) stat that make an entry. The command
// may hold any byte, also ")" and newlines, so the fields are counted from the
// last ")".
func parseStat(raw []byte) (Entry, error) {
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return Entry{}, errors.New("no command in it")
	}
	fields := strings.Fields(string(raw[end+1:])) // fields[0] is field 3 of proc(5)
	const startTime = 22 - 3
	if len(fields) <= startTime {
		return Entry{}, fmt.Errorf("%d fields after the command, want %d", len(fields), startTime+1)
	}
	var numbers [4]int // pid, ppid, pgrp, session
	for i, text := range []string{strings.TrimSpace(string(raw[:open])), fields[1], fields[2], fields[3]} {
		n, err := strconv.Atoi(text)
		if err != nil {
			return Entry{}, fmt.Errorf("field %q is no number", text)
		}
		numbers[i] = n
	}
	if _, err := strconv.ParseUint(fields[startTime], 10, 64); err != nil {
		return Entry{}, fmt.Errorf("start time %q is no number", fields[startTime])
	}
	return Entry{
		Identity: Identity{
			PID: numbers[0], PGID: numbers[2], SID: numbers[3],
			StartToken: fields[startTime],
			Command:    strings.ToValidUTF8(string(raw[open+1:end]), "?"),
		},
		PPID:  numbers[1],
		State: fields[0][0],
	}, nil
}

// isDescriptor reports whether a command name is a bare number, which is what
// the kernel calls a program that was executed by descriptor.
func isDescriptor(command string) bool {
	return command != "" && strings.Trim(command, "0123456789") == ""
}

// firstArgument names a process by the base of its argv[0].
func firstArgument(pid int, otherwise string) string {
	raw, err := os.ReadFile(procPath(pid, "cmdline"))
	if err != nil {
		return otherwise
	}
	argv0, _, _ := bytes.Cut(raw, []byte{0})
	if len(argv0) == 0 {
		return otherwise // a zombie has no arguments any more
	}
	return strings.ToValidUTF8(filepath.Base(string(argv0)), "?")
}

// readTable reads the rows of all processes that can be seen. A process that
// ends while the table is read is left out.
func readTable() ([]Entry, error) {
	pids, err := listPIDs()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(pids))
	for _, pid := range pids {
		if e, err := readEntry(pid); err == nil {
			entries = append(entries, e)
		} else if !errors.Is(err, ErrGone) {
			return nil, err
		}
	}
	return entries, nil
}

func listPIDs() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, core.Errorf(core.KindOS, "read the process table: %w", err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "read the process table: %w", err)
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// ownedByUs reports whether a process belongs to the effective user of this
// one. A process that made itself non-dumpable counts as root's.
func ownedByUs(pid int) bool {
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// rawEnviron returns the environment that a process was started with, as
// NUL-separated assignments.
func rawEnviron(pid int) ([]byte, error) {
	raw, err := os.ReadFile(procPath(pid, "environ"))
	if err != nil {
		return nil, procError(pid, "environ", err)
	}
	return raw, nil
}

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// procError tells a process that is not there from a file that can't be read.
func procError(pid int, name string, err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return gonef(pid)
	}
	return core.Errorf(core.KindOS, "read /proc/%d/%s: %w", pid, name, err)
}

// startedBefore reports whether a started before b, both of one boot.
func startedBefore(a, b Identity) bool {
	x, errA := strconv.ParseUint(a.StartToken, 10, 64)
	y, errB := strconv.ParseUint(b.StartToken, 10, 64)
	return errA == nil && errB == nil && x < y
}
