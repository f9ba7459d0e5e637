package supervisor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// engineAge tells reconcile whether a turn that the thread calls running can
// still be running.
type engineAge int

const (
	engineSame engineAge = iota // the engine that ran the turn lives
	engineNew                   // it does not: such a turn was lost
)

// recoveryText is what a thread is told when its turn died with its engine.
// It does not repeat the task: the thread has it.
const recoveryText = "[recovery] Your previous turn was cut off because the process that ran it was lost. " +
	"Nothing of this conversation is lost. Check what is already done, do not repeat finished work, and go on to the end of your task."

// readState asks the engine for the thread and reconciles with it.
func (a *agent) readState(ctx context.Context, age engineAge) error {
	state, err := a.readThread(ctx)
	if err != nil {
		return err
	}
	return a.reconcile(ctx, state, age)
}

// reconcile compares the ledger of inputs with what the thread says and makes
// the next move: send an input that was never sent, publish a turn that ended
// unseen, or continue after a turn that was lost. It never sends an input
// twice.
func (a *agent) reconcile(ctx context.Context, state *hostpb.ThreadState, age engineAge) error {
	// The thread knows best whether a turn runs, whoever started it.
	a.rec.ActiveTurnID = ""
	if age == engineSame {
		a.rec.ActiveTurnID = state.GetActiveTurnId()
	}
	a.syncPending(state, age)
	if goal := state.GetGoalStatus(); goal != "" {
		a.changeGoal(func(g *store.Goal) { g.Status = goal }) // news of it may have died with the engine
	}
	if err := a.save(ctx, nil); err != nil {
		return err
	}
	in, err := a.lastInput(ctx)
	if err != nil {
		return err
	}
	if age == engineNew && in != nil && in.State == store.InputIntended {
		if in, err = a.withUnreached(ctx, in, state); err != nil {
			return err
		}
	}
	if err := a.seedGoal(ctx); err != nil {
		return err
	}
	if a.rec.Holding {
		return a.staysHeld(ctx, in, state, age)
	}
	if in == nil {
		return nil
	}
	switch in.State {
	case store.InputIntended:
		return a.send(ctx, in)
	case store.InputSent:
		return a.settleSent(ctx, in, state, age)
	case store.InputApplied:
		turn := turnByID(state, in.TurnID)
		return a.settleTurn(ctx, in, turn, age)
	case store.InputTurnDone:
		if a.goalUnfinished() {
			if age == engineSame {
				return nil // its next turn runs, or begins by itself
			}
			return a.sendNew(ctx, nil, "recovery", recoveryText)
		}
		return a.finishPublished(ctx)
	case store.InputTurnLost: // a crash came before its continuation was recorded
		return a.sendNew(ctx, nil, "recovery", recoveryText)
	case store.InputLost:
		return a.sendNew(ctx, nil, "recovery", in.Text)
	case store.InputRejected:
		return core.Errorf(core.KindAppServer, "the thread of agent %s refused input %s", a.rec.Agent, in.InputID)
	}
	return nil
}

// withUnreached puts what an earlier input asked for before the next one, if the
// thread never had it: an agent that is told to go on must know at what.
func (a *agent) withUnreached(ctx context.Context, next *store.Input, state *hostpb.ThreadState) (*store.Input, error) {
	var closed []*store.Input
	var texts []string
	err := a.sup.view(ctx, func(tx *store.Tx) error {
		list, err := tx.Inputs(a.ref)
		for _, in := range list {
			if in.InputID == next.InputID || in.State != store.InputIntended && in.State != store.InputSent {
				continue
			}
			closed = append(closed, in)
			if turn := turnByCommand(state, in.InputID); turn != nil {
				in.State, in.TurnID = store.InputTurnLost, turn.GetId()
				continue
			}
			in.State = store.InputLost
			texts = append(texts, in.Text)
		}
		return err
	})
	if err != nil || len(closed) == 0 {
		return next, err
	}
	if next.Text != continueRoot && next.Text != continueJob || len(texts) == 0 {
		texts = append(texts, next.Text)
	}
	whole := a.sup.newInput(a.ref, next.Origin, strings.Join(texts, "\n\n"))
	whole.ControlRevision = next.ControlRevision
	next.State = store.InputLost
	now := a.sup.cfg.now().UTC()
	err = a.sup.commit(ctx, func(tx *store.Tx, _ *change) error {
		for _, in := range append(closed, next) {
			in.EndedAt = &now
			if err := tx.PutInput(in); err != nil {
				return err
			}
		}
		return tx.AppendInput(whole)
	})
	return whole, err
}

