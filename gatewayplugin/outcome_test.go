package gatewayplugin_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// wires are the drivers of providers.
var wires = []string{"openai_responses", "openai_chat", "anthropic_messages"}

// ending is a stream of a wire that says "a" and then ends for a reason of that
// wire; an empty reason: there is no stream for it.
func ending(wire, reason string) func(http.ResponseWriter) {
	switch wire {
	case "openai_chat":
		return stream(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"`+reason+`"}]}`, "[DONE]")
	case "anthropic_messages":
		return stream(messageStart, textStart, textDelta, blockStop, stopFor(reason), messageStop)
	}
	return stream(
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}`,
		`{"type":"response.output_text.delta","output_index":0,"delta":"a"}`,
		`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"`+reason+`"}}}`)
}

// TestOutcomeTable: every outcome of a provider, on every wire, reaches Codex
// in the form that makes it do the right thing: ask again (server_error,
// rate_limit_exceeded with its wait), end the turn (invalid_prompt,
// insufficient_quota, server_is_overloaded, context_length_exceeded), or take
// the answer as cut (incomplete). Never as a status, which the versions of
// Codex read differently.
func TestOutcomeTable(t *testing.T) {
	failedWith := func(text string) string { return "response.failed 0/0/0 " + text }
	for _, tt := range []struct {
		name    string
		answer  func(wire string) func(http.ResponseWriter)
		end     string
		kind    string
		resets  string
		outcome string // of the row; "": failed
	}{
		{
			name: "01 429 within the cap", answer: refuses(429, `{"error":{"message":"slow"}}`, "Retry-After", "1.5"),
			end: failedWith("rate_limit_exceeded: slow Please try again in 1.5s."), kind: "rate_limited",
		},
		{
			name: "01 429 beyond the cap", answer: refuses(429, `{"error":{"message":"slow"}}`, "Retry-After", "600"),
			end: failedWith("insufficient_quota: slow"), kind: "rate_limited", resets: "600",
		},
		{
			name: "02 429 without a time", answer: refuses(429, `{"error":{"message":"slow"}}`),
			end: failedWith("rate_limit_exceeded: slow Please try again in 2s."), kind: "rate_limited",
		},
		{
			name: "03 a rate limit within the stream", answer: streams(`{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`),
			end: failedWith("rate_limit_exceeded: slow Please try again in 2s."), kind: "rate_limited",
		},
		{
			name: "04 402 credits", answer: refuses(402, `{"error":{"message":"pay"}}`),
			end: failedWith("insufficient_quota: pay"), kind: "usage_limited",
		},
		{
			name: "04 429 that is a quota", answer: refuses(429, `{"error":{"code":"insufficient_quota","message":"used up"}}`),
			end: failedWith("insufficient_quota: used up"), kind: "usage_limited",
		},
		{
			name: "04 a usage limit with its end", answer: refuses(429, `{"error":{"type":"usage_limit_reached","message":"used up","resets_in_seconds":90}}`),
			end: failedWith("insufficient_quota: used up"), kind: "usage_limited", resets: "in 90 seconds",
		},
		{
			name: "05 401", answer: refuses(401, `{"error":{"message":"who?"}}`),
			end: failedWith("invalid_prompt: the provider refused the route's credentials: who?"), kind: "auth",
		},
		{
			name: "05 403", answer: refuses(403, `{"error":{"message":"no"}}`),
			end: failedWith("invalid_prompt: the provider refused the route's credentials: no"), kind: "auth",
		},
		{
			name: "06 404 model", answer: refuses(404, `{"error":{"message":"no such model"}}`),
			end: failedWith("invalid_prompt: no such model"), kind: "bad_request",
		},
		{
			name: "07 400 schema", answer: refuses(400, `{"error":{"message":"bad tool schema"}}`),
			end: failedWith("invalid_prompt: bad tool schema"), kind: "bad_request",
		},
		{
			name: "07 422", answer: refuses(422, `{"detail":"bad"}`),
			end: failedWith("invalid_prompt: the provider gave no reason"), kind: "bad_request",
		},
		{
			name: "08 context overflow by code", answer: refuses(400, `{"error":{"code":"context_length_exceeded","message":"long"}}`),
			end: failedWith("context_length_exceeded: long"), kind: "context_window",
		},
		{
			name: "08 context overflow by phrase", answer: refuses(422, `{"error":{"message":"Input is too long for this model"}}`),
			end: failedWith("context_length_exceeded: Input is too long for this model"), kind: "context_window",
		},
		{
			name: "09 413", answer: refuses(413, `{"error":{"message":"too large"}}`),
			end: failedWith("invalid_prompt: too large"), kind: "bad_request",
		},
		{
			name: "10 500", answer: refuses(500, `{"error":{"message":"oops"}}`),
			end: failedWith("server_error: oops"), kind: "provider_error",
		},
		{
			name: "10 502", answer: refuses(502, "bad gateway"),
			end: failedWith("server_error: bad gateway"), kind: "provider_error",
		},
		{
			name: "10 504", answer: refuses(504, ""),
			end: failedWith("server_error: the provider gave no reason"), kind: "provider_error",
		},
		{
			name: "10 truncated", answer: func(string) func(http.ResponseWriter) { return stream(`{"type":"ping","choices":[]}`) },
			end: failedWith("server_error: the provider's stream ended before its answer did"), kind: "transport", outcome: "truncated",
		},
		{
			name: "11 529 that may pass", answer: refuses(529, `{"error":{"type":"overloaded_error","message":"busy"}}`),
			end: failedWith("server_error: busy"), kind: "overloaded",
		},
		{
			name: "11 503", answer: refuses(503, `{"error":{"message":"busy"}}`, "Retry-After", "3"),
			end: failedWith("server_error: busy"), kind: "overloaded",
		},
		{
			name: "12 529 that will last", answer: refuses(529, `{"error":{"message":"busy"}}`, "Retry-After", "900"),
			end: failedWith("server_is_overloaded: busy"), kind: "overloaded", resets: "900",
		},
		{
			name: "13 slow_down", answer: refuses(429, `{"error":{"code":"slow_down","message":"slow"}}`),
			end: failedWith("rate_limit_exceeded: slow Please try again in 2s."), kind: "rate_limited",
		},
		{
			name: "14 max tokens", answer: ends(map[string]string{"openai_responses": "max_output_tokens", "openai_chat": "length", "anthropic_messages": "max_tokens"}),
			end: "response.incomplete", outcome: "incomplete",
		},
		{
			name: "15 content filter", answer: ends(map[string]string{"openai_responses": "content_filter", "openai_chat": "content_filter", "anthropic_messages": "refusal"}),
			end: failedWith("invalid_prompt: the provider's content filter stopped the answer"), kind: "content_filter",
		},
		{
			name: "16 error event", answer: streams(`{"type":"error","error":{"type":"api_error","message":"oops"}}`),
			end: failedWith("server_error: oops"), kind: "provider_error",
		},
		{
			name: "17 policy block", answer: refuses(400, `{"error":{"code":"content_policy_violation","message":"not this"}}`),
			end: failedWith("invalid_prompt: not this"), kind: "content_filter",
		},
	} {
		for _, wire := range wires {
			t.Run(tt.name+"/"+wire, func(t *testing.T) {
				r := through(t, newProvider(t, tt.answer(wire)), wire)
				req := r.request(r.ctx, "bearer", "m", "")
				got := r.raw(req).end
				if !strings.HasPrefix(got, tt.end) || tt.kind != "" && got != tt.end {
					t.Errorf("Codex got %q, want %q", got, tt.end)
				}
				outcome := tt.outcome
				if outcome == "" {
					outcome = "failed"
				}
				if row := r.row("s1", 0); row.GetFailureKind() != tt.kind || row.GetOutcome() != outcome || row.GetResetsAt() != tt.resets {
					t.Errorf("row %v, want kind %q, outcome %s, resets %q", row, tt.kind, outcome, tt.resets)
				}
			})
		}
	}
}

