package plugintest

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// apply runs a command once per id; effect runs under the lock.
func (h *Host) apply(id string, effect func(*hostpb.CommandResponse)) (*hostpb.CommandResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if first := h.commands[id]; first != nil {
		again := proto.CloneOf(first)
		again.RepeatedCommand = true
		return again, nil
	}
	out := &hostpb.CommandResponse{Delivery: basepb.Delivery_DELIVERY_APPLIED}
	effect(out)
	h.commands[id] = proto.CloneOf(out)
	return out, nil
}

// StartTurn implements hostpb.HostServer. While a turn runs the input is
// steered into it, as the real engine does.
func (h *Host) StartTurn(_ context.Context, req *hostpb.StartTurnRequest) (*hostpb.CommandResponse, error) {
	return h.apply(req.GetCommandId(), func(out *hostpb.CommandResponse) {
		if turn := h.activeLocked(); turn != nil {
			turn.CommandIds = append(turn.CommandIds, req.GetCommandId())
			out.TurnId = turn.GetId()
			return
		}
		h.turns++
		turn := &hostpb.Turn{Id: fmt.Sprintf("turn_%d", h.turns), Status: "inProgress", CommandIds: []string{req.GetCommandId()}}
		h.state.Turns = append(h.state.Turns, turn)
		h.state.ActiveTurnId, h.state.Status = turn.GetId(), "active"
		out.TurnId = turn.GetId()
		h.notifyLocked("turn/started", fmt.Sprintf(`{"threadId":%q,"turn":{"id":%q,"status":"inProgress","items":[]}}`,
			h.state.GetThreadId(), turn.GetId()))
	})
}

// Steer implements hostpb.HostServer.
func (h *Host) Steer(_ context.Context, req *hostpb.SteerRequest) (*hostpb.CommandResponse, error) {
	return h.apply(req.GetCommandId(), func(out *hostpb.CommandResponse) {
		turn := h.activeLocked()
		if turn == nil || turn.GetId() != req.GetExpectedTurnId() {
			reject(out, "no such turn runs")
			return
		}
		turn.CommandIds = append(turn.CommandIds, req.GetCommandId())
		out.TurnId = turn.GetId()
	})
}

// Interrupt implements hostpb.HostServer.
func (h *Host) Interrupt(_ context.Context, req *hostpb.InterruptRequest) (*hostpb.CommandResponse, error) {
	return h.apply(req.GetCommandId(), func(out *hostpb.CommandResponse) {
		if turn := h.activeLocked(); turn == nil || turn.GetId() != req.GetTurnId() {
			reject(out, "no active turn to interrupt")
			return
		}
		h.endTurnLocked("interrupted", "")
		out.TurnId = req.GetTurnId()
	})
}

// SetGoal implements hostpb.HostServer.
func (h *Host) SetGoal(_ context.Context, req *hostpb.SetGoalRequest) (*hostpb.CommandResponse, error) {
	return h.apply(req.GetCommandId(), func(*hostpb.CommandResponse) {})
}

// Compact implements hostpb.HostServer. It ends a running turn.
func (h *Host) Compact(_ context.Context, req *hostpb.CompactRequest) (*hostpb.CommandResponse, error) {
	return h.apply(req.GetCommandId(), func(*hostpb.CommandResponse) {
		if h.activeLocked() != nil {
			h.endTurnLocked("interrupted", "")
		}
	})
}

// Respond implements hostpb.HostServer.
func (h *Host) Respond(_ context.Context, req *hostpb.RespondRequest) (*hostpb.CommandResponse, error) {
	return h.apply(req.GetCommandId(), func(out *hostpb.CommandResponse) {
		for i, p := range h.state.GetPending() {
			if p.GetRequestId() == req.GetRequestId() {
				h.state.Pending = append(h.state.Pending[:i:i], h.state.Pending[i+1:]...)
				return
			}
		}
		reject(out, "request "+req.GetRequestId()+" is not pending")
		out.Failure.Kind = "stale"
	})
}

// ReloadTools implements hostpb.HostServer.
func (h *Host) ReloadTools(_ context.Context, req *hostpb.ReloadToolsRequest) (*hostpb.CommandResponse, error) {
	return h.apply(req.GetCommandId(), func(*hostpb.CommandResponse) {})
}

func reject(out *hostpb.CommandResponse, message string) {
	out.Delivery, out.Failure = basepb.Delivery_DELIVERY_REJECTED, failure("refused", message)
}

// Complete ends the running turn with that status ("completed", "failed",
// "interrupted") and the final text, and sends its event.
func (h *Host) Complete(status, text string) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.activeLocked() == nil {
		h.t.Errorf("plugintest: Complete(%s): no turn runs", status)
		return
	}
	h.endTurnLocked(status, text)
}

// Lose ends the running turn as the death of its engine does: interrupted,
// without the time of an end, and without an event.
func (h *Host) Lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if turn := h.activeLocked(); turn != nil {
		turn.Status = "interrupted"
	}
	h.state.ActiveTurnId, h.state.Status = "", "idle"
}

func (h *Host) endTurnLocked(status, text string) {
	turn := h.activeLocked()
	turn.Status, turn.HasCompletedAt, turn.FinalText = status, true, text
	h.state.ActiveTurnId, h.state.Status = "", "idle"
	h.notifyLocked("turn/completed", fmt.Sprintf(
		`{"threadId":%q,"turn":{"id":%q,"status":%q,"completedAt":1,"items":[{"type":"agentMessage","id":"m","text":%s}]}}`,
		h.state.GetThreadId(), turn.GetId(), status, quote(text)))
}

func (h *Host) activeLocked() *hostpb.Turn {
	for _, turn := range h.state.GetTurns() {
		if turn.GetId() == h.state.GetActiveTurnId() {
			return turn
		}
	}
	return nil
}

// rpcName returns the name of an RPC from its full method.
func rpcName(full string) string { return full[strings.LastIndexByte(full, '/')+1:] }
