package plugintest

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// Notify adds a frame of the engine; params is JSON text.
func (h *Host) Notify(method, params string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notifyLocked(method, params)
}

// Delta sends a transient frame to whoever listens now.
func (h *Host) Delta(method, params string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	event := &hostpb.Event{
		Transient: true, Position: &hostpb.Position{},
		Body: &hostpb.Event_ReceivedJson{ReceivedJson: frame(method, params)},
	}
	for listener := range h.live {
		select {
		case listener <- event:
		default: // as a real host drops what a slow reader can't take
		}
	}
}

// Ask adds a request of the engine, pending until it is answered. id and
// params are JSON text.
func (h *Host) Ask(id, method, params string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Pending = append(h.state.Pending, &hostpb.PendingRequest{RequestId: id, Method: method, ParamsJson: []byte(params)})
	h.addLocked(received([]byte(fmt.Sprintf(`{"id":%s,"method":%s,"params":%s}`, id, quote(method), params))))
}

// Exit adds the engine's end by a signal; 0 means that it ended by itself.
func (h *Host) Exit(signal int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked(&hostpb.Event{Body: &hostpb.Event_Exited{Exited: &hostpb.Exited{Known: true, Signal: signal}}})
}

// Hole adds a row that says that rows are missing.
func (h *Host) Hole(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked(&hostpb.Event{Body: &hostpb.Event_Hole{Hole: &hostpb.Hole{Reason: reason}}})
}

// Events implements hostpb.HostServer.
func (h *Host) Events(req *hostpb.EventsRequest, stream grpc.ServerStreamingServer[hostpb.Event]) error {
	if err := h.fenced(req.GetFence()); err != nil {
		return err
	}
	live := make(chan *hostpb.Event, 64)
	h.mu.Lock()
	h.live[live] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.live, live)
	}()
	for after := req.GetAfter(); ; {
		rows, changed, err := h.rowsAfter(after, req.GetFence())
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := stream.Send(row); err != nil {
				return err
			}
			after = row.GetPosition()
		}
		select {
		case <-changed:
		case event := <-live:
			if err := stream.Send(event); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
	}
}

// Acknowledge implements hostpb.HostServer. Acknowledged rows are kept: a
// caller may not ask for them again, and a test may look at them.
func (h *Host) Acknowledge(context.Context, *hostpb.AcknowledgeRequest) (*hostpb.AcknowledgeResponse, error) {
	return &hostpb.AcknowledgeResponse{}, nil
}

// rowsAfter returns the rows after a position, and a channel that the next row
// closes. A fence that is over ends the stream.
func (h *Host) rowsAfter(after *hostpb.Position, fence *basepb.Fence) ([]*hostpb.Event, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if fence.GetEpoch() < h.epoch {
		return nil, nil, status.Error(codes.FailedPrecondition, "fence: another supervisor has the session")
	}
	var rows []*hostpb.Event
	for _, row := range h.rows {
		p := row.GetPosition()
		if p.GetGeneration() > after.GetGeneration() ||
			p.GetGeneration() == after.GetGeneration() && p.GetSeq() > after.GetSeq() {
			rows = append(rows, proto.CloneOf(row))
		}
	}
	return rows, h.changed, nil
}

func (h *Host) notifyLocked(method, params string) { h.addLocked(received(frame(method, params))) }

// addLocked numbers a row within its generation and wakes the streams.
func (h *Host) addLocked(event *hostpb.Event) {
	generation, seq := h.handle.GetGeneration(), uint64(1)
	if n := len(h.rows); n > 0 && h.rows[n-1].GetPosition().GetGeneration() == generation {
		seq = h.rows[n-1].GetPosition().GetSeq() + 1
	}
	event.Position = &hostpb.Position{Generation: generation, Seq: seq}
	event.RecordedAtNs = int64(seq)
	h.rows = append(h.rows, event)
	close(h.changed)
	h.changed = make(chan struct{})
}

func received(raw []byte) *hostpb.Event {
	return &hostpb.Event{Body: &hostpb.Event_ReceivedJson{ReceivedJson: raw}}
}

func frame(method, params string) []byte {
	return []byte(`{"method":` + quote(method) + `,"params":` + params + `}`)
}

func quote(text string) string {
	raw, _ := json.Marshal(text) // a string always encodes
	return string(raw)
}
