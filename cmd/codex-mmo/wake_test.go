package main_test

import (
	"strings"
	"testing"
)

// wakeScript lets the lead end its turn at once; it hears of its workers when
// the supervisor wakes it.
const wakeScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "one"}
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "two"}
  step
    say "I sent two workers and rest."

  when user starts "[inbox]"
    step
      call mcp__mmo_mesh agent_status {}
    step
      say "I heard: ${@user last}"

model m-worker
  step
    shell "sleep 1"
  step
    say "DONE"
`

// TestIdleRootIsWoken: a root that ended its turn before its workers is woken
// once they have ended, with their ids and states and none of their words, and
// the session ends with what it says then.
func TestIdleRootIsWoken(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, wakeScript, 3)
	tm.start("go")
	tm.awaitWorkerShell()
	view := tm.look()
	out := tm.finish()
	if out.Status != "completed" || !strings.HasPrefix(out.Result, "I heard: [inbox] ") {
		t.Fatalf("exec ended %s with %q", out.Status, out.Result)
	}
	named := 0
	for _, j := range view.Jobs {
		if strings.Contains(out.Result, j.JobID+" (worker) is completed") {
			named++
		}
	}
	if named == 0 {
		t.Errorf("the root was told of none of its jobs: %q", out.Result)
	}
	if strings.Contains(out.Result, "DONE") {
		t.Errorf("a worker's words reached the inbox: %q", out.Result)
	}
	events := strings.Join(tm.auditEvents(), " ")
	if !strings.Contains(events, "root_completion_deferred") || !strings.Contains(events, "root_woken") {
		t.Errorf("the audit trail is %s", events)
	}
	if woken := strings.Count(events, "root_woken"); woken > 2 {
		t.Errorf("the root was woken %d times for two workers", woken)
	}
	tm.assertSentOnce()
	tm.assertClean()
}
