package gatewayplugin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

const secret = "planted-secret-0123456789"

// provider serves a canned answer and keeps the last request.
type provider struct {
	*httptest.Server
	answer func(http.ResponseWriter)
	header http.Header
	body   []byte
	path   string
}

func newProvider(t *testing.T, answer func(http.ResponseWriter)) *provider {
	t.Helper()
	p := &provider{answer: answer}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.header, p.path = r.Header, r.URL.Path
		p.body, _ = io.ReadAll(r.Body)
		p.answer(w)
	}))
	t.Cleanup(p.Close)
	return p
}

// through sets up a route with a secret to a provider.
func through(t *testing.T, p *provider, driver string) *rig {
	t.Helper()
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{{
		Id: "r", Driver: driver, BaseUrl: p.URL + "/api/", SecretName: "KEY",
		OptionsJson: []byte(`{"headers":{"X-Title":"mmo"},"retries":0}`),
		Models:      []*gatewaypb.RouteModel{{Key: "m", UpstreamId: "vendor/m"}},
	}}, &basepb.Secret{Name: "KEY", Value: []byte(secret)})
	r.issue("s1", "bearer", nil)
	return r
}

// refusal answers with a status, a body, and headers in pairs.
func refusal(status int, body string, headers ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// stream answers with server-sent events.
func stream(events ...string) func(http.ResponseWriter) {
	return refusal(http.StatusOK, "data: "+strings.Join(events, "\n\ndata: ")+"\n\n", "Content-Type", "text/event-stream")
}

// failureCase is an answer of a provider that is no whole answer, and what
// Codex and the attempt's row get of it.
type failureCase struct {
	name    string
	answer  func(http.ResponseWriter)
	code    string // of response.failed
	message string // in response.failed and in the row
	kind    string // the row's failure kind
	outcome string // of the row; empty: failed
	resets  string // the row's resets_at
	input   uint64 // tokens that the row counts
}

// run asks once through a route with this driver and returns the provider,
// which has what was asked of it.
func (c *failureCase) run(t *testing.T, driver string) *provider {
	t.Helper()
	p := newProvider(t, c.answer)
	r := through(t, p, driver)
	status, events := r.do(r.request(r.ctx, "bearer", "m", ""))
	code, message := failed(events)
	if status != http.StatusOK || code != c.code || message != c.message {
		t.Errorf("status %d, failed %q: %q, want %q: %q", status, code, message, c.code, c.message)
	}
	if !strings.HasPrefix(kinds(events), "created ") || strings.Contains(kinds(events), "item.done") {
		t.Errorf("events %s", kinds(events))
	}
	row := r.row("s1", 0)
	outcome := c.outcome
	if outcome == "" {
		outcome = "failed"
	}
	if row.GetFailureKind() != c.kind || row.GetOutcome() != outcome || row.GetResetsAt() != c.resets || row.GetProviderMessage() != c.message || row.GetInputTokens() != c.input {
		t.Errorf("row %v, want kind %s, outcome %s, resets %q, input %d", row, c.kind, outcome, c.resets, c.input)
	}
	if strings.Contains(row.String(), secret) {
		t.Error("the row holds the key")
	}
	return p
}

// TestProviderFailures: whatever a provider does, Codex gets the code by which
// it does what is right, and the row says what happened. No answer and no row
// holds the key.
func TestProviderFailures(t *testing.T) {
	const delta = `{"choices":[{"index":0,"delta":{"content":"a"}}]}`
	for _, tt := range []failureCase{
		{name: "rate limit", answer: refusal(429, `{"error":{"message":"slow down","type":"rate_limit_error"}}`, "Retry-After", "1.5"), code: "rate_limit_exceeded", message: "slow down Please try again in 1.5s.", kind: "rate_limited"},
		{name: "rate limit without a time", answer: refusal(429, `{"message":"slow"}`), code: "rate_limit_exceeded", message: "slow Please try again in 2s.", kind: "rate_limited"},
		{name: "long rate limit", answer: refusal(429, `{"error":"later"}`, "Retry-After", "600"), code: "insufficient_quota", message: "later", kind: "rate_limited", resets: "600"},
		{name: "usage limit", answer: refusal(429, `{"error":{"type":"usage_limit_reached","message":"out of it","resets_at":1796070937}}`), code: "insufficient_quota", message: "out of it", kind: "usage_limited", resets: "1796070937"},
		{name: "no credits", answer: refusal(402, `{"error":{"message":"pay","code":402}}`), code: "insufficient_quota", message: "pay", kind: "usage_limited"},
		{name: "bad key", answer: refusal(401, `{"error":{"message":"key `+secret+` is wrong"}}`), code: "invalid_prompt", message: "the provider refused the route's credentials: key [secret] is wrong", kind: "auth"},
		{name: "forbidden", answer: refusal(403, ``), code: "invalid_prompt", message: "the provider refused the route's credentials: the provider gave no reason", kind: "auth"},
		{name: "no such model", answer: refusal(404, `{"error":{"message":"no model"}}`), code: "invalid_prompt", message: "no model", kind: "bad_request"},
		{name: "bad schema", answer: refusal(400, `{"error":{"message":"bad\n\u0007schema"}}`), code: "invalid_prompt", message: "bad schema", kind: "bad_request"},
		{name: "context by code", answer: refusal(400, `{"error":{"message":"x","code":"context_length_exceeded"}}`), code: "context_length_exceeded", message: "x", kind: "context_window"},
		{name: "context by phrase", answer: refusal(400, `{"error":{"message":"This model's maximum context length is 8"}}`), code: "context_length_exceeded", message: "This model's maximum context length is 8", kind: "context_window"},
		{name: "busy", answer: refusal(529, `{"error":{"type":"overloaded_error","message":"busy"}}`), code: "server_error", message: "busy", kind: "overloaded"},
		{name: "broken", answer: refusal(502, `<html>bad gateway</html>`), code: "server_error", message: "<html>bad gateway</html>", kind: "provider_error"},
		{name: "redirect", answer: refusal(302, ``, "Location", "https://elsewhere.example/"), code: "invalid_prompt", message: "the provider answered with a redirect (HTTP 302), which is not followed; correct base_url", kind: "bad_request"},
		{name: "page", answer: refusal(200, `<html>login</html>`, "Content-Type", "text/html; charset=utf-8"), code: "server_error", message: "the provider answered with text/html instead of a stream: the provider gave no reason", kind: "provider_error"},
		{name: "error with status 200", answer: refusal(200, `{"error":{"message":"no","type":"invalid_request_error"}}`), code: "invalid_prompt", message: "the provider answered with application/json instead of a stream: no", kind: "bad_request"},
		{name: "error in the stream", answer: stream(delta, `{"error":{"code":502,"message":"upstream"}}`), code: "server_error", message: "upstream", kind: "provider_error"},
		{name: "limit in the stream", answer: stream(delta, `{"error":{"code":429,"message":"limit"}}`), code: "rate_limit_exceeded", message: "limit Please try again in 2s.", kind: "rate_limited"},
		{name: "no finish", answer: stream(delta, "[DONE]"), code: "server_error", message: "the provider's stream ended before its answer did", kind: "transport", outcome: "truncated"},
		{name: "cut event", answer: stream(delta, `{"choices":[{"ind`), code: "server_error", message: "the provider sent an event that can't be read", kind: "transport", outcome: "truncated"},
		{name: "broken connection", answer: func(w http.ResponseWriter) {
			stream(delta)(w)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, code: "server_error", message: "the provider's stream broke off: unexpected EOF", kind: "transport", outcome: "truncated"},
		{name: "filter", answer: stream(delta, `{"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}`), code: "invalid_prompt", message: "the provider's content filter stopped the answer", kind: "content_filter"},
		{name: "unknown end", answer: stream(delta, `{"choices":[{"index":0,"delta":{},"finish_reason":"network-error"}]}`), code: "server_error", message: `the provider ended the answer with "network-error"`, kind: "transport"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.run(t, "openai_chat")
			if p.header.Get("Authorization") != "Bearer "+secret || p.header.Get("X-Title") != "mmo" || p.path != "/api/chat/completions" {
				t.Errorf("upstream got %v at %s", p.header, p.path)
			}
		})
	}
}

// TestUnreachableProvider: nobody listens.
func TestUnreachableProvider(t *testing.T) {
	p := newProvider(t, stream())
	p.Close()
	r := through(t, p, "openai_chat")
	_, events := r.ask("bearer", "m")
	if code, message := failed(events); code != "server_error" || !strings.HasPrefix(message, "the provider can't be reached: ") {
		t.Errorf("failed %s: %s", code, message)
	}
	if row := r.row("s1", 0); row.GetFailureKind() != "transport" || row.GetHttpStatus() != 0 {
		t.Errorf("row %v", row)
	}
}

// TestLengthIsIncomplete: an answer cut by the token limit is told as such,
// and its half call is not run.
func TestLengthIsIncomplete(t *testing.T) {
	p := newProvider(t, stream(
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"{\"a"}}]},"finish_reason":"length"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}`, "[DONE]"))
	r := through(t, p, "openai_chat")
	_, events := r.ask("bearer", "m")
	if kinds(events) != "created incomplete" {
		t.Errorf("events %s", kinds(events))
	}
	if row := r.row("s1", 0); row.GetOutcome() != "incomplete" || row.GetInputTokens() != 7 || row.CachedInputTokens != nil {
		t.Errorf("row %v", row)
	}
}

// TestWholeAnswerIsKept: what breaks after the provider has ended the answer
// takes nothing from it, and makes Codex not ask again.
func TestWholeAnswerIsKept(t *testing.T) {
	whole := map[string]string{
		"openai_chat":        `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`,
		"anthropic_messages": strings.Join([]string{messageStart, textStart, textDelta, stopFor("end_turn")}, "\n\ndata: "),
	}
	for driver, events := range whole {
		for name, tail := range map[string]func(http.ResponseWriter){
			"broken connection": func(w http.ResponseWriter) {
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			},
			"no event": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "data: {\"cho\n\n") },
			"nothing":  func(http.ResponseWriter) {},
		} {
			t.Run(driver+"/"+name, func(t *testing.T) {
				r := through(t, newProvider(t, func(w http.ResponseWriter) { stream(events)(w); tail(w) }), driver)
				_, got := r.ask("bearer", "m")
				if kinds(got) != "created output_item.added output_text.delta output_item.done completed" || text(got) != "a" {
					t.Errorf("events %s, text %q", kinds(got), text(got))
				}
				if row := r.row("s1", 0); row.GetOutcome() != "completed" {
					t.Errorf("row %v", row)
				}
			})
		}
	}
}

// TestUsageWithoutCounts: a provider that counts in part leads to no usage for
// Codex, which would sample the turn again, and to absent counts in the row.
func TestUsageWithoutCounts(t *testing.T) {
	p := newProvider(t, stream(
		`{"provider":"Some Host","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":null,"cost":0.25}}`, "[DONE]"))
	r := through(t, p, "openai_chat")
	_, events := r.ask("bearer", "m")
	if last := events[len(events)-1]; last.Type != "response.completed" || last.Response.Usage != nil {
		t.Errorf("last event %s, usage %s", last.Type, last.Response.Usage)
	}
	row := r.row("s1", 0)
	if row.GetInputTokens() != 7 || row.OutputTokens != nil || row.GetCostUsd() != "0.25" || row.GetServingProvider() != "Some Host" || row.GetUpstreamModel() != "vendor/m" || row.GetScripted() {
		t.Errorf("row %v", row)
	}
}

// TestPassThrough: a provider that speaks Responses gets the request as it is,
// but for the model's name and what names this installation; its events come
// back as they are, but for the terminal one.
func TestPassThrough(t *testing.T) {
	p := newProvider(t, stream(
		`{"type":"response.created","response":{"id":"up"}}`,
		`{"type":"response.output_text.delta","delta":"hi","extra":1}`,
		`{"type":"response.output_item.done","item":{"type":"message"}}`,
		`{"type":"response.completed","response":{"id":"up","usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7,"input_tokens_details":null}}}`))
	r := through(t, p, "openai_responses")
	_, events := r.do(r.request(r.ctx, "bearer", "m", `{"model":"m","stream":true,"input":"x","new_member":{"a":1},"client_metadata":{"x-codex-installation-id":"i"}}`))
	if kinds(events) != "created output_text.delta output_item.done completed" || text(events) != "hi" {
		t.Errorf("events %s, text %q", kinds(events), text(events))
	}
	var got map[string]any
	if err := json.Unmarshal(p.body, &got); err != nil {
		t.Fatal(err)
	}
	want := o{"model": "vendor/m", "stream": true, "input": "x", "new_member": o{"a": 1.0}}
	if diff := cmp.Diff(want, got); diff != "" || p.path != "/api/responses" {
		t.Errorf("upstream at %s: %s", p.path, diff)
	}
	if row := r.row("s1", 0); row.GetOutcome() != "completed" || row.GetInputTokens() != 5 || row.GetOutputTokens() != 2 {
		t.Errorf("row %v", row)
	}
}

// TestPassThroughFailures: events that Codex would ignore or wait on become
// response.failed.
func TestPassThroughFailures(t *testing.T) {
	const delta = `{"type":"response.output_text.delta","delta":"hi"}`
	for _, tt := range []struct {
		name    string
		events  []string
		code    string
		message string
	}{
		{"error event", []string{delta, `{"type":"error","code":"server_error","message":"oops"}`}, "server_error", "oops"},
		{"failed", []string{`{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"long"}}}`}, "context_length_exceeded", "long"},
		{"failed without error", []string{`{"type":"response.failed","response":{}}`}, "server_error", "the provider gave no reason"},
		{"cut", []string{delta}, "server_error", "the provider's stream ended before its answer did"},
		{"no event", []string{`[]`}, "server_error", "the provider sent an event that can't be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := through(t, newProvider(t, stream(tt.events...)), "openai_responses")
			_, events := r.ask("bearer", "m")
			if code, message := failed(events); code != tt.code || message != tt.message {
				t.Errorf("failed %q: %q, want %q: %q", code, message, tt.code, tt.message)
			}
		})
	}
}

// TestRoutesChangeUnderRequests: a request goes on with the route that it
// began on, also when that is replaced.
func TestRoutesChangeUnderRequests(t *testing.T) {
	release := make(chan struct{})
	p := newProvider(t, func(w http.ResponseWriter) {
		stream(`{"choices":[{"index":0,"delta":{"content":"old"}}]}`)(w)
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n")
	})
	r := through(t, p, "openai_chat")
	resp, err := r.client.Do(r.request(r.ctx, "bearer", "m", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r.apply("s1", []*gatewaypb.Route{offline("r", hello, "m")})
	close(release)
	if events := readEvents(t, resp.Body); text(events) != "old" || events[len(events)-1].Type != "response.completed" {
		t.Errorf("the request under way: %s", kinds(events))
	}
	if _, events := r.ask("bearer", "m"); text(events) != "hello from here" {
		t.Errorf("the next request: %s", kinds(events))
	}
}
