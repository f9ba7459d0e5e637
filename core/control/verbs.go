package control

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// maxEvent is the longest line of a follow stream in bytes.
const maxEvent = 8 << 20

func fixed(request any) func() (any, error) {
	return func() (any, error) { return request, nil }
}

// Hello asks who serves the socket.
func (c *Client) Hello(ctx context.Context) (*HelloResponse, error) {
	return call[HelloResponse](ctx, c, VerbHello, Meta{}, fixed(HelloRequest{}))
}

// Caller asks what the caller is and may do.
func (c *Client) Caller(ctx context.Context, m Meta) (*CallerResponse, error) {
	return call[CallerResponse](ctx, c, VerbCaller, m, fixed(CallerRequest{}))
}

// Session returns the session's public view.
func (c *Client) Session(ctx context.Context, m Meta) (*SessionView, error) {
	return call[SessionView](ctx, c, VerbSession, m, fixed(SessionRequest{}))
}

// Spawn delegates jobs. With a key in m it is repeated over a lost connection,
// and answered as the first time; without one the error of a lost connection is
// a ControlDeliveryUnknown.
func (c *Client) Spawn(ctx context.Context, m Meta, r SpawnRequest) (*SpawnResponse, error) {
	return call[SpawnResponse](ctx, c, VerbSpawn, m, fixed(r))
}

// Jobs lists jobs.
func (c *Client) Jobs(ctx context.Context, m Meta, r JobsRequest) (*JobsResponse, error) {
	return call[JobsResponse](ctx, c, VerbJobs, m, fixed(r))
}

// Wait parks until a job ends or changes, or the timeout in r is over. When the
// supervisor goes away meanwhile, the wait goes on at its successor with what
// is left of the timeout.
func (c *Client) Wait(ctx context.Context, m Meta, r WaitRequest) (*WaitResponse, error) {
	start := time.Now()
	timeout := r.TimeoutSeconds
	return call[WaitResponse](ctx, c, VerbWait, m, func() (any, error) {
		r.TimeoutSeconds = max(0, timeout-time.Since(start).Seconds())
		return r, nil
	})
}

// Result reads one page of a result.
func (c *Client) Result(ctx context.Context, m Meta, r ResultRequest) (*ResultResponse, error) {
	return call[ResultResponse](ctx, c, VerbResult, m, fixed(r))
}

// Cancel ends a job. Over a lost connection it is like Spawn.
func (c *Client) Cancel(ctx context.Context, m Meta, r CancelRequest) (*CancelResponse, error) {
	return call[CancelResponse](ctx, c, VerbCancel, m, fixed(r))
}

// Accept records that the result of a job is good. Over a lost connection it is
// like Spawn.
func (c *Client) Accept(ctx context.Context, m Meta, r DispositionRequest) (*DispositionResponse, error) {
	return call[DispositionResponse](ctx, c, VerbAccept, m, fixed(r))
}

// Reject records that the result of a job is of no use. Over a lost connection
// it is like Spawn.
func (c *Client) Reject(ctx context.Context, m Meta, r DispositionRequest) (*DispositionResponse, error) {
	return call[DispositionResponse](ctx, c, VerbReject, m, fixed(r))
}

// Integrate brings an accepted job's patch into the workspace. Over a lost
// connection it is like Spawn.
func (c *Client) Integrate(ctx context.Context, m Meta, r IntegrateRequest) (*IntegrateResponse, error) {
	return call[IntegrateResponse](ctx, c, VerbIntegrate, m, fixed(r))
}

// Stop ends the session. It is never repeated.
func (c *Client) Stop(ctx context.Context, m Meta, r StopRequest) (*StopResponse, error) {
	return call[StopResponse](ctx, c, VerbStop, m, fixed(r))
}

// Attach asks how a terminal reaches the root, or records the terminal. It may
// be repeated: the same terminal is recorded once.
func (c *Client) Attach(ctx context.Context, m Meta, r AttachRequest) (*AttachResponse, error) {
	return call[AttachResponse](ctx, c, VerbAttach, m, fixed(r))
}

// Join makes the calling process the root's client of an ambient session. It is
// never repeated.
func (c *Client) Join(ctx context.Context, r JoinRequest) (*JoinResponse, error) {
	return call[JoinResponse](ctx, c, VerbJoin, Meta{}, fixed(r))
}

// News asks what waits for the root, which is noted as told.
func (c *Client) News(ctx context.Context, m Meta) (*NewsResponse, error) {
	return call[NewsResponse](ctx, c, VerbNews, m, fixed(NewsRequest{}))
}

