package supervisor

import (
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/admission"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// readmit decides whether a job without processes may have its capacity back.
func (s *Supervisor) readmit(tx *store.Tx, j *store.Job) error {
	caller := access.Caller{Agent: s.snap.RootAgent}
	if parent, err := s.cachedJob(j.ParentJobID); err == nil {
		caller.Agent, caller.JobID = parent.Agent, parent.JobID
	}
	view, err := s.admissionView(tx, caller)
	if err != nil {
		return err
	}
	return admission.Decide(view, []admission.Request{{Agent: j.Agent, TaskKind: j.TaskKind, Mode: j.Mode, HasTask: true}})
}

// readmitRoot decides whether the session's root may have its capacity back.
func (s *Supervisor) readmitRoot(*store.Tx, *store.Session) error { return nil }
