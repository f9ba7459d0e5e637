package translate

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// chatHistory regroups the items of a conversation. The Chat wire wants one
// assistant message for a text with its calls, directly followed by one tool
// message for each call; whatever stands between them is moved after them.
type chatHistory struct {
	quirks  *Quirks
	tools   *Tools
	origin  Origin
	pairs   *pairing
	dropped []string

	out     []chat.Message
	batch   *chat.Message // the assistant message that is being put together
	results []chat.Message
	lifted  []chat.Part                // images of the batch's outputs
	extra   map[string]json.RawMessage // call id -> what the provider gave with the call, of the batch
}

func (h *chatHistory) messages(in *responses.Request) []chat.Message {
	h.pairs = newPairing(in.Input)
	texts, rest := leading(in)
	if len(texts) > 0 {
		h.out = append(h.out, chat.Message{Role: "system", Content: strings.Join(texts, "\n\n")})
	}
	for i := rest; i < len(in.Input); i++ {
		h.item(i)
	}
	h.flush()
	return h.out
}

func (h *chatHistory) item(i int) {
	item := h.pairs.items[i]
	switch {
	case isMessage(item) && item.Role == "assistant":
		h.assistantText(text(responses.Parts(item.Content)))
	case item.Type == "reasoning":
		h.reasoning(item)
	case item.Type == "function_call":
		h.call(item, validArguments(responses.String(item.Arguments)))
	case item.Type == "custom_tool_call":
		h.call(item, customArguments(item.Input))
	case isOutput(item):
		h.flush()
		if !h.pairs.used[i] {
			h.user([]responses.Part{{Type: "input_text", Text: strayOutput(item)}})
		}
	case isSystem(item):
		h.flush()
		h.user([]responses.Part{{Type: "input_text", Text: developerNote(text(responses.Parts(item.Content)))}})
	case isMessage(item):
		h.flush()
		h.user(responses.Parts(item.Content))
	default:
		h.dropped = append(h.dropped, "input."+item.Type)
	}
}

// open returns the assistant message under construction.
func (h *chatHistory) open() *chat.Message {
	if h.batch == nil {
		h.batch = &chat.Message{Role: "assistant"}
	}
	return h.batch
}

func (h *chatHistory) assistantText(t string) {
	m := h.open()
	if old, ok := m.Content.(string); ok {
		t = old + "\n\n" + t
	}
	m.Content = t
}

func (h *chatHistory) reasoning(item responses.Item) {
	if item.EncryptedContent != "" {
		var kept chatState
		if state, ok := h.origin.unseal(item.EncryptedContent, kindChat); !ok || json.Unmarshal(state.Data, &kept) != nil {
			h.dropped = append(h.dropped, "reasoning.state")
		} else {
			h.open().ReasoningDetails, h.extra = kept.Details, kept.Extra
		}
	}
	if !h.quirks.ReasoningContent {
		return
	}
	t := text(responses.Parts(item.Content))
	if t == "" {
		t = text(responses.Parts(item.Summary))
	}
	if t == "" {
		return
	}
	m := h.open()
	m.ReasoningContent = strings.TrimPrefix(m.ReasoningContent+"\n"+t, "\n")
}

// call adds a call to the batch, and its output to what follows the batch.
func (h *chatHistory) call(item responses.Item, arguments string) {
	m := h.open()
	id := h.pairs.uniqueID(item.CallID)
	m.ToolCalls = append(m.ToolCalls, chat.ToolCall{
		ID: id, Type: "function",
		Function:     chat.Function{Name: h.tools.wire(item.Namespace, item.Name), Arguments: arguments},
		ExtraContent: h.extra[item.CallID],
	})
	result := chat.Message{Role: "tool", ToolCallID: id, Content: interruptedOutput}
	if parts, ok := h.pairs.take(item.CallID); ok {
		if found := images(parts); len(found) > 0 && h.quirks.ToolImages && !h.quirks.NoImages {
			result.Content = append([]chat.Part{{Type: "text", Text: text(parts)}}, found...)
		} else {
			result.Content = h.output(id, parts)
		}
	}
	h.results = append(h.results, result)
}

// output returns a tool message's content. Its images are lifted into a user
// message after the batch, since most providers refuse them in a tool message.
func (h *chatHistory) output(id string, parts []responses.Part) string {
	t := text(parts)
	found := images(parts)
	switch {
	case len(found) == 0:
		return t
	case h.quirks.NoImages:
		return strings.TrimPrefix(t+"\n"+imageNote, "\n")
	}
	h.lifted = append(h.lifted, chat.Part{Type: "text", Text: fmt.Sprintf("<tool_output call_id=%q> Images of the tool's output:", id)})
	h.lifted = append(h.lifted, found...)
	return strings.TrimPrefix(t+"\n[images follow in the next message]", "\n")
}

// flush ends the assistant message with its outputs.
func (h *chatHistory) flush() {
	if h.batch == nil {
		return
	}
	if h.batch.Content != nil || len(h.batch.ToolCalls) > 0 {
		h.out = append(h.out, *h.batch)
	}
	h.out = append(h.out, h.results...)
	if len(h.lifted) > 0 {
		h.out = append(h.out, chat.Message{Role: "user", Content: h.lifted})
	}
	h.batch, h.results, h.lifted, h.extra = nil, nil, nil, nil
}

func (h *chatHistory) user(parts []responses.Part) {
	t := text(parts)
	found := images(parts)
	if len(found) > 0 && h.quirks.NoImages {
		t, found = strings.TrimPrefix(t+"\n"+imageNote, "\n"), nil
	}
	if len(found) == 0 {
		h.out = append(h.out, chat.Message{Role: "user", Content: t})
		return
	}
	content := found
	if t != "" {
		content = append([]chat.Part{{Type: "text", Text: t}}, found...)
	}
	h.out = append(h.out, chat.Message{Role: "user", Content: content})
}
