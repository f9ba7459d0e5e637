package supervisor

import (
	"context"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// deliverCold gives an order to an agent that has no processes: one that is
// suspended, or was paused with its session. Continue and finalize bring it
// back on its thread, after it was admitted again.
func (s *Supervisor) deliverCold(ctx context.Context, t target, o *order) (map[string]any, error) {
	switch o.action {
	case control.ActionContinue, control.ActionFinalize:
		return s.relaunchCold(ctx, t, o)
	case control.ActionSetEffort, control.ActionStop:
		return s.recordCold(ctx, t, o)
	}
	return nil, core.Errorf(core.KindRuntime, "agent %s has no engine: nothing can %s it", t.role.ID, o.action).
		WithRemedy("continue or finalize it; a job that has ended stays as it is")
}

// recordCold carries out an order that needs no engine.
func (s *Supervisor) recordCold(ctx context.Context, t target, o *order) (map[string]any, error) {
	now := s.cfg.now().UTC()
	err := s.commit(ctx, func(tx *store.Tx, c *change) error {
		rec, err := s.reserveCold(tx, c, t, o)
		if err != nil {
			return err
		}
		rec.LastControlStatus = store.ControlApplied
		if o.action == control.ActionSetEffort {
			rec.Effort = o.effort
		} else if err := s.stopCold(tx, c, t.jobID); err != nil {
			return err
		}
		if _, err := tx.SettleControl(rec.AgentRef, o.revision, store.ControlApplied, "", now); err != nil {
			return err
		}
		return s.putRun(tx, c, rec)
	})
	return map[string]any{"action": o.action}, err
}

func (s *Supervisor) stopCold(tx *store.Tx, c *change, id string) error {
	j, err := tx.Job(id)
	if err != nil {
		return err
	}
	if j.Status.Terminal() || !j.Status.CanBecome(core.JobStopped) {
		return core.Errorf(core.KindRuntime, "job %s is %s", id, j.Status)
	}
	now := s.cfg.now().UTC()
	j.Status, j.FinishedAt = core.JobStopped, &now
	return c.putJob(tx, j)
}

// reserveCold takes the next revision of an agent without an actor.
func (s *Supervisor) reserveCold(tx *store.Tx, c *change, t target, o *order) (*store.AgentRun, error) {
	rec, err := tx.AgentRun(t.ref)
	if err != nil {
		return nil, err
	}
	if err := checkRevision(rec, o); err != nil {
		return nil, err
	}
	takeRevision(rec, o)
	return rec, s.recordOrder(tx, c, rec, o)
}

// putRun writes the record of an agent run that has no actor.
func (s *Supervisor) putRun(tx *store.Tx, c *change, rec *store.AgentRun) error {
	if err := tx.PutAgentRun(rec); err != nil {
		return err
	}
	copied := *rec
	before := c.before
	c.wake = true
	c.before = func() {
		if before != nil {
			before()
		}
		s.mu.Lock()
		s.runs[copied.AgentRef] = &copied
		if a := s.agents[copied.AgentRef]; a != nil && chanClosed(a.ended) {
			delete(s.agents, copied.AgentRef) // its last record is not the newest any more
		}
		s.mu.Unlock()
	}
	return nil
}

// relaunchCold admits the agent again and brings it back with the order's input
// as its next. It answers once that is on record: the thread comes after.
func (s *Supervisor) relaunchCold(ctx context.Context, t target, o *order) (map[string]any, error) {
	if t.jobID == "" {
		return nil, core.Errorf(core.KindRuntime, "the root has no engine").WithRemedy("take its session up: codex-mmo continue %s", s.session)
	}
	rec, err := s.recordRelaunch(ctx, t, o)
	if err != nil {
		return nil, err
	}
	s.revive(rec, t.role)
	return map[string]any{"recovery_requested": true, "action": o.action}, nil
}

func (s *Supervisor) recordRelaunch(ctx context.Context, t target, o *order) (rec *store.AgentRun, err error) {
	err = s.commitAdmission(ctx, func(tx *store.Tx, c *change) error {
		j, err := tx.Job(t.jobID)
		if err != nil {
			return err
		}
		if j.Status != core.JobSuspended && j.Status != core.JobPaused {
			return core.Errorf(core.KindRuntime, "job %s is %s: there is nothing to %s", t.jobID, j.Status, o.action)
		}
		if current, err := tx.AgentRun(t.ref); err != nil {
			return err
		} else if err := checkRevision(current, o); err != nil {
			return err
		}
		if err := s.readmit(tx, j, o.budget); err != nil {
			return err
		}
		if rec, err = s.reserveCold(tx, c, t, o); err != nil {
			return err
		}
		if rec.Goal != nil {
			goal := *rec.Goal
			o.toGoal(&goal)
			rec.Goal = &goal
		}
		in := s.newInput(t.ref, "control", o.input)
		in.ControlRevision = o.revision
		return s.recordReturn(tx, c, rec, j, in)
	})
	return rec, err
}

// recordReturn writes that an agent comes back, with its next input; in may be
// nil when what it was at goes on. The turn that its lost engine ran is settled;
// what became of an input that had no turn yet is for its thread to say.
func (s *Supervisor) recordReturn(tx *store.Tx, c *change, rec *store.AgentRun, j *store.Job, in *store.Input) error {
	if err := s.settleCut(tx, rec.AgentRef); err != nil {
		return err
	}
	if rec.Retired { // it begins as a new one does, and nothing of it is there to take over
		rec.Host, rec.Engine, rec.Handle = store.HostRef{}, store.Process{}, nil
	}
	rec.Retired, rec.Holding, rec.Pending, rec.ActiveTurnID = false, false, nil, ""
	if rec.Goal != nil && rec.Goal.Status == goalActive { // the host pauses it before it opens the thread
		goal := *rec.Goal
		goal.Status = goalPaused
		rec.Goal = &goal
	}
	if j != nil {
		j.Status, j.Error, j.Failure, j.ColdPausePending = core.JobRecovering, "", nil, false
		if err := s.audit(tx, "agent_resumed", j.JobID, "supervisor", map[string]any{"agent": j.Agent}); err != nil {
			return err
		}
		if err := c.putJob(tx, j); err != nil {
			return err
		}
	}
	if in != nil {
		if err := tx.AppendInput(in); err != nil {
			return err
		}
	}
	return s.putRun(tx, c, rec)
}

// settleCut closes the inputs whose turns went with an agent's engine.
func (s *Supervisor) settleCut(tx *store.Tx, ref string) error {
	list, err := tx.Inputs(ref)
	if err != nil {
		return err
	}
	now := s.cfg.now().UTC()
	for _, in := range list {
		if in.State != store.InputApplied {
			continue
		}
		in.State, in.EndedAt = store.InputTurnLost, &now
		if err := tx.PutInput(in); err != nil {
			return err
		}
	}
	return nil
}

// revive gives an agent run an actor that brings its processes up again.
func (s *Supervisor) revive(rec *store.AgentRun, role profile.Agent) *agent {
	a := s.newAgent(rec, role)
	a.start((*agent).comeBack)
	return a
}

// comeBack starts worktree, host and engine of an agent that has no processes,
// opens its thread and sends what waits for it.
func (a *agent) comeBack(ctx context.Context) error {
	err := a.prepareWorktree(ctx)
	if err == nil {
		err = a.startHost(ctx)
	}
	if err == nil {
		err = a.launchEngine(ctx)
	}
	a.signalLaunched(err)
	if err != nil {
		return err
	}
	state, err := a.openThread(ctx)
	if err != nil {
		return err
	}
	return a.reconcile(ctx, state, engineNew)
}
