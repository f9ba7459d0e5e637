package main_test

import (
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// besideScript answers a person, and goes on after a pause.
const besideScript = `
model m-lead
  step
    say "I am here."

  when user starts "Go on with your task"
    step
      say "I go on."
`

// TestThreadOfTheScreenIsNotTheRoot: a thread that a person begins with /new in
// the screen changes nothing in the session, which goes on on its own.
func TestThreadOfTheScreenIsNotTheRoot(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, besideScript, 3)
	screen, _ := tm.launch()
	screen.enter("hello", "I am here.")
	root := tm.record().RootThread
	screen.enter("/new", "("+root.ThreadID+")") // Codex says how to come back to the old thread
	tm.await("the notice of the thread", func(e control.FollowEvent) bool { return strings.Contains(e.Text, "was begun in the screen") })
	tm.look()
	screen.enter("/quit", "EXIT=0")
	tm.awaitStatus("detached")
	if now := tm.record().RootThread; now.ThreadID != root.ThreadID || now.Generation != 1 || len(now.Lineage) != 1 || now.Transition != nil {
		t.Errorf("the root is %+v, want %+v", now, root)
	}
	verb[control.PauseResponse](tm, "pause")
	verb[control.ContinueResponse](tm, "continue")
	tm.await("what the continued root says", func(e control.FollowEvent) bool { return strings.Contains(e.Text, "I go on.") })
	if now := tm.record().ThreadID; now != root.ThreadID {
		t.Errorf("the continued root is %s, want %s", now, root.ThreadID)
	}
	tm.look()
	tm.stop()
	tm.assertClean()
}
