package supervisor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// ContinueSession takes up a session that rests: its root gets the input as its
// next turn, and the jobs that were paused with it come back.
func (s *Supervisor) ContinueSession(ctx context.Context, call control.Call, r control.ContinueRequest) (*control.ContinueResponse, error) {
	unlock, err := s.beginVerb(ctx, call, control.VerbSessionContinue)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.mayResume(ctx, r.AllowTainted); err != nil {
		return nil, err
	}
	if !s.resting() {
		return nil, core.Errorf(core.KindRuntime, "session %s is %s: it does not wait to be continued", s.session, s.cachedSession().Status).
			WithRemedy("give its root an input with `codex-mmo root continue`, or attach to it")
	}
	back, err := s.takeUp(ctx, cmp.Or(r.Input, continueRoot))
	if err != nil {
		return nil, err
	}
	if err := s.bringUp(ctx, back); err != nil {
		return nil, err
	}
	return &control.ContinueResponse{Session: *s.SessionView(), ResumedJobs: back.jobs, ResumeErrors: back.refused}, nil
}

// ResumeSession makes the session ready for a client. A session at work stays as
// it is; a resting one is taken up without an input: the client decides.
func (s *Supervisor) ResumeSession(ctx context.Context, call control.Call, r control.ResumeRequest) (*control.ResumeResponse, error) {
	unlock, err := s.beginVerb(ctx, call, control.VerbSessionResume)
	if err != nil {
		return nil, err
	}
	defer unlock()
	rec := s.cachedSession()
	if rec.Client != nil && identityOf(*rec.Client).Alive() {
		return nil, core.Errorf(core.KindRuntime, "session %s already has an attached client (process %d)", s.session, rec.Client.PID).
			WithRemedy("leave it first, or look on with `codex-mmo attach %s`", s.session)
	}
	if err := s.mayResume(ctx, r.AllowTainted); err != nil {
		return nil, err
	}
	answer := &control.ResumeResponse{ReconciledJobs: s.awaitReconciled(ctx)}
	if s.resting() {
		back, err := s.takeUp(ctx, "")
		if err != nil {
			return nil, err
		}
		answer.ReconciledJobs = append(answer.ReconciledJobs, back.reconciled...)
		if err := s.bringUp(ctx, back); err != nil {
			return nil, err
		}
	} else if err := s.resumeLive(ctx); err != nil {
		return nil, err
	}
	answer.Session = *s.SessionView()
	return answer, nil
}

