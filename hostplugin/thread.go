package hostplugin

import (
	"encoding/json"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/hostplugin/appserver"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// thread follows one thread from the frames of its connection: which turn
// runs, which one ended last, what the engine asks. Frames of other threads
// change nothing. It does no I/O.
type thread struct {
	mu        sync.Mutex
	id        string
	status    string                   // idle, active, systemError, notLoaded; "" unknown
	active    string                   // id of the running turn
	completed *hostpb.Turn             // the turn that ended last
	pending   []*hostpb.PendingRequest // unanswered requests, oldest first
	servers   map[string]serverStartup // MCP server -> its newest startup event
	changed   chan struct{}            // closed and replaced by every change
}

// serverStartup is the newest startup event of an MCP server.
type serverStartup struct {
	serial int    // counts the server's events
	status string // starting, ready, failed, cancelled
	reason string // of a failure
}

func newThread() *thread {
	return &thread{servers: map[string]serverStartup{}, changed: make(chan struct{})}
}

// eventParams are the members that the bookkeeping reads of any notification.
type eventParams struct {
	ThreadID       string          `json:"threadId"`
	ConversationID string          `json:"conversationId"` // older spelling of threadId
	Turn           *wireTurn       `json:"turn"`
	Status         json.RawMessage `json:"status"` // an object for threads, a word for MCP servers
	Name           string          `json:"name"`
	Error          json.RawMessage `json:"error"`
	RequestID      json.RawMessage `json:"requestId"`
}

// observe takes in a frame and tells whether it changed anything.
func (t *thread) observe(m appserver.Message) bool {
	if m.Method == "" {
		return false
	}
	var p eventParams
	_ = json.Unmarshal(m.Params, &p) // members of unexpected shape stay zero
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.apply(m, p) {
		return false
	}
	t.wakeLocked()
	return true
}

func (t *thread) apply(m appserver.Message, p eventParams) bool {
	if m.IsRequest() {
		t.pending = append(t.dropPending(string(m.ID)), &hostpb.PendingRequest{
			RequestId: string(m.ID), Method: m.Method, ParamsJson: m.Params,
		})
		return true
	}
	if m.Method == "serverRequest/resolved" {
		before := len(t.pending)
		t.pending = t.dropPending(string(p.RequestID))
		return len(t.pending) != before
	}
	if !t.own(p) {
		return false
	}
	switch m.Method {
	case "turn/started":
		return p.Turn != nil && t.startLocked(p.Turn.ID)
	case "turn/completed":
		if p.Turn == nil {
			return false
		}
		t.completed = p.Turn.wire()
		if t.active == p.Turn.ID {
			t.active = ""
		}
		return true
	case "thread/status/changed":
		t.status = typeOf(p.Status)
		return true
	case "thread/closed":
		t.status, t.active = "notLoaded", ""
		return true
	case "mcpServer/startupStatus/updated":
		s := serverStartup{serial: t.servers[p.Name].serial + 1}
		_ = json.Unmarshal(p.Status, &s.status)
		_ = json.Unmarshal(p.Error, &s.reason)
		t.servers[p.Name] = s
		return true
	}
	return false
}

// own tells whether a notification is about this thread. One that names no
// thread is.
func (t *thread) own(p eventParams) bool {
	id := p.ThreadID
	if id == "" {
		id = p.ConversationID
	}
	return id == "" || id == t.id
}

// startLocked notes a running turn, unless that turn has ended already: the
// end may overtake the answer to turn/start.
func (t *thread) startLocked(turnID string) bool {
	if t.completed.GetId() == turnID || t.active == turnID {
		return false
	}
	t.active = turnID
	return true
}

// started notes the turn that an answer to turn/start named.
func (t *thread) started(turnID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.startLocked(turnID) {
		t.wakeLocked()
	}
}

// attach adds what the engine told of the thread to what frames have told since
// begin, which is newer: they arrive while the state is being read.
func (t *thread) attach(state *hostpb.ThreadState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == "" {
		t.status = state.GetStatus()
	}
	if t.completed == nil {
		for _, turn := range state.GetTurns() {
			if turn.GetStatus() != "inProgress" {
				t.completed = turn
			}
		}
	}
	if t.active == "" && state.GetActiveTurnId() != "" {
		t.startLocked(state.GetActiveTurnId())
	}
	t.wakeLocked()
}

// is tells whether the bookkeeping is about that thread.
func (t *thread) is(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id == id
}

// begin makes the bookkeeping about that thread, as seen over a connection that
// has told nothing yet: the engine sends open requests again to a connection
// that subscribes.
func (t *thread) begin(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.id, t.status, t.active, t.completed, t.pending = id, "", "", nil, nil
	t.wakeLocked()
}

// state returns what the frames told.
func (t *thread) state() *hostpb.ThreadState {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &hostpb.ThreadState{ThreadId: t.id, Status: t.status, ActiveTurnId: t.active}
	if t.completed != nil {
		s.Turns = []*hostpb.Turn{proto.CloneOf(t.completed)}
	}
	for _, p := range t.pending {
		s.Pending = append(s.Pending, proto.CloneOf(p))
	}
	return s
}

// take removes a pending request; ok is false when there is none of that id.
func (t *thread) take(requestID string) (p *hostpb.PendingRequest, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.pending {
		if p.GetRequestId() == requestID {
			t.pending = t.dropPending(requestID)
			t.wakeLocked()
			return p, true
		}
	}
	return nil, false
}

// activeTurn returns the id of the running turn, or "".
func (t *thread) activeTurn() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.active
}

// ended tells whether the turn has ended, and returns a channel that is closed
// by the next change.
func (t *thread) ended(turnID string) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.completed.GetId() == turnID, t.changed
}

// server returns the newest startup event of an MCP server, and a channel that
// is closed by the next change.
func (t *thread) server(name string) (serverStartup, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.servers[name], t.changed
}

// dropPending returns the pending requests without that of the given id.
func (t *thread) dropPending(requestID string) []*hostpb.PendingRequest {
	var kept []*hostpb.PendingRequest
	for _, p := range t.pending {
		if p.GetRequestId() != requestID {
			kept = append(kept, p)
		}
	}
	return kept
}

func (t *thread) wakeLocked() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// typeOf returns the "type" of a tagged object, or a bare word.
func typeOf(raw json.RawMessage) string {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		return word
	}
	var tagged struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(raw, &tagged) // another shape has no type
	return tagged.Type
}
