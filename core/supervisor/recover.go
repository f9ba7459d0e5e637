package supervisor

import (
	"context"
	"errors"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/pluginhost"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// recover brings the session to what its records say: on a first start it
// launches the root, after a crash it adopts what lives and replaces what does
// not. It returns when every agent has an actor; they go on by themselves.
func (s *Supervisor) recover(ctx context.Context) error {
	if err := s.sweepLaunches(ctx); err != nil {
		return err
	}
	switch s.cachedSession().Status {
	case core.SessionFinishing, core.SessionCancelling:
		close(s.ready)
		return s.resumeEnding(ctx)
	}
	if err := s.settleIntegrations(ctx); err != nil {
		return err
	}
	if s.resting() || s.cachedSession().ColdPausePending {
		return s.rest(ctx)
	}
	runs, err := s.loadRuns(ctx)
	if err != nil {
		return err
	}
	if err := s.checkStale(runs); err != nil {
		close(s.ready)
		return s.failLaunch(ctx, err)
	}
	if err := s.openWays(ctx); err != nil {
		return s.failLaunch(ctx, err)
	}
	if err := s.noteLost(ctx, runs); err != nil {
		return err
	}
	for _, rec := range runs {
		if err := s.recoverAgent(rec); err != nil {
			return err
		}
	}
	if s.ambient() {
		if err := s.beginAmbient(ctx); err != nil {
			return err
		}
	}
	close(s.ready)
	s.watchAll()
	return nil
}

// recoverAgent gives an agent run that is not over an actor.
func (s *Supervisor) recoverAgent(rec *store.AgentRun) error {
	role, err := s.snapshotAgent(rec.Agent)
	if err != nil {
		return err
	}
	over := rec.Retired
	if rec.JobID != "" {
		j, err := s.cachedJob(rec.JobID)
		if err != nil {
			return err
		}
		over = over && (j.Status.Terminal() || j.Status == core.JobPaused) || j.Status == core.JobSuspended
		if j.Status.Terminal() && !rec.Retired {
			s.newAgent(rec, role).start((*agent).retireLeftover)
			return nil
		}
		if j.Status == core.JobCancelling {
			a := s.newAgent(rec, role)
			a.kill(&killReason{status: core.JobCancelled, text: j.CancelReason})
			a.start((*agent).nothing)
			return nil
		}
	}
	if over || (rec.JobID == "" && s.cachedSession().Status == core.SessionSuspended) {
		return nil
	}
	a := s.newAgent(rec, role)
	if rec.Host.Process.PID == 0 && rec.Engine.PID == 0 && len(rec.Handle) == 0 { // new, or its return was recorded
		if s.rolledBack(rec.JobID) { // a crash cut the roll back of its batch
			a.kill(&killReason{status: core.JobFailed, text: "atomic batch launch rolled back", rolled: true})
			a.start((*agent).nothing)
			return nil
		}
		a.start((*agent).launch)
		return nil
	}
	a.start((*agent).readopt)
	return nil
}

// rolledBack reports whether another member of a job's batch was rolled back.
func (s *Supervisor) rolledBack(job string) bool {
	j, err := s.cachedJob(job)
	if err != nil {
		return false
	}
	for _, other := range s.allJobs() {
		if other.BatchID == j.BatchID && other.RolledBack {
			return true
		}
	}
	return false
}

func (a *agent) nothing(context.Context) error { return nil }

// readopt connects a new supervisor to the agent's living host and takes up
// its events where events.jsonl ends.
func (a *agent) readopt(ctx context.Context) error {
	defer a.signalLaunched(nil)
	ref := pluginhost.Ref{
		Process: identityOf(a.rec.Host.Process), Socket: a.rec.Host.Socket, Protocol: a.rec.Host.Protocol,
		Dir: a.hostDir(), SHA256: a.rec.Host.SHA256,
	}
	plugin, err := pluginhost.Adopt(ctx, ref)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a.log.Info("the host can't be adopted", "err", err)
		return a.replaceHost(ctx)
	}
	a.connect(plugin)
	if a.rec.Engine.PID == 0 {
		return a.relaunch(ctx) // the launch was cut between its intent and its record
	}
	a.subscribe()
	c, cancel := short(ctx)
	defer cancel()
	state, err := a.host.Inspect(c, &hostpb.InspectRequest{})
	if err != nil {
		return hostError("inspecting the host", err)
	}
	if !state.GetConnected() {
		return a.engineLost(ctx)
	}
	if a.rec.ThreadID == "" {
		opened, err := a.openThread(ctx)
		if err != nil {
			return err
		}
		return a.reconcile(ctx, opened, engineNew)
	}
	if err := a.drain(ctx, state.GetLast()); err != nil || a.done {
		return err
	}
	return a.readState(ctx, engineSame)
}

// drainWait bounds how long the rows that a host had spooled may take to come.
const drainWait = 10 * time.Second

