package process

import (
	"errors"
	"fmt"
	"os"

	"github.com/codex-mmo/codex-mmo/core"
)

// ErrGone means that the process an Identity names does not exist any more:
// it ended, the machine was booted again, or its number belongs to another
// process now. A zombie counts as gone.
var ErrGone = errors.New("process is gone")

// Identity names a process so that it cannot be mistaken for a later one with
// the same number. The zero value names none.
type Identity struct {
	PID int
	// StartToken is the kernel's start time of the process: clock ticks since
	// boot (field 22 of proc(5) stat) on Linux, "<seconds>.<microseconds>" on
	// macOS.
	StartToken string
	// BootID is the boot that StartToken counts from
	// (/proc/sys/kernel/random/boot_id; kern.bootsessionuuid).
	BootID string
	PGID   int // process group
	SID    int // session; 0 when unknown
	// Command is the short name of the program, for people.
	Command string
}

// Self returns the identity of this process.
func Self() (Identity, error) { return Lookup(os.Getpid()) }

// Lookup reads the identity of the process that has the number pid now. The
// error wraps ErrGone when there is none. A zombie still has an identity.
func Lookup(pid int) (Identity, error) {
	e, err := readEntry(pid)
	if err != nil {
		return Identity{}, err
	}
	return e.Identity, nil
}

// Parent returns the number of pid's parent now. The error wraps ErrGone when
// pid does not exist.
func Parent(pid int) (int, error) {
	e, err := readEntry(pid)
	if err != nil {
		return 0, err
	}
	return e.PPID, nil
}

// Zero reports whether the identity names no process at all.
func (id Identity) Zero() bool { return id.PID == 0 && id.StartToken == "" && id.BootID == "" }

// Same reports whether both name the same process. Two partial identities are
// never the same.
func (id Identity) Same(other Identity) bool {
	return id.whole() && id.PID == other.PID && id.StartToken == other.StartToken && id.BootID == other.BootID
}

// Alive reports whether the process runs now. It is false for a zombie and
// for an identity that lacks its pid, start token or boot id: a pid alone is
// never enough.
func (id Identity) Alive() bool {
	if !id.whole() {
		return false
	}
	e, err := readEntry(id.PID)
	return err == nil && e.Same(id) && !e.ended()
}

// String returns the command and the pid, for reports.
func (id Identity) String() string {
	if id.Command == "" {
		return fmt.Sprintf("pid %d", id.PID)
	}
	return fmt.Sprintf("%s (pid %d)", id.Command, id.PID)
}

func (id Identity) whole() bool { return id.PID > 0 && id.StartToken != "" && id.BootID != "" }

// gonef is the error of a process that is not there.
func gonef(pid int) error {
	return core.Errorf(core.KindRuntime, "process %d: %w", pid, ErrGone)
}

// Entry is one row of the process table.
type Entry struct {
	Identity
	PPID  int
	State byte // as ps(1) shows it: R, S, D, T, Z, X...
}

// ended reports whether the process is a zombie or dead already.
func (e Entry) ended() bool { return e.State == 'Z' || e.State == 'X' || e.State == 'x' }
