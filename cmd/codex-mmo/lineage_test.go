package main_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// freshScript answers a person on any thread.
const freshScript = `
model m-lead
  step
    say "I am here."

  when user contains "once more"
    step
      say "I am fresh."

  when user starts "Go on with your task"
    step
      say "I go on freshly."

model m-worker
  step
    say "DONE"
`

// TestFreshContextBecomesTheRoot: a context that a person begins anew in the
// screen is the root from then on; the old thread still names the session, and a
// pause and a continue go on on the new one.
//
// Spec: A022
func TestFreshContextBecomesTheRoot(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, freshScript, 3)
	screen, _ := tm.launch()
	screen.enter("hello", "I am here.")
	old := tm.record().ThreadID
	screen.enter("/new", "/new")
	tm.until("the fresh root", func() bool { return tm.record().Generation == 2 })
	screen.enter("once more", "I am fresh.")
	rec := tm.record()
	if rec.ThreadID == old || rec.Transition != nil || len(rec.Lineage) != 2 {
		t.Fatalf("the root is %s (was %s), transition %+v, lineage %+v", rec.ThreadID, old, rec.Transition, rec.Lineage)
	}
	if first := rec.Lineage[0]; first.ThreadID != old || first.SuccessorThreadID != rec.ThreadID || first.SupersededAt == nil {
		t.Errorf("the old entry is %+v", first)
	}
	if diff := cmp.Diff(rec.RootThread, tm.runRecord().RootThread); diff != "" {
		t.Errorf("the run does not mirror the session (-session +run):\n%s", diff)
	}
	tm.await("what the fresh root says", func(e control.FollowEvent) bool { return strings.Contains(e.Text, "I am fresh.") })
	tm.look()
	screen.enter("/quit", "EXIT=0")
	tm.awaitStatus("detached")

	if view := verb[control.PauseResponse](tm, "pause"); view.Session.RootThreadID != rec.ThreadID {
		t.Errorf("the paused session is on %s, want %s", view.Session.RootThreadID, rec.ThreadID)
	}
	verb[control.ContinueResponse](tm, "continue")
	tm.await("what the continued root says", func(e control.FollowEvent) bool { return strings.Contains(e.Text, "I go on freshly.") })
	if now := tm.record(); now.ThreadID != rec.ThreadID || now.Generation != 2 {
		t.Errorf("the root is %s of generation %d, want %s of 2", now.ThreadID, now.Generation, rec.ThreadID)
	}
	screen = tm.open("resume", old)
	screen.await("I go on freshly.")
	tm.look()
	tm.stop()
	tm.assertClean()
}
