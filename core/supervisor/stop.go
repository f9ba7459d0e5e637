package supervisor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// windDown gives what is at work time to end by itself: everybody who has a turn
// is asked once for the result of what there is. It reports whether the root was
// asked.
func (s *Supervisor) windDown(ctx context.Context, seconds float64) (asked bool, err error) {
	if seconds == 0 {
		return false, nil
	}
	grace, cancel := context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second)))
	defer cancel()
	asked = s.finalizeAll(grace)
	for {
		changed := s.changes()
		rec := s.cachedSession()
		if rec.Status.Terminal() || rec.RootDone && len(s.activeJobs()) == 0 {
			return asked, nil
		}
		select {
		case <-changed:
		case <-grace.Done():
			return asked, context.Cause(ctx) // nil: the time is up
		}
	}
}

// finalizeAll asks all agents that have a turn for their results, and reports
// whether the root has the order.
func (s *Supervisor) finalizeAll(ctx context.Context) (root bool) {
	var delivered atomic.Bool
	var all sync.WaitGroup
	for ref, run := range s.runsNow() {
		if run.ActiveTurnID == "" || run.Retired {
			continue
		}
		role, err := s.snapshotAgent(run.Agent)
		if err != nil {
			continue
		}
		o := &order{action: control.ActionFinalize, input: finalizeJob, caller: "operator"}
		if run.JobID == "" {
			o.input = finalizeRoot
		}
		all.Go(func() {
			c, cancel := short(ctx)
			defer cancel()
			unlock, err := s.controlLocks.lock(c, ref)
			if err == nil {
				o.expected = s.runNow(ref).ControlRevision
				_, err = s.deliver(c, target{ref: ref, jobID: run.JobID, role: role, caller: o.caller}, o)
				unlock()
			}
			if err != nil {
				s.log.Warn("asking for a result before the stop", "agent", run.Agent, "job", run.JobID, "err", err)
				return
			}
			if run.JobID == "" {
				delivered.Store(true)
			}
		})
	}
	all.Wait()
	return delivered.Load()
}

// stopNow retires everything and publishes `stopped`. A session that has ended
// meanwhile stays as it ended. asked says whether the root was asked for its
// result.
func (s *Supervisor) stopNow(ctx context.Context, asked bool) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return s.ending(func() error {
		rec := s.cachedSession()
		said, err := s.rootSaid()
		if err != nil {
			return err
		}
		var partial store.FileRef
		if said != "" && !rec.Status.Terminal() {
			if partial, err = s.rootPartial("the session was stopped", said); err != nil {
				return err
			}
		}
		reason := endOf(core.SessionStopped)
		reason.note = map[string]any{"root_finalize_delivered": asked, "root_forced": s.runNow(rec.RootAgentRef).ActiveTurnID != ""}
		return s.tearDown(ctx, core.SessionFinishing, core.SessionStopped, reason, func(tx *store.Tx, rec *store.Session) error {
			if partial.Name != "" && rec.RootResultKind != string(core.ResultFinal) {
				rec.RootResult, rec.RootResultKind = partial, string(core.ResultPartial)
			}
			return s.audit(tx, "session_stopping", "", "operator", nil)
		})
	})
}
