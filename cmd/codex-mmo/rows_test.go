package main_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// leftoverScript leaves a command running in the background of each agent: it
// outlives its tool call and its turn.
const leftoverScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "leave something behind"}
    call exec_command {"cmd": "sleep 900", "yield_time_ms": 250}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
  step
    delay 1s
    say "END"

model m-worker
  step
    call exec_command {"cmd": "sleep 900", "yield_time_ms": 250}
  step
    say "DONE"
`

// TestNothingRunsOnAfterItsAgent: a command that an agent left in the
// background is gone once its job, or its session, has ended.
//
// Spec: R044, R045
func TestNothingRunsOnAfterItsAgent(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, leftoverScript, 3)
	tm.start("go")
	tm.await("the worker's command", func(e control.FollowEvent) bool {
		return e.Agent == "worker" && strings.Contains(e.Text, "sleep 900")
	})
	view := tm.look()
	ofWorker := tm.sleepers(view.Jobs[0].AgentRunRef)
	tm.await("the worker's end", func(e control.FollowEvent) bool { return e.Agent == "worker" && e.Status == "completed" })
	for _, id := range ofWorker {
		testkit.AwaitGone(t, id)
	}
	var ofLead []process.Identity
	for _, p := range tm.look().Processes {
		if p.Role == "app-server" && p.Owner != view.Jobs[0].AgentRunRef {
			ofLead = append(ofLead, tm.sleepers(p.Owner)...)
		}
	}
	out := tm.finish()
	if out.Status != "completed" || out.Result != "END" {
		t.Errorf("exec ended %s with %q", out.Status, out.Result)
	}
	for _, id := range ofLead {
		if id.Alive() {
			t.Errorf("%s (%d) runs on after its session", id.Command, id.PID)
		}
	}
	tm.assertClean()
}

// sleepers returns the processes of an agent's background command, once there
// are any: Codex says that a command begins before its sandbox runs it.
func (tm *team) sleepers(ref string) []process.Identity {
	tm.t.Helper()
	deadline, again := time.NewTimer(testkit.Patience), time.NewTicker(5*time.Millisecond)
	defer deadline.Stop()
	defer again.Stop()
	for {
		list, err := process.Marked(testkit.MarkOf(ref))
		if err != nil {
			tm.t.Fatal(err)
		}
		var found []process.Identity
		for _, id := range list {
			if id.Command == "sleep" {
				found = append(found, id)
			}
		}
		if len(found) > 0 {
			return found
		}
		select {
		case <-again.C: // the kernel tells nobody of a stranger's exec
		case <-deadline.C:
			tm.t.Fatalf("the command of %s never ran", ref)
		}
	}
}

// slowScript gives the worker a command that takes longer than any test.
const slowScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "never end"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 240}
  step
    say "The wait is over: ${status last else nothing}"

model m-worker
  step
    shell "sleep 900"
  step
    say "DONE"
`

// TestStop ends a session at work: everything is gone, everything is on
// record, and exec says that it was stopped.
func TestStop(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, slowScript, 3)
	tm.start("go")
	tm.awaitWorkerShell()
	tm.look()
	out, errs, code := tm.run("stop", tm.session)
	if code != 0 || !strings.Contains(out, "is stopped") {
		t.Errorf("stop exited %d: %s%s", code, out, errs)
	}
	got := tm.finish()
	if got.Status != "stopped" || got.ExitCode != 130 || tm.cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("exec ended %s, exit %d (%d), want stopped, 130", got.Status, got.ExitCode, tm.cmd.ProcessState.ExitCode())
	}
	if j := tm.job(); j.Status != "stopped" || j.FinishedAt == nil {
		t.Errorf("the job is %s (finished %v), want stopped", j.Status, j.FinishedAt)
	}
	tm.assertClean()
	if out, errs, code := tm.run("stop", tm.session); code != 0 || !strings.Contains(errs, "stopped already") {
		t.Errorf("a second stop exited %d: %s%s", code, out, errs)
	}
	wantAudit := []string{"run_started", "agent_started", "session_stopping", "agent_ended", "session_stopped"}
	if got := tm.auditEvents(); strings.Join(got, " ") != strings.Join(wantAudit, " ") {
		t.Errorf("the audit trail is %v, want %v", got, wantAudit)
	}
}

// auditEvents lists the names of the audit rows, as the command prints them.
func (tm *team) auditEvents() []string {
	tm.t.Helper()
	out, errs, code := tm.run("audit", tm.session)
	if code != 0 {
		tm.t.Fatalf("audit exited %d: %s", code, errs)
	}
	var events []string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		events = append(events, strings.Fields(line)[2])
	}
	return events
}

