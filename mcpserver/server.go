package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/codex-mmo/codex-mmo/core"
)

// Patience is how long a call waits for a supervisor that is away.
const Patience = 5 * time.Second

// Limits in time.
const (
	drainFor   = 5 * time.Second // for calls in flight at the end
	abandonFor = time.Second     // for calls that were told to end, after that
)

// maxInFlight bounds the calls that are taken at the same time, parked waits
// included.
const maxInFlight = 256

// protocolVersions are the versions that are echoed when a client asks for
// exactly them. Any other is answered with defaultVersion, which is what both
// reviewed versions of Codex ask for.
var protocolVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

const defaultVersion = "2025-06-18"

// Causes for which calls end early.
var (
	errDraining  = errors.New("this MCP process is ending")
	errCancelled = errors.New("the client cancelled the request")
)

// phase is how far the handshake has come.
type phase int

const (
	phaseNew       phase = iota // only initialize and ping
	phaseAnswered               // initialize is answered; the client must confirm
	phaseConfirmed              // notifications/initialized has come
)

// session serves one client. Its phase belongs to the goroutine of loop.
type session struct {
	cfg   Config
	out   *writer
	mcp   *server.MCPServer
	tools toolbox
	phase phase

	calls    sync.WaitGroup
	parked   chan struct{}   // slots of waits
	work     chan struct{}   // slots of all other calls
	draining context.Context // ends when the session does
	drain    context.CancelCauseFunc

	joining sync.Mutex // held while the session of an ambient root is looked for

	mu       sync.Mutex
	client   clientLimits
	name     string               // of the client
	inFlight map[string]*inFlight // id key -> call
}

// inFlight is a tools/call that is not answered yet.
type inFlight struct {
	cancel    context.CancelCauseFunc
	cancelled bool // by the client, who expects no answer then
}

// Serve answers the client until its input ends, ctx ends or the parent is
// gone, and then lets calls in flight finish for a bounded time; parked waits
// are answered at once. It returns nil in all these cases, and an error only
// when the client could not be written to.
//
// When ctx or the parent ended it and In or Out still blocks, the goroutine that
// is stuck there outlives Serve.
func Serve(ctx context.Context, cfg Config) error {
	cfg.setDefaults()
	s := newSession(cfg)
	calls, endCalls := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endCalls(errDraining)
	done := make(chan struct{})
	defer close(done)
	frames := make(chan frame)
	go readFrames(cfg.In, frames, done)
	looped := make(chan struct{})
	go func() {
		defer close(looped)
		s.loop(ctx, calls, frames)
	}()
	s.await(ctx, looped)
	s.finish(endCalls)
	if err := s.out.failed(); err != nil {
		return core.Errorf(core.KindOS, "write to the MCP client: %w", err)
	}
	return nil
}

func newSession(cfg Config) *session {
	s := &session{
		cfg:      cfg,
		out:      &writer{out: cfg.Out},
		parked:   make(chan struct{}, maxParked),
		work:     make(chan struct{}, maxWorking),
		inFlight: make(map[string]*inFlight),
		mcp: server.NewMCPServer(cfg.Name, cfg.Version,
			server.WithToolCapabilities(false), // the list never changes
			server.WithInstructions(instructions)),
	}
	s.draining, s.drain = context.WithCancelCause(context.Background())
	return s
}

// await returns when the loop has ended, or soon after it should have: it may
// be stuck in a write that nobody reads.
func (s *session) await(ctx context.Context, looped <-chan struct{}) {
	select {
	case <-looped:
		return
	case <-ctx.Done():
	case <-s.cfg.ParentGone:
	}
	timer := time.NewTimer(abandonFor)
	defer timer.Stop()
	select {
	case <-looped:
	case <-timer.C:
	}
}

// loop handles frames until something ends the session. tools/list may wait for
// the supervisor, so it gets a context that ends with the session.
func (s *session) loop(ctx, calls context.Context, frames <-chan frame) {
	for {
		select {
		case f, ok := <-frames:
			if !ok || s.draining.Err() != nil {
				return
			}
			s.handle(ctx, calls, f)
			if s.out.failed() != nil {
				return
			}
		case <-ctx.Done():
			return
		case <-s.cfg.ParentGone:
			return
		}
	}
}

// finish lets calls in flight come to their end, and tells them to after a
// while.
func (s *session) finish(endCalls context.CancelCauseFunc) {
	s.drain(errDraining)
	finished := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(finished)
	}()
	for _, patience := range []time.Duration{drainFor, abandonFor} {
		timer := time.NewTimer(patience)
		select {
		case <-finished:
			timer.Stop()
			return
		case <-timer.C:
			endCalls(errDraining)
		}
	}
	s.cfg.Log.Warn("calls in flight were abandoned at the end")
}

