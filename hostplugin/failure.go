package hostplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/hostplugin/appserver"
	"github.com/codex-mmo/codex-mmo/hostplugin/spool"
	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
)

// Why a wait inside the host ends before its time.
var (
	errClosing    = errors.New("the host is ending")
	errEngineGone = errors.New("the engine's process has ended")
	errStopped    = errors.New("the engine is being stopped")
)

// failure is an error with the kind that goes over the wire.
type failure struct {
	kind    string
	message string
}

func (f *failure) Error() string { return f.message }

func failf(kind, format string, args ...any) error {
	return &failure{kind, fmt.Sprintf(format, args...)}
}

// wireFailure tells an error in the contract's words.
func wireFailure(err error) *basepb.Failure {
	out := &basepb.Failure{Kind: "internal", Message: err.Error()}
	var own *failure
	var refused *appserver.RPCError
	var protocol *appserver.ProtocolError
	switch {
	case errors.As(err, &own):
		out.Kind = own.kind
	case errors.As(err, &refused):
		out.Kind, out.EngineCode = "refused", refused.Code
		if refused.Overloaded() {
			out.Kind, out.Retryable = "overloaded", true
		}
	case errors.As(err, &protocol):
		out.Kind = "protocol"
	case errors.Is(err, errEngineGone), errors.Is(err, process.ErrGone):
		out.Kind = "engine_gone"
	case errors.Is(err, spool.ErrLocked):
		out.Kind, out.Retryable = "spool_locked", true
	case errors.Is(err, context.DeadlineExceeded):
		out.Kind, out.Retryable = "timeout", true
	case errors.Is(err, appserver.ErrNotSent), errors.Is(err, appserver.ErrUnanswered):
		out.Kind, out.Retryable = "transport", true
	case errors.Is(err, fs.ErrNotExist):
		out.Kind = "engine_missing"
	}
	return out
}
