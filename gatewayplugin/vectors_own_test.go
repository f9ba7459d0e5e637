package gatewayplugin_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// TestVector36SignaturesComeBack: what Gemini and OpenRouter gave with a call
// goes back with it, to the same model alone.
func TestVector36SignaturesComeBack(t *testing.T) {
	var bodies []string
	p := newProvider(t, nil)
	p.answer = func(w http.ResponseWriter) {
		bodies = append(bodies, string(p.body))
		said("tool_calls", `{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"h"}]}`, `{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"m","signature":"sig"}]}`,
			calls(`{"index":0,"id":"c","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"ts"}}}`))(w)
	}
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{{Id: "r", Driver: "openai_chat", BaseUrl: p.URL, Models: []*gatewaypb.RouteModel{{Key: "m"}, {Key: "n"}}}})
	r.issue("s1", "bearer", nil)
	first := r.raw(r.request(r.ctx, "bearer", "m", ""))
	var input []string
	for _, item := range first.items {
		input = append(input, item.raw)
	}
	again := func(model string) string {
		r.raw(r.request(r.ctx, "bearer", model, `{"model":"`+model+`","stream":true,"input":[`+strings.Join(input, ",")+`,{"type":"function_call_output","call_id":"c","output":"r"}]}`))
		return bodies[len(bodies)-1]
	}
	body := again("m")
	for _, want := range []string{
		`"reasoning_details":[{"index":0,"signature":"sig","text":"hm","type":"reasoning.text"}]`,
		`"extra_content":{"google":{"thought_signature":"ts"}}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the second request lacks %s: %s", want, body)
		}
	}
	if body := again("n"); strings.Contains(body, "thought_signature") || strings.Contains(body, "reasoning_details") {
		t.Errorf("another model gets the signature: %s", body)
	}
	if row := r.row("s1", 2); !slices.Equal(row.GetDropped(), []string{"reasoning.state"}) {
		t.Errorf("dropped %v", row.GetDropped())
	}
}

// TestVector43SessionHeader: a provider that demands one gets a name of the
// conversation that is the same for all of its requests and tells nothing.
func TestVector43SessionHeader(t *testing.T) {
	p := newProvider(t, said("stop", `{"content":"a"}`))
	r := newRig(t, nil, nil)
	r.apply("s1", []*gatewaypb.Route{{Id: "r", Driver: "openai_chat", BaseUrl: p.URL, OptionsJson: []byte(`{"session_header":"X-Session-Id"}`), Models: []*gatewaypb.RouteModel{{Key: "m"}}}})
	r.issue("s1", "bearer", nil)
	var seen []string
	for _, thread := range []string{"one", "one", "two"} {
		req := r.request(r.ctx, "bearer", "m", "")
		req.Header.Set("Thread-Id", thread)
		r.do(req)
		seen = append(seen, p.header.Get("X-Session-Id"))
	}
	if len(seen[0]) != 32 || seen[0] != seen[1] || seen[0] == seen[2] {
		t.Errorf("session ids %q", seen)
	}
}

// TestVector45LocalFailure: what the gateway can't translate is its own
// failure: nothing is sent, and the row says so.
func TestVector45LocalFailure(t *testing.T) {
	for _, wire := range []string{"openai_chat", "anthropic_messages"} {
		p := newProvider(t, said("stop"))
		r := through(t, p, wire)
		got := r.raw(r.request(r.ctx, "bearer", "m", `{"model":"m","stream":true,"input":[{"type":"compaction","encrypted_content":"x"}]}`)).end
		if !strings.Contains(got, "invalid_prompt: the gateway can't translate the request: the request holds input.compaction, which this route can't carry") || p.body != nil {
			t.Errorf("%s: %s, sent %s", wire, got, p.body)
		}
		if row := r.row("s1", 0); row.GetAttempt() != 0 || row.GetHttpStatus() != 0 || row.GetFailureKind() != "bad_request" {
			t.Errorf("row %v", row)
		}
	}
}

// TestVector50NoModelHeader: no header of the provider reaches Codex, which
// takes another model's name in one for a verdict on the user.
func TestVector50NoModelHeader(t *testing.T) {
	p := newProvider(t, refusal(200, "data: {\"type\":\"response.completed\",\"response\":{}}\n\n", "Content-Type", "text/event-stream", "Openai-Model", "other", "Set-Cookie", "a=b"))
	r := through(t, p, "openai_responses")
	resp, err := r.client.Do(r.request(r.ctx, "bearer", "m", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for name := range resp.Header {
		if !slices.Contains([]string{"Content-Type", "Cache-Control", "Connection", "Date"}, name) {
			t.Errorf("header %s: %s", name, resp.Header.Get(name))
		}
	}
}
