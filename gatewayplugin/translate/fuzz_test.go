package translate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/anthropic"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

// seeds adds the files of a pattern, each with the further arguments. More
// seeds are in testdata/fuzz.
func seeds(f *testing.F, pattern string, more ...any) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		f.Fatalf("no seeds %s: %v", pattern, err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]any{raw}, more...)...)
	}
}

// FuzzChatRequest: a request that can be read becomes valid JSON in which
// every tool message follows the message that called it.
func FuzzChatRequest(f *testing.F) {
	seeds(f, "testdata/request/*.responses.json")
	f.Fuzz(func(t *testing.T, raw []byte) {
		req, err := responses.Decode(raw)
		if err != nil {
			return
		}
		call, err := translate.ChatRequest(req, origin, &translate.Quirks{ReasoningContent: true})
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

// FuzzAnthropicRequest: a request that can be read becomes one that keeps the
// rules of the wire: turns, results, texts, ids and schemas.
func FuzzAnthropicRequest(f *testing.F) {
	seeds(f, "testdata/request/*.responses.json", false)
	f.Fuzz(func(t *testing.T, raw []byte, old bool) {
		req, err := responses.Decode(raw)
		if err != nil {
			return
		}
		quirks := &translate.Quirks{}
		if old {
			quirks.Thinking, quirks.ForcedTool = "budget", true
		}
		call, err := translate.AnthropicRequest(req, origin, quirks)
		if err != nil {
			t.Fatalf("a readable request was refused: %v", err)
		}
		var out anthropic.Request
		if err := json.Unmarshal(call.Body, &out); err != nil {
			t.Fatalf("the output can't be read: %v\n%s", err, call.Body)
		}
		if broken := brokenRule(&out); broken != "" {
			t.Fatalf("%s: %s", broken, call.Body)
		}
	})
}

// brokenRule returns a rule of the wire that a request breaks, or "".
func brokenRule(r *anthropic.Request) string {
	names := map[string]bool{}
	for _, tool := range r.Tools {
		var schema struct{ Type string }
		if json.Unmarshal(tool.InputSchema, &schema) != nil || schema.Type != "object" || names[tool.Name] {
			return "a tool is named twice or takes no object"
		}
		names[tool.Name] = true
	}
	open := map[string]bool{}
	for i, m := range r.Messages {
		if len(m.Content) == 0 || (m.Role == "user") != (i%2 == 0) {
			return "the user and the assistant don't take turns"
		}
		begun := false
		for _, b := range m.Content {
			switch b.Type {
			case "tool_result":
				if begun || !open[b.ToolUseID] {
					return "a result answers no call of the message before"
				}
				delete(open, b.ToolUseID)
				continue
			case "tool_use":
				if open[b.ID] || b.ID == "" || strings.Trim(b.ID, legalCharacters) != "" {
					return "an id is not legal or not unique"
				}
				open[b.ID] = true
			case "text":
				if strings.TrimSpace(b.Text) == "" {
					return "a text is empty"
				}
			}
			begun = true
		}
		last := m.Content[len(m.Content)-1].Type
		if m.Role == "user" && len(open) > 0 || last == "thinking" || last == "redacted_thinking" {
			return "a call has no result, or thinking leads to nothing"
		}
	}
	if len(r.Messages)%2 != 1 {
		return "the last message is not the user's"
	}
	return ""
}

const legalCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// FuzzChatAnswer: whatever a provider sends, nothing panics, every event is
// valid JSON, and every item that is added is ended or the answer failed.
func FuzzChatAnswer(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second []byte) { fuzzAnswer(t, "chat", first, second) })
}

// FuzzAnthropicAnswer is FuzzChatAnswer for the other wire.
func FuzzAnthropicAnswer(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second, third []byte) { fuzzAnswer(t, "anthropic", first, second, third) })
}

func fuzzAnswer(t *testing.T, wire string, stream ...[]byte) {
	open := 0
	a := newAnswer(t, wire, func(e responses.Event) error {
		switch e.Type {
		case "response.output_item.added":
			open++
		case "response.output_item.done":
			open--
		}
		_, err := json.Marshal(e)
		return err
	})
	for _, data := range stream {
		if done, err := a.Take(data); done || err != nil {
			break
		}
	}
	result, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if result.Whole() && open != 0 {
		t.Errorf("%d items were not ended", open)
	}
}
