package translate_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

// FuzzResponsesRequest: a request that can be read is passed on as a JSON
// object without what names this installation and without another provider's
// state, and with functions alone where only they are known.
func FuzzResponsesRequest(f *testing.F) {
	seeds(f, "testdata/request/*.responses.json", true)
	f.Add([]byte("null"), false)
	f.Add([]byte(`{"input":[{"type":"reasoning","encrypted_content":"mmo1:x"},{"type":"reasoning","encrypted_content":"mmo1r:0:x"}],"client_metadata":{"a":1}}`), false)
	f.Fuzz(func(t *testing.T, raw []byte, functions bool) {
		in, err := responses.Decode(raw)
		if err != nil {
			return
		}
		call, err := translate.ResponsesRequest(in, raw, origin, &translate.Quirks{FunctionsOnly: functions}, nil)
		if err != nil {
			return // named: the caller tells Codex
		}
		var out map[string]json.RawMessage
		if err := json.Unmarshal(call.Body, &out); err != nil {
			t.Fatalf("the output can't be read: %v\n%s", err, call.Body)
		}
		if responses.String(out["model"]) != origin.Model || out["client_metadata"] != nil {
			t.Fatalf("model %s, metadata %s", out["model"], out["client_metadata"])
		}
		var items []struct {
			State string `json:"encrypted_content"`
		}
		if json.Unmarshal(out["input"], &items) != nil {
			return // one string
		}
		for _, item := range items {
			if strings.HasPrefix(item.State, "mmo1:") || strings.HasPrefix(item.State, "mmo1r:") {
				t.Fatalf("another provider's state goes on: %s", out["input"])
			}
		}
		var tools []struct{ Type string }
		if functions && json.Unmarshal(out["tools"], &tools) != nil {
			t.Fatalf("tools %s", out["tools"])
		}
		for _, tool := range tools {
			if tool.Type != "function" {
				t.Fatalf("a tool of type %q", tool.Type)
			}
		}
	})
}

// FuzzResponsesAnswer: whatever a provider sends, nothing panics, every event
// is a line of valid JSON, and no call comes out before the answer is whole.
func FuzzResponsesAnswer(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","name":"mcp__probe.echo_x","arguments":{"a":1}}}`, `{"type":"response.completed","response":{"usage":null}}`},
		{`{"type":"response.output_item.added","item":{"type":"reasoning","encrypted_content":"x"}}`, `{"type":"response.failed"}`},
		{`{"type":"response.output_text.delta","delta":{"a":1}}`, "{\n\"type\":\"response.completed\",\"response\":{\"output\":[{\"type\":\"message\"},{\"type\":\"function_call\"},null,7]}}"},
		{`{"type":"error","error":"x"}`, `[DONE]`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		call, err := translate.ResponsesRequest(parse(t, []byte(toolsRequest)), []byte(toolsRequest), origin, &translate.Quirks{FunctionsOnly: len(first)%2 == 0}, nil)
		if err != nil {
			t.Fatal(err)
		}
		whole := false
		a := translate.NewResponsesAnswer("id", origin, call.Tools, func(_ string, data []byte) error {
			if !json.Valid(data) || bytes.ContainsAny(data, "\r\n") {
				t.Fatalf("event %q is no line of JSON", data)
			}
			if kind := itemType(data); slices.Contains([]string{"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"}, kind) && !whole {
				t.Fatalf("a %s before the end: %s", kind, data)
			}
			return nil
		})
		for _, data := range [][]byte{first, second} {
			if done, err := a.Take(data); done || err != nil {
				break
			}
		}
		result := a.SoFar()
		whole = result.Whole()
		if _, err := a.Finish(); err != nil {
			t.Fatal(err)
		}
	})
}

// itemType reads the type of an event's item as Codex does: names are exact.
func itemType(data []byte) string {
	var event, item map[string]json.RawMessage
	if json.Unmarshal(data, &event) != nil || json.Unmarshal(event["item"], &item) != nil {
		return ""
	}
	switch responses.String(event["type"]) {
	case "response.output_item.added", "response.output_item.done":
		return responses.String(item["type"])
	}
	return "" // Codex takes no item from another event
}
