package translate

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/dialect"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/anthropic"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// AnthropicRequest translates a Responses request into a streaming Anthropic
// Messages request for the model of origin. quirks may be nil.
func AnthropicRequest(in *responses.Request, origin Origin, quirks *Quirks) (*Call, error) {
	if quirks == nil {
		quirks = &Quirks{}
	}
	call := &Call{Tools: newTools()}
	var err error
	if in, call.Dropped, err = normal(in); err != nil {
		return nil, err
	}
	b := &anthropicBuilder{in: in, quirks: quirks, call: call}
	b.out = anthropic.Request{Model: origin.Model, MaxTokens: quirks.maxTokens(origin.Model), Stream: true}
	if in.MaxOutputTokens != nil && *in.MaxOutputTokens > 0 {
		b.out.MaxTokens = *in.MaxOutputTokens
	}
	b.format()
	b.tools()
	b.messages(origin)
	b.think()
	if !quirks.NoCacheControl {
		b.markCache()
	}
	if in.Text != nil && in.Text.Verbosity != "" {
		b.drop("text.verbosity")
	}
	b.call.Body, err = encode(b.out)
	return b.call, err
}

// anthropicBuilder puts one request together.
type anthropicBuilder struct {
	in     *responses.Request
	quirks *Quirks
	call   *Call
	out    anthropic.Request
	rules  []string // instructions that the translation adds
	forced bool     // the model must call a tool
}

func (b *anthropicBuilder) drop(what ...string) { b.call.Dropped = append(b.call.Dropped, what...) }

// config returns the output configuration, which is sent only when it says
// something.
func (b *anthropicBuilder) config() *anthropic.OutputConfig {
	if b.out.OutputConfig == nil {
		b.out.OutputConfig = &anthropic.OutputConfig{}
	}
	return b.out.OutputConfig
}

// format asks for an answer in JSON.
func (b *anthropicBuilder) format() {
	if b.in.Text == nil || b.in.Text.Format == nil {
		return
	}
	f := b.in.Text.Format
	switch {
	case f.Type == "json_object":
		b.rules = append(b.rules, "Answer with one JSON object.")
	case f.Type != "json_schema":
	case b.quirks.JSONObjectOnly:
		b.rules = append(b.rules, "Answer with one JSON object that meets this JSON Schema:\n"+string(f.Schema))
	case b.quirks.ForcedTool:
		name := b.call.Tools.add(toolRef{namespace: "answer", name: f.Name, answer: true})
		b.out.Tools = append(b.out.Tools, anthropic.Tool{
			Name: name, Description: "Call this with your final answer, once and as the last thing you do.",
			InputSchema: objectSchema(f.Schema),
		})
		b.forced = true
	default:
		b.config().Format = &anthropic.Format{Type: "json_schema", Schema: f.Schema}
	}
}

func (b *anthropicBuilder) tools() {
	declared, dropped := b.call.Tools.declare(b.in.Tools)
	b.drop(dropped...)
	for _, t := range declared {
		b.out.Tools = append(b.out.Tools, anthropic.Tool{
			Name: t.Function.Name, Description: t.Function.Description, InputSchema: objectSchema(b.quirks.schema(t.Function.Parameters)),
		})
	}
	if len(b.out.Tools) == 0 {
		return
	}
	choice := b.choice()
	single := b.in.ParallelToolCalls != nil && !*b.in.ParallelToolCalls && !b.quirks.NoParallelToolCalls
	if single && choice == nil {
		choice = &anthropic.ToolChoice{Type: "auto"}
	}
	if choice != nil {
		choice.DisableParallelToolUse = single && choice.Type != "none"
		b.forced = choice.Type == "any" || choice.Type == "tool"
	}
	b.out.ToolChoice = choice
}

