package gatewayplugin

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/sse"
)

// maxErrorBody bounds what is read of a provider's error, in bytes.
const maxErrorBody = 64 << 10

// newUpstreamClient makes the client for all providers: no proxy from the
// environment, which could read the keys, and no redirect followed, which
// could carry them elsewhere.
func newUpstreamClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   15 * time.Second,
			ForceAttemptHTTP2:     true,
			WriteBufferSize:       64 << 10, // most requests leave in one piece
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       90 * time.Second,
			DisableCompression:    true, // a compressed stream arrives in lumps
			ResponseHeaderTimeout: upstreamSilence,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// upstreamEvent is one event of the provider's stream, or what ended it.
type upstreamEvent struct {
	event   sse.Event
	failure *failure // nil: event is set
	status  int
}

// lastBytes is how long the end of a stream may take after its last event.
// A connection that was read to its end serves the next request.
const lastBytes = time.Second

// waitingEvents is how many events of the provider may wait for their turn:
// those that are there are handed to Codex together.
const waitingEvents = 16

// upstream reads one provider's answer into a channel.
type upstream struct {
	client  *http.Client
	secrets secretValues
	events  chan upstreamEvent

	ctx    context.Context // of the attempt; ends when its client or tenant leaves
	cancel context.CancelFunc
	free   chan struct{} // closed when nobody takes events any more
}

func newUpstream(x *exchange) *upstream {
	ctx, cancel := context.WithCancel(x.token.tenant.life)
	return &upstream{
		client: x.g.client, secrets: x.route.secrets, events: make(chan upstreamEvent, waitingEvents),
		ctx: ctx, cancel: cancel, free: make(chan struct{}),
	}
}

// pump sends the request and its answer's events, and closes the channel at
// the end of the stream. It ends with the attempt's context at the latest.
func (u *upstream) pump(req *http.Request) {
	defer u.cancel()
	defer close(u.events)
	resp, err := u.client.Do(req)
	if err != nil {
		u.send(upstreamEvent{failure: &failure{kind: "transport", code: codeRetry, message: "the provider can't be reached: " + u.secrets.clean(err.Error())}})
		return
	}
	defer resp.Body.Close()
	if f := u.refusal(resp); f != nil {
		u.send(upstreamEvent{failure: f, status: resp.StatusCode})
		return
	}
	reader := sse.NewReader(resp.Body)
	for {
		e, err := reader.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			f := &failure{kind: "transport", code: codeRetry, outcome: "truncated", message: "the provider's stream broke off: " + u.secrets.clean(err.Error())}
			u.send(upstreamEvent{failure: f, status: resp.StatusCode})
			return
		}
		if !u.send(upstreamEvent{event: e, status: resp.StatusCode}) {
			return
		}
	}
}

func (u *upstream) send(e upstreamEvent) bool {
	select {
	case u.events <- e:
		return true
	case <-u.free:
		return true // on to the end of the stream
	case <-u.ctx.Done():
		return false
	}
}

// release lets the pump read to the end of the stream by itself, for a moment.
func (u *upstream) release() {
	close(u.free)
	time.AfterFunc(lastBytes, u.cancel)
}

// refusal returns why an answer is no stream, or nil when it is one.
func (u *upstream) refusal(resp *http.Response) *failure {
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return &failure{kind: "bad_request", code: codeStop, message: fmt.Sprintf("the provider answered with a redirect (HTTP %d), which is not followed; correct base_url", resp.StatusCode)}
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind != "application/json" && kind != "text/html" {
		return nil // some send a stream as text/plain, or without a type
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && len(body) == 0 {
		return &failure{kind: "transport", code: codeRetry, message: fmt.Sprintf("the provider answered HTTP %d and broke off: %s", resp.StatusCode, u.secrets.clean(err.Error()))}
	}
	if resp.StatusCode == http.StatusOK {
		if kind == "text/html" {
			body = nil // a page of some proxy is no message
		}
		f := classify(0, resp.Header, body, u.secrets)
		f.message = "the provider answered with " + kind + " instead of a stream: " + f.message
		return f
	}
	return classify(resp.StatusCode, resp.Header, body, u.secrets)
}
