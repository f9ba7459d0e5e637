package translate

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// ResponsesRequest makes the request for a provider that speaks Responses
// itself: raw, which is what Codex sent and in as JSON, with the provider's name
// of the model, without client_metadata, which names this installation, with
// state that other routes left behind taken out, and adjusted by what quirks
// omit and by add. quirks may be nil.
func ResponsesRequest(in *responses.Request, raw []byte, origin Origin, quirks *Quirks, add map[string]json.RawMessage) (*Call, error) {
	if quirks == nil {
		quirks = &Quirks{}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if members == nil {
		return nil, &UnfitError{"null", "it must be a JSON object"}
	}
	p := &passRequest{origin: origin, call: &Call{Tools: newTools()}, members: members}
	p.set("model", origin.Model)
	delete(members, "client_metadata")
	if quirks.FunctionsOnly {
		if err := p.functionsOnly(in, quirks); err != nil {
			return nil, err
		}
	} else {
		p.call.Tools.note(in.Tools)
		for _, item := range in.Input {
			p.call.Tools.note(item.Tools)
		}
		if err := p.input(); err != nil {
			return nil, err
		}
	}
	if in.Reasoning != nil && len(quirks.Effort) > 0 {
		p.effort(in.Reasoning.Effort, quirks.effort(in.Reasoning.Effort))
	}
	if p.err != nil {
		return nil, p.err
	}
	adjust(members, quirks.Omit, add)
	var err error
	p.call.Body, err = encode(members)
	return p.call, err
}

// passRequest is a request under way to a Responses provider.
type passRequest struct {
	origin  Origin
	call    *Call
	members map[string]json.RawMessage
	err     error // first failure to encode
}

func (p *passRequest) set(name string, value any) {
	raw, err := encode(value)
	if err != nil && p.err == nil {
		p.err = err
	}
	p.members[name] = raw
}

// effort replaces the effort within the reasoning member.
func (p *passRequest) effort(asked, mapped string) {
	var reasoning map[string]json.RawMessage
	if asked == mapped || json.Unmarshal(p.members["reasoning"], &reasoning) != nil {
		return
	}
	p.call.Dropped = append(p.call.Dropped, changedEffort(asked, mapped)...)
	delete(reasoning, "effort")
	if mapped != "" {
		raw, err := encode(mapped)
		if err != nil {
			return // a string can't fail to encode
		}
		reasoning["effort"] = raw
	}
	p.set("reasoning", reasoning)
}

// input gives state back to the provider that made it, and takes out what
// others did: a provider refuses the whole request for it.
func (p *passRequest) input() error {
	var items []json.RawMessage
	if json.Unmarshal(p.members["input"], &items) != nil {
		return nil // a string
	}
	kept := items[:0]
	changed := false
	for _, raw := range items {
		var item struct {
			Type  string `json:"type"`
			State string `json:"encrypted_content"`
		}
		if json.Unmarshal(raw, &item) != nil || !ours(item.State) {
			kept = append(kept, raw)
			continue
		}
		changed = true
		state, ok := p.origin.untag(item.State)
		switch {
		case ok:
			kept = append(kept, withState(raw, state))
		case item.Type == "reasoning":
			p.call.Dropped = append(p.call.Dropped, "reasoning.state")
		default:
			return &UnfitError{"input." + bounded(item.Type), "the conversation's summary is encrypted by the provider that made it; begin a new thread"}
		}
	}
	if changed {
		p.set("input", kept)
	}
	return nil
}

// withState replaces encrypted_content.
func withState(raw json.RawMessage, state string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw // it was an object just now
	}
	value, err := encode(state)
	if err != nil {
		return raw // a string can't fail to encode
	}
	members["encrypted_content"] = value
	out, err := encode(members)
	if err != nil {
		return raw // what was decoded can be encoded
	}
	return out
}

// tagPrefix begins the state of a Responses provider: the origin's fingerprint
// and the state as the provider gave it.
//
//	mmo1r:0123456789abcdef:gAAAAAB…
const tagPrefix = "mmo1r:"

// ours reports whether the gateway made an encrypted_content.
func ours(state string) bool {
	return strings.HasPrefix(state, tagPrefix) || strings.HasPrefix(state, statePrefix)
}

// tag marks what a provider encrypted with where it comes from.
func (o Origin) tag(state string) string { return tagPrefix + o.fingerprint() + ":" + state }

// untag returns what tag was given, for the same origin alone.
func (o Origin) untag(tagged string) (string, bool) {
	return strings.CutPrefix(tagged, tagPrefix+o.fingerprint()+":")
}

// functionsOnly rewrites tools and conversation for a provider that knows no
// other tools than functions.
func (p *passRequest) functionsOnly(in *responses.Request, quirks *Quirks) error {
	in, dropped, err := normal(in)
	if err != nil {
		return err
	}
	p.call.Dropped = append(p.call.Dropped, dropped...)
	declared, dropped := p.call.Tools.declare(in.Tools)
	p.call.Dropped = append(p.call.Dropped, dropped...)
	type object = map[string]any
	tools := make([]object, 0, len(declared))
	for _, t := range declared {
		tools = append(tools, object{
			"type": "function", "name": t.Function.Name, "description": t.Function.Description,
			"parameters": quirks.schema(t.Function.Parameters), "strict": t.Function.Strict,
		})
	}
	items := make([]object, 0, len(in.Input))
	for _, item := range in.Input {
		switch item.Type {
		case "reasoning":
			if ours(item.EncryptedContent) {
				state, ok := p.origin.untag(item.EncryptedContent)
				if !ok {
					p.call.Dropped = append(p.call.Dropped, "reasoning.state")
					continue
				}
				item.EncryptedContent = state
			}
			thought := object{"type": "reasoning", "summary": orEmpty(item.Summary)}
			if item.EncryptedContent != "" {
				thought["encrypted_content"] = item.EncryptedContent
			}
			items = append(items, thought)
		case "function_call":
			items = append(items, object{"type": "function_call", "call_id": item.CallID, "name": p.call.Tools.wire(item.Namespace, item.Name), "arguments": validArguments(responses.String(item.Arguments))})
		case "custom_tool_call":
			items = append(items, object{"type": "function_call", "call_id": item.CallID, "name": p.call.Tools.wire(item.Namespace, item.Name), "arguments": customArguments(item.Input)})
		case "function_call_output", "custom_tool_call_output":
			items = append(items, object{"type": "function_call_output", "call_id": item.CallID, "output": orEmpty(item.Output)})
		default:
			items = append(items, object{"type": "message", "role": item.Role, "content": orEmpty(item.Content)})
		}
	}
	p.set("input", items)
	p.set("tools", tools)
	if choice, dropped := p.call.Tools.choice(in.ToolChoice); choice != nil {
		if named, ok := choice.(*chat.NamedTool); ok {
			choice = object{"type": "function", "name": named.Function.Name}
		}
		p.set("tool_choice", choice)
		if dropped {
			p.call.Dropped = append(p.call.Dropped, "tool_choice")
		}
	}
	return nil
}

// orEmpty makes an array of what is missing or null.
func orEmpty(raw json.RawMessage) json.RawMessage {
	if missing(raw) {
		return json.RawMessage("[]")
	}
	return raw
}

func missing(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
