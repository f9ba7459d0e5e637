// Package controltest is a control API for tests: a Handler made of functions,
// served over a real unix socket.
package controltest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
)

// Handler answers each verb with its function, or refuses it when that is nil.
type Handler struct {
	OnHello           func(context.Context, control.Call, control.HelloRequest) (*control.HelloResponse, error)
	OnCaller          func(context.Context, control.Call, control.CallerRequest) (*control.CallerResponse, error)
	OnSession         func(context.Context, control.Call, control.SessionRequest) (*control.SessionView, error)
	OnSpawn           func(context.Context, control.Call, control.SpawnRequest) (*control.SpawnResponse, error)
	OnJobs            func(context.Context, control.Call, control.JobsRequest) (*control.JobsResponse, error)
	OnWait            func(context.Context, control.Call, control.WaitRequest) (*control.WaitResponse, error)
	OnResult          func(context.Context, control.Call, control.ResultRequest) (*control.ResultResponse, error)
	OnCancel          func(context.Context, control.Call, control.CancelRequest) (*control.CancelResponse, error)
	OnAccept          func(context.Context, control.Call, control.DispositionRequest) (*control.DispositionResponse, error)
	OnReject          func(context.Context, control.Call, control.DispositionRequest) (*control.DispositionResponse, error)
	OnAttach          func(context.Context, control.Call, control.AttachRequest) (*control.AttachResponse, error)
	OnJoin            func(context.Context, control.Call, control.JoinRequest) (*control.JoinResponse, error)
	OnNews            func(context.Context, control.Call, control.NewsRequest) (*control.NewsResponse, error)
	OnIntegrate       func(context.Context, control.Call, control.IntegrateRequest) (*control.IntegrateResponse, error)
	OnStop            func(context.Context, control.Call, control.StopRequest) (*control.StopResponse, error)
	OnAudit           func(context.Context, control.Call, control.AuditRequest) (*control.AuditResponse, error)
	OnControl         func(context.Context, control.Call, control.ControlRequest) (*control.ControlResponse, error)
	OnTrace           func(context.Context, control.Call, control.TraceRequest) (*control.TraceResponse, error)
	OnTraceRecord     func(context.Context, control.Call, control.TraceRecordRequest) (*control.TraceRecordResponse, error)
	OnPauseSession    func(context.Context, control.Call, control.PauseRequest) (*control.PauseResponse, error)
	OnContinueSession func(context.Context, control.Call, control.ContinueRequest) (*control.ContinueResponse, error)
	OnResumeSession   func(context.Context, control.Call, control.ResumeRequest) (*control.ResumeResponse, error)
	OnCompactSession  func(context.Context, control.Call, control.CompactRequest) (*control.SessionView, error)
	OnDetachSession   func(context.Context, control.Call, control.DetachRequest) (*control.SessionView, error)
	OnCancelSession   func(context.Context, control.Call, control.CancelSessionRequest) (*control.SessionView, error)
	OnTaintSession    func(context.Context, control.Call, control.TaintRequest) (*control.SessionView, error)
	OnFollow          func(context.Context, control.Call, control.FollowRequest, func(control.FollowEvent) error) error
}

var _ control.Handler = (*Handler)(nil)

func serve[Req, Resp any](ctx context.Context, c control.Call, r Req, f func(context.Context, control.Call, Req) (*Resp, error)) (*Resp, error) {
	if f == nil {
		return nil, core.Errorf(core.KindRuntime, "the test has no answer to %T", r)
	}
	return f(ctx, c, r)
}

// Hello calls OnHello.
func (h *Handler) Hello(ctx context.Context, c control.Call, r control.HelloRequest) (*control.HelloResponse, error) {
	return serve(ctx, c, r, h.OnHello)
}

// Caller calls OnCaller.
func (h *Handler) Caller(ctx context.Context, c control.Call, r control.CallerRequest) (*control.CallerResponse, error) {
	return serve(ctx, c, r, h.OnCaller)
}

// Session calls OnSession.
func (h *Handler) Session(ctx context.Context, c control.Call, r control.SessionRequest) (*control.SessionView, error) {
	return serve(ctx, c, r, h.OnSession)
}

// Spawn calls OnSpawn.
func (h *Handler) Spawn(ctx context.Context, c control.Call, r control.SpawnRequest) (*control.SpawnResponse, error) {
	return serve(ctx, c, r, h.OnSpawn)
}

// Jobs calls OnJobs.
func (h *Handler) Jobs(ctx context.Context, c control.Call, r control.JobsRequest) (*control.JobsResponse, error) {
	return serve(ctx, c, r, h.OnJobs)
}

// Wait calls OnWait.
func (h *Handler) Wait(ctx context.Context, c control.Call, r control.WaitRequest) (*control.WaitResponse, error) {
	return serve(ctx, c, r, h.OnWait)
}

// Result calls OnResult.
func (h *Handler) Result(ctx context.Context, c control.Call, r control.ResultRequest) (*control.ResultResponse, error) {
	return serve(ctx, c, r, h.OnResult)
}

// Cancel calls OnCancel.
func (h *Handler) Cancel(ctx context.Context, c control.Call, r control.CancelRequest) (*control.CancelResponse, error) {
	return serve(ctx, c, r, h.OnCancel)
}

