package supervisor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// compactTimeout bounds a compaction: one request to the root's model.
const compactTimeout = 10 * time.Minute

// CompactSession shortens the context of a paused session's root. The root comes
// up for it alone, held, and is retired again: the session stays paused.
func (s *Supervisor) CompactSession(ctx context.Context, call control.Call, _ control.CompactRequest) (*control.SessionView, error) {
	unlock, err := s.beginVerb(ctx, call, control.VerbSessionCompact)
	if err != nil {
		return nil, err
	}
	defer unlock()
	rec := s.cachedSession()
	if rec.Status != core.SessionPaused || !s.resting() {
		return nil, core.Errorf(core.KindRuntime, "session %s is %s: only a paused one can be compacted", s.session, rec.Status).
			WithRemedy("pause it first: codex-mmo pause %s", s.session)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), compactTimeout)
	defer cancel()
	failed := s.compactRoot(ctx)
	if err := s.restAgain(context.WithoutCancel(ctx)); err != nil {
		failed = errors.Join(failed, err)
	}
	err = s.updateSession(context.WithoutCancel(ctx), func(tx *store.Tx, rec *store.Session) error {
		rec.ColdPausePending = false
		if failed != nil {
			rec.CompactionError = failed.Error()
			return s.audit(tx, "root_compaction_failed", "", "supervisor", map[string]any{"error": failed.Error()})
		}
		now := s.cfg.now().UTC()
		rec.CompactedAt, rec.CompactionError = &now, ""
		return s.audit(tx, "root_compacted", "", "operator", nil)
	})
	if err == nil && failed != nil {
		err = core.Errorf(core.KindRuntime, "the root could not be compacted; session %s is safely cold-paused: %w", s.session, failed).
			WithRemedy("nothing is lost: mend the cause and try again, or continue the session")
	}
	view := s.SessionView()
	s.leaveAfterVerb()
	return view, err
}

// compactRoot brings the root up, has its context shortened, and waits for it.
func (s *Supervisor) compactRoot(ctx context.Context) error {
	var root *store.AgentRun
	err := s.commitAdmission(ctx, func(tx *store.Tx, c *change) (err error) {
		if root, err = tx.AgentRun(s.cachedSession().RootAgentRef); err != nil {
			return err
		}
		rec, err := tx.Session(s.session)
		if err != nil {
			return err
		}
		if err := admitRoot(tx, rec, s.snap); err != nil {
			return err
		}
		rec.ColdPausePending = true // a crash is followed by the rest of a pause
		if err := c.putSession(tx, rec); err != nil {
			return err
		}
		if err := s.recordReturn(tx, c, root, nil, nil); err != nil {
			return err
		}
		root.Holding = true
		return s.putRun(tx, c, root)
	})
	if err != nil {
		return err
	}
	if err := s.openWays(ctx); err != nil {
		return err
	}
	role, err := s.snapshotAgent(root.Agent)
	if err != nil {
		return err
	}
	a := s.revive(root, role)
	compacted := make(chan error, 1)
	var failed error
	err = a.do(ctx, func(ctx context.Context) { // once it has come back
		if a.done || a.host == nil {
			failed = cmp.Or[error](a.launchError(), core.Errorf(core.KindRuntime, "its engine did not come up: %s", s.cachedSession().Error))
			return
		}
		a.compacted = compacted
		failed = a.compactNow(ctx)
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	select {
	case err := <-compacted:
		return err
	case <-a.ended:
		return core.Errorf(core.KindAppServer, "the root ended while its context was being shortened")
	case <-ctx.Done():
		return core.Errorf(core.KindRuntime, "the compaction took longer than %s", compactTimeout)
	}
}

// restAgain retires what a paused session had up for a while.
func (s *Supervisor) restAgain(ctx context.Context) error {
	err := s.killAll(ctx, &killReason{status: core.JobPaused, text: pausedText})
	s.releaseGateway(ctx)
	s.gw.Store(nil)
	return err
}
