package modeltest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/modeltest"
)

// TestAnthropicStream: the events of the wire, one by one.
func TestAnthropicStream(t *testing.T) {
	ctx, server := serve(t, `
model a
  step
    think "hm"
    say "one two"
    call f {"a": 1}
    usage input=50 cached=7 output=12
`)
	_, stream, err := ask(t, ctx, server.URL+"/messages", m{"model": "a", "stream": true, "max_tokens": 9, "messages": []any{m{"role": "user", "content": "go"}}})
	if err != nil {
		t.Fatal(err)
	}
	const usage = `"usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":7,"input_tokens":43,"output_tokens":`
	want := []string{
		`event: message_start`,
		`data: {"message":{"content":[],"id":"msg_mt_1","model":"a","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message",` + usage + `1}},"type":"message_start"}`,
		`event: ping`, `data: {"type":"ping"}`,
		`event: content_block_start`, `data: {"content_block":{"signature":"","thinking":"","type":"thinking"},"index":0,"type":"content_block_start"}`,
		`event: content_block_delta`, `data: {"delta":{"thinking":"hm","type":"thinking_delta"},"index":0,"type":"content_block_delta"}`,
		`event: content_block_delta`, `data: {"delta":{"signature":"mts_1b8325be2a16b6e69c0a7392","type":"signature_delta"},"index":0,"type":"content_block_delta"}`,
		`event: content_block_stop`, `data: {"index":0,"type":"content_block_stop"}`,
		`event: content_block_start`, `data: {"content_block":{"text":"","type":"text"},"index":1,"type":"content_block_start"}`,
		`event: content_block_delta`, `data: {"delta":{"text":"one ","type":"text_delta"},"index":1,"type":"content_block_delta"}`,
		`event: content_block_delta`, `data: {"delta":{"text":"two","type":"text_delta"},"index":1,"type":"content_block_delta"}`,
		`event: content_block_stop`, `data: {"index":1,"type":"content_block_stop"}`,
		`event: content_block_start`, `data: {"content_block":{"id":"call_1_3","input":{},"name":"f","type":"tool_use"},"index":2,"type":"content_block_start"}`,
		`event: content_block_delta`, `data: {"delta":{"partial_json":"{\"a","type":"input_json_delta"},"index":2,"type":"content_block_delta"}`,
		`event: content_block_delta`, `data: {"delta":{"partial_json":"\":1}","type":"input_json_delta"},"index":2,"type":"content_block_delta"}`,
		`event: content_block_stop`, `data: {"index":2,"type":"content_block_stop"}`,
		`event: message_delta`, `data: {"delta":{"stop_reason":"tool_use","stop_sequence":null},"type":"message_delta",` + usage + `12}}`,
		`event: message_stop`, `data: {"type":"message_stop"}`,
	}
	if diff := cmp.Diff(want, strings.FieldsFunc(stream, func(r rune) bool { return r == '\n' })); diff != "" {
		t.Error(diff)
	}
}

