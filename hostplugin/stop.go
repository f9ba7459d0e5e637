package hostplugin

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core/process"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

const (
	defaultGrace = 2 * time.Second
	// recordWait bounds the wait for the Exited row of an engine that was ended.
	recordWait = 2 * time.Second
)

// Stop implements hostpb.HostServer. It does not wait for an Open under way: it
// ends it.
func (h *Host) Stop(ctx context.Context, req *hostpb.StopRequest) (*hostpb.StopResponse, error) {
	if err := h.fence.check(req.GetFence()); err != nil {
		return nil, err
	}
	e := h.current()
	if e == nil {
		return &hostpb.StopResponse{}, nil
	}
	grace := bound(req.GetGraceMs(), defaultGrace)
	out := &hostpb.StopResponse{EngineWasRunning: e.id.Alive()}
	if out.EngineWasRunning && req.GetInterrupt() {
		e.quiet(ctx, grace)
	}
	e.cancel(errStopped)
	// Descendants are swept also when the engine is gone already.
	survivors, err := process.Retire(ctx, e.id, &process.RetireOptions{
		Grace: grace, Mark: e.snapshot().GetAgentRef() + "/",
	})
	for _, id := range survivors {
		out.Survivors = append(out.Survivors, wireProcess(id))
	}
	if err != nil && len(survivors) == 0 {
		return nil, status.Errorf(codes.Internal, "stopping the engine: %v", err)
	}
	if !e.id.Alive() {
		select {
		case <-e.gone:
		case <-time.After(recordWait):
		}
	}
	return out, nil
}

// quiet interrupts the running turn and ends the commands that it left, as far
// as the engine lets it within grace each.
func (e *engine) quiet(ctx context.Context, grace time.Duration) {
	if turn := e.thread.activeTurn(); turn != "" {
		bounded, cancel := context.WithTimeout(ctx, grace)
		_, _ = e.interrupt(bounded, turn) // SIGTERM comes next
		cancel()
	}
	bounded, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	_, _ = e.callThread(bounded, "thread/backgroundTerminals/clean", nil, nil) // the sweep comes next
}
