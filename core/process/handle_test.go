package process_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// The end of a process that is nobody's child here is an event.
//
// Spec: A036 (an adopted process)
func TestHandleSeesTheEndOfAForeignProcess(t *testing.T) {
	leader, line := start(t, "gone", nil)
	testkit.Await(t, leader.Done(), "the leader's end")
	foreign := identities(t, line)[0]
	if parent, err := process.Parent(foreign.PID); err != nil || parent == leader.Identity().PID {
		t.Fatalf("Parent(%v) = %d, %v, want another", foreign, parent, err)
	}
	h, err := process.Open(foreign)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	if !h.Identity().Same(foreign) {
		t.Errorf("Identity = %+v, want %+v", h.Identity(), foreign)
	}
	select {
	case <-h.Done():
		t.Fatal("Done before the end")
	default:
	}
	if err := h.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, h.Done(), "Done")
	if err := h.Signal(syscall.SIGTERM); !errors.Is(err, process.ErrGone) {
		t.Errorf("Signal after the end = %v, want an error that wraps ErrGone", err)
	}
}

func TestClosedHandleTellsNothing(t *testing.T) {
	child, _ := start(t, "sleep", nil)
	h, err := process.Open(child.Identity())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := h.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	}
	select {
	case <-h.Done():
		t.Error("Done is closed though the process lives")
	default:
	}
	if !child.Identity().Alive() {
		t.Error("closing a handle ended the process")
	}
}