// drain takes over the events that the host had spooled before we came, so that
// the evidence is whole before the thread's history settles anything.
func (a *agent) drain(ctx context.Context, last *hostpb.Position) error {
	until := position{last.GetGeneration(), last.GetSeq()}
	timer := time.NewTimer(drainWait)
	defer timer.Stop()
	for until.after(a.trail.last) && !a.done {
		select {
		case e, ok := <-a.events:
			if !ok {
				return nil // loop subscribes again
			}
			if err := a.handle(ctx, e); err != nil {
				return err
			}
		case <-timer.C:
			a.rec.EvidenceComplete = false
			return nil
		case <-a.plugin.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// hostLost replaces a host that died; its engine and the turn go on.
func (a *agent) hostLost(ctx context.Context) error {
	a.follow("notice", "host lost; a new one takes over")
	return a.replaceHost(ctx)
}

// replaceHost starts another host and lets it adopt the engine.
func (a *agent) replaceHost(ctx context.Context) error {
	a.disconnect()
	if err := endAlone(ctx, identityOf(a.rec.Host.Process)); err != nil {
		return err
	}
	if err := removeInstance(a.hostDir()); err != nil {
		return err
	}
	if err := a.countRecovery(ctx, "the host was lost"); err != nil {
		return err
	}
	if err := a.startHost(ctx); err != nil {
		return err
	}
	if len(a.rec.Handle) == 0 {
		return a.relaunch(ctx)
	}
	var handle hostpb.Handle
	if err := proto.Unmarshal(a.rec.Handle, &handle); err != nil {
		return core.Errorf(core.KindRuntime, "reading the handle of agent %s: %w", a.ref, err)
	}
	c, cancel := context.WithTimeout(ctx, controlTimeout(rpcTimeout))
	defer cancel()
	answer, err := a.host.Recover(c, &hostpb.RecoverRequest{Fence: a.fence(), Handle: &handle, TimeoutMs: uint32(rpcTimeout.Milliseconds())})
	if err != nil {
		return hostError("recovering the engine", err)
	}
	if answer.GetOutcome() != hostpb.RecoverResponse_OUTCOME_ADOPTED {
		a.log.Info("the engine can't be adopted", "outcome", answer.GetOutcome(), "failure", answer.GetFailure())
		return a.relaunch(ctx)
	}
	if err := a.rehold(ctx); err != nil {
		return err
	}
	a.subscribe()
	a.follow("notice", "engine adopted; the turn was not disturbed")
	if a.rec.ThreadID == "" || answer.GetState().GetStatus() == "notLoaded" {
		// An idle engine unloads a thread that nobody watched: opened again, it
		// is sent its isolation again.
		opened, err := a.openThread(ctx)
		if err != nil {
			return err
		}
		return a.reconcile(ctx, opened, engineNew)
	}
	return a.reconcile(ctx, answer.GetState(), engineSame)
}

// endAlone kills one process and nothing below it. A host that does not answer
// must be gone before another writes the spool; its engine works on.
func endAlone(ctx context.Context, id process.Identity) error {
	handle, err := process.Open(id)
	if errors.Is(err, process.ErrGone) || id.Zero() {
		return nil
	}
	if err != nil {
		return err
	}
	defer handle.Close()
	if err := handle.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, process.ErrGone) {
		return err
	}
	select {
	case <-handle.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// engineLost replaces an engine that ended under a living host.
func (a *agent) engineLost(ctx context.Context) error {
	a.follow("notice", "app-server lost; it is replaced on the same thread")
	if err := a.countRecovery(ctx, "the app-server was lost"); err != nil {
		return err
	}
	return a.relaunch(ctx)
}

// relaunch starts a new engine on the agent's thread and finds the turn in its
// history.
func (a *agent) relaunch(ctx context.Context) error {
	if err := a.stopEngine(ctx, false); err != nil {
		return err
	}
	if err := a.launchEngine(ctx); err != nil {
		return err
	}
	state, err := a.openThread(ctx)
	if err != nil {
		return err
	}
	return a.reconcile(ctx, state, engineNew)
}

// errExhausted says that an agent may not be recovered once more.
var errExhausted = errors.New("the recovery budget is used up")

// countRecovery takes one attempt from the agent's budget.
func (a *agent) countRecovery(ctx context.Context, why string) error {
	if a.free > 0 {
		a.free--
		return nil
	}
	if a.rec.RecoveryAttempts >= a.role.MaxRecoveryAttempts {
		a.rec.RecoveryError = why
		return core.Errorf(core.KindRuntime, "%s and %w (%d of %d)", why, errExhausted, a.rec.RecoveryAttempts, a.role.MaxRecoveryAttempts)
	}
	a.rec.RecoveryAttempts++
	a.rec.RecoveryError = why
	return a.save(ctx, nil)
}

func (a *agent) hostDir() string {
	return folderOf(a.sup.cfg.Folders.RuntimeDir(a.sup.session), a.rec.Host.Instance)
}
