package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

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

model m-worker
  step
    say "I begin."
    shell "sleep 600"

  when user starts "Continue your task"
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

