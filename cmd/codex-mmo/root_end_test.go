package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// rootScript is that of a team whose root works alone.
func rootScript(steps string) string {
	return "\nmodel m-lead\n" + steps + "\nmodel m-worker\n  step\n    say \"never\"\n"
}

const waitsForGo = `  step
    say "I begin."
    shell "while [ ! -e go ]; do sleep 0.1; done"
`

// awaitRootShell returns once the root's command runs.
func (tm *team) awaitRootShell() {
	tm.t.Helper()
	tm.await("the root's command", func(e control.FollowEvent) bool { return e.JobID == "" && strings.HasPrefix(e.Text, "runs ") })
	tm.look()
}

// TestRootWithoutWords: a root whose turn ends without a message has failed, and
// its result says why.
//
// Spec: R080
func TestRootWithoutWords(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, rootScript("  step\n    think \"I say nothing.\"\n"), 3)
	tm.start("go")
	out := tm.finish()
	if out.Status != "failed" || !strings.Contains(out.Session.Error, "without a readable terminal result") || out.Session.ResultKind != "partial" ||
		!strings.Contains(out.Result, "root completed without a readable terminal result") {
		t.Errorf("exec ended %s (%s) with %q: %s", out.Status, out.Session.ResultKind, out.Result, out.Session.Error)
	}
	tm.assertGone()
}

// TestRootIsInterruptedAndContinued: an operator interrupts a headless root and
// gives it its next input; whoever waits for the session goes on waiting.
//
// Spec: R095
func TestRootIsInterruptedAndContinued(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, rootScript(waitsForGo+`
  when user starts "now say it"
    step
      say "SAID"
`), 3)
	tm.start("go")
	tm.awaitRootShell()
	look, err := tm.client.Control(t.Context(), control.Meta{}, control.ControlRequest{Action: control.ActionInspect})
	if err != nil {
		t.Fatal(err)
	}
	thread := tm.record().ThreadID
	stopped, err := tm.order(control.ControlRequest{Action: control.ActionInterrupt}, look.ControlRevision)
	if err != nil || len(stopped.Result) != 0 || stopped.ControlRevision != look.ControlRevision+1 {
		t.Fatalf("the interrupt: %v, %+v", err, stopped)
	}
	if view := tm.look(); view.Status != "paused" || view.ActiveTurnID != "" {
		t.Errorf("the session is %s with turn %q", view.Status, view.ActiveTurnID)
	}
	select {
	case <-tm.exited:
		t.Error("exec does not wait any more")
	default:
	}
	went, err := tm.order(control.ControlRequest{Action: control.ActionContinue, Input: "now say it"}, stopped.ControlRevision)
	if err != nil || went.Result["turn_id"] == "" || went.Result["turn_id"] == nil {
		t.Fatalf("the continue: %v, %+v", err, went)
	}
	if out := tm.finish(); out.Status != "completed" || out.Result != "SAID" || out.Session.RootThreadID != thread {
		t.Errorf("exec ended %s with %q on %s, want thread %s", out.Status, out.Result, out.Session.RootThreadID, thread)
	}
	tm.assertSentOnce()
	tm.assertClean()
}

// TestDetachedRootRecovers: a root that its wall limit detached recovers by
// itself when its app-server is lost, on the same thread.
//
// Spec: R096
func TestDetachedRootRecovers(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, rootScript(waitsForGo+`
  when user starts "[recovery]"
    step
      say "RECOVERED"
`), 3)
	tm.start("go", "--wall", "3s")
	testkit.Await(t, tm.exited, "the end of exec")
	tm.look()
	thread := tm.record().ThreadID
	if got := tm.record().Status; got != "detached" {
		t.Fatalf("the session is %s", got)
	}
	testkit.Kill9(t, tm.process("app-server", false))
	tm.awaitStatus("completed")
	end := tm.stored()
	if end.RootThreadID != thread || end.Recoveries != 1 {
		t.Errorf("it ended on %s after %d recoveries, want %s after one", end.RootThreadID, end.Recoveries, thread)
	}
	if got := readFile(t, filepath.Join(tm.folders.SessionDir(tm.session), "root-result.md")); got != "RECOVERED" {
		t.Errorf("the result is %q", got)
	}
	tm.assertSentOnce()
	tm.assertClean()
}

