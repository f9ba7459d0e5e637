package supervisor

import (
	"cmp"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// DetachSession takes the client's interest from the session. Nothing is ended:
// root and workers go on.
func (s *Supervisor) DetachSession(ctx context.Context, call control.Call, r control.DetachRequest) (*control.SessionView, error) {
	unlock, err := s.beginVerb(ctx, call, control.VerbSessionDetach)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := checkReason(r.Reason); err != nil {
		return nil, err
	}
	rec := s.cachedSession()
	if rec.Status.Terminal() || rec.Status == core.SessionDetached {
		return s.SessionView(), nil
	}
	if s.resting() || !rec.Status.Admitting() && rec.Status != core.SessionStarting {
		return nil, core.Errorf(core.KindRuntime, "session %s is %s: nobody waits for it", s.session, rec.Status)
	}
	if s.runNow(rec.RootAgentRef).ThreadID == "" {
		return nil, core.Errorf(core.KindRuntime, "session %s can't be detached before the persistent root thread exists", s.session).
			WithRemedy("wait until it is running")
	}
	if err := s.detach(ctx, r.Reason, "operator"); err != nil {
		return nil, err
	}
	return s.SessionView(), nil
}

// detach records that nobody waits for the session any more, and why, with what
// the root has said so far. A failure that a client was to decide about suspends
// the session now.
func (s *Supervisor) detach(ctx context.Context, reason, caller string) error {
	var ref store.FileRef
	if reason != "" { // without one there is nothing to keep
		said, err := s.rootSaid()
		if err != nil {
			return err
		}
		if ref, err = s.rootPartial(reason, said); err != nil {
			return err
		}
	}
	return s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		if !rec.Status.Admitting() && rec.Status != core.SessionStarting {
			return errUnchanged
		}
		rec.Client = nil
		if ref.Name != "" && rec.RootResultKind != string(core.ResultFinal) {
			rec.RootResult, rec.RootResultKind = ref, string(core.ResultPartial)
		}
		if rec.Failure != nil && rec.Failure.Retryable {
			rec.RootDone, rec.RootOutcome = true, string(core.SessionSuspended)
		} else if rec.Status.CanBecome(core.SessionDetached) {
			rec.Status = core.SessionDetached
		}
		return s.audit(tx, "session_detached", "", caller, map[string]any{"reason": reason})
	})
}

// rootSaid returns the root's last words so far; empty: it has said nothing.
func (s *Supervisor) rootSaid() (string, error) {
	return lastMessage(s.cfg.Folders.SessionDir(s.session) + "/root-events.jsonl")
}

// rootPartial publishes what the root has said so far, under a reason for which
// that is all.
func (s *Supervisor) rootPartial(reason, said string) (store.FileRef, error) {
	text := "# Partial result\n\nThe root has not ended: " + reason + ".\n"
	if said != "" {
		text += "\nIts last words so far:\n\n" + said + "\n"
	}
	return store.Publish(s.cfg.Folders.SessionDir(s.session), "root-partial-result.md", []byte(text))
}

// CancelSession ends the session at once: what is at work is cut off. The intent
// is published before anything else is waited for.
func (s *Supervisor) CancelSession(ctx context.Context, call control.Call, r control.CancelSessionRequest) (*control.SessionView, error) {
	if _, err := s.admit(ctx, call, control.VerbSessionCancel, nil); err != nil {
		return nil, err
	}
	if err := checkReason(r.Reason); err != nil {
		return nil, err
	}
	if s.cachedSession().Status.Terminal() {
		return s.SessionView(), nil
	}
	why := &killReason{status: core.JobCancelled, text: cmp.Or(r.Reason, "the session was cancelled")}
	err := s.commit(ctx, func(tx *store.Tx, c *change) error {
		return s.beginEnd(tx, c, core.SessionCancelling, core.SessionCancelled, why, func(tx *store.Tx, _ *store.Session) error {
			return s.audit(tx, "session_cancelling", "", "operator", map[string]any{"reason": r.Reason})
		})
	})
	if err != nil {
		return nil, err
	}
	unlock, err := s.lockSession(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = s.ending(func() error { return s.tearDown(ctx, core.SessionCancelling, core.SessionCancelled, why, nil) })
	return s.SessionView(), err
}

// TaintSession marks that isolation or integration could not be guaranteed: the
// session delegates and integrates no more.
func (s *Supervisor) TaintSession(ctx context.Context, call control.Call, r control.TaintRequest) (*control.SessionView, error) {
	if _, err := s.admit(ctx, call, control.VerbSessionTaint, nil); err != nil {
		return nil, err
	}
	if strings.TrimSpace(r.Reason) == "" {
		return nil, core.Errorf(core.KindValue, "a taint needs a reason")
	}
	if err := checkReason(r.Reason); err != nil {
		return nil, err
	}
	err := s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error { return s.taint(tx, rec, "", r.Reason, "operator") })
	return s.SessionView(), err
}

// taint marks the session within tx.
func (s *Supervisor) taint(tx *store.Tx, rec *store.Session, job, reason, caller string) error {
	rec.Tainted = true
	rec.TaintReasons = append(rec.TaintReasons, store.TaintReason{At: s.cfg.now().UTC(), JobID: job, Reason: reason})
	return s.audit(tx, "session_tainted", job, caller, map[string]any{"reason": reason})
}

// checkReason bounds what a caller gives as a reason.
func checkReason(text string) error {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxReason {
		return core.Errorf(core.KindValue, "a reason must be at most %d characters of valid UTF-8", maxReason)
	}
	return nil
}
