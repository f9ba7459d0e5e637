package process

import (
	"context"
	"errors"
	"syscall"
)

// ProcessTable is what Retire needs of the operating system. Tests wrap
// SystemTable to put in a process that would not die.
type ProcessTable interface {
	// Entries returns a row per process that can be seen.
	Entries() ([]Entry, error)
	// Mark returns the value of MarkEnv that a process was started with, or ""
	// when it has none or its environment can't be read.
	Mark(id Identity) string
	// Signal signals exactly the process that id names. The error wraps
	// ErrGone when it does not live.
	Signal(id Identity, sig syscall.Signal) error
	// Wait blocks until all the processes have ended or ctx is done.
	Wait(ctx context.Context, ids []Identity) error
}

// SystemTable returns the real process table.
func SystemTable() ProcessTable { return systemTable{} }

type systemTable struct{}

func (systemTable) Entries() ([]Entry, error) { return readTable() }

func (systemTable) Mark(id Identity) string {
	if !ownedByUs(id.PID) {
		return ""
	}
	mark, err := readMark(id.PID)
	if err != nil {
		return ""
	}
	return mark
}

func (systemTable) Signal(id Identity, sig syscall.Signal) error {
	h, err := Open(id)
	if err != nil {
		return err
	}
	return errors.Join(h.Signal(sig), h.Close())
}

func (systemTable) Wait(ctx context.Context, ids []Identity) error {
	handles := make([]*Handle, 0, len(ids))
	defer func() {
		for _, h := range handles {
			_ = h.Close()
		}
	}()
	for _, id := range ids {
		h, err := Open(id)
		if isGone(err) {
			continue
		}
		if err != nil {
			return err
		}
		handles = append(handles, h)
	}
	await(ctx, handles)
	return nil
}
