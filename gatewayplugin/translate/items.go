package translate

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// maxCalls and maxAnswer bound what one answer may hold: tool calls, and bytes
// of text and arguments; on the Responses wire those of all events. More is no
// answer of a model.
const (
	maxCalls  = 256
	maxAnswer = 64 << 20
)

// Emit hands one event on to Codex.
type Emit func(responses.Event) error

// items writes the items of one answer for Codex, whatever wire they come
// from. Text goes on at once. A tool call goes on only when the provider has
// ended the answer, so that half a call is never run.
type items struct {
	id    string // distinguishes the items of this answer from all others
	tools *Tools
	emit  Emit

	index int             // output index of the current or next item
	open  string          // message, reasoning or "": the item that is open
	body  strings.Builder // of the open item
	state string          // encrypted_content of the open reasoning item; empty: none
	calls []*pendingCall
	size  int
	// seal returns what the provider wants back of an answer with these calls,
	// for encrypted_content; empty: nothing. nil: never anything.
	seal func(calls []*pendingCall) (string, error)
}

type pendingCall struct {
	index     int // as the provider numbers it
	id, name  string
	arguments strings.Builder
	extra     json.RawMessage // what the provider wants back with the call; nil: nothing
}

func (w *items) grow(n int) error {
	if w.size += n; w.size > maxAnswer {
		return fmt.Errorf("the provider's answer has more than %d bytes", maxAnswer)
	}
	return nil
}

// say passes on a piece of the answer's text.
func (w *items) say(piece string) error {
	return w.stream("message", "response.output_text.delta", piece)
}

// think passes on a piece of reasoning.
func (w *items) think(piece string) error {
	return w.stream("reasoning", "response.reasoning_text.delta", piece)
}

// stream passes on a piece of text, in an item of the kind.
func (w *items) stream(kind, event, piece string) error {
	if piece == "" {
		return nil
	}
	if err := w.grow(len(piece)); err != nil {
		return err
	}
	if err := w.enter(kind); err != nil {
		return err
	}
	w.body.WriteString(piece)
	index, content := w.index, 0
	return w.emit(responses.Event{Type: event, ItemID: w.itemID(kind), OutputIndex: &index, ContentIndex: &content, Delta: piece})
}

// enter makes sure that an item of the kind is open.
func (w *items) enter(kind string) error {
	if w.open == kind {
		return nil
	}
	if err := w.close(); err != nil {
		return err
	}
	w.open, w.state = kind, ""
	w.body.Reset()
	return w.itemEvent("response.output_item.added", w.item("in_progress"))
}

// close ends the open item.
func (w *items) close() error {
	if w.open == "" {
		return nil
	}
	item := w.item("completed")
	w.open = ""
	return w.itemDone(item)
}

func (w *items) itemDone(item any) error {
	err := w.itemEvent("response.output_item.done", item)
	w.index++
	return err
}

func (w *items) itemEvent(event string, item any) error {
	index := w.index
	return w.emit(responses.Event{Type: event, OutputIndex: &index, Item: item})
}

// itemID is unique among all items of a thread, as Codex expects.
func (w *items) itemID(kind string) string {
	prefix := map[string]string{"message": "msg", "reasoning": "rs", "function": "fc", "custom": "ctc", "search": "tsc"}[kind]
	return fmt.Sprintf("%s_%s_%d", prefix, w.id, w.index)
}

// item returns the open item with the text so far.
func (w *items) item(status string) any {
	if w.open == "reasoning" {
		item := &responses.ReasoningItem{Type: "reasoning", ID: w.itemID("reasoning"), Summary: []any{}, Content: []responses.ReasoningText{}}
		if w.body.Len() > 0 {
			item.Content = append(item.Content, responses.ReasoningText{Type: "reasoning_text", Text: w.body.String()})
		}
		if w.state != "" {
			state := w.state
			item.EncryptedContent = &state
		}
		return item
	}
	item := &responses.Message{Type: "message", ID: w.itemID("message"), Role: "assistant", Status: status, Content: []responses.OutputText{}}
	if w.body.Len() > 0 {
		item.Content = append(item.Content, responses.OutputText{Type: "output_text", Text: w.body.String(), Annotations: []any{}})
	}
	return item
}

// begin notes a tool call, which stays here until finish.
func (w *items) begin(index int) (*pendingCall, error) {
	if len(w.calls) == maxCalls {
		return nil, fmt.Errorf("the provider's answer has more than %d tool calls", maxCalls)
	}
	p := &pendingCall{index: index}
	w.calls = append(w.calls, p)
	return p, nil
}

// finish ends an answer that is whole: the open item and all calls are
// completed.
func (w *items) finish() error {
	used := map[string]bool{}
	var calls []*pendingCall
	for i, p := range w.calls {
		if w.tools.resolve(p.name).answer {
			// The answer that was demanded as JSON, in the guise of a call.
			if err := w.say(p.arguments.String()); err != nil {
				return err
			}
			continue
		}
		if p.id == "" || used[p.id] {
			p.id = fmt.Sprintf("call_%s_%d", w.id, i)
		}
		used[p.id] = true
		calls = append(calls, p)
	}
	if err := w.keep(calls); err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	for _, p := range calls {
		if err := w.call(p); err != nil {
			return err
		}
	}
	return nil
}

// keep puts what the provider wants back beside the calls into a reasoning
// item before them: Codex keeps nothing else that it does not know.
func (w *items) keep(calls []*pendingCall) error {
	if w.seal == nil || len(calls) == 0 {
		return nil
	}
	state, err := w.seal(calls)
	if err != nil || state == "" {
		return err
	}
	if err := w.enter("reasoning"); err != nil {
		return err
	}
	w.state = state
	return nil
}

func (w *items) call(p *pendingCall) error {
	ref := w.tools.resolve(p.name)
	arguments := p.arguments.String()
	if !ref.custom && strings.TrimSpace(arguments) == "" {
		arguments = "{}" // a call without parameters
	}
	var item any
	switch {
	case ref.custom:
		item = &responses.CustomToolCall{
			Type: "custom_tool_call", ID: w.itemID("custom"), CallID: p.id, Namespace: ref.namespace, Name: ref.name,
			Input: customInput(arguments), Status: "completed",
		}
	case ref.search && json.Valid([]byte(arguments)):
		item = &responses.ToolSearchCall{
			Type: "tool_search_call", ID: w.itemID("search"), CallID: p.id, Execution: "client",
			Arguments: json.RawMessage(arguments), Status: "completed",
		}
	default:
		item = &responses.FunctionCall{
			Type: "function_call", ID: w.itemID("function"), CallID: p.id, Namespace: ref.namespace, Name: ref.name,
			Arguments: arguments, Status: "completed",
		}
	}
	if err := w.itemEvent("response.output_item.added", item); err != nil {
		return err
	}
	return w.itemDone(item)
}

// customInput unwraps {"input": …}. Some models forget the wrapping.
func customInput(arguments string) string {
	var wrapped struct {
		Input *string `json:"input"`
	}
	if json.Unmarshal([]byte(arguments), &wrapped) == nil && wrapped.Input != nil {
		return *wrapped.Input
	}
	return arguments
}
