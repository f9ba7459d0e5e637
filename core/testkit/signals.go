package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core/process"
)

// Stop freezes a process with SIGSTOP and returns when it stands still. It is
// woken again when the test ends, if it still lives, so that whoever cleans up
// can end it.
func Stop(t testing.TB, id process.Identity) {
	t.Helper()
	signal(t, id, syscall.SIGSTOP)
	t.Cleanup(func() {
		if handle, err := process.Open(id); err == nil {
			defer handle.Close()
			_ = handle.Signal(syscall.SIGCONT) // it may end between the two lines
		}
	})
	// The kernel tells only a parent when a process has stopped, so this is
	// one of the few things that must be looked at again and again.
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		state, err := processState(id.PID)
		if err != nil {
			t.Fatalf("stopping %d: %v", id.PID, err)
		}
		if state == 'T' {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("process %d is in state %c %v after SIGSTOP, want T", id.PID, state, Patience)
		}
	}
}

// Cont wakes a process that Stop froze.
func Cont(t testing.TB, id process.Identity) {
	t.Helper()
	signal(t, id, syscall.SIGCONT)
}

// Kill9 kills a process as a crash would and returns when it is gone.
func Kill9(t testing.TB, id process.Identity) {
	t.Helper()
	handle := open(t, id)
	defer handle.Close()
	if err := handle.Signal(syscall.SIGKILL); err != nil {
		t.Fatalf("killing %d (%s): %v", id.PID, id.Command, err)
	}
	Await(t, handle.Done(), fmt.Sprintf("the end of process %d (%s)", id.PID, id.Command))
}

// AwaitGone returns when the process has ended, and fails the test when it
// lives on.
func AwaitGone(t testing.TB, id process.Identity) {
	t.Helper()
	handle, err := process.Open(id)
	if errors.Is(err, process.ErrGone) {
		return
	}
	if err != nil {
		t.Fatalf("opening process %d (%s): %v", id.PID, id.Command, err)
	}
	defer handle.Close()
	Await(t, handle.Done(), fmt.Sprintf("the end of process %d (%s)", id.PID, id.Command))
}

func signal(t testing.TB, id process.Identity, sig syscall.Signal) {
	t.Helper()
	handle := open(t, id)
	defer handle.Close()
	if err := handle.Signal(sig); err != nil {
		t.Fatalf("sending %v to %d (%s): %v", sig, id.PID, id.Command, err)
	}
}

func open(t testing.TB, id process.Identity) *process.Handle {
	t.Helper()
	handle, err := process.Open(id)
	if err != nil {
		t.Fatalf("opening process %d (%s): %v", id.PID, id.Command, err)
	}
	return handle
}

// processState returns the state letter of /proc/<pid>/stat.
func processState(pid int) (byte, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may itself hold parentheses and blanks.
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	if !ok || len(rest) == 0 {
		return 0, fmt.Errorf("unreadable stat %q", stat)
	}
	return rest[0], nil
}
