package supervisor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// TestNestedDelegation: jobs spawn jobs as deep as the profile says; a role never
// leads to itself; who sees the session reads a sibling's result; a cascade ends
// parent and child.
//
// Spec: A074
func TestNestedDelegation(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	parent := r.mustSpawn(r.lead(), read("reader"))[0]
	sibling := r.mustSpawn(r.lead(), read("routine_engineer"))[0]
	r.become(parent, core.JobRunning)
	child := r.mustSpawn(r.caller(parent), read("helper"))[0]
	r.become(child, core.JobRunning)
	if j, _ := r.cachedJob(child); j.Depth != 2 || j.ParentJobID != parent {
		t.Errorf("the child has depth %d below %s", j.Depth, j.ParentJobID)
	}
	_, err := r.spawn(r.caller(child), read("reader"))
	wantRefusal(t, "a role above itself", err, core.KindAdmission, "ancestor-role repetition")

	target := func(id string) access.Job {
		j, err := r.cachedJob(id)
		if err != nil {
			t.Fatal(err)
		}
		return r.target(j)
	}
	if err := access.May(r.caller(child), control.VerbResult, target(sibling), r.state()); err != nil {
		t.Errorf("who sees the session may not read another's result: %v", err)
	}
	if err := access.May(r.caller(parent), control.VerbResult, target(sibling), r.state()); err == nil {
		t.Error("who sees only its descendants may read another's result")
	}
	answer, err := r.Cancel(t.Context(), operator(), control.CancelRequest{JobID: parent, Cascade: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range answer.Jobs {
		got = append(got, j.JobID+" "+j.Status)
	}
	if diff := cmp.Diff([]string{child + " cancelled", parent + " cancelled"}, got); diff != "" {
		t.Errorf("the cascade (-want +got):\n%s", diff)
	}
}

// TestPeersDisposeOfNothing: who sees the session may read a peer's result, and
// decides nothing over it; the root does.
//
// Spec: R071
func TestPeersDisposeOfNothing(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	parent := r.mustSpawn(r.lead(), read("reader"))[0]
	peer := r.mustSpawn(r.lead(), read("routine_engineer"))[0]
	r.become(parent, core.JobRunning)
	seer := r.mustSpawn(r.caller(parent), read("helper"))[0] // its role sees the session
	r.become(peer, core.JobCompleted)
	j, err := r.cachedJob(peer)
	if err != nil {
		t.Fatal(err)
	}
	if err := access.May(r.caller(seer), control.VerbResult, r.target(j), r.state()); err != nil {
		t.Errorf("it may not read the result: %v", err)
	}
	for _, verb := range []string{control.VerbAccept, control.VerbReject, control.VerbIntegrate} {
		err := access.May(r.caller(seer), verb, r.target(j), r.state())
		wantRefusal(t, verb, err, core.KindPermission, "not a descendant")
		if err := access.May(r.lead(), verb, r.target(j), r.state()); err != nil {
			t.Errorf("the root may not %s: %v", verb, err)
		}
	}
}

// TestNoChildOfACancelledParent: however a child's spawn and its parent's
// cascade meet, no child of a cancelled parent goes on.
//
// Spec: A078
func TestNoChildOfACancelledParent(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, "max_depth = 3\nmax_active_agents = 64\nmax_active_writers = 1", "")
	slipped, refused := 0, 0
	for range 1000 {
		parent := r.mustSpawn(r.lead(), read("reader"))[0]
		r.become(parent, core.JobRunning)
		caller := r.caller(parent)
		var race sync.WaitGroup
		var spawnErr, cancelErr error
		race.Go(func() { _, spawnErr = r.spawn(caller, read("helper")) })
		race.Go(func() {
			_, cancelErr = r.Cancel(t.Context(), operator(), control.CancelRequest{JobID: parent, Cascade: true})
		})
		race.Wait()
		if cancelErr != nil {
			t.Fatal(cancelErr)
		}
		if spawnErr != nil {
			refused++
			wantRefusal(t, "a spawn that lost", spawnErr, core.KindAdmission, "non-admitting agent job")
		} else {
			slipped++
		}
		for _, j := range r.allJobs() {
			if !j.Status.Terminal() {
				t.Fatalf("after the cascade job %s (parent %s) is %s", j.JobID, j.ParentJobID, j.Status)
			}
		}
	}
	t.Logf("%d spawns came first, %d were refused", slipped, refused)
}

// TestReleaseDead: a holder of another session whose processes are gone is
// reconciled before it refuses anybody; one that somebody looks after counts.
func TestReleaseDead(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	dead := teamRig(t, place, "s1", place.Workspace, roomy, "")
	if err := dead.unlock(); err != nil {
		t.Fatal(err)
	}
	own := teamRig(t, place, "s2", place.Workspace, roomy, "")
	never := dead.mustSpawn(dead.lead(), write("src/a"))[0]
	had := dead.mustSpawn(dead.lead(), write("src/b"))[0]
	err := dead.commit(t.Context(), func(tx *store.Tx, c *change) error {
		j, err := tx.Job(had)
		if err != nil {
			return err
		}
		j.Status = core.JobRunning
		run, err := tx.AgentRun(j.AgentRef)
		if err != nil {
			return err
		}
		run.ThreadID = "th"
		return errors.Join(c.putJob(tx, j), tx.PutAgentRun(run))
	})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := takeLock(dead.lockFile("keeper.lock"))
	if err != nil || lock == nil {
		t.Fatalf("the keeper's lock: %v", err)
	}
	_, err = own.spawn(own.lead(), write("src"))
	wantRefusal(t, "while its keeper lives", err, core.KindAdmission, "write scope conflicts")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	own.mustSpawn(own.lead(), write("src"))
	want := map[string]core.JobStatus{never: core.JobFailed, had: core.JobSuspended}
	err = own.view(t.Context(), func(tx *store.Tx) error {
		for id, status := range want {
			j, err := tx.Job(id)
			if err != nil {
				return err
			}
			if j.Status != status {
				t.Errorf("job %s is %s, want %s", id, j.Status, status)
			}
		}
		rec, err := tx.Session("s1")
		if err == nil && rec.Status != core.SessionFailed { // its root never had a thread
			t.Errorf("the dead session is %s, want failed", rec.Status)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dead.spawn(dead.lead(), read("reader")); !errors.Is(err, store.ErrTakenOver) {
		t.Errorf("the dead session's own supervisor still writes: %v", err)
	}
}

// TestRepeatWaitsForTheFirst: a repeat that comes while the first is under way
// waits for it and gets its answer.
func TestRepeatWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	var l refLocks
	unlock, err := l.lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan struct{})
	go func() {
		defer close(second)
		again, err := l.lock(t.Context(), "k")
		if err != nil {
			t.Errorf("the repeat: %v", err)
			return
		}
		again()
	}()
	select {
	case <-second:
		t.Error("the repeat did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	unlock()
	testkit.Await(t, second, "the repeat")
	ctx, cancel := context.WithCancelCause(t.Context())
	held, err := l.lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer held()
	gone := errors.New("gone")
	cancel(gone)
	if _, err := l.lock(ctx, "k"); !errors.Is(err, gone) {
		t.Errorf("a caller that has left waits on: %v", err)
	}
}

// TestEndsCloseAdmission: an end is published before its jobs are looked for,
// and from then on nobody is admitted, also while the teardown hangs.
//
// Spec: A073
func TestEndsCloseAdmission(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ during, final core.SessionStatus }{
		{core.SessionFinishing, core.SessionCompleted},
		{core.SessionCancelling, core.SessionCancelled},
	} {
		place := testkit.NewPlace(t)
		r := teamRig(t, place, "s1", place.Workspace, roomy, "")
		job := r.mustSpawn(r.lead(), read("reader"))[0]
		j, err := r.cachedJob(job)
		if err != nil {
			t.Fatal(err)
		}
		run, err := r.loadRun(t.Context(), j.AgentRef)
		if err != nil {
			t.Fatal(err)
		}
		role, err := r.snapshotAgent(j.Agent)
		if err != nil {
			t.Fatal(err)
		}
		held := r.newAgent(run, role) // its end is awaited, and does not come yet
		changed := r.changes()
		ended := make(chan error, 1)
		go func() { ended <- r.tearDown(t.Context(), tt.during, tt.final, endOf(tt.final), nil) }()
		testkit.Await(t, changed, "the first change")
		if status, jobs := r.statuses(); status != tt.during || jobs[0] != core.JobCancelling {
			t.Errorf("in the teardown the session is %s, its job %s", status, jobs[0])
		}
		_, err = r.spawn(r.lead(), read("reader"))
		wantRefusal(t, "a spawn in the teardown", err, core.KindAdmission, "not admitting")
		held.start((*agent).nothing)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if status, jobs := r.statuses(); status != tt.final || jobs[0] != core.JobCancelled {
			t.Errorf("after the teardown the session is %s, its job %s", status, jobs[0])
		}
		_, err = r.spawn(r.lead(), read("reader"))
		wantRefusal(t, "a spawn after the teardown", err, core.KindAdmission, "not admitting")
		if n := len(r.allJobs()); n != 1 {
			t.Errorf("%d jobs are on record, want 1", n)
		}
	}
}

// TestPlacesAfterAResume: a detached session's root may spawn; what its worker
// held is free once that has ended, also after the session was resumed, in its
// one run.
//
// Spec: R038
func TestPlacesAfterAResume(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	run := r.cachedSession().CurrentRunID
	r.sessionBecomes(core.SessionDetached)
	job := r.mustSpawn(r.lead(), read("routine_engineer"))[0]
	if _, err := r.spawn(r.lead(), read("routine_engineer")); core.KindOf(err) != core.KindAdmission {
		t.Errorf("a second one at the same time = %v, want it refused", err)
	}
	r.become(job, core.JobCompleted)
	if err := r.noteResumed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rec := r.cachedSession(); rec.Status != core.SessionRunning || rec.CurrentRunID != run || rec.RunSequence != 1 {
		t.Errorf("the session is %s in run %s (%d), want running in %s (1)", rec.Status, rec.CurrentRunID, rec.RunSequence, run)
	}
	r.mustSpawn(r.lead(), read("routine_engineer"))
}
