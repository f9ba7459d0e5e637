package supervisor

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// hubKeep is how many events a follower that reconnects can still be given.
const hubKeep = 512

// hub keeps the last events of this supervisor's life for people who follow
// the session. It never blocks the one who reports.
type hub struct {
	now func() time.Time

	mu      sync.Mutex
	seq     uint64
	ring    []control.FollowEvent
	changed chan struct{}
}

func newHub(now func() time.Time) *hub {
	return &hub{now: now, changed: make(chan struct{})}
}

// emit numbers an event and hands it to the followers.
func (h *hub) emit(e control.FollowEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	e.Seq = h.seq
	e.At = h.now().UTC()
	e.Text = oneLine(e.Text)
	h.ring = append(h.ring, e)
	if len(h.ring) > hubKeep {
		h.ring = append([]control.FollowEvent(nil), h.ring[len(h.ring)-hubKeep:]...)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *hub) session(v *control.SessionView) {
	h.emit(control.FollowEvent{Type: "session", Status: v.Status, Session: v})
}

func (h *hub) job(j *store.Job) {
	h.emit(control.FollowEvent{Type: "job", Agent: j.Agent, JobID: j.JobID, Status: string(j.Status)})
}

// after returns the events after seq and a channel for the next one.
func (h *hub) after(seq uint64) ([]control.FollowEvent, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, e := range h.ring {
		if e.Seq > seq {
			return append([]control.FollowEvent(nil), h.ring[i:]...), h.changed
		}
	}
	return nil, h.changed
}

// follow hands out events until the session has ended and been told, the
// follower leaves, or emit fails.
func (h *hub) follow(ctx context.Context, seq uint64, ended <-chan struct{}, emit func(control.FollowEvent) error) error {
	for {
		events, more := h.after(seq)
		for _, e := range events {
			if err := emit(e); err != nil {
				return err
			}
			seq = e.Seq
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-more:
		case <-ended:
			if last, _ := h.after(seq); len(last) > 0 {
				continue // what was told before the end
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// followTextRunes bounds one line for a terminal, in code points.
const followTextRunes = 400

// oneLine makes model text safe for a terminal: one line, no control
// characters, bounded.
func oneLine(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == followTextRunes {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			r = ' '
		case unicode.IsControl(r), unicode.In(r, unicode.Cf):
			continue
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimSpace(b.String())
}
