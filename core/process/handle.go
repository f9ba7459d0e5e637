package process

import (
	"context"
	"os"
	"syscall"

	"github.com/codex-mmo/codex-mmo/core"
)

// Handle is a hold on one running process, whoever's child it is: it signals
// that process and no other, and tells when it ends. Close it when done.
type Handle struct {
	id    Identity
	done  chan struct{}
	watch *watch
}

// Open takes hold of the process that id names. The order is what makes it
// safe: the kernel's descriptor is opened first and the identity is compared
// afterwards. The error wraps ErrGone when the process does not live any more.
func Open(id Identity) (*Handle, error) {
	if !id.whole() {
		return nil, core.Errorf(core.KindValue, "open process %d: its identity lacks start time or boot: %w", id.PID, ErrGone)
	}
	w, err := openWatch(id.PID)
	if err != nil {
		return nil, err
	}
	e, err := readEntry(id.PID)
	if err == nil && (!e.Same(id) || e.ended()) {
		err = gonef(id.PID)
	}
	if err != nil {
		w.discard()
		return nil, err
	}
	h := &Handle{id: e.Identity, done: make(chan struct{}), watch: w}
	w.start(func() { close(h.done) })
	return h, nil
}

// Identity returns the identity of the process as it was when it was opened.
func (h *Handle) Identity() Identity { return h.id }

// Done is closed when the process has ended. It stays open when the handle is
// closed before.
func (h *Handle) Done() <-chan struct{} { return h.done }

// Signal sends sig, which must be a syscall.Signal. The error wraps ErrGone
// when the process has ended.
func (h *Handle) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return core.Errorf(core.KindValue, "signal %v to %v: not a signal of this system", sig, h.id)
	}
	select {
	case <-h.done:
		return gonef(h.id.PID)
	default:
	}
	return h.watch.signal(h.id, s)
}

// Close releases the handle. The process is not touched.
func (h *Handle) Close() error { return h.watch.close() }

// await blocks until the processes of all handles have ended or ctx is done.
func await(ctx context.Context, handles []*Handle) {
	for _, h := range handles {
		select {
		case <-h.done:
		case <-ctx.Done():
			return
		}
	}
}
