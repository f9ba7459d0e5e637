package hostplugin

import (
	"context"
	"encoding/json"

	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// turnsPage is how many turns are asked for at once: whole items of a page must
// stay under the 16 MiB of a frame.
const turnsPage = 20

// Read implements hostpb.HostServer.
func (h *Host) Read(ctx context.Context, req *hostpb.ReadRequest) (*hostpb.ReadResponse, error) {
	e := h.current()
	if e == nil {
		return &hostpb.ReadResponse{Failure: wireFailure(errNotLaunched)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	ctx, stop := whileAlive(ctx, e)
	defer stop()
	threadID := e.snapshot().GetThreadId()
	if threadID == "" {
		return &hostpb.ReadResponse{Failure: wireFailure(errNoThread)}, nil
	}
	state, err := readThread(ctx, e, threadID, req.GetIncludeItems())
	if err != nil {
		return &hostpb.ReadResponse{Failure: wireFailure(err)}, nil
	}
	state.Pending = e.thread.state().GetPending()
	return &hostpb.ReadResponse{State: state}, nil
}

// readThread asks the engine for the thread and its turns, oldest first.
func readThread(ctx context.Context, e *engine, threadID string, items bool) (*hostpb.ThreadState, error) {
	var read struct {
		Thread struct {
			Status json.RawMessage `json:"status"`
		} `json:"thread"`
	}
	if _, err := e.call(ctx, "thread/read", map[string]any{"threadId": threadID}, &read); err != nil {
		return nil, err
	}
	state := &hostpb.ThreadState{ThreadId: threadID, Status: typeOf(read.Thread.Status)}
	params := map[string]any{
		"threadId": threadID, "limit": turnsPage, "sortDirection": "asc", "itemsView": "full",
	}
	for {
		var page struct {
			Data       []wireTurn `json:"data"`
			NextCursor string     `json:"nextCursor"`
		}
		if _, err := e.call(ctx, "thread/turns/list", params, &page); err != nil {
			return nil, err
		}
		for i := range page.Data {
			state.Turns = append(state.Turns, readTurn(&page.Data[i], items))
		}
		if page.NextCursor == "" {
			break
		}
		params["cursor"] = page.NextCursor
	}
	if n := len(state.Turns); n > 0 && state.Turns[n-1].GetStatus() == "inProgress" {
		state.ActiveTurnId = state.Turns[n-1].GetId()
	} else if state.Status == "active" {
		state.ActiveTurnId = e.thread.activeTurn() // begun, and not in the history yet
	}
	return state, nil
}

func readTurn(t *wireTurn, items bool) *hostpb.Turn {
	out := t.wire()
	if items {
		out.RawJson = t.raw
	}
	return out
}

// Inspect implements hostpb.HostServer. It asks the engine nothing.
func (h *Host) Inspect(context.Context, *hostpb.InspectRequest) (*hostpb.InspectResponse, error) {
	out := &hostpb.InspectResponse{}
	if s := h.currentStore(); s != nil {
		out.Last = wirePosition(s.spool.Last())
	}
	if e := h.current(); e != nil {
		out.Handle, out.State, out.Connected = e.snapshot(), e.thread.state(), e.connected()
	}
	return out, nil
}
