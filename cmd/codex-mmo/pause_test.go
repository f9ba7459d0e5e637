package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// pauseScript has a worker at work for longer than any test. What is told to go
// on goes on: the worker says its result, the lead waits for it.
const pauseScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "work for long"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}

  when user contains "CONTEXT CHECKPOINT COMPACTION"
    step
      say "One worker was sent."

  when user starts "Go on with your task"
    step
      call mcp__mmo_mesh agent_status {}
    step
      call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
    step
      call mcp__mmo_mesh agent_result {"job_id": "${job_id 1}"}
    step
      say "The worker says: ${content 1 else nothing}"

  when user starts "[recovery]"
    step
      call mcp__mmo_mesh agent_status {}
    step
      call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
    step
      call mcp__mmo_mesh agent_result {"job_id": "${job_id 1}"}
    step
      say "The worker says: ${content 1 else nothing}"

model m-worker
  step
    say "I begin."
    shell "sleep 600"

  when user starts "Continue your task"
    step
      say "DONE"

  when user starts "[recovery]"
    step
      say "DONE"
`

// verb runs a command about the session with --json and decodes its answer.
func verb[T any](tm *team, args ...string) T {
	tm.t.Helper()
	args = append([]string{args[0], tm.session, "--json"}, args[1:]...)
	out, errs, code := tm.run(args...)
	if code != 0 {
		tm.t.Fatalf("codex-mmo %v exited %d: %s%s", args, code, out, errs)
	}
	var answer T
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		tm.t.Fatalf("codex-mmo %v printed %q: %v", args, out, err)
	}
	return answer
}

// atWork starts the team of a script and returns once its worker works, with
// the ids of the two threads.
func (tm *team) atWork() (job, root, worker string) {
	tm.t.Helper()
	tm.start("go")
	tm.awaitWorkerShell()
	view := tm.look()
	return view.Jobs[0].JobID, view.RootThreadID, view.Jobs[0].ThreadID
}

// assertNoProcess proves that what was seen of the session is gone.
func (tm *team) assertNoProcess() {
	tm.t.Helper()
	tm.assertGone()
	tm.seen = map[process.Identity]string{}
}

// runRecord reads the row of the session's run.
func (tm *team) runRecord() *store.Run {
	tm.t.Helper()
	var run *store.Run
	tm.view(func(tx *store.Tx) (err error) {
		run, err = tx.RunOf(tm.session)
		return err
	})
	return run
}

// until returns once a condition of the records holds: no event tells of it.
func (tm *team) until(what string, holds func() bool) {
	tm.t.Helper()
	deadline, again := time.NewTimer(testkit.Patience), time.NewTicker(10*time.Millisecond)
	defer deadline.Stop()
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-deadline.C:
			tm.t.Fatalf("%s never came", what)
		}
	}
}

// audited returns the details of the newest audit row of an event, or nil.
func (tm *team) audited(event string) map[string]any {
	tm.t.Helper()
	var found map[string]any
	tm.view(func(tx *store.Tx) error {
		rows, err := tx.AuditRows(tm.session, 0, 1000)
		for _, row := range rows {
			if row.Event == event {
				found = row.Details
			}
		}
		return err
	})
	return found
}

// leaveExec interrupts the exec command: its session works on.
func (tm *team) leaveExec() {
	tm.t.Helper()
	if err := tm.cmd.Process.Signal(os.Interrupt); err != nil {
		tm.t.Fatal(err)
	}
	testkit.Await(tm.t, tm.exited, "the end of exec")
}

// die kills everything of the session at once, as a power cut would. Whoever
// would start something again stands still first.
func (tm *team) die() {
	tm.t.Helper()
	view := tm.look()
	list := map[process.Identity]string{}
	for id, role := range tm.seen {
		if id.Alive() {
			list[id] = role
		}
	}
	for _, role := range []string{"keeper", "supervisor", "host", "app-server", "gateway"} {
		for id, r := range list {
			if r != role {
				continue
			}
			if role == "keeper" || role == "host" {
				testkit.Stop(tm.t, id)
			}
			if role != "keeper" && role != "host" {
				testkit.Kill9(tm.t, id)
			}
		}
	}
	for id, role := range list {
		if role == "keeper" || role == "host" {
			testkit.Kill9(tm.t, id)
		}
	}
	testkit.KillSandboxes(tm.t, tm.place.Dir)
	if tm.t.Failed() {
		tm.t.Logf("%+v", view.Processes)
	}
}

// TestPauseCutByACrash: a supervisor that dies in the middle of a pause is
// followed by one that finishes it.
//
// Spec: R006
func TestPauseCutByACrash(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, pauseScript, 3)
	job, root, _ := tm.atWork()
	tm.leaveExec()
	keeper, supervisor := tm.process("keeper", false), tm.process("supervisor", false)
	testkit.Stop(t, tm.process("host", false)) // the pause takes as long as its host does not answer
	pause := tm.place.Command(t, "pause", tm.session)
	if err := pause.Start(); err != nil {
		t.Fatal(err)
	}
	tm.until("the intent to pause", func() bool { return tm.record().ColdPausePending })
	testkit.Stop(t, keeper)
	testkit.Kill9(t, supervisor)
	testkit.Kill9(t, keeper)
	_ = pause.Wait() // its supervisor went away under it

	if out, errs, code := tm.run("status", tm.session); code != 0 {
		t.Errorf("status exited %d: %s%s", code, out, errs)
	}
	tm.awaitStatus("paused")
	tm.until("the end of the pause", func() bool { return !tm.record().ColdPausePending })
	tm.assertNoProcess()
	rec, end := tm.record(), tm.stored()
	if rec.Status != "paused" || !cmp.Equal(rec.PausedJobIDs, []string{job}) || end.RootThreadID != root || end.Jobs[0].Status != "paused" {
		t.Errorf("the session is %s on %s, paused_job_ids %v, its worker %s", rec.Status, end.RootThreadID, rec.PausedJobIDs, end.Jobs[0].Status)
	}
	for _, p := range end.Processes {
		if p.Alive {
			t.Errorf("a process is shown to live: %+v", p)
		}
	}
	if _, err := os.Stat(filepath.Join(tm.folders.JobDir(job), "partial-result.md")); err != nil {
		t.Error(err)
	}
	if out, errs, code := tm.run("stop", tm.session); code != 0 {
		t.Errorf("stopping the paused session exited %d: %s%s", code, out, errs)
	}
	if end := tm.stored(); end.Status != "stopped" || end.Jobs[0].Status != "stopped" {
		t.Errorf("the stopped session is %s, its worker %s; want stopped, stopped", end.Status, end.Jobs[0].Status)
	}
	tm.assertGone()
}

// TestCancelSession: a cancelled session has ended for good, its run with it;
// nothing takes it up again.
//
// Spec: R027, R054
func TestCancelSession(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, pauseScript, 3)
	tm.atWork()
	run := tm.record().CurrentRunID
	view := verb[control.SessionView](tm, "cancel", "--reason", "enough")
	if view.Status != "cancelled" {
		t.Errorf("cancel answers %s, want cancelled", view.Status)
	}
	if out := tm.finish(); out.Status != "cancelled" || out.ExitCode != 130 {
		t.Errorf("exec ended %s (exit %d), want cancelled (130)", out.Status, out.ExitCode)
	}
	rec := tm.record()
	if rec.Status != "cancelled" || rec.CurrentRunID != "" || rec.LastRunID != run {
		t.Errorf("the record is %s, current run %q, last run %q; want cancelled, none, %q", rec.Status, rec.CurrentRunID, rec.LastRunID, run)
	}
	if r := tm.runRecord(); r.RunID != run || r.Status != "cancelled" || r.Sequence != 1 {
		t.Errorf("the run is %s %s, sequence %d; want %s cancelled, 1", r.RunID, r.Status, r.Sequence, run)
	}
	if j := tm.stored().Jobs[0]; j.Status != "cancelled" {
		t.Errorf("the worker is %s, want cancelled", j.Status)
	}
	if again := verb[control.SessionView](tm, "cancel"); again.Status != "cancelled" {
		t.Errorf("a second cancel answers %s", again.Status)
	}
	if _, errs, code := tm.run("continue", tm.session); code != 1 || !strings.Contains(errs, "terminal immutable session") {
		t.Errorf("continue of a cancelled session exited %d: %s", code, errs)
	}
	tm.assertClean()
}

// TestDetachLetsExecGo: whoever waits for a detached session is let go, and told
// so by the exit code; the session works on to its end.
func TestDetachLetsExecGo(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, pauseScript, 3)
	_, root, _ := tm.atWork()
	if view := verb[control.SessionView](tm, "detach", "--reason", "another day"); view.Status != "detached" {
		t.Errorf("detach answers %s, want detached", view.Status)
	}
	out := tm.finish()
	if out.Status != "detached" || out.ExitCode != 3 || out.Session.RootThreadID != root {
		t.Errorf("exec ended %s (exit %d) on thread %s; want detached (3) on %s", out.Status, out.ExitCode, out.Session.RootThreadID, root)
	}
	if view := tm.look(); view.Jobs[0].Status != "running" {
		t.Errorf("the worker of the detached session is %s, want running", view.Jobs[0].Status)
	}
	if out, errs, code := tm.run("stop", tm.session); code != 0 {
		t.Errorf("stop exited %d: %s%s", code, out, errs)
	}
	tm.assertClean()
}

// awaitStatus follows the session, over any number of supervisors, until its
// status is the one that is wanted.
func (tm *team) awaitStatus(want core.SessionStatus) {
	tm.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	found := errors.New("found")
	for ctx.Err() == nil {
		if tm.record().Status == want {
			return
		}
		err := tm.client.Follow(ctx, control.Meta{}, control.FollowRequest{}, func(e control.FollowEvent) error {
			if e.Type == "session" && e.Status == string(want) {
				return found
			}
			return nil
		})
		if errors.Is(err, found) {
			return
		}
	}
	tm.t.Fatalf("the session never became %s: it is %s", want, tm.record().Status)
}

// record reads the session's row.
func (tm *team) record() *store.Session {
	tm.t.Helper()
	var rec *store.Session
	tm.view(func(tx *store.Tx) (err error) {
		rec, err = tx.Session(tm.session)
		return err
	})
	return rec
}

// TestPauseCompactContinue: a paused session has no process and keeps all; its
// root's context is shortened while it rests; continued, everything ends well on
// the threads that it had.
//
// Spec: R015
func TestPauseCompactContinue(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, pauseScript, 3)
	job, root, worker := tm.atWork()

	paused := verb[control.PauseResponse](tm, "pause")
	if diff := cmp.Diff([]string{job}, paused.AffectedJobs); diff != "" {
		t.Errorf("affected_jobs (-want +got):\n%s", diff)
	}
	if paused.Session.Status != "paused" || !paused.Session.RuntimeCurrent {
		t.Errorf("pause answers status %s, runtime_current %v; want paused, true", paused.Session.Status, paused.Session.RuntimeCurrent)
	}
	tm.assertNoProcess()
	rec := tm.record()
	if rec.ColdPausePending || rec.Status != "paused" || !cmp.Equal(rec.PausedJobIDs, []string{job}) {
		t.Errorf("the record is %s, cold_pause_pending %v, paused_job_ids %v", rec.Status, rec.ColdPausePending, rec.PausedJobIDs)
	}
	view := tm.stored()
	if j := view.Jobs[0]; j.Status != "paused" || j.ResultKind != "partial" || j.ThreadID != worker {
		t.Errorf("the paused worker is %+v", j)
	}
	if _, err := os.Stat(filepath.Join(tm.folders.JobDir(job), "partial-result.md")); err != nil {
		t.Error(err)
	}

	compacted := verb[control.SessionView](tm, "compact")
	rec = tm.record()
	if compacted.Status != "paused" || compacted.RootThreadID != root || rec.CompactedAt == nil || rec.CompactionError != "" {
		t.Errorf("compact answers %s on thread %s; the record says compacted at %v, error %q", compacted.Status, compacted.RootThreadID, rec.CompactedAt, rec.CompactionError)
	}
	tm.assertNoProcess()

	continued := verb[control.ContinueResponse](tm, "continue")
	if diff := cmp.Diff(control.ContinueResponse{ResumedJobs: []string{job}, ResumeErrors: map[string]string{}},
		control.ContinueResponse{ResumedJobs: continued.ResumedJobs, ResumeErrors: continued.ResumeErrors}); diff != "" {
		t.Errorf("continue (-want +got):\n%s", diff)
	}
	tm.awaitStatus("completed")
	end := tm.stored()
	if end.Status != "completed" || end.RootThreadID != root || end.Jobs[0].Status != "completed" || end.Jobs[0].ThreadID != worker {
		t.Errorf("it ended %s on %s, the worker %s on %s; want completed on %s and %s", end.Status, end.RootThreadID, end.Jobs[0].Status, end.Jobs[0].ThreadID, root, worker)
	}
	tm.assertSentOnce()
	tm.assertClean()
}
