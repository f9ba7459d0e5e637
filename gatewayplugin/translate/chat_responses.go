package translate

import (
	"encoding/json"
	"fmt"

	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// ChatAnswer turns the chunks of one Chat Completions stream into events of a
// Responses stream. It is used by one goroutine.
type ChatAnswer struct {
	origin  Origin
	items   items
	result  Result
	finish  string // the provider's reason to end
	details reasoningDetails
}

// NewChatAnswer begins an answer of origin. id is unique to it; tools are those
// of the request.
func NewChatAnswer(id string, origin Origin, tools *Tools, emit Emit) *ChatAnswer {
	a := &ChatAnswer{origin: origin, items: items{id: id, tools: tools, emit: emit}}
	a.items.seal = a.seal
	return a
}

// Take takes the data of one event. done tells that the provider has said
// that nothing follows. An error is one of emit, or says that the data is no
// chunk; the answer is then broken.
func (a *ChatAnswer) Take(data []byte) (done bool, err error) {
	if string(data) == "[DONE]" {
		return true, nil
	}
	var c chat.Chunk
	if err := jsonv1.Unmarshal(data, &c); err != nil {
		return false, fmt.Errorf("read a chunk of the provider's stream: %w", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		a.result.Error = c.Error
		return true, nil
	}
	if c.Object == "error" {
		a.result.Error = append(json.RawMessage(nil), data...)
		return true, nil
	}
	a.note(&c)
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		if err := a.delta(choice.Delta); err != nil {
			return false, err
		}
		if choice.FinishReason != "" && a.finish == "" {
			a.finish = choice.FinishReason
		}
	}
	return false, nil
}

// Finished reports whether the provider has named a reason to end; only the
// usage may still follow.
func (a *ChatAnswer) Finished() bool { return a.finish != "" }

func (a *ChatAnswer) note(c *chat.Chunk) {
	if c.Model != "" {
		a.result.Model = c.Model
	}
	if c.Provider != "" {
		a.result.Provider = c.Provider
	}
	if c.ID != "" {
		a.result.Generation = c.ID
	}
	var u chat.Usage
	if len(c.Usage) > 0 && string(c.Usage) != "null" && json.Unmarshal(c.Usage, &u) == nil {
		a.result.SetUsage(&u)
	}
	a.result.noteRouter(c.Metadata)
}

func (a *ChatAnswer) delta(d chat.Delta) error {
	if a.finish != "" {
		return nil // some providers repeat the last chunk
	}
	thought := d.ReasoningContent
	if thought == "" {
		thought = d.Reasoning
	}
	if err := a.items.think(thought); err != nil {
		return err
	}
	if err := a.items.say(string(d.Content) + d.Refusal); err != nil {
		return err
	}
	if err := a.details.add(d.ReasoningDetails); err != nil {
		return err
	}
	if err := a.items.grow(len(d.ReasoningDetails)); err != nil {
		return err
	}
	for _, c := range d.ToolCalls {
		if err := a.call(c); err != nil {
			return err
		}
	}
	return nil
}

// call takes a piece of a tool call. Most providers number the calls; some
// send each whole, all with number 0.
func (a *ChatAnswer) call(d chat.CallDelta) error {
	p := a.pending(d)
	if p == nil {
		index := len(a.items.calls)
		if d.Index != nil {
			index = *d.Index
		}
		var err error
		if p, err = a.items.begin(index); err != nil {
			return err
		}
	}
	if p.id == "" {
		p.id = d.ID
	}
	if p.name == "" {
		p.name = d.Function.Name
	}
	if len(d.ExtraContent) > 0 && string(d.ExtraContent) != "null" {
		p.extra = d.ExtraContent
	}
	piece := responses.String(d.Function.Arguments)
	p.arguments.WriteString(piece)
	return a.items.grow(len(piece) + len(d.Function.Name) + len(d.ID) + len(d.ExtraContent))
}

// pending finds the call that a piece belongs to; nil: it begins one.
func (a *ChatAnswer) pending(d chat.CallDelta) *pendingCall {
	for i := len(a.items.calls) - 1; i >= 0; i-- {
		p := a.items.calls[i]
		if d.Index != nil && *d.Index != p.index {
			continue
		}
		if d.ID != "" && p.id != "" && d.ID != p.id {
			if d.Index == nil {
				continue
			}
			return nil // another call under the same number
		}
		return p
	}
	return nil
}

// SoFar returns what is known of the answer; nothing is emitted.
func (a *ChatAnswer) SoFar() Result {
	r := a.result
	r.Bytes = a.items.size
	if r.Error == nil {
		r.Finish = finishWord(a.finish)
	}
	return r
}

// Finish ends the answer: with a reason to stop, the open item and all calls
// are completed. It returns how the answer ended, also with an error of emit.
func (a *ChatAnswer) Finish() (Result, error) {
	r := a.SoFar()
	if !r.Whole() {
		return r, nil
	}
	return r, a.items.finish()
}
