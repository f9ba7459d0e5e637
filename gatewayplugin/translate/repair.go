package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// repair gives an item of a Responses provider what Codex needs to take it:
// without them it drops the item and says nothing. It returns the item's type,
// and whether anything was changed.
func (a *ResponsesAnswer) repair(raw json.RawMessage, index int) (item json.RawMessage, kind string, changed bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return raw, "", false
	}
	kind = responses.String(members["type"])
	r := &repairer{members: members}
	switch kind {
	case "message":
		r.array("content")
	case "reasoning":
		r.array("summary")
	case "function_call":
		r.callID(a.callID(responses.String(members["call_id"]), index))
		kind = r.functionCall(a.tools)
	case "custom_tool_call":
		r.callID(a.callID(responses.String(members["call_id"]), index))
	}
	if state := responses.String(members["encrypted_content"]); state != "" && kind != "message" {
		r.set("encrypted_content", a.origin.tag(state))
	}
	if !r.changed {
		return raw, kind, false
	}
	out, err := encode(members)
	if err != nil {
		return raw, kind, false // what was decoded can be encoded
	}
	return out, kind, true
}

// callID returns the id of the call at an output index: the provider's, unless
// that is missing or another call's.
func (a *ResponsesAnswer) callID(id string, index int) string {
	if owner, taken := a.callIDs[id]; id == "" || taken && owner != index {
		return fmt.Sprintf("call_%s_%d", a.id, index)
	}
	a.callIDs[id] = index
	return id
}

// repairer changes the members of one item.
type repairer struct {
	members map[string]json.RawMessage
	changed bool
}

func (r *repairer) set(name string, value any) {
	raw, err := encode(value)
	if err != nil || string(raw) == string(r.members[name]) {
		return // what we set can be encoded
	}
	r.members[name], r.changed = raw, true
}

func (r *repairer) array(name string) {
	if missing(r.members[name]) {
		r.members[name], r.changed = json.RawMessage("[]"), true
	}
}

func (r *repairer) callID(id string) {
	if id != responses.String(r.members["call_id"]) {
		r.set("call_id", id)
	}
}

// functionCall makes the arguments a string and the name one of Codex's. It
// returns the type that the item has then.
func (r *repairer) functionCall(tools *Tools) string {
	arguments := responses.String(r.members["arguments"])
	if arguments == "" {
		arguments = "{}"
	}
	if raw := r.members["arguments"]; len(raw) == 0 || raw[0] != '"' || string(raw) == `""` {
		r.set("arguments", arguments)
	}
	if !missing(r.members["namespace"]) {
		return "function_call"
	}
	ref := tools.resolve(responses.String(r.members["name"]))
	switch {
	case ref.custom:
		delete(r.members, "arguments")
		r.set("type", "custom_tool_call")
		r.set("input", customInput(arguments))
	case ref.search && json.Valid([]byte(arguments)):
		r.set("type", "tool_search_call")
		r.set("execution", "client")
		r.set("arguments", json.RawMessage(arguments))
		return "tool_search_call"
	}
	r.set("name", ref.name)
	if ref.namespace != "" {
		r.set("namespace", ref.namespace)
	}
	return responses.String(r.members["type"])
}

// note remembers tools that the provider is told as Codex names them, so that
// names that nearly fit are found.
func (t *Tools) note(tools []responses.Tool) {
	for _, tool := range tools {
		if tool.Type != "namespace" {
			if tool.Type == "function" {
				t.byFlat[tool.Name] = toolRef{name: tool.Name}
			}
			continue
		}
		for _, member := range tool.Tools {
			t.add(toolRef{namespace: tool.Name, name: member.Name})
		}
	}
}

// fingerprint tells origins apart, in 16 hex digits.
func (o Origin) fingerprint() string {
	sum := sha256.Sum256([]byte(o.Route + "\x00" + o.Model))
	return hex.EncodeToString(sum[:8])
}
