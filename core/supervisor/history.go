package supervisor

import (
	"context"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// terminalHistory is the thread of an agent as its engine told it at the end.
type terminalHistory struct {
	ThreadID string        `json:"thread_id"`
	Turns    []historyTurn `json:"turns"` // oldest first
}

type historyTurn struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// keepHistory writes down which turns the agent's thread has, while its engine
// can still be asked. What is known without it stands; that it is missing is no
// failure of the agent.
func (a *agent) keepHistory(ctx context.Context) {
	state, err := a.readThread(ctx)
	if err != nil {
		a.log.Warn("the history of the thread is not kept", "err", err)
		return
	}
	history := terminalHistory{ThreadID: state.GetThreadId(), Turns: []historyTurn{}}
	for _, t := range state.GetTurns() {
		history.Turns = append(history.Turns, historyTurn{t.GetId(), t.GetStatus()})
	}
	name := "terminal-history.json"
	if a.jobID == "" {
		name = "root-terminal-history.json"
	}
	if err := store.WriteJSON(filepath.Join(a.evidenceDir(), name), history); err != nil {
		a.log.Warn("the history of the thread is not kept", "err", err)
	}
}

// keepRows takes down what the host has spooled by the end of its engine. It
// changes nothing any more, but belongs to the evidence.
func (a *agent) keepRows(ctx context.Context) {
	if a.host == nil || a.trail == nil {
		return
	}
	c, cancel := short(ctx)
	defer cancel()
	if err := a.readRows(c); err != nil {
		a.rec.EvidenceComplete = false
		a.log.Warn("the last events are not kept", "err", err)
	}
}

// readRows reads the spool from the newest row that is kept to its end.
func (a *agent) readRows(ctx context.Context) error {
	state, err := a.host.Inspect(ctx, &hostpb.InspectRequest{})
	if err != nil {
		return err
	}
	last := position{state.GetLast().GetGeneration(), state.GetLast().GetSeq()}
	if !last.after(a.trail.last) {
		return nil
	}
	rows, err := a.host.Events(ctx, &hostpb.EventsRequest{
		Fence: a.fence(), After: &hostpb.Position{Generation: a.trail.last.generation, Seq: a.trail.last.seq},
	})
	if err != nil {
		return err
	}
	for last.after(a.trail.last) {
		e, err := rows.Recv()
		if err != nil {
			return err
		}
		if e.GetTransient() {
			continue
		}
		if err := a.appendRow(rowOf(e)); err != nil {
			return err
		}
		a.trail.last = position{e.GetPosition().GetGeneration(), e.GetPosition().GetSeq()}
	}
	return nil
}

// readThread asks the engine for the agent's thread.
func (a *agent) readThread(ctx context.Context) (*hostpb.ThreadState, error) {
	c, cancel := short(ctx)
	defer cancel()
	answer, err := a.host.Read(c, &hostpb.ReadRequest{})
	if err != nil {
		return nil, hostError("reading the thread", err)
	}
	if f := answer.GetFailure(); f != nil {
		return nil, failureError("reading the thread", f)
	}
	return answer.GetState(), nil
}
