package store

import (
	"context"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

type unixStat = syscall.Stat_t

// queue lets one writer at a time begin, over all processes that have the
// database open. The kernel's flock serves waiters in order and forgets a
// holder that dies, where SQLite's own busy handler sleeps in growing steps.
type queue struct {
	file *os.File
	turn chan struct{} // capacity 1: the writer of this process
}

func newQueue(file *os.File) *queue {
	return &queue{file: file, turn: make(chan struct{}, 1)}
}

// lock waits for the caller's turn and returns the function that ends it.
func (q *queue) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, waitError(q.file.Name(), context.Cause(ctx))
	}
	err = unix.Flock(int(q.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return q.park(ctx)
	}
	if err != nil {
		<-q.turn
		return nil, core.Errorf(core.KindOS, "locking %s: %w", q.file.Name(), err)
	}
	return q.unlock, nil
}

// park waits in the kernel for another process. A caller that gives up leaves
// the waiter behind, which passes the turn on as soon as it has the lock.
func (q *queue) park(ctx context.Context) (unlock func(), err error) {
	granted := make(chan error, 1)
	go func() { granted <- flockWait(q.file, unix.LOCK_EX) }()
	select {
	case err := <-granted:
		if err != nil {
			<-q.turn
			return nil, core.Errorf(core.KindOS, "locking %s: %w", q.file.Name(), err)
		}
		return q.unlock, nil
	case <-ctx.Done():
		go func() {
			<-granted
			q.unlock()
		}()
		return nil, waitError(q.file.Name(), context.Cause(ctx))
	}
}

func (q *queue) unlock() {
	_ = unix.Flock(int(q.file.Fd()), unix.LOCK_UN) // on a closed file it is unlocked already
	<-q.turn
}

func (q *queue) close() error { return q.file.Close() }

func waitError(path string, cause error) error {
	return core.Errorf(core.KindUnavailable, "waiting for the writer that holds %s: %w", path, cause)
}

// flockWait is flock(2) that goes on after a signal.
func flockWait(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
