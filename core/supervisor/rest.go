package supervisor

import (
	"context"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// restTime is how long the supervisor of a resting session waits for a verb.
// Nothing works meanwhile; the next command starts another one.
const restTime = 15 * time.Second

// resting reports whether the session waits, without processes, for somebody to
// take it up: it is suspended, or was paused cold. A root that was only
// interrupted lives.
func (s *Supervisor) resting() bool {
	rec := s.cachedSession()
	switch rec.Status {
	case core.SessionSuspended:
		return true
	case core.SessionPaused:
		return rec.ColdPausePending || s.runNow(rec.RootAgentRef).Retired
	}
	return false
}

// jobRests reports whether a job waits for somebody to take it up.
func (s *Supervisor) jobRests(id string) bool {
	j, err := s.cachedJob(id)
	return err == nil && (j.Status == core.JobPaused || j.Status == core.JobSuspended)
}

// rest serves a resting session for a while. A pause that a crash cut short is
// finished first.
func (s *Supervisor) rest(ctx context.Context) error {
	s.holdGateway(ctx)
	if s.cachedSession().ColdPausePending {
		if err := s.finishPause(ctx); err != nil {
			return err
		}
	}
	close(s.ready)
	s.wg.Go(func() {
		timer := time.NewTimer(restTime)
		defer timer.Stop()
		for {
			select {
			case <-s.asked:
				timer.Reset(restTime)
			case <-s.awake:
				return
			case <-s.life.Done():
				return
			case <-timer.C:
				if s.leaveResting() {
					return
				}
				timer.Reset(restTime)
			}
		}
	})
	return nil
}

// leaveResting ends the supervisor, unless a verb is under way.
func (s *Supervisor) leaveResting() bool {
	unlock, ok := s.lifecycle.try(lifecycleKey)
	if !ok {
		return false
	}
	defer unlock()
	if !s.integrating.TryLock() {
		return false
	}
	defer s.integrating.Unlock()
	if s.resting() {
		s.end(errEnded)
	}
	return true
}

// noteCall keeps a resting supervisor for the next while.
func (s *Supervisor) noteCall() {
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

// lifecycleKey is the lock of the verbs that change what the session as a whole
// is at: one of them at a time.
const lifecycleKey = "session"

// wakeUp begins to bring the processes of a session up that was resting: the
// gateway, the homes, the root and the jobs that come back with it. Their records
// say already that they are at work.
func (s *Supervisor) wakeUp(ctx context.Context, back []*store.AgentRun) error {
	if err := s.openWays(ctx); err != nil {
		return err
	}
	for _, rec := range back {
		role, err := s.snapshotAgent(rec.Agent)
		if err != nil {
			return err
		}
		if rec.Host.Instance == "" {
			s.revive(rec, role)
			continue
		}
		a := s.newAgent(rec, role)
		a.free = 1 // it was asked for: the recovery budget is not touched
		a.start((*agent).readopt)
	}
	return nil
}

// openWays notes which routes can be used, opens the gateway and writes the
// homes.
func (s *Supervisor) openWays(ctx context.Context) error {
	if err := s.noteRoutes(ctx, nil); err != nil {
		return err
	}
	g, err := s.openGateway(ctx)
	if err != nil {
		return err
	}
	if old := s.gw.Swap(g); old != nil {
		old.close()
	}
	return s.prepareHomes(ctx)
}

// holdGateway takes over the gateway that an earlier supervisor of the session
// may have left, so that it can be released.
func (s *Supervisor) holdGateway(ctx context.Context) {
	g, err := s.adoptGateway(ctx)
	if err != nil {
		s.log.Warn("the gateway can't be reached to release it", "err", err)
	}
	if g != nil {
		s.gw.Store(g)
	}
}

// watchAll starts what watches a session at work. It is done once in a
// supervisor's life.
func (s *Supervisor) watchAll() {
	s.watching.Do(func() {
		close(s.awake)
		if g := s.gw.Load(); g != nil {
			s.wg.Go(func() { g.run(s.life) })
			if s.budgeted() {
				s.wg.Go(func() { g.watchBudgets(s.life) })
			}
		}
		s.watchClient()
		if s.ambient() {
			s.wg.Go(func() { s.watchAmbient(s.life) })
			return
		}
		s.wg.Go(func() { s.watchRoot(s.life) })
	})
}

// startTimeout is how long a session may be starting. One of which nothing lives
// after that is not begun any more: whoever asked for it has gone.
const startTimeout = 20 * time.Minute

// checkStale refuses to begin a session that was left in its start.
func (s *Supervisor) checkStale(runs []*store.AgentRun) error {
	rec := s.cachedSession()
	if rec.Status != core.SessionStarting || s.cfg.now().Sub(rec.CreatedAt) < startTimeout {
		return nil
	}
	for _, run := range runs {
		if lives(run) {
			return nil
		}
	}
	return core.Errorf(core.KindRuntime, "session %s did not start within %s, and nothing of it lives", s.session, startTimeout)
}
