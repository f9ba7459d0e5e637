package supervisor

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// watchRoot wakes an idle root when its workers have something to tell, and
// ends a session without a screen once its root is done, no job of it works any
// more, and the root was told of all of them.
func (s *Supervisor) watchRoot(ctx context.Context) {
	for ctx.Err() == nil {
		changed := s.changes()
		moved, err := s.nextForRoot(ctx)
		if err != nil {
			if ctx.Err() == nil {
				s.fatal(err)
			}
			return
		}
		if moved {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// nextForRoot makes the one move that is due now, if any.
func (s *Supervisor) nextForRoot(ctx context.Context) (moved bool, err error) {
	rec := s.cachedSession()
	if !rec.Status.Admitting() {
		return false, nil
	}
	over := rec.RootDone && rec.RootOutcome != "" // failed or suspended, or nobody is there to go on
	failed := over && rec.RootOutcome != string(core.SessionCompleted)
	if news := s.news(); len(news) > 0 && !failed && s.mayWake(rec) {
		return s.wake(ctx, news)
	}
	if !over {
		return false, nil
	}
	active := s.activeJobs()
	if len(active) == 0 || rec.RootOutcome == string(core.SessionFailed) {
		s.complete(ctx, rec)
		return false, nil
	}
	if rec.Deferred {
		return false, nil
	}
	return true, s.deferCompletion(ctx, active)
}

// deferCompletion keeps the session open for workers that still work.
func (s *Supervisor) deferCompletion(ctx context.Context, active []string) error {
	return s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		rec.Deferred = true
		return s.audit(tx, "root_completion_deferred", "", "supervisor", map[string]any{"jobs": active})
	})
}

// activeJobs lists the jobs that are not over and can go on by themselves.
func (s *Supervisor) activeJobs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, j := range s.jobs {
		if !j.Status.Terminal() && j.Status != core.JobSuspended && j.Status != core.JobPaused {
			ids = append(ids, id)
		}
	}
	return ids
}

// complete ends the session as its root ended.
func (s *Supervisor) complete(ctx context.Context, rec *store.Session) {
	outcome := core.SessionStatus(rec.RootOutcome)
	if outcome == core.SessionSuspended {
		s.suspend(ctx)
		return
	}
	s.tearing.Do(func() {
		if err := s.tearDown(ctx, core.SessionFinishing, outcome, &killReason{status: core.JobCancelled, text: "the session ended"}); err != nil && ctx.Err() == nil {
			s.fatal(err)
		}
	})
}

// suspend leaves the session to a later resume. Its living engine is kept and
// recorded; nothing is left to supervise until then.
func (s *Supervisor) suspend(ctx context.Context) {
	err := s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		if rec.Status == core.SessionSuspended {
			return errUnchanged
		}
		rec.Status = core.SessionSuspended
		return s.audit(tx, "session_suspended", "", "supervisor", map[string]any{"error": rec.Error})
	})
	if err != nil {
		if ctx.Err() == nil {
			s.fatal(err)
		}
		return
	}
	if !s.rootEngineLives() {
		s.gw.release(ctx)
	}
	close(s.told)
	s.end(errEnded)
}

// rootEngineLives reports whether the root's engine was kept for a resume.
func (s *Supervisor) rootEngineLives() bool {
	s.mu.Lock()
	ref := s.sess.RootAgentRef
	a, rec := s.agents[ref], s.runs[ref]
	s.mu.Unlock()
	if a != nil {
		return identityOf(a.snapshot().Engine).Alive()
	}
	return rec != nil && identityOf(rec.Engine).Alive()
}

// tearDown publishes the intermediate status, retires every agent, releases
// the gateway and publishes the terminal status. It is safe to repeat after a
// crash at any point.
func (s *Supervisor) tearDown(ctx context.Context, during, final core.SessionStatus, reason *killReason) error {
	err := s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		if rec.Status == during || !rec.Status.CanBecome(during) {
			return errUnchanged
		}
		rec.Status = during
		if rec.RootOutcome == "" {
			rec.RootOutcome = string(final)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.killAgents(reason)
	if s.gw != nil {
		s.gw.release(ctx)
	}
	if err := s.removeCapabilities(); err != nil {
		return err
	}
	now := s.cfg.now().UTC()
	err = s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		rec.Status, rec.FinishedAt = final, &now
		rec.LastRunID, rec.CurrentRunID = s.runID, ""
		return s.audit(tx, "session_"+string(final), "", "supervisor", nil)
	})
	if err != nil {
		return err
	}
	s.cleanRuntime()
	close(s.told)
	s.end(errEnded)
	return nil
}

