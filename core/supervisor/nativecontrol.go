package supervisor

import (
	"context"
	"slices"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// lookPatience bounds how long a look at an agent waits for the engine's word
// about native agents: what is on record is an answer, too.
const lookPatience = 5 * time.Second

// nameNative turns the agent run ref of a native agent into that of the agent in
// whose engine it runs, and its thread.
func (s *Supervisor) nameNative(r control.ControlRequest) control.ControlRequest {
	if r.AgentRunRef == "" || r.JobID != "" || r.TargetThreadID != "" {
		return r
	}
	for ref, run := range s.runsNow() {
		if n := nativeOf(&run, r.AgentRunRef); n != nil && n.AgentRef == r.AgentRunRef {
			r.AgentRunRef, r.TargetThreadID = ref, n.ThreadID
			break
		}
	}
	return r
}

// lookForNatives brings the record of an agent's native agents up to date, if its
// engine can tell.
func (s *Supervisor) lookForNatives(ctx context.Context, ref string) {
	a := s.liveAgent(ref)
	if a == nil || !a.hasNatives() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	_ = a.do(ctx, func(ctx context.Context) {
		if err := a.refreshNatives(ctx); err != nil {
			a.log.Warn("the native agents can't be told", "err", err)
		}
	})
}

// controlNative looks at a native agent, stops it, or takes the interest from it.
// Whoever may do that with the agent in whose engine it runs may do it.
func (s *Supervisor) controlNative(ctx context.Context, t target, r control.ControlRequest) (*control.ControlResponse, error) {
	switch {
	case r.Action != control.ActionInspect && r.Action != control.ActionStop && r.Action != control.ActionDetach:
		return nil, core.Errorf(core.KindValue, "a native agent can't be told to %s", r.Action).
			WithRemedy("inspect, stop or detach it; everything else is for the agent that started it to say")
	case r.Action != control.ActionInspect && r.ExpectedRevision == nil:
		return nil, core.Errorf(core.KindValue, "%s needs expected_revision", r.Action).WithRemedy("inspect the native agent: its control_revision is what to pass")
	}
	a := s.liveAgent(t.ref)
	if a == nil {
		return nil, core.Errorf(core.KindRuntime, "no engine runs in which thread %s could be", r.TargetThreadID).WithRemedy("take the session up first")
	}
	unlock, err := s.controlLocks.lock(ctx, t.ref)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var result map[string]any
	var failed error
	if err := a.do(ctx, func(ctx context.Context) { result, failed = a.obeyForNative(ctx, t, r) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	run := s.runNow(t.ref)
	n := nativeOf(&run, r.TargetThreadID)
	view := nativeView(&run, n)
	answer := s.controlAnswer(t.ref, result)
	answer.ControlRevision, answer.Native = n.ControlRevision, &view
	return answer, nil
}

// obeyForNative carries out an order about one of the agent's native agents.
func (a *agent) obeyForNative(ctx context.Context, t target, r control.ControlRequest) (map[string]any, error) {
	if err := a.refreshNatives(ctx, r.TargetThreadID); err != nil {
		return nil, err
	}
	n := nativeOf(&a.rec, r.TargetThreadID)
	switch {
	case n == nil:
		return nil, core.Errorf(core.KindNotFound, "agent %s has no native agent on thread %q", a.rec.Agent, r.TargetThreadID).
			WithRemedy("inspect the agent: it lists those that it has")
	case r.Action == control.ActionInspect:
		return nil, nil
	case *r.ExpectedRevision != n.ControlRevision:
		return nil, core.Errorf(core.KindRuntime, "stale control revision %d: native agent %s is at %d", *r.ExpectedRevision, n.AgentRef, n.ControlRevision).
			WithRemedy("inspect it, and decide again")
	case n.Status == store.NativeStopped, r.Action == control.ActionDetach && n.Status == store.NativeNotLoaded:
		return nil, core.Errorf(core.KindRuntime, "native agent %s is %s: there is nothing to %s", n.AgentRef, n.Status, r.Action)
	}
	o := &order{action: r.Action, caller: t.caller, revision: n.ControlRevision + 1}
	if err := a.reserveNative(ctx, n.AgentRef, n.ThreadID, o); err != nil {
		return nil, err
	}
	err := a.deliverNative(ctx, n.ThreadID, o.action)
	status, _ := outcomeOfOrder(err)
	a.changeNative(n.ThreadID, func(n *store.NativeRun) { n.LastControlStatus = status })
	if saveErr := a.save(ctx, nil); saveErr != nil {
		a.broken(saveErr)
		return nil, saveErr
	}
	if err != nil {
		return nil, err
	}
	if o.action == control.ActionStop {
		return map[string]any{"stopping": true}, nil
	}
	return map[string]any{"detached": true}, nil
}

// reserveNative takes the native agent's next revision for an order.
func (a *agent) reserveNative(ctx context.Context, ref, thread string, o *order) error {
	before := a.rec.Natives
	a.changeNative(thread, func(n *store.NativeRun) {
		n.ControlRevision, n.LastControlAction, n.LastControlStatus = o.revision, o.action, store.ControlPending
	})
	err := a.save(ctx, func(tx *store.Tx, c *change) error {
		c.wake = true
		return a.sup.audit(tx, "agent_control", a.jobID, o.caller, map[string]any{
			"agent_run_ref": ref, "action": o.action, "control_revision": o.revision, "thread_id": thread,
		})
	})
	if err != nil {
		a.rec.Natives = before
	}
	return err
}

// deliverNative has its effect on the native agent of a thread. Whatever the
// engine ended with it is stopped, too.
func (a *agent) deliverNative(ctx context.Context, thread, action string) error {
	if action == control.ActionDetach {
		a.changeNative(thread, func(n *store.NativeRun) { n.Status = store.NativeDetached })
		return nil
	}
	_, err := a.command(ctx, "stopping a native agent", func(ctx context.Context) (*hostpb.CommandResponse, error) {
		return a.host.EndNative(ctx, &hostpb.EndNativeRequest{Fence: a.fence(), CommandId: a.newCommand(), ThreadId: thread})
	})
	if err != nil {
		return err
	}
	ended := []string{thread}
	for _, n := range a.rec.Natives { // a parent stands before its children
		if slices.Contains(ended, n.ParentThreadID) {
			ended = append(ended, n.ThreadID)
		}
	}
	a.forgetRequests(ended...)
	for _, id := range ended {
		a.changeNative(id, func(n *store.NativeRun) { n.Status = store.NativeStopped })
	}
	return nil
}

// changeNative changes the record of a thread, in a list of its own: others read
// the former one.
func (a *agent) changeNative(thread string, change func(n *store.NativeRun)) {
	a.rec.Natives = slices.Clone(a.rec.Natives)
	if n := nativeOf(&a.rec, thread); n != nil {
		change(n)
	}
}

// nativeViews lists the native agents of an agent run by their refs.
func nativeViews(run *store.AgentRun) map[string]control.NativeView {
	if len(run.Natives) == 0 {
		return nil
	}
	views := make(map[string]control.NativeView, len(run.Natives))
	for i := range run.Natives {
		views[run.Natives[i].AgentRef] = nativeView(run, &run.Natives[i])
	}
	return views
}

// nativeView is the public record of a native agent. Nothing of one runs without
// the engine.
func nativeView(run *store.AgentRun, n *store.NativeRun) control.NativeView {
	v := control.NativeView{
		AgentRunRef: n.AgentRef, Agent: n.Agent, Nickname: n.Nickname, ThreadID: n.ThreadID, ParentThreadID: n.ParentThreadID,
		Status: n.Status, SeenAt: n.SeenAt, ControlRevision: n.ControlRevision,
	}
	if n.Status != store.NativeStopped && !alive(run.Engine) {
		v.Status = store.NativeNotLoaded
	}
	return v
}
