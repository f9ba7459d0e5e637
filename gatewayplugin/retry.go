package gatewayplugin

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

const (
	// defaultRetries is how often a request is sent again, when the route does
	// not say.
	defaultRetries = 2
	// maxRetries bounds what a route may say.
	maxRetries = 10
	// retryWithin is how long after its beginning a request may still be sent
	// again: a provider that fails after minutes fails Codex too.
	retryWithin = 2 * time.Minute
	// maxRetryPause bounds the growing pause between attempts.
	maxRetryPause = 8 * time.Second
)

// again says whether an attempt that failed is followed by another, and after
// which pause. Once Codex has seen a part of the answer it is not: Codex would
// keep both.
func (x *exchange) again(f *failure) (time.Duration, bool) {
	switch {
	case f == nil || f.code != codeRetry && f.code != codeRateLimit:
		return 0, false
	case x.answered, x.attemptNo > uint32(x.route.retries()), time.Since(x.began) > retryWithin:
		return 0, false
	case x.g.life.Err() != nil:
		return 0, false
	case f.wait > 0:
		return f.wait, true
	}
	pause := min(x.g.opts.RetryPause<<(x.attemptNo-1), maxRetryPause)
	return pause + rand.N(pause/4+1), true // those that failed together come back one by one
}

// pause waits between attempts and keeps Codex waiting.
func (x *exchange) pause(ctx context.Context, wait time.Duration) *failure {
	over := time.NewTimer(wait)
	defer over.Stop()
	keepAlive := time.NewTicker(x.g.opts.KeepAlive)
	defer keepAlive.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case <-keepAlive.C:
			if x.tell(responses.Event{Type: "response.in_progress", Response: x.response("in_progress")}) != nil {
				return clientGone
			}
		case <-x.token.tenant.life.Done():
			return x.cancelled()
		case <-ctx.Done():
			return x.cancelled()
		}
	}
}
