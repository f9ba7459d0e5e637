package gatewayplugin

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/sse"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

const (
	// upstreamSilence is how long a provider may send nothing. Our keep-alives
	// keep Codex from noticing, so this is the only bound. The largest models
	// think for minutes before their first byte.
	upstreamSilence = 10 * time.Minute
	// usageWait is how long the usage may take after the answer has ended.
	usageWait = 5 * time.Second
)

// requestID returns a new id for a request: it names the answer's items too,
// so that they are unique within a thread.
func (g *Gateway) requestID() string {
	var buf [12]byte
	if _, err := io.ReadFull(g.opts.Random, buf[:]); err != nil {
		panic("gatewayplugin: random source failed: " + err.Error()) // ids can't be made without it
	}
	return hex.EncodeToString(buf[:])
}

// exchange is one request of Codex and its attempts upstream, one after the
// other. It is driven by one goroutine; a second one only reads from upstream.
type exchange struct {
	g       *Gateway
	w       http.ResponseWriter
	client  *http.Request
	token   *token
	route   *route
	request *responses.Request
	body    []byte // of request
	id      string
	began   time.Time

	dropped  []string // parts of the request that the wire can't carry
	begun    bool     // Codex knows that its request is under way
	answered bool     // Codex has seen a part of the answer
	recorded bool     // the last attempt is on record

	// Of the attempt under way.
	attemptNo uint32    // from 1; 0: nothing was sent
	sent      time.Time // when it left
	first     time.Time // of the first event from upstream
	status    int       // HTTP status of upstream; 0: no answer
	result    translate.Result
}

// errClient says that events can't be handed to Codex any more.
var errClient = errors.New("the client has left")

// run answers the request to its end. ctx ends when the client leaves.
func (x *exchange) run(ctx context.Context) {
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("Connection", "close") // after response.failed Codex waits for the end of the connection
	x.w.WriteHeader(http.StatusOK)
	x.finish(x.serve(ctx))
}

// serve asks the provider, again when that can help. nil means that the result
// is whole.
func (x *exchange) serve(ctx context.Context) *failure {
	if x.route.state != "ready" {
		return &failure{kind: "unavailable", code: codeStop, message: x.route.message}
	}
	call, err := x.translate()
	if err != nil {
		return &failure{kind: "bad_request", code: codeStop, message: "the gateway can't translate the request: " + x.route.secrets.clean(err.Error())}
	}
	x.dropped = call.Dropped
	x.g.metrics.drop(x.route.id, call.Dropped)
	for {
		if why := x.token.tenant.ledger.refusal(x.token); why != "" {
			x.reset()
			return &failure{kind: "budget", code: codeStop, message: why}
		}
		f := x.attempt(ctx, call)
		wait, again := x.again(f)
		if !again {
			return f
		}
		x.record(f)
		if f := x.pause(ctx, wait); f != nil {
			x.recorded = true // no attempt is under way
			return f
		}
		x.reset()
	}
}

// reset forgets the last attempt, which is on record.
func (x *exchange) reset() {
	x.first, x.status, x.result = time.Time{}, 0, translate.Result{}
}

// attempt asks the provider once. nil means that the result is whole.
func (x *exchange) attempt(ctx context.Context, call *translate.Call) *failure {
	up := newUpstream(x)
	req, err := x.upstreamRequest(up.ctx, call.Body)
	if err != nil {
		up.cancel()
		return &failure{kind: "bad_request", code: codeStop, message: err.Error()}
	}
	x.attemptNo++
	x.sent = time.Now()
	answer := x.answer(call)
	x.g.tasks.Go(func() { up.pump(req) })
	if x.begin() != nil { // not before: the provider has something to do meanwhile
		up.cancel()
		return clientGone
	}
	if f := x.relay(ctx, up.events, answer); f != nil {
		up.cancel()
		x.result = answer.SoFar() // what it has cost so far
		return f
	}
	up.release()
	x.result, err = answer.Finish()
	if err != nil {
		return clientGone
	}
	return x.judge()
}

// relay hands the events of upstream to the answer until it is whole, and
// keeps Codex waiting in between.
func (x *exchange) relay(ctx context.Context, events <-chan upstreamEvent, answer answer) *failure {
	keepAlive := time.NewTimer(x.g.opts.KeepAlive)
	defer keepAlive.Stop()
	silence := time.NewTimer(upstreamSilence)
	defer silence.Stop()
	for {
		select {
		case e, open := <-events:
			if !open {
				return x.orCancelled(nil)
			}
			if done, f := x.take(e, answer); done || f != nil {
				return f
			}
			if len(events) == 0 && x.flush() != nil { // else more is there already
				return clientGone
			}
			keepAlive.Reset(x.g.opts.KeepAlive)
			if answer.Finished() {
				silence.Reset(usageWait)
			} else {
				silence.Reset(upstreamSilence)
			}
		case <-keepAlive.C:
			if x.tell(responses.Event{Type: "response.in_progress", Response: x.response("in_progress")}) != nil {
				return clientGone
			}
			keepAlive.Reset(x.g.opts.KeepAlive)
		case <-silence.C:
			if answer.Finished() {
				return nil // whole, without usage
			}
			return &failure{kind: "transport", code: codeRetry, outcome: "truncated", message: fmt.Sprintf("the provider sent nothing for %s", upstreamSilence)}
		case <-x.token.tenant.life.Done():
			return x.cancelled()
		case <-ctx.Done():
			return x.cancelled()
		}
	}
}

