package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

var bootID = sync.OnceValues(func() (string, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", core.Errorf(core.KindOS, "read the boot id: %w", err)
	}
	return id, nil
})

// zombieState is SZOMB of <sys/proc.h>.
const zombieState = 5

func readEntry(pid int) (Entry, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return Entry{}, gonef(pid) // the answer is empty when there is no such process
	}
	return entryOf(info)
}

func entryOf(info *unix.KinfoProc) (Entry, error) {
	boot, err := bootID()
	if err != nil {
		return Entry{}, err
	}
	pid := int(info.Proc.P_pid)
	sid, err := unix.Getsid(pid)
	if err != nil {
		sid = 0
	}
	state := byte('R')
	if info.Proc.P_stat == zombieState {
		state = 'Z'
	}
	start := info.Proc.P_starttime
	return Entry{
		Identity: Identity{
			PID: pid, PGID: int(info.Eproc.Pgid), SID: sid, BootID: boot,
			StartToken: fmt.Sprintf("%d.%06d", start.Sec, start.Usec),
			Command:    strings.ToValidUTF8(unix.ByteSliceToString(info.Proc.P_comm[:]), "?"),
		},
		PPID:  int(info.Eproc.Ppid),
		State: state,
	}, nil
}

func readTable() ([]Entry, error) {
	infos, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, core.Errorf(core.KindOS, "read the process table: %w", err)
	}
	entries := make([]Entry, 0, len(infos))
	for i := range infos {
		e, err := entryOf(&infos[i])
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func ownedByUs(pid int) bool {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err == nil && int(info.Proc.P_pid) == pid && int(info.Eproc.Ucred.Uid) == os.Geteuid()
}

// rawEnviron cuts the environment out of kern.procargs2: argc, the path of the
// executable, NULs, argc arguments, then the assignments.
func rawEnviron(pid int) ([]byte, error) {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EINVAL) {
		return nil, gonef(pid)
	}
	if err != nil {
		return nil, core.Errorf(core.KindOS, "read the environment of process %d: %w", pid, err)
	}
	if len(raw) < 4 {
		return nil, gonef(pid)
	}
	argc := int(uint32(raw[0]) | uint32(raw[1])<<8 | uint32(raw[2])<<16 | uint32(raw[3])<<24)
	_, rest, _ := bytes.Cut(raw[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for range argc {
		_, rest, _ = bytes.Cut(rest, []byte{0})
	}
	return rest, nil
}

// startedBefore reports whether a started before b, both of one boot.
func startedBefore(a, b Identity) bool {
	x, okA := microseconds(a.StartToken)
	y, okB := microseconds(b.StartToken)
	return okA && okB && x < y
}

func microseconds(token string) (int64, bool) {
	sec, usec, ok := strings.Cut(token, ".")
	if !ok {
		return 0, false
	}
	s, errSec := strconv.ParseInt(sec, 10, 64)
	u, errUsec := strconv.ParseInt(usec, 10, 64)
	return s*1e6 + u, errSec == nil && errUsec == nil
}
