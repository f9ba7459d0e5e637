package translate

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// maxCalls and maxAnswer bound what one answer may hold: tool calls, and bytes
// of text and arguments. More is no answer of a model.
const (
	maxCalls  = 256
	maxAnswer = 64 << 20
)

// Emit hands one event on to Codex.
type Emit func(responses.Event) error

// Result is how an answer ended.
type Result struct {
	// Finish is stop, length, content_filter or context_window; "" when the
	// stream broke off, and the provider's own word when it is none of ours.
	Finish   string
	Error    json.RawMessage // error object within the stream; nil: none
	Usage    *responses.Usage
	Counts   *chat.Usage // as the provider sent them; nil: none
	Model    string      // as the provider says
	Provider string      // who served it, when told
}

// ChatAnswer turns the chunks of one Chat Completions stream into events of a
// Responses stream. Text goes on at once. A tool call goes on only when the
// provider has ended the answer, so that half a call is never run. It is used
// by one goroutine.
type ChatAnswer struct {
	id     string // distinguishes the items of this answer from all others
	tools  *Tools
	emit   Emit
	result Result
	finish string

	index int             // output index of the current or next item
	open  string          // message, reasoning or "": the item that is open
	body  strings.Builder // of the open item
	calls []*pendingCall
	size  int
}

type pendingCall struct {
	index     int
	id, name  string
	arguments strings.Builder
}

// NewChatAnswer begins an answer. id is unique to it; tools are those of the
// request.
func NewChatAnswer(id string, tools *Tools, emit Emit) *ChatAnswer {
	return &ChatAnswer{id: id, tools: tools, emit: emit}
}

