package process

import (
	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

// HideMemory makes this process undumpable: no core file, and no other process
// of the same user can read its memory or environment, or trace it. What it
// starts is as readable as ever. /proc counts it as root's from then on, so
// Marked, WithEnv and Environ of an ordinary user do not see it any more.
func HideMemory() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return core.Errorf(core.KindOS, "keep other processes from reading the credentials in memory: %w", err)
	}
	return nil
}
