package supervisor

import (
	"os"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// TestForkIsAdmitted: a fork is refused as any other job is; the order has
// taken its revision, and nothing was begun.
//
// Spec: R073
func TestForkIsAdmitted(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "")
	source := r.mustSpawn(r.lead(), read("routine_engineer"))[0]
	fork := func(revision uint64) error {
		_, err := r.Control(t.Context(), operator(), control.ControlRequest{JobID: source, Action: control.ActionFork, ExpectedRevision: &revision})
		return err
	}
	wantRefusal(t, "a fork of a job without a thread", fork(0), core.KindRuntime, "no thread at rest")
	r.become(source, core.JobCompleted)
	j, err := r.cachedJob(source)
	if err != nil {
		t.Fatal(err)
	}
	err = r.commit(t.Context(), func(tx *store.Tx, c *change) error {
		run, err := tx.AgentRun(j.AgentRef)
		if err != nil {
			return err
		}
		run.ThreadID = "thread"
		return r.putRun(tx, c, run)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.mustSpawn(r.lead(), read("routine_engineer")) // the role's one place
	folders := func() int {
		list, err := os.ReadDir(r.cfg.Folders.JobDir(""))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	jobs, before := len(r.allJobs()), folders()
	wantRefusal(t, "a fork beyond the role's limit", fork(0), core.KindAdmission, "routine_engineer")
	if got := folders(); len(r.allJobs()) != jobs || got != before {
		t.Errorf("after the refusal there are %d jobs and %d folders, want %d and %d", len(r.allJobs()), got, jobs, before)
	}
	if run := r.runNow(j.AgentRef); run.ControlRevision != 1 || run.LastControlAction != "fork" || run.LastControlStatus != store.ControlRejected {
		t.Errorf("the source is at %d, its %s %s; want 1, fork, rejected", run.ControlRevision, run.LastControlAction, run.LastControlStatus)
	}
	wantRefusal(t, "the same order again", fork(0), core.KindRuntime, "stale control revision")
	_, err = r.Control(t.Context(), operator(), control.ControlRequest{Action: control.ActionFork, ExpectedRevision: new(uint64)})
	wantRefusal(t, "a fork of the root", err, core.KindValue, "the root can't be forked")
}
