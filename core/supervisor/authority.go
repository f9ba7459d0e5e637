package supervisor

import (
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// agentCaller is an agent of ours as a caller, with what its role was granted.
func (s *Supervisor) agentCaller(rec *store.AgentRun) access.Caller {
	role := s.snap.Agents[rec.Agent]
	c := access.Caller{
		Role: access.RoleWorker, Agent: rec.Agent, AgentRef: rec.AgentRef, JobID: rec.JobID, ThreadID: rec.ThreadID,
		Grants: access.Grants{
			Spawns: s.snap.CanDelegate(rec.Agent), WholeSession: role.Visibility == profile.VisibilitySession, Controls: role.Controls,
		},
	}
	if rec.JobID == "" {
		c.Role = access.RoleRoot
		return c
	}
	if j, err := s.cachedJob(rec.JobID); err == nil {
		c.Chain = s.chain(j)
	}
	return c
}

// state is what rights depend on of the session.
func (s *Supervisor) state() access.State {
	rec := s.cachedSession()
	return access.State{Status: rec.Status, Tainted: rec.Tainted}
}

// target describes a job to the rights.
func (s *Supervisor) target(j *store.Job) access.Job {
	if j == nil {
		return access.Job{}
	}
	return access.Job{JobID: j.JobID, AgentRef: j.AgentRef, Agent: j.Agent, ParentChain: s.chain(j)}
}

// chain lists the agent refs above a job, its own spawner first, the root last.
func (s *Supervisor) chain(j *store.Job) (refs []string) {
	for parent := j.ParentJobID; parent != ""; {
		p, err := s.cachedJob(parent)
		if err != nil {
			break
		}
		refs = append(refs, p.AgentRef)
		parent = p.ParentJobID
	}
	return append(refs, s.cachedSession().RootAgentRef)
}