// mayResume checks what must hold before a session is taken up: it is not over,
// its taint is known, its one run and its capability are what they were, and
// its Codex still is the one that it was created with.
func (s *Supervisor) mayResume(ctx context.Context, allowTainted bool) error {
	rec := s.cachedSession()
	switch {
	case rec.Status.Terminal() || rec.Status == core.SessionCancelling || rec.Status == core.SessionFinishing:
		return core.Errorf(core.KindRuntime, "terminal immutable session: %s is %s", s.session, rec.Status).WithRemedy("start a new one")
	case rec.Tainted && !allowTainted:
		return core.Errorf(core.KindRuntime, "session %s is tainted: %s", s.session, taintText(rec)).
			WithRemedy("look at the workspace, then resume it with --allow-tainted: it delegates and integrates no more")
	}
	var hashes []string
	err := s.view(ctx, func(tx *store.Tx) error {
		if _, err := tx.RunOf(s.session); err != nil {
			return err
		}
		caps, err := tx.Capabilities(rec.RootAgentRef)
		for _, c := range caps {
			if c.Kind == capCaller && c.RevokedAt == nil {
				hashes = append(hashes, c.TokenSHA256)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.checkCapability(hashes); err != nil {
		return err
	}
	if err := checkCodex(ctx, rec.Codex, s.cfg); err != nil {
		return err
	}
	if err := verifyHomes(rec); err != nil {
		return errors.Join(err, s.distrust(context.WithoutCancel(ctx), err))
	}
	return nil
}

// distrust suspends a session whose homes are not what they were written: no
// engine goes on with them.
func (s *Supervisor) distrust(ctx context.Context, cause error) error {
	if err := s.killAll(ctx, &killReason{status: core.JobSuspended, text: cause.Error()}); err != nil {
		return err
	}
	s.releaseGateway(ctx)
	err := s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		rec.Status, rec.ResumeError = core.SessionSuspended, cause.Error()
		return s.audit(tx, "session_suspended", "", "supervisor", map[string]any{"error": rec.ResumeError})
	})
	s.leaveAfterVerb()
	return err
}

// checkCapability demands that the root's raw token is there, once it was given
// out: a resumed root must be the same caller.
func (s *Supervisor) checkCapability(hashes []string) error {
	if len(hashes) == 0 {
		return nil
	}
	var file capabilitiesFile
	if err := store.ReadJSON(s.capabilitiesPath(), &file); err != nil {
		return core.Errorf(core.KindPermission, "the root's capability is unavailable: %w", err).
			WithRemedy("the session can't be resumed; its results and threads are on disk")
	}
	hash := access.HashToken(file.RootToken)
	if !slices.ContainsFunc(hashes, func(h string) bool { return access.EqualHash(h, hash) }) {
		return core.Errorf(core.KindPermission, "the root's capability is unavailable: capabilities.json holds another one than the records")
	}
	return nil
}

// checkCodex judges the session's pinned Codex again, once.
func checkCodex(ctx context.Context, pin store.CodexPin, cfg *Config) error {
	now, err := codexbin.Gate(ctx, pin.Path, &codexbin.GateOptions{CacheDir: cfg.codexCache()})
	if err != nil {
		return err
	}
	if now.SHA256 != pin.SHA256 {
		return core.Errorf(core.KindAppServer, "protocol version mismatch: %s is not the Codex that the session was created with (%s)", pin.Path, pin.Version).
			WithRemedy("put Codex %s back there", pin.Version)
	}
	return nil
}

// comeback is who comes back when a session is taken up.
type comeback struct {
	runs       []*store.AgentRun
	jobs       []string          // ids of the jobs among them
	refused    map[string]string // job id -> why it stays paused
	reconciled []string          // jobs that were found without their processes
	before     core.SessionStatus
}

// takeUp admits the session's root again and records that it is at work. input
// is its next; empty: it waits.
func (s *Supervisor) takeUp(ctx context.Context, input string) (*comeback, error) {
	back := &comeback{refused: map[string]string{}, jobs: []string{}}
	err := s.commitAdmission(ctx, func(tx *store.Tx, c *change) error {
		rec, err := tx.Session(s.session)
		if err != nil {
			return err
		}
		if err := admitRoot(tx, rec, s.snap); err != nil {
			return err
		}
		back.before = rec.Status
		paused := rec.PausedJobIDs
		if back.reconciled, err = s.reconcileJobs(tx, c); err != nil {
			return err
		}
		s.returnSession(rec)
		if err := s.audit(tx, "run_resumed", "", "operator", nil); err != nil {
			return err
		}
		if err := c.putSession(tx, rec); err != nil {
			return err
		}
		if rec.Kind != KindAmbient {
			root, err := s.returnRoot(tx, c, rec, input)
			if err != nil {
				return err
			}
			back.runs = append(back.runs, root)
		}
		return s.returnJobs(tx, c, paused, back)
	})
	return back, err
}

func (s *Supervisor) returnSession(rec *store.Session) {
	rec.Status = core.SessionRunning
	rec.Error, rec.Failure, rec.ResumeError = "", nil, ""
	rec.RootDone, rec.RootOutcome, rec.Deferred, rec.DeferredJobs = false, "", false, nil
	rec.PausedJobIDs, rec.LastActiveAt = nil, s.cfg.now().UTC()
}

// returnRoot records that the root comes back. An engine of it that lives is
// taken over as it is, its turn with it.
func (s *Supervisor) returnRoot(tx *store.Tx, c *change, rec *store.Session, input string) (*store.AgentRun, error) {
	root, err := tx.AgentRun(rec.RootAgentRef)
	if err != nil {
		return nil, err
	}
	var in *store.Input
	if input != "" {
		in = s.newInput(root.AgentRef, "control", input)
	}
	if !root.Retired && alive(root.Engine) {
		root.Holding = false
		if in != nil {
			if err := tx.AppendInput(in); err != nil {
				return nil, err
			}
		}
		return root, s.putRun(tx, c, root)
	}
	return root, s.recordReturn(tx, c, root, nil, in)
}

// returnJobs records the return of the jobs that were paused with the session,
// each after it was admitted again.
func (s *Supervisor) returnJobs(tx *store.Tx, c *change, ids []string, back *comeback) error {
	for _, id := range ids {
		j, err := tx.Job(id)
		if err != nil {
			return err
		}
		if j.Status != core.JobPaused {
			continue
		}
		if err := s.readmit(tx, j, 0); err != nil {
			back.refused[id] = err.Error()
			continue
		}
		run, err := tx.AgentRun(j.AgentRef)
		if err != nil {
			return err
		}
		var in *store.Input
		if run.ThreadID != "" { // else its first input still waits
			in = s.newInput(run.AgentRef, "control", continueJob)
		}
		if err := s.recordReturn(tx, c, run, j, in); err != nil {
			return err
		}
		back.runs, back.jobs = append(back.runs, run), append(back.jobs, id)
	}
	return nil
}

// reconcileJobs suspends jobs that are on record as at work and have no
// process.
func (s *Supervisor) reconcileJobs(tx *store.Tx, c *change) (found []string, err error) {
	jobs, err := tx.Jobs(store.JobFilter{SessionID: s.session, Strict: true})
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if !holdsCapacity(j.Status) {
			continue
		}
		run, err := tx.AgentRun(j.AgentRef)
		if err != nil {
			return nil, err
		}
		if lives(run) || !j.Status.CanBecome(core.JobSuspended) {
			continue
		}
		j.Status, j.Error, j.Inbox = core.JobSuspended, lostText, store.InboxNew
		if err := c.putJob(tx, j); err != nil {
			return nil, err
		}
		run.Retired = true
		if err := s.putRun(tx, c, run); err != nil {
			return nil, err
		}
		found = append(found, j.JobID)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found, s.audit(tx, "session_jobs_reconciled", "", "supervisor", map[string]any{"jobs": found})
}

// noteLost records which jobs a supervisor finds without their processes when it
// begins. What becomes of each is its agent's matter.
func (s *Supervisor) noteLost(ctx context.Context, runs []*store.AgentRun) error {
	var lost []string
	for _, run := range runs {
		j, err := s.cachedJob(run.JobID)
		if err != nil || !holdsCapacity(j.Status) || run.Retired || run.Host.Instance == "" || lives(run) {
			continue
		}
		lost = append(lost, j.JobID)
	}
	if len(lost) == 0 {
		return nil
	}
	s.lost = lost
	return s.commit(ctx, func(tx *store.Tx, _ *change) error {
		return s.audit(tx, "session_jobs_reconciled", "", "supervisor", map[string]any{"jobs": lost})
	})
}

// awaitReconciled returns once the agents that were found without their
// processes at our start are taken up or given up, and names their jobs.
func (s *Supervisor) awaitReconciled(ctx context.Context) []string {
	for _, id := range s.lost {
		j, err := s.cachedJob(id)
		if err != nil {
			continue
		}
		s.mu.Lock()
		a := s.agents[j.AgentRef]
		s.mu.Unlock()
		if a == nil {
			continue
		}
		select {
		case <-a.brought:
		case <-a.ended:
		case <-ctx.Done():
		}
	}
	return slices.Clone(orEmpty(s.lost))
}

// resumeLive takes up a session at work. Its homes are written anew, for the
// engines to come.
func (s *Supervisor) resumeLive(ctx context.Context) error {
	if err := s.prepareHomes(ctx); err != nil {
		return err
	}
	return s.noteResumed(ctx)
}

// noteResumed records that a client takes up a session at work.
func (s *Supervisor) noteResumed(ctx context.Context) error {
	return s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		if !rec.Status.CanBecome(core.SessionRunning) && rec.Status != core.SessionRunning {
			return core.Errorf(core.KindRuntime, "session %s is %s", s.session, rec.Status)
		}
		rec.Status = core.SessionRunning
		return s.audit(tx, "run_resumed", "", "operator", nil)
	})
}