// refuses answers on every wire with a status.
func refuses(code int, body string, headers ...string) func(string) func(http.ResponseWriter) {
	return func(string) func(http.ResponseWriter) { return refusal(code, body, headers...) }
}

// streams answers on every wire with the same events.
func streams(events ...string) func(string) func(http.ResponseWriter) {
	return func(string) func(http.ResponseWriter) { return stream(events...) }
}

// ends answers with each wire's own reason to end.
func ends(reasons map[string]string) func(string) func(http.ResponseWriter) {
	return func(wire string) func(http.ResponseWriter) { return ending(wire, reasons[wire]) }
}

// retrying sets up a route with retries and a rig whose pauses are short.
func retrying(t *testing.T, p *provider, retries string) *rig {
	t.Helper()
	r := newRig(t, quick(), nil)
	r.apply("s1", []*gatewaypb.Route{{
		Id: "r", Driver: "openai_chat", BaseUrl: p.URL, SecretName: "KEY", OptionsJson: []byte(`{"retries":` + retries + `}`),
		Models: []*gatewaypb.RouteModel{{Key: "m"}},
	}}, &basepb.Secret{Name: "KEY", Value: []byte(secret)})
	r.issue("s1", "bearer", nil)
	return r
}

// TestRetries: what failed before Codex has seen a part of the answer is sent
// again, a bounded number of times, and each attempt has its row; what Codex
// has begun to see is not.
func TestRetries(t *testing.T) {
	const whole = `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`
	const part = `{"choices":[{"index":0,"delta":{"content":"a"}}]}`
	busy := refusal(503, `{"error":{"message":"busy"}}`)
	for _, tt := range []struct {
		name     string
		retries  string
		answers  []func(http.ResponseWriter) // the last one again and again
		end      string
		attempts []string // outcome and failure kind of each row
	}{
		{"second", "2", []func(http.ResponseWriter){busy, stream(whole)}, "response.completed", []string{"failed overloaded", "completed "}},
		{"wait of the provider", "1", []func(http.ResponseWriter){refusal(429, `{}`, "Retry-After", "0.001"), stream(whole)}, "response.completed", []string{"failed rate_limited", "completed "}},
		{"empty stream", "1", []func(http.ResponseWriter){stream(`{"choices":[]}`), stream(whole)}, "response.completed", []string{"truncated transport", "completed "}},
		{"bounded", "2", []func(http.ResponseWriter){busy}, "response.failed 0/0/0 server_error: busy", []string{"failed overloaded", "failed overloaded", "failed overloaded"}},
		{"none", "0", []func(http.ResponseWriter){busy}, "response.failed 0/0/0 server_error: busy", []string{"failed overloaded"}},
		{"nothing to gain", "2", []func(http.ResponseWriter){refusal(400, `{"error":{"message":"bad"}}`)}, "response.failed 0/0/0 invalid_prompt: bad", []string{"failed bad_request"}},
		{"too long a wait", "2", []func(http.ResponseWriter){refusal(429, `{"error":{"message":"later"}}`, "Retry-After", "21")}, "response.failed 0/0/0 insufficient_quota: later", []string{"failed rate_limited"}},
		{"after the first byte", "2", []func(http.ResponseWriter){stream(part)}, "response.failed 0/0/0 server_error: the provider's stream ended before its answer did", []string{"truncated transport"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			p := newProvider(t, func(w http.ResponseWriter) {
				answer := tt.answers[min(asked, len(tt.answers)-1)]
				asked++
				answer(w)
			})
			r := retrying(t, p, tt.retries)
			if got := r.raw(r.request(r.ctx, "bearer", "m", "")).end; !strings.HasPrefix(got, tt.end) {
				t.Errorf("Codex got %q, want %q", got, tt.end)
			}
			rows := r.rows("s1", 0)
			for i, row := range rows {
				if got := row.GetOutcome() + " " + row.GetFailureKind(); i >= len(tt.attempts) || got != tt.attempts[i] || row.GetAttempt() != uint32(i+1) || row.GetRequestId() != rows[0].GetRequestId() {
					t.Errorf("row %d: %v", i, row)
				}
			}
			if len(rows) != len(tt.attempts) || asked != len(tt.attempts) {
				t.Errorf("%d rows and %d requests upstream, want %d", len(rows), asked, len(tt.attempts))
			}
		})
	}
}

// TestVector33ConnectionEndsAfterFailure: after response.failed the connection ends, though the provider
// holds its own open: Codex waits for the end.
func TestVector33ConnectionEndsAfterFailure(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	p := newProvider(t, func(w http.ResponseWriter) {
		stream(`{"type":"response.failed","response":{"error":{"code":"server_error","message":"oops"}}}`)(w)
		_ = http.NewResponseController(w).Flush()
		<-hold
	})
	r := through(t, p, "openai_responses")
	resp, err := r.client.Do(r.request(r.ctx, "bearer", "m", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !resp.Close || !strings.Contains(string(body), "oops") {
		t.Errorf("body %q, %v, close %v", body, err, resp.Close)
	}
}
