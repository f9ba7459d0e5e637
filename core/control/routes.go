package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// route serves one verb for an admitted call.
type route func(s *Server, w http.ResponseWriter, r *http.Request, call Call)

// life says what ends the context of a verb.
type life int

const (
	untilClientLeaves life = iota
	parked                 // also when the server drains
	toItsEnd               // not before the server is closed by force
)

// routes is every verb of version 1.
var routes = map[string]route{
	VerbHello:     verb(untilClientLeaves, Handler.Hello),
	VerbCaller:    verb(untilClientLeaves, Handler.Caller),
	VerbSession:   verb(untilClientLeaves, Handler.Session),
	VerbSpawn:     verb(toItsEnd, Handler.Spawn),
	VerbJobs:      verb(untilClientLeaves, Handler.Jobs),
	VerbWait:      verb(parked, Handler.Wait),
	VerbResult:    verb(untilClientLeaves, Handler.Result),
	VerbCancel:    verb(toItsEnd, Handler.Cancel),
	VerbAccept:    verb(toItsEnd, Handler.Accept),
	VerbReject:    verb(toItsEnd, Handler.Reject),
	VerbIntegrate: verb(toItsEnd, Handler.Integrate),
	VerbStop:      verb(toItsEnd, Handler.Stop),
	VerbAttach:    verb(untilClientLeaves, Handler.Attach),
	VerbJoin:      verb(toItsEnd, Handler.Join),
	VerbNews:      verb(untilClientLeaves, Handler.News),
	VerbAudit:     verb(untilClientLeaves, Handler.Audit),
	VerbFollow:    (*Server).follow,
	VerbControl:   verb(toItsEnd, Handler.Control),

	VerbTrace:       verb(untilClientLeaves, Handler.Trace),
	VerbTraceRecord: verb(untilClientLeaves, Handler.TraceRecord),

	VerbSessionPause:    verb(toItsEnd, Handler.PauseSession),
	VerbSessionContinue: verb(toItsEnd, Handler.ContinueSession),
	VerbSessionResume:   verb(toItsEnd, Handler.ResumeSession),
	VerbSessionCompact:  verb(toItsEnd, Handler.CompactSession),
	VerbSessionDetach:   verb(toItsEnd, Handler.DetachSession),
	VerbSessionCancel:   verb(toItsEnd, Handler.CancelSession),
	VerbSessionTaint:    verb(toItsEnd, Handler.TaintSession),
}

// verb makes the route of a verb that takes one object and answers with one.
func verb[Req, Resp any](l life, serve func(Handler, context.Context, Call, Req) (*Resp, error)) route {
	// An encoder is made at the first use of a type, which takes about a
	// millisecond. A parked call has the time for it now, not once it is woken.
	var warm sync.Once
	return func(s *Server, w http.ResponseWriter, r *http.Request, call Call) {
		var request Req
		if err := readBody(w, r, &request); err != nil {
			s.fail(r.Context(), w, err)
			return
		}
		if l == parked {
			warm.Do(func() { _, _ = strictjson.Marshal(new(Resp)) }) // for its effect alone
		}
		ctx, cancel := s.contextFor(r.Context(), l)
		defer cancel()
		var response *Resp
		err := s.contained(r.URL.Path, func() (err error) {
			response, err = serve(s.handler, ctx, call, request)
			return err
		})
		if err != nil {
			s.fail(ctx, w, err)
			return
		}
		s.write(w, http.StatusOK, response)
	}
}

// contextFor gives a verb the context that its life asks for.
func (s *Server) contextFor(ctx context.Context, l life) (context.Context, context.CancelFunc) {
	switch l {
	case toItsEnd:
		return endWith(context.WithoutCancel(ctx), s.force)
	case parked:
		return endWith(ctx, s.drain)
	}
	return context.WithCancel(ctx)
}

// endWith returns a context that ends with ctx, or with other and its cause.
func endWith(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() { stop(); cancel(nil) }
}

// readBody reads a whole request body as one strict JSON object.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // unsupported only for recorders in tests
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return bodyTooLarge()
	case err != nil:
		return core.Errorf(core.KindOS, "read the request body: %w", err)
	}
	_ = rc.SetReadDeadline(time.Time{}) // from here on a read only tells that the client left
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return core.Errorf(core.KindValue, "the request body must be a JSON object")
	}
	if err := strictjson.Unmarshal(body, into, nil); err != nil {
		return bodyRefused(err, into)
	}
	return nil
}

// bodyRefused says what is wrong with a body. What a job does not take is named
// in the words that callers match on.
func bodyRefused(err error, into any) error {
	var bad *strictjson.Error
	if _, spawn := into.(*SpawnRequest); spawn && errors.As(err, &bad) && errors.Is(bad, strictjson.ErrUnknownField) {
		if field, found := strings.CutPrefix(bad.Path, "/agents/"); found {
			_, field, _ = strings.Cut(field, "/")
			return core.Errorf(core.KindValue, "unknown job request fields: %s", field).WithRemedy("see the tool's schema for what a job takes")
		}
	}
	return core.Errorf(core.KindValue, "the request body is refused: %w", err)
}

// write sends one JSON object. A client that has left gets nothing, and that is
// no failure of ours.
func (s *Server) write(w http.ResponseWriter, status int, body any) {
	data, err := strictjson.Marshal(body)
	if err != nil {
		s.log.Error("control answer can't be written", "err", err)
		status = http.StatusInternalServerError
		data = []byte(`{"error":{"kind":"RuntimeError","message":"the answer could not be written as JSON"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(HeaderBuild, s.build)
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

// follow streams events as JSON lines. A stream that ends with an error has an
// ErrorBody as its last line.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, call Call) {
	var request FollowRequest
	if err := readBody(w, r, &request); err != nil {
		s.fail(r.Context(), w, err)
		return
	}
	ctx, cancel := s.contextFor(r.Context(), parked)
	defer cancel()
	lines := &lineWriter{w: w, rc: http.NewResponseController(w)}
	err := s.contained(r.URL.Path, func() error {
		return s.handler.Follow(ctx, call, request, func(e FollowEvent) error { return lines.write(e) })
	})
	switch {
	case err == nil && lines.started:
	case err == nil:
		lines.start()
	case lines.started:
		_ = lines.write(ErrorBody{Error: viewOf(ctx, err)})
	default:
		s.fail(ctx, w, err)
	}
}

// lineWriter writes JSON lines and flushes each.
type lineWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	started bool
}

func (l *lineWriter) start() {
	l.started = true
	l.w.Header().Set("Content-Type", "application/x-ndjson")
	l.w.WriteHeader(http.StatusOK)
}

func (l *lineWriter) write(v any) error {
	data, err := strictjson.Marshal(v)
	if err != nil {
		return core.Errorf(core.KindRuntime, "write an event: %w", err)
	}
	if !l.started {
		l.start()
	}
	if _, err := l.w.Write(append(data, '\n')); err != nil {
		return core.Errorf(core.KindOS, "write an event: %w", err)
	}
	if err := l.rc.Flush(); err != nil {
		return core.Errorf(core.KindOS, "write an event: %w", err)
	}
	return nil
}
