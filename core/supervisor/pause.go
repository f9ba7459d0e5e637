package supervisor

import (
	"context"
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// pausedText is kept in the partial results of a cold pause.
const pausedText = "paused with its session"

// PauseSession retires every process of the session and keeps every thread.
// What ends meanwhile has ended: a pause never overwrites an end.
func (s *Supervisor) PauseSession(ctx context.Context, call control.Call, _ control.PauseRequest) (*control.PauseResponse, error) {
	unlock, err := s.beginVerb(ctx, call, control.VerbSessionPause)
	if err != nil {
		return nil, err
	}
	defer unlock()
	rec := s.cachedSession()
	if rec.Status == core.SessionPaused && s.resting() {
		return &control.PauseResponse{Session: *s.SessionView(), AffectedJobs: orEmpty(rec.PausedJobIDs)}, nil
	}
	live := rec.Status == core.SessionPaused // its root was only interrupted
	if !rec.Status.Admitting() && !live || s.runNow(rec.RootAgentRef).ThreadID == "" {
		return nil, core.Errorf(core.KindRuntime, "cannot pause session from status %s", rec.Status).
			WithRemedy("a session can be paused once its root has a thread; see `codex-mmo status %s`", s.session)
	}
	if err := s.beginPause(ctx); err != nil {
		return nil, err
	}
	if err := s.finishPause(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	rec = s.cachedSession()
	answer := &control.PauseResponse{Session: *s.SessionView(), AffectedJobs: orEmpty(rec.PausedJobIDs)}
	s.leaveAfterVerb()
	return answer, nil
}

// beginPause records the intent: from here on a crash is followed by the rest of
// the pause.
func (s *Supervisor) beginPause(ctx context.Context) error {
	return s.commit(ctx, func(tx *store.Tx, c *change) error {
		rec, err := tx.Session(s.session)
		if err != nil || rec.Status.Terminal() {
			return err
		}
		if err := s.audit(tx, "session_pausing", "", "operator", nil); err != nil {
			return err
		}
		rec.ColdPausePending, rec.PausedJobIDs = true, nil
		if err := c.putSession(tx, rec); err != nil {
			return err
		}
		jobs, err := tx.Jobs(store.JobFilter{SessionID: s.session, Strict: true})
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if j.Status.Terminal() || j.Status == core.JobSuspended || j.Status == core.JobCancelling {
				continue
			}
			j.ColdPausePending = true
			if err := c.noteJob(tx, j); err != nil {
				return err
			}
		}
		return nil
	})
}

// finishPause retires what lives and publishes the pause. It may be repeated
// after a crash at any point.
func (s *Supervisor) finishPause(ctx context.Context) error {
	if err := s.killAll(ctx, &killReason{status: core.JobPaused, text: pausedText}); err != nil {
		return err
	}
	s.releaseGateway(ctx)
	ended := false
	err := s.commit(ctx, func(tx *store.Tx, c *change) error {
		rec, err := tx.Session(s.session)
		if err != nil || rec.Status.Terminal() {
			return err
		}
		rec.ColdPausePending = false
		paused, err := s.settlePausedJobs(tx, c)
		if err != nil {
			return err
		}
		rec.PausedJobIDs = slices.Compact(slices.Sorted(slices.Values(append(rec.PausedJobIDs, paused...))))
		// The root's last turn ended while it was being paused, and nothing else
		// is open: the session has ended.
		ended = rec.RootDone && rec.RootOutcome == string(core.SessionCompleted) && len(paused) == 0
		if !ended && rec.Status.CanBecome(core.SessionPaused) {
			rec.Status, rec.Client = core.SessionPaused, nil
			if err := s.audit(tx, "session_paused", "", "supervisor", map[string]any{"jobs": orEmpty(paused)}); err != nil {
				return err
			}
		}
		return c.putSession(tx, rec)
	})
	if err != nil || !ended {
		return err
	}
	return s.ending(func() error {
		return s.tearDown(ctx, core.SessionFinishing, core.SessionCompleted, endOf(core.SessionCompleted), nil)
	})
}

// settlePausedJobs clears the marks of a pause and lists the jobs that it
// paused.
func (s *Supervisor) settlePausedJobs(tx *store.Tx, c *change) ([]string, error) {
	jobs, err := tx.Jobs(store.JobFilter{SessionID: s.session, Strict: true})
	if err != nil {
		return nil, err
	}
	var paused []string
	for _, j := range jobs {
		if !j.ColdPausePending {
			continue
		}
		j.ColdPausePending = false
		if j.Status == core.JobPaused {
			paused = append(paused, j.JobID)
		}
		if err := c.noteJob(tx, j); err != nil {
			return nil, err
		}
	}
	return paused, nil
}

// beginVerb lets the operator use a verb that changes the session as a whole:
// one at a time.
func (s *Supervisor) beginVerb(ctx context.Context, call control.Call, verb string) (unlock func(), err error) {
	if _, err := s.admit(ctx, call, verb, nil); err != nil {
		return nil, err
	}
	if s.ambient() && verb != control.VerbJoin {
		return nil, s.errClientLeads()
	}
	return s.lockSession(ctx)
}

// lockSession lets one verb at a time change what the session as a whole is at.
// One that waited behind another which left nothing to supervise is for the next
// supervisor.
func (s *Supervisor) lockSession(ctx context.Context) (unlock func(), err error) {
	unlock, err = s.lifecycle.lock(ctx, lifecycleKey)
	if err == nil && s.life.Err() != nil && !s.cachedSession().Status.Terminal() {
		unlock()
		return nil, errGoingDown()
	}
	return unlock, err
}

// leaveAfterVerb ends a supervisor that has nothing left to supervise. The
// answer of the verb under way still goes out.
func (s *Supervisor) leaveAfterVerb() {
	if s.cachedSession().Status.Terminal() || s.resting() {
		s.tell()
		s.end(errEnded)
	}
}
