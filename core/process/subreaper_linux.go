package process

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

// BecomeSubreaper makes this process the parent of every descendant whose own
// parent ends, so that none of them escapes Retire.
//
// A process that calls it must start children with Start only, and should run
// ReapOrphans: every other child counts as an orphan of what it started.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return core.Errorf(core.KindOS, "become the reaper of descendants: %w", err)
	}
	children.mu.Lock()
	children.subreaper = true
	children.mu.Unlock()
	return nil
}

// ReapOrphans removes the zombies of processes that were re-parented to this
// one, whenever one ends, until ctx is done. The caller runs it in a goroutine
// of its own.
func ReapOrphans(ctx context.Context) {
	ended := make(chan os.Signal, 1) // one waiting signal stands for any number of ends
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		children.reapOrphans()
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

// reapOrphans reaps what has ended and is no child of Start's, whose own
// waiters reap them.
func (f *family) reapOrphans() {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := readTable()
	if err != nil {
		return // the next end asks again; a zombie does no harm meanwhile
	}
	self := os.Getpid()
	for _, e := range entries {
		if e.PPID == self && e.ended() && f.members[e.PID] == nil {
			_, _ = unix.Wait4(e.PID, nil, unix.WNOHANG, nil)
		}
	}
}
