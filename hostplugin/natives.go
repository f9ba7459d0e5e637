package hostplugin

import (
	"context"
	"encoding/json"

	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// Bounds of what an engine may tell of native agents.
const (
	maxNatives     = 256 // of one engine
	maxNativeDepth = 16  // below the open thread
)

// wireNative is a thread as the engine lists it.
type wireNative struct {
	ID       string          `json:"id"`
	ParentID string          `json:"parentThreadId"`
	Role     string          `json:"agentRole"`
	Nickname string          `json:"agentNickname"`
	Status   json.RawMessage `json:"status"`
}

// family is what was found of the native agents below a thread.
type family struct {
	list []*hostpb.Native
	have map[string]bool // thread ids in list, and the open thread's
}

func (f *family) add(t *wireNative) {
	if f.have[t.ID] || len(f.list) == maxNatives {
		return
	}
	f.have[t.ID] = true
	f.list = append(f.list, &hostpb.Native{
		ThreadId: t.ID, ParentThreadId: t.ParentID, Role: t.Role, Nickname: t.Nickname, Status: typeOf(t.Status),
	})
}

// Natives implements hostpb.HostServer.
func (h *Host) Natives(ctx context.Context, req *hostpb.NativesRequest) (*hostpb.NativesResponse, error) {
	e := h.current()
	if e == nil {
		return &hostpb.NativesResponse{Failure: wireFailure(errNotLaunched)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	ctx, stop := whileAlive(ctx, e)
	defer stop()
	found, err := e.natives(ctx, req.GetThreadIds())
	if err != nil {
		return &hostpb.NativesResponse{Failure: wireFailure(err)}, nil
	}
	return &hostpb.NativesResponse{Natives: found.list}, nil
}

// natives lists the threads below the open one, and looks for those that are
// named: the engine's list leaves out some that it has.
func (e *engine) natives(ctx context.Context, named []string) (*family, error) {
	root := e.snapshot().GetThreadId()
	if root == "" {
		return nil, errNoThread
	}
	found := &family{have: map[string]bool{root: true}}
	if err := e.listChildren(ctx, found, root); err != nil {
		return nil, err
	}
	for i := 0; i < len(found.list); i++ { // it grows
		if err := e.listChildren(ctx, found, found.list[i].GetThreadId()); err != nil {
			return nil, err
		}
	}
	for _, id := range named {
		if err := e.findNative(ctx, found, id); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// listChildren adds the threads that a thread started.
func (e *engine) listChildren(ctx context.Context, found *family, parent string) error {
	params := map[string]any{"parentThreadId": parent, "limit": turnsPage}
	for len(found.list) < maxNatives {
		var page struct {
			Data       []wireNative `json:"data"`
			NextCursor string       `json:"nextCursor"`
		}
		if _, err := e.call(ctx, "thread/list", params, &page); err != nil {
			return err
		}
		for i := range page.Data {
			if t := &page.Data[i]; t.ParentID == parent {
				found.add(t)
			}
		}
		if page.NextCursor == "" {
			return nil
		}
		params["cursor"] = page.NextCursor
	}
	return nil
}

// findNative reads a thread and those above it until one is known. A thread that
// leads elsewhere, or that the engine does not have, is not added.
func (e *engine) findNative(ctx context.Context, found *family, id string) error {
	var line []*wireNative // from the thread upwards
	for id != "" && !found.have[id] && len(line) < maxNativeDepth {
		var read struct {
			Thread wireNative `json:"thread"`
		}
		_, err := e.call(ctx, "thread/read", map[string]any{"threadId": id}, &read)
		if isRefusal(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if read.Thread.ID != id {
			return nil
		}
		line = append(line, &read.Thread)
		id = read.Thread.ParentID
	}
	if !found.have[id] {
		return nil
	}
	for i := len(line) - 1; i >= 0; i-- {
		found.add(line[i])
	}
	return nil
}

// EndNative implements hostpb.HostServer. Codex ends an archived thread and those
// below it, and does not take it up again.
func (h *Host) EndNative(ctx context.Context, req *hostpb.EndNativeRequest) (*hostpb.CommandResponse, error) {
	return h.apply(ctx, req.GetFence(), req.GetCommandId(), kindEndNative, commandWait,
		func(ctx context.Context, e *engine) (*hostpb.CommandResponse, error) {
			id := req.GetThreadId()
			root := e.snapshot().GetThreadId()
			if root == "" {
				return nil, errNoThread
			}
			found := &family{have: map[string]bool{root: true}}
			if err := e.findNative(ctx, found, id); err != nil {
				return nil, err
			}
			if id == root || !found.have[id] {
				return nil, errNotNative
			}
			raw, err := e.call(ctx, "thread/archive", map[string]any{"threadId": id}, nil)
			return applied("", raw), err
		})
}

var errNotNative = failf("not_native", "the thread is not that of a native agent below the open one")
