package translate

import (
	"bytes"
	"encoding/json"
	"fmt"

	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// Send hands the data of one event on to Codex.
type Send func(event string, data []byte) error

// ResponsesAnswer hands on a Responses stream as it is, but for what Codex would
// drop or misread: items get the members that it needs, calls the names that
// it knows. Calls, and what comes after the first of them, wait until the
// provider has completed the answer. The provider's terminal event is kept
// back: the gateway sends its own. It is used by one goroutine.
type ResponsesAnswer struct {
	id     string
	origin Origin
	tools  *Tools
	send   Send
	result Result

	items   int            // that were ended
	callIDs map[string]int // call id -> output index of the item that has it
	holding bool
	held    []heldEvent
	size    int // bytes of all events that came
}

type heldEvent struct {
	name string
	data []byte
}

// NewResponsesAnswer begins an answer of origin. id is unique to it; tools are
// those of the request.
func NewResponsesAnswer(id string, origin Origin, tools *Tools, send Send) *ResponsesAnswer {
	return &ResponsesAnswer{id: id, origin: origin, tools: tools, send: send, callIDs: map[string]int{}}
}

// passEvent is what the gateway must know of an event.
type passEvent struct {
	Type        string          `json:"type"`
	OutputIndex *int            `json:"output_index"`
	Item        json.RawMessage `json:"item"`
	Delta       json.RawMessage `json:"delta"`
	Error       json.RawMessage `json:"error"`
	Response    *passResponse   `json:"response"`
}

type passResponse struct {
	ID                string                       `json:"id"`
	Error             json.RawMessage              `json:"error"`
	Model             string                       `json:"model"`
	Provider          string                       `json:"provider"` // OpenRouter
	Output            []json.RawMessage            `json:"output"`
	IncompleteDetails *responses.IncompleteDetails `json:"incomplete_details"`
	Usage             json.RawMessage              `json:"usage"`
	Metadata          *chat.Metadata               `json:"openrouter_metadata"`
}

// passUsage is the usage with what the provider left out as nil.
type passUsage struct {
	InputTokens        *uint64             `json:"input_tokens"`
	InputTokensDetails *chat.PromptDetails `json:"input_tokens_details"`
	OutputTokens       *uint64             `json:"output_tokens"`
	OutputDetails      *chat.OutputDetails `json:"output_tokens_details"`
	Cost               json.RawMessage     `json:"cost"`
}

// Take takes the data of one event. done tells that nothing follows. An error
// is one of send, or says that the data is no event; the answer is then broken.
func (a *ResponsesAnswer) Take(data []byte) (done bool, err error) {
	if string(data) == "[DONE]" {
		return true, nil
	}
	if a.size += len(data); a.size > maxAnswer {
		return false, fmt.Errorf("the provider's answer has more than %d bytes", maxAnswer)
	}
	var p passEvent
	if err := jsonv1.Unmarshal(data, &p); err != nil {
		return false, fmt.Errorf("read an event of the provider's stream: %w", err)
	}
	if p.Response != nil {
		a.note(p.Response)
	}
	switch p.Type {
	case "response.created", "response.in_progress", "response.queued":
		return false, nil // the gateway has sent its own
	case "response.completed", "response.done":
		a.result.Finish = "stop"
		return true, a.unsent(p.Response)
	case "response.incomplete":
		a.result.Finish = "length"
		if d := p.Response; d != nil && d.IncompleteDetails != nil && d.IncompleteDetails.Reason == "content_filter" {
			a.result.Finish = "content_filter"
		}
		return true, nil
	case "response.failed":
		a.result.Error = json.RawMessage(`{}`)
		if p.Response != nil && !missing(p.Response.Error) {
			a.result.Error = p.Response.Error
		}
		return true, nil
	case "error", "":
		a.result.Error = append(json.RawMessage(nil), data...)
		if !missing(p.Error) {
			a.result.Error = p.Error
		}
		return true, nil
	case "response.output_item.added", "response.output_item.done":
		return false, a.item(&p, data)
	}
	a.result.Bytes += len(responses.String(p.Delta))
	if a.holding {
		return false, nil // what is whole comes with the items' ends
	}
	return false, a.send(p.Type, oneLine(data))
}

// oneLine removes the line breaks between JSON tokens; strings have none.
func oneLine(data []byte) []byte {
	if !bytes.ContainsAny(data, "\r\n") {
		return data
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\n"), nil), []byte("\r"), nil)
}

func (a *ResponsesAnswer) note(r *passResponse) {
	for _, one := range []struct {
		into *string
		from string
	}{{&a.result.Model, r.Model}, {&a.result.Generation, r.ID}, {&a.result.Provider, r.Provider}} {
		if one.from != "" {
			*one.into = one.from
		}
	}
	a.result.noteRouter(r.Metadata)
	var u passUsage
	if !missing(r.Usage) && json.Unmarshal(r.Usage, &u) == nil {
		a.result.SetUsage(&chat.Usage{
			PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens,
			PromptTokensDetails: u.InputTokensDetails, CompletionDetails: u.OutputDetails, Cost: u.Cost,
		})
	}
}

// item hands on the beginning or the end of an item.
func (a *ResponsesAnswer) item(p *passEvent, data []byte) error {
	index := a.items
	if p.OutputIndex != nil {
		index = *p.OutputIndex
	}
	item, kind, changed := a.repair(p.Item, index)
	if changed {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(data, &members); err != nil {
			return fmt.Errorf("read an item of the provider's stream: %w", err)
		}
		members["item"] = item
		var err error
		if data, err = encode(members); err != nil {
			return err
		}
	}
	if p.Type == "response.output_item.done" {
		a.items++
	}
	return a.pass(p.Type, kind, oneLine(data))
}

// pass hands an item's event on, or keeps it until the answer is complete.
func (a *ResponsesAnswer) pass(event, kind string, data []byte) error {
	a.holding = a.holding || isCall(kind)
	if !a.holding {
		return a.send(event, data)
	}
	a.held = append(a.held, heldEvent{event, bytes.Clone(data)})
	return nil
}

// isCall reports whether Codex acts on an item of the kind.
func isCall(kind string) bool {
	switch kind {
	case "function_call", "custom_tool_call", "local_shell_call", "tool_search_call":
		return true
	}
	return false
}

// unsent hands on the items of a provider that only lists them at the end.
func (a *ResponsesAnswer) unsent(r *passResponse) error {
	if r == nil || a.items > 0 {
		return nil
	}
	for i, raw := range r.Output {
		item, kind, _ := a.repair(raw, i)
		data, err := encode(responses.Event{Type: "response.output_item.done", OutputIndex: &i, Item: item})
		if err != nil {
			return err
		}
		a.items++
		if err := a.pass("response.output_item.done", kind, data); err != nil {
			return err
		}
	}
	return nil
}

// Finished is never true: the usage comes with the end.
func (a *ResponsesAnswer) Finished() bool { return false }

// SoFar returns what is known of the answer; nothing is handed on.
func (a *ResponsesAnswer) SoFar() Result { return a.result }

// Finish ends the answer: when it is whole, the calls are handed on. It returns
// how the answer ended, also with an error of send.
func (a *ResponsesAnswer) Finish() (Result, error) {
	if !a.result.Whole() {
		return a.result, nil
	}
	for _, e := range a.held {
		if err := a.send(e.name, e.data); err != nil {
			return a.result, err
		}
	}
	return a.result, nil
}
