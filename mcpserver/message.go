package mcpserver

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// JSON-RPC error codes. The first five are the specification's.
const (
	codeParse      = -32700
	codeInvalid    = -32600
	codeNoMethod   = -32601
	codeBadParams  = -32602
	codeInternal   = -32603
	codeNotAllowed = -32000 // refused, or the supervisor is out of reach
)

// maxID is the longest request id in bytes.
const maxID = 1024

// rpcError is the error of a JSON-RPC answer.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`
}

func (e *rpcError) Error() string {
	if e.Data == "" {
		return e.Message
	}
	return e.Message + ": " + e.Data
}

func invalidRequest(data string) *rpcError {
	return &rpcError{codeInvalid, "invalid request", data}
}

func invalidParams(data string) *rpcError {
	return &rpcError{codeBadParams, "invalid params", data}
}

// message is a well-formed request or notification.
type message struct {
	id     json.RawMessage // exactly as it came; nil for a notification
	method string
	params json.RawMessage // an object, or nil
}

// idKey identifies a request among those in flight: ids that are equal have the
// same key, and the number 1 is not the string "1".
func idKey(id json.RawMessage) string {
	if len(id) > 0 && id[0] == '"' {
		var s string
		if json.Unmarshal(id, &s) == nil {
			return strconv.Quote(s)
		}
	}
	if n, err := strconv.ParseInt(string(id), 10, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	return ""
}

// parse checks a frame by the rules of JSON-RPC 2.0 and MCP. It returns nil and
// no error for a frame that needs no answer and has no effect. With an error,
// id is what the answer must carry: null where the frame has no usable id.
func parse(data []byte) (m *message, id json.RawMessage, fault *rpcError) {
	if err := strictjson.Check(data, nil); err != nil {
		return nil, nil, &rpcError{codeParse, "parse error", err.Error()}
	}
	// A map, because struct decoding folds the case of keys.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return nil, nil, invalidRequest("a message is one JSON object; batches are not supported")
	}
	id, hasID := fields["id"]
	if hasID && (len(id) > maxID || idKey(id) == "") {
		return nil, nil, invalidRequest("id must be a string or an integer")
	}
	if text, ok := stringField(fields, "jsonrpc"); !ok || text != "2.0" {
		return nil, id, invalidRequest(`jsonrpc must be "2.0"`)
	}
	if _, has := fields["method"]; !has && (fields["result"] != nil || fields["error"] != nil) {
		return nil, nil, nil // an answer, and we never ask
	}
	method, ok := stringField(fields, "method")
	if !ok || method == "" {
		return nil, id, invalidRequest("method must be a string")
	}
	params, hasParams := fields["params"]
	if hasParams && !isObject(params) {
		if !hasID {
			return nil, nil, nil // notifications are never answered
		}
		return nil, id, invalidRequest("params must be an object")
	}
	return &message{id: id, method: method, params: params}, id, nil
}

func stringField(fields map[string]json.RawMessage, name string) (string, bool) {
	raw, ok := fields[name]
	if !ok || len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

// objectFields takes an object apart; anything else has no fields.
func objectFields(raw json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if !isObject(bytes.TrimSpace(raw)) || json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return fields
}
