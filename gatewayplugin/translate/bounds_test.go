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
	const (
		limit = 64 << 20
		call  = `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"f","call_id":"c"}}`
		delta = `{"type":"response.output_text.delta","delta":"x"}`
	)
	request, err := translate.ResponsesRequest(parse(t, []byte(toolsRequest)), []byte(toolsRequest), origin, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, events := range map[string][]string{
		"handed on": {delta, delta}, "behind a call": {call, delta}, "not shown": {`{"type":"response.in_progress"}`, delta},
	} {
		for _, over := range []int{0, 1} {
			a := translate.NewResponsesAnswer("id", origin, request.Tools, func(string, []byte) error { return nil })
			rest := limit + over
			for _, e := range events {
				if _, err := a.Take([]byte(e)); err != nil {
					t.Fatal(err)
				}
				rest -= len(e)
			}
			_, err := a.Take(make([]byte, rest)) // no JSON: within the bound that is what is wrong
			if err == nil || strings.Contains(err.Error(), "more than 67108864 bytes") != (over > 0) {
				t.Errorf("%s, %d bytes beyond 64 MiB: %v", name, over, err)
			}
		}
	}
}
