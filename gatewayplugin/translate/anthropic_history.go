package translate

import (
	"encoding/json"
	"strings"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/anthropic"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// anthropicHistory regroups the items of a conversation. The Messages wire
// wants the user and the assistant to take turns, and the results of all calls
// of an assistant's message at the beginning of the user's next.
type anthropicHistory struct {
	quirks  *Quirks
	tools   *Tools
	origin  Origin
	pairs   *pairing
	dropped []string

	out     []anthropic.Message
	batch   []anthropic.Block // the assistant's message that is being put together
	results []anthropic.Block // of its calls
	answer  string            // that the last thinking of the batch is a part of
}

// messages returns the leading instructions and the messages; the first and
// the last message are the user's.
func (h *anthropicHistory) messages(in *responses.Request) ([]string, []anthropic.Message) {
	h.pairs = newPairing(in.Input)
	texts, rest := leading(in)
	for i := rest; i < len(in.Input); i++ {
		h.item(i)
	}
	h.flush()
	if n := len(h.out); n == 0 || h.out[n-1].Role == "assistant" {
		h.add("user", textBlock(developerNote("Go on.")))
	}
	return texts, h.out
}

func (h *anthropicHistory) item(i int) {
	item := h.pairs.items[i]
	switch {
	case isMessage(item) && item.Role == "assistant":
		h.batch = appendText(h.batch, text(responses.Parts(item.Content)))
	case item.Type == "reasoning":
		h.reasoning(item)
	case item.Type == "function_call":
		h.call(item, validArguments(responses.String(item.Arguments)))
	case item.Type == "custom_tool_call":
		h.call(item, customArguments(item.Input))
	case isOutput(item):
		h.flush()
		if !h.pairs.used[i] {
			h.add("user", textBlock(strayOutput(item)))
		}
	case isSystem(item):
		h.flush()
		h.add("user", textBlock(developerNote(text(responses.Parts(item.Content)))))
	case isMessage(item):
		h.flush()
		h.add("user", h.content(responses.Parts(item.Content))...)
	default:
		h.dropped = append(h.dropped, "input."+item.Type)
	}
}

// kindThinking names the state that is a thinking block of this wire.
const kindThinking = "anthropic_thinking"

// reasoning adds what this very model has thought, as the provider sealed it.
func (h *anthropicHistory) reasoning(item responses.Item) {
	state, ok := h.origin.unseal(item.EncryptedContent, kindThinking)
	var sealed anthropic.Block
	if !ok || json.Unmarshal(state.Data, &sealed) != nil || !isThinking(sealed) {
		if item.EncryptedContent != "" {
			h.dropped = append(h.dropped, "reasoning.state")
		}
		return
	}
	if state.Answer != h.answer {
		h.trimThinking() // of an answer that broke off: nothing came of it
	}
	h.answer = state.Answer
	h.batch = append(h.batch, anthropic.Block{
		Type: sealed.Type, Thinking: sealed.Thinking, Signature: sealed.Signature, Data: sealed.Data,
	})
}

// trimThinking removes thinking at the batch's end, which the wire refuses.
func (h *anthropicHistory) trimThinking() {
	for n := len(h.batch); n > 0 && isThinking(h.batch[n-1]); n-- {
		h.batch = h.batch[:n-1]
	}
}

// call adds a call to the batch, and its output to what follows the batch.
func (h *anthropicHistory) call(item responses.Item, arguments string) {
	id := h.pairs.uniqueID(legal(item.CallID))
	h.batch = append(h.batch, anthropic.Block{
		Type: "tool_use", ID: id, Name: h.tools.wire(item.Namespace, item.Name), Input: json.RawMessage(arguments),
	})
	result := anthropic.Block{Type: "tool_result", ToolUseID: id}
	if parts, ok := h.pairs.take(item.CallID); ok {
		result.Content = h.content(parts)
	} else {
		result.Content, result.IsError = []anthropic.Block{textBlock(interruptedOutput)}, true
	}
	h.results = append(h.results, result)
}

// flush ends the assistant's message and begins the user's with the results.
func (h *anthropicHistory) flush() {
	h.trimThinking()
	if len(h.batch) > 0 && len(h.out) == 0 {
		h.add("user", textBlock(developerNote("The conversation's beginning is left out."))) // the wire wants the user first
	}
	h.add("assistant", h.batch...)
	h.add("user", h.results...)
	h.batch, h.results, h.answer = nil, nil, ""
}

// add adds blocks to the last message when that has the role, else a message.
func (h *anthropicHistory) add(role string, blocks ...anthropic.Block) {
	if len(blocks) == 0 {
		return
	}
	if n := len(h.out); n > 0 && h.out[n-1].Role == role {
		h.out[n-1].Content = append(h.out[n-1].Content, blocks...)
		return
	}
	h.out = append(h.out, anthropic.Message{Role: role, Content: blocks})
}

// content turns parts into blocks: texts that follow each other are one block,
// images stay where they are.
func (h *anthropicHistory) content(parts []responses.Part) []anthropic.Block {
	var out []anthropic.Block
	var run []responses.Part // of text
	flush := func() {
		out = appendText(out, text(run))
		run = nil
	}
	for _, p := range parts {
		if p.Type != "input_image" {
			run = append(run, p)
			continue
		}
		if h.quirks.NoImages {
			run = append(run, responses.Part{Type: "input_text", Text: imageNote})
			continue
		}
		source := imageSource(p.ImageURL)
		if source == nil {
			run = append(run, responses.Part{Type: "input_text", Text: "[an image was left out: its form can't be shown on this route]"})
			continue
		}
		flush()
		out = append(out, anthropic.Block{Type: "image", Source: source})
	}
	flush()
	return out
}

func textBlock(t string) anthropic.Block { return anthropic.Block{Type: "text", Text: t} }

// appendText adds a text block; the wire refuses one of white space alone.
func appendText(blocks []anthropic.Block, t string) []anthropic.Block {
	if strings.TrimSpace(t) == "" {
		return blocks
	}
	return append(blocks, textBlock(t))
}

// imageSource turns an image's URL into what the wire takes, or nil.
func imageSource(url string) *anthropic.Source {
	if strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://") {
		return &anthropic.Source{Type: "url", URL: url}
	}
	rest, isData := strings.CutPrefix(url, "data:")
	header, data, ok := strings.Cut(rest, ",")
	kind, base64 := strings.CutSuffix(header, ";base64")
	if !isData || !ok || !base64 || data == "" {
		return nil
	}
	switch kind, _, _ = strings.Cut(strings.ToLower(kind), ";"); kind {
	case "image/jpg":
		kind = "image/jpeg"
	case "image/jpeg", "image/png", "image/gif", "image/webp":
	default:
		return nil
	}
	return &anthropic.Source{Type: "base64", MediaType: kind, Data: data}
}
