package gatewayplugin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// offlineOn is a route to a script over a wire.
func offlineOn(wire, script string) *gatewaypb.Route {
	options, _ := json.Marshal(map[string]string{"script": script, "wire": wire})
	return &gatewaypb.Route{Id: "r", Driver: "offline", OptionsJson: options, Models: []*gatewaypb.RouteModel{{Key: "m"}}}
}

// TestOfflineOnEveryWire: a conversation with thinking, parallel calls of
// namespaced and freeform tools, an interruption by the user and an end gives
// Codex the same over all wires. The scripted model refuses what Anthropic
// would: broken turns, lost results, and thinking that came back changed.
func TestOfflineOnEveryWire(t *testing.T) {
	const script = `
model m
  step
    think "Two at once."
    say "I call."
    call mcp__probe echo_x {"text": "b"}
    custom apply_patch "*** Begin"
    usage input=50 cached=7 output=12
  step
    think "Now the end."
    say "They said ${@output 1} and ${@output 2}."
    usage input=60 cached=50 output=9
  when user starts "more"
    step
      say "More: ${@output last}"
`
	const tools = `[{"type":"namespace","name":"mcp__probe","tools":[{"type":"function","name":"echo_x"}]},{"type":"custom","name":"apply_patch"}]`
	for _, wire := range []string{"openai_responses", "openai_chat", "anthropic_messages"} {
		r := newRig(t, nil, nil)
		r.apply("s1", []*gatewaypb.Route{offlineOn(wire, script)})
		r.issue("s1", "bearer", nil)
		input := []string{
			`{"type":"message","role":"developer","content":"You are a test."}`,
			`{"type":"message","role":"user","content":"go"}`,
		}
		var seen []string
		turn := func() {
			t.Helper()
			body := fmt.Sprintf(`{"model":"m","stream":true,"reasoning":{"effort":"high"},"tools":%s,"input":[%s]}`, tools, strings.Join(input, ","))
			answer := r.raw(r.request(r.ctx, "bearer", "m", body))
			for _, item := range answer.items {
				input = append(input, item.raw)
				seen = append(seen, item.String())
			}
			seen = append(seen, answer.end)
		}
		turn()
		input = append(
			input,
			`{"type":"function_call_output","call_id":"call_1_3","output":"one"}`,
			`{"type":"message","role":"developer","content":"Be brief."}`,
			`{"type":"custom_tool_call_output","call_id":"call_1_4","output":"two"}`,
		)
		turn()
		input = append(input, `{"type":"message","role":"user","content":"more"}`)
		turn()
		want := []string{
			"reasoning: Two at once.", "message: I call.", `function_call: mcp__probe/echo_x {"text":"b"} call_1_3`, "custom_tool_call: /apply_patch *** Begin call_1_4",
			"response.completed 50/7/12",
			"reasoning: Now the end.", "message: They said one and two.",
			"response.completed 60/50/9",
			"message: More: two",
			"response.completed 300/0/10",
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("%s: %s", wire, diff)
		}
		row := r.row("s1", 0)
		if row.GetOutcome() != "completed" || !row.GetScripted() || row.GetInputTokens() != 50 || row.GetCachedInputTokens() != 7 || row.GetOutputTokens() != 12 {
			t.Errorf("%s: row %v", wire, row)
		}
	}
}

// rawAnswer is an answer with its items as Codex keeps them.
type rawAnswer struct {
	items []rawItem
	end   string // type of the last event with its usage
}

type rawItem struct {
	raw                                     string
	Type, Namespace, Name, Arguments, Input string
	CallID                                  string `json:"call_id"`
	Content                                 []struct{ Text string }
}

func (i rawItem) String() string {
	if i.CallID != "" {
		return fmt.Sprintf("%s: %s/%s %s%s %s", i.Type, i.Namespace, i.Name, i.Arguments, i.Input, i.CallID)
	}
	var text string
	for _, c := range i.Content {
		text += c.Text
	}
	return i.Type + ": " + text
}

// raw sends a request and reads the answer's items.
func (r *rig) raw(req *http.Request) rawAnswer {
	r.t.Helper()
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var out rawAnswer
	for line := range strings.Lines(string(body)) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type     string
			Item     json.RawMessage
			Response struct {
				EndTurn *bool `json:"end_turn"`
				Error   *struct{ Code, Message string }
				Usage   struct {
					Input   int `json:"input_tokens"`
					Details struct {
						Cached int `json:"cached_tokens"`
					} `json:"input_tokens_details"`
					Output int `json:"output_tokens"`
				}
			}
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			r.t.Fatalf("event %s: %v", data, err)
		}
		if e.Type == "response.output_item.done" {
			item := rawItem{raw: string(e.Item)}
			if err := json.Unmarshal(e.Item, &item); err != nil {
				r.t.Fatal(err)
			}
			out.items = append(out.items, item)
		}
		u := e.Response.Usage
		out.end = fmt.Sprintf("%s %d/%d/%d", e.Type, u.Input, u.Details.Cached, u.Output)
		if e.Response.Error != nil {
			out.end += " " + e.Response.Error.Code + ": " + e.Response.Error.Message
		}
		if e.Response.EndTurn != nil {
			out.end += fmt.Sprintf(" end_turn=%v", *e.Response.EndTurn)
		}
	}
	return out
}

