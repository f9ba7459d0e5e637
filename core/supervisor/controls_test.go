package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// playedHost is a host plugin without an engine. It notes the commands that it
// is given, by their method's name, and does with each what serve says.
type playedHost struct {
	hostpb.HostClient
	serve func(what string) error // nil: everything is applied
	turn  *hostpb.Turn            // that Read shows; may be nil

	mu       sync.Mutex
	commands []string
	goals    []*hostpb.SetGoalRequest
	texts    []string // of the turns that were started
	answers  []string // to requests of the engine: id=result
}

func (h *playedHost) apply(what string) (*hostpb.CommandResponse, error) {
	h.mu.Lock()
	h.commands = append(h.commands, what)
	h.mu.Unlock()
	if h.serve != nil {
		if err := h.serve(what); err != nil {
			return nil, err
		}
	}
	return &hostpb.CommandResponse{Delivery: basepb.Delivery_DELIVERY_APPLIED, TurnId: "turn-new"}, nil
}

func (h *playedHost) Steer(context.Context, *hostpb.SteerRequest, ...grpc.CallOption) (*hostpb.CommandResponse, error) {
	return h.apply("steer")
}

func (h *playedHost) Interrupt(context.Context, *hostpb.InterruptRequest, ...grpc.CallOption) (*hostpb.CommandResponse, error) {
	return h.apply("interrupt")
}

func (h *playedHost) StartTurn(_ context.Context, r *hostpb.StartTurnRequest, _ ...grpc.CallOption) (*hostpb.CommandResponse, error) {
	h.mu.Lock()
	h.texts = append(h.texts, r.GetText())
	h.mu.Unlock()
	return h.apply("start")
}

func (h *playedHost) SetGoal(_ context.Context, r *hostpb.SetGoalRequest, _ ...grpc.CallOption) (*hostpb.CommandResponse, error) {
	h.mu.Lock()
	h.goals = append(h.goals, r)
	h.mu.Unlock()
	return h.apply("goal")
}

func (h *playedHost) Compact(context.Context, *hostpb.CompactRequest, ...grpc.CallOption) (*hostpb.CommandResponse, error) {
	return h.apply("compact")
}

func (h *playedHost) Respond(_ context.Context, r *hostpb.RespondRequest, _ ...grpc.CallOption) (*hostpb.CommandResponse, error) {
	h.mu.Lock()
	h.answers = append(h.answers, r.GetRequestId()+"="+string(r.GetResultJson()))
	h.mu.Unlock()
	return h.apply("respond")
}

func (h *playedHost) Inspect(context.Context, *hostpb.InspectRequest, ...grpc.CallOption) (*hostpb.InspectResponse, error) {
	return &hostpb.InspectResponse{Connected: true}, nil
}

func (h *playedHost) Read(context.Context, *hostpb.ReadRequest, ...grpc.CallOption) (*hostpb.ReadResponse, error) {
	state := &hostpb.ThreadState{ThreadId: "thread"}
	if h.turn != nil {
		state.Turns = []*hostpb.Turn{h.turn}
	}
	return &hostpb.ReadResponse{State: state}, nil
}

// player makes the job j0 of a rig an agent on a played host, with a thread on
// which "turn" runs. Its actor does not run yet.
func (r *rig) player(host *playedHost, change func(rec *store.AgentRun, role *profile.Agent)) *agent {
	r.t.Helper()
	rec := r.runNow("ar_0")
	rec.Retired, rec.ThreadID, rec.ActiveTurnID = false, "thread", "turn"
	role, err := r.snapshotAgent("worker")
	if err != nil {
		r.t.Fatal(err)
	}
	if change != nil {
		change(&rec, &role)
	}
	a := r.newAgent(&rec, role)
	a.host = host
	if err := a.save(r.t.Context(), nil); err != nil {
		r.t.Fatal(err)
	}
	return a
}

// play runs the actor until the test ends.
func (r *rig) play(a *agent) {
	a.start(func(*agent, context.Context) error { return nil })
	r.t.Cleanup(func() { r.end(errDetach); r.wg.Wait() })
}

func (r *rig) order(expected uint64, action, input string) (*control.ControlResponse, error) {
	call := control.Call{Operator: true, Peer: access.Peer{PID: os.Getpid()}}
	return r.Control(r.t.Context(), call, control.ControlRequest{JobID: "j0", Action: action, Input: input, ExpectedRevision: &expected})
}