// lastInput returns the newest input of the agent run, or nil.
func (a *agent) lastInput(ctx context.Context) (*store.Input, error) {
	var last *store.Input
	err := a.sup.view(ctx, func(tx *store.Tx) error {
		list, err := tx.Inputs(a.ref)
		if err == nil && len(list) > 0 {
			last = list[len(list)-1]
		}
		return err
	})
	return last, err
}

// send hands an input to the host. The row says so before it leaves; when the
// answer is lost, settleSent finds out what became of it.
func (a *agent) send(ctx context.Context, in *store.Input) error {
	in.State = store.InputSent
	if err := a.saveInput(ctx, in); err != nil {
		return err
	}
	schema, err := a.outputSchema(in)
	if err != nil {
		return err
	}
	c, cancel := short(ctx)
	defer cancel()
	answer, err := a.host.StartTurn(c, &hostpb.StartTurnRequest{
		Fence: a.fence(), CommandId: in.InputID, Text: in.Text, Effort: effort(a.effort()), OutputSchemaJson: schema,
	})
	if err != nil {
		return hostError("starting the turn", err)
	}
	return a.settleAnswer(ctx, in, answer)
}

func (a *agent) settleAnswer(ctx context.Context, in *store.Input, answer *hostpb.CommandResponse) error {
	switch answer.GetDelivery() {
	case basepb.Delivery_DELIVERY_APPLIED:
		return a.applied(ctx, in, answer.GetTurnId())
	case basepb.Delivery_DELIVERY_REJECTED:
		in.State = store.InputRejected
		if err := a.saveInput(ctx, in); err != nil {
			return err
		}
		return failureError("starting the turn", answer.GetFailure())
	}
	if a.unknown == nil {
		// Unknown is not lost: its turn may be about to begin. Its events, or a
		// second look at the thread, will tell.
		a.unknown = time.NewTimer(unknownWait)
		return nil
	}
	a.unknown = nil
	return a.resend(ctx, in)
}

// unknownWait is how long an input whose delivery is not known has to appear in
// its thread.
const unknownWait = 5 * time.Second

// resend gives the text of an input that is proven not to have reached the
// thread to it as a new one.
func (a *agent) resend(ctx context.Context, in *store.Input) error {
	in.State = store.InputLost
	return a.sendNew(ctx, in, "recovery", in.Text)
}

// applied records that the thread has the input. Its turn may be over already.
func (a *agent) applied(ctx context.Context, in *store.Input, turn string) error {
	in.State, in.TurnID = store.InputApplied, turn
	a.unknown = nil
	a.rec.ActiveTurnID = turn
	err := a.save(ctx, func(tx *store.Tx, _ *change) error { return tx.PutInput(in) })
	if err != nil {
		return err
	}
	a.follow("turn", fmt.Sprintf("turn begins (%s)", in.Origin))
	if in.ControlRevision > 0 && a.rec.LastControlStatus == store.ControlPending {
		if err := a.settle(ctx, in.ControlRevision, nil); err != nil {
			return err
		}
	}
	return a.activateGoal(ctx)
}

// staysHeld settles the turn of an agent that was told to do nothing, as far as
// it has ended.
func (a *agent) staysHeld(ctx context.Context, in *store.Input, state *hostpb.ThreadState, age engineAge) error {
	if in == nil || in.State != store.InputApplied {
		return nil
	}
	turn := turnByID(state, in.TurnID)
	switch {
	case turn.GetStatus() == "completed":
		a.rec.Holding = false
		return a.settleTurn(ctx, in, turn, age)
	case turn.GetStatus() == "inProgress" && age == engineSame:
		return a.hold(ctx) // the order was recorded, and cut off before it was carried out
	}
	return a.turnHeld(ctx, endedTurn{id: in.TurnID, status: "interrupted"})
}