// choice says which tools the model must call. When the answer is a tool, the
// model must call some tool in every response.
func (b *anthropicBuilder) choice() *anthropic.ToolChoice {
	if b.forced {
		if len(b.out.Tools) == 1 {
			return &anthropic.ToolChoice{Type: "tool", Name: b.out.Tools[0].Name}
		}
		return &anthropic.ToolChoice{Type: "any"}
	}
	choice, dropped := b.call.Tools.choice(b.in.ToolChoice)
	if dropped {
		b.drop("tool_choice")
	}
	switch c := choice.(type) {
	case *chat.NamedTool:
		return &anthropic.ToolChoice{Type: "tool", Name: c.Function.Name}
	case string:
		switch c {
		case "required":
			return &anthropic.ToolChoice{Type: "any"}
		case "none":
			return &anthropic.ToolChoice{Type: "none"}
		}
		return &anthropic.ToolChoice{Type: "auto"}
	}
	return nil
}

func (b *anthropicBuilder) messages(origin Origin) {
	h := &anthropicHistory{quirks: b.quirks, tools: b.call.Tools, origin: origin}
	texts, messages := h.messages(b.in)
	b.drop(h.dropped...)
	b.out.Messages = messages
	if texts = append(texts, b.rules...); len(texts) > 0 {
		b.out.System = []anthropic.Block{{Type: "text", Text: strings.Join(texts, "\n\n")}}
	}
}

// think asks for thinking as the effort says. A forced tool, a temperature and
// thinking exclude each other.
func (b *anthropicBuilder) think() {
	var effort string
	if b.in.Reasoning != nil {
		effort = b.quirks.anthropicEffort(b.in.Reasoning.Effort)
		b.drop(changedEffort(b.in.Reasoning.Effort, effort)...)
	}
	off := effort == "" || effort == "none" || b.quirks.Thinking == dialect.ThinkingOff
	budgeted := b.quirks.Thinking == dialect.ThinkingBudget
	if !off && !budgeted {
		b.config().Effort = effort
	}
	if !off && (b.forced || budgeted && unthought(b.out.Messages)) {
		b.drop("thinking")
		b.out.Messages = withoutThinking(b.out.Messages)
		off = true
	}
	if off {
		b.out.Temperature, b.out.TopP = b.in.Temperature, b.in.TopP
		return
	}
	b.out.Thinking = &anthropic.Thinking{Type: "adaptive", Display: "summarized"}
	if budgeted {
		b.out.Thinking = nil
		if n := b.quirks.budget(effort, b.out.MaxTokens); n > 0 {
			b.out.Thinking = &anthropic.Thinking{Type: "enabled", BudgetTokens: n}
		}
	}
}

// unthought reports whether the model is in the midst of calling tools without
// having thought first: it is then refused to think with a budget.
func unthought(messages []anthropic.Message) bool {
	last := len(messages) - 1
	if last < 1 || messages[last].Content[0].Type != "tool_result" {
		return false
	}
	return !isThinking(messages[last-1].Content[0])
}

func isThinking(b anthropic.Block) bool {
	return b.Type == "thinking" || b.Type == "redacted_thinking"
}

// withoutThinking leaves out what was thought: a model that may not think
// takes none back.
func withoutThinking(messages []anthropic.Message) []anthropic.Message {
	for i := range messages {
		messages[i].Content = slices.DeleteFunc(messages[i].Content, isThinking)
	}
	return messages
}

// markCache marks what the next request will repeat: the instructions, with
// the tools before them, and the conversation so far.
func (b *anthropicBuilder) markCache() {
	mark := &anthropic.CacheControl{Type: "ephemeral"}
	if n := len(b.out.System); n > 0 {
		b.out.System[n-1].CacheControl = mark
	} else if n := len(b.out.Tools); n > 0 {
		b.out.Tools[n-1].CacheControl = mark
	}
	last := b.out.Messages[len(b.out.Messages)-1].Content // the user's
	last[len(last)-1].CacheControl = mark
}

// objectSchema makes a schema that the wire takes for a tool's input: of type
// object, and without alternatives at the top. Codex checks the input itself.
func objectSchema(raw json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return noParameters
	}
	fits := string(members["type"]) == `"object"`
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		if _, ok := members[word]; ok {
			fits = false
			delete(members, word)
		}
	}
	if fits {
		return raw
	}
	members["type"] = json.RawMessage(`"object"`)
	out, err := encode(members)
	if err != nil {
		return noParameters // what was decoded can be encoded
	}
	return out
}