// TestControlsWaitForEachOther: the second of two orders is judged and
// delivered once the first one's delivery has ended.
//
// Spec: R088
func TestControlsWaitForEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	var mu sync.Mutex
	under, most := 0, 0
	host := &playedHost{serve: func(string) error {
		mu.Lock()
		under++
		most = max(most, under)
		mu.Unlock()
		arrived <- struct{}{}
		<-release
		mu.Lock()
		under--
		mu.Unlock()
		return nil
	}}
	r.play(r.player(host, nil))

	var wg sync.WaitGroup
	answers, failed := make([]*control.ControlResponse, 2), make([]error, 2)
	give := func(i int) {
		wg.Go(func() { answers[i], failed[i] = r.order(uint64(i), control.ActionSteer, "x") })
	}
	give(0)
	<-arrived // its delivery is under way, and held
	give(1)
	if unlock, ok := r.controlLocks.try("ar_0"); ok {
		unlock()
		t.Error("while an order is delivered the agent takes another one")
	}
	if got := r.runNow("ar_0").ControlRevision; got != 1 {
		t.Errorf("during the first delivery the revision is %d, want 1", got)
	}
	close(release)
	wg.Wait()
	for i, err := range failed {
		if err != nil || answers[i].ControlRevision != uint64(i+1) {
			t.Errorf("order %d: %+v, %v; want revision %d", i, answers[i], err, i+1)
		}
	}
	if most != 1 {
		t.Errorf("%d orders were delivered at once", most)
	}
	if run := r.runNow("ar_0"); run.ControlRevision != 2 || run.LastControlStatus != store.ControlApplied {
		t.Errorf("afterwards the run is at %d (%s), want 2 (applied)", run.ControlRevision, run.LastControlStatus)
	}
	if _, err := r.order(1, control.ActionSteer, "x"); core.KindOf(err) != core.KindRuntime {
		t.Errorf("an order for a state that is past: %v", err)
	}
}

// TestUnansweredOrder: an order whose answer was lost is not called a failure,
// whatever step of it went unanswered; one that was refused is.
//
// Spec: R089
func TestUnansweredOrder(t *testing.T) {
	t.Parallel()
	lost := status.Error(codes.Unavailable, "the connection broke")
	for _, tt := range []struct {
		name, action, lost string
		idle               bool
	}{
		{"steer", control.ActionSteer, "steer", false},
		{"interrupt", control.ActionInterrupt, "interrupt", false},
		{"continue", control.ActionContinue, "start", true},
		{"finalize without a turn", control.ActionFinalize, "start", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, core.SessionRunning, core.JobPaused)
			host := &playedHost{serve: func(what string) error {
				if what == tt.lost {
					return lost
				}
				return nil
			}}
			r.play(r.player(host, func(rec *store.AgentRun, _ *profile.Agent) {
				if tt.idle {
					rec.ActiveTurnID = ""
				}
			}))
			_, err := r.order(0, tt.action, "x")
			if core.KindOf(err) != core.KindDeliveryUnknown || !errors.Is(err, lost) {
				t.Errorf("the answer is %v (%s), want ControlDeliveryUnknown", err, core.KindOf(err))
			}
			run := r.runNow("ar_0")
			if run.ControlRevision != 1 || run.LastControlStatus != "delivery_unknown" {
				t.Errorf("the run is at revision %d, %q; want 1, delivery_unknown", run.ControlRevision, run.LastControlStatus)
			}
			if got := r.controls(); len(got) != 1 || got[0].Status != store.ControlUnknown || got[0].SettledAt == nil {
				t.Errorf("the orders on record: %+v", got)
			}
		})
	}
}

