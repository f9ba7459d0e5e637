package process

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

// watch holds a pidfd. It is waited for in the runtime's poller, so a watched
// process costs a goroutine and no thread.
type watch struct {
	file *os.File
	conn syscall.RawConn
	wg   sync.WaitGroup
}

func openWatch(pid int) (*watch, error) {
	fd, err := unix.PidfdOpen(pid, 0) // close-on-exec by definition
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil, gonef(pid) // EINVAL: the number belongs to a thread
	}
	if err != nil {
		return nil, core.Errorf(core.KindOS, "open process %d: %w", pid, err)
	}
	// Only a non-blocking descriptor is handed to the runtime's poller.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, core.Errorf(core.KindOS, "open process %d: %w", pid, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	conn, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, core.Errorf(core.KindOS, "open process %d: %w", pid, err)
	}
	return &watch{file: file, conn: conn}, nil
}

// start calls ended once when the process has ended, unless the watch is
// closed before.
func (w *watch) start(ended func()) {
	w.wg.Go(func() {
		// A pidfd becomes readable when its process ends. Read returns an
		// error only when the descriptor is closed.
		if err := w.conn.Read(hasEnded); err == nil {
			ended()
		}
	})
}

// hasEnded reports whether a pidfd is readable now.
func hasEnded(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return n > 0
	}
}

func (w *watch) signal(id Identity, sig syscall.Signal) error {
	var sent error
	err := w.conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	if err == nil {
		err = sent
	}
	if errors.Is(err, unix.ESRCH) {
		return gonef(id.PID)
	}
	if err != nil {
		return core.Errorf(core.KindOS, "signal %v to %v: %w", sig, id, err)
	}
	return nil
}

func (w *watch) close() error {
	err := w.file.Close()
	w.wg.Wait()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// discard closes a watch that was never started.
func (w *watch) discard() { _ = w.file.Close() }
