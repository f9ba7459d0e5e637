package process

import (
	"errors"
	"os"
	"sync"

	"github.com/codex-mmo/codex-mmo/core"
)

// Child is a process that this one started.
type Child struct {
	id    Identity
	proc  *os.Process
	done  chan struct{}
	state *os.ProcessState // set before done is closed
}

// Identity returns the identity of the process.
func (c *Child) Identity() Identity { return c.id }

// Done is closed when the process has ended and was reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// State returns how the process ended; nil before Done is closed.
func (c *Child) State() *os.ProcessState {
	select {
	case <-c.done:
		return c.state
	default:
		return nil
	}
}

// Kill ends the process at once. It is no error when it has ended before.
func (c *Child) Kill() error {
	if err := c.proc.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return core.Errorf(core.KindOS, "kill %v: %w", c.id, err)
	}
	return nil
}

// children are the processes that Start started and that still need reaping.
// It is one per process because the kernel's list of our children is.
var children = family{members: make(map[int]*Child)}

type family struct {
	// mu is held while a child is made, so that the reaper of orphans never
	// takes a child that is not in members yet for one.
	mu        sync.Mutex
	members   map[int]*Child // pid -> child
	subreaper bool
}

func (f *family) start(path string, argv []string, attr *os.ProcAttr) (*Child, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	proc, err := os.StartProcess(path, argv, attr)
	if err != nil {
		// The path in the error is the descriptor's; the caller names the file.
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err
		}
		return nil, err
	}
	// Nobody else reaps it, so its number is still its own even if it has ended.
	id, err := Lookup(proc.Pid)
	if err != nil {
		_ = proc.Kill()
		_, _ = proc.Wait()
		return nil, err
	}
	child := &Child{id: id, proc: proc, done: make(chan struct{})}
	f.members[id.PID] = child
	go f.reap(child)
	return child, nil
}

// reap waits for the child's end; that is also the end of this goroutine.
func (f *family) reap(child *Child) {
	state, err := child.proc.Wait()
	if err == nil {
		child.state = state
	}
	f.mu.Lock()
	if f.members[child.id.PID] == child {
		delete(f.members, child.id.PID)
	}
	f.mu.Unlock()
	close(child.done)
}

// adoptsFor reports whether a process that was re-parented to this one can
// only stem from leader: this process is a subreaper and leader is, or was,
// the only child it started.
func (f *family) adoptsFor(leader Identity) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.subreaper {
		return false
	}
	for pid := range f.members {
		if pid != leader.PID {
			return false
		}
	}
	return true
}

// tracks reports whether pid is a child that Start started.
func (f *family) tracks(pid int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[pid] != nil
}
