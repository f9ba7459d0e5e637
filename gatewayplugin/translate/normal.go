package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// UnfitError says that a request holds what the route's wire can't carry, and
// without which the answer would be of no use.
type UnfitError struct {
	What string // as "input.compaction"
	Why  string
}

// Error names the part and the reason.
func (e *UnfitError) Error() string {
	return fmt.Sprintf("the request holds %s, which this route can't carry: %s", e.What, e.Why)
}

// searchTool is the name under which a model on another wire calls Codex's
// search for tools.
const searchTool = "tool_search"

// normal turns the rarer items of a conversation into those that every wire
// has. Tools that came with items join the others. What is left out is named
// in dropped; what can't be left out is an UnfitError.
func normal(in *responses.Request) (out *responses.Request, dropped []string, err error) {
	copied := *in
	copied.Input = make([]responses.Item, 0, len(in.Input))
	copied.Tools = append([]responses.Tool(nil), in.Tools...)
	for _, item := range in.Input {
		switch item.Type {
		case "agent_message":
			item, dropped = agentMessage(item, dropped)
		case "local_shell_call":
			item.Type, item.Name, item.Arguments = "function_call", "local_shell", item.Action
		case "tool_search_call":
			item.Type, item.Name = "function_call", searchTool
		case "tool_search_output":
			copied.Tools = append(copied.Tools, item.Tools...)
			item.Type, item.Output = "function_call_output", foundTools(item.Tools)
		case "additional_tools":
			copied.Tools = append(copied.Tools, item.Tools...)
			continue
		case "compaction", "context_compaction":
			if item.EncryptedContent != "" {
				return nil, nil, &UnfitError{"input." + item.Type, "the conversation's summary is encrypted by the provider that made it; begin a new thread"}
			}
			continue
		case "compaction_trigger":
			return nil, nil, &UnfitError{"input." + item.Type, "only the provider of the Responses wire compacts by itself; let Codex do it"}
		case "", "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output":
		default:
			dropped = append(dropped, "input."+bounded(item.Type))
			continue
		}
		dropped = append(dropped, lost(item)...)
		copied.Input = append(copied.Input, item)
	}
	return &copied, dropped, nil
}

// agentMessage tells the model what another agent wrote, as the user.
func agentMessage(item responses.Item, dropped []string) (responses.Item, []string) {
	parts := responses.Parts(item.Content)
	for _, p := range parts {
		if p.Type == "encrypted_content" {
			dropped = append(dropped, "input.agent_message.encrypted_content")
		}
	}
	note := fmt.Sprintf("<agent_message author=%q recipient=%q>\n%s\n</agent_message>", item.Author, item.Recipient, text(parts))
	content, err := encode(note)
	if err != nil {
		content = nil // a string can't fail to encode
	}
	return responses.Item{Type: "message", Role: "user", Content: content}, dropped
}

// foundTools tells the model what its search for tools has found. The tools
// themselves are declared.
func foundTools(tools []responses.Tool) json.RawMessage {
	var names []string
	for _, t := range tools {
		if t.Type != "namespace" {
			names = append(names, t.Name)
			continue
		}
		for _, member := range t.Tools {
			names = append(names, joinName(t.Name, member.Name))
		}
	}
	answer := "No tools were found."
	if len(names) > 0 {
		answer = "These tools can be called now: " + strings.Join(names, ", ")
	}
	raw, err := encode(answer)
	if err != nil {
		return nil // a string can't fail to encode
	}
	return raw
}

// foreignParts are the types of parts that only the Responses wire has.
var foreignParts = [][]byte{[]byte("input_audio"), []byte("input_file"), []byte("encrypted_content")}

// lost names the parts of an item that only the Responses wire has.
func lost(item responses.Item) []string {
	var out []string
	for _, raw := range []json.RawMessage{item.Content, item.Output} {
		if len(raw) == 0 || raw[0] != '[' || !slices.ContainsFunc(foreignParts, func(kind []byte) bool { return bytes.Contains(raw, kind) }) {
			continue
		}
		for _, p := range responses.Parts(raw) {
			switch p.Type {
			case "input_audio", "input_file", "encrypted_content":
				out = append(out, "content."+p.Type)
			}
		}
	}
	return out
}

// bounded cuts a word of Codex that names something.
func bounded(word string) string {
	const limit = 64 // bytes
	if len(word) > limit {
		word = strings.ToValidUTF8(word[:limit], "")
	}
	return word
}
