package hostplugin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/hostplugin/appserver"
	"github.com/codex-mmo/codex-mmo/hostplugin/spool"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// What the host is to the app-server.
const (
	clientName    = "codex-mmo"
	clientVersion = "1.0.0"
)

const (
	// drainWait bounds the wait for the last frames of a process that ended:
	// a descendant of it may hold the socket open.
	drainWait = time.Second
	// stderrTail is how much of the engine's stderr its end tells, in bytes.
	stderrTail = 4 << 10
)

// engine is one app-server process.
type engine struct {
	id     process.Identity
	store  *store
	thread *thread
	stderr string          // path; empty when adopted
	child  *process.Child  // nil when adopted
	watch  *process.Handle // nil when own child, or found gone
	opened *openedThread   // guarded by Host.opening
	broken int             // connections made again; guarded by Host.opening
	ctx    context.Context // ends when the process ended or is being stopped
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed after the Exited row is in the spool

	mu     sync.Mutex
	handle *hostpb.Handle
	server appserver.Server
	conn   *appserver.Client // nil while not connected
}

// openedThread is the answer to the Open that succeeded.
type openedThread struct {
	spec     *hostpb.ThreadSpec
	response *hostpb.OpenResponse
}

func (h *Host) newEngine(handle *hostpb.Handle, s *store) *engine {
	ctx, cancel := context.WithCancelCause(h.life)
	return &engine{
		id: identity(handle.GetEngine()), store: s, thread: newThread(), handle: proto.CloneOf(handle),
		ctx: ctx, cancel: cancel, gone: make(chan struct{}),
	}
}

// snapshot returns a copy of the handle.
func (e *engine) snapshot() *hostpb.Handle {
	e.mu.Lock()
	defer e.mu.Unlock()
	return proto.CloneOf(e.handle)
}

func (e *engine) setThread(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handle.ThreadId = id
}

// client returns the standing connection, or an error that says that nothing
// was sent.
func (e *engine) client() (*appserver.Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn != nil && e.conn.Err() == nil {
		return e.conn, nil
	}
	if e.hasGone() {
		return nil, errors.Join(appserver.ErrNotSent, errEngineGone)
	}
	return nil, errors.Join(appserver.ErrNotSent, failf("transport", "the engine is not connected; call Open or Recover"))
}

func (e *engine) hasGone() bool {
	select {
	case <-e.gone:
		return true
	default:
		return false
	}
}

// connected tells whether the connection stands.
func (e *engine) connected() bool {
	_, err := e.client()
	return err == nil
}

// disconnect drops the connection; the engine lives on.
func (e *engine) disconnect() {
	e.mu.Lock()
	conn := e.conn
	e.conn = nil
	e.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// connect returns the standing connection or makes one, for at most ctx and
// while the process lives.
func (h *Host) connect(ctx context.Context, e *engine) (*appserver.Client, error) {
	if conn, err := e.client(); err == nil {
		return conn, nil
	}
	ctx, stop := whileAlive(ctx, e)
	defer stop()
	conn, server, err := appserver.Connect(ctx, e.snapshot().GetSocketPath(), clientName, clientVersion, &appserver.Options{
		Sent: func(frame []byte) error { return e.store.record(spool.Sent, frame, false) },
		Received: func(m appserver.Message) {
			h.received(e, m)
		},
	})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.conn, e.server = conn, server
	e.mu.Unlock()
	if !h.spawn(func() { h.keepConnected(e, conn) }) {
		e.disconnect()
		return nil, errClosing
	}
	return conn, nil
}

// received takes in a frame of the engine: spool first, then bookkeeping.
func (h *Host) received(e *engine, m appserver.Message) {
	if isDelta(m) {
		h.live.send(m.Raw)
		return
	}
	if m.Answers == "thread/read" || m.Answers == "thread/turns/list" {
		return // history that was asked for is no event; it would fill the spool
	}
	// Item and turn ends are what evidence is made of: they go to the disk.
	durable := m.Method == "turn/completed" || m.Method == "item/completed"
	_ = e.store.record(spool.Received, m.Raw, durable) // a lost row leaves a hole
	if e.thread.observe(m) {
		e.store.noteTurn(e.thread.state())
	}
}

// isDelta tells the pieces of streamed output: the item's end repeats them.
func isDelta(m appserver.Message) bool {
	return m.IsNotification() &&
		(strings.HasSuffix(m.Method, "/delta") || strings.HasSuffix(m.Method, "Delta"))
}

// whileAlive returns a context that also ends with the engine.
func whileAlive(ctx context.Context, e *engine) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.ctx, func() { cancel(context.Cause(e.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// watchExit waits for the process's end and records it. ended is the process's
// own end; nothing else ends this goroutine but the host's.
func (h *Host) watchExit(e *engine, ended <-chan struct{}) {
	select {
	case <-ended:
	case <-h.life.Done():
		if e.watch != nil {
			_ = e.watch.Close()
		}
		return
	}
	h.recordExit(e)
}

// recordExit writes the Exited row, after the last frames, and ends the engine.
func (h *Host) recordExit(e *engine) {
	e.mu.Lock()
	conn := e.conn
	e.mu.Unlock()
	if conn != nil {
		select {
		case <-conn.Done():
		case <-time.After(drainWait):
		}
		e.disconnect()
	}
	e.store.recordExit(e.snapshot().GetGeneration(), e.exit())
	e.cancel(errEngineGone)
	close(e.gone)
	if e.watch != nil {
		_ = e.watch.Close()
	}
}

// exit describes the process's end.
func (e *engine) exit() *hostpb.Exited {
	out := &hostpb.Exited{StderrTail: tail(e.stderr, stderrTail)}
	if e.child == nil || e.child.State() == nil {
		return out
	}
	out.Known = true
	if ws, ok := e.child.State().Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		out.Signal = int32(ws.Signal())
		return out
	}
	out.Code = int32(e.child.State().ExitCode())
	return out
}

// tail returns the last bytes of a file as valid text; "" when there is none.
func tail(path string, limit int64) string {
	if path == "" {
		return ""
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	from := max(0, info.Size()-limit)
	data, err := io.ReadAll(io.NewSectionReader(file, from, limit))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(data), "\uFFFD")
}

// call sends a request of this engine's thread and decodes the answer into
// result, which may be nil. It returns the answer's text too.
func (e *engine) call(ctx context.Context, method string, params, result any) (json.RawMessage, error) {
	conn, err := e.client()
	if err != nil {
		return nil, err
	}
	raw, err := conn.Call(ctx, method, params)
	if err != nil {
		return nil, err
	}
	if result != nil {
		if err := json.Unmarshal(raw, result); err != nil {
			return raw, &appserver.ProtocolError{Rule: "the answer to " + method + " is not its object", Err: err}
		}
	}
	return raw, nil
}
