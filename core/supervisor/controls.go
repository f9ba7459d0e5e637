package supervisor

import (
	"context"
	"errors"
	"sync"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// Control looks at an agent or tells it what to do. Controls of one agent are
// delivered one after the other. Each takes the next revision before it is
// delivered and keeps it whatever becomes of it, so that two callers who saw
// the same state can't both act on it.
func (s *Supervisor) Control(ctx context.Context, call control.Call, r control.ControlRequest) (*control.ControlResponse, error) {
	r = s.nameNative(r)
	t, err := s.controlTarget(ctx, call, r.Action, r.JobID, r.AgentRunRef)
	if err != nil {
		return nil, err
	}
	if r.TargetThreadID != "" {
		return s.controlNative(ctx, t, r)
	}
	if r.Action == control.ActionInspect {
		s.lookForNatives(ctx, t.ref)
		return s.controlAnswer(t.ref, nil), nil
	}
	o, err := normaliseOrder(t.role, t.jobID == "", s.runNow(t.ref), r)
	if err != nil {
		return nil, err
	}
	o.caller = t.caller
	unlock, err := s.controlLocks.lock(ctx, t.ref)
	if err != nil {
		return nil, err
	}
	defer unlock()
	result, err := s.deliver(ctx, t, o)
	if err != nil {
		return nil, err
	}
	return s.controlAnswer(t.ref, result), nil
}

// target is the agent that a control is for.
type target struct {
	ref, jobID string
	role       profile.Agent
	caller     string
}

// controlTarget proves the caller and its right to the action on the agent,
// which is that of the job or of the run; of neither: the root. The root is the
// operator's alone.
func (s *Supervisor) controlTarget(ctx context.Context, call control.Call, action, id, ref string) (target, error) {
	caller, err := s.identify(ctx, call, control.VerbControl)
	if err != nil {
		return target{}, err
	}
	rec := s.cachedSession()
	var job *store.Job
	switch {
	case id != "":
		job, err = s.cachedJob(id)
	case ref != "" && ref != rec.RootAgentRef:
		job, err = s.jobOfRun(ref)
	}
	if err != nil {
		return target{}, err
	}
	verb := action
	switch {
	case job == nil:
		verb = access.RootVerb
	case verb == control.ActionStop:
		verb = access.StopJobVerb // `stop` alone ends the session
	}
	if err := access.May(caller, verb, s.target(job), s.state()); err != nil {
		return target{}, err
	}
	if job == nil && s.ambient() {
		return target{}, s.errClientLeads()
	}
	t := target{ref: rec.RootAgentRef, caller: callerName(caller)}
	agent := rec.RootAgent
	if job != nil {
		t.ref, t.jobID, agent = job.AgentRef, job.JobID, job.Agent
	}
	t.role, err = s.snapshotAgent(agent)
	return t, err
}

func (s *Supervisor) jobOfRun(ref string) (*store.Job, error) {
	for _, j := range s.allJobs() {
		if j.AgentRef == ref {
			return j, nil
		}
	}
	return nil, core.Errorf(core.KindNotFound, "no agent run %q in session %s", ref, s.session).WithRemedy("list the jobs with agent_status")
}

// controlAnswer is the agent as it is now. result is nil for a mere look.
func (s *Supervisor) controlAnswer(ref string, result map[string]any) *control.ControlResponse {
	run := s.runNow(ref)
	answer := &control.ControlResponse{ControlRevision: run.ControlRevision, Result: result}
	if run.JobID == "" {
		answer.Session = s.SessionView()
	} else if j, err := s.cachedJob(run.JobID); err == nil {
		view := s.jobView(j)
		answer.Job = &view
	}
	if a := s.liveAgent(ref); a != nil && identityOf(run.Engine).Alive() {
		answer.Live = liveView(&run, a.effort())
	}
	return answer
}

// liveAgent returns the actor of an agent run that has processes, or nil.
func (s *Supervisor) liveAgent(ref string) *agent {
	s.mu.Lock()
	a := s.agents[ref]
	s.mu.Unlock()
	if a == nil || chanClosed(a.ended) || a.snapshot().Retired {
		return nil
	}
	return a
}

// inActor runs f in the actor of an agent run and returns the agent; nil when it
// has no processes, or none any more once what ends it is done.
func (s *Supervisor) inActor(ctx context.Context, ref string, f func(context.Context, *agent)) (*agent, error) {
	a := s.liveAgent(ref)
	if a == nil {
		return nil, nil
	}
	err := a.do(ctx, func(ctx context.Context) { f(ctx, a) })
	switch {
	case err == nil:
		return a, nil
	case s.life.Err() != nil:
		return nil, errGoingDown()
	case chanClosed(a.ended):
		return nil, nil
	}
	return nil, err
}

// deliver gives an order to the agent, by its actor when it has processes.
func (s *Supervisor) deliver(ctx context.Context, t target, o *order) (map[string]any, error) {
	if o.action == control.ActionFork {
		return s.fork(ctx, t, o)
	}
	var result map[string]any
	var failed error
	a, err := s.inActor(ctx, t.ref, func(ctx context.Context, a *agent) { result, failed = a.obey(ctx, o) })
	if err != nil {
		return nil, err
	}
	if a == nil {
		return s.deliverCold(ctx, t, o)
	}
	if failed != nil || o.action != control.ActionStop {
		return result, failed
	}
	a.kill(&killReason{status: core.JobStopped, text: "stopped by " + o.caller})
	<-a.ended
	return result, nil
}

// obey reserves the order's revision, delivers it, and records what became of
// it.
func (a *agent) obey(ctx context.Context, o *order) (map[string]any, error) {
	held := a.rec.Holding
	if err := a.reserve(ctx, o); err != nil {
		return nil, err
	}
	result, err := a.perform(ctx, o)
	if errors.As(err, new(hostCallError)) { // it may have had its effect before
		err = unknownDelivery("%w", err)
	}
	if err != nil && core.KindOf(err) != core.KindDeliveryUnknown && o.holds() {
		a.rec.Holding = held // refused: the agent works on
	}
	if o.deferred {
		return result, err // settled by what it waits for
	}
	if settleErr := a.settle(ctx, o.revision, err); settleErr != nil {
		a.broken(settleErr)
		return nil, settleErr
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// reserve takes the next revision for the order. Nothing has happened yet when
// it is refused.
func (a *agent) reserve(ctx context.Context, o *order) error {
	if err := checkRevision(&a.rec, o); err != nil {
		return err
	}
	takeRevision(&a.rec, o)
	return a.save(ctx, func(tx *store.Tx, c *change) error { return a.sup.recordOrder(tx, c, &a.rec, o) })
}

func checkRevision(rec *store.AgentRun, o *order) error {
	if o.expected != rec.ControlRevision {
		return core.Errorf(core.KindRuntime, "stale control revision %d: agent %s is at %d", o.expected, rec.Agent, rec.ControlRevision).
			WithRemedy("inspect it, and decide again")
	}
	return nil
}

func takeRevision(rec *store.AgentRun, o *order) {
	rec.ControlRevision++
	o.revision = rec.ControlRevision
	rec.LastControlAction, rec.LastControlStatus = o.action, store.ControlPending
	rec.Holding = rec.Holding || o.holds()
}

// recordOrder writes what is about to be delivered, with its audit row.
func (s *Supervisor) recordOrder(tx *store.Tx, c *change, rec *store.AgentRun, o *order) error {
	err := s.audit(tx, "agent_control", rec.JobID, o.caller, map[string]any{
		"agent_run_ref": rec.AgentRef, "action": o.action, "control_revision": o.revision,
	})
	if err != nil {
		return err
	}
	err = tx.AppendControl(&store.Control{
		SessionID: s.session, AgentRef: rec.AgentRef, Revision: o.revision, Action: o.action, Caller: o.caller,
		Status: store.ControlPending, At: s.cfg.now().UTC(),
	})
	c.wake = true
	return err
}

// settle records what became of the order of a revision. Another order that was
// given since is not touched.
func (a *agent) settle(ctx context.Context, revision uint64, cause error) error {
	status, text := outcomeOfOrder(cause)
	if a.rec.ControlRevision == revision {
		a.rec.LastControlStatus = status
	}
	now := a.sup.cfg.now().UTC()
	return a.save(ctx, func(tx *store.Tx, c *change) error {
		_, err := tx.SettleControl(a.ref, revision, status, text, now)
		c.wake = true
		return err
	})
}

func outcomeOfOrder(cause error) (store.ControlStatus, string) {
	switch {
	case cause == nil:
		return store.ControlApplied, ""
	case core.KindOf(cause) == core.KindDeliveryUnknown:
		return store.ControlUnknown, cause.Error()
	}
	return store.ControlRejected, cause.Error()
}

// unknownDelivery says that an order may or may not have had its effect.
func unknownDelivery(format string, args ...any) error {
	return core.Errorf(core.KindDeliveryUnknown, format, args...).WithRemedy("inspect the agent before you decide again")
}

// command sends one command to the host and turns what is not applied into an
// error: of kind ControlDeliveryUnknown when nobody can say.
func (a *agent) command(ctx context.Context, doing string, send func(context.Context) (*hostpb.CommandResponse, error)) (*hostpb.CommandResponse, error) {
	c, cancel := short(ctx)
	defer cancel()
	answer, err := send(c)
	switch {
	case err != nil:
		return nil, unknownDelivery("%s: the host did not answer: %w", doing, err)
	case answer.GetDelivery() == basepb.Delivery_DELIVERY_APPLIED:
		return answer, nil
	case answer.GetDelivery() == basepb.Delivery_DELIVERY_REJECTED:
		return nil, failureError(doing, answer.GetFailure())
	}
	return nil, unknownDelivery("%s: %s", doing, answer.GetFailure().GetMessage())
}

// refLocks is a lock for each agent run. The zero value is ready.
type refLocks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // ref -> full while the lock is held
}

func (l *refLocks) slot(ref string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	if l.held[ref] == nil {
		l.held[ref] = make(chan struct{}, 1)
	}
	return l.held[ref]
}

// try takes the lock if nobody has it.
func (l *refLocks) try(ref string) (unlock func(), ok bool) {
	slot := l.slot(ref)
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, true
	default:
		return nil, false
	}
}

func (l *refLocks) lock(ctx context.Context, ref string) (unlock func(), err error) {
	slot := l.slot(ref)
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