// TestDetachKeepsTheHost: leaving a session ends nothing of it; a stop does.
//
// Spec: R098
func TestDetachKeepsTheHost(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, rootScript(waitsForGo), 3)
	tm.start("go")
	tm.awaitRootShell()
	host, engine := tm.process("host", false), tm.process("app-server", false)
	if view := verb[control.SessionView](tm, "detach"); view.Status != "detached" {
		t.Errorf("the session is %s", view.Status)
	}
	testkit.Await(t, tm.exited, "the end of exec")
	if now := tm.process("host", false); now != host || !engine.Alive() {
		t.Errorf("the root's host is %+v, was %+v", now, host)
	}
	if answer := verb[control.StopResponse](tm, "stop"); answer.Session.Status != "stopped" {
		t.Errorf("the session is %s", answer.Session.Status)
	}
	testkit.AwaitGone(t, host)
	testkit.AwaitGone(t, engine)
	tm.assertClean()
}

// TestProviderLimitSuspends: a root that a provider's usage limit stops is
// suspended with what it has said, and goes on on its thread when it is told to.
func TestProviderLimitSuspends(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, rootScript(`  step
    say "I begin."
    shell "true"
  step
    error 429 usage_limit_reached "The usage limit has been reached." resets-at=1796140000

  when user starts "try again"
    step
      say "DONE"
`), 3)
	tm.start("go")
	out := tm.finish()
	f := out.Session.Failure
	if out.Status != "suspended" || f == nil || f.Kind != "provider_usage_limited" || !f.Retryable || !out.Session.RuntimeCurrent {
		t.Fatalf("exec ended %s with the failure %+v", out.Status, f)
	}
	dir := tm.folders.SessionDir(tm.session)
	if rec := tm.record(); rec.RootResultKind != "partial" || rec.RootResult.Name != "root-partial-result.md" {
		t.Errorf("the result is %s %s", rec.RootResultKind, rec.RootResult.Name)
	}
	readFile(t, filepath.Join(dir, "root-partial-result.md"))
	thread := tm.record().ThreadID
	went := verb[control.ContinueResponse](tm, "continue", "--input", "try again")
	if went.Session.Status != "running" {
		t.Errorf("after the continue the session is %s", went.Session.Status)
	}
	tm.awaitStatus("completed")
	rec := tm.record()
	if rec.Failure != nil || rec.ThreadID != thread || readFile(t, filepath.Join(dir, "root-result.md")) != "DONE" {
		t.Errorf("it ended %s on %s (was %s), its failure %+v", rec.Status, rec.ThreadID, thread, rec.Failure)
	}
	tm.assertSentOnce()
	tm.assertGone()
}

// gracefulScript has a root and a worker at work until they may go on; both end
// their turns as they are asked to.
const gracefulScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "work"}
  step
    shell "while [ ! -e go ]; do sleep 0.1; done"

  when user starts "Finish now"
    step
      say "MY REPORT"

model m-worker
  step
    shell "while [ ! -e go ]; do sleep 0.1; done"

  when user starts "Finalize now"
    step
      say "MY RESULT"
