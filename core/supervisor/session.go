package supervisor

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"sync"

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
	if rec.ColdPausePending || s.stopping.Load() {
		return false, nil // the pause or the stop publishes what has ended
	}
	outcome := core.SessionStatus(rec.RootOutcome)
	over := rec.RootDone && outcome != ""
	broken := over && outcome != core.SessionCompleted
	// A root that broke before its thread was open leaves a session that is
	// still starting.
	if !rec.Status.Admitting() && !(rec.Status == core.SessionStarting && broken) {
		return false, nil
	}
	if news := s.news(); len(news) > 0 && !broken {
		if s.mayWake(rec) {
			return s.wake(ctx, news)
		}
		if rec.Client != nil {
			return false, nil // whoever looks on is told in the next turn
		}
	}
	if !over || rec.Client != nil { // whoever looks on may go on
		return false, nil
	}
	active := s.activeJobs()
	if len(active) > 0 && outcome != core.SessionFailed {
		if rec.Deferred {
			return false, nil
		}
		return true, s.deferCompletion(ctx, active)
	}
	if outcome == core.SessionSuspended {
		return false, s.ending(func() error { return s.suspend(ctx) })
	}
	return false, s.ending(func() error {
		return s.tearDown(ctx, core.SessionFinishing, outcome, endOf(outcome), nil)
	})
}

// deferCompletion keeps the session open for workers that still work.
func (s *Supervisor) deferCompletion(ctx context.Context, active []string) error {
	return s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		rec.Deferred, rec.DeferredJobs = true, active
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

// endOf says what becomes of the jobs that a session's end finds.
func endOf(outcome core.SessionStatus) *killReason {
	if outcome == core.SessionStopped {
		return &killReason{status: core.JobStopped, text: "the session was stopped"}
	}
	return &killReason{status: core.JobCancelled, text: "the session ended"}
}

// ending runs one end of the session at a time. Once one has succeeded, others
// find the session over and do nothing; one that failed may be tried again.
func (s *Supervisor) ending(end func() error) error {
	s.endMu.Lock()
	defer s.endMu.Unlock()
	if s.over {
		return nil
	}
	if err := end(); err != nil {
		return err
	}
	s.over = true
	s.tell()
	s.end(errEnded)
	return nil
}

// tell ends the streams of those who follow the session, after its last status.
func (s *Supervisor) tell() { s.telling.Do(func() { close(s.told) }) }

// suspend leaves the session to a later resume. The root's living engine is
// kept and recorded; nothing is left to supervise until then.
func (s *Supervisor) suspend(ctx context.Context) error {
	err := s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		if rec.Status == core.SessionSuspended {
			return errUnchanged
		}
		rec.Status = core.SessionSuspended
		return s.audit(tx, "session_suspended", "", "supervisor", map[string]any{"error": rec.Error})
	})
	if err == nil && !s.rootEngineLives() {
		s.releaseGateway(ctx)
	}
	return err
}

func (s *Supervisor) releaseGateway(ctx context.Context) {
	if g := s.gw.Load(); g != nil {
		g.release(ctx)
	}
}

// rootEngineLives reports whether the root's engine was kept for a resume.
func (s *Supervisor) rootEngineLives() bool {
	return identityOf(s.runNow(s.cachedSession().RootAgentRef).Engine).Alive()
}

// tearDown publishes the intermediate status and what is to become of the jobs,
// retires every agent, releases the gateway and publishes the terminal status.
// It is safe to repeat after a crash at any point. more goes into the first
// transaction; it may be nil.
func (s *Supervisor) tearDown(ctx context.Context, during, final core.SessionStatus, reason *killReason, more func(*store.Tx, *store.Session) error) error {
	err := s.commit(ctx, func(tx *store.Tx, c *change) error { return s.beginEnd(tx, c, during, final, reason, more) })
	if err != nil {
		return err
	}
	if err := s.killAll(ctx, reason); err != nil {
		return err
	}
	s.releaseGateway(ctx)
	if err := s.revokeTokens(ctx, s.cachedSession().RootAgentRef, capCaller, capGateway); err != nil {
		return err
	}
	if err := s.removeCapabilities(); err != nil {
		return err
	}
	now := s.cfg.now().UTC()
	err = s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		rec.Status, rec.FinishedAt, rec.Client = final, &now, nil
		rec.LastRunID, rec.CurrentRunID = s.runID, ""
		return s.audit(tx, "session_"+string(final), "", "supervisor", reason.note)
	})
	if err == nil {
		s.cleanRuntime()
	}
	return err
}

func (s *Supervisor) beginEnd(tx *store.Tx, c *change, during, final core.SessionStatus, reason *killReason, more func(*store.Tx, *store.Session) error) error {
	rec, err := tx.Session(s.session)
	if err != nil || rec.Status.Terminal() {
		return err
	}
	if more != nil {
		if err := more(tx, rec); err != nil {
			return err
		}
	}
	rec.Status, rec.RootOutcome = during, string(final)
	if err := c.putSession(tx, rec); err != nil {
		return err
	}
	if reason.status != core.JobCancelled {
		return nil
	}
	jobs, err := tx.Jobs(store.JobFilter{SessionID: s.session, Strict: true})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.Status.Terminal() || j.Status == core.JobCancelling {
			continue
		}
		j.Status, j.CancelReason = core.JobCancelling, cmp.Or(j.CancelReason, reason.text)
		if err := c.putJob(tx, j); err != nil {
			return err
		}
	}
	return nil
}

