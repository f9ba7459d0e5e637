package supervisor

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// TestReadmissionOfASuspendedWorker: a suspended worker without processes holds
// no slot, and is told so before anything changes when it wants one and none is
// free.
//
// Spec: R090
func TestReadmissionOfASuspendedWorker(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, tight, "")
	suspended := r.mustSpawn(r.lead(), read("reader"))[0]
	r.become(suspended, core.JobSuspended)
	taken := r.mustSpawn(r.lead(), read("reader"), read("reader")) // both slots: it holds none
	r.refuseContinue(suspended, "active-agent limit 2 is reached by job ")
	r.become(taken[0], core.JobCompleted)
	r.mustReadmit(suspended)
}

// TestReadmissionOfASuspendedWriter: a suspended writer can't go on while a
// writer of another session has a scope that overlaps.
//
// Spec: R091
func TestReadmissionOfASuspendedWriter(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	one := teamRig(t, place, "s1", place.Workspace, roomy, "")
	two := teamRig(t, place, "s2", place.Workspace, roomy, "")
	suspended := one.mustSpawn(one.lead(), write("src"))[0]
	one.become(suspended, core.JobSuspended)
	other := two.mustSpawn(two.lead(), write("src/a"))[0]
	one.refuseContinue(suspended, "write scope conflicts with job "+other+" of session s2")
	two.become(other, core.JobFailed)
	one.mustReadmit(suspended)
}

// refuseContinue demands that continuing a job is refused and changes nothing.
func (r *rig) refuseContinue(id, text string) {
	r.t.Helper()
	var zero uint64
	for _, action := range []string{control.ActionContinue, control.ActionFinalize} {
		_, err := r.Control(r.t.Context(), operator(), control.ControlRequest{JobID: id, Action: action, ExpectedRevision: &zero})
		wantRefusal(r.t, action, err, core.KindAdmission, text)
	}
	j, err := r.cachedJob(id)
	if err != nil {
		r.t.Fatal(err)
	}
	if run := r.runNow(j.AgentRef); j.Status != core.JobSuspended || run.ControlRevision != 0 {
		r.t.Errorf("the job is %s at control revision %d, want suspended at 0", j.Status, run.ControlRevision)
	}
}

func (r *rig) mustReadmit(id string) {
	r.t.Helper()
	err := r.commit(r.t.Context(), func(tx *store.Tx, _ *change) error {
		j, err := tx.Job(id)
		if err != nil {
			return err
		}
		return r.readmit(tx, j, 0)
	})
	if err != nil {
		r.t.Errorf("with room for it job %s is refused: %v", id, err)
	}
}

// TestReadmissionOfARoot: a paused session whose processes are gone needs room
// for its root again, and stays paused without.
//
// Spec: R013
func TestReadmissionOfARoot(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	resource := "resource = \"one\"\n[resources.one]\nmax_active = 1\ndescription = \"one\"\n"
	paused := teamRig(t, place, "s1", place.Workspace, roomy, resource)
	paused.sessionBecomes(core.SessionPaused)
	other := teamRig(t, place, "s2", place.Workspace, roomy, resource) // it has the one unit now
	decisions := 0
	count := func() error {
		decisions++
		_, err := paused.takeUp(t.Context(), "")
		return err
	}
	e := wantRefusal(t, "taking it up", count(), core.KindAdmission, "resource group \"one\" has 1 of 1 units in use")
	if len(e.Holders) != 1 || e.Holders[0].SessionID != "s2" || e.Holders[0].JobID != "" {
		t.Errorf("the refusal names %+v, want the root of s2", e.Holders)
	}
	if status, _ := paused.statuses(); status != core.SessionPaused {
		t.Errorf("the session is %s, want paused", status)
	}
	other.sessionBecomes(core.SessionPaused)
	if err := count(); err != nil {
		t.Errorf("with room it is refused: %v", err)
	}
	if status, _ := paused.statuses(); status != core.SessionRunning || decisions != 2 {
		t.Errorf("the session is %s after %d decisions, want running after 2", status, decisions)
	}
}

func (r *rig) sessionBecomes(status core.SessionStatus) {
	r.t.Helper()
	err := r.updateSession(r.t.Context(), func(_ *store.Tx, rec *store.Session) error {
		rec.Status = status
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestPausedCapacityFollowsProcesses: what is paused counts while a recorded
// process lives, root and job alike; a detached session always.
//
// Spec: R014, A006
func TestPausedCapacityFollowsProcesses(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := teamRig(t, place, "s1", place.Workspace, roomy, "resource = \"k\"\n[resources.k]\nmax_active = 9\ndescription = \"x\"\n")
	id := r.mustSpawn(r.lead(), read("reader"))[0]
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	dead := self
	dead.StartToken = "another start"
	set := func(status core.SessionStatus, job core.JobStatus, host, engine process.Identity) {
		t.Helper()
		err := r.commit(t.Context(), func(tx *store.Tx, c *change) error {
			rec, err := tx.Session("s1")
			if err != nil {
				return err
			}
			j, err := tx.Job(id)
			if err != nil {
				return err
			}
			if j.Status == core.JobQueued {
				j.Status = core.JobRunning
				if err := tx.PutJob(j); err != nil {
					return err
				}
			}
			rec.RootUnits, j.Units, rec.Status, j.Status = 2, 3, status, job
			if err := errors.Join(c.putSession(tx, rec), c.putJob(tx, j)); err != nil {
				return err
			}
			for _, ref := range []string{rec.RootAgentRef, j.AgentRef} {
				run, err := tx.AgentRun(ref)
				if err != nil {
					return err
				}
				run.Host.Process, run.Engine = recordOf(host), recordOf(engine)
				if err := tx.PutAgentRun(run); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name         string
		status       core.SessionStatus
		job          core.JobStatus
		host, engine process.Identity
		want         map[string]int
	}{
		{"host and engine live", core.SessionPaused, core.JobPaused, self, self, map[string]int{"k": 5}},
		{"the engine alone lives", core.SessionPaused, core.JobPaused, dead, self, map[string]int{"k": 5}},
		{"the host alone lives", core.SessionPaused, core.JobPaused, self, process.Identity{}, map[string]int{"k": 5}},
		{"both are dead", core.SessionPaused, core.JobPaused, dead, dead, map[string]int{}},
		{"a detached session of the dead", core.SessionDetached, core.JobPaused, dead, dead, map[string]int{"k": 2}},
	} {
		if tt.status == core.SessionDetached {
			r.sessionBecomes(core.SessionRunning)
		}
		set(tt.status, tt.job, tt.host, tt.engine)
		var used map[string]int
		err := r.view(t.Context(), func(tx *store.Tx) error {
			holders, err := tx.Accounting()
			used = admission.Usage(admission.Counting(holders, alive))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, used); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
