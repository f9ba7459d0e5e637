package supervisor

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// terminalHistory is the thread of a job as its engine told it at the job's end.
type terminalHistory struct {
	ThreadID string        `json:"thread_id"`
	Turns    []historyTurn `json:"turns"` // oldest first
}

type historyTurn struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// keepHistory writes down which turns the job's thread has, while its engine can
// still be asked. What is known without it stands; that it is missing is no
// failure of the job.
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
	if err := store.WriteJSON(filepath.Join(a.evidenceDir(), "terminal-history.json"), history); err != nil {
		a.log.Warn("the history of the thread is not kept", "err", err)
	}
}

// keepRows takes down what the host has spooled when the job ends. It changes
// nothing any more, but belongs to the evidence.
func (a *agent) keepRows(ctx context.Context) {
	c, cancel := short(ctx)
	defer cancel()
	state, err := a.host.Inspect(c, &hostpb.InspectRequest{})
	last := position{state.GetLast().GetGeneration(), state.GetLast().GetSeq()}
	for err == nil && last.after(a.trail.last) {
		select {
		case e, ok := <-a.events:
			if !ok {
				err = errors.New("the stream of events broke")
				break
			}
			if at := (position{e.GetPosition().GetGeneration(), e.GetPosition().GetSeq()}); !e.GetTransient() && at.after(a.trail.last) {
				err = a.appendRow(rowOf(e))
				a.trail.last = at
			}
		case <-c.Done():
			err = context.Cause(c)
		}
	}
	if err != nil {
		a.rec.EvidenceComplete = false
		a.log.Warn("the last events of the job are not kept", "err", err)
	}
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
