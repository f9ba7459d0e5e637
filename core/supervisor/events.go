package supervisor

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// eventBacklog is how many events may wait for the actor; the host's spool
// holds the rest.
const eventBacklog = 64

// trail is the agent run's events.jsonl: one writer, this actor.
type trail struct {
	log  *store.Log
	last position // of the newest row in the file
}

type position struct{ generation, seq uint64 }

func (p position) after(q position) bool {
	return p.generation > q.generation || p.generation == q.generation && p.seq > q.seq
}

func (t *trail) close() {
	if t != nil && t.log != nil {
		_ = t.log.Close() // every row that matters was synced before
	}
}

// eventRow is one line of events.jsonl:
//
//	{"gen":1,"seq":7,"recorded_at":"…","direction":"received","message":{…}}
type eventRow struct {
	Gen        uint64          `json:"gen"`
	Seq        uint64          `json:"seq"`
	RecordedAt time.Time       `json:"recorded_at"`
	Direction  string          `json:"direction"` // sent, received, host
	Message    json.RawMessage `json:"message"`
}

func (a *agent) trailPath() string { return a.sup.trailOf(a.jobID) }

func (a *agent) openTrail() error {
	log, err := store.OpenLog(a.trailPath())
	if err != nil {
		return err
	}
	a.trail = &trail{log: log}
	var row eventRow
	found, err := log.Last(&row)
	if err != nil {
		return err
	}
	if found {
		a.trail.last = position{row.Gen, row.Seq}
	}
	return nil
}

// sealTrail makes the log durable and names it by what it holds: no row is added
// after an agent was retired.
func (a *agent) sealTrail() (store.FileRef, error) {
	if a.trail == nil {
		return store.FileRef{}, nil
	}
	if err := a.trail.log.Sync(); err != nil {
		return store.FileRef{}, err
	}
	digest, err := digestFile(a.trailPath())
	return store.FileRef{Name: filepath.Base(a.trailPath()), SHA256: digest, Size: a.trail.log.Size()}, err
}

// subscribe starts the event stream of the connected host, after the last row
// whose effects are committed.
func (a *agent) subscribe() {
	if a.stream != nil {
		a.stream()
	}
	ctx, cancel := context.WithCancel(a.killCtx)
	events := make(chan *hostpb.Event, eventBacklog)
	a.stream, a.events = cancel, events
	host, after := a.host, &hostpb.Position{Generation: a.rec.EventGeneration, Seq: a.rec.EventSeq}
	fence, log := a.fence(), a.log
	a.sup.wg.Go(func() {
		client, err := host.Events(ctx, &hostpb.EventsRequest{Fence: fence, After: after})
		for err == nil {
			var e *hostpb.Event
			if e, err = client.Recv(); err == nil {
				select {
				case events <- e:
				case <-ctx.Done():
					return
				}
			}
		}
		if ctx.Err() != nil {
			return
		}
		log.Info("the event stream ended", "err", err)
		// A host that died is seen by its process; one that lives and ended the
		// stream is asked again.
		select {
		case <-time.After(resubscribePause):
			close(events)
		case <-ctx.Done():
		}
	})
}

// resubscribePause keeps a host that ends every stream from spinning us.
const resubscribePause = 200 * time.Millisecond

// handle takes one event over: row first, then its effect, then the cursor.
func (a *agent) handle(ctx context.Context, e *hostpb.Event) error {
	at := position{e.GetPosition().GetGeneration(), e.GetPosition().GetSeq()}
	if e.GetTransient() {
		return nil
	}
	if at.after(a.trail.last) {
		if err := a.appendRow(rowOf(e)); err != nil {
			return err
		}
		a.trail.last = at
	}
	boundary, err := a.effect(ctx, e, at)
	if err != nil {
		return err
	}
	if boundary {
		return a.checkpoint(ctx, at)
	}
	return nil
}

// appendRow adds a row to events.jsonl. What an engine sent may be JSON that no
// strict reader takes; it is kept as text then, and the evidence counts as
// incomplete.
func (a *agent) appendRow(row eventRow) error {
	err := a.trail.log.Append(row)
	if core.KindOf(err) == core.KindValue {
		a.rec.EvidenceComplete = false
		row.Message = hostMessage("host/unreadable", map[string]any{"text": strings.ToValidUTF8(string(row.Message), "\uFFFD")})
		err = a.trail.log.Append(row)
	}
	if err != nil {
		return recordError{err}
	}
	return nil
}

// checkpoint makes the rows durable, moves the cursor past them and lets the
// host drop its copies.
func (a *agent) checkpoint(ctx context.Context, at position) error {
	if err := a.trail.log.Sync(); err != nil {
		return recordError{err}
	}
	if !at.after(position{a.rec.EventGeneration, a.rec.EventSeq}) {
		return nil
	}
	a.rec.EventGeneration, a.rec.EventSeq = at.generation, at.seq
	if err := a.save(ctx, nil); err != nil {
		return err
	}
	if a.host == nil {
		return nil
	}
	c, cancel := short(ctx)
	defer cancel()
	_, err := a.host.Acknowledge(c, &hostpb.AcknowledgeRequest{
		Fence: a.fence(), Through: &hostpb.Position{Generation: at.generation, Seq: at.seq},
	})
	if err != nil {
		a.log.Debug("acknowledging events", "err", err) // the host keeps them a little longer
	}
	return nil
}

// effect applies an event. It reports whether the rows up to it are to be made
// durable now: at item and turn ends, requests, and what the host itself says.
func (a *agent) effect(ctx context.Context, e *hostpb.Event, at position) (bool, error) {
	switch body := e.GetBody().(type) {
	case *hostpb.Event_ReceivedJson:
		return a.received(ctx, at, body.ReceivedJson)
	case *hostpb.Event_Hole:
		a.rec.EvidenceComplete = false
		a.follow("notice", "events are missing: "+body.Hole.GetReason())
		return true, nil
	case *hostpb.Event_Exited:
		if at.generation < a.rec.Generation || a.rec.Retired {
			return true, nil // of an engine that was replaced meanwhile
		}
		if err := a.checkpoint(ctx, at); err != nil {
			return false, err
		}
		return false, a.engineLost(ctx)
	}
	return false, nil
}

func rowOf(e *hostpb.Event) eventRow {
	row := eventRow{
		Gen: e.GetPosition().GetGeneration(), Seq: e.GetPosition().GetSeq(),
		RecordedAt: time.Unix(0, e.GetRecordedAtNs()).UTC(), Direction: "host",
	}
	switch body := e.GetBody().(type) {
	case *hostpb.Event_ReceivedJson:
		row.Direction, row.Message = "received", body.ReceivedJson
	case *hostpb.Event_SentJson:
		row.Direction, row.Message = "sent", body.SentJson
	case *hostpb.Event_Exited:
		row.Message = hostMessage("host/exited", map[string]any{
			"known": body.Exited.GetKnown(), "code": body.Exited.GetCode(), "signal": body.Exited.GetSignal(),
		})
	case *hostpb.Event_Hole:
		row.Message = hostMessage("host/hole", map[string]any{"reason": body.Hole.GetReason()})
	case *hostpb.Event_Attached:
		row.Message = hostMessage("host/attached", map[string]any{"thread_id": body.Attached.GetState().GetThreadId()})
	}
	return row
}

func hostMessage(method string, params map[string]any) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"method": method, "params": params})
	if err != nil {
		return json.RawMessage(`{"method":"host/unreadable"}`) // plain maps always encode
	}
	return raw
}
