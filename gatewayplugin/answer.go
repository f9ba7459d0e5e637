package gatewayplugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/anthropic"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
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

// prepare makes the provider's request, and what reads its answer.
func (x *exchange) prepare(ctx context.Context) (*http.Request, answer, error) {
	model := x.route.upstreamModel(x.request.Model)
	switch x.route.wire {
	case wireResponses:
		body, err := passBody(x.body, model)
		if err != nil {
			return nil, nil, err
		}
		req, err := x.upstreamRequest(ctx, "/responses", body)
		return req, &passAnswer{send: x.send}, err
	case wireAnthropic:
		origin := translate.Origin{Route: x.route.id, Model: model}
		call, err := translate.AnthropicRequest(x.request, origin, &x.route.options.Quirks)
		if err != nil {
			return nil, nil, err
		}
		x.g.metrics.drop(x.route.id, call.Dropped)
		req, err := x.upstreamRequest(ctx, "/messages", call.Body)
		return req, translate.NewAnthropicAnswer(x.id, origin, call.Tools, x.emit), err
	}
	call, err := translate.ChatRequest(x.request, model, &x.route.options.Quirks)
	if err != nil {
		return nil, nil, err
	}
	x.g.metrics.drop(x.route.id, call.Dropped)
	req, err := x.upstreamRequest(ctx, "/chat/completions", call.Body)
	return req, translate.NewChatAnswer(x.id, call.Tools, x.emit), err
}

func (x *exchange) upstreamRequest(ctx context.Context, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.route.baseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the provider's request: %w", err)
	}
	if x.route.wire == wireAnthropic {
		req.Header.Set("Anthropic-Version", anthropic.Version)
	}
	for name, value := range x.route.options.Headers {
		req.Header.Set(name, value)
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

// passBody makes the body for a provider that speaks Responses itself: the
// model's name is the provider's, and client_metadata, which names this
// installation, stays here.
func passBody(body []byte, model string) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	name, err := json.Marshal(model)
	if err != nil {
		return nil, fmt.Errorf("encode the model's name: %w", err)
	}
	members["model"] = name
	delete(members, "client_metadata")
	return json.Marshal(members)
}

// passAnswer hands on a Responses stream as it is. The provider's terminal
// event is kept back: the gateway sends its own, in the form that Codex
// understands.
type passAnswer struct {
	send   func(name string, data []byte) error
	result translate.Result
}

// passEvent is what the gateway must know of an event.
type passEvent struct {
	Type     string          `json:"type"`
	Error    json.RawMessage `json:"error"`
	Code     json.RawMessage `json:"code"`
	Message  string          `json:"message"`
	Delta    json.RawMessage `json:"delta"`
	Response *struct {
		Error             json.RawMessage              `json:"error"`
		Model             string                       `json:"model"`
		IncompleteDetails *responses.IncompleteDetails `json:"incomplete_details"`
		Usage             *passUsage                   `json:"usage"`
	} `json:"response"`
}

// passUsage is the usage with what the provider left out as nil.
type passUsage struct {
	InputTokens        *uint64             `json:"input_tokens"`
	InputTokensDetails *chat.PromptDetails `json:"input_tokens_details"`
	OutputTokens       *uint64             `json:"output_tokens"`
	OutputDetails      *chat.OutputDetails `json:"output_tokens_details"`
	Cost               json.RawMessage     `json:"cost"`
}

// Take takes the data of one event.
func (a *passAnswer) Take(data []byte) (bool, error) {
	if string(data) == "[DONE]" {
		return true, nil
	}
	var p passEvent
	if err := json.Unmarshal(data, &p); err != nil {
		return false, fmt.Errorf("read an event of the provider's stream: %w", err)
	}
	if p.Response != nil && p.Response.Model != "" {
		a.result.Model = p.Response.Model
	}
	switch p.Type {
	case "response.created", "response.in_progress", "response.queued":
		return false, nil // the gateway has sent its own
	case "response.completed":
		a.result.Finish = "stop"
	case "response.incomplete":
		a.result.Finish = "length"
		if d := p.Response; d != nil && d.IncompleteDetails != nil && d.IncompleteDetails.Reason == "content_filter" {
			a.result.Finish = "content_filter"
		}
	case "response.failed":
		a.result.Error = json.RawMessage(`{}`)
		if p.Response != nil && len(p.Response.Error) > 0 {
			a.result.Error = p.Response.Error
		}
	case "error", "":
		a.result.Error = data
		if len(p.Error) > 0 && string(p.Error) != "null" {
			a.result.Error = p.Error
		}
	default:
		a.result.Bytes += len(responses.String(p.Delta))
		return false, a.send(p.Type, bytes.ReplaceAll(data, []byte("\n"), nil))
	}
	a.usage(p)
	return true, nil
}

func (a *passAnswer) usage(p passEvent) {
	if p.Response == nil || p.Response.Usage == nil {
		return
	}
	u := p.Response.Usage
	a.result.SetUsage(&chat.Usage{
		PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens,
		PromptTokensDetails: u.InputTokensDetails, CompletionDetails: u.OutputDetails, Cost: u.Cost,
	})
}

// Finished is never true: the usage comes with the end.
func (a *passAnswer) Finished() bool { return false }

// SoFar returns what is known of the answer.
func (a *passAnswer) SoFar() translate.Result { return a.result }

// Finish has nothing left to hand on.
func (a *passAnswer) Finish() (translate.Result, error) { return a.result, nil }
