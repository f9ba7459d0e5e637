package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// Integrate brings an accepted patch into the workspace, whole or not at all.
//
// The order holds at every crash: the intent is a row, then the journal, then
// the files, then the row that says so. What a crash leaves between the first
// row and the last is settled by the next supervisor (settleIntegrations).
func (s *Supervisor) Integrate(ctx context.Context, call control.Call, r control.IntegrateRequest) (*control.IntegrateResponse, error) {
	caller, err := s.admitReason(ctx, call, control.VerbIntegrate, r.JobID, r.Reason)
	if err != nil {
		return nil, err
	}
	s.integrating.Lock() // one at a time: each works on the tree that the one before left
	defer s.integrating.Unlock()
	if err := s.proveEvidence(r.JobID); err != nil {
		return nil, err
	}
	j, err := s.beginIntegration(ctx, callerName(caller), r)
	if err != nil {
		return nil, err
	}
	if j.ResultState != core.ResultIntegrated {
		if err := s.integrate(ctx, j, r.AllowFlagged); err != nil {
			return nil, err
		}
		if j, err = s.finishIntegration(ctx, callerName(caller), j.JobID); err != nil {
			return nil, s.undoIntegration(context.WithoutCancel(ctx), r.JobID, err)
		}
	}
	return &control.IntegrateResponse{Job: s.jobView(j), ChangedPaths: j.Patch.Changed}, nil
}

// beginIntegration records the intent. An integrated job is returned as it is.
func (s *Supervisor) beginIntegration(ctx context.Context, caller string, r control.IntegrateRequest) (*store.Job, error) {
	err := s.updateJob(ctx, r.JobID, func(tx *store.Tx, j *store.Job) error {
		switch {
		case j.ResultState == core.ResultIntegrated:
			return errUnchanged
		case j.ResultState != core.ResultAccepted:
			return core.Errorf(core.KindRuntime, "the result must be accepted before its patch is integrated; it is %q", j.ResultState).
				WithRemedy("read it with agent_result, then accept it with agent_result_accept")
		case j.Patch == nil:
			return core.Errorf(core.KindRuntime, "job %s (%s) has no patch: %s", j.JobID, j.Status, cmp.Or(j.Error, "it was read-only"))
		case s.sess.Tainted:
			return core.Errorf(core.KindRuntime, "the session is tainted: its workspace may hold half a patch").
				WithRemedy("put the workspace right by hand; nothing more is integrated into it")
		}
		j.Integrating = true
		return s.audit(tx, "agent_patch_integrating", j.JobID, caller, map[string]any{
			"reason": r.Reason, "tree": j.Patch.Tree, "allow_flagged": r.AllowFlagged,
		})
	})
	if err != nil {
		return nil, err
	}
	return s.cachedJob(r.JobID)
}

func (s *Supervisor) journal(job string) string {
	return filepath.Join(s.cfg.Folders.JobDir(job), "integration")
}

// integrate applies the patch; when it fails the workspace is as before and the
// intent is taken back.
func (s *Supervisor) integrate(ctx context.Context, j *store.Job, allowFlagged bool) error {
	repo, err := s.repository(ctx)
	if err == nil {
		_, err = repo.Integrate(ctx, &workspace.Plan{
			Journal: s.journal(j.JobID), BaseTree: j.Patch.BaseTree, Tree: j.Patch.Tree, Scope: j.WriteScope, AllowFlagged: allowFlagged,
		})
	}
	if err == nil {
		return nil
	}
	return s.abandonIntegration(context.WithoutCancel(ctx), j.JobID, err)
}

// unsettled marks a failure to find out, or to put right, what the workspace
// holds.
type unsettled struct{ error }

func (e unsettled) Unwrap() error { return e.error }

