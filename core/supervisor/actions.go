package supervisor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// perform carries an order out on a living engine.
func (a *agent) perform(ctx context.Context, o *order) (map[string]any, error) {
	if o.action != control.ActionStop && o.action != control.ActionSetEffort && (a.host == nil || a.rec.ThreadID == "") {
		return nil, core.Errorf(core.KindRuntime, "agent %s has no open thread yet", a.rec.Agent).WithRemedy("wait until it is running")
	}
	switch o.action {
	case control.ActionSteer:
		return a.steer(ctx, o.input)
	case control.ActionInterrupt, control.ActionPause:
		return map[string]any{}, a.hold(ctx)
	case control.ActionContinue:
		return a.goOn(ctx, o)
	case control.ActionFinalize:
		return a.finalize(ctx, o)
	case control.ActionCompact:
		return a.compact(ctx, o)
	case control.ActionSetEffort:
		a.rec.Effort = o.effort
		return map[string]any{"effort": o.effort}, nil
	case control.ActionRespond:
		return a.respond(ctx, o)
	case control.ActionDetach:
		return a.detach(ctx)
	case control.ActionStop:
		return map[string]any{"stopping": true}, nil
	}
	return nil, core.Errorf(core.KindValue, "there is no action %q", o.action)
}

// effort is how hard the agent's next turn thinks.
func (a *agent) effort() string {
	if rec := a.snapshot(); rec.Effort != "" {
		return rec.Effort
	}
	return a.role.Effort
}

// setStatus moves the agent's job, or the session when it is the root.
func (a *agent) setStatus(ctx context.Context, job core.JobStatus, session core.SessionStatus) error {
	if a.jobID == "" {
		if session == "" {
			return nil
		}
		return a.sup.updateSession(ctx, func(_ *store.Tx, rec *store.Session) error {
			if rec.Status == session || !rec.Status.CanBecome(session) {
				return errUnchanged
			}
			rec.Status = session
			return nil
		})
	}
	return a.sup.updateJob(ctx, a.jobID, func(_ *store.Tx, j *store.Job) error {
		if j.Status == job || !j.Status.CanBecome(job) {
			return errUnchanged
		}
		j.Status = job
		return nil
	})
}

// detach takes the interest from a job that works; another one stays as it is.
func (a *agent) detach(ctx context.Context) (map[string]any, error) {
	if err := a.setStatus(ctx, core.JobDetached, ""); err != nil {
		return nil, err
	}
	j, err := a.sup.cachedJob(a.jobID)
	if err == nil && j.Status != core.JobDetached {
		err = core.Errorf(core.KindRuntime, "job %s is %s and can't be detached", a.jobID, j.Status)
	}
	return map[string]any{"detached": true}, err
}

func (a *agent) noTurn(doing string) error {
	return core.Errorf(core.KindRuntime, "agent %s has no active turn to %s", a.rec.Agent, doing).WithRemedy("give it its next input with continue")
}

func (a *agent) steer(ctx context.Context, text string) (map[string]any, error) {
	turn := a.rec.ActiveTurnID
	if turn == "" {
		return nil, a.noTurn("steer")
	}
	_, err := a.command(ctx, "steering", func(ctx context.Context) (*hostpb.CommandResponse, error) {
		return a.host.Steer(ctx, a.steerRequest(turn, text))
	})
	return map[string]any{"turn_id": turn}, err
}

// hold ends the running turn and keeps the agent from beginning another one by
// itself. A turn that ended meanwhile wins.
func (a *agent) hold(ctx context.Context) error {
	if err := a.pauseGoal(ctx); err != nil {
		return err
	}
	ended, err := a.endTurn(ctx)
	if err != nil || ended {
		return err
	}
	return a.setStatus(ctx, core.JobPaused, core.SessionPaused)
}

// endTurn interrupts the running turn and settles its input. It reports whether
// the turn had ended by itself, so that its end was published instead.
func (a *agent) endTurn(ctx context.Context) (ended bool, err error) {
	turn := a.rec.ActiveTurnID
	if turn == "" {
		return false, nil
	}
	if err := a.interrupt(ctx, turn); err != nil {
		return false, err
	}
	t, err := a.turnNow(ctx, turn)
	if err != nil {
		return false, err
	}
	if t.status == "completed" {
		a.rec.Holding = false
		return true, a.turnEnded(ctx, t)
	}
	return false, a.turnHeld(ctx, t)
}

