package plugintest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
)

// step is what happens to one call instead of a plain answer.
type step struct {
	before func(ctx context.Context) // ahead of the effect
	after  func(ctx context.Context) // between the effect and the answer
	err    error                     // instead of effect and answer
}

// Held is a call that waits.
type Held struct {
	Reached <-chan struct{} // closed when the call has had its effect
	release chan struct{}
}

// Release lets the answer go. It is called once.
func (h *Held) Release() { close(h.release) }

// Hold keeps back the answer to the next call of that RPC, which has its
// effect. A caller that leaves is not waited for.
func (h *Host) Hold(rpc string) *Held {
	reached := make(chan struct{})
	held := &Held{Reached: reached, release: make(chan struct{})}
	h.script(rpc, step{after: func(ctx context.Context) {
		close(reached)
		select {
		case <-held.release:
		case <-ctx.Done():
		}
	}})
	return held
}

// During runs do between the effect and the answer of the next call of that
// RPC; with Complete it is the completion that precedes the answer.
func (h *Host) During(rpc string, do func()) {
	h.script(rpc, step{after: func(context.Context) { do() }})
}

// DieBefore makes the host die when the next call of that RPC has arrived and
// before it has any effect.
func (h *Host) DieBefore(rpc string) { h.script(rpc, step{before: h.die}) }

// DieAfter makes the host die between the effect and the answer of the next
// call of that RPC.
func (h *Host) DieAfter(rpc string) { h.script(rpc, step{after: h.die}) }

// Fail answers the next call of that RPC with a gRPC error of that code.
func (h *Host) Fail(rpc string, code codes.Code, message string) {
	h.script(rpc, step{err: status.Error(code, message)})
}

// die drops all connections. The call that is under way ends with its own.
func (h *Host) die(ctx context.Context) {
	h.mu.Lock()
	server := h.server
	h.mu.Unlock()
	if server != nil {
		server.Stop()
	}
	<-ctx.Done()
}

func (h *Host) script(rpc string, s step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps[rpc] = append(h.steps[rpc], s)
}

// intercept notes every unary call and takes it through its step.
func (h *Host) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	rpc := rpcName(info.FullMethod)
	s := h.take(rpc, req)
	if fenced, ok := req.(interface{ GetFence() *basepb.Fence }); ok {
		if err := h.fenced(fenced.GetFence()); err != nil {
			return nil, err
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.before != nil {
		s.before(ctx)
		if err := ctx.Err(); err != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	out, err := next(ctx, req)
	if s.after != nil {
		s.after(ctx)
	}
	return out, err
}

// take records the request and returns the RPC's next step.
func (h *Host) take(rpc string, req any) step {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m, ok := req.(proto.Message); ok {
		h.calls[rpc] = append(h.calls[rpc], proto.Clone(m))
	}
	steps := h.steps[rpc]
	if len(steps) == 0 {
		return step{}
	}
	h.steps[rpc] = steps[1:]
	return steps[0]
}
