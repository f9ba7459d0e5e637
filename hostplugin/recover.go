package hostplugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/hostplugin/appserver"
	"github.com/codex-mmo/codex-mmo/hostplugin/spool"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

const (
	defaultRecoverWait = 30 * time.Second
	// reconnects bounds how often a connection that breaks under a living
	// engine is made again before the supervisor has to decide.
	reconnects = 5
)

// Recover implements hostpb.HostServer.
func (h *Host) Recover(ctx context.Context, req *hostpb.RecoverRequest) (*hostpb.RecoverResponse, error) {
	if err := h.fence.check(req.GetFence()); err != nil {
		return nil, err
	}
	if req.GetHandle().GetVersion() > HandleVersion {
		return outcome(hostpb.RecoverResponse_OUTCOME_UNREADABLE, req.GetHandle(),
			failf("unreadable", "handle version %d is newer than %d", req.GetHandle().GetVersion(), HandleVersion)), nil
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	ctx, cancel := context.WithTimeout(ctx, bound(req.GetTimeoutMs(), defaultRecoverWait))
	defer cancel()
	return h.recover(ctx, req.GetHandle()), nil
}

func outcome(o hostpb.RecoverResponse_Outcome, handle *hostpb.Handle, err error) *hostpb.RecoverResponse {
	return &hostpb.RecoverResponse{Outcome: o, Handle: handle, Failure: wireFailure(err)}
}

func bound(ms uint32, otherwise time.Duration) time.Duration {
	if ms == 0 {
		return otherwise
	}
	return time.Duration(ms) * time.Millisecond
}

func (h *Host) recover(ctx context.Context, handle *hostpb.Handle) *hostpb.RecoverResponse {
	e, err := h.engineOf(handle)
	if err != nil {
		return outcome(hostpb.RecoverResponse_OUTCOME_UNREACHABLE, handle, err)
	}
	var state *hostpb.ThreadState
	if !e.hasGone() {
		state, err = h.attach(ctx, e, "no host was connected")
	}
	switch {
	case !e.id.Alive():
		// The end is a row before it is an answer.
		select {
		case <-e.gone:
		case <-ctx.Done():
		}
		return outcome(hostpb.RecoverResponse_OUTCOME_ENGINE_GONE, e.snapshot(), errEngineGone)
	case err != nil:
		return outcome(hostpb.RecoverResponse_OUTCOME_UNREACHABLE, e.snapshot(), err)
	}
	return &hostpb.RecoverResponse{
		Outcome: hostpb.RecoverResponse_OUTCOME_ADOPTED, Handle: e.snapshot(), State: state,
	}
}

// engineOf returns the engine that the handle names, taking hold of it when
// this host has not yet.
func (h *Host) engineOf(handle *hostpb.Handle) (*engine, error) {
	id := identity(handle.GetEngine())
	if e := h.current(); e != nil && e.id.Same(id) {
		if e.snapshot().GetThreadId() == "" && handle.GetThreadId() != "" {
			e.setThread(handle.GetThreadId())
		}
		return e, nil
	} else if e != nil && !e.hasGone() {
		return nil, failf("engine_running", "this host drives the engine of generation %d, pid %d", e.snapshot().GetGeneration(), e.id.PID)
	}
	if handle.GetGeneration() == 0 || id.PID == 0 || id.StartToken == "" || id.BootID == "" {
		return nil, failf("unreadable", "the handle does not name a process")
	}
	s, err := h.openStore(handle.GetSpoolDir())
	if err != nil {
		return nil, err
	}
	if err := s.spool.Begin(handle.GetGeneration()); err != nil {
		return nil, err
	}
	if err := h.adopt(handle, s); err != nil {
		return nil, err
	}
	return h.current(), nil
}

// adopt takes hold of the living process that the handle names, or notes that
// it is gone.
func (h *Host) adopt(handle *hostpb.Handle, s *store) error {
	e := h.newEngine(handle, s)
	watch, err := process.Open(e.id)
	switch {
	case err == nil:
		e.watch = watch
		h.setEngine(e)
		h.spawn(func() { h.watchExit(e, watch.Done()) })
	case errors.Is(err, process.ErrGone):
		h.setEngine(e)
		h.recordExit(e)
	default:
		return err
	}
	return nil
}

// attach connects, subscribes to the handle's thread when it is loaded, and
// records what it found. A running turn is left alone.
//
// gap says why frames may be missing; they are when a turn ran meanwhile.
func (h *Host) attach(ctx context.Context, e *engine, gap string) (*hostpb.ThreadState, error) {
	ctx, stop := whileAlive(ctx, e)
	defer stop()
	threadID := e.snapshot().GetThreadId()
	if e.connected() && e.thread.is(threadID) {
		return currentThread(ctx, e, threadID)
	}
	conn, err := h.connect(ctx, e)
	if err != nil {
		return nil, err
	}
	state := &hostpb.ThreadState{}
	if threadID != "" {
		if state, err = subscribe(ctx, e, conn, threadID); err != nil {
			return nil, err
		}
	}
	if e.store.missedTurn(state) {
		if err := e.store.hole("a turn ran while %s", gap); err != nil {
			return nil, err
		}
	}
	e.thread.attach(state)
	state.Pending = e.thread.state().GetPending()
	return state, e.store.recordProto(spool.Attached, &hostpb.Attached{State: state})
}

// currentThread reads the thread that this host is attached to already.
func currentThread(ctx context.Context, e *engine, threadID string) (*hostpb.ThreadState, error) {
	if threadID == "" {
		return &hostpb.ThreadState{}, nil
	}
	state, err := readThread(ctx, e, threadID, false)
	if err != nil {
		return nil, err
	}
	state.Pending = e.thread.state().GetPending()
	return state, nil
}

// subscribe resumes a loaded thread, which only subscribes to it: overrides
// would be ignored, so none are sent. A thread that is not loaded is left for
// Open, which sends its isolation again.
func subscribe(ctx context.Context, e *engine, conn *appserver.Client, threadID string) (*hostpb.ThreadState, error) {
	loaded, err := loadedThreads(ctx, e)
	if err != nil {
		return nil, err
	}
	e.thread.begin(threadID)
	if !slices.Contains(loaded, threadID) {
		return &hostpb.ThreadState{ThreadId: threadID, Status: "notLoaded"}, nil
	}
	params := map[string]any{"threadId": threadID, "excludeTurns": true}
	if _, err := conn.Call(ctx, "thread/resume", params); err != nil {
		return nil, err
	}
	return readThread(ctx, e, threadID, false)
}

func loadedThreads(ctx context.Context, e *engine) ([]string, error) {
	var all []string
	for params := map[string]any{}; ; {
		var page struct {
			Data       []string `json:"data"`
			NextCursor string   `json:"nextCursor"`
		}
		if _, err := e.call(ctx, "thread/loaded/list", params, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Data...)
		if page.NextCursor == "" {
			return all, nil
		}
		params["cursor"] = page.NextCursor
	}
}

// keepConnected makes the connection again when it breaks under a living
// engine. It ends with the connection.
func (h *Host) keepConnected(e *engine, conn *appserver.Client) {
	<-conn.Done()
	if !e.lost(conn) {
		return
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	if e.broken >= reconnects || e.connected() {
		return
	}
	e.broken++
	ctx, cancel := context.WithTimeout(e.ctx, defaultRecoverWait)
	defer cancel()
	gap := fmt.Sprintf("the connection was broken: %v", conn.Err())
	_, _ = h.attach(ctx, e, gap) // not attached: Inspect says so, the supervisor decides
}

// lost tells whether conn, which has ended, was not ended by this host and the
// engine did not end with it.
func (e *engine) lost(conn *appserver.Client) bool {
	e.mu.Lock()
	mine := e.conn == conn
	if mine {
		e.conn = nil
	}
	e.mu.Unlock()
	return mine && e.ctx.Err() == nil && e.id.Alive()
}
