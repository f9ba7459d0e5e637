package translate

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// history regroups the items of a conversation. The Responses wire lists
// items; the Chat wire wants one assistant message for a text with its calls,
// directly followed by one tool message for each call. So the outputs are
// looked up by their calls, whatever stands between them is moved after them,
// and what has lost its partner is repaired: a provider refuses a conversation
// with a call that has no output, for ever.
type history struct {
	quirks  *Quirks
	tools   *Tools
	dropped []string

	outputs map[string][]int // call id -> indexes of its outputs that are not used yet
	used    map[int]bool     // indexes of outputs that stand beside their calls
	ids     map[string]int   // call id -> how often it was used for a call
	out     []chat.Message
	batch   *chat.Message // the assistant message that is being put together
	results []chat.Message
	lifted  []chat.Part // images of the batch's outputs
}

const (
	interruptedOutput = "[no output: the call was interrupted]"
	imageNote         = "[an image was left out: this model reads text only]"
)

func (h *history) messages(in *responses.Request) []chat.Message {
	h.outputs, h.used, h.ids = map[string][]int{}, map[int]bool{}, map[string]int{}
	for i, item := range in.Input {
		if isOutput(item) {
			h.outputs[item.CallID] = append(h.outputs[item.CallID], i)
		}
	}
	rest := h.lead(in)
	for i := rest; i < len(in.Input); i++ {
		h.item(in.Input, i)
	}
	h.flush()
	return h.out
}

// lead makes the one leading system message of the instructions and of the
// system and developer messages before anything else, and returns the index
// of the first item after them.
func (h *history) lead(in *responses.Request) int {
	var texts []string
	if in.Instructions != "" {
		texts = append(texts, in.Instructions)
	}
	i := 0
	for ; i < len(in.Input) && isSystem(in.Input[i]); i++ {
		if t := text(responses.Parts(in.Input[i].Content)); t != "" {
			texts = append(texts, t)
		}
	}
	if len(texts) > 0 {
		h.out = append(h.out, chat.Message{Role: "system", Content: strings.Join(texts, "\n\n")})
	}
	return i
}

func isMessage(item responses.Item) bool { return item.Type == "message" || item.Type == "" }

func isSystem(item responses.Item) bool {
	return isMessage(item) && (item.Role == "developer" || item.Role == "system")
}

func isOutput(item responses.Item) bool {
	return item.Type == "function_call_output" || item.Type == "custom_tool_call_output"
}

func (h *history) item(items []responses.Item, i int) {
	item := items[i]
	switch {
	case isMessage(item) && item.Role == "assistant":
		h.assistantText(text(responses.Parts(item.Content)))
	case item.Type == "reasoning":
		h.reasoning(item)
	case item.Type == "function_call":
		h.call(items, item, validArguments(responses.String(item.Arguments)))
	case item.Type == "custom_tool_call":
		input, err := json.Marshal(map[string]string{"input": item.Input})
		if err == nil { // a string can't fail to encode
			h.call(items, item, string(input))
		}
	case isOutput(item):
		h.flush()
		if !h.used[i] {
			h.user([]responses.Part{{Type: "input_text", Text: fmt.Sprintf("<tool_output call_id=%q>\n%s\n</tool_output>", item.CallID, text(responses.Parts(item.Output)))}})
		}
	case isSystem(item):
		h.flush()
		h.user([]responses.Part{{Type: "input_text", Text: "<developer_message>\n" + text(responses.Parts(item.Content)) + "\n</developer_message>"}})
	case isMessage(item):
		h.flush()
		h.user(responses.Parts(item.Content))
	default:
		h.dropped = append(h.dropped, "input."+item.Type)
	}
}

// open returns the assistant message under construction.
func (h *history) open() *chat.Message {
	if h.batch == nil {
		h.batch = &chat.Message{Role: "assistant"}
	}
	return h.batch
}

func (h *history) assistantText(t string) {
	m := h.open()
	if old, ok := m.Content.(string); ok {
		t = old + "\n\n" + t
	}
	m.Content = t
}

func (h *history) reasoning(item responses.Item) {
	if !h.quirks.ReasoningContent {
		return
	}
	t := text(responses.Parts(item.Content))
	if t == "" {
		t = text(responses.Parts(item.Summary))
	}
	m := h.open()
	m.ReasoningContent = strings.TrimPrefix(m.ReasoningContent+"\n"+t, "\n")
}

// call adds a call to the batch, and its output to what follows the batch.
func (h *history) call(items []responses.Item, item responses.Item, arguments string) {
	m := h.open()
	id := h.callID(item.CallID)
	m.ToolCalls = append(m.ToolCalls, chat.ToolCall{
		ID: id, Type: "function",
		Function: chat.Function{Name: h.tools.wire(item.Namespace, item.Name), Arguments: arguments},
	})
	result := chat.Message{Role: "tool", ToolCallID: id, Content: interruptedOutput}
	if waiting := h.outputs[item.CallID]; len(waiting) > 0 {
		h.outputs[item.CallID] = waiting[1:]
		h.used[waiting[0]] = true
		result.Content = h.output(id, responses.Parts(items[waiting[0]].Output))
	}
	h.results = append(h.results, result)
}

// callID makes the ids of calls unique: Codex keeps two calls of one id apart
// by their order alone, providers refuse them.
func (h *history) callID(id string) string {
	if id == "" {
		id = "call"
	}
	for n := h.ids[id]; ; n++ {
		unique := id
		if n > 0 {
			unique = fmt.Sprintf("%s_%d", id, n+1)
		}
		if n > 0 && h.ids[unique] > 0 {
			continue
		}
		h.ids[id] = n + 1
		if n > 0 {
			h.ids[unique] = 1
		}
		return unique
	}
}

// output returns a tool message's content. Its images are lifted into a user
// message after the batch, since most providers refuse them in a tool message.
func (h *history) output(id string, parts []responses.Part) string {
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
func (h *history) flush() {
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
	h.batch, h.results, h.lifted = nil, nil, nil
}

func (h *history) user(parts []responses.Part) {
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

// validArguments returns arguments that a provider takes back: a JSON object.
// Codex keeps in its history whatever a model once sent, even half an object.
func validArguments(arguments string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) != nil || object == nil {
		return "{}"
	}
	return arguments
}
