package hostplugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// settleWait is how long after a refused interrupt the turn's end may still
// arrive: the two race.
const settleWait = 2 * time.Second

// StartTurn implements hostpb.HostServer.
func (h *Host) StartTurn(ctx context.Context, req *hostpb.StartTurnRequest) (*hostpb.CommandResponse, error) {
	return h.apply(ctx, req.GetFence(), req.GetCommandId(), kindStartTurn, commandWait,
		func(ctx context.Context, e *engine) (*hostpb.CommandResponse, error) {
			input := []any{map[string]any{"type": "text", "text": req.GetText()}}
			for _, path := range req.GetImagePaths() {
				input = append(input, map[string]any{"type": "localImage", "path": path})
			}
			params := map[string]any{"input": input, "clientUserMessageId": req.GetCommandId()}
			if len(req.GetOutputSchemaJson()) > 0 {
				params["outputSchema"] = json.RawMessage(req.GetOutputSchemaJson())
			}
			if req.GetEffort() != "" {
				params["effort"] = req.GetEffort()
			}
			var answer struct {
				Turn wireTurn `json:"turn"`
			}
			raw, err := e.callThread(ctx, "turn/start", params, &answer)
			if err != nil {
				return nil, err
			}
			e.thread.started(answer.Turn.ID)
			return applied(answer.Turn.ID, raw), nil
		})
}

// Steer implements hostpb.HostServer.
func (h *Host) Steer(ctx context.Context, req *hostpb.SteerRequest) (*hostpb.CommandResponse, error) {
	return h.apply(ctx, req.GetFence(), req.GetCommandId(), kindSteer, commandWait,
		func(ctx context.Context, e *engine) (*hostpb.CommandResponse, error) {
			var answer struct {
				TurnID string `json:"turnId"`
			}
			raw, err := e.callThread(ctx, "turn/steer", map[string]any{
				"expectedTurnId":      req.GetExpectedTurnId(),
				"input":               []any{map[string]any{"type": "text", "text": req.GetText()}},
				"clientUserMessageId": req.GetCommandId(),
			}, &answer)
			return applied(answer.TurnID, raw), err
		})
}

// Interrupt implements hostpb.HostServer.
func (h *Host) Interrupt(ctx context.Context, req *hostpb.InterruptRequest) (*hostpb.CommandResponse, error) {
	return h.apply(ctx, req.GetFence(), req.GetCommandId(), kindInterrupt, commandWait,
		func(ctx context.Context, e *engine) (*hostpb.CommandResponse, error) {
			raw, err := e.interrupt(ctx, req.GetTurnId())
			if err != nil {
				return nil, err
			}
			if req.GetCleanBackground() {
				if _, err := e.callThread(ctx, "thread/backgroundTerminals/clean", nil, nil); err != nil {
					return nil, err
				}
			}
			return applied(req.GetTurnId(), raw), nil
		})
}

