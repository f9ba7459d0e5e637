package modeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 64 << 20

// State is how far the answer to a request has come.
type State string

// The states of a request.
const (
	StateAnswering State = "answering"
	StateHeld      State = "held"   // waits at a gate
	StateDone      State = "done"   // answered to its end, cut or refused as the script says
	StateGone      State = "gone"   // the client left before the end
	StateFailed    State = "failed" // the script has no answer, or the request can't be read
)

// Request is a recorded request.
type Request struct {
	Wire         string // responses, chat, anthropic
	Header       http.Header
	Body         []byte
	Conversation Conversation
	Step         int    // of its section, from 1; 0: no step was found
	Section      string // "plain steps", or the rule as written
	State        State
	Gate         string // with StateHeld: where it waits
	Error        string // with StateFailed: why
}

// Engine answers requests as its script says. It is an http.Handler for
// POST …/responses, POST …/chat/completions and POST …/messages. Its methods
// may be called from any goroutine.
type Engine struct {
	script *Script

	mu       sync.Mutex
	requests []*Request
	gates    map[string]chan struct{} // gate -> closed once released
	changed  chan struct{}            // closed and replaced at every change
}

// NewEngine returns an engine for a script.
func NewEngine(script *Script) *Engine {
	return &Engine{script: script, gates: map[string]chan struct{}{}, changed: make(chan struct{})}
}

// Requests returns a copy of the record, in the order of arrival.
func (e *Engine) Requests() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requestsLocked()
}

func (e *Engine) requestsLocked() []Request {
	out := make([]Request, len(e.requests))
	for i, r := range e.requests {
		out[i] = *r
	}
	return out
}

// Wait blocks until the record satisfies ready, which is called again after
// every change. It returns ctx's cause when that ends first.
func (e *Engine) Wait(ctx context.Context, ready func([]Request) bool) error {
	for {
		e.mu.Lock()
		now, changed := e.requestsLocked(), e.changed
		e.mu.Unlock()
		if ready(now) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return core.Errorf(core.KindRuntime, "the scripted model was not asked as awaited, it has %d requests: %w", len(now), context.Cause(ctx))
		}
	}
}

// WaitHeld blocks until a request waits at the gate.
func (e *Engine) WaitHeld(ctx context.Context, gate string) error {
	return e.Wait(ctx, func(rs []Request) bool {
		return slices.ContainsFunc(rs, func(r Request) bool { return r.State == StateHeld && r.Gate == gate })
	})
}

// Release opens a gate for good: requests that wait there go on, and later
// ones don't stop.
func (e *Engine) Release(gate string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ch := e.gateLocked(gate)
	select {
	case <-ch:
	default:
		close(ch)
	}
}

func (e *Engine) gateLocked(gate string) chan struct{} {
	ch := e.gates[gate]
	if ch == nil {
		ch = make(chan struct{})
		e.gates[gate] = ch
	}
	return ch
}

// update changes a recorded request and wakes those who wait.
func (e *Engine) update(r *Request, change func(*Request)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(r)
	e.wakeLocked()
}

func (e *Engine) wakeLocked() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// wires maps the end of a URL's path to the wire spoken there.
var wires = map[string]wire{
	"/responses":        responsesWire{},
	"/chat/completions": chatWire{},
	"/messages":         anthropicWire{},
}

// wireAt returns the wire spoken at a URL's path, or nil.
func wireAt(path string) wire {
	for suffix, spoken := range wires {
		if strings.HasSuffix(path, suffix) {
			return spoken
		}
	}
	return nil
}

// wire is one protocol: how a request is read and an answer is written.
type wire interface {
	name() string
	decode(body []byte) (*Conversation, error)
	encoder(w io.Writer, r *reply) encoder
	errorBody(e *ProviderError) any
}

// ServeHTTP answers one request.
func (e *Engine) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	spoken := wireAt(req.URL.Path)
	if spoken == nil || req.Method != http.MethodPost {
		http.NotFound(w, req)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		return // the client left, or sends too much: there is nobody to answer
	}
	record := &Request{Wire: spoken.name(), Header: recordedHeader(req.Header), Body: body, State: StateAnswering}
	conversation, choice, r, err := e.decide(spoken, body)
	record.Conversation = conversation
	if choice != nil {
		record.Step, record.Section = choice.number, choice.section.name
	}
	e.mu.Lock()
	e.requests = append(e.requests, record)
	e.wakeLocked()
	e.mu.Unlock()
	if err != nil {
		e.update(record, func(r *Request) { r.State, r.Error = StateFailed, err.Error() })
		writeError(w, spoken, asProviderError(err))
		return
	}
	e.answer(w, req.Context(), spoken, record, r)
}

// recordedHeader leaves out what authorises.
func recordedHeader(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization"} {
		h.Del(name)
	}
	return h
}

func (e *Engine) decide(spoken wire, body []byte) (Conversation, *choice, *reply, error) {
	c, err := spoken.decode(body)
	if err != nil {
		return Conversation{}, nil, nil, err
	}
	m := e.script.models[c.Model]
	if m == nil {
		return *c, nil, nil, badRequest("script: there is no model %q, only %s", c.Model, strings.Join(e.script.Models(), ", "))
	}
	choice, err := m.choose(c)
	if err != nil {
		return *c, nil, nil, err
	}
	r, err := choice.decide(c.Model)
	return *c, choice, r, err
}

func asProviderError(err error) *ProviderError {
	var p *ProviderError
	if errors.As(err, &p) {
		return p
	}
	return badRequest("%v", err)
}

// pause waits for a delay, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hold waits at a gate, or until ctx ends.
func (e *Engine) hold(ctx context.Context, record *Request, gate string) error {
	e.mu.Lock()
	ch := e.gateLocked(gate)
	e.mu.Unlock()
	e.update(record, func(r *Request) { r.State, r.Gate = StateHeld, gate })
	select {
	case <-ch:
		e.update(record, func(r *Request) { r.State, r.Gate = StateAnswering, "" })
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
