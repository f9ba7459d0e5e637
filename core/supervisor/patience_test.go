package supervisor

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/codex-mmo/codex-mmo/core/profile"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// openingHost notes how long it was given to open a thread, and how long its
// caller waits for it.
type openingHost struct {
	playedHost
	window, patience time.Duration
}

func (h *openingHost) Open(ctx context.Context, r *hostpb.OpenRequest, _ ...grpc.CallOption) (*hostpb.OpenResponse, error) {
	until, _ := ctx.Deadline()
	h.window, h.patience = time.Duration(r.GetTimeoutMs())*time.Millisecond, time.Until(until)
	return &hostpb.OpenResponse{Failure: &basepb.Failure{Kind: "refused", Message: "no"}}, nil
}

// TestCallsOutlastTheirHosts: whoever calls a host waits longer than the host may
// take, which is long enough for its slowest tool server.
//
// Spec: R048
func TestCallsOutlastTheirHosts(t *testing.T) {
	t.Parallel()
	if got := controlTimeout(1200 * time.Second).Seconds(); got != 1230.0 {
		t.Errorf("a call for which the host has 1200 s is given %v s, want 1230", got)
	}
	r := newRig(t, "running", "running")
	for startup, want := range map[float64]time.Duration{20: minOpen, 1170: 1200 * time.Second} {
		role := r.snap.Agents["worker"]
		role.ToolServers = map[string]profile.ToolUse{"slow": {}}
		r.snap.Agents["worker"], r.snap.ToolServers = role, map[string]profile.ToolServer{"slow": {StartupTimeoutSec: startup}}
		if got := r.openWindow("worker"); got != want {
			t.Errorf("with a tool server that may take %v s a host may take %v, want %v", startup, got, want)
		}
	}
	if got := r.openWindow("lead"); got != minOpen {
		t.Errorf("without one it may take %v, want %v", got, minOpen)
	}
	host := &openingHost{}
	a := r.player(&host.playedHost, nil)
	a.host = host
	if _, err := a.openThread(t.Context()); err == nil {
		t.Error("a refused thread was opened")
	}
	if host.window != r.openWindow("worker") || host.patience <= host.window {
		t.Errorf("the host was given %v and waited for %v, want %v and more", host.window, host.patience, r.openWindow("worker"))
	}
}
