package gatewayplugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/sse"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

// answer takes the events of one upstream stream and hands on what Codex
// shall see, all but the terminal event.
type answer interface {
	// take takes one event. done tells that nothing follows.
	take(sse.Event) (done bool, err error)
	// finished reports whether the answer is whole but for its usage.
	finished() bool
	finish() (translate.Result, error)
}

// prepare makes the provider's request, and what reads its answer.
func (x *exchange) prepare(ctx context.Context) (*http.Request, answer, error) {
	model := x.route.upstreamModel(x.request.Model)
	if x.route.driver == driverResponses {
		body, err := passBody(x.body, model)
		if err != nil {
			return nil, nil, err
		}
		req, err := x.upstreamRequest(ctx, "/responses", body)
		return req, &passAnswer{send: x.send}, err
	}
	call, err := translate.ChatRequest(x.request, model, &x.route.options.Quirks)
	if err != nil {
		return nil, nil, err
	}
	x.g.metrics.drop(x.route.id, call.Dropped)
	req, err := x.upstreamRequest(ctx, "/chat/completions", call.Body)
	return req, &chatAnswer{translate.NewChatAnswer(x.id, call.Tools, x.emit)}, err
}

func (x *exchange) upstreamRequest(ctx context.Context, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.route.baseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the provider's request: %w", err)
	}
	for name, value := range x.route.options.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if x.route.secret != "" {
		req.Header.Set("Authorization", "Bearer "+x.route.secret)
	}
	return req, nil
}

// chatAnswer is an answer on the Chat Completions wire.
type chatAnswer struct{ *translate.ChatAnswer }

func (a *chatAnswer) take(e sse.Event) (bool, error)    { return a.Take(e.Data) }
func (a *chatAnswer) finished() bool                    { return a.Finished() }
func (a *chatAnswer) finish() (translate.Result, error) { return a.Finish() }

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

func (a *passAnswer) take(e sse.Event) (bool, error) {
	if string(e.Data) == "[DONE]" {
		return true, nil
	}
	var p passEvent
	if err := json.Unmarshal(e.Data, &p); err != nil {
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
		a.result.Error = e.Data
		if len(p.Error) > 0 && string(p.Error) != "null" {
			a.result.Error = p.Error
		}
	default:
		return false, a.send(p.Type, bytes.ReplaceAll(e.Data, []byte("\n"), nil))
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

func (a *passAnswer) finished() bool                    { return false } // usage comes with the end
func (a *passAnswer) finish() (translate.Result, error) { return a.result, nil }
