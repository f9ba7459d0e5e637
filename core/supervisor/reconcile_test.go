package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// threadHost is a played host whose engine tells one thread.
type threadHost struct {
	playedHost
	state *hostpb.ThreadState
}

func (h *threadHost) Read(context.Context, *hostpb.ReadRequest, ...grpc.CallOption) (*hostpb.ReadResponse, error) {
	return &hostpb.ReadResponse{State: h.state}, nil
}

func turnOf(id, status, text, command string) *hostpb.Turn {
	return &hostpb.Turn{Id: id, Status: status, HasCompletedAt: status != "inProgress", FinalText: text, CommandIds: []string{command}}
}

func lost(id, command string) *hostpb.Turn {
	return &hostpb.Turn{Id: id, Status: "interrupted", CommandIds: []string{command}}
}

// TestReconcileIsExact: what became of an input is what its own turn says; no
// other turn of the thread stands in for it, whatever its place. An input whose
// answer was lost is found by the id that its turn has of it.
//
// Spec: A008, A009
func TestReconcileIsExact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		state   store.InputState // of the input, whose id is "in" and whose turn "wanted"
		age     engineAge
		turns   []*hostpb.Turn
		status  core.JobStatus
		result  string
		started []string // texts of turns that were begun
		active  string
	}{
		{
			name: "its turn ended, others after it", state: store.InputApplied, age: engineNew,
			turns:  []*hostpb.Turn{turnOf("a", "completed", "BEFORE", "x"), turnOf("wanted", "completed", "MINE", "in"), turnOf("b", "completed", "AFTER", "y")},
			status: core.JobCompleted, result: "MINE",
		},
		{
			name: "its turn is not there", state: store.InputApplied, age: engineNew,
			turns:  []*hostpb.Turn{turnOf("b", "completed", "AFTER", "y")},
			status: core.JobRunning, started: []string{recoveryText}, active: "turn-new",
		},
		{
			name: "its turn was lost, another ended", state: store.InputApplied, age: engineNew,
			turns:  []*hostpb.Turn{lost("wanted", "in"), turnOf("b", "completed", "AFTER", "y")},
			status: core.JobRunning, started: []string{recoveryText}, active: "turn-new",
		},
		{
			name: "its turn runs", state: store.InputApplied, age: engineSame,
			turns:  []*hostpb.Turn{turnOf("a", "completed", "BEFORE", "x"), turnOf("wanted", "inProgress", "", "in")},
			status: core.JobRunning, active: "wanted",
		},
		{
			name: "it was interrupted", state: store.InputApplied, age: engineNew,
			turns:  []*hostpb.Turn{turnOf("wanted", "interrupted", "", "in"), turnOf("b", "completed", "AFTER", "y")},
			status: core.JobFailed,
		},
		{
			name: "its answer was lost, its turn came after the prior one", state: store.InputSent, age: engineNew,
			turns:  []*hostpb.Turn{turnOf("prior", "completed", "BEFORE", "x"), turnOf("wanted", "completed", "MINE", "in")},
			status: core.JobCompleted, result: "MINE",
		},
		{
			name: "its answer was lost, and it never came", state: store.InputSent, age: engineNew,
			turns:  []*hostpb.Turn{turnOf("prior", "completed", "BEFORE", "x")},
			status: core.JobRunning, started: []string{"x"}, active: "turn-new",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, core.SessionRunning, core.JobRunning)
			state := &hostpb.ThreadState{ThreadId: "thread", Turns: tt.turns}
			for _, turn := range tt.turns {
				if turn.GetStatus() == "inProgress" {
					state.ActiveTurnId = turn.GetId()
				}
			}
			host := &threadHost{state: state}
			a := r.player(&host.playedHost, func(rec *store.AgentRun, _ *profile.Agent) { rec.Retired = true }) // it has no process to end
			a.host = host
			if err := os.MkdirAll(a.evidenceDir(), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := a.openTrail(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(a.trail.close)
			in := store.Input{InputID: "in", SessionID: r.session, AgentRef: a.ref, Origin: "task", Text: "x", State: store.InputIntended, CreatedAt: r.cfg.now()}
			err := r.commit(t.Context(), func(tx *store.Tx, _ *change) error {
				if err := tx.AppendInput(&in); err != nil {
					return err
				}
				in.State = store.InputSent
				if err := tx.PutInput(&in); err != nil || tt.state == store.InputSent {
					return err
				}
				in.State, in.TurnID = store.InputApplied, "wanted"
				return tx.PutInput(&in)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.reconcile(t.Context(), state, tt.age); err != nil {
				t.Fatal(err)
			}
			j, err := r.cachedJob("j0")
			if err != nil || j.Status != tt.status {
				t.Errorf("the job is %v, %v; want %s", j.Status, err, tt.status)
			}
			raw, _ := os.ReadFile(filepath.Join(a.evidenceDir(), "result.md")) // none: nothing was published
			if string(raw) != tt.result {
				t.Errorf("the result is %q, want %q", raw, tt.result)
			}
			if diff := cmp.Diff(tt.started, host.texts); diff != "" {
				t.Errorf("turns were begun with (-want +got):\n%s", diff)
			}
			if got := r.runNow("ar_0").ActiveTurnID; got != tt.active {
				t.Errorf("the active turn is %q, want %q", got, tt.active)
			}
		})
	}
}