// Control looks at an agent or tells it what to do. Over a lost connection it
// is like Spawn: what was not only looked at may have had its effect.
func (c *Client) Control(ctx context.Context, m Meta, r ControlRequest) (*ControlResponse, error) {
	return call[ControlResponse](ctx, c, VerbControl, m, fixed(r))
}

// Trace reads a page of an agent's trace.
func (c *Client) Trace(ctx context.Context, m Meta, r TraceRequest) (*TraceResponse, error) {
	return call[TraceResponse](ctx, c, VerbTrace, m, fixed(r))
}

// TraceRecord reads a part of one record of an agent's trace.
func (c *Client) TraceRecord(ctx context.Context, m Meta, r TraceRecordRequest) (*TraceRecordResponse, error) {
	return call[TraceRecordResponse](ctx, c, VerbTraceRecord, m, fixed(r))
}

// PauseSession pauses the session cold. It may be repeated.
func (c *Client) PauseSession(ctx context.Context, r PauseRequest) (*PauseResponse, error) {
	return call[PauseResponse](ctx, c, VerbSessionPause, Meta{}, fixed(r))
}

// ContinueSession takes a resting session up with an input. It is never
// repeated.
func (c *Client) ContinueSession(ctx context.Context, r ContinueRequest) (*ContinueResponse, error) {
	return call[ContinueResponse](ctx, c, VerbSessionContinue, Meta{}, fixed(r))
}

// ResumeSession makes the session ready for a client.
func (c *Client) ResumeSession(ctx context.Context, r ResumeRequest) (*ResumeResponse, error) {
	return call[ResumeResponse](ctx, c, VerbSessionResume, Meta{}, fixed(r))
}

// CompactSession shortens the context of a paused session's root.
func (c *Client) CompactSession(ctx context.Context, r CompactRequest) (*SessionView, error) {
	return call[SessionView](ctx, c, VerbSessionCompact, Meta{}, fixed(r))
}

// DetachSession takes the client's interest from the session. It may be
// repeated.
func (c *Client) DetachSession(ctx context.Context, r DetachRequest) (*SessionView, error) {
	return call[SessionView](ctx, c, VerbSessionDetach, Meta{}, fixed(r))
}

// CancelSession ends the session at once. It may be repeated.
func (c *Client) CancelSession(ctx context.Context, r CancelSessionRequest) (*SessionView, error) {
	return call[SessionView](ctx, c, VerbSessionCancel, Meta{}, fixed(r))
}

// TaintSession marks the session.
func (c *Client) TaintSession(ctx context.Context, r TaintRequest) (*SessionView, error) {
	return call[SessionView](ctx, c, VerbSessionTaint, Meta{}, fixed(r))
}

// Audit reads audit rows.
func (c *Client) Audit(ctx context.Context, m Meta, r AuditRequest) (*AuditResponse, error) {
	return call[AuditResponse](ctx, c, VerbAudit, m, fixed(r))
}

// Follow calls each for every event until the stream ends, each fails, or ctx
// ends. It connects with the client's patience, but a stream that broke is not
// begun again: the caller decides from where. An end by the server's shutdown
// is an error of kind UnavailableError.
func (c *Client) Follow(ctx context.Context, m Meta, r FollowRequest, each func(FollowEvent) error) error {
	if err := c.check(m); err != nil {
		return err
	}
	body, err := strictjson.Marshal(r)
	if err != nil {
		return core.Errorf(core.KindValue, "write the request %s: %w", VerbFollow, err)
	}
	patience := newPatience(c.path, c.retry)
	defer patience.close()
	for {
		resp, became, err := c.attempt(ctx, VerbFollow, m, body)
		switch {
		case err == nil:
			defer resp.Body.Close()
			return readEvents(ctx, resp.Body, each)
		case became == answered || became == drained:
			return err
		case became == unknown || !absent(err) || !patience.wait(ctx, became):
			return c.noAnswer(ctx, VerbFollow, false, err)
		}
	}
}

// readEvents reads JSON lines to the end of the stream. The last line may be an
// ErrorBody.
func readEvents(ctx context.Context, stream io.Reader, each func(FollowEvent) error) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var event struct {
			FollowEvent
			Error *ErrorView `json:"error"`
		}
		if err := strictjson.Unmarshal(lines.Bytes(), &event, &strictjson.Options{AllowUnknown: true}); err != nil {
			return core.Errorf(core.KindRuntime, "read an event: %w", err)
		}
		if event.Error != nil {
			return errorOf(*event.Error)
		}
		if err := each(event.FollowEvent); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, bufio.ErrTooLong):
		return core.Errorf(core.KindRuntime, "read an event: a line has more than %d bytes", maxEvent)
	case err != nil:
		return core.Errorf(core.KindUnavailable, "the stream of events broke: %w", err)
	}
	return nil
}
