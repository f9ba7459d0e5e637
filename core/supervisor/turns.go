package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// endedTurn is how a turn ended, from its event or from the thread's history.
type endedTurn struct {
	id        string
	status    string // completed, failed, interrupted
	text      string // of its last agent message
	errorJSON []byte
}

// turnEnded settles the input whose turn ended and publishes what came of it.
// A turn that was settled before changes nothing.
func (a *agent) turnEnded(ctx context.Context, t endedTurn) error {
	in, ours, err := a.inputOfTurn(ctx, t.id)
	if err != nil {
		return err
	}
	if in == nil {
		if ours {
			return nil
		}
		compaction, err := a.ofCompaction(t)
		if err != nil {
			return err
		}
		if compaction {
			return a.afterCompaction(ctx, t)
		}
		if !a.goesOnByItself() {
			return a.turnOfPerson(ctx, t)
		}
	}
	if a.rec.Holding && t.status == "interrupted" {
		return a.turnHeld(ctx, t)
	}
	if t.status == "completed" {
		if t.text, err = a.finalText(ctx, t); err != nil {
			return err
		}
	}
	now := a.sup.cfg.now().UTC()
	if in != nil {
		in.State, in.TurnStatus, in.EndedAt = store.InputTurnDone, t.status, &now
	}
	a.rec.ActiveTurnID, a.rec.LastTurnID = "", t.id
	defer delete(a.lastText, t.id) // after it was published: a kill may come before
	if t.status != "completed" {
		return a.turnFailed(ctx, in, t)
	}
	a.rec.RecoveryError = "" // whatever was lost, it went on to this end
	end := ending{job: core.JobCompleted, session: core.SessionCompleted, kind: core.ResultFinal, text: t.text}
	if strings.TrimSpace(t.text) == "" {
		end = ending{
			job: core.JobFailed, session: core.SessionFailed,
			failure: &store.Failure{Kind: "turn_failed", Message: "the turn ended without a readable terminal result"},
		}
		if a.jobID == "" {
			end.kind, end.text = core.ResultPartial, "root completed without a readable terminal result\n"
		}
	}
	end, goesOn := a.goalEnding(end)
	if goesOn {
		err := a.betweenTurns(ctx, in)
		a.compactPending(ctx)
		return err
	}
	again, err := a.holdToContract(ctx, in, &end)
	if err != nil || again {
		return err
	}
	if a.jobID != "" {
		a.compactPending(ctx) // the root's comes once its end is published
	}
	return a.end(ctx, in, end)
}

// goesOnByItself reports whether turns that no input of ours began are the
// agent's own work: those of a goal, where no person types.
func (a *agent) goesOnByItself() bool {
	return a.goalMode() && a.rec.Goal != nil && (a.jobID != "" || a.sup.cachedSession().Kind != kindInteractive)
}

// betweenTurns settles the input of a turn whose goal is not reached: the engine
// begins the next one.
func (a *agent) betweenTurns(ctx context.Context, in *store.Input) error {
	return a.save(ctx, func(tx *store.Tx, _ *change) error {
		if in == nil {
			return nil
		}
		return tx.PutInput(in)
	})
}

// inputOfTurn returns the input that started a turn and is not settled yet, and
// whether any input of ours started it.
func (a *agent) inputOfTurn(ctx context.Context, turn string) (found *store.Input, ours bool, err error) {
	err = a.sup.view(ctx, func(tx *store.Tx) error {
		list, err := tx.Inputs(a.ref)
		for _, in := range list {
			ours = ours || in.TurnID == turn
			if in.TurnID == turn && in.State == store.InputApplied {
				found = in
			}
		}
		return err
	})
	return found, ours, err
}

// turnFailed ends the agent after a turn that failed or was interrupted. What
// can be tried again later suspends, everything else is final.
func (a *agent) turnFailed(ctx context.Context, in *store.Input, t endedTurn) error {
	failure := a.limitFailure(ctx, normalise(t.status, t.errorJSON))
	end := ending{job: core.JobFailed, session: core.SessionFailed, failure: failure}
	if failure.Retryable {
		end.job, end.session = core.JobSuspended, core.SessionSuspended
	}
	if t.text != "" {
		end.kind, end.text = core.ResultPartial, t.text
	}
	return a.end(ctx, in, end)
}