`

// TestGracefulStop: a stop that gives time asks the root and its workers for
// their results, in the turns that run; what they give is kept.
//
// Spec: R101, R102
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, gracefulScript, 3)
	tm.goalRoot()
	tm.start("go")
	tm.awaitWorkerShell()
	tm.awaitRootShell()
	stopped := make(chan string, 1)
	go func() {
		out, errs, _ := tm.run("stop", tm.session, "--grace", "60s", "--json")
		stopped <- out + errs
	}()
	asked := func(path string) bool {
		for _, r := range rows(t, path) {
			if r.Direction == "sent" && r.Message.Method == "turn/steer" {
				return true
			}
		}
		return false
	}
	events := filepath.Join(tm.folders.SessionDir(tm.session), "root-events.jsonl")
	tm.until("both orders", func() bool {
		return asked(events) && asked(filepath.Join(tm.folders.JobDir(tm.jobNow().JobID), "events.jsonl"))
	})
	root, err := tm.client.Control(t.Context(), control.Meta{}, control.ControlRequest{Action: control.ActionInspect})
	if err != nil {
		t.Fatal(err)
	}
	if view := tm.look(); root.Live.ActiveTurnID == "" || root.Live.ActiveTurnID != view.ActiveTurnID || view.Status != "running" {
		t.Errorf("the root's turn is %q, the session's %q, its status %s", root.Live.ActiveTurnID, view.ActiveTurnID, view.Status)
	}
	if err := os.WriteFile(filepath.Join(tm.place.Workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	said := testkit.Await(t, stopped, "the end of stop")
	var answer control.StopResponse
	if err := json.Unmarshal([]byte(said), &answer); err != nil {
		t.Fatalf("stop printed %q: %v", said, err)
	}
	if out := tm.finish(); out.Status != "stopped" || answer.Session.Status != "stopped" {
		t.Errorf("exec ended %s, stop %s", out.Status, answer.Session.Status)
	}
	if j := tm.job(); j.Status != "completed" || tm.result(j.JobID, "result.md") != "MY RESULT" {
		t.Errorf("the worker ended %+v", j)
	}
	var sent []string
	for _, r := range rows(t, events) {
		if r.Direction == "sent" && strings.HasPrefix(r.Message.Method, "turn/") {
			sent = append(sent, r.Message.Method)
		}
	}
	if !slices.Equal(sent, []string{"turn/start", "turn/steer"}) {
		t.Errorf("the root was sent %q", sent)
	}
	if got := readFile(t, filepath.Join(tm.folders.SessionDir(tm.session), "root-partial-result.md")); !strings.Contains(got, "MY REPORT") {
		t.Errorf("the root's partial result is %q", got)
	}
	if got := tm.audited("session_stopped"); got["root_finalize_delivered"] != true || got["root_forced"] != false {
		t.Errorf("the stop is on record as %v", got)
	}
	tm.assertClean()
}

// TestStopWaitsForItsTurn: a stop that finds another verb at work publishes
// nothing before that is done; then it ends the session, and keeps the root's
// last words.
//
// Spec: R092
func TestStopWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, rootScript(waitsForGo), 3)
	tm.start("go")
	tm.awaitRootShell()
	tm.leaveExec()
	host := tm.process("host", false)
	testkit.Stop(t, host) // the pause takes as long as its host does not answer
	ended := make(chan [2]string, 2)
	run := func(verb string) {
		_, errs, code := tm.run(verb, tm.session)
		ended <- [2]string{verb, fmt.Sprint(code, errs)}
	}
	go run("pause")
	tm.until("the pause's intent", func() bool { return tm.record().ColdPausePending })
	before := tm.record().Status
	go run("stop")
	if _, err := tm.client.Control(t.Context(), control.Meta{}, control.ControlRequest{Action: control.ActionInspect}); err != nil {
		t.Fatal(err) // the supervisor answers meanwhile
	}
	if now := tm.record().Status; now != before || slices.Contains(tm.auditEvents(), "session_stopping") {
		t.Errorf("before its turn the session is %s, was %s: %q", now, before, tm.auditEvents())
	}
	testkit.Cont(t, host)
	for range 2 {
		if got := testkit.Await(t, ended, "the verbs' ends"); !strings.HasPrefix(got[1], "0") {
			t.Errorf("%s ended %s", got[0], got[1])
		}
	}
	if rec := tm.record(); rec.Status != "stopped" {
		t.Errorf("the session is %s", rec.Status)
	}
	events := tm.auditEvents()
	if paused, stopping := slices.Index(events, "session_paused"), slices.Index(events, "session_stopping"); paused < 0 || stopping < paused {
		t.Errorf("the trail is %q, want session_paused before session_stopping", events)
	}
	if got := readFile(t, filepath.Join(tm.folders.SessionDir(tm.session), "root-partial-result.md")); !strings.Contains(got, "I begin.") {
		t.Errorf("the root's partial result is %q", got)
	}
	tm.assertClean()
}
