package supervisor

import (
	"cmp"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// Accept records that a result that was read is taken.
func (s *Supervisor) Accept(ctx context.Context, call control.Call, r control.DispositionRequest) (*control.DispositionResponse, error) {
	return s.dispose(ctx, call, control.VerbAccept, r, core.ResultAccepted)
}

// Reject records that a result that was read is refused.
func (s *Supervisor) Reject(ctx context.Context, call control.Call, r control.DispositionRequest) (*control.DispositionResponse, error) {
	return s.dispose(ctx, call, control.VerbReject, r, core.ResultRejected)
}

// dispose moves a result from read to accepted or rejected. A repeat of the
// same answer is the same answer.
func (s *Supervisor) dispose(ctx context.Context, call control.Call, verb string, r control.DispositionRequest, to core.ResultState) (*control.DispositionResponse, error) {
	caller, err := s.admitReason(ctx, call, verb, r.JobID, r.Reason)
	if err != nil {
		return nil, err
	}
	if err := s.proveEvidence(r.JobID); err != nil {
		return nil, err
	}
	err = s.updateJob(ctx, r.JobID, func(tx *store.Tx, j *store.Job) error {
		if j.ResultState == to {
			return errUnchanged
		}
		if j.ResultState != core.ResultRead {
			return core.Errorf(core.KindRuntime, "the result must be read before it is %s; it is %q", to, j.ResultState).
				WithRemedy("read it with agent_result first")
		}
		j.ResultState = to
		return s.audit(tx, "agent_result_"+string(to), j.JobID, callerName(caller), map[string]any{
			"reason": r.Reason, "result_sha256": j.Result.SHA256,
		})
	})
	if err != nil {
		return nil, err
	}
	j, err := s.cachedJob(r.JobID)
	if err != nil {
		return nil, err
	}
	return &control.DispositionResponse{Job: s.jobView(j)}, nil
}

// proveEvidence refuses to decide over a job whose result or patch is not what
// was recorded.
func (s *Supervisor) proveEvidence(job string) error {
	j, err := s.cachedJob(job)
	if err != nil {
		return err
	}
	refs := []store.FileRef{j.Result}
	if j.Contract != nil {
		refs = append(refs, j.Contract.Structured)
	}
	if j.Patch != nil {
		refs = append(refs, j.Patch.File)
	}
	for _, ref := range refs {
		if ref.Name == "" {
			continue
		}
		if _, err := store.ReadPublished(s.cfg.Folders.JobDir(job), ref, maxEvidenceBytes); err != nil {
			return err
		}
	}
	return nil
}

// maxEvidenceBytes bounds a file that a decision rests on.
const maxEvidenceBytes = 1 << 30

// admitReason admits a call about a job that must say why.
func (s *Supervisor) admitReason(ctx context.Context, call control.Call, verb, job, reason string) (access.Caller, error) {
	if n := utf8.RuneCountInString(reason); n > maxReason || strings.TrimSpace(reason) == "" {
		return access.Caller{}, core.Errorf(core.KindValue, "a reason has 1 to at most %d characters", maxReason).WithRemedy("say in one sentence why")
	}
	caller, _, err := s.admitJob(ctx, call, verb, job)
	return caller, err
}

// callerName is how the audit trail names a caller.
func callerName(c access.Caller) string { return cmp.Or(c.Agent, string(c.Role)) }
