package process

import (
	"errors"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

// watch holds a kqueue that reports the end of one process. A thread waits in
// it; the user event wakes that thread when the watch is closed.
type watch struct {
	kq   int
	wg   sync.WaitGroup
	once sync.Once
}

// wakeEvent is the ident of the user event.
const wakeEvent = 1

func openWatch(pid int) (*watch, error) {
	kq, err := unix.Kqueue()
	if err != nil {
		return nil, core.Errorf(core.KindOS, "open process %d: %w", pid, err)
	}
	unix.CloseOnExec(kq)
	changes := []unix.Kevent_t{
		{Ident: uint64(pid), Filter: unix.EVFILT_PROC, Flags: unix.EV_ADD | unix.EV_ONESHOT, Fflags: unix.NOTE_EXIT},
		{Ident: wakeEvent, Filter: unix.EVFILT_USER, Flags: unix.EV_ADD | unix.EV_CLEAR},
	}
	if _, err := unix.Kevent(kq, changes, nil, nil); err != nil {
		_ = unix.Close(kq)
		if errors.Is(err, unix.ESRCH) {
			return nil, gonef(pid)
		}
		return nil, core.Errorf(core.KindOS, "open process %d: %w", pid, err)
	}
	return &watch{kq: kq}, nil
}

func (w *watch) start(ended func()) {
	w.wg.Go(func() {
		events := make([]unix.Kevent_t, 1)
		for {
			n, err := unix.Kevent(w.kq, nil, events, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err == nil && n == 1 && events[0].Filter == unix.EVFILT_PROC {
				ended()
			}
			return
		}
	})
}

// signal compares the identity and signals the number right after it. The gap
// between the two is what macOS can't close.
func (w *watch) signal(id Identity, sig syscall.Signal) error {
	if !id.Alive() {
		return gonef(id.PID)
	}
	err := syscall.Kill(id.PID, sig)
	if errors.Is(err, syscall.ESRCH) {
		return gonef(id.PID)
	}
	if err != nil {
		return core.Errorf(core.KindOS, "signal %v to %v: %w", sig, id, err)
	}
	return nil
}

func (w *watch) close() error {
	var err error
	w.once.Do(func() {
		wake := []unix.Kevent_t{{Ident: wakeEvent, Filter: unix.EVFILT_USER, Fflags: unix.NOTE_TRIGGER}}
		_, err = unix.Kevent(w.kq, wake, nil, nil)
		w.wg.Wait()
		err = errors.Join(err, unix.Close(w.kq))
	})
	return err
}

// discard closes a watch that was never started.
func (w *watch) discard() { _ = unix.Close(w.kq) }