// Chunk takes the data of one event. done tells that the provider has said
// that nothing follows. An error is one of emit, or says that the data is no
// chunk; the answer is then broken.
func (a *ChatAnswer) Chunk(data []byte) (done bool, err error) {
	if string(data) == "[DONE]" {
		return true, nil
	}
	var c chat.Chunk
	if err := json.Unmarshal(data, &c); err != nil {
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
	if c.Usage != nil {
		a.result.SetUsage(c.Usage)
	}
}

// SetUsage takes over the counts that a provider sent.
func (r *Result) SetUsage(u *chat.Usage) { r.Counts, r.Usage = u, usage(u) }

// usage returns what Codex may be told: all counts that it needs, or nil.
func usage(u *chat.Usage) *responses.Usage {
	if u.PromptTokens == nil || u.CompletionTokens == nil {
		return nil
	}
	out := &responses.Usage{InputTokens: *u.PromptTokens, OutputTokens: *u.CompletionTokens}
	out.TotalTokens = out.InputTokens + out.OutputTokens
	if u.TotalTokens != nil {
		out.TotalTokens = *u.TotalTokens
	}
	if d := u.PromptTokensDetails; d != nil && d.CachedTokens != nil {
		out.InputTokensDetails.CachedTokens = *d.CachedTokens
	}
	if d := u.CompletionDetails; d != nil && d.ReasoningTokens != nil {
		out.OutputTokensDetails.ReasoningTokens = *d.ReasoningTokens
	}
	return out
}

func (a *ChatAnswer) delta(d chat.Delta) error {
	if a.finish != "" {
		return nil // some providers repeat the last chunk
	}
	thought := d.ReasoningContent
	if thought == "" {
		thought = d.Reasoning
	}
	if err := a.stream("reasoning", "response.reasoning_text.delta", thought); err != nil {
		return err
	}
	if err := a.stream("message", "response.output_text.delta", d.Content+d.Refusal); err != nil {
		return err
	}
	for _, c := range d.ToolCalls {
		if err := a.call(c); err != nil {
			return err
		}
	}
	return nil
}

func (a *ChatAnswer) grow(n int) error {
	if a.size += n; a.size > maxAnswer {
		return fmt.Errorf("the provider's answer has more than %d bytes", maxAnswer)
	}
	return nil
}

// stream passes on a piece of text, in an item of the kind.
func (a *ChatAnswer) stream(kind, event, piece string) error {
	if piece == "" {
		return nil
	}
	if err := a.grow(len(piece)); err != nil {
		return err
	}
	if a.open != kind {
		if err := a.begin(kind); err != nil {
			return err
		}
	}
	a.body.WriteString(piece)
	index, content := a.index, 0
	return a.emit(responses.Event{Type: event, ItemID: a.itemID(kind), OutputIndex: &index, ContentIndex: &content, Delta: piece})
}

func (a *ChatAnswer) begin(kind string) error {
	if err := a.close(); err != nil {
		return err
	}
	a.open = kind
	a.body.Reset()
	return a.itemEvent("response.output_item.added", a.item("in_progress"))
}

// close ends the open item.
func (a *ChatAnswer) close() error {
	if a.open == "" {
		return nil
	}
	item := a.item("completed")
	a.open = ""
	return a.itemDone(item)
}

func (a *ChatAnswer) itemDone(item any) error {
	err := a.itemEvent("response.output_item.done", item)
	a.index++
	return err
}

func (a *ChatAnswer) itemEvent(event string, item any) error {
	index := a.index
	return a.emit(responses.Event{Type: event, OutputIndex: &index, Item: item})
}

// itemID is unique among all items of a thread, as Codex expects.
func (a *ChatAnswer) itemID(kind string) string {
	prefix := map[string]string{"message": "msg", "reasoning": "rs", "function": "fc", "custom": "ctc"}[kind]
	return fmt.Sprintf("%s_%s_%d", prefix, a.id, a.index)
}

// item returns the open item with the text so far.
func (a *ChatAnswer) item(status string) any {
	if a.open == "reasoning" {
		item := &responses.ReasoningItem{Type: "reasoning", ID: a.itemID("reasoning"), Summary: []any{}, Content: []responses.ReasoningText{}}
		if a.body.Len() > 0 {
			item.Content = append(item.Content, responses.ReasoningText{Type: "reasoning_text", Text: a.body.String()})
		}
		return item
	}
	item := &responses.Message{Type: "message", ID: a.itemID("message"), Role: "assistant", Status: status, Content: []responses.OutputText{}}
	if a.body.Len() > 0 {
		item.Content = append(item.Content, responses.OutputText{Type: "output_text", Text: a.body.String(), Annotations: []any{}})
	}
	return item
}

// call takes a piece of a tool call. Most providers number the calls; some
// send each whole, all with number 0.
func (a *ChatAnswer) call(d chat.CallDelta) error {
	p := a.pending(d)
	if p == nil {
		if len(a.calls) == maxCalls {
			return fmt.Errorf("the provider's answer has more than %d tool calls", maxCalls)
		}
		p = &pendingCall{index: len(a.calls)}
		if d.Index != nil {
			p.index = *d.Index
		}
		a.calls = append(a.calls, p)
	}
	if p.id == "" {
		p.id = d.ID
	}
	if p.name == "" {
		p.name = d.Function.Name
	}
	piece := responses.String(d.Function.Arguments)
	p.arguments.WriteString(piece)
	return a.grow(len(piece) + len(d.Function.Name) + len(d.ID))
}

// pending finds the call that a piece belongs to; nil: it begins one.
func (a *ChatAnswer) pending(d chat.CallDelta) *pendingCall {
	for i := len(a.calls) - 1; i >= 0; i-- {
		p := a.calls[i]
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

// Finish ends the answer: with a reason to stop, the open item and all calls
// are completed. It returns how the answer ended, also with an error of emit.
func (a *ChatAnswer) Finish() (Result, error) {
	r := a.result
	if r.Error != nil {
		return r, nil
	}
	r.Finish = finishWord(a.finish)
	if r.Finish != "stop" {
		return r, nil
	}
	if err := a.close(); err != nil {
		return r, err
	}
	used := map[string]bool{}
	for i, p := range a.calls {
		if p.id == "" || used[p.id] {
			p.id = fmt.Sprintf("call_%s_%d", a.id, i)
		}
		used[p.id] = true
		if err := a.emitCall(p); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (a *ChatAnswer) emitCall(p *pendingCall) error {
	ref := a.tools.resolve(p.name)
	arguments := p.arguments.String()
	var item any
	if ref.custom {
		item = &responses.CustomToolCall{
			Type: "custom_tool_call", ID: a.itemID("custom"), CallID: p.id, Name: ref.name,
			Input: customInput(arguments), Status: "completed",
		}
	} else {
		if strings.TrimSpace(arguments) == "" {
			arguments = "{}" // a call without parameters
		}
		item = &responses.FunctionCall{
			Type: "function_call", ID: a.itemID("function"), CallID: p.id, Namespace: ref.namespace, Name: ref.name,
			Arguments: arguments, Status: "completed",
		}
	}
	if err := a.itemEvent("response.output_item.added", item); err != nil {
		return err
	}
	return a.itemDone(item)
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

// finishWord maps the reasons to end that providers use to ours.
func finishWord(reason string) string {
	switch reason {
	case "stop", "tool_calls", "function_call", "eos", "end_turn", "stop_sequence", "tool_use":
		return "stop"
	case "length", "max_tokens", "max_output_tokens":
		return "length"
	case "content_filter", "refusal", "safety", "SAFETY":
		return "content_filter"
	case "model_context_window_exceeded", "context_length_exceeded":
		return "context_window"
	}
	return reason
}
