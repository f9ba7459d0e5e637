package hostplugin

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/hostplugin/appserver"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// commandWait bounds a command whose request has no bound of its own.
const commandWait = 60 * time.Second

// The kinds of commands, as the journal names them.
const (
	kindStartTurn   = "start_turn"
	kindSteer       = "steer"
	kindInterrupt   = "interrupt"
	kindSetGoal     = "set_goal"
	kindCompact     = "compact"
	kindRespond     = "respond"
	kindReloadTools = "reload_tools"
	kindEndNative   = "end_native"
)

// repeatable are the kinds that may be sent again when nobody knows what became
// of them: they name what they end, or only refresh.
var repeatable = map[string]bool{kindInterrupt: true, kindReloadTools: true}

// command is one command id and what became of it.
type command struct {
	id         string
	kind       string
	generation uint64 // of the engine it was sent to
	sent       bool   // the journal has it: it may have left this machine's memory

	mu     sync.Mutex // held while the command is worked on
	answer *hostpb.CommandResponse
}

// commandCall is what a command does: it sends its one request and tells what
// came of it.
type commandCall func(ctx context.Context, e *engine) (*hostpb.CommandResponse, error)

// apply runs a command once per id. The work goes on when the caller leaves:
// its answer is kept for the next one who asks.
func (h *Host) apply(
	ctx context.Context, fence *basepb.Fence, id, kind string, wait time.Duration, call commandCall,
) (*hostpb.CommandResponse, error) {
	if err := h.fence.check(fence); err != nil {
		return nil, err
	}
	if id == "" || len(id) > 256 {
		return nil, status.Error(codes.InvalidArgument, "command id must have 1 to 256 bytes")
	}
	e := h.current()
	if e == nil {
		return rejected(errNotLaunched), nil
	}
	c := e.store.commandOf(id, kind)
	if c.kind != kind {
		return nil, status.Errorf(codes.InvalidArgument, "command id %s was used for %s", id, c.kind)
	}
	result := make(chan *hostpb.CommandResponse, 1)
	ok := h.spawn(func() {
		bounded, cancel := context.WithTimeout(e.ctx, wait)
		defer cancel()
		result <- c.run(bounded, e, call)
	})
	if !ok {
		return nil, status.Error(codes.Unavailable, errClosing.Error())
	}
	select {
	case out := <-result:
		return out, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// commandOf returns the command of that id, made when it is new.
func (s *store) commandOf(id, kind string) *command {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.commands[id]
	if c == nil {
		c = &command{id: id, kind: kind}
		s.commands[id] = c
	}
	return c
}

// run returns the first answer when there is one, finds out what became of a
// command that was sent without one, and otherwise sends it.
func (c *command) run(ctx context.Context, e *engine, call commandCall) *hostpb.CommandResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != nil {
		again := proto.CloneOf(c.answer)
		again.RepeatedCommand = true
		return again
	}
	if c.sent && !repeatable[c.kind] {
		out := c.lookUp(ctx, e)
		out.RepeatedCommand = true
		return c.settle(e, out)
	}
	// The journal comes first: after this line the command counts as sent.
	generation := e.snapshot().GetGeneration()
	if _, err := e.client(); err != nil {
		return rejected(err)
	}
	if err := e.store.journal.Append(entry{ID: c.id, Kind: c.kind, Generation: generation}); err != nil {
		return rejected(err)
	}
	c.sent, c.generation = true, generation
	out, err := call(ctx, e)
	if err != nil {
		out = c.failed(err)
	}
	return c.settle(e, out)
}

// failed tells what an error of the one request means for the command.
func (c *command) failed(err error) *hostpb.CommandResponse {
	out := rejected(err)
	if errors.Is(err, appserver.ErrUnanswered) {
		out.Delivery = basepb.Delivery_DELIVERY_UNKNOWN
	}
	return out
}

// settle keeps a known outcome as the command's first answer.
func (c *command) settle(e *engine, out *hostpb.CommandResponse) *hostpb.CommandResponse {
	if out.GetDelivery() == basepb.Delivery_DELIVERY_UNKNOWN {
		return out
	}
	first := proto.CloneOf(out)
	first.RepeatedCommand = false
	c.answer = first
	if raw, err := protojson.Marshal(first); err == nil {
		// Lost: the next host looks the command up in the thread's history.
		_ = e.store.journal.Append(entry{ID: c.id, Answer: raw})
	}
	return out
}

// lookUp finds a sent input in the thread's history by its command id.
func (c *command) lookUp(ctx context.Context, e *engine) *hostpb.CommandResponse {
	unknown := &hostpb.CommandResponse{
		Delivery: basepb.Delivery_DELIVERY_UNKNOWN,
		Failure:  &basepb.Failure{Kind: "unanswered", Message: "the command was sent and its answer was lost"},
	}
	threadID := e.snapshot().GetThreadId()
	if c.kind != kindStartTurn && c.kind != kindSteer || threadID == "" {
		return unknown
	}
	state, err := readThread(ctx, e, threadID, false)
	if err != nil {
		unknown.Failure = wireFailure(err)
		return unknown
	}
	for _, turn := range state.GetTurns() {
		for _, id := range turn.GetCommandIds() {
			if id == c.id {
				return &hostpb.CommandResponse{Delivery: basepb.Delivery_DELIVERY_APPLIED, TurnId: turn.GetId()}
			}
		}
	}
	// The engine it was sent to is gone and the history is complete without it.
	if c.generation < e.snapshot().GetGeneration() {
		return rejected(failf("not_delivered", "the engine ended before it took the input"))
	}
	return unknown
}

func rejected(err error) *hostpb.CommandResponse {
	return &hostpb.CommandResponse{Delivery: basepb.Delivery_DELIVERY_REJECTED, Failure: wireFailure(err)}
}

func isRefusal(err error) bool {
	var refused *appserver.RPCError
	return errors.As(err, &refused)
}