// take hands one event to the answer. What goes wrong after the provider has
// ended the answer costs no more than the usage: to ask again would repeat it.
func (x *exchange) take(e upstreamEvent, answer answer) (done bool, f *failure) {
	if e.failure != nil {
		if answer.Finished() {
			return true, x.orCancelled(nil)
		}
		x.status = e.status
		return true, x.orCancelled(e.failure)
	}
	if x.first.IsZero() {
		x.first, x.status = time.Now(), e.status
	}
	done, err := answer.Take(e.event.Data)
	switch {
	case errors.Is(err, errClient):
		return true, clientGone
	case err != nil && !answer.Finished():
		return true, x.broken(err)
	}
	return done || err != nil, nil
}

// cancelled says why the exchange must end early.
func (x *exchange) cancelled() *failure {
	switch {
	case x.g.life.Err() != nil:
		return &failure{kind: "unavailable", code: codeRetry, outcome: "cancelled", message: errStopping.Error()}
	case x.token.tenant.life.Err() != nil:
		return &failure{kind: "unavailable", code: codeStop, outcome: "cancelled", message: errReleased.Error()}
	}
	return clientGone
}

// orCancelled returns why the exchange was ended from our side, if it was: the
// failure of upstream is then only what follows from that.
func (x *exchange) orCancelled(f *failure) *failure {
	if x.token.tenant.life.Err() != nil {
		return x.cancelled()
	}
	return f
}

// broken says what an error of the answer means.
func (x *exchange) broken(err error) *failure {
	x.g.opts.Log.Debug("a provider's event can't be read", "route", x.route.id, "err", err)
	return &failure{kind: "transport", code: codeRetry, outcome: "truncated", message: "the provider sent an event that can't be read"}
}

// judge turns how a stream ended into a failure, or nil when it is whole.
func (x *exchange) judge() *failure {
	r := &x.result
	switch {
	case r.Error != nil:
		return classify(0, nil, r.Error, x.route.secrets)
	case r.Whole(), r.Finish == "length":
		return nil
	case r.Finish == "content_filter":
		return &failure{kind: "content_filter", code: codeStop, message: "the provider's content filter stopped the answer"}
	case r.Finish == "context_window":
		return &failure{kind: "context_window", code: codeContext, message: "the conversation does not fit into the model's context window"}
	case r.Finish == "":
		return &failure{kind: "transport", code: codeRetry, outcome: "truncated", message: "the provider's stream ended before its answer did"}
	}
	return &failure{kind: "transport", code: codeRetry, message: fmt.Sprintf("the provider ended the answer with %q", x.route.secrets.word(r.Finish))}
}

// record puts an attempt on record.
func (x *exchange) record(f *failure) {
	row := x.row(f)
	x.token.tenant.ledger.charge(row)
	if err := x.token.tenant.log.append(row); err != nil {
		x.g.opts.Log.Error("telemetry was lost", "session", x.token.tenant.session, "err", err)
	}
	x.g.metrics.record(row)
	x.g.opts.Spans.Record(row, x.sent, x.route.wire, x.route.baseURL)
}

// finish records the last attempt and then tells Codex how it ended: what Codex
// has seen ended is in the telemetry, whatever becomes of this process.
func (x *exchange) finish(f *failure) {
	if !x.recorded {
		x.record(f)
	}
	if f != clientGone && x.begin() == nil {
		_ = x.tell(x.terminal(f)) // a client that left needs no answer
	}
	t, log := x.token.tenant, x.g.opts.Log
	x.g.tasks.Go(func() { // Codex waits for the end of the connection, not of the disk
		if err := t.log.sync(); err != nil {
			log.Error("telemetry is not on disk", "session", t.session, "err", err)
		}
	})
}

// begin tells Codex once that its request is under way.
func (x *exchange) begin() error {
	if x.begun {
		return nil
	}
	x.begun = true
	return x.tell(responses.Event{Type: "response.created", Response: x.response("in_progress")})
}

// terminal makes the one event that ends the answer.
func (x *exchange) terminal(f *failure) responses.Event {
	switch {
	case f != nil:
		r := x.response("failed")
		r.Error = &responses.Error{Code: f.code, Message: f.message}
		return responses.Event{Type: "response.failed", Response: r}
	case x.result.Finish == "length":
		r := x.response("incomplete")
		r.IncompleteDetails = &responses.IncompleteDetails{Reason: "max_output_tokens"}
		r.Usage = x.result.Usage
		return responses.Event{Type: "response.incomplete", Response: r}
	}
	r := x.response("completed")
	r.Usage = x.result.Usage
	if x.result.Finish == "pause" {
		r.EndTurn = new(bool) // false: Codex asks for the rest
	}
	return responses.Event{Type: "response.completed", Response: r}
}

func (x *exchange) response(status string) *responses.Response {
	return &responses.Response{ID: "resp_" + x.id, Object: "response", Model: x.request.Model, Status: status, Output: []any{}}
}

// emit sends one event to Codex.
func (x *exchange) emit(e responses.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode %s: %w", e.Type, err)
	}
	return x.send(e.Type, data)
}

// tell is emit for an event that Codex shall see at once.
func (x *exchange) tell(e responses.Event) error {
	if err := x.emit(e); err != nil {
		return err
	}
	return x.flush()
}

// send sends the data of one event to Codex.
func (x *exchange) send(name string, data []byte) error {
	x.answered = x.answered || !notice(name)
	if err := sse.Write(x.w, name, data); err != nil {
		return fmt.Errorf("%w: %w", errClient, err)
	}
	return nil
}

// flush makes Codex see what was sent.
func (x *exchange) flush() error {
	if err := http.NewResponseController(x.w).Flush(); err != nil {
		return fmt.Errorf("%w: %w", errClient, err)
	}
	return nil
}

// notice reports whether an event tells how the answer goes and is no part of
// it.
func notice(event string) bool {
	switch event {
	case "response.created", "response.in_progress", "response.completed", "response.incomplete", "response.failed":
		return true
	}
	return false
}
