package translate_test

import (
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

// TestResponsesAnswerIsBounded: all events of an answer count, also those that
// go on at once, those that are kept back behind a call, and those that Codex
// is never shown.
func TestResponsesAnswerIsBounded(t *testing.T) {
	const limit, events = 64 << 20, 8
	call, err := translate.ResponsesRequest(parse(t, []byte(toolsRequest)), []byte(toolsRequest), origin, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{"text": "response.output_text.delta", "not shown": "response.in_progress"} {
		for _, before := range []string{"", `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"f","call_id":"c"}}`} {
			t.Run(name+" "+before, func(t *testing.T) {
				a := translate.NewResponsesAnswer("id", origin, call.Tools, func(string, []byte) error { return nil })
				if before != "" {
					if _, err := a.Take([]byte(before)); err != nil {
						t.Fatal(err)
					}
				}
				head, tail := `{"type":"`+kind+`","delta":"`, `"}`
				event := []byte(head + strings.Repeat("x", (limit-len(before))/events-len(head)-len(tail)) + tail)
				for range events {
					if _, err := a.Take(event); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := a.Take([]byte(`{"type":"response.completed"}`)); err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
					t.Errorf("beyond 64 MiB: %v, want an error that names the bound", err)
				}
			})
		}
	}
}
