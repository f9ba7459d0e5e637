package modeltest

import (
	"encoding/json"
	"strings"
)

// decode reads a request as the provider does, and refuses what the provider
// refuses: a client that passes here has kept the wire's rules.
func (anthropicWire) decode(body []byte) (*Conversation, error) {
	var in anthropicRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, badRequest("the body is no Messages request: %v", err)
	}
	switch {
	case !in.Stream:
		return nil, badRequest("the scripted model only streams, send \"stream\": true")
	case in.MaxTokens < 1:
		return nil, badRequest("max_tokens: field required")
	case len(in.Messages) == 0 || in.Messages[0].Role != "user":
		return nil, badRequest("messages: the first message must use the \"user\" role")
	}
	d := &anthropicReader{out: &Conversation{Model: in.Model}}
	for _, t := range in.Tools {
		d.out.Tools = append(d.out.Tools, t.Name)
	}
	if len(in.System) > 0 {
		system, err := blocks(in.System)
		if err != nil {
			return nil, err
		}
		for _, b := range system {
			d.add(RoleSystem, b.Text)
		}
	}
	for i, m := range in.Messages {
		if err := d.message(i, m); err != nil {
			return nil, err
		}
	}
	if len(d.open) > 0 {
		return nil, badRequest("messages: %d `tool_use` blocks have no `tool_result` blocks after them", len(d.open))
	}
	return d.out, nil
}

// anthropicReader reads the messages of one request.
type anthropicReader struct {
	out  *Conversation
	open map[string]bool // ids of the calls that wait for their result
}

func (d *anthropicReader) add(role Role, text string) {
	d.out.Entries = append(d.out.Entries, Entry{Role: role, Text: text})
}

func (d *anthropicReader) message(i int, m anthropicMessage) error {
	content, err := blocks(m.Content)
	switch {
	case err != nil:
		return err
	case len(content) == 0:
		return badRequest("messages.%d: content must not be empty", i)
	case m.Role == "user":
		return d.user(i, content)
	case m.Role != "assistant":
		return badRequest("messages.%d: there is no role %q", i, m.Role)
	case len(d.open) > 0:
		return badRequest("messages.%d: `tool_use` blocks have no `tool_result` blocks in the next message", i-1)
	}
	return d.assistant(i, content)
}

// user reads a message whose results come first, for exactly the calls of the
// message before it.
func (d *anthropicReader) user(i int, content []anthropicBlock) error {
	begun := false // something other than results
	for j, b := range content {
		switch b.Type {
		case "tool_result":
			if begun || !d.open[b.ToolUseID] {
				return badRequest("messages.%d.content.%d: unexpected `tool_result` block for %q", i, j, b.ToolUseID)
			}
			delete(d.open, b.ToolUseID)
			d.add(RoleTool, contentText(b.Content))
			continue
		case "text":
			if strings.TrimSpace(b.Text) == "" {
				return badRequest("messages.%d.content.%d: text content blocks must contain non-whitespace text", i, j)
			}
			d.add(userRole(b.Text), b.Text)
		case "image":
			d.image(begun)
		default:
			return badRequest("messages.%d.content.%d: a user has no %q block", i, j, b.Type)
		}
		begun = true
	}
	if len(d.open) > 0 {
		return badRequest("messages.%d: `tool_use` blocks have no `tool_result` blocks in the next message", i-1)
	}
	return nil
}

// image adds an image to the text that it stands behind.
func (d *anthropicReader) image(behindText bool) {
	if !behindText {
		d.add(RoleUser, "[image]")
		return
	}
	d.out.Entries[len(d.out.Entries)-1].Text += "\n[image]"
}

func (d *anthropicReader) assistant(i int, content []anthropicBlock) error {
	d.open = map[string]bool{}
	for j, b := range content {
		switch b.Type {
		case "text":
			d.add(RoleAssistant, b.Text)
		case "thinking":
			if b.Signature != signature(d.out.Model, b.Thinking) {
				return badRequest("messages.%d.content.%d: invalid `signature` in `thinking` block", i, j)
			}
			d.add(RoleAssistant, "")
		case "redacted_thinking":
			d.add(RoleAssistant, "")
		case "tool_use":
			if b.ID == "" || d.open[b.ID] {
				return badRequest("messages.%d.content.%d: `tool_use` ids must be unique", i, j)
			}
			d.open[b.ID] = true
			d.out.Entries = append(d.out.Entries, Entry{Role: RoleAssistant, Call: b.Name})
		default:
			return badRequest("messages.%d.content.%d: an assistant has no %q block", i, j, b.Type)
		}
	}
	return nil
}
