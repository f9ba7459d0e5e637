package hostplugin

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// HandleVersion is the newest meaning of a handle that this host reads.
const HandleVersion = 1

var _ hostpb.HostServer = (*Host)(nil)

// Host is the server of the host contract for one agent. Make it with New and
// end it with Close.
type Host struct {
	hostpb.UnimplementedHostServer

	life  context.Context // the host's own; ends with Close
	end   context.CancelCauseFunc
	tasks sync.WaitGroup // every goroutine of the host

	fence fence
	live  broadcaster // transient frames

	// opening is held by Launch, Open, Recover and a reconnect, one at a time.
	// Stop never takes it: it must get through to an engine that hangs.
	opening sync.Mutex

	mu     sync.Mutex
	closed bool
	store  *store  // nil before Launch or Recover
	engine *engine // nil before Launch or Recover
}

// New returns a host that has no engine yet.
func New() *Host {
	life, end := context.WithCancelCause(context.Background())
	return &Host{life: life, end: end, fence: newFence()}
}

// Close lets go of the engine, which lives on, and ends everything that the
// host itself runs. It is idempotent.
func (h *Host) Close() error {
	h.end(errClosing)
	h.mu.Lock()
	h.closed = true
	e, s := h.engine, h.store
	h.mu.Unlock()
	if e != nil {
		e.disconnect()
	}
	h.tasks.Wait()
	if s == nil {
		return nil
	}
	return s.close()
}

// spawn runs a task that Close waits for; false when the host is closing.
func (h *Host) spawn(task func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.tasks.Go(task)
	return true
}

// Drain is Close for a server that is told to end.
func (h *Host) Drain(context.Context) error { return h.Close() }

// current returns the engine; nil before Launch or Recover.
func (h *Host) current() *engine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.engine
}

func (h *Host) setEngine(e *engine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.engine = e
}

func (h *Host) currentStore() *store {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.store
}

// openStore opens the agent's spool, or returns the open one. A host serves one
// agent: another folder is refused.
func (h *Host) openStore(dir string) (*store, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store != nil {
		if h.store.dir != dir {
			return nil, failf("wrong_agent", "this host serves the agent whose spool is %s, not %s", h.store.dir, dir)
		}
		return h.store, nil
	}
	s, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	h.store = s
	return s, nil
}

// fence is the highest epoch seen of the one session this host serves.
type fence struct {
	mu      sync.Mutex
	session string
	epoch   uint64
	raised  chan struct{} // closed and replaced when epoch rises
}

func newFence() fence { return fence{raised: make(chan struct{})} }

// check admits a call of this epoch or refuses it for good.
func (f *fence) check(call *basepb.Fence) error {
	if call.GetSessionId() == "" {
		return status.Error(codes.InvalidArgument, "fence: session id is missing")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.session != "" && f.session != call.GetSessionId():
		return status.Errorf(codes.FailedPrecondition, "fence: this host serves another session")
	case call.GetEpoch() < f.epoch:
		return status.Errorf(codes.FailedPrecondition, "fence: epoch %d is over, epoch %d has the session", call.GetEpoch(), f.epoch)
	case call.GetEpoch() > f.epoch:
		f.epoch = call.GetEpoch()
		close(f.raised)
		f.raised = make(chan struct{})
	}
	f.session = call.GetSessionId()
	return nil
}

// changed returns a channel that is closed when a later epoch is seen.
func (f *fence) changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.raised
}