// interrupt ends a turn. A refusal counts for nothing when the turn's end
// arrives all the same: it ended while the request was under way.
func (e *engine) interrupt(ctx context.Context, turnID string) (json.RawMessage, error) {
	raw, err := e.callThread(ctx, "turn/interrupt", map[string]any{"turnId": turnID}, nil)
	if !isRefusal(err) {
		return raw, err
	}
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	for {
		ended, changed := e.thread.ended(turnID)
		if ended {
			return json.RawMessage("{}"), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// SetGoal implements hostpb.HostServer.
func (h *Host) SetGoal(ctx context.Context, req *hostpb.SetGoalRequest) (*hostpb.CommandResponse, error) {
	return h.apply(ctx, req.GetFence(), req.GetCommandId(), kindSetGoal, commandWait,
		func(ctx context.Context, e *engine) (*hostpb.CommandResponse, error) {
			if req.GetClear() {
				raw, err := e.callThread(ctx, "thread/goal/clear", nil, nil)
				return applied("", raw), err
			}
			params := map[string]any{}
			if req.GetObjective() != "" {
				params["objective"] = req.GetObjective()
			}
			if req.GetStatus() != "" {
				params["status"] = req.GetStatus()
			}
			if req.GetTokenBudget() > 0 {
				params["tokenBudget"] = req.GetTokenBudget()
			}
			raw, err := e.callThread(ctx, "thread/goal/set", params, nil)
			return applied("", raw), err
		})
}

// Compact implements hostpb.HostServer. The engine answers when the compaction
// has begun; it ends a running turn.
func (h *Host) Compact(ctx context.Context, req *hostpb.CompactRequest) (*hostpb.CommandResponse, error) {
	return h.apply(ctx, req.GetFence(), req.GetCommandId(), kindCompact, commandWait,
		func(ctx context.Context, e *engine) (*hostpb.CommandResponse, error) {
			raw, err := e.callThread(ctx, "thread/compact/start", nil, nil)
			return applied("", raw), err
		})
}

// Respond implements hostpb.HostServer. A request that was answered or
// withdrawn is refused as stale.
func (h *Host) Respond(ctx context.Context, req *hostpb.RespondRequest) (*hostpb.CommandResponse, error) {
	return h.apply(ctx, req.GetFence(), req.GetCommandId(), kindRespond, commandWait,
		func(_ context.Context, e *engine) (*hostpb.CommandResponse, error) {
			if !isRequestID(req.GetRequestId()) {
				return nil, failf("invalid", "request id %q is neither a JSON integer nor a JSON string", req.GetRequestId())
			}
			var result bytes.Buffer
			if err := json.Compact(&result, req.GetResultJson()); err != nil {
				return nil, failf("invalid", "the answer is not JSON: %v", err)
			}
			conn, err := e.client()
			if err != nil {
				return nil, err
			}
			if _, ok := e.thread.take(req.GetRequestId()); !ok {
				return nil, failf("stale", "request %s is not pending", req.GetRequestId())
			}
			return applied("", nil), conn.Reply(json.RawMessage(req.GetRequestId()), result.Bytes())
		})
}

// isRequestID tells whether text is the JSON text of an id.
func isRequestID(text string) bool {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return true
	}
	var word string
	return json.Unmarshal([]byte(text), &word) == nil && len(text) > 1 && text[0] == '"'
}

// ReloadTools implements hostpb.HostServer.
func (h *Host) ReloadTools(ctx context.Context, req *hostpb.ReloadToolsRequest) (*hostpb.CommandResponse, error) {
	return h.apply(ctx, req.GetFence(), req.GetCommandId(), kindReloadTools, bound(req.GetTimeoutMs(), commandWait),
		func(ctx context.Context, e *engine) (*hostpb.CommandResponse, error) {
			before, _ := e.thread.server(req.GetServer())
			raw, err := e.call(ctx, "config/mcpServer/reload", nil, nil)
			if err != nil || req.GetServer() == "" {
				return applied("", raw), err
			}
			return applied("", raw), e.awaitServer(ctx, req.GetServer(), before.serial)
		})
}

// awaitServer waits until an MCP server is ready, or has failed, by an event
// later than serial.
func (e *engine) awaitServer(ctx context.Context, name string, serial int) error {
	for {
		now, changed := e.thread.server(name)
		if now.serial > serial {
			switch now.status {
			case "ready":
				return nil
			case "failed", "cancelled":
				return failf("tools_failed", "MCP server %s is %s: %s", name, now.status, now.reason)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(failf("timeout", "MCP server %s is not ready", name), context.Cause(ctx))
		}
	}
}

// callThread is call about the open thread.
func (e *engine) callThread(ctx context.Context, method string, params map[string]any, result any) (json.RawMessage, error) {
	threadID := e.snapshot().GetThreadId()
	if threadID == "" {
		return nil, errNoThread
	}
	if params == nil {
		params = map[string]any{}
	}
	params["threadId"] = threadID
	return e.call(ctx, method, params, result)
}

func applied(turnID string, raw json.RawMessage) *hostpb.CommandResponse {
	return &hostpb.CommandResponse{Delivery: basepb.Delivery_DELIVERY_APPLIED, TurnId: turnID, ResultJson: raw}
}
