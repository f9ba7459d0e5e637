package supervisor

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// newContractRig is a rig of one running job whose results are held to a strict
// contract; change may change what is recorded of its agent.
func newContractRig(t *testing.T, schema string, change func(rec *store.AgentRun, role *profile.Agent)) (*rig, *agent) {
	t.Helper()
	place := testkit.NewPlace(t)
	snap := compileTeam(t, filepath.Join(place.Dir, "team"), func(files map[string]string) {
		files["profile.toml"] = strings.Replace(files["profile.toml"], "[agents.worker]\n", "[agents.worker]\noutput_contract = \"c.json\"\n", 1)
		files["c.json"] = schema
	})
	r := &rig{Supervisor: openSession(t, place, snap, "s1", place.Workspace), t: t}
	r.seed(core.SessionRunning, []core.JobStatus{core.JobRunning})
	err := r.updateJob(t.Context(), "j0", func(_ *store.Tx, j *store.Job) (err error) {
		j.Contract, err = contractFor(r.snap, "worker")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, r.player(&playedHost{}, change)
}

// TestRepairWithinItsTime: a result that does not meet its contract is sent back
// once, while there is time to ask for it; later it stands as it is, and no time
// is added.
//
// Spec: A038
func TestRepairWithinItsTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		by     time.Duration // from now; 0: nothing was asked for yet
		again  bool
		inputs int
		want   time.Duration
	}{
		"nothing was asked for yet": {0, true, 1, 120 * time.Second},
		"in time":                   {time.Second, true, 1, time.Second},
		"too late":                  {-time.Second, false, 0, -time.Second},
	} {
		r, a := newContractRig(t, `{"type":"array"}`, func(rec *store.AgentRun, role *profile.Agent) {
			rec.ActiveTurnID, role.FinalizationGraceSeconds = "", 120
			if tt.by != 0 {
				by := now.Add(tt.by)
				rec.FinalizeBy = &by
			}
		})
		r.cfg.Now = func() time.Time { return now }
		before := r.runNow("ar_0")
		e := ending{job: core.JobCompleted, kind: core.ResultFinal, text: "no list"}
		again, err := a.holdToContract(t.Context(), nil, &e)
		if err != nil {
			t.Fatal(err)
		}
		var list []*store.Input
		err = r.view(t.Context(), func(tx *store.Tx) (err error) {
			list, err = tx.Inputs("ar_0")
			return err
		})
		if err != nil || again != tt.again || len(list) != tt.inputs || e.text != "no list" {
			t.Errorf("%s: asked again %v, with %d inputs, %v; the text is %q", name, again, len(list), err, e.text)
		}
		if by := a.rec.FinalizeBy; by == nil || by.Sub(now) != tt.want {
			t.Errorf("%s: it may be asked for until %v, want %v", name, by, now.Add(tt.want))
		}
		if !tt.again {
			if e.job != core.JobFailed || e.kind != core.ResultPartial || e.failure.Kind != "contract_invalid" || *e.contract.Valid {
				t.Errorf("%s: it ends %+v", name, e)
			}
			if diff := cmp.Diff(before, r.runNow("ar_0")); diff != "" {
				t.Errorf("%s: the record changed:\n%s", name, diff)
			}
		}
	}
}

// TestHolesDenyNothing: a trace with holes can't prove that a command was not
// run; the result says that it was not looked up.
func TestHolesDenyNothing(t *testing.T) {
	t.Parallel()
	_, a := newContractRig(t, `{}`, func(rec *store.AgentRun, _ *profile.Agent) { rec.EvidenceComplete = false })
	e := ending{job: core.JobCompleted, kind: core.ResultFinal, text: `{"commands":[{"command":"make","exit_code":0}]}`}
	if again, err := a.holdToContract(t.Context(), nil, &e); again || err != nil || !*e.contract.Valid || e.warning != holesWarning {
		t.Errorf("asked again %v, %v; it ends %+v", again, err, e)
	}
	a.rec.EvidenceComplete = true
	if err := a.openTrail(); err != nil {
		t.Fatal(err)
	}
	defer a.trail.close()
	e = ending{job: core.JobCompleted, kind: core.ResultFinal, text: e.text}
	if again, err := a.holdToContract(t.Context(), nil, &e); !again || err != nil {
		t.Errorf("with a whole trace it was not asked again: %v, %+v", err, e)
	}
}

// TestToolsOfAControllingWorker: a worker that controls a peer and spawns nobody
// is offered what looks, reads and corrects, and nothing that disposes of
// results or patches.
//
// Spec: R063
func TestToolsOfAControllingWorker(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	snap := compileTeam(t, filepath.Join(place.Dir, "team"), func(files map[string]string) {
		delegating(roomy, "")(files)
		files["profile.toml"] += "[agents.writer.controls.reader]\nactions = [\"inspect\", \"steer\"]\n"
	})
	want := []string{"agent_status", "agents_wait", "agent_result", "agent_inspect", "agent_steer"}
	if diff := cmp.Diff(want, toolsFor(snap, access.Caller{Role: access.RoleWorker, Agent: "writer"})); diff != "" {
		t.Errorf("it is offered (-want +got):\n%s", diff)
	}
}