// Accept calls OnAccept.
func (h *Handler) Accept(ctx context.Context, c control.Call, r control.DispositionRequest) (*control.DispositionResponse, error) {
	return serve(ctx, c, r, h.OnAccept)
}

// Reject calls OnReject.
func (h *Handler) Reject(ctx context.Context, c control.Call, r control.DispositionRequest) (*control.DispositionResponse, error) {
	return serve(ctx, c, r, h.OnReject)
}

// Integrate calls OnIntegrate.
func (h *Handler) Integrate(ctx context.Context, c control.Call, r control.IntegrateRequest) (*control.IntegrateResponse, error) {
	return serve(ctx, c, r, h.OnIntegrate)
}

// Stop calls OnStop.
func (h *Handler) Stop(ctx context.Context, c control.Call, r control.StopRequest) (*control.StopResponse, error) {
	return serve(ctx, c, r, h.OnStop)
}

// Attach calls OnAttach.
func (h *Handler) Attach(ctx context.Context, c control.Call, r control.AttachRequest) (*control.AttachResponse, error) {
	return serve(ctx, c, r, h.OnAttach)
}

// Join calls OnJoin.
func (h *Handler) Join(ctx context.Context, c control.Call, r control.JoinRequest) (*control.JoinResponse, error) {
	return serve(ctx, c, r, h.OnJoin)
}

// News calls OnNews.
func (h *Handler) News(ctx context.Context, c control.Call, r control.NewsRequest) (*control.NewsResponse, error) {
	return serve(ctx, c, r, h.OnNews)
}

// Audit calls OnAudit.
func (h *Handler) Audit(ctx context.Context, c control.Call, r control.AuditRequest) (*control.AuditResponse, error) {
	return serve(ctx, c, r, h.OnAudit)
}

// Trace calls OnTrace.
func (h *Handler) Trace(ctx context.Context, c control.Call, r control.TraceRequest) (*control.TraceResponse, error) {
	return serve(ctx, c, r, h.OnTrace)
}

// TraceRecord calls OnTraceRecord.
func (h *Handler) TraceRecord(ctx context.Context, c control.Call, r control.TraceRecordRequest) (*control.TraceRecordResponse, error) {
	return serve(ctx, c, r, h.OnTraceRecord)
}

// Control calls OnControl.
func (h *Handler) Control(ctx context.Context, c control.Call, r control.ControlRequest) (*control.ControlResponse, error) {
	return serve(ctx, c, r, h.OnControl)
}

// PauseSession calls OnPauseSession.
func (h *Handler) PauseSession(ctx context.Context, c control.Call, r control.PauseRequest) (*control.PauseResponse, error) {
	return serve(ctx, c, r, h.OnPauseSession)
}

// ContinueSession calls OnContinueSession.
func (h *Handler) ContinueSession(ctx context.Context, c control.Call, r control.ContinueRequest) (*control.ContinueResponse, error) {
	return serve(ctx, c, r, h.OnContinueSession)
}

// ResumeSession calls OnResumeSession.
func (h *Handler) ResumeSession(ctx context.Context, c control.Call, r control.ResumeRequest) (*control.ResumeResponse, error) {
	return serve(ctx, c, r, h.OnResumeSession)
}

// CompactSession calls OnCompactSession.
func (h *Handler) CompactSession(ctx context.Context, c control.Call, r control.CompactRequest) (*control.SessionView, error) {
	return serve(ctx, c, r, h.OnCompactSession)
}

// DetachSession calls OnDetachSession.
func (h *Handler) DetachSession(ctx context.Context, c control.Call, r control.DetachRequest) (*control.SessionView, error) {
	return serve(ctx, c, r, h.OnDetachSession)
}

// CancelSession calls OnCancelSession.
func (h *Handler) CancelSession(ctx context.Context, c control.Call, r control.CancelSessionRequest) (*control.SessionView, error) {
	return serve(ctx, c, r, h.OnCancelSession)
}

// TaintSession calls OnTaintSession.
func (h *Handler) TaintSession(ctx context.Context, c control.Call, r control.TaintRequest) (*control.SessionView, error) {
	return serve(ctx, c, r, h.OnTaintSession)
}

// Follow calls OnFollow.
func (h *Handler) Follow(ctx context.Context, c control.Call, r control.FollowRequest, emit func(control.FollowEvent) error) error {
	if h.OnFollow == nil {
		return core.Errorf(core.KindRuntime, "the test has no answer to %T", r)
	}
	return h.OnFollow(ctx, c, r, emit)
}

// SocketPath returns a path for a socket in a private folder that is removed
// with the test.
func SocketPath(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(cache, "codex-mmo-test")
	if err := os.MkdirAll(base, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(base, "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// Start serves h at path until the test ends, and returns the server.
func Start(t testing.TB, path string, h control.Handler) *control.Server {
	t.Helper()
	l, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := control.NewServer(l, h, &control.ServerOptions{Build: "test-server", Log: slog.New(slog.DiscardHandler)})
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shut the control server down: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("control server: %v", err)
		}
	})
	return s
}
