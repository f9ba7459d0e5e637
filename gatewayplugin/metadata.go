package gatewayplugin

import (
	"encoding/json"
	"net/http"
)

// turnMetadata is what Codex says of the turn that a request belongs to.
// codex 0.149.0: header x-codex-turn-metadata, JSON.
type turnMetadata struct {
	ThreadID  string `json:"thread_id"`
	SessionID string `json:"session_id"`
	TurnID    string `json:"turn_id"`
}

const turnMetadataKey = "x-codex-turn-metadata"

// joinIDs returns the thread and the turn of a request, "" when Codex did not
// say: from the header, else from client_metadata in the body, else from the
// plain headers.
func joinIDs(header http.Header, client map[string]json.RawMessage) (thread, turn string) {
	sources := []turnMetadata{parseTurn([]byte(header.Get(turnMetadataKey)))}
	if raw, ok := client[turnMetadataKey]; ok {
		sources = append(sources, parseTurn([]byte(scalar(raw))))
	}
	sources = append(sources,
		turnMetadata{ThreadID: scalar(client["thread_id"]), SessionID: scalar(client["session_id"]), TurnID: scalar(client["turn_id"])},
		turnMetadata{ThreadID: header.Get("thread-id"), SessionID: header.Get("session-id")})
	for _, s := range sources {
		if thread == "" {
			thread = s.ThreadID
		}
		if turn == "" {
			turn = s.TurnID
		}
	}
	for _, s := range sources {
		if thread == "" {
			thread = s.SessionID // older clients name no thread: the root's is the session's
		}
	}
	return bounded(thread), bounded(turn)
}

func parseTurn(raw []byte) turnMetadata {
	var m turnMetadata
	if json.Unmarshal(raw, &m) != nil {
		return turnMetadata{} // the next source may know
	}
	return m
}