// killAll retires every agent run that is not known to be gone, side by side,
// also those that have no actor (any more), and publishes the end of every job
// that has none.
func (s *Supervisor) killAll(ctx context.Context, reason *killReason) error {
	runs, err := s.loadRuns(ctx)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for _, rec := range runs {
		wg.Go(func() { s.killRun(rec, reason) })
	}
	wg.Wait()
	return nil
}

// killRun ends one agent run: its actor if it has one that works, else one that
// is made for it and finds itself killed.
func (s *Supervisor) killRun(rec *store.AgentRun, reason *killReason) {
	s.mu.Lock()
	a := s.agents[rec.AgentRef]
	s.mu.Unlock()
	if a != nil {
		a.kill(reason)
		<-a.ended
		run := a.snapshot()
		rec = &run
	}
	if rec.Retired && (s.jobOver(rec.JobID) || reason.status == core.JobPaused && s.jobRests(rec.JobID)) {
		return
	}
	role, err := s.snapshotAgent(rec.Agent)
	if err != nil {
		s.log.Error("an agent run of no role", "agent", rec.AgentRef, "err", err)
		return
	}
	a = s.newAgent(rec, role)
	a.kill(reason)
	a.start((*agent).nothing)
	<-a.ended
}

// jobOver reports whether a job has ended; the root, which has none, always has.
func (s *Supervisor) jobOver(id string) bool {
	if id == "" {
		return true
	}
	j, err := s.cachedJob(id)
	return err == nil && j.Status.Terminal()
}

func (s *Supervisor) loadRuns(ctx context.Context) (runs []*store.AgentRun, err error) {
	err = s.view(ctx, func(tx *store.Tx) (err error) {
		runs, err = tx.AgentRuns(s.session)
		return err
	})
	return runs, err
}

// resumeEnding finishes an end that a crash interrupted.
func (s *Supervisor) resumeEnding(ctx context.Context) error {
	s.holdGateway(ctx)
	rec := s.cachedSession()
	final := core.SessionStatus(rec.RootOutcome)
	if rec.Status == core.SessionCancelling {
		final = core.SessionCancelled
	}
	return s.ending(func() error { return s.tearDown(ctx, rec.Status, final, endOf(final), nil) })
}

// failLaunch ends a session that can't be started: what was started of it is
// retired. One that did run before is left to the next supervisor: nothing of
// it is given up for what may pass.
func (s *Supervisor) failLaunch(ctx context.Context, cause error) error {
	if ctx.Err() != nil || s.cachedSession().Status != core.SessionStarting {
		return cause
	}
	return s.ending(func() error {
		err := s.updateSession(ctx, func(_ *store.Tx, rec *store.Session) error {
			rec.Error = cause.Error()
			return nil
		})
		if err != nil {
			return errors.Join(cause, err)
		}
		return s.tearDown(ctx, core.SessionFinishing, core.SessionFailed, endOf(core.SessionFailed), nil)
	})
}

// abandon suspends a session whose supervisor can't be kept up: its processes
// are retired, since nobody would look after them, and all is kept on record.
func (s *Supervisor) abandon(ctx context.Context, cause error) error {
	if err := s.killAll(ctx, &killReason{status: core.JobSuspended, text: cause.Error()}); err != nil {
		return err
	}
	return s.ending(func() error {
		return s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
			rec.Error, rec.ColdPausePending = cause.Error(), false
			if rec.Status.CanBecome(core.SessionSuspended) { // an end under way stays one, for the next to finish
				rec.Status = core.SessionSuspended
			}
			return s.audit(tx, "session_suspended", "", "supervisor", map[string]any{"error": cause.Error()})
		})
	})
}

// sweepLaunches ends processes whose intent was recorded and whose identity
// was not: the crash came between exec and record.
func (s *Supervisor) sweepLaunches(ctx context.Context) error {
	var launches []*store.Launch
	err := s.view(ctx, func(tx *store.Tx) (err error) {
		launches, err = tx.Launches(store.LaunchFilter{SessionID: s.session, Open: true})
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range launches {
		if identityOf(l.Process).Alive() {
			continue
		}
		if l.Process.PID == 0 {
			if err := s.endUnrecorded(ctx, folderOf(s.cfg.Folders.RuntimeDir(s.session), l.LaunchID)); err != nil {
				return err
			}
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

// instancePattern is what we name plugin instances and engine sockets.
var instancePattern = regexp.MustCompile(`^[hge][0-9a-f]{8}(\.sock)?$`)

// removeInstance removes a plugin's runtime folder. A missing one is fine.
func removeInstance(dir string) error {
	if dir == "" || !instancePattern.MatchString(filepath.Base(dir)) {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return core.Errorf(core.KindOS, "removing the runtime folder of a plugin: %w", err)
	}
	return nil
}

// cleanRuntime removes what the session's processes left in the runtime
// folder; the control socket goes with the server.
func (s *Supervisor) cleanRuntime() {
	dir := s.cfg.Folders.RuntimeDir(s.session)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if err := removeInstance(filepath.Join(dir, e.Name())); err != nil {
			s.log.Warn("cleaning the runtime folder", "err", err) // garbage without a row
		}
	}
}

// stopTimeout bounds the whole end of a session beyond the grace given.
const stopTimeout = 2 * retireTimeout
