package supervisor

import (
	"cmp"
	"context"
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// admissionView gathers what a decision depends on, within its transaction.
func (s *Supervisor) admissionView(tx *store.Tx, caller access.Caller) (admission.View, error) {
	rec, err := tx.Session(s.session)
	if err != nil {
		return admission.View{}, err
	}
	holders, err := tx.Accounting()
	if err != nil {
		return admission.View{}, err
	}
	c := s.snap.Coordination
	v := admission.View{
		SessionID: s.session, ProfileID: rec.ProfileID, SessionStatus: rec.Status,
		Limits:  admission.Limits{MaxDepth: c.MaxDepth, MaxActiveAgents: c.MaxActiveAgents, MaxWriters: c.MaxActiveWriters},
		Agents:  s.roles(rec),
		Holders: admission.Counting(holders, alive),
	}
	if rec.ColdPausePending {
		v.SessionStatus = core.SessionPaused // as it is about to be
	}
	if v.Purse, err = s.purse(tx, rec); err != nil {
		return v, err
	}
	v.Caller, err = callerOf(tx, rec, caller)
	return v, err
}

func alive(p store.Process) bool { return identityOf(p).Alive() }

// lives reports whether an agent run has a process.
func lives(run *store.AgentRun) bool { return alive(run.Host.Process) || alive(run.Engine) }

// callerOf finds the roles above a caller. A native agent is one level below
// the agent that started it.
func callerOf(tx *store.Tx, rec *store.Session, caller access.Caller) (admission.Caller, error) {
	c := admission.Caller{Agent: caller.Agent}
	for id := caller.JobID; id != ""; {
		j, err := tx.Job(id)
		if err != nil {
			return c, err
		}
		if id == caller.JobID {
			c.Depth, c.JobStatus = j.Depth, j.Status
		}
		c.Ancestors = append(c.Ancestors, j.Agent)
		id = j.ParentJobID
	}
	c.Ancestors = append(c.Ancestors, rec.RootAgent)
	if caller.Role == access.RoleNative {
		c.Depth += 1 + len(caller.Between)
		c.Ancestors = slices.Concat([]string{caller.Agent}, caller.Between, c.Ancestors)
	}
	return c, nil
}

// roles describes the team to admission.
func (s *Supervisor) roles(rec *store.Session) map[string]admission.Agent {
	roles := make(map[string]admission.Agent, len(s.snap.Agents))
	for id, a := range s.snap.Agents {
		role := admission.Agent{
			CanSpawn: s.snap.MeshTargets(id), TaskKinds: a.TaskKinds, Permissions: a.Permissions, LowTrust: a.Trust == profile.TrustLow,
			WriteScopeRequired: a.WriteScopeRequired, MaxActive: a.MaxActive, Resource: resourceOf(s.snap, a),
			GoalTokens: a.GoalTokenBudget, Unpriced: s.snap.Unpriced(a.Model),
		}
		if route, known := rec.RouteAvailability[a.Route]; known && !route.Available {
			role.Unavailable = cmp.Or(route.Reason, "route "+a.Route+" is unavailable")
		}
		roles[id] = role
	}
	return roles
}

// resourceOf is the capacity that one agent of a role occupies.
func resourceOf(snap *profile.Snapshot, a profile.Agent) admission.Resource {
	r, limited := snap.Resources[snap.Routes[a.Route].Resource]
	if !limited {
		return admission.Resource{}
	}
	return admission.Resource{ID: r.ID, LockKey: r.LockKey, Units: max(1, snap.Models[a.Model].Units), Max: r.MaxActive}
}

// admitRoot decides whether the root of a session that begins, or that is taken
// up again, may have the capacity of its route, within the transaction that
// records it.
func admitRoot(tx *store.Tx, rec *store.Session, snap *profile.Snapshot) error {
	if rec.Kind == KindAmbient {
		return nil // its model is the client's own
	}
	r := resourceOf(snap, snap.Agents[snap.RootAgent])
	rec.RootLockKey, rec.RootUnits = r.LockKey, r.Units
	holders, err := tx.Accounting()
	if err != nil {
		return err
	}
	return admission.DecideRoot(admission.Counting(holders, alive), rec.RootAgentRef, r)
}

// readmit decides whether a job without processes may have its capacity back,
// and gives it its part of the budget. goal is what its goal may take, in tokens;
// 0: as its role says.
func (s *Supervisor) readmit(tx *store.Tx, j *store.Job, goal int64) error {
	view, err := s.admissionView(tx, access.Caller{Agent: s.snap.RootAgent})
	if err != nil {
		return err
	}
	j.Reserved, err = admission.DecideContinue(view, j.AgentRef, admission.Request{
		Agent: j.Agent, TaskKind: j.TaskKind, Mode: j.Mode, HasTask: true, GoalTokens: goal,
		Scope: admission.Scope{Named: true, Paths: j.Lease.Paths, FoldsCase: j.Lease.FoldsCase},
	})
	return err
}

// maxReconciled bounds how many sessions one admission may find dead.
const maxReconciled = 8

// commitAdmission is commit for a transaction that admits. When it is refused
// because of holders of other sessions that are dead, these are released and it
// is decided again.
func (s *Supervisor) commitAdmission(ctx context.Context, fn func(tx *store.Tx, c *change) error) error {
	return admitAgain(ctx, s.cfg, s.session, func() error { return s.commit(ctx, fn) })
}

// admitAgain runs a decision of a session, and again after the dead holders that
// it names were released.
func admitAgain(ctx context.Context, cfg *Config, own string, decide func() error) error {
	tried := map[string]bool{own: true}
	for {
		err := decide()
		refused, ok := asAdmission(err)
		if !ok {
			return err
		}
		released := false
		for _, h := range refused.Holders {
			if tried[h.SessionID] || len(tried) > maxReconciled {
				continue
			}
			tried[h.SessionID] = true
			changed, err := releaseDead(ctx, cfg, h.SessionID)
			if err != nil {
				cfg.Log.Warn("a session whose processes seem to be dead can't be reconciled; it counts", "session", h.SessionID, "err", err)
			}
			released = released || changed
		}
		if !released {
			return err
		}
	}
}

func asAdmission(err error) (*core.Error, bool) {
	e, ok := err.(*core.Error) //nolint:errorlint // a decision is returned as it is
	return e, ok && e.Kind == core.KindAdmission
}
