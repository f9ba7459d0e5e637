package control

import (
	"context"
	"errors"
	"net/http"

	"github.com/codex-mmo/codex-mmo/core"
)

// ReasonDraining marks the answer to a call that a shutdown ended without effect, so
// that the client knows it may repeat it.
const ReasonDraining = "draining"

// statusOf is the one place where kinds become HTTP statuses. The status is
// for people with curl; our client goes by the kind.
func statusOf(kind core.Kind) int {
	switch kind {
	case core.KindValue:
		return http.StatusBadRequest
	case core.KindPermission:
		return http.StatusForbidden
	case core.KindNotFound:
		return http.StatusNotFound
	case core.KindAdmission, core.KindRuntime:
		return http.StatusConflict
	case core.KindAppServer:
		return http.StatusBadGateway
	case core.KindDeliveryUnknown:
		return http.StatusGatewayTimeout
	case core.KindUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// viewOf puts an error on the wire. A context that ended is told by its cause:
// a shutdown is not a failure.
func viewOf(ctx context.Context, err error) ErrorView {
	if cause := context.Cause(ctx); errors.Is(cause, ErrDraining) && (errors.Is(err, ErrDraining) || errors.Is(err, context.Canceled)) {
		return ErrorView{
			Kind: string(core.KindUnavailable), Reason: ReasonDraining,
			Message: ErrDraining.Error() + "; nothing is lost", Remedy: "call again",
		}
	}
	var e *core.Error
	if !errors.As(err, &e) {
		return ErrorView{Kind: string(core.KindRuntime), Message: err.Error()}
	}
	view := ErrorView{
		Kind: string(e.Kind), Reason: e.Reason,
		SessionID: e.SessionID, SessionStatus: string(e.SessionStatus),
	}
	for _, h := range e.Holders {
		view.Holders = append(view.Holders, HolderView(h))
	}
	if same, ok := err.(*core.Error); ok { //nolint:errorlint // only the outermost error's own text may be taken apart
		bare := *same
		bare.Remedy = ""
		view.Message, view.Remedy = bare.Error(), same.Remedy
		return view
	}
	view.Message = err.Error() // words around the core.Error; its remedy is among them
	return view
}

// errorOf takes an error off the wire.
func errorOf(v ErrorView) *core.Error {
	kind := core.Kind(v.Kind)
	if kind == "" {
		kind = core.KindRuntime
	}
	e := &core.Error{
		Kind: kind, Message: v.Message, Remedy: v.Remedy, Reason: v.Reason,
		SessionID: v.SessionID, SessionStatus: core.SessionStatus(v.SessionStatus),
	}
	for _, h := range v.Holders {
		e.Holders = append(e.Holders, core.Holder(h))
	}
	return e
}