// abandonIntegration takes the intent back after a failure. Only where the
// workspace is proven to be as it was may the intent be forgotten; otherwise it
// stays on record and the session is tainted.
func (s *Supervisor) abandonIntegration(ctx context.Context, job string, cause error) error {
	tainted := errors.Is(cause, workspace.ErrTaint) || errors.As(cause, new(unsettled))
	err := s.updateJob(ctx, job, func(tx *store.Tx, j *store.Job) error {
		j.Integrating = tainted // a later start must not think it settled
		j.Warning = "the patch was not integrated: " + cause.Error()
		return s.audit(tx, "agent_patch_not_integrated", job, "supervisor", map[string]any{"error": cause.Error()})
	})
	if tainted {
		lost := s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
			return s.taint(tx, rec, job, cause.Error(), "supervisor")
		})
		if lost != nil {
			err = errors.Join(err, fmt.Errorf("the taint marker also could not be persisted: %w", lost))
		}
	}
	return errors.Join(integrationError(cause), err)
}

// integrationError tells the caller what to do about a refused patch.
func integrationError(cause error) error {
	remedy := ""
	switch {
	case errors.Is(cause, workspace.ErrDirty):
		remedy = "commit or move the user's changes to these files, or reject the result"
	case errors.Is(cause, workspace.ErrFlagged):
		remedy = "look at these files; integrate with allow_flagged if they are wanted"
	case errors.Is(cause, workspace.ErrRefused), errors.Is(cause, workspace.ErrScope):
		remedy = "reject the result and say what the worker may change"
	case errors.Is(cause, workspace.ErrTaint), errors.As(cause, new(unsettled)):
		remedy = "the workspace needs manual repair; the session is durably tainted"
	}
	e := core.Errorf(core.KindRuntime, "the patch was not integrated: %w", cause)
	if remedy == "" {
		return e
	}
	return e.WithRemedy("%s", remedy)
}

// undoIntegration takes the files back after their integration could not be
// recorded: what no record vouches for must not stay.
func (s *Supervisor) undoIntegration(ctx context.Context, job string, cause error) error {
	repo, err := s.repository(ctx)
	if err == nil {
		_, err = repo.Undo(ctx, s.journal(job))
	}
	if err != nil {
		cause = unsettled{errors.Join(cause, err)}
	}
	return s.abandonIntegration(ctx, job, cause)
}

// finishIntegration records that the files are there, and drops what a roll
// back would have needed.
func (s *Supervisor) finishIntegration(ctx context.Context, caller, job string) (*store.Job, error) {
	err := s.updateJob(context.WithoutCancel(ctx), job, func(tx *store.Tx, j *store.Job) error {
		j.Integrating, j.ResultState, j.Warning = false, core.ResultIntegrated, ""
		return s.audit(tx, "agent_patch_integrated", job, caller, map[string]any{"tree": j.Patch.Tree, "paths": j.Patch.Total})
	})
	if err != nil {
		return nil, err
	}
	repo, err := s.repository(ctx)
	if err == nil {
		err = repo.Discard(ctx, s.journal(job))
	}
	if err != nil {
		s.log.Warn("the journal of an integration stays", "job", job, "err", err) // garbage, and harmless
	}
	return s.cachedJob(job)
}

// settleIntegrations makes the workspace old or new after a crash in the middle
// of an integration, and the record says which.
func (s *Supervisor) settleIntegrations(ctx context.Context) error {
	for _, j := range s.allJobs() {
		if !j.Integrating || s.cachedSession().Tainted {
			continue
		}
		repo, err := s.repository(ctx)
		if err != nil {
			return err
		}
		outcome, err := repo.Resume(ctx, s.journal(j.JobID))
		switch {
		case err != nil:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err = s.abandonIntegration(ctx, j.JobID, unsettled{err})
		case outcome.State == workspace.Applied:
			if _, err := s.finishIntegration(ctx, "supervisor", j.JobID); err != nil {
				return err
			}
		default:
			_ = s.abandonIntegration(ctx, j.JobID, errCrashed) // it says why, as an error for callers
			err = repo.Discard(ctx, s.journal(j.JobID))
		}
		if err != nil {
			s.log.Error("settling an integration after a crash", "job", j.JobID, "err", err)
		}
	}
	return nil
}

var errCrashed = errors.New("a crash cut it; the workspace is as it was before")