// messageStart and the others are the events of an Anthropic stream.
const (
	messageStart = `{"type":"message_start","message":{"model":"served","usage":{"input_tokens":40,"cache_creation_input_tokens":8,"cache_read_input_tokens":2,"output_tokens":1}}}`
	textStart    = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	textDelta    = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`
	blockStop    = `{"type":"content_block_stop","index":0}`
	messageStop  = `{"type":"message_stop"}`
)

func stopFor(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `"},"usage":{"output_tokens":5}}`
}

// TestAnthropicFailures: whatever an Anthropic provider does, Codex gets the
// code by which it does what is right, and the row says what happened and what
// it cost so far. No answer and no row holds the key.
func TestAnthropicFailures(t *testing.T) {
	refused := func(status int, kind, message string, headers ...string) func(http.ResponseWriter) {
		return refusal(status, `{"type":"error","error":{"type":"`+kind+`","message":"`+message+`"},"request_id":"req_1"}`, headers...)
	}
	begun := func(events ...string) func(http.ResponseWriter) {
		return stream(append([]string{messageStart, textStart, textDelta, blockStop}, events...)...)
	}
	for _, tt := range []failureCase{
		{name: "rate limit", answer: refused(429, "rate_limit_error", "slow down", "Retry-After", "7"), code: "rate_limit_exceeded", message: "slow down Please try again in 7s.", kind: "rate_limited"},
		{name: "rate limit without a time", answer: refused(429, "rate_limit_error", "slow"), code: "rate_limit_exceeded", message: "slow Please try again in 2s.", kind: "rate_limited"},
		{name: "long rate limit", answer: refused(429, "rate_limit_error", "later", "Retry-After", "600"), code: "insufficient_quota", message: "later", kind: "rate_limited", resets: "600"},
		{name: "billing", answer: refused(402, "billing_error", "pay"), code: "insufficient_quota", message: "pay", kind: "usage_limited"},
		{name: "no credit", answer: refused(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."), code: "insufficient_quota", message: "Your credit balance is too low to access the Anthropic API.", kind: "usage_limited"},
		{name: "bad key", answer: refused(401, "authentication_error", "invalid x-api-key "+secret), code: "invalid_prompt", message: "the provider refused the route's credentials: invalid x-api-key [secret]", kind: "auth"},
		{name: "forbidden", answer: refused(403, "permission_error", "no"), code: "invalid_prompt", message: "the provider refused the route's credentials: no", kind: "auth"},
		{name: "no such model", answer: refused(404, "not_found_error", "model: x"), code: "invalid_prompt", message: "model: x", kind: "bad_request"},
		{name: "bad request", answer: refused(400, "invalid_request_error", "messages.1: bad"), code: "invalid_prompt", message: "messages.1: bad", kind: "bad_request"},
		{name: "too large", answer: refused(413, "request_too_large", "Request exceeds the maximum size"), code: "invalid_prompt", message: "Request exceeds the maximum size", kind: "bad_request"},
		{name: "too long", answer: refused(400, "invalid_request_error", "prompt is too long: 201000 tokens > 200000 maximum"), code: "context_length_exceeded", message: "prompt is too long: 201000 tokens > 200000 maximum", kind: "context_window"},
		{name: "no room for the answer", answer: refused(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 2"), code: "context_length_exceeded", message: "input length and `max_tokens` exceed context limit: 1 + 2 > 2", kind: "context_window"},
		{name: "broken", answer: refused(500, "api_error", "Internal server error"), code: "server_error", message: "Internal server error", kind: "provider_error"},
		{name: "timeout", answer: refused(504, "timeout_error", "slow"), code: "server_error", message: "slow", kind: "provider_error"},
		{name: "overloaded", answer: refused(529, "overloaded_error", "Overloaded"), code: "server_error", message: "Overloaded", kind: "overloaded"},
		{name: "overloaded in the stream", answer: begun(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), code: "server_error", message: "Overloaded", kind: "overloaded", input: 50},
		{name: "limit in the stream", answer: begun(`{"type":"error","error":{"type":"rate_limit_error","message":"limit"}}`), code: "rate_limit_exceeded", message: "limit Please try again in 2s.", kind: "rate_limited", input: 50},
		{name: "bad request in the stream", answer: begun(`{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`), code: "invalid_prompt", message: "no", kind: "bad_request", input: 50},
		{name: "no reason to stop", answer: begun(messageStop), code: "server_error", message: "the provider's stream ended before its answer did", kind: "transport", outcome: "truncated", input: 50},
		{name: "cut between events", answer: begun(), code: "server_error", message: "the provider's stream ended before its answer did", kind: "transport", outcome: "truncated", input: 50},
		{name: "cut event", answer: begun(`{"type":"content_block_st`), code: "server_error", message: "the provider sent an event that can't be read", kind: "transport", outcome: "truncated", input: 50},
		{name: "broken connection", answer: func(w http.ResponseWriter) {
			begun()(w)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, code: "server_error", message: "the provider's stream broke off: unexpected EOF", kind: "transport", outcome: "truncated", input: 50},
		{name: "half a call", answer: begun(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}`), code: "server_error", message: "the provider's stream ended before its answer did", kind: "transport", outcome: "truncated", input: 50},
		{name: "refusal", answer: begun(stopFor("refusal"), messageStop), code: "invalid_prompt", message: "the provider's content filter stopped the answer", kind: "content_filter", input: 50},
		{name: "window", answer: begun(stopFor("model_context_window_exceeded"), messageStop), code: "context_length_exceeded", message: "the conversation does not fit into the model's context window", kind: "context_window", input: 50},
		{name: "unknown end", answer: begun(stopFor("dreaming"), messageStop), code: "server_error", message: `the provider ended the answer with "dreaming"`, kind: "transport", input: 50},
		{name: "page", answer: refusal(200, `<html>login</html>`, "Content-Type", "text/html"), code: "server_error", message: "the provider answered with text/html instead of a stream: the provider gave no reason", kind: "provider_error"},
		{name: "whole answer at once", answer: refusal(200, `{"type":"message","content":[]}`), code: "server_error", message: "the provider answered with application/json instead of a stream: the provider gave no reason", kind: "provider_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.run(t, "anthropic_messages")
			h := p.header
			if h.Get("X-Api-Key") != secret || h.Get("Authorization") != "" || h.Get("Anthropic-Version") != "2023-06-01" || h.Get("X-Title") != "mmo" || p.path != "/api/v1/messages" {
				t.Errorf("upstream got %v at %s", h, p.path)
			}
		})
	}
}

// TestAnthropicEnds: how an answer ends that is no failure.
func TestAnthropicEnds(t *testing.T) {
	for _, tt := range []struct{ name, reason, want, outcome string }{
		{"end", "end_turn", "response.completed 50/2/5", "completed"},
		{"stop sequence", "stop_sequence", "response.completed 50/2/5", "completed"},
		{"pause", "pause_turn", "response.completed 50/2/5 end_turn=false", "completed"},
		{"length", "max_tokens", "response.incomplete 50/2/5", "incomplete"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProvider(t, stream(messageStart, textStart, `{"type":"ping"}`, textDelta, blockStop, stopFor(tt.reason), messageStop))
			r := through(t, p, "anthropic_messages")
			answer := r.raw(r.request(r.ctx, "bearer", "m", ""))
			if answer.end != tt.want {
				t.Errorf("end %s, want %s", answer.end, tt.want)
			}
			row := r.row("s1", 0)
			if row.GetOutcome() != tt.outcome || row.GetInputTokens() != 50 || row.GetCachedInputTokens() != 2 || row.GetOutputTokens() != 5 || row.ReasoningTokens != nil || row.GetUpstreamModel() != "vendor/m" {
				t.Errorf("row %v", row)
			}
			var body struct{ Model string }
			if err := json.Unmarshal(p.body, &body); err != nil || body.Model != "vendor/m" {
				t.Errorf("upstream got model %q, %v", body.Model, err)
			}
		})
	}
}

// TestAnthropicBaseURL: with and without the version, and with a header that
// asks for a newer one.
func TestAnthropicBaseURL(t *testing.T) {
	p := newProvider(t, stream(messageStart, stopFor("end_turn"), messageStop))
	for base, want := range map[string]string{"": "/v1/messages", "/": "/v1/messages", "/v1": "/v1/messages", "/anthropic/v1/": "/anthropic/v1/messages"} {
		r := newRig(t, nil, nil)
		r.apply("s1", []*gatewaypb.Route{{
			Id: "r", Driver: "anthropic_messages", BaseUrl: p.URL + base, SecretName: "KEY",
			OptionsJson: []byte(`{"headers":{"anthropic-version":"2099-01-01"}}`), Models: []*gatewaypb.RouteModel{{Key: "m"}},
		}}, &basepb.Secret{Name: "KEY", Value: []byte(secret)})
		r.issue("s1", "bearer", nil)
		if answer := r.raw(r.request(r.ctx, "bearer", "m", "")); answer.end != "response.completed 50/2/5" {
			t.Errorf("base URL %q: %s", base, answer.end)
		}
		if p.path != want || p.header.Get("Anthropic-Version") != "2099-01-01" {
			t.Errorf("base URL %q: asked at %s for %s", base, p.path, p.header.Get("Anthropic-Version"))
		}
	}
}
