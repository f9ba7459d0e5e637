package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
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

// TestSeededGoalWaits: the goal of a root that a person talks to is seeded
// paused, and stays so, whoever comes and goes, until somebody says something.
//
// Spec: R021
func TestSeededGoalWaits(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, resumeScript, 3)
	tm.goalRoot()
	screen, _ := tm.launch()
	leave := func() {
		t.Helper()
		screen.await("Resume paused goal?") // Codex asks
		looks := 0
		tm.until("the end of the question", func() bool {
			asks := strings.Contains(screen.tmux(nil, "capture-pane", "-p", "-t", "s"), "Resume paused goal?")
			if asks && looks%100 == 0 { // a key that comes too early is lost
				screen.tmux(nil, "send-keys", "-t", "s", "2")
			}
			looks++
			return !asks
		})
		screen.enter("/quit", "EXIT=0")
		tm.awaitStatus("detached")
	}
	leave()
	screen.tmux(nil, "kill-server")
	seeded := func() (store.Goal, *store.Session) {
		t.Helper()
		rec := tm.record()
		run := tm.runOf(rec.RootAgentRef)
		if run.Goal == nil {
			t.Fatal("the root has no goal")
		}
		return *run.Goal, rec
	}
	goal, before := seeded()
	if n := utf8.RuneCountInString(goal.Objective); goal.Status != "paused" || !goal.BootstrapPending || n == 0 || n > 4000 {
		t.Errorf("the goal is %+v", goal)
	}
	screen = tm.open("resume", tm.session)
	tm.until("the recorded screen", func() bool { return tm.record().Client != nil })
	tm.look()
	leave()
	again, after := seeded()
	if diff := cmp.Diff(goal, again); diff != "" {
		t.Errorf("the goal changed (-want +got):\n%s", diff)
	}
	if after.ThreadID != before.ThreadID || before.ThreadID == "" || before.StartedAt == nil || !after.StartedAt.Equal(*before.StartedAt) {
		t.Errorf("the session is on thread %q since %v, was on %q since %v", after.ThreadID, after.StartedAt, before.ThreadID, before.StartedAt)
	}
	tm.stop()
	tm.assertClean()
}

// TestTaintedSessionIsResumed: a tainted session is resumed by who says that he
// knows, and delegates no more, as jobs or as native agents.
//
// Spec: R037
func TestTaintedSessionIsResumed(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, pauseScript, 3)
	tm.atWork()
	tm.leaveExec()
	run := tm.record().CurrentRunID
	verb[control.SessionView](tm, "taint", "--reason", "a file changed by itself")
	verb[control.PauseResponse](tm, "pause")
	tm.assertNoProcess()
	var tainted string
	tm.view(func(tx *store.Tx) error {
		list, err := tx.AuditRows(tm.session, 0, 1000)
		for _, row := range list {
			if row.Event == "session_tainted" {
				tainted = row.RunID
			}
		}
		return err
	})
	if tainted != run || run == "" {
		t.Errorf("the taint is on record for run %q, want %q", tainted, run)
	}
	screen := tm.open("resume", tm.session)
	screen.await("--allow-tainted")
	if rec := tm.record(); rec.Status != "paused" {
		t.Errorf("after the refusal the session is %s", rec.Status)
	}
	screen.tmux(nil, "kill-server")
	tm.open("resume", tm.session, "--allow-tainted")
	tm.until("the recorded screen", func() bool { return tm.record().Client != nil })
	config := readFile(t, filepath.Join(tm.folders.SessionDir(tm.session), "homes", "lead", "config.toml"))
	_, agents, found := strings.Cut(config, "[agents]\n")
	if !found || !strings.HasPrefix(agents, "enabled = false\n") {
		t.Errorf("native agents are not switched off: %s", config)
	}
	for _, name := range []string{"agent_spawn", "agents_spawn", "agent_patch_integrate"} {
		if strings.Contains(config, name) || !strings.Contains(config, "agent_result") {
			t.Errorf("the root is offered %s: %s", name, config)
		}
	}
	tm.over()
}
