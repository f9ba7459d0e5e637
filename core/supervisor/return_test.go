package supervisor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// inputs gives job j0 inputs in these states, the oldest first, and returns their
// ids.
func (r *rig) inputs(list ...store.Input) (ids []string) {
	r.t.Helper()
	err := r.commit(r.t.Context(), func(tx *store.Tx, _ *change) error {
		for _, want := range list {
			in := r.newInput("ar_0", want.Origin, want.Text)
			ids = append(ids, in.InputID)
			if err := tx.AppendInput(in); err != nil {
				return err
			}
			for _, state := range []store.InputState{store.InputSent, store.InputApplied} {
				if want.State == store.InputIntended || in.State == want.State {
					break
				}
				in.State = state
				if state == store.InputApplied {
					in.TurnID = "turn-" + in.InputID
				}
				if err := tx.PutInput(in); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return ids
}

func (r *rig) inputStates() (states []store.InputState) {
	r.t.Helper()
	err := r.store.View(r.t.Context(), func(tx *store.Tx) error {
		list, err := tx.Inputs("ar_0")
		for _, in := range list {
			states = append(states, in.State)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return states
}

// TestReturnNeverLosesATask: an agent that comes back with another engine is
// told what its thread never had before it is told to go on; what the thread has
// is not repeated.
func TestReturnNeverLosesATask(t *testing.T) {
	t.Parallel()
	const task, more = "count the files", "and the folders"
	for _, tt := range []struct {
		name    string
		earlier store.InputState
		reached bool // the thread has the earlier input
		next    string
		want    string
		states  []store.InputState
	}{
		{"never sent", store.InputIntended, false, continueJob, task, []store.InputState{store.InputLost, store.InputLost, store.InputApplied}},
		{"never sent, with an order", store.InputIntended, false, more, task + "\n\n" + more, []store.InputState{store.InputLost, store.InputLost, store.InputApplied}},
		{"sent and lost", store.InputSent, false, continueJob, task, []store.InputState{store.InputLost, store.InputLost, store.InputApplied}},
		{"sent and there", store.InputSent, true, continueJob, continueJob, []store.InputState{store.InputTurnLost, store.InputLost, store.InputApplied}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, core.SessionRunning, core.JobRecovering)
			host := &playedHost{}
			a := r.player(host, nil)
			ids := r.inputs(store.Input{Text: task, Origin: "task", State: tt.earlier}, store.Input{Text: tt.next, Origin: "control", State: store.InputIntended})
			state := &hostpb.ThreadState{}
			if tt.reached {
				state.Turns = []*hostpb.Turn{{Id: "old", Status: "interrupted", CommandIds: ids[:1]}}
			}
			if err := a.reconcile(t.Context(), state, engineNew); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, host.texts); diff != "" {
				t.Errorf("the thread was told (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.states, r.inputStates()); diff != "" {
				t.Errorf("the inputs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReturnBeginsAsANewAgentDoes: what was retired has no host and no engine on
// record once it is to come back, so that a crash right then costs no recovery;
// what was not retired keeps them, to be taken over. The order reaches the goal.
func TestReturnBeginsAsANewAgentDoes(t *testing.T) {
	t.Parallel()
	for _, retired := range []bool{true, false} {
		r := newRig(t, core.SessionRunning, core.JobSuspended)
		host := store.HostRef{Instance: "h0badcafe"}
		err := r.commit(t.Context(), func(tx *store.Tx, c *change) error {
			rec, err := tx.AgentRun("ar_0")
			if err != nil {
				return err
			}
			rec.Retired, rec.Host, rec.Handle, rec.Generation = retired, host, []byte("x"), 3
			rec.Goal = &store.Goal{Objective: "x", Status: goalBudgetLimited, TokenBudget: 10}
			return r.putRun(tx, c, rec)
		})
		if err != nil {
			t.Fatal(err)
		}
		role, err := r.snapshotAgent("worker")
		if err != nil {
			t.Fatal(err)
		}
		o := &order{action: control.ActionFinalize, input: "end", budget: 20, caller: "operator"}
		rec, err := r.recordRelaunch(t.Context(), target{ref: "ar_0", jobID: "j0", role: role}, o)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Retired || (rec.Host == store.HostRef{}) != retired || (len(rec.Handle) == 0) != retired || rec.Generation != 3 {
			t.Errorf("retired %v: the record is host %+v, handle %q, retired %v", retired, rec.Host, rec.Handle, rec.Retired)
		}
		want := &store.Goal{Objective: "x", Status: goalBudgetLimited, TokenBudget: 20, Finalizing: true}
		if diff := cmp.Diff(want, r.runNow("ar_0").Goal); diff != "" {
			t.Errorf("the goal (-want +got):\n%s", diff)
		}
	}
}

// TestContinueReachesALivingRoot: a suspended session whose root's engine lives
// gives it the operator's words all the same.
func TestContinueReachesALivingRoot(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning)
	r.sessionBecomes(core.SessionSuspended)
	self, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	var waiting []*store.Input
	err = r.commit(t.Context(), func(tx *store.Tx, c *change) error {
		root, err := tx.AgentRun(r.sess.RootAgentRef)
		if err != nil {
			return err
		}
		root.Retired, root.Engine = false, recordOf(self)
		if err := r.putRun(tx, c, root); err != nil {
			return err
		}
		rec, err := tx.Session(r.session)
		if err != nil {
			return err
		}
		if _, err := r.returnRoot(tx, c, rec, "try again now"); err != nil {
			return err
		}
		list, err := tx.Inputs(root.AgentRef)
		for _, in := range list {
			if in.Text == "try again now" && in.State == store.InputIntended {
				waiting = append(waiting, in)
			}
		}
		return err
	})
	if err != nil || len(waiting) != 1 {
		t.Errorf("%d inputs wait for the root: %v; want the operator's", len(waiting), err)
	}
}

// TestCompactionIsNoWork: the turn in which the engine shortens the context of an
// agent with a goal is neither its work nor its failure; the goal waits for it
// and goes on.
func TestCompactionIsNoWork(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	host := &playedHost{}
	a := r.player(host, inGoalMode(store.Goal{Objective: "x", Status: goalActive, TokenBudget: 10}, ""))
	if err := folders.MakeDir(filepath.Dir(a.trailPath())); err != nil {
		t.Fatal(err)
	}
	row, err := json.Marshal(map[string]any{"direction": "received", "message": map[string]any{
		"method": "item/completed", "params": map[string]any{"turnId": "c1", "item": map[string]any{"type": "contextCompaction"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.trailPath(), append(row, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.compactNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.turnStarted(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	if err := a.turnEnded(t.Context(), endedTurn{id: "c1", status: "completed"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"goal", "compact", "goal"}, host.commands); diff != "" {
		t.Errorf("the host was told (-want +got):\n%s", diff)
	}
	if g := r.runNow("ar_0").Goal; g.Status != goalActive {
		t.Errorf("the goal is %s, want active", g.Status)
	}
	if j, err := r.cachedJob("j0"); err != nil || j.Status != core.JobRunning || j.ResultKind != "" {
		t.Errorf("the job is %+v, %v; want it running without a result", j, err)
	}
}

// TestCompactionThatFailsIsTold: whoever waits for a compaction is told that its
// turn failed.
func TestCompactionThatFailsIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	a := r.player(&playedHost{}, nil)
	told := make(chan error, 1)
	a.compacted = told
	if err := a.turnEnded(t.Context(), endedTurn{id: "c1", status: "failed", errorJSON: []byte(`{"message":"no"}`)}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-told:
		wantKind(t, "the compaction", err, core.KindAppServer, "its turn is failed")
	default:
		t.Error("nobody was told")
	}
}
