package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// wallScript has a root in mode goal that works for as long as it is let.
const wallScript = `
model m-lead
  step
    say "I begin."
    shell "while [ ! -e go ]; do sleep 0.1; done"
  step
    goal complete
  step
    say "ALL OF IT"

model m-worker
  step
    say "never"
`

// TestWallLimit: a headless root that takes longer than it was given is left to
// itself, with what it has said so far, and goes on to its end on its thread.
//
// Spec: R093
func TestWallLimit(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, wallScript, 3)
	tm.edit("profile.toml", `description = "Leads."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"`, `description = "Leads."
permissions = "read-only"
approval_policy = "never"
goal_token_budget = 100000
max_goal_token_budget = 200000
execution_mode = "goal"`)
	tm.start("go", "--wall", "3s")
	testkit.Await(t, tm.exited, "the end of exec")
	var out struct {
		Status     string `json:"status"`
		RootStatus string `json:"root_status"`
		ExitCode   int    `json:"exit_code"`
		Result     string `json:"result"`
	}
	if err := json.Unmarshal(tm.stdout.Bytes(), &out); err != nil {
		t.Fatalf("exec printed %q: %v", tm.stdout.String(), err)
	}
	if out.Status != "detached" || out.RootStatus != "harness_wall_detached" || out.ExitCode != 124 || tm.cmd.ProcessState.ExitCode() != 124 {
		t.Errorf("exec ended %+v with exit code %d", out, tm.cmd.ProcessState.ExitCode())
	}
	if !strings.Contains(out.Result, "external harness wall expired") || !strings.Contains(out.Result, "I begin.") {
		t.Errorf("the partial result is %q", out.Result)
	}
	view := tm.look()
	rec := tm.record()
	run := tm.runOf(rec.RootAgentRef)
	if rec.Kind != "noninteractive" || run.Goal == nil || run.Goal.TokenBudget != 100_000 || rec.RootResultKind != "partial" {
		t.Errorf("the session is %s, its goal %+v, its result %s", rec.Kind, run.Goal, rec.RootResultKind)
	}
	screen := tm.open("resume", tm.session)
	screen.await("I begin.")
	if err := os.WriteFile(filepath.Join(tm.place.Workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	screen.await("ALL OF IT")
	screen.enter("/quit", "EXIT=0")
	tm.awaitStatus("completed")
	if end := tm.stored(); end.RootThreadID != view.RootThreadID {
		t.Errorf("it ended on thread %s, want %s", end.RootThreadID, view.RootThreadID)
	}
	tm.assertSentOnce()
	tm.assertClean()
}
