package hostplugin

import (
	"encoding/json"

	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// wireTurn is a turn as app-server 0.149.0 tells it (schema
// v2/ThreadReadResponse, definition Turn).
type wireTurn struct {
	ID          string            `json:"id"`
	Status      string            `json:"status"`      // inProgress, completed, failed, interrupted
	CompletedAt *int64            `json:"completedAt"` // Unix seconds; null: it never ended by itself
	Error       json.RawMessage   `json:"error"`
	Items       []json.RawMessage `json:"items"`

	raw json.RawMessage
}

// UnmarshalJSON keeps the turn's text beside its members.
func (t *wireTurn) UnmarshalJSON(b []byte) error {
	type members wireTurn
	if err := json.Unmarshal(b, (*members)(t)); err != nil {
		return err
	}
	t.raw = append(json.RawMessage(nil), b...)
	return nil
}

// wireItem is what the host reads of an item, whatever its kind.
type wireItem struct {
	Type     string `json:"type"`
	Text     string `json:"text"`     // agentMessage, plan
	ClientID string `json:"clientId"` // userMessage: the command id it was sent with
}

// wire tells the turn in the contract's words, without its text.
func (t *wireTurn) wire() *hostpb.Turn {
	out := &hostpb.Turn{Id: t.ID, Status: t.Status, HasCompletedAt: t.CompletedAt != nil}
	if len(t.Error) > 0 && string(t.Error) != "null" {
		out.ErrorJson = t.Error
	}
	for _, raw := range t.Items {
		var item wireItem
		if json.Unmarshal(raw, &item) != nil {
			continue
		}
		switch item.Type {
		case "userMessage":
			if item.ClientID != "" {
				out.CommandIds = append(out.CommandIds, item.ClientID)
			}
		case "agentMessage", "plan":
			out.FinalText = item.Text
		}
	}
	return out
}
