package supervisor

import (
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// TestNothingBeginsOrEndsInAPause: from the intent of a pause on nothing is
// admitted or launched, and what has ended is published by the pause alone.
func TestNothingBeginsOrEndsInAPause(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	r.thread("t1")
	drafted := r.mustSpawn(r.lead(), read("reader"))[0]
	if err := r.beginPause(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := r.spawn(r.lead(), read("reader"))
	wantRefusal(t, "a spawn in a pause", err, core.KindAdmission, "the session is paused and not admitting jobs")
	j, err := r.cachedJob(drafted)
	if err != nil {
		t.Fatal(err)
	}
	run, err := r.loadRun(t.Context(), j.AgentRef)
	if err != nil {
		t.Fatal(err)
	}
	role, err := r.snapshotAgent(run.Agent)
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, "a launch in a pause", r.makeAgent(run, role).mayLaunch(), core.KindRuntime, "the session is being paused")

	r.rootEnds(core.SessionCompleted)
	if moved, err := r.nextForRoot(t.Context()); moved || err != nil {
		t.Errorf("the root's watch moved (%v) in a pause: %v", moved, err)
	}
	if status, _ := r.statuses(); status != core.SessionRunning {
		t.Errorf("the session is %s before its pause is over, want running", status)
	}
	if err := r.finishPause(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, jobs := r.statuses()
	if session != core.SessionPaused || jobs[0] != core.JobPaused {
		t.Errorf("the session is %s, the job that was not launched yet %v; want both paused", session, jobs)
	}
}

// TestSuspendedInAPause: a pause that is given up leaves a suspended session,
// not one that every supervisor tries to pause again.
func TestSuspendedInAPause(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	r.thread("t1")
	if err := r.beginPause(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.abandon(t.Context(), core.Errorf(core.KindRuntime, "it crashes all the time")); err != nil {
		t.Fatal(err)
	}
	if rec, _ := r.fresh(); rec.Status != core.SessionSuspended || rec.ColdPausePending {
		t.Errorf("the session is %s, cold_pause_pending %v; want suspended, false", rec.Status, rec.ColdPausePending)
	}
}

// TestAPauseThatFindsTheEnd leaves nothing to supervise.
func TestAPauseThatFindsTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	r.thread("t1")
	if err := r.beginPause(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.rootEnds(core.SessionCompleted)
	r.ready = make(chan struct{})
	if err := r.rest(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, r.life.Done(), "the end of the supervisor")
}

// TestVerbBehindAnotherIsTurnedAway: a verb that waited while another left
// nothing to supervise changes nothing and is not answered as done.
func TestVerbBehindAnotherIsTurnedAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	r.sessionBecomes(core.SessionSuspended)
	r.leaveAfterVerb()
	_, err := r.lockSession(t.Context())
	wantKind(t, "the next verb", err, core.KindUnavailable, "the supervisor is going down")
	_, err = r.Stop(t.Context(), operator(), control.StopRequest{})
	wantKind(t, "stop", err, core.KindUnavailable, "the supervisor is going down")
}
