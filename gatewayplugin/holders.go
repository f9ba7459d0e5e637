package gatewayplugin

import (
	"sync"
	"time"

	"github.com/codex-mmo/codex-mmo/core/process"
)

// holders watches the host processes for which bearers were issued. When none
// has lived for the idle time, nobody can ask the gateway anything any more,
// and it ends itself, also when no supervisor is left to stop it.
type holders struct {
	watch func(process.Identity) (<-chan struct{}, func(), error)
	idle  func() // called when the idle time has passed
	tasks *sync.WaitGroup

	mu     sync.Mutex
	after  time.Duration // 0: never
	timer  *time.Timer   // runs while there is no holder
	closed bool
	living map[holderKey]chan struct{} // holder -> closed to end its watch
}

// holderKey is one host of one tenant.
type holderKey struct {
	session    string
	pid        int
	startToken string
}

func newHolders(watch func(process.Identity) (<-chan struct{}, func(), error), idle func(), tasks *sync.WaitGroup) *holders {
	return &holders{watch: watch, idle: idle, tasks: tasks, living: map[holderKey]chan struct{}{}}
}

// setIdle sets the idle time, and lets it begin when there is no holder.
func (h *holders) setIdle(after time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.after = after
	h.armLocked()
}

// add watches a host. One that is gone already, or is not named, does not
// count.
func (h *holders) add(session string, id process.Identity) {
	key := holderKey{session: session, pid: id.PID, startToken: id.StartToken}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.living[key]; known || h.closed {
		return
	}
	ended, stopWatch, err := h.watch(id)
	if err != nil {
		return
	}
	stop := make(chan struct{})
	h.living[key] = stop
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	h.tasks.Go(func() {
		defer stopWatch()
		select {
		case <-ended:
			h.remove(key)
		case <-stop:
		}
	})
}

func (h *holders) remove(key holderKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removeLocked(key)
}

func (h *holders) removeLocked(key holderKey) {
	if stop, ok := h.living[key]; ok {
		close(stop)
		delete(h.living, key)
		h.armLocked()
	}
}

// release forgets the hosts of a tenant.
func (h *holders) release(session string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.living {
		if key.session == session {
			h.removeLocked(key)
		}
	}
}

// armLocked starts the idle time when nobody holds the gateway.
func (h *holders) armLocked() {
	if h.closed || h.after <= 0 || len(h.living) > 0 {
		return
	}
	if h.timer != nil {
		h.timer.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(h.after, func() {
		h.mu.Lock()
		idle := h.timer == timer && len(h.living) == 0 && !h.closed
		h.mu.Unlock()
		if idle {
			h.idle()
		}
	})
	h.timer = timer
}

// close ends all watches.
func (h *holders) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.timer != nil {
		h.timer.Stop()
	}
	for key := range h.living {
		h.removeLocked(key)
	}
}