// interrupt ends a turn, with what it left running in the background.
func (a *agent) interrupt(ctx context.Context, turn string) error {
	_, err := a.command(ctx, "interrupting the turn", func(ctx context.Context) (*hostpb.CommandResponse, error) {
		return a.host.Interrupt(ctx, &hostpb.InterruptRequest{Fence: a.fence(), CommandId: a.newCommand(), TurnId: turn, CleanBackground: true})
	})
	return err
}

// turnHeld settles the input of a turn that was interrupted on request.
func (a *agent) turnHeld(ctx context.Context, t endedTurn) error {
	in, _, err := a.inputOfTurn(ctx, t.id)
	if err != nil {
		return err
	}
	if a.rec.ActiveTurnID == t.id {
		a.rec.ActiveTurnID = ""
	}
	a.rec.LastTurnID = t.id
	a.forgetRequests(a.rec.ThreadID)
	now := a.sup.cfg.now().UTC()
	return a.save(ctx, func(tx *store.Tx, c *change) error {
		c.wake = true
		if in == nil {
			return nil
		}
		in.State, in.TurnStatus, in.EndedAt = store.InputTurnDone, t.status, &now
		return tx.PutInput(in)
	})
}

// turnNow asks the engine how a turn stands.
func (a *agent) turnNow(ctx context.Context, turn string) (endedTurn, error) {
	state, err := a.readThread(ctx)
	if err != nil {
		return endedTurn{}, err
	}
	t := turnByID(state, turn)
	return endedTurn{id: turn, status: cmp.Or(t.GetStatus(), "interrupted"), text: t.GetFinalText(), errorJSON: t.GetErrorJson()}, nil
}

// goOn gives an agent that was held its next input.
func (a *agent) goOn(ctx context.Context, o *order) (map[string]any, error) {
	if a.rec.ActiveTurnID != "" {
		return nil, core.Errorf(core.KindRuntime, "agent %s is at work", a.rec.Agent).WithRemedy("steer it, or interrupt it first")
	}
	a.changeGoal(o.toGoal)
	return a.nextInput(ctx, o)
}

// nextInput records and sends the input of an order, and tells the turn that it
// began.
func (a *agent) nextInput(ctx context.Context, o *order) (map[string]any, error) {
	in := a.sup.newInput(a.ref, "control", o.input)
	in.ControlRevision = o.revision
	a.rec.Holding = false
	if o.action == control.ActionContinue {
		a.rec.FinalizeBy = nil
	}
	err := a.save(ctx, func(tx *store.Tx, c *change) error {
		if err := a.resumed(tx, c); err != nil {
			return err
		}
		return tx.AppendInput(in)
	})
	if err != nil {
		return nil, err
	}
	err = a.send(ctx, in)
	if errors.As(err, new(hostCallError)) && a.unknown == nil {
		a.unknown = time.NewTimer(unknownWait) // look what became of it
	}
	if err != nil {
		return nil, err
	}
	if in.State != store.InputApplied {
		return nil, unknownDelivery("it is not known yet whether agent %s has the input", a.rec.Agent)
	}
	return map[string]any{"turn_id": in.TurnID}, nil
}

// resumed moves the job or session of an agent that goes on, within tx.
func (a *agent) resumed(tx *store.Tx, c *change) error {
	if a.jobID != "" {
		j, err := tx.Job(a.jobID)
		if err != nil || !j.Status.CanBecome(core.JobRunning) {
			return err
		}
		j.Status = core.JobRunning
		return c.putJob(tx, j)
	}
	rec, err := tx.Session(a.sup.session)
	if err != nil || rec.Status.Terminal() {
		return err
	}
	rec.RootDone, rec.RootOutcome, rec.Deferred, rec.DeferredJobs = false, "", false, nil
	if rec.Status.CanBecome(core.SessionRunning) && (rec.Status == core.SessionPaused || rec.Status == core.SessionSuspended) {
		rec.Status = core.SessionRunning
	}
	return c.putSession(tx, rec)
}

// finalize asks for the result of what there is: in the running turn, or in a
// new one. A goal begins no turn after that one.
func (a *agent) finalize(ctx context.Context, o *order) (map[string]any, error) {
	if err := a.pauseGoal(ctx); err != nil {
		return nil, err
	}
	a.changeGoal(o.toGoal)
	a.finalizeUntil()
	if a.rec.ActiveTurnID != "" && a.generatesResult() {
		// The running turn was not begun with the contract's schema: the result
		// comes of a turn of its own.
		if ended, err := a.endTurn(ctx); err != nil || ended {
			return map[string]any{"action": control.ActionFinalize}, err
		}
	}
	if a.rec.ActiveTurnID == "" {
		result, err := a.nextInput(ctx, o)
		if err == nil {
			result["action"] = control.ActionFinalize
		}
		return result, err
	}
	return a.steer(ctx, o.input)
}