// killAgents retires all agents side by side and waits for them.
func (s *Supervisor) killAgents(reason *killReason) {
	s.mu.Lock()
	list := make([]*agent, 0, len(s.agents))
	for _, a := range s.agents {
		list = append(list, a)
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, a := range list {
		wg.Go(func() {
			a.kill(reason)
			<-a.ended
		})
	}
	wg.Wait()
}

// resumeEnding finishes an end that a crash interrupted.
func (s *Supervisor) resumeEnding(ctx context.Context, runs []*store.AgentRun) error {
	for _, rec := range runs {
		if rec.Retired {
			continue
		}
		role, err := s.snapshotAgent(rec.Agent)
		if err != nil {
			return err
		}
		a := s.newAgent(rec, role)
		a.kill(&killReason{status: core.JobCancelled, text: "the session ended"})
		a.start((*agent).nothing)
	}
	var err error
	if s.gw, err = s.openGateway(ctx); err != nil {
		s.log.Warn("the gateway can't be reached to release it", "err", err)
		s.gw = nil
	}
	status := s.cachedSession().Status
	final := core.SessionStatus(s.cachedSession().RootOutcome)
	if status == core.SessionCancelling {
		final = core.SessionCancelled
	}
	if !final.Terminal() {
		final = core.SessionStopped
	}
	s.tearing.Do(func() {
		err = s.tearDown(ctx, status, final, &killReason{status: core.JobCancelled, text: "the session ended"})
	})
	return err
}

// failLaunch records that the session can't be started or taken up again. A
// session that never ran fails; one that did is suspended, with its work kept.
func (s *Supervisor) failLaunch(ctx context.Context, cause error) error {
	final := core.SessionSuspended
	if s.cachedSession().Status == core.SessionStarting {
		final = core.SessionFailed
	}
	now := s.cfg.now().UTC()
	err := s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		rec.Status, rec.Error = final, cause.Error()
		if final.Terminal() {
			rec.FinishedAt, rec.LastRunID, rec.CurrentRunID = &now, s.runID, ""
		}
		return s.audit(tx, "session_"+string(final), "", "supervisor", map[string]any{"error": cause.Error()})
	})
	if err != nil {
		return errors.Join(cause, err)
	}
	close(s.told)
	s.end(errEnded)
	return nil
}

// sweepLaunches ends processes whose intent was recorded and whose identity
// was not: the crash came between exec and record.
func (s *Supervisor) sweepLaunches(ctx context.Context) error {
	var launches []*store.Launch
	err := s.store.View(ctx, func(tx *store.Tx) (err error) {
		launches, err = tx.Launches(store.LaunchFilter{SessionID: s.session})
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range launches {
		if l.EndedAt != nil || l.Process.PID != 0 {
			continue
		}
		dir := folderOf(s.cfg.Folders.RuntimeDir(s.session), l.LaunchID)
		if err := s.endUnrecorded(ctx, dir); err != nil {
			return err
		}
		now := s.cfg.now().UTC()
		l.EndedAt = &now
		err := s.commit(ctx, func(tx *store.Tx, _ *change) error { return tx.PutLaunch(l) })
		if err != nil {
			return err
		}
	}
	return nil
}

// endUnrecorded ends every process that was started for an instance folder.
func (s *Supervisor) endUnrecorded(ctx context.Context, dir string) error {
	list, err := process.WithEnv("MMO_PLUGIN_DIR", func(v string) bool { return v == dir })
	if err != nil {
		return err
	}
	for _, id := range list {
		if _, err := process.Retire(ctx, id, &process.RetireOptions{}); err != nil {
			return err
		}
	}
	return removeInstance(dir)
}

// removeInstance removes a plugin's runtime folder. A missing one is fine.
func removeInstance(dir string) error {
	if dir == "" || !strings.Contains(dir, "/h") && !strings.Contains(dir, "/g") {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return core.Errorf(core.KindOS, "removing the runtime folder of a plugin: %w", err)
	}
	return nil
}

// cleanRuntime removes the session's runtime folder; the control socket goes
// with the server.
func (s *Supervisor) cleanRuntime() {
	entries, err := os.ReadDir(s.cfg.Folders.RuntimeDir(s.session))
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "h") || strings.HasPrefix(e.Name(), "e") {
			_ = os.RemoveAll(folderOf(s.cfg.Folders.RuntimeDir(s.session), e.Name())) // garbage without a row
		}
	}
}

// stopTimeout bounds the whole end of a session beyond the grace given.
const stopTimeout = 60 * time.Second
