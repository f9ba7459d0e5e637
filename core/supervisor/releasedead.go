package supervisor

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// releaseDead reconciles another session that has lost its processes, so that
// it does not hold what nobody uses: its dead jobs are suspended, or failed when
// they never had a thread, and so is the session when all of it is dead. It
// reports whether it changed anything.
//
// It takes the session's locks without waiting: while a keeper or a supervisor
// has one, the session looks after itself, and counts.
func releaseDead(ctx context.Context, own *Config, session string) (changed bool, err error) {
	cfg := *own
	cfg.SessionID, cfg.Secrets = session, nil
	for _, name := range []string{"keeper.lock", "supervisor.lock"} {
		lock, err := takeLock(filepath.Join(cfg.Folders.SessionDir(session), name))
		if lock == nil {
			return false, err
		}
		defer lock.Unlock()
	}
	dead, err := deadRuns(ctx, &cfg)
	if err != nil || len(dead.runs) == 0 && !dead.whole {
		return false, err
	}
	s, err := open(ctx, &cfg)
	if err != nil {
		return false, err
	}
	defer s.store.Close()
	if s.snap == nil { // it has ended meanwhile
		return true, nil
	}
	s.life, s.end = context.WithCancelCause(ctx)
	defer s.end(errDetach)
	defer s.wg.Wait()
	return true, s.release(ctx, dead)
}

// deadHolders are what a session has on record as at work and has no process.
type deadHolders struct {
	runs  []*store.AgentRun // of jobs
	whole bool              // the root too, and no job of it lives
}

// deadRuns finds the holders of a session whose host and engine are gone.
func deadRuns(ctx context.Context, cfg *Config) (found deadHolders, err error) {
	st, err := store.Open(ctx, cfg.Folders.Database(), nil)
	if err != nil {
		return found, err
	}
	defer st.Close()
	err = st.View(ctx, func(tx *store.Tx) error {
		rec, err := tx.Session(cfg.SessionID)
		if err != nil || rec.Status.Terminal() {
			return err
		}
		jobs, err := tx.Jobs(store.JobFilter{SessionID: cfg.SessionID, Statuses: holding, Strict: true})
		if err != nil {
			return err
		}
		living := false
		for _, j := range jobs {
			run, err := tx.AgentRun(j.AgentRef)
			if err != nil {
				return err
			}
			if lives(run) {
				living = true
				continue
			}
			found.runs = append(found.runs, run)
		}
		root, err := tx.AgentRun(rec.RootAgentRef)
		if err != nil {
			return err
		}
		rests := rec.Status == core.SessionPaused || rec.Status == core.SessionSuspended
		begins := rec.Status == core.SessionStarting && cfg.now().Sub(rec.CreatedAt) < startTimeout
		found.whole = !living && !rests && !begins && !lives(root)
		return nil
	})
	return found, err
}

// lostText is why a job or session of which nothing lives is given up.
const lostText = "its processes were lost; the persisted app-server thread remains"

// release publishes what became of the dead.
func (s *Supervisor) release(ctx context.Context, dead deadHolders) error {
	var ids []string
	for _, run := range dead.runs {
		reason := &killReason{status: core.JobSuspended, text: lostText}
		if run.ThreadID == "" {
			reason = &killReason{status: core.JobFailed, text: "its processes were lost before it had a thread"}
		}
		s.killRun(run, reason)
		ids = append(ids, run.JobID)
	}
	if status := s.cachedSession().Status; dead.whole && (status == core.SessionFinishing || status == core.SessionCancelling) {
		return s.resumeEnding(ctx)
	}
	return s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		if dead.whole && rec.Status.CanBecome(core.SessionSuspended) {
			rec.Status, rec.Client, rec.ColdPausePending = core.SessionSuspended, nil, false
			rec.Error = cmp.Or(rec.Error, "the processes of its root were lost; resume goes on with its thread")
			if rec.ThreadID == "" && rec.Kind != KindAmbient {
				now := s.cfg.now().UTC()
				rec.Status, rec.Error = core.SessionFailed, "its processes were lost before its root had a thread"
				rec.LastRunID, rec.CurrentRunID, rec.FinishedAt = s.runID, "", &now
			}
		}
		return s.audit(tx, "session_jobs_reconciled", "", "supervisor", map[string]any{"jobs": orEmpty(ids), "session_status": string(rec.Status)})
	})
}