// TestCancelByTheOperator: a cancelled job is cancelled whatever its turn does,
// keeps its reason, and wakes its waiter.
//
// Spec: A062
func TestCancelByTheOperator(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, slowScript, 3)
	tm.start("go")
	tm.awaitWorkerShell()
	view := tm.look()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	answer, err := tm.client.Cancel(ctx, control.Meta{}, control.CancelRequest{JobID: view.Jobs[0].JobID, Reason: "no longer needed"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(answer.Jobs); n != 1 || answer.Jobs[n-1].Status != "cancelled" || answer.Jobs[n-1].CancelReason != "no longer needed" || answer.Jobs[n-1].Error != "" {
		t.Errorf("cancel answered %+v", answer.Jobs)
	}
	out := tm.finish()
	if want := "The wait is over: cancelled"; out.Status != "completed" || out.Result != want {
		t.Errorf("exec ended %s with %q, want completed with %q", out.Status, out.Result, want)
	}
	tm.assertClean()
}

// TestRecoveryBudgetOfZero: with max_recovery_attempts 0 a lost host suspends
// the job: its engine is gone before it says so, and what was done is kept.
func TestRecoveryBudgetOfZero(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, slowScript, 0)
	tm.start("go")
	tm.awaitWorkerShell()
	engine := tm.process("app-server", true)
	testkit.Kill9(t, tm.process("host", true))
	tm.await("the suspension", func(e control.FollowEvent) bool { return e.Agent == "worker" && e.Status == "suspended" })
	if engine.Alive() {
		t.Error("the worker's engine lives while its job is suspended")
	}
	out := tm.finish()
	if want := "The wait is over: suspended"; out.Result != want {
		t.Errorf("exec ended with %q, want %q", out.Result, want)
	}
	j := tm.job()
	if j.Status != "cancelled" || j.CancelReason != "the session ended" || j.ResultKind != "partial" || j.RecoveryAttempts != 0 || !strings.Contains(j.Error, "budget") {
		t.Errorf("the job ended %+v", j)
	}
	raw, err := os.ReadFile(filepath.Join(tm.folders.JobDir(j.JobID), "partial-result.md"))
	if err != nil || !strings.Contains(string(raw), "persisted app-server thread") {
		t.Errorf("the partial result: %v, %q", err, raw)
	}
	tm.assertClean()
}

// TestDemo runs the demo as a newcomer does and reads what it prints.
func TestDemo(t *testing.T) {
	t.Parallel()
	p := testkit.NewPlace(t)
	cmd := p.Command(t, "demo")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("demo: %v\n%s", err, out)
	}
	for _, want := range []string{
		"SCRIPTED", "writer     completed", "checker    completed", "session    completed", "The lamp is lit at dusk.",
		"offline-chat (scripted)", "offline-anthropic (scripted)", "patch.diff", "root-events.jsonl", "events.jsonl", "result.md", "codex-mmo exec PROFILE",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the demo does not say %q:\n%s", want, out)
		}
	}
	awaitNone(t, p)
}

// TestReadersChangeNothing: listing sessions after everything died still reads
// what was recorded last; looking at one brings it to the truth.
//
// Spec: R007
func TestReadersChangeNothing(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, slowScript, 0)
	tm.start("go")
	tm.awaitWorkerShell()
	tm.look()
	keeper := tm.process("keeper", false)
	testkit.Stop(t, keeper) // so that it restarts nothing meanwhile
	for _, id := range []process.Identity{
		tm.process("supervisor", false), tm.process("host", false), tm.process("host", true),
		tm.process("app-server", false), tm.process("app-server", true), keeper,
	} {
		testkit.Kill9(t, id)
	}
	if err := tm.cmd.Process.Signal(os.Interrupt); err != nil { // or exec would bring it back
		t.Fatal(err)
	}
	testkit.Await(t, tm.exited, "the end of exec")
	for range 2 {
		out, errs, code := tm.run("sessions")
		if code != 0 || !strings.Contains(out, tm.session) || !strings.Contains(out, "  running  ") {
			t.Fatalf("sessions exited %d: %s%s", code, out, errs)
		}
	}
	if got := tm.settled(); got.Status != "suspended" || got.RootThreadID == "" || got.Recoveries != 0 {
		t.Errorf("status says %s on thread %q after %d recoveries, want suspended on its thread after 0", got.Status, got.RootThreadID, got.Recoveries)
	}
	if j := tm.job(); j.Status != "suspended" || j.ResultKind != "partial" {
		t.Errorf("the job is %s with a %q result, want suspended with a partial one", j.Status, j.ResultKind)
	}
	tm.assertClean(filepath.Join("state", "sessions", tm.session, "capabilities.json"))
}

