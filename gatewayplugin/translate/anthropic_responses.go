package translate

import (
	"encoding/json"
	"fmt"
	"slices"

	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/anthropic"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
)

// AnthropicAnswer turns the events of one Anthropic Messages stream into those
// of a Responses stream. It is used by one goroutine.
type AnthropicAnswer struct {
	origin Origin
	items  items
	result Result
	stop   string          // the provider's reason to end
	usage  anthropic.Usage // so far
	block  anthropic.Block // the thinking block that is open; Type "": none
}

// NewAnthropicAnswer begins an answer of origin. id is unique to it; tools are
// those of the request.
func NewAnthropicAnswer(id string, origin Origin, tools *Tools, emit Emit) *AnthropicAnswer {
	return &AnthropicAnswer{origin: origin, items: items{id: id, tools: tools, emit: emit}}
}

// Take takes the data of one event. done tells that the provider has said
// that nothing follows. An error is one of emit, or says that the data is no
// event; the answer is then broken.
func (a *AnthropicAnswer) Take(data []byte) (done bool, err error) {
	if string(data) == "[DONE]" {
		return true, nil
	}
	var e anthropic.Event
	if err := jsonv1.Unmarshal(data, &e); err != nil {
		return false, fmt.Errorf("read an event of the provider's stream: %w", err)
	}
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			a.result.Model = e.Message.Model
			a.start(e.Message.Usage)
		}
	case "content_block_start":
		if e.Block != nil && a.stop == "" {
			return false, a.begin(e.Index, e.Block)
		}
	case "content_block_delta":
		if a.stop == "" {
			return false, a.delta(e.Index, &e.Delta)
		}
	case "content_block_stop":
		return false, a.endThinking()
	case "message_delta":
		if a.stop == "" {
			a.stop = e.Delta.StopReason
		}
		a.count(e.Usage)
	case "message_stop":
		return true, nil
	case "error", "":
		a.result.Error = append(json.RawMessage(nil), data...)
		if len(e.Error) > 0 && string(e.Error) != "null" {
			a.result.Error = e.Error
		}
		return true, nil
	}
	return false, nil
}

// Finished reports whether the provider has named a reason to end.
func (a *AnthropicAnswer) Finished() bool { return a.stop != "" }

// start notes what the input was. The output of this event is no count of the
// answer.
func (a *AnthropicAnswer) start(u *anthropic.Usage) {
	if u != nil {
		input := *u
		input.OutputTokens = nil
		a.count(&input)
	}
}

// count takes over counts. They are sums since the beginning; providers of the
// wire differ in which event has the real number and which has 0.
func (a *AnthropicAnswer) count(u *anthropic.Usage) {
	if u == nil {
		return
	}
	larger := func(have **uint64, got *uint64) {
		if got != nil && (*have == nil || *got > **have) {
			*have = got
		}
	}
	larger(&a.usage.InputTokens, u.InputTokens)
	larger(&a.usage.CacheCreationTokens, u.CacheCreationTokens)
	larger(&a.usage.CacheReadTokens, u.CacheReadTokens)
	larger(&a.usage.OutputTokens, u.OutputTokens)
	a.result.SetUsage(chatUsage(&a.usage))
}

// chatUsage counts as OpenAI does: what the cache gave is part of the input.
func chatUsage(u *anthropic.Usage) *chat.Usage {
	out := &chat.Usage{CompletionTokens: u.OutputTokens}
	if u.InputTokens != nil {
		sum := *u.InputTokens
		for _, cached := range []*uint64{u.CacheReadTokens, u.CacheCreationTokens} {
			if cached != nil {
				sum += *cached
			}
		}
		out.PromptTokens = &sum
	}
	if u.CacheReadTokens != nil || u.CacheCreationTokens != nil {
		out.PromptTokensDetails = &chat.PromptDetails{CachedTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheCreationTokens}
	}
	return out
}

// begin begins a block. Blocks of other types are a provider's own affair.
func (a *AnthropicAnswer) begin(index int, b *anthropic.Block) error {
	if err := a.endThinking(); err != nil {
		return err
	}
	switch b.Type {
	case "text":
		return a.items.say(b.Text)
	case "thinking", "redacted_thinking":
		return a.beginThinking(b)
	case "tool_use":
		p, err := a.items.begin(index)
		if err != nil {
			return err
		}
		p.id, p.name = b.ID, b.Name
		if len(b.Input) > 0 && string(b.Input) != "{}" && string(b.Input) != "null" {
			p.arguments.Write(b.Input) // some send it whole
		}
		return a.items.grow(len(b.ID) + len(b.Name) + len(b.Input))
	}
	return nil
}

func (a *AnthropicAnswer) delta(index int, d *anthropic.Delta) error {
	switch d.Type {
	case "text_delta":
		if err := a.endThinking(); err != nil {
			return err
		}
		return a.items.say(d.Text)
	case "thinking_delta":
		return a.think(d.Thinking)
	case "signature_delta":
		a.block.Signature += d.Signature
		return a.items.grow(len(d.Signature))
	case "input_json_delta":
		for _, p := range slices.Backward(a.items.calls) {
			if p.index == index {
				p.arguments.WriteString(d.PartialJSON)
				break
			}
		}
		return a.items.grow(len(d.PartialJSON))
	}
	return nil
}

// beginThinking begins an item of its own for each block, since each has its
// own seal.
func (a *AnthropicAnswer) beginThinking(b *anthropic.Block) error {
	if err := a.items.close(); err != nil {
		return err
	}
	if err := a.items.enter("reasoning"); err != nil {
		return err
	}
	a.block = anthropic.Block{Type: b.Type, Signature: b.Signature, Data: b.Data}
	if err := a.items.grow(len(b.Signature) + len(b.Data)); err != nil {
		return err
	}
	if b.Type == "thinking" && b.Thinking != nil {
		return a.items.think(*b.Thinking)
	}
	return nil
}

func (a *AnthropicAnswer) think(piece string) error {
	if a.block.Type == "" {
		if err := a.beginThinking(&anthropic.Block{Type: "thinking"}); err != nil {
			return err
		}
	}
	return a.items.think(piece)
}

// endThinking ends the open thinking block, with what the provider wants back
// of it in the state that Codex keeps.
func (a *AnthropicAnswer) endThinking() error {
	if a.block.Type == "" {
		return nil
	}
	block := a.block
	a.block = anthropic.Block{}
	if block.Type == "thinking" {
		thought := a.items.body.String()
		block.Thinking = &thought
	}
	var err error
	if a.items.state, err = a.origin.seal(a.items.id, kindThinking, block); err != nil {
		return err
	}
	return a.items.close()
}

// SoFar returns what is known of the answer; nothing is emitted.
func (a *AnthropicAnswer) SoFar() Result {
	r := a.result
	r.Bytes = a.items.size
	if r.Error == nil {
		r.Finish = finishWord(a.stop)
	}
	return r
}

// Finish ends the answer: with a reason to stop, the open item and all calls
// are completed. It returns how the answer ended, also with an error of emit.
func (a *AnthropicAnswer) Finish() (Result, error) {
	r := a.SoFar()
	if !r.Whole() {
		return r, nil
	}
	if err := a.endThinking(); err != nil {
		return r, err
	}
	return r, a.items.finish()
}
