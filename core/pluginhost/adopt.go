package pluginhost

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/plugins"
)

// adoptTimeout bounds Adopt when its context has no deadline.
const adoptTimeout = 5 * time.Second

// Adopt connects to the plugin that ref names, whoever started it. In this
// order it proves the boot and start time of the process, its TLS identity,
// and that its first answer tells the same process. Nothing is ever signalled.
//
// The error wraps ErrGone when the process is proven dead, ErrUnreachable when
// it lives but does not answer, and ErrRefused when it answers but is not what
// ref names or speaks a protocol that this build does not.
func Adopt(ctx context.Context, ref Ref) (*Plugin, error) {
	if ref.Protocol != plugins.ProtocolVersion {
		return nil, core.Errorf(core.KindRuntime, "adopt plugin %v: it speaks protocol version %d, this build speaks %d: %w",
			ref.Process, ref.Protocol, plugins.ProtocolVersion, ErrRefused)
	}
	handle, err := process.Open(ref.Process)
	if err != nil {
		return nil, core.Errorf(core.KindUnavailable, "adopt plugin %v: %w", ref.Process, err)
	}
	p, err := attach(ctx, ref, handle)
	if err != nil {
		_ = handle.Close()
		return nil, err
	}
	return p, nil
}

// attach dials a process that was proven alive. The plugin keeps the handle.
func attach(ctx context.Context, ref Ref, handle *process.Handle) (*Plugin, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, adoptTimeout)
		defer cancel()
	}
	conn, err := dial(ref.Socket, ref.Dir)
	if err != nil {
		return nil, core.Errorf(core.KindUnavailable, "adopt plugin %v: %w", ref.Process, unreachable(err))
	}
	answer, err := describe(ctx, conn, ref.Kind)
	if err == nil {
		err = checkDescription(answer, ref.Kind, ref.Process, ref.Protocol)
	} else {
		err = whyNoAnswer(ref.Process, err)
	}
	if err != nil {
		_ = conn.Close()
		return nil, core.Errorf(core.KindUnavailable, "adopt plugin %v at %s: %w", ref.Process, ref.Socket, err)
	}
	return &Plugin{
		ref: ref, conn: conn, describe: answer,
		done: handle.Done(), release: handle.Close,
		closed: make(chan struct{}),
	}, nil
}

// whyNoAnswer tells a dead process, a plugin of another kind and a silent one
// apart.
func whyNoAnswer(id process.Identity, err error) error {
	switch {
	case !id.Alive():
		return causeError{ErrGone, err}
	case status.Code(err) == codes.Unimplemented:
		return causeError{ErrRefused, err}
	default:
		return unreachable(err)
	}
}

func unreachable(err error) error { return causeError{ErrUnreachable, err} }

// causeError is a cause of this package's with the error that showed it.
type causeError struct{ cause, err error }

func (e causeError) Error() string   { return e.cause.Error() + ": " + e.err.Error() }
func (e causeError) Unwrap() []error { return []error{e.cause, e.err} }