// settleSent decides about an input whose answer never came.
func (a *agent) settleSent(ctx context.Context, in *store.Input, state *hostpb.ThreadState, age engineAge) error {
	if turn := turnByCommand(state, in.InputID); turn != nil {
		if err := a.applied(ctx, in, turn.GetId()); err != nil {
			return err
		}
		return a.settleTurn(ctx, in, turn, age)
	}
	if age == engineSame {
		// The host remembers every command it was given, and looks into the
		// thread itself: asking again with the same id sends nothing twice.
		return a.send(ctx, in)
	}
	// The engine is gone and its thread does not have the input: it was
	// proven never to have arrived, so its text goes out as a new input.
	return a.resend(ctx, in)
}

// settleTurn decides about the turn of an applied input.
func (a *agent) settleTurn(ctx context.Context, in *store.Input, turn *hostpb.Turn, age engineAge) error {
	switch {
	case turn == nil && age == engineSame:
		return nil // not listed yet; its events will come
	case turn == nil, turn.GetStatus() == "inProgress" && age == engineNew,
		turn.GetStatus() == "interrupted" && !turn.GetHasCompletedAt():
		return a.continueLost(ctx, in)
	case turn.GetStatus() == "inProgress":
		return nil
	}
	err := a.turnEnded(ctx, endedTurn{id: turn.GetId(), status: turn.GetStatus(), text: turn.GetFinalText(), errorJSON: turn.GetErrorJson()})
	if err != nil || age == engineSame || a.done || !a.goalUnfinished() {
		return err
	}
	last, err := a.lastInput(ctx)
	if err != nil || last.InputID != in.InputID || last.State != store.InputTurnDone {
		return err // it was asked for something else
	}
	// The goal's next turn would have begun by itself, in an engine that is gone.
	return a.sendNew(ctx, nil, "recovery", recoveryText)
}

// continueLost goes on after a turn that died with its engine.
func (a *agent) continueLost(ctx context.Context, in *store.Input) error {
	now := a.sup.cfg.now().UTC()
	in.State, in.EndedAt = store.InputTurnLost, &now
	return a.sendNew(ctx, in, "recovery", recoveryText)
}

// sendNew records a new input, together with the end of the one that it
// replaces (nil: that is on record), and sends it.
func (a *agent) sendNew(ctx context.Context, old *store.Input, origin, text string) error {
	in := a.sup.newInput(a.ref, origin, text)
	err := a.save(ctx, func(tx *store.Tx, _ *change) error {
		if old != nil {
			if err := tx.PutInput(old); err != nil {
				return err
			}
		}
		if err := tx.AppendInput(in); err != nil {
			return err
		}
		return a.sup.audit(tx, "agent_input", a.jobID, "supervisor", map[string]any{"input_id": in.InputID, "origin": origin})
	})
	if err != nil {
		return err
	}
	return a.send(ctx, in)
}

func (a *agent) saveInput(ctx context.Context, in *store.Input) error {
	return a.sup.commit(ctx, func(tx *store.Tx, _ *change) error { return tx.PutInput(in) })
}

func (a *agent) steerRequest(turn, text string) *hostpb.SteerRequest {
	return &hostpb.SteerRequest{
		Fence: a.fence(), CommandId: core.NewInputID(a.sup.cfg.random()), Text: text, ExpectedTurnId: turn,
	}
}

func turnByID(state *hostpb.ThreadState, id string) *hostpb.Turn {
	for _, t := range state.GetTurns() {
		if t.GetId() == id {
			return t
		}
	}
	return nil
}

func turnByCommand(state *hostpb.ThreadState, command string) *hostpb.Turn {
	for _, t := range state.GetTurns() {
		for _, c := range t.GetCommandIds() {
			if c == command {
				return t
			}
		}
	}
	return nil
}
