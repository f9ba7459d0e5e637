package hostplugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/hostplugin/spool"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// liveBacklog is how many transient frames a slow reader may be behind before
// further ones are dropped for it.
const liveBacklog = 256

// Events implements hostpb.HostServer. It ends when the caller leaves, when the
// host ends, or when a later epoch has taken the session over.
func (h *Host) Events(req *hostpb.EventsRequest, stream grpc.ServerStreamingServer[hostpb.Event]) error {
	if err := h.fence.check(req.GetFence()); err != nil {
		return err
	}
	s := h.currentStore()
	if s == nil {
		return status.Error(codes.FailedPrecondition, "no spool is open; call Launch or Recover first")
	}
	after := req.GetAfter()
	reader := s.spool.Reader(spool.Position{Generation: after.GetGeneration(), Seq: after.GetSeq()})
	defer reader.Close()
	live, leave := h.live.join()
	defer leave()
	for {
		changed, raised := s.spool.Changed(), h.fence.changed()
		if err := h.fence.check(req.GetFence()); err != nil {
			return err
		}
		if err := drain(stream.Context(), reader, stream); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-raised:
		case frame := <-live:
			if err := stream.Send(transient(frame)); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-h.life.Done():
			return status.Error(codes.Unavailable, errClosing.Error())
		}
	}
}

// drain sends every row that is there.
func drain(ctx context.Context, reader *spool.Reader, stream grpc.ServerStreamingServer[hostpb.Event]) error {
	for ctx.Err() == nil {
		row, ok, err := reader.TryNext()
		if err != nil {
			return status.Error(codes.DataLoss, err.Error())
		}
		if !ok {
			return nil
		}
		if err := stream.Send(event(row)); err != nil {
			return err
		}
	}
	return nil
}

// event tells a row in the contract's words.
func event(row spool.Row) *hostpb.Event {
	out := &hostpb.Event{Position: wirePosition(row.Position()), RecordedAtNs: row.At}
	switch row.Direction {
	case spool.Received:
		out.Body = &hostpb.Event_ReceivedJson{ReceivedJson: row.Message}
	case spool.Sent:
		out.Body = &hostpb.Event_SentJson{SentJson: row.Message}
	case spool.Exited:
		exited := &hostpb.Exited{}
		if err := lenient.Unmarshal(row.Message, exited); err != nil {
			out.Body = holeEvent("unreadable exited row: %v", err)
			break
		}
		out.Body = &hostpb.Event_Exited{Exited: exited}
	case spool.Attached:
		attached := &hostpb.Attached{}
		if err := lenient.Unmarshal(row.Message, attached); err != nil {
			out.Body = holeEvent("unreadable attached row: %v", err)
			break
		}
		out.Body = &hostpb.Event_Attached{Attached: attached}
	case spool.Hole:
		out.Body = holeEvent("%s", row.HoleReason())
	default:
		out.Body = holeEvent("row of unknown direction %q", row.Direction)
	}
	return out
}

func holeEvent(format string, args ...any) *hostpb.Event_Hole {
	return &hostpb.Event_Hole{Hole: &hostpb.Hole{Reason: fmt.Sprintf(format, args...)}}
}

func transient(frame []byte) *hostpb.Event {
	return &hostpb.Event{
		Transient: true, RecordedAtNs: time.Now().UnixNano(), Position: &hostpb.Position{},
		Body: &hostpb.Event_ReceivedJson{ReceivedJson: frame},
	}
}

func wirePosition(p spool.Position) *hostpb.Position {
	return &hostpb.Position{Generation: p.Generation, Seq: p.Seq}
}

// Acknowledge implements hostpb.HostServer.
func (h *Host) Acknowledge(_ context.Context, req *hostpb.AcknowledgeRequest) (*hostpb.AcknowledgeResponse, error) {
	if err := h.fence.check(req.GetFence()); err != nil {
		return nil, err
	}
	s := h.currentStore()
	if s == nil {
		return nil, status.Error(codes.FailedPrecondition, "no spool is open; call Launch or Recover first")
	}
	through := spool.Position{Generation: req.GetThrough().GetGeneration(), Seq: req.GetThrough().GetSeq()}
	if err := s.spool.Acknowledge(through); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &hostpb.AcknowledgeResponse{}, nil
}

// broadcaster hands transient frames to whoever listens now. Its zero value is
// usable.
type broadcaster struct {
	mu        sync.Mutex
	listeners map[chan []byte]struct{}
}

// join returns a channel of frames from now on, and the way to leave.
func (b *broadcaster) join() (<-chan []byte, func()) {
	frames := make(chan []byte, liveBacklog)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners == nil {
		b.listeners = map[chan []byte]struct{}{}
	}
	b.listeners[frames] = struct{}{}
	return frames, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, frames)
	}
}

// send never waits: a listener that is behind misses the frame.
func (b *broadcaster) send(frame []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for listener := range b.listeners {
		select {
		case listener <- frame:
		default:
		}
	}
}
