package doctor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/codex-mmo/codex-mmo/core/process"
)

const (
	// killWait is how long a program that is tried may take to end when it is
	// killed; a probe that fails at its limit still fits into DefaultLimit.
	killWait = 500 * time.Millisecond
	// maxSaid bounds what is read of what a program printed, in bytes.
	maxSaid = 1 << 20
)

// errTooLong is in the chain of the error of a probe that was ended at its
// limit.
var errTooLong = errors.New("it did not end in the time that is allowed and was killed")

// bounded bounds a program that is tried: to 3 s when nothing else is said.
func (p *patient) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, p.limit()*3/5, errTooLong)
}

// remedyTime is what to do where the time was too short.
const remedyTime = "see whether the machine is overloaded, then allow more time with --timeout"

// end ends a probe's process and everything that it started, by identity. It
// is called also when the process has ended by itself: what it left behind
// goes too.
func end(ctx context.Context, child *process.Child) error {
	_, err := process.Retire(context.WithoutCancel(ctx), child.Identity(), &process.RetireOptions{KillWait: killWait})
	if err == nil {
		<-child.Done() // reaped, so that nothing of it is left
	}
	return err
}

// said is what a program printed into files of a scratch folder.
type said struct {
	exit        int // -1: it was killed
	stdout, err string
}

// await runs a program to its end, or to that of its time, with its output in
// files of dir.
func (p *patient) await(ctx context.Context, dir string, spec process.Spec) (s said, err error) {
	out, err := os.OpenFile(filepath.Join(dir, "stdout"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return said{}, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	spec.Stdout, spec.StderrPath = out, filepath.Join(dir, "stderr")
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	child, err := process.Start(spec)
	if err != nil {
		return said{}, err
	}
	select {
	case <-child.Done():
		s.exit = child.State().ExitCode()
	case <-ctx.Done():
		s.exit, err = -1, context.Cause(ctx)
	}
	err = errors.Join(err, end(ctx, child))
	s.stdout, s.err = readSome(filepath.Join(dir, "stdout")), readSome(filepath.Join(dir, "stderr"))
	return s, err
}

// readSome returns the beginning of a file, or nothing: it is for texts that
// say more about an outcome that is known.
func readSome(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	data, _ := io.ReadAll(io.LimitReader(f, maxSaid))
	return string(data)
}