// TestAnthropicConversation: every form in which the wire has a history.
func TestAnthropicConversation(t *testing.T) {
	ctx, server := serve(t, "model a\nstep\nsay \"one\"\nrepeat\n")
	image := m{"type": "image", "source": m{"type": "base64", "media_type": "image/png", "data": "AA=="}}
	text := func(s string) m { return m{"type": "text", "text": s} }
	_, body, err := ask(t, ctx, server.URL+"/messages", m{
		"model": "a", "stream": true, "max_tokens": 9, "system": []any{text("s")},
		"tools": []any{m{"name": "ns__f", "input_schema": m{"type": "object"}}},
		"messages": []any{
			m{"role": "user", "content": []any{text("see"), image, text("<developer_message>\nbrief\n</developer_message>")}},
			m{"role": "assistant", "content": []any{
				m{"type": "redacted_thinking", "data": "x"},
				text("I look"),
				m{"type": "tool_use", "id": "1", "name": "ns__f", "input": m{}},
				m{"type": "tool_use", "id": "2", "name": "g", "input": m{}},
			}},
			m{"role": "user", "content": []any{
				m{"type": "tool_result", "tool_use_id": "2", "content": "text", "is_error": true},
				m{"type": "tool_result", "tool_use_id": "1", "content": []any{text("seen"), image}},
				text("go on"),
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(body, `"stop_reason":"end_turn"`) {
		t.Errorf("got %s", body)
	}
	got := server.Engine.Requests()[0]
	want := modeltest.Conversation{Model: "a", Tools: []string{"ns__f"}, Entries: []modeltest.Entry{
		{Role: modeltest.RoleSystem, Text: "s"},
		{Role: modeltest.RoleUser, Text: "see\n[image]"},
		{Role: modeltest.RoleSystem, Text: "<developer_message>\nbrief\n</developer_message>"},
		{Role: modeltest.RoleAssistant},
		{Role: modeltest.RoleAssistant, Text: "I look"},
		{Role: modeltest.RoleAssistant, Call: "ns__f"},
		{Role: modeltest.RoleAssistant, Call: "g"},
		{Role: modeltest.RoleTool, Text: "text"},
		{Role: modeltest.RoleTool, Text: "seen\n[image]"},
		{Role: modeltest.RoleUser, Text: "go on"},
	}}
	if diff := cmp.Diff(want, got.Conversation); diff != "" || got.Wire != "anthropic" {
		t.Errorf("wire %s: %s", got.Wire, diff)
	}
}

// TestAnthropicRules: what the provider refuses is refused, in its own form.
func TestAnthropicRules(t *testing.T) {
	ctx, server := serve(t, "model a\nstep\nsay \"one\"\nrepeat\n")
	user := m{"role": "user", "content": "go"}
	calls := m{"role": "assistant", "content": []any{m{"type": "tool_use", "id": "1", "name": "f", "input": m{}}}}
	answers := func(id string) m {
		return m{"role": "user", "content": []any{m{"type": "tool_result", "tool_use_id": id}}}
	}
	for _, tt := range []struct {
		name     string
		messages []any
		change   m
		want     string
	}{
		{"no bound", []any{user}, m{"max_tokens": 0}, "max_tokens: field required"},
		{"no stream", []any{user}, m{"stream": false}, "only streams"},
		{"no messages", []any{}, nil, `the first message must use the \"user\" role`},
		{"assistant first", []any{calls}, nil, `the first message must use the \"user\" role`},
		{"no result", []any{user, calls, user}, nil, "messages.1: `tool_use` blocks have no `tool_result`"},
		{"no result at the end", []any{user, calls}, nil, "1 `tool_use` blocks have no `tool_result`"},
		{"result of nothing", []any{user, calls, answers("2")}, nil, "messages.2.content.0: unexpected `tool_result`"},
		{"result too late", []any{user, calls, m{"role": "user", "content": []any{m{"type": "text", "text": "x"}, m{"type": "tool_result", "tool_use_id": "1"}}}}, nil, "messages.2.content.1: unexpected"},
		{"one id twice", []any{user, m{"role": "assistant", "content": []any{m{"type": "tool_use", "id": "1"}, m{"type": "tool_use", "id": "1"}}}}, nil, "ids must be unique"},
		{"empty text", []any{m{"role": "user", "content": " "}}, nil, "non-whitespace"},
		{"empty message", []any{m{"role": "user", "content": []any{}}}, nil, "must not be empty"},
		{"forged thinking", []any{user, m{"role": "assistant", "content": []any{m{"type": "thinking", "thinking": "x", "signature": "mts_0"}}}}, nil, "messages.1.content.0: invalid `signature`"},
		{"role", []any{user, m{"role": "system", "content": "x"}}, nil, `there is no role \"system\"`},
		{"block", []any{m{"role": "user", "content": []any{m{"type": "thinking"}}}}, nil, `a user has no \"thinking\" block`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := m{"model": "a", "stream": true, "max_tokens": 9, "messages": tt.messages}
			for member, value := range tt.change {
				body[member] = value
			}
			status, got, err := ask(t, ctx, server.URL+"/messages", body)
			if err != nil || status != http.StatusBadRequest || !strings.HasPrefix(got, `{"error":{"message":"`) ||
				!strings.Contains(got, tt.want) || !strings.HasSuffix(got, `"type":"invalid_request_error"},"type":"error"}`) {
				t.Errorf("status %d, %v: %s, want %s", status, err, got, tt.want)
			}
		})
	}
}

// TestAnthropicErrors: refusals and broken streams as a script says.
func TestAnthropicErrors(t *testing.T) {
	ctx, server := serve(t, `
model busy
  step
    error 529 overloaded_error "Overloaded" retry-after=3
model fail
  step
    say "one"
    fail overloaded_error "Overloaded"
model cut
  step
    call f {"a": "b"}
    cut
model filter
  step
    say "one"
    finish content_filter
    usage none
`)
	request := func(model string) m {
		return m{"model": model, "stream": true, "max_tokens": 9, "messages": []any{m{"role": "user", "content": "go"}}}
	}
	const overloaded = `{"error":{"message":"Overloaded","type":"overloaded_error"},"type":"error"}`
	status, body, err := ask(t, ctx, server.URL+"/messages", request("busy"))
	if err != nil || status != 529 || body != overloaded {
		t.Errorf("busy: %d %v %s", status, err, body)
	}
	for model, want := range map[string]string{"fail": "event: error\ndata: " + overloaded, "cut": "content_block_stop"} {
		_, body, err := ask(t, ctx, server.URL+"/messages", request(model))
		if err == nil || !strings.Contains(body, want) || strings.Contains(body, "message_stop") {
			t.Errorf("%s: %v: %s", model, err, body)
		}
	}
	_, body, err = ask(t, ctx, server.URL+"/messages", request("filter"))
	if err != nil || !strings.Contains(body, `"stop_reason":"refusal"`) || strings.Contains(body, "usage") {
		t.Errorf("filter: %v: %s", err, body)
	}
}

// TestAnthropicKey: the token is taken from x-api-key too, refused in the
// wire's form, and kept out of the record.
func TestAnthropicKey(t *testing.T) {
	script, err := modeltest.Parse("model a\nstep\nsay \"x\"\nrepeat\n")
	if err != nil {
		t.Fatal(err)
	}
	server, err := modeltest.NewServer(t.Context(), script, "planted-token")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, tt := range []struct {
		header, value string
		want          int
	}{
		{"X-Api-Key", "planted-token", http.StatusOK},
		{"Authorization", "Bearer planted-token", http.StatusOK},
		{"X-Api-Key", "other", http.StatusUnauthorized},
		{"X-Api-Key", "", http.StatusUnauthorized},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/messages", strings.NewReader(`{"model":"a","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(tt.header, tt.value)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != tt.want || tt.want != http.StatusOK && !strings.Contains(string(body), `"type":"authentication_error"},"type":"error"}`) {
			t.Errorf("%s %q: status %d, want %d: %s", tt.header, tt.value, resp.StatusCode, tt.want, body)
		}
	}
	for _, r := range server.Engine.Requests() {
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Api-Key") != "" {
			t.Error("the record holds the token")
		}
	}
}
