package translate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

func seeds(f *testing.F, pattern string) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		f.Fatalf("no seeds %s: %v", pattern, err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
}

// FuzzChatRequest: a request that can be read becomes valid JSON in which
// every tool message follows the message that called it.
func FuzzChatRequest(f *testing.F) {
	seeds(f, "testdata/request/*.responses.json")
	f.Add([]byte(`{"input":[{"type":"function_call","call_id":"a","name":"f"},{"type":"function_call","call_id":"a"},{"type":"function_call_output","call_id":"a","output":[{"type":"input_image","image_url":"x"}]},{"role":"user","content":"u"}]}`))
	f.Add([]byte(`{"input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"c"}]}],"tool_choice":{"type":"custom","name":"c"},"text":{"format":{"type":"json_schema"}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var req responses.Request
		if json.Unmarshal(raw, &req) != nil {
			return
		}
		call, err := translate.ChatRequest(&req, "m", &translate.Quirks{ReasoningContent: true})
		if err != nil {
			t.Fatalf("a readable request was refused: %v", err)
		}
		var out chat.Request
		if err := json.Unmarshal(call.Body, &out); err != nil {
			t.Fatalf("the output can't be read: %v\n%s", err, call.Body)
		}
		open := map[string]bool{}
		for _, m := range out.Messages {
			if m.Role == "tool" {
				if !open[m.ToolCallID] {
					t.Fatalf("a tool message answers no open call %q: %s", m.ToolCallID, call.Body)
				}
				delete(open, m.ToolCallID)
				continue
			}
			if len(open) > 0 {
				t.Fatalf("calls without output: %v: %s", open, call.Body)
			}
			for _, c := range m.ToolCalls {
				if open[c.ID] {
					t.Fatalf("two open calls have the id %q: %s", c.ID, call.Body)
				}
				open[c.ID] = true
			}
		}
		if len(open) > 0 {
			t.Fatalf("calls without output: %v: %s", open, call.Body)
		}
	})
}

// FuzzChatAnswer: whatever a provider sends, nothing panics, every event is
// valid JSON, and every item that is added is ended or the answer failed.
func FuzzChatAnswer(f *testing.F) {
	f.Add([]byte(`{"choices":[{"delta":{"content":"x","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}`), []byte(`[DONE]`))
	f.Add([]byte(`{"choices":[{"delta":{"reasoning":"x"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`), []byte(`{"error":{"message":"x"}}`))
	f.Add([]byte(`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":{"a":1}}}]},"finish_reason":"length"}]}`), []byte(`null`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var req responses.Request
		if err := json.Unmarshal([]byte(toolsRequest), &req); err != nil {
			t.Fatal(err)
		}
		call, err := translate.ChatRequest(&req, "m", nil)
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		a := translate.NewChatAnswer("id", call.Tools, func(e responses.Event) error {
			switch e.Type {
			case "response.output_item.added":
				open++
			case "response.output_item.done":
				open--
			}
			_, err := json.Marshal(e)
			return err
		})
		for _, data := range [][]byte{first, second} {
			if done, err := a.Take(data); done || err != nil {
				break
			}
		}
		result, err := a.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if result.Finish == "stop" && result.Error == nil && open != 0 {
			t.Errorf("%d items were not ended", open)
		}
	})
}
