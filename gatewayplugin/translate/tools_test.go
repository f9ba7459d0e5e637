package translate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

// TestToolChoice: every form of tool_choice finds the tool's name on the wire.
func TestToolChoice(t *testing.T) {
	for choice, want := range map[string]string{
		`"auto"`:     `"auto"`,
		`"required"`: `"required"`,
		`null`:       `null`,
		`{"type":"function","name":"exec_command"}`:                     `{"type":"function","function":{"name":"exec_command"}}`,
		`{"type":"function","namespace":"mcp__probe","name":"echo_x"}`:  `{"type":"function","function":{"name":"mcp__probe__echo_x"}}`,
		`{"type":"custom","name":"apply_patch"}`:                        `{"type":"function","function":{"name":"apply_patch"}}`,
		`{"type":"web_search"}`:                                         `"auto"`,
		`{"type":"function","name":"unknown"}`:                          `"auto"`,
		`{"type":"function","namespace":"mcp__other","name":"unknown"}`: `"auto"`,
	} {
		req := parse(t, []byte(toolsRequest))
		req.ToolChoice = json.RawMessage(choice)
		call, err := translate.ChatRequest(req, origin, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			ToolChoice json.RawMessage `json:"tool_choice"`
		}
		if err := json.Unmarshal(call.Body, &out); err != nil {
			t.Fatal(err)
		}
		got := string(out.ToolChoice)
		if got == "" {
			got = "null"
		}
		if got != want {
			t.Errorf("tool_choice %s = %s, want %s", choice, got, want)
		}
	}
}

// TestNamesAreLegalAndDistinct: whatever tools are called, their names on the
// wire are legal and no two are equal.
func TestNamesAreLegalAndDistinct(t *testing.T) {
	long := strings.Repeat("long_", 20)
	req := &responses.Request{Tools: []responses.Tool{
		{Type: "function", Name: "a__b"},
		{Type: "namespace", Name: "a", Tools: []responses.Tool{{Type: "function", Name: "b"}, {Type: "function", Name: "b.c"}, {Type: "function", Name: "b_c"}}},
		{Type: "namespace", Name: long, Tools: []responses.Tool{{Type: "function", Name: "one"}, {Type: "function", Name: "two"}}},
		{Type: "function", Name: "ümlaut"},
	}}
	call, err := translate.ChatRequest(req, origin, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out chat.Request
	if err := json.Unmarshal(call.Body, &out); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, tool := range out.Tools {
		name := tool.Function.Name
		legal := strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
		if seen[name] || len(name) > 64 || !legal {
			t.Errorf("name %q: seen before %v, %d bytes, legal %v", name, seen[name], len(name), legal)
		}
		seen[name] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d names, want 7: %v", len(seen), seen)
	}
}
