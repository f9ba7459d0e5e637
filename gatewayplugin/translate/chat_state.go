package translate

import (
	"encoding/json"
	"fmt"
)

// kindChat names the state that an answer on Chat Completions leaves behind.
const kindChat = "chat"

// chatState is what providers of Chat Completions want back with the calls of
// an answer.
//
//	{"details": [{"type": "reasoning.encrypted", "data": "…"}], "extra": {"call_1": {"google": {"thought_signature": "…"}}}}
type chatState struct {
	Details json.RawMessage            `json:"details,omitempty"`
	Extra   map[string]json.RawMessage `json:"extra,omitempty"` // call id -> extra_content
}

// seal makes the state of an answer with these calls.
func (a *ChatAnswer) seal(calls []*pendingCall) (string, error) {
	var state chatState
	for _, p := range calls {
		if p.extra != nil {
			if state.Extra == nil {
				state.Extra = map[string]json.RawMessage{}
			}
			state.Extra[p.id] = p.extra
		}
	}
	if len(a.details.all) > 0 {
		raw, err := encode(a.details.all)
		if err != nil {
			return "", err
		}
		state.Details = raw
	}
	if state.Details == nil && state.Extra == nil {
		return "", nil
	}
	return a.origin.seal(a.items.id, kindChat, state)
}

// maxDetails bounds the entries of one answer.
const maxDetails = 4096

// reasoningDetails puts together what OpenRouter streams as reasoning_details:
// pieces that follow each other and have the same type and index are one
// entry.
type reasoningDetails struct {
	all []map[string]json.RawMessage
}

// joined are the members of which pieces are put together; of all others the
// last one counts.
var joined = map[string]bool{"text": true, "summary": true, "data": true}

func (d *reasoningDetails) add(raw json.RawMessage) error {
	var pieces []map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &pieces) != nil {
		return nil // what is no such array can't be given back
	}
	for _, piece := range pieces {
		if n := len(d.all); n > 0 && continues(d.all[n-1], piece) {
			join(d.all[n-1], piece)
			continue
		}
		if len(d.all) == maxDetails {
			return fmt.Errorf("the provider's answer has more than %d reasoning details", maxDetails)
		}
		d.all = append(d.all, piece)
	}
	return nil
}

// continues reports whether a piece belongs to the entry before it.
func continues(entry, piece map[string]json.RawMessage) bool {
	index, ok := piece["index"]
	return ok && string(index) == string(entry["index"]) && string(piece["type"]) == string(entry["type"])
}

func join(entry, piece map[string]json.RawMessage) {
	for name, value := range piece {
		if string(value) == "null" {
			continue
		}
		var before, more string
		if joined[name] && json.Unmarshal(entry[name], &before) == nil && json.Unmarshal(value, &more) == nil {
			if whole, err := encode(before + more); err == nil {
				value = whole
			}
		}
		entry[name] = value
	}
}
