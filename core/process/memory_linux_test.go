package process_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core/process"
)

func init() { systemRoles["hidden"] = playHidden }

// playHidden hides this process's memory, starts a child, and prints what the
// kernel says of the first and the number of the second.
func playHidden() int {
	if err := process.HideMemory(); err != nil {
		fmt.Println(err)
		return 1
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	child, err := process.Start(process.Spec{Path: os.Args[0], Env: []string{roleEnv + "=sleep", process.MarkEnv + "=ar_test0hidden/1"}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(dumpable, child.Identity().PID)
	block()
	return 0
}

// A process that hid its memory starts others, which are not hidden, and can be
// found, watched and ended by its identity.
func TestHideMemory(t *testing.T) {
	hidden, line := start(t, "hidden", nil)
	var dumpable, pid int
	if _, err := fmt.Sscan(line, &dumpable, &pid); err != nil {
		t.Fatalf("the hidden process said %q", line)
	}
	if dumpable != 0 {
		t.Errorf("dumpable = %d, want 0", dumpable)
	}
	child := identities(t, fmt.Sprint(pid))[0]
	if env, err := process.Environ(pid); err != nil || env[process.MarkEnv] != "ar_test0hidden/1" {
		t.Errorf("the child's environment is %v, %v", env, err)
	}
	if got, err := process.Lookup(hidden.Identity().PID); err != nil || !got.Same(hidden.Identity()) || !got.Alive() {
		t.Errorf("Lookup of the hidden process = %+v, %v", got, err)
	}
	below, err := process.Descendants(hidden.Identity())
	if err != nil || len(below) != 1 || !below[0].Same(child) {
		t.Errorf("Descendants of the hidden process = %v, %v, want %v", below, err, child)
	}
	if survivors, err := process.Retire(t.Context(), hidden.Identity(), nil); err != nil {
		t.Errorf("Retire = %v, %v", survivors, err)
	}
	if child.Alive() {
		t.Error("the child of the hidden process outlived its retirement")
	}
}