// resumeExtra is what a root that comes back may take beside its thread.
const resumeExtra = 10 * time.Second

// bringUp starts the processes of those who come back and waits for the root's
// thread. When that fails the session rests again, with the reason.
func (s *Supervisor) bringUp(ctx context.Context, back *comeback) error {
	err := s.wakeUp(ctx, back.runs)
	if err == nil && !s.ambient() {
		c, cancel := context.WithTimeout(ctx, controlTimeout(s.openWindow(s.cachedSession().RootAgent))+resumeExtra)
		_, err = s.awaitRootThread(c)
		cancel()
	}
	if err == nil {
		s.watchAll() // not before: a root that does not come up would end the session
		return nil
	}
	return errors.Join(err, s.fallBack(context.WithoutCancel(ctx), back.before, err))
}

// fallBack puts a session that could not be taken up back to rest.
func (s *Supervisor) fallBack(ctx context.Context, to core.SessionStatus, cause error) error {
	if s.life.Err() != nil {
		return nil // the next supervisor goes on from the records
	}
	if err := s.killAll(ctx, &killReason{status: core.JobPaused, text: pausedText}); err != nil {
		return err
	}
	s.releaseGateway(ctx)
	err := s.updateSession(ctx, func(tx *store.Tx, rec *store.Session) error {
		if !rec.Status.CanBecome(to) {
			return errUnchanged
		}
		rec.Status, rec.ResumeError = to, cause.Error()
		for _, j := range s.allJobs() {
			if j.Status == core.JobPaused {
				rec.PausedJobIDs = append(rec.PausedJobIDs, j.JobID)
			}
		}
		return s.audit(tx, "session_resume_failed", "", "supervisor", map[string]any{"error": cause.Error()})
	})
	s.leaveAfterVerb()
	return err
}

// taintReasons lists the reasons of a taint, each once.
func taintReasons(rec *store.Session) (list []string) {
	for _, r := range rec.TaintReasons {
		list = append(list, r.Reason)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func taintText(rec *store.Session) string {
	return cmp.Or(strings.Join(taintReasons(rec), "; "), "isolation could not be guaranteed")
}