// handle answers one frame. Everything but tools/call is answered here, in the
// order of the frames.
func (s *session) handle(ctx, calls context.Context, f frame) {
	if f.tooLong {
		s.out.fail(nil, invalidRequest(fmt.Sprintf("a message has at most %d bytes", maxFrame)))
		return
	}
	if blank(f.data) {
		return
	}
	m, id, fault := parse(f.data)
	switch {
	case fault != nil:
		s.out.fail(id, fault)
		return
	case m == nil:
		return
	case m.id == nil:
		s.notified(m)
		return
	}
	if fault := s.admit(m); fault != nil {
		s.out.fail(m.id, fault)
		return
	}
	switch m.method {
	case "initialize":
		s.initialize(ctx, m)
	case "tools/list":
		s.listTools(ctx, m)
	case "tools/call":
		s.startCall(calls, m)
	default:
		s.answer(ctx, m, nil)
	}
}

func blank(line []byte) bool {
	return !slices.ContainsFunc(line, func(b byte) bool { return b != ' ' && b != '\t' && b != '\r' && b != '\n' })
}

// admit applies the order of the handshake and the rule that ids in flight are
// unique.
func (s *session) admit(m *message) *rpcError {
	switch {
	case m.method == "ping":
	case m.method == "initialize" && s.phase != phaseNew:
		return &rpcError{codeInvalid, "already initialized", ""}
	case m.method != "initialize" && s.phase != phaseConfirmed:
		return &rpcError{codeInvalid, "server not initialized", ""}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[idKey(m.id)] != nil {
		return invalidRequest("the id is in use")
	}
	return nil
}

// notified handles a notification; it is never answered.
func (s *session) notified(m *message) {
	switch m.method {
	case "notifications/initialized":
		if s.phase == phaseAnswered {
			s.phase = phaseConfirmed
		}
	case "notifications/cancelled":
		key := idKey(objectFields(m.params)["requestId"])
		s.mu.Lock()
		defer s.mu.Unlock()
		if call := s.inFlight[key]; call != nil {
			call.cancelled = true
			call.cancel(errCancelled)
		}
	}
}

func (s *session) initialize(ctx context.Context, m *message) {
	fields := objectFields(m.params)
	version, ok := stringField(fields, "protocolVersion")
	if !ok {
		s.out.fail(m.id, invalidParams("protocolVersion must be a string"))
		return
	}
	if s.cfg.Refusal != nil {
		s.out.fail(m.id, refused(s.cfg.Refusal))
		return
	}
	if !slices.Contains(protocolVersions, version) {
		version = defaultVersion
	}
	client, _ := stringField(objectFields(fields["clientInfo"]), "name")
	s.mu.Lock()
	s.client, s.name = s.cfg.limitsOf(client), client
	s.mu.Unlock()
	if s.answer(ctx, m, map[string]any{
		"protocolVersion": version,
		"capabilities":    struct{}{}, // we ask nothing of the client, so its own do not matter
		"clientInfo":      map[string]string{"name": client, "version": ""},
	}) {
		s.phase = phaseAnswered
	}
}

func (s *session) listTools(ctx context.Context, m *message) {
	if _, err := s.tools.load(ctx, s); err != nil {
		s.out.fail(m.id, refused(err))
		return
	}
	s.answer(ctx, m, nil)
}

// answer has mcp-go handle a request and writes what it says. It reports
// whether that was a result.
func (s *session) answer(ctx context.Context, m *message, params any) bool {
	result, fault := s.dispatch(ctx, m.method, params)
	if fault != nil {
		s.out.fail(m.id, fault)
		return false
	}
	s.out.result(m.id, result)
	return true
}

// dispatch gives mcp-go a message that is made of what we understood, under an
// id of ours: it would round large ids, and see fields we did not check.
func (s *session) dispatch(ctx context.Context, method string, params any) (result json.RawMessage, fault *rpcError) {
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.Error("MCP request panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result, fault = nil, &rpcError{codeInternal, "internal error", ""}
		}
	}()
	request := map[string]any{"jsonrpc": "2.0", "id": 1, "method": method}
	if params != nil {
		request["params"] = params
	}
	data, err := json.Marshal(request)
	if err != nil {
		return nil, &rpcError{codeInternal, "internal error", ""}
	}
	switch r := s.mcp.HandleMessage(ctx, data).(type) {
	case mcp.JSONRPCResponse:
		if result, err = json.Marshal(r.Result); err != nil {
			return nil, &rpcError{codeInternal, "internal error", "the result could not be written as JSON"}
		}
		return result, nil
	case mcp.JSONRPCError:
		return nil, &rpcError{r.Error.Code, r.Error.Message, ""}
	}
	return nil, &rpcError{codeInternal, "internal error", ""}
}
