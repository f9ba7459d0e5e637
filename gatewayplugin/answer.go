package gatewayplugin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/anthropic"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

// answer takes the events of one upstream stream and hands on what Codex
// shall see, all but the terminal event.
type answer interface {
	// Take takes the data of one event. done tells that nothing follows.
	Take(data []byte) (done bool, err error)
	// Finished reports whether the answer is whole but for its usage.
	Finished() bool
	// SoFar returns what is known of the answer, and hands on nothing.
	SoFar() translate.Result
	// Finish hands on what is left of an answer that is whole.
	Finish() (translate.Result, error)
}

// translate makes the body of the provider's request, once for all attempts.
func (x *exchange) translate() (*translate.Call, error) {
	quirks := &x.route.options.Quirks
	origin := x.origin()
	var call *translate.Call
	var err error
	switch x.route.wire {
	case wireResponses:
		return translate.ResponsesRequest(x.request, x.body, origin, quirks, x.route.options.Body)
	case wireAnthropic:
		call, err = translate.AnthropicRequest(x.request, origin, quirks)
	default:
		call, err = translate.ChatRequest(x.request, origin, quirks)
	}
	if err != nil {
		return nil, err
	}
	call.Body, err = translate.Adjust(call.Body, quirks.Omit, x.route.options.Body)
	return call, err
}

func (x *exchange) origin() translate.Origin {
	return translate.Origin{Route: x.route.id, Model: x.route.upstreamModel(x.request.Model)}
}

// answer begins to read the answer to a call.
func (x *exchange) answer(call *translate.Call) answer {
	switch x.route.wire {
	case wireResponses:
		return translate.NewResponsesAnswer(x.id, x.origin(), call.Tools, x.send)
	case wireAnthropic:
		return translate.NewAnthropicAnswer(x.id, x.origin(), call.Tools, x.emit)
	}
	return translate.NewChatAnswer(x.id, x.origin(), call.Tools, x.emit)
}

// paths are where the wires' requests go, below the base URL.
var paths = map[string]string{wireResponses: "/responses", wireChat: "/chat/completions", wireAnthropic: "/messages"} // wire -> path

func (x *exchange) upstreamRequest(ctx context.Context, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.route.baseURL+paths[x.route.wire], bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the provider's request: %w", err)
	}
	if x.route.wire == wireAnthropic {
		req.Header.Set("Anthropic-Version", anthropic.Version)
	}
	for name, value := range x.route.options.Headers {
		req.Header.Set(name, value)
	}
	for name, value := range x.route.secretHeaders {
		req.Header.Set(name, value)
	}
	if name := x.route.options.SessionHeader; name != "" {
		thread, _ := joinIDs(x.client.Header, x.request.ClientMetadata)
		req.Header.Set(name, sessionOf(x.token.agentRef, thread))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	switch {
	case x.route.secret == "":
	case x.route.wire == wireAnthropic:
		req.Header.Set("X-Api-Key", x.route.secret)
	default:
		req.Header.Set("Authorization", "Bearer "+x.route.secret)
	}
	return req, nil
}

// sessionOf names a conversation to a provider that keeps its requests
// together, without telling ids of this machine.
func sessionOf(agent, thread string) string {
	sum := sha256.Sum256([]byte(agent + "\x00" + thread))
	return hex.EncodeToString(sum[:16])
}
