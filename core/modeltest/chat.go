package modeltest

import (
	"encoding/json"
	"io"
	"strings"
)

// chatWire is the OpenAI Chat Completions wire, streaming.
type chatWire struct{}

func (chatWire) name() string { return "chat" }

// asideTags begin user messages that a gateway made of something else, because
// the wire has no place for it there: instructions in mid-conversation, and
// images that a tool returned. They are no words of the user.
var asideTags = map[string]Role{"<developer_message>": RoleSystem, "<tool_output": RoleTool}

func (chatWire) decode(body []byte) (*Conversation, error) {
	var in struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role      string          `json:"role"`
			Content   json.RawMessage `json:"content"`
			ToolCalls []struct {
				Function struct {
					Name string `json:"name"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, badRequest("the body is no chat request: %v", err)
	}
	if !in.Stream {
		return nil, badRequest("the scripted model only streams, send \"stream\": true")
	}
	c := &Conversation{Model: in.Model}
	for _, t := range in.Tools {
		c.Tools = append(c.Tools, t.Function.Name)
	}
	for _, m := range in.Messages {
		text := contentText(m.Content)
		switch m.Role {
		case "system", "developer":
			c.Entries = append(c.Entries, Entry{Role: RoleSystem, Text: text})
		case "user":
			c.Entries = append(c.Entries, Entry{Role: userRole(text), Text: text})
		case "tool":
			c.Entries = append(c.Entries, Entry{Role: RoleTool, Text: text})
		case "assistant":
			c.Entries = append(c.Entries, Entry{Role: RoleAssistant, Text: text})
			for _, call := range m.ToolCalls {
				c.Entries = append(c.Entries, Entry{Role: RoleAssistant, Call: call.Function.Name})
			}
		default:
			return nil, badRequest("messages have no role %q", m.Role)
		}
	}
	return c, nil
}

func userRole(text string) Role {
	for tag, role := range asideTags {
		if strings.HasPrefix(text, tag) {
			return role
		}
	}
	return RoleUser
}

// contentText returns the text of a content member: a string, or an array of
// parts with text. An image is "[image]".
func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if strings.Contains(p.Type, "image") {
			p.Text = "[image]"
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

func (chatWire) encoder(w io.Writer, r *reply) encoder { return &chatEncoder{w: w, reply: r} }

type chatEncoder struct {
	w     io.Writer
	reply *reply
	calls int
}

func (e *chatEncoder) chunk(choices []any, usage any) error {
	body := map[string]any{
		"id": "chatcmpl_" + e.reply.id, "object": "chat.completion.chunk", "created": 0,
		"model": e.reply.model, "choices": choices,
	}
	if usage != nil {
		body["usage"] = usage
	}
	return writeEvent(e.w, "", body)
}

func (e *chatEncoder) delta(delta map[string]any, finish any) error {
	return e.chunk([]any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}, nil)
}

func (e *chatEncoder) begin() error {
	return e.delta(map[string]any{"role": "assistant", "content": ""}, nil)
}

func (e *chatEncoder) text(piece string) error {
	return e.delta(map[string]any{"content": piece}, nil)
}

func (e *chatEncoder) think(piece string) error {
	return e.delta(map[string]any{"reasoning_content": piece}, nil)
}

// call sends a call in two pieces: its name, then its arguments.
func (e *chatEncoder) call(p part) error {
	name, arguments := joined(p.namespace, p.name), p.text
	if p.kind == actCustom {
		arguments = string(object("input", p.text))
	}
	index := e.calls
	e.calls++
	first := map[string]any{"index": index, "id": p.callID, "type": "function", "function": map[string]any{"name": name, "arguments": ""}}
	if err := e.delta(map[string]any{"tool_calls": []any{first}}, nil); err != nil {
		return err
	}
	rest := map[string]any{"index": index, "function": map[string]any{"arguments": arguments}}
	return e.delta(map[string]any{"tool_calls": []any{rest}}, nil)
}

func (e *chatEncoder) fail(p *ProviderError) error {
	if err := writeEvent(e.w, "", openaiErrorBody(p)); err != nil {
		return err
	}
	return errCut
}

func (e *chatEncoder) finish() error {
	reason := e.reply.finish
	if e.calls > 0 && reason == "stop" {
		reason = "tool_calls"
	}
	if err := e.delta(map[string]any{}, reason); err != nil {
		return err
	}
	if u := e.reply.usage; u != nil {
		usage := map[string]any{
			"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
			"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached},
			"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning},
		}
		if err := e.chunk([]any{}, usage); err != nil {
			return err
		}
	}
	_, err := io.WriteString(e.w, "data: [DONE]\n\n")
	return err
}