// ending is how an agent run is to end.
type ending struct {
	job     core.JobStatus
	session core.SessionStatus
	kind    core.ResultKind // empty: there is no result
	text    string
	failure *store.Failure
	err     string
	warning string
	// contract is how the result was judged; nil when it was not. structured is
	// the result as canonical JSON, when it is valid.
	contract   *store.Contract
	structured []byte
	// tainted says what of it taints the session; empty: nothing.
	tainted string
	rolled  bool   // member of a batch that was rolled back
	reason  string // of a cancel
}

// end publishes an ending: the file, then the row that names it together with
// the input, then the processes go. in may be nil.
func (a *agent) end(ctx context.Context, in *store.Input, e ending) error {
	over := e.job.Terminal()
	if a.jobID == "" {
		over = e.session.Terminal() && a.sup.cachedSession().Kind != kindInteractive
	}
	if over && a.host != nil {
		a.keepHistory(ctx) // a writer's engine ends before its work is captured
		a.keepRows(ctx)    // whoever learns of the end finds what led to it
	}
	patch, err := a.captured(ctx, &e)
	if err != nil {
		return err
	}
	ref, err := a.publishText(e)
	if err != nil {
		return recordError{err}
	}
	if e.structured != nil {
		if e.contract.Structured, err = store.Publish(a.evidenceDir(), "result.json", e.structured); err != nil {
			return recordError{err}
		}
	}
	if a.trail != nil { // it may be what could not be opened
		if err := a.trail.log.Sync(); err != nil {
			return recordError{err}
		}
	}
	now := a.sup.cfg.now().UTC()
	err = a.save(ctx, func(tx *store.Tx, c *change) error {
		if in != nil {
			if err := tx.PutInput(in); err != nil {
				return err
			}
		}
		if a.jobID == "" {
			return a.endRoot(tx, c, in, e, ref, now)
		}
		j, err := tx.Job(a.jobID)
		if err != nil {
			return err
		}
		if !finalise(j, e, ref, now) {
			return nil
		}
		if patch != nil {
			j.Patch = patch
		}
		if e.tainted != "" {
			if err := a.taint(tx, c, e.tainted); err != nil {
				return err
			}
		}
		if err := a.sup.audit(tx, "agent_ended", a.jobID, "supervisor", map[string]any{"status": string(j.Status)}); err != nil {
			return err
		}
		return c.putJob(tx, j)
	})
	if err != nil {
		return err
	}
	return a.finishPublished(ctx)
}

// taint marks the session for what the agent's job did.
func (a *agent) taint(tx *store.Tx, c *change, why string) error {
	rec, err := tx.Session(a.sup.session)
	if err != nil || rec.Status.Terminal() {
		return err
	}
	if err := a.sup.taint(tx, rec, a.jobID, why, "supervisor"); err != nil {
		return err
	}
	return c.putSession(tx, rec)
}

// captured takes down a writing job's work when it ends, if it ends for good.
// Work that can't be captured is not lost: its tree stays, and the job says so.
func (a *agent) captured(ctx context.Context, e *ending) (*store.Patch, error) {
	if a.jobID == "" || !e.job.Terminal() {
		return nil, nil
	}
	patch, err := a.capture(ctx, e)
	if err == nil || ctx.Err() != nil {
		return patch, err
	}
	e.job, e.err = core.JobFailed, "the work could not be captured and stays in its worktree: "+err.Error()
	return nil, nil
}

// endRoot records the root's result. The session itself ends once its jobs
// have, in watchRoot; only a failure ends or suspends it here.
func (a *agent) endRoot(tx *store.Tx, c *change, in *store.Input, e ending, ref store.FileRef, now time.Time) error {
	rec, err := tx.Session(a.sup.session)
	if err != nil || rec.Status.Terminal() {
		return err
	}
	interactive := rec.Kind == kindInteractive
	if in == nil && !interactive && rec.RootDone && rec.RootResultKind == string(core.ResultFinal) {
		return nil // it had said its last word before it broke: that stands
	}
	if e.kind != "" {
		rec.RootResult, rec.RootResultKind = ref, string(e.kind)
	}
	rec.LastActiveAt = now
	rec.Error, rec.Failure = e.err, e.failure
	if e.failure != nil && rec.Error == "" {
		rec.Error = e.failure.Message
	}
	rec.RootDone = true
	// A person at a terminal decides what comes after a turn, whatever its end.
	switch {
	case !interactive:
		rec.RootOutcome = string(e.session)
	case in == nil: // it broke outside of a turn: a resume may mend it
		rec.RootOutcome = string(core.SessionSuspended)
	}
	return c.putSession(tx, rec)
}