// compact shortens the thread's context. Codex ends a running turn for it, so
// it waits for the turn's end.
func (a *agent) compact(ctx context.Context, o *order) (map[string]any, error) {
	if a.rec.ActiveTurnID != "" {
		a.rec.CompactPending, o.deferred = true, true
		return map[string]any{"pending": true}, a.save(ctx, nil)
	}
	return map[string]any{"compacting": true}, a.compactNow(ctx)
}

// compactNow begins a compaction, which is a turn of its own. A goal waits for
// it: the engine would begin the goal's next turn beside it.
func (a *agent) compactNow(ctx context.Context) error {
	active := a.rec.Goal != nil && a.rec.Goal.Status == goalActive
	if err := a.pauseGoal(ctx); err != nil {
		return err
	}
	a.goalWaits = a.goalWaits || active
	_, err := a.command(ctx, "compacting", func(ctx context.Context) (*hostpb.CommandResponse, error) {
		return a.host.Compact(ctx, &hostpb.CompactRequest{Fence: a.fence(), CommandId: a.newCommand()})
	})
	return err
}

// compactPending delivers a compaction that waited for a turn's end. It is
// never the cause of a lost turn: what it fails of is on record, no more.
func (a *agent) compactPending(ctx context.Context) {
	if !a.rec.CompactPending || a.host == nil {
		return
	}
	err := a.compactNow(ctx)
	if err != nil {
		a.log.Warn("the compaction was not delivered", "err", err)
	}
	a.settleCompaction(ctx, err)
}

// settleCompaction records what became of a compaction that waited.
func (a *agent) settleCompaction(ctx context.Context, err error) {
	if !a.rec.CompactPending {
		return
	}
	a.rec.CompactPending = false
	for _, c := range a.pendingControls(ctx, control.ActionCompact) {
		if err := a.settle(ctx, c.Revision, err); err != nil {
			a.log.Warn("recording the compaction", "err", err)
		}
	}
}

// ofCompaction reports whether a turn that no input began was one in which the
// engine shortened the thread's context.
func (a *agent) ofCompaction(t endedTurn) (bool, error) {
	if a.compacted != nil && t.status != "completed" {
		return true, nil // nothing else runs then
	}
	if t.text != "" || a.lastText[t.id] != "" {
		return false, nil
	}
	return compactedIn(a.trailPath(), t.id)
}

// afterCompaction notes the end of a compaction's turn. A goal that waited for it
// goes on.
func (a *agent) afterCompaction(ctx context.Context, t endedTurn) error {
	a.rec.ActiveTurnID, a.rec.LastTurnID = "", t.id
	if t.status != "completed" {
		a.compactionEnded(core.Errorf(core.KindAppServer, "Codex could not shorten the context: its turn is %s %s", t.status, t.errorJSON))
	}
	if a.goalWaits && !a.rec.Holding {
		a.goalWaits = false
		if err := a.setGoal(ctx, &hostpb.SetGoalRequest{Status: goalActive}); err != nil {
			return err
		}
	}
	return a.save(ctx, nil)
}

// compactionEnded tells who waits for a compaction what became of it.
func (a *agent) compactionEnded(err error) {
	if a.compacted != nil {
		a.compacted <- err
		a.compacted = nil
	}
}

// pendingControls lists the agent's controls of an action that are not settled.
func (a *agent) pendingControls(ctx context.Context, action string) (list []*store.Control) {
	err := a.sup.view(ctx, func(tx *store.Tx) error {
		all, err := tx.Controls(a.ref)
		for _, c := range all {
			if c.Action == action && c.Status == store.ControlPending {
				list = append(list, c)
			}
		}
		return err
	})
	if err != nil {
		a.log.Warn("reading the controls", "err", err)
	}
	return list
}

// pauseGoal keeps a thread with a goal from beginning turns by itself.
func (a *agent) pauseGoal(ctx context.Context) error {
	if a.role.ExecutionMode != profile.ModeGoal || a.rec.Goal == nil || a.rec.Goal.Status != goalActive {
		return nil
	}
	return a.setGoal(ctx, &hostpb.SetGoalRequest{Status: goalPaused})
}

func (a *agent) newCommand() string { return core.NewInputID(a.sup.cfg.random()) }
