package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// responsesWire is the OpenAI Responses wire as Codex speaks it, streaming.
type responsesWire struct{}

func (responsesWire) name() string { return "responses" }

// responsesTool is a tool, or a namespace of tools.
type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"`
}

// responsesItem is one item of the input.
type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Content   json.RawMessage `json:"content"`
	Output    json.RawMessage `json:"output"`
}

func (responsesWire) decode(body []byte) (*Conversation, error) {
	var in struct {
		Model        string          `json:"model"`
		Stream       bool            `json:"stream"`
		Instructions string          `json:"instructions"`
		Input        json.RawMessage `json:"input"` // a string, or items
		Tools        []responsesTool `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, badRequest("the body is no Responses request: %v", err)
	}
	if !in.Stream {
		return nil, badRequest("the scripted model only streams, send \"stream\": true")
	}
	c := &Conversation{Model: in.Model, Tools: toolNames(in.Tools, "")}
	if in.Instructions != "" {
		c.Entries = append(c.Entries, Entry{Role: RoleSystem, Text: in.Instructions})
	}
	if strings.HasPrefix(string(in.Input), `"`) {
		c.Entries = append(c.Entries, Entry{Role: RoleUser, Text: contentText(in.Input)})
		return c, nil
	}
	var items []responsesItem
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return nil, badRequest("the input is no list of items: %v", err)
	}
	for _, item := range items {
		var e Entry
		switch item.Type {
		case "message", "":
			e = Entry{Role: messageRole(item.Role), Text: contentText(item.Content)}
		case "function_call", "custom_tool_call":
			e = Entry{Role: RoleAssistant, Call: joined(item.Namespace, item.Name)}
		case "function_call_output", "custom_tool_call_output":
			e = Entry{Role: RoleTool, Text: contentText(item.Output)}
		case "reasoning":
			e = Entry{Role: RoleAssistant}
		default:
			continue
		}
		c.Entries = append(c.Entries, e)
	}
	return c, nil
}

func messageRole(role string) Role {
	switch role {
	case "user":
		return RoleUser
	case "assistant":
		return RoleAssistant
	}
	return RoleSystem
}

func toolNames(tools []responsesTool, namespace string) []string {
	var names []string
	for _, t := range tools {
		if t.Type == "namespace" {
			names = append(names, toolNames(t.Tools, t.Name)...)
		} else if t.Name != "" {
			names = append(names, joined(namespace, t.Name))
		}
	}
	return names
}

func joined(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "__" + name
}

func (responsesWire) encoder(w io.Writer, r *reply) encoder {
	return &responsesEncoder{w: w, reply: r}
}

// responsesEncoder keeps the item that is being streamed, and closes it when
// another kind of output begins.
type responsesEncoder struct {
	w     io.Writer
	reply *reply
	index int    // of the current or next item
	open  string // message, reasoning, or "" when no item is open
	body  string // text of the open item so far
}

type members = map[string]any

func (e *responsesEncoder) event(kind string, fields members) error {
	fields["type"] = kind
	return writeEvent(e.w, kind, fields)
}

func (e *responsesEncoder) begin() error {
	return e.event("response.created", members{"response": members{"id": "resp_" + e.reply.id, "status": "in_progress"}})
}

func (e *responsesEncoder) itemID() string { return fmt.Sprintf("%s_%d", e.reply.id, e.index) }

func (e *responsesEncoder) item() members {
	if e.open == "reasoning" {
		return members{
			"type": "reasoning", "id": "rs_" + e.itemID(), "summary": []any{},
			"content": []any{members{"type": "reasoning_text", "text": e.body}}, "encrypted_content": nil,
		}
	}
	return members{
		"type": "message", "id": "msg_" + e.itemID(), "role": "assistant", "status": "completed",
		"content": []any{members{"type": "output_text", "text": e.body, "annotations": []any{}}},
	}
}

// enter makes sure that an item of the kind is open.
func (e *responsesEncoder) enter(kind string) error {
	if e.open == kind {
		return nil
	}
	if err := e.close(); err != nil {
		return err
	}
	e.open, e.body = kind, ""
	item := e.item()
	item["content"] = []any{}
	return e.event("response.output_item.added", members{"output_index": e.index, "item": item})
}

func (e *responsesEncoder) close() error {
	if e.open == "" {
		return nil
	}
	item := e.item()
	e.open = ""
	return e.done(item)
}

func (e *responsesEncoder) done(item members) error {
	err := e.event("response.output_item.done", members{"output_index": e.index, "item": item})
	e.index++
	return err
}

func (e *responsesEncoder) text(piece string) error {
	if err := e.enter("message"); err != nil {
		return err
	}
	e.body += piece
	return e.event("response.output_text.delta", members{
		"item_id": "msg_" + e.itemID(), "output_index": e.index, "content_index": 0, "delta": piece,
	})
}

func (e *responsesEncoder) think(piece string) error {
	if err := e.enter("reasoning"); err != nil {
		return err
	}
	e.body += piece
	return e.event("response.reasoning_text.delta", members{
		"item_id": "rs_" + e.itemID(), "output_index": e.index, "content_index": 0, "delta": piece,
	})
}

func (e *responsesEncoder) call(p part) error {
	if err := e.close(); err != nil {
		return err
	}
	item := members{
		"type": "function_call", "id": "fc_" + e.itemID(), "call_id": p.callID, "name": p.name,
		"arguments": p.text, "status": "completed",
	}
	if p.namespace != "" {
		item["namespace"] = p.namespace
	}
	if p.kind == actCustom {
		item = members{
			"type": "custom_tool_call", "id": "ctc_" + e.itemID(), "call_id": p.callID, "name": p.name,
			"input": p.text, "status": "completed",
		}
	}
	if err := e.event("response.output_item.added", members{"output_index": e.index, "item": item}); err != nil {
		return err
	}
	return e.done(item)
}

func (e *responsesEncoder) fail(p *ProviderError) error {
	code := p.Code
	if code == "" {
		code = p.Type
	}
	err := e.event("response.failed", members{"response": members{
		"id": "resp_" + e.reply.id, "status": "failed", "error": members{"code": code, "message": p.Message},
	}})
	if err != nil {
		return err
	}
	return errCut
}

func (e *responsesEncoder) finish() error {
	if err := e.close(); err != nil {
		return err
	}
	response := members{"id": "resp_" + e.reply.id, "status": "completed", "error": nil}
	kind := "response.completed"
	if reason := incompleteReason(e.reply.finish); reason != "" {
		kind, response["status"] = "response.incomplete", "incomplete"
		response["incomplete_details"] = members{"reason": reason}
	}
	if u := e.reply.usage; u != nil {
		response["usage"] = members{
			"input_tokens": u.Input, "input_tokens_details": members{"cached_tokens": u.Cached},
			"output_tokens": u.Output, "output_tokens_details": members{"reasoning_tokens": u.Reasoning},
			"total_tokens": u.Input + u.Output,
		}
	}
	return e.event(kind, members{"response": response})
}

func incompleteReason(finish string) string {
	switch finish {
	case "length":
		return "max_output_tokens"
	case "content_filter":
		return "content_filter"
	}
	return ""
}
