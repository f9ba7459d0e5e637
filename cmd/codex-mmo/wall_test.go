package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
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
	tm.goalRoot()
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

// rootHistory is the thread of the root as it was kept at the session's end.
func (tm *team) rootHistory() (h history) {
	tm.t.Helper()
	raw := readFile(tm.t, filepath.Join(tm.folders.SessionDir(tm.session), "root-terminal-history.json"))
	if err := json.Unmarshal([]byte(raw), &h); err != nil {
		tm.t.Fatal(err)
	}
	return h
}

// TestRootEndThatNobodyHeardOf: the root's turn that ended on disk before its
// app-server went is found there, and is not begun again.
//
// Spec: R079
func TestRootEndThatNobodyHeardOf(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, `
model m-lead
  step
    shell "while [ ! -e go ]; do sleep 0.1; done"
  step
    say "THE END"

model m-worker
  step
    say "never"
`, 3)
	tm.start("go")
	tm.await("the root's command", func(e control.FollowEvent) bool { return e.JobID == "" && strings.HasPrefix(e.Text, "runs ") })
	tm.look()
	engine, host := tm.process("app-server", false), tm.process("host", false)
	testkit.Stop(t, host)
	if err := os.WriteFile(filepath.Join(tm.place.Workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tm.until("the end of the turn on disk", func() bool { return tm.rolloutHas("lead", `"last_agent_message":"THE END`) })
	testkit.Kill9(t, engine)
	testkit.Kill9(t, host)
	if out := tm.finish(); out.Status != "completed" || out.Result != "THE END" {
		t.Errorf("exec ended %s with %q", out.Status, out.Result)
	}
	rec := tm.record()
	run := tm.runOf(rec.RootAgentRef)
	if h := tm.rootHistory(); len(h.Turns) != 1 || h.Turns[0].ID != run.LastTurnID || h.ThreadID != run.ThreadID {
		t.Errorf("the history is %+v, want the turn %s alone", h, run.LastTurnID)
	}
	if sent := sentInputs(t, filepath.Join(tm.folders.SessionDir(tm.session), "root-events.jsonl")); len(sent) != 1 {
		t.Errorf("turns were begun for %v, want one", sent)
	}
	tm.assertClean()
}

// TestRootWaitsForTheEndOfItsTurn: a root whose goal is complete has ended when
// its turn has, with the last words of it.
//
// Spec: R119
func TestRootWaitsForTheEndOfItsTurn(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, `
model m-lead
  step
    goal complete
  step
    delay 300ms
    say "THE LAST WORDS"

model m-worker
  step
    say "never"
`, 3)
	tm.goalRoot()
	tm.start("go")
	if out := tm.finish(); out.Status != "completed" || out.ExitCode != 0 || out.Result != "THE LAST WORDS" {
		t.Errorf("exec ended %s (%d) with %q", out.Status, out.ExitCode, out.Result)
	}
	h := tm.rootHistory()
	if n := len(h.Turns); n == 0 || h.Turns[n-1].Status != "completed" {
		t.Errorf("the history is %+v", h)
	}
	tm.assertGone()
}

// goalRoot makes the lead one in mode goal.
func (tm *team) goalRoot() {
	tm.t.Helper()
	tm.edit("profile.toml", `description = "Leads."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"`, `description = "Leads."
permissions = "read-only"
approval_policy = "never"
goal_token_budget = 100000
max_goal_token_budget = 200000
execution_mode = "goal"`)
}