// finalise applies an ending to a job's record and reports whether it changed.
// A cancel that was decided first wins: the job becomes cancelled, keeps its
// reason, and a failure is kept as a warning.
func finalise(j *store.Job, e ending, ref store.FileRef, now time.Time) bool {
	if j.Status.Terminal() || j.Status != core.JobCancelling && !j.Status.CanBecome(e.job) {
		return false
	}
	text := e.err
	if text == "" && e.failure != nil {
		text = e.failure.Message
	}
	// Of a roll back the spawn's own answer tells, of a cancel the cancel's.
	if !e.rolled && e.job != core.JobPaused && !(j.Status == core.JobCancelling && j.Inbox == store.InboxRead) {
		j.Inbox = store.InboxNew
	}
	if j.Status == core.JobCancelling {
		j.Status, j.Warning, j.FinishedAt = core.JobCancelled, cmp.Or(text, e.warning, j.Warning), &now
		return true
	}
	j.Status = e.job
	if e.job.Terminal() {
		j.FinishedAt = &now
	}
	if e.kind != "" {
		j.Result, j.ResultKind, j.ResultState = ref, e.kind, core.ResultUnread
	}
	if e.contract != nil {
		j.Contract = e.contract
	}
	j.Error, j.Failure, j.RolledBack = text, e.failure, e.rolled
	j.Warning = cmp.Or(e.warning, j.Warning)
	if e.job == core.JobCancelled {
		j.CancelReason = cmp.Or(j.CancelReason, e.reason)
	}
	return true
}

// publishText writes the ending's text to its file and names it.
func (a *agent) publishText(e ending) (store.FileRef, error) {
	if e.kind == "" {
		return store.FileRef{}, nil
	}
	name := "result.md"
	switch {
	case a.jobID == "" && e.kind == core.ResultPartial:
		name = "root-partial-result.md"
	case a.jobID == "":
		name = "root-result.md"
	case e.kind == core.ResultPartial:
		name = "partial-result.md"
	}
	return store.Publish(a.evidenceDir(), name, []byte(e.text))
}

// giveUp ends the agent after an error. A recovery that is used up suspends
// what can be taken up again later.
func (a *agent) giveUp(cause error) {
	a.signalLaunched(cause)
	ctx := a.sup.life
	failure := &store.Failure{Kind: "agent_failed", Message: cause.Error()}
	e := ending{job: core.JobFailed, session: core.SessionFailed, failure: failure, rolled: a.jobID != "" && a.launchError() != nil}
	if errors.Is(cause, errExhausted) {
		failure.Kind, failure.Retryable = "recovery_exhausted", true
		e.job, e.session = core.JobSuspended, core.SessionSuspended
		if a.jobID != "" {
			if err := a.stopEngine(ctx, false); err != nil { // before anybody may relaunch it
				e.warning = err.Error()
			}
		}
		e.kind, e.text = core.ResultPartial, a.partialText(cause)
	}
	if a.jobID == "" && !identityOf(a.rec.Engine).Alive() {
		// The root's engine is kept for a resume while it lives. What a dead one
		// left would otherwise live on for as long as the session is suspended.
		if err := a.stopEngine(ctx, false); err != nil {
			a.log.Error("sweeping what the root's engine left", "err", err)
		}
	}
	a.follow("notice", "gives up: "+cause.Error())
	a.done = true
	if err := a.end(ctx, nil, e); err != nil && a.sup.life.Err() == nil {
		a.sup.fatal(fmt.Errorf("recording that agent %s failed (%w): %w", a.rec.Agent, cause, err))
	}
}

// partialText is what is kept of a run that can't go on.
func (a *agent) partialText(cause error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Partial result\n\nThe run stopped before its end: %s.\n", cause)
	fmt.Fprintf(&b, "The persisted app-server thread %s and the complete durable trace remain; continue or finalize takes it up again.\n", a.rec.ThreadID)
	for _, text := range a.lastText {
		fmt.Fprintf(&b, "\nLast words of the cut turn:\n\n%s\n", text)
	}
	return b.String()
}

// finalText finds the last words of a turn: as they came, in the event log when
// this supervisor did not see them, else in what the engine has stored of it.
func (a *agent) finalText(ctx context.Context, t endedTurn) (string, error) {
	if text := a.lastText[t.id]; text != "" {
		return text, nil
	}
	if text, err := finalMessage(a.trailPath(), t.id); err != nil || text != "" {
		return text, err
	}
	if t.text != "" {
		return t.text, nil
	}
	state, err := a.readThread(ctx)
	return turnByID(state, t.id).GetFinalText(), err
}
