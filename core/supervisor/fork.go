package supervisor

import (
	"context"
	"errors"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// fork begins a new job on a copy of a job's thread. The order is the source's:
// it takes the next revision there, whatever becomes of it.
func (s *Supervisor) fork(ctx context.Context, t target, o *order) (map[string]any, error) {
	if run := s.runNow(t.ref); run.ThreadID == "" || run.ActiveTurnID != "" {
		return nil, core.Errorf(core.KindRuntime, "job %s can't be forked: it has no thread at rest", t.jobID).
			WithRemedy("fork it once its turn has ended, or interrupt it first")
	}
	if err := s.reserveOrder(ctx, t, o); err != nil {
		return nil, err
	}
	result, err := s.forkJob(ctx, t, o)
	// What became of it is on record even when the caller has left meanwhile.
	return result, errors.Join(err, s.settleOrder(context.WithoutCancel(ctx), t, o, err))
}

// forkJob admits and launches the copy as any job of its source's spawner.
func (s *Supervisor) forkJob(ctx context.Context, t target, o *order) (map[string]any, error) {
	source, err := s.cachedJob(t.jobID)
	if err != nil {
		return nil, err
	}
	spawner := s.spawnerOf(source)
	members, err := s.draftJobs(spawner, []control.SpawnSpec{{
		Agent: source.Agent, Task: o.input, TaskKind: source.TaskKind, Mode: source.Mode, WriteScope: source.WriteScope,
	}})
	if err != nil {
		s.discard(members)
		return nil, err
	}
	j := members[0].job
	j.ForkSourceJobID, j.ForkThreadID = source.JobID, s.runNow(t.ref).ThreadID
	batch, _, err := s.admitMembers(ctx, spawner, "", members)
	if err != nil {
		return nil, err
	}
	if err := s.launchBatch(ctx, batch); err != nil {
		return nil, err
	}
	return map[string]any{
		"job_id": j.JobID, "agent_run_ref": j.AgentRef, "fork_source_job_id": j.ForkSourceJobID, "fork_thread_id": j.ForkThreadID,
	}, nil
}

// spawnerOf is the agent that a job was given by.
func (s *Supervisor) spawnerOf(j *store.Job) access.Caller {
	ref := s.cachedSession().RootAgentRef
	if parent, err := s.cachedJob(j.ParentJobID); err == nil {
		ref = parent.AgentRef
	}
	run := s.runNow(ref)
	return s.agentCaller(&run)
}

// reserveOrder takes an agent's next revision for an order that the supervisor
// carries out itself.
func (s *Supervisor) reserveOrder(ctx context.Context, t target, o *order) error {
	var failed error
	a, err := s.inActor(ctx, t.ref, func(ctx context.Context, a *agent) { failed = a.reserve(ctx, o) })
	if err != nil || a != nil {
		return errors.Join(err, failed)
	}
	return s.commit(ctx, func(tx *store.Tx, c *change) error {
		rec, err := s.reserveCold(tx, c, t, o)
		if err != nil {
			return err
		}
		return s.putRun(tx, c, rec)
	})
}

// settleOrder records what became of it.
func (s *Supervisor) settleOrder(ctx context.Context, t target, o *order, cause error) error {
	var failed error
	a, err := s.inActor(ctx, t.ref, func(ctx context.Context, a *agent) { failed = a.settle(ctx, o.revision, cause) })
	if err != nil || a != nil {
		return errors.Join(err, failed)
	}
	status, text := outcomeOfOrder(cause)
	return s.commit(ctx, func(tx *store.Tx, c *change) error {
		rec, err := tx.AgentRun(t.ref)
		if err != nil {
			return err
		}
		if rec.ControlRevision == o.revision {
			rec.LastControlStatus = status
		}
		if _, err := tx.SettleControl(t.ref, o.revision, status, text, s.cfg.now().UTC()); err != nil {
			return err
		}
		return s.putRun(tx, c, rec)
	})
}