// settled looks at the session until it needs no supervisor any more.
func (tm *team) settled() *control.SessionView {
	tm.t.Helper()
	for {
		view := tm.stored()
		if !view.Supervised {
			return view
		}
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		client := control.Dial(tm.folders.ControlSocket(tm.session), nil) // fails at once when it is gone
		err := client.Follow(ctx, control.Meta{}, control.FollowRequest{}, func(control.FollowEvent) error { return nil })
		cancel()
		if ctx.Err() == context.DeadlineExceeded {
			tm.t.Fatalf("the session does not settle: %v", err)
		}
	}
}

// noiseScript shows what the worker's shell prints.
const noiseScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "speak"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
  step
    call mcp__mmo_mesh agent_result {"job_id": "${job_id 1}"}
  step
    say "${content 1 else nothing}"

model m-worker
  step
    shell "echo spoken; env"
  step
    say "${@output last}"
`

// TestModelsShell: a model's shell runs nothing of the user's shell setup and
// has no token of ours.
func TestModelsShell(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, noiseScript, 3)
	for _, name := range []string{".bashrc", ".profile", ".bash_profile"} {
		if err := os.WriteFile(filepath.Join(tm.place.Home, name), []byte("echo NOISE from "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tm.start("go")
	out := tm.finish()
	if !strings.Contains(out.Result, "spoken") || !strings.Contains(out.Result, "MMO_AGENT=ar_") {
		t.Errorf("the worker's shell printed %q", out.Result)
	}
	for _, bad := range []string{"NOISE", "TOKEN", "bwrap", "WARNING"} {
		if strings.Contains(out.Result, bad) {
			t.Errorf("the worker's shell printed %q: %s", bad, out.Result)
		}
	}
}

// TestSessionThatCannotStart ends as failed, with the cause, the session's id
// and no process left; a later look says the same.
func TestSessionThatCannotStart(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, slowScript, 3)
	if err := os.WriteFile(filepath.Join(tm.place.State, "gateways"), nil, 0o600); err != nil { // in the way of a folder
		t.Fatal(err)
	}
	tm.start("go")
	out := tm.finish()
	if out.Status != "failed" || out.ExitCode != 1 || !strings.Contains(out.Session.Error, "gateways") || out.Session.SessionID != tm.session {
		t.Errorf("exec ended %s (exit %d) of %s with %q", out.Status, out.ExitCode, out.Session.SessionID, out.Session.Error)
	}
	if v := tm.stored(); v.Status != "failed" || v.FinishedAt == nil || v.Supervised {
		t.Errorf("status says %s (finished %v, supervised %v)", v.Status, v.FinishedAt, v.Supervised)
	}
	awaitNone(t, tm.place)
}

// failingScript lets the root's provider refuse it while a worker works.
const failingScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "never end"}
  step
    delay 3s
    error 400 invalid_request_error "the request makes no sense"

model m-worker
  step
    shell "sleep 900"
`

// TestFailedRootTakesItsWorkersAlong: a root whose turn fails for good ends the
// session; its worker is cancelled and nothing of it runs on or holds capacity.
func TestFailedRootTakesItsWorkersAlong(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, failingScript, 3)
	tm.start("go")
	tm.awaitWorkerShell()
	tm.look()
	out := tm.finish()
	if out.Status != "failed" || out.ExitCode != 1 || !strings.Contains(out.Session.Error, "makes no sense") {
		t.Errorf("exec ended %s (exit %d) with error %q", out.Status, out.ExitCode, out.Session.Error)
	}
	if j := tm.job(); j.Status != "cancelled" || j.CancelReason != "the session ended" || j.FinishedAt == nil {
		t.Errorf("the job is %s (%q, finished %v)", j.Status, j.CancelReason, j.FinishedAt)
	}
	tm.assertClean()
}

// awaitNone waits for the end of every process that was started in a place: the
// supervisor and its keeper end after they have told the last event.
func awaitNone(t *testing.T, p *testkit.Place) {
	t.Helper()
	left, err := process.WithEnv("MMO_STATE_HOME", func(v string) bool { return v == p.State })
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range left {
		testkit.AwaitGone(t, id)
	}
}