func (r *rig) controls() (list []*store.Control) {
	r.t.Helper()
	err := r.store.View(r.t.Context(), func(tx *store.Tx) (err error) {
		list, err = tx.Controls("ar_0")
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// TestRefusedInterruptHoldsNothing: an agent whose interrupt was refused works
// on, and is not taken for one that was told to stop.
func TestRefusedInterruptHoldsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	a := r.player(&playedHost{}, nil)
	a.host = refusingHost{}
	r.play(a)
	if _, err := r.order(0, control.ActionInterrupt, ""); core.KindOf(err) != core.KindAppServer {
		t.Errorf("a refused interrupt: %v", err)
	}
	if run := r.runNow("ar_0"); run.Holding || run.LastControlStatus != store.ControlRejected || run.ActiveTurnID != "turn" {
		t.Errorf("afterwards holding is %v, the order %s, the turn %q", run.Holding, run.LastControlStatus, run.ActiveTurnID)
	}
}

// refusingHost refuses every interrupt.
type refusingHost struct{ hostpb.HostClient }

func (refusingHost) Interrupt(context.Context, *hostpb.InterruptRequest, ...grpc.CallOption) (*hostpb.CommandResponse, error) {
	return &hostpb.CommandResponse{
		Delivery: basepb.Delivery_DELIVERY_REJECTED, Failure: &basepb.Failure{Kind: "turn_interrupt", Message: "no"},
	}, nil
}

// TestSettleNamesItsRevision: what became of an order is recorded for exactly
// its revision, once.
//
// Spec: R085
func TestSettleNamesItsRevision(t *testing.T) {
	t.Parallel()
	r := newRig(t, core.SessionRunning, core.JobRunning)
	a := r.player(&playedHost{}, func(rec *store.AgentRun, _ *profile.Agent) {
		rec.ControlRevision, rec.LastControlAction, rec.LastControlStatus = 2, control.ActionContinue, store.ControlPending
	})
	now := r.cfg.now().UTC()
	settle := func(revision uint64) (settled bool) {
		t.Helper()
		err := r.commit(t.Context(), func(tx *store.Tx, _ *change) (err error) {
			settled, err = tx.SettleControl("ar_0", revision, store.ControlApplied, "", now)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return settled
	}
	err := r.commit(t.Context(), func(tx *store.Tx, _ *change) error {
		return tx.AppendControl(&store.Control{
			SessionID: r.session, AgentRef: "ar_0", Revision: 2, Action: control.ActionContinue, Caller: "operator",
			Status: store.ControlPending, At: now,
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if settle(1) {
		t.Error("another revision was settled")
	}
	if err := a.settle(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	if row, run := r.controls()[0], r.runNow("ar_0"); row.Status != store.ControlPending || run.LastControlStatus != store.ControlPending {
		t.Errorf("after revision 1 was settled, 2 is %s on record and %s at the agent; want pending", row.Status, run.LastControlStatus)
	}
	if !settle(2) || settle(2) {
		t.Error("revision 2 was not settled exactly once")
	}
	if err := a.settle(t.Context(), 2, nil); err != nil {
		t.Fatal(err)
	}
	if row, run := r.controls()[0], r.runNow("ar_0"); row.Status != store.ControlApplied || run.LastControlStatus != store.ControlApplied {
		t.Errorf("afterwards it is %s on record and %s at the agent; want applied", row.Status, run.LastControlStatus)
	}
}

// TestLastWordsOfATurn: the result of a turn is the last presentable item that
// the engine completed in exactly that turn.
//
// Spec: A003
func TestLastWordsOfATurn(t *testing.T) {
	t.Parallel()
	const (
		first  = `{"gen":1,"seq":1,"direction":"received","message":{"method":"item/completed","params":{"threadId":"thread","turnId":"turn","item":{"type":"agentMessage","text":"first"}}}}` + "\n"
		plan   = `{"gen":1,"seq":2,"direction":"received","message":{"method":"item/completed","params":{"threadId":"thread","turnId":"turn","item":{"type":"plan","text":"the plan"}}}}` + "\n"
		think  = `{"gen":1,"seq":3,"direction":"received","message":{"method":"item/completed","params":{"threadId":"thread","turnId":"turn","item":{"type":"reasoning","text":"hm"}}}}` + "\n"
		sent   = `{"gen":1,"seq":4,"direction":"sent","message":{"method":"item/completed","params":{"threadId":"thread","turnId":"turn","item":{"type":"agentMessage","text":"sent"}}}}` + "\n"
		other  = `{"gen":1,"seq":5,"direction":"received","message":{"method":"item/completed","params":{"threadId":"thread","turnId":"other","item":{"type":"agentMessage","text":"other"}}}}` + "\n"
		broken = `{"gen":1,"seq":6,"direction":"received","message":{"method":"item/completed","params":{"turnId":"turn","item":{"type":"agentMessage","text":"bro` + "\n"
	)
	for _, tt := range []struct{ name, log, stored, want string }{
		{"the last of several", first + plan, "", "the plan"},
		{"what is no word of it", first + think + sent + other + broken, "", "first"},
		{"the log before what is stored", first, "stored", "first"},
		{"what is stored, where the log has none", other, "stored", "stored"},
		{"never an older turn's", other, "", ""},
		{"no log", "", "", ""},
	} {
		r := newRig(t, core.SessionRunning, core.JobRunning)
		a := r.player(&playedHost{turn: &hostpb.Turn{Id: "turn", Status: "completed", FinalText: tt.stored}}, nil)
		if tt.log != "" {
			if err := os.WriteFile(filepath.Join(r.cfg.Folders.JobDir("j0"), "events.jsonl"), []byte(tt.log), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, known := range []string{"", tt.stored} { // found out later, or told with the turn's end
			got, err := a.finalText(t.Context(), endedTurn{id: "turn", status: "completed", text: known})
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
			}
		}
	}
}
