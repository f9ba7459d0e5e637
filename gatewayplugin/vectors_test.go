package gatewayplugin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	basepb "github.com/codex-mmo/codex-mmo/plugins/base/proto"
	gatewaypb "github.com/codex-mmo/codex-mmo/plugins/gateway/proto"
)

// vector is one known way in which gateways lose or break something.
type vector struct {
	name    string // begins with its number
	wire    string // "": openai_chat
	quirks  string // JSON; "": none
	request string // members of the request beside model and stream; "": an input
	answer  func(http.ResponseWriter)
	sent    []string // that the provider's request must hold
	absent  []string // that it must not hold
	dropped string   // of the row, joined by commas
	want    []string // items and end, as Codex gets them; nil: not looked at
}

const (
	probeTools  = `"tools":[{"type":"function","name":"exec_command","parameters":{"type":"object"}},{"type":"namespace","name":"mcp__probe","tools":[{"type":"function","name":"echo_x","parameters":{"type":"object"}}]},{"type":"custom","name":"apply_patch","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},{"type":"web_search"}]`
	chatDone    = "response.completed 0/0/0"
	unreadable  = "response.failed 0/0/0 server_error: the provider sent an event that can't be read"
	brokenOff   = "response.failed 0/0/0 server_error: the provider's stream ended before its answer did"
	instructing = `"instructions":"be","input":[{"type":"message","role":"developer","content":"brief"},{"type":"message","role":"user","content":"go"},{"type":"message","role":"developer","content":"now"}]`
)

// said is a chat stream of deltas, then a reason to end.
func said(finish string, deltas ...string) func(http.ResponseWriter) {
	var events []string
	for _, d := range deltas {
		events = append(events, `{"choices":[{"index":0,"delta":`+d+`}]}`)
	}
	return stream(append(events, `{"choices":[{"index":0,"delta":{},"finish_reason":"`+finish+`"}]}`, "[DONE]")...)
}

// calls is a delta with tool calls.
func calls(calls ...string) string { return `{"tool_calls":[` + strings.Join(calls, ",") + `]}` }

func callPiece(index, id, name, arguments string) string {
	return `{"index":` + index + `,"id":"` + id + `","function":{"name":"` + name + `","arguments":` + arguments + `}}`
}

// passed is a Responses stream of finished items, then its end.
func passed(items ...string) func(http.ResponseWriter) {
	var events []string
	for _, item := range items {
		events = append(events, `{"type":"response.output_item.done","item":`+item+`}`)
	}
	return stream(append(events, `{"type":"response.completed","response":{"id":"up"}}`)...)
}

var vectors = []vector{
	// What providers refuse, and the conversation that they must get instead.
	{
		name: "01 namespaces are flattened and hosted tools left out", request: probeTools + `,"input":"go"`, answer: said("stop", `{"content":"a"}`),
		sent: []string{`"name":"mcp__probe__echo_x"`, `"name":"apply_patch"`}, absent: []string{"namespace", "web_search"}, dropped: "tools.web_search",
	},
	{
		name: "01 the same on Responses", wire: "openai_responses", quirks: `{"functions_only":true}`, request: probeTools + `,"input":"go"`, answer: passed(),
		sent: []string{`"name":"mcp__probe__echo_x"`, `"name":"apply_patch"`}, absent: []string{"namespace", "web_search", `"custom"`}, dropped: "tools.web_search",
	},
	{
		name: "02 a call of namespace and name in one is split", wire: "openai_responses", request: probeTools + `,"input":"go"`,
		answer: passed(`{"type":"function_call","call_id":"c","name":"mcp__probe.echo_x","arguments":"{}"}`),
		want:   []string{`function_call: mcp__probe/echo_x {} c`, "response.completed 0/0/0"},
	},
	{
		name: "03 no template sees a namespace", wire: "anthropic_messages", request: probeTools + `,"input":"go"`, answer: ending("anthropic_messages", "end_turn"),
		absent: []string{"namespace"}, dropped: "tools.web_search",
	},
	{
		name: "04 flat names come back as namespace and name", request: probeTools + `,"input":"go"`,
		answer:  said("tool_calls", calls(callPiece("0", "a", "mcp__probe__echo_x", `"{}"`), callPiece("1", "b", "probe__echo_x", `"{}"`), callPiece("2", "c", "echo_x", `"{}"`), callPiece("3", "d", "exec_command", `"{}"`))),
		dropped: "tools.web_search",
		want:    []string{`function_call: mcp__probe/echo_x {} a`, `function_call: mcp__probe/echo_x {} b`, `function_call: mcp__probe/echo_x {} c`, `function_call: /exec_command {} d`, chatDone},
	},
	{
		name: "06 a freeform tool comes back with its raw input", request: probeTools + `,"input":"go","tool_choice":{"type":"custom","name":"apply_patch"}`,
		answer:  said("tool_calls", calls(callPiece("0", "a", "apply_patch", `"{\"input\":\"*** Begin\"}"`))),
		sent:    []string{`"tool_choice":{"type":"function","function":{"name":"apply_patch"}}`},
		dropped: "tools.web_search",
		want:    []string{`custom_tool_call: /apply_patch *** Begin a`, chatDone},
	},
	{
		name: "07 tools that come with items, nested, and freeform history", answer: said("tool_calls", calls(callPiece("0", "a", "mcp__late__look", `"{}"`))),
		request: `"input":[{"type":"additional_tools","tools":[{"type":"namespace","name":"mcp__late","tools":[{"type":"function","name":"look"}]}]},{"type":"custom_tool_call","call_id":"p","name":"apply_patch","input":"x"},{"type":"custom_tool_call_output","call_id":"p","output":"done"}]`,
		sent:    []string{`"name":"mcp__late__look"`, `"arguments":"{\"input\":\"x\"}"`, `"role":"tool","content":"done"`},
		want:    []string{`function_call: mcp__late/look {} a`, chatDone},
	},
	{
		name: "08 developer becomes system", request: instructing, answer: said("stop", `{"content":"a"}`),
		sent: []string{`{"role":"system","content":"be\n\nbrief"}`}, absent: []string{`"developer"`},
	},
	{
		name: "09 one system message, and it is the first", request: instructing, answer: said("stop", `{"content":"a"}`),
		sent: []string{`"messages":[{"role":"system","content":"be\n\nbrief"},{"role":"user","content":"go"},{"role":"user","content":"<developer_message>\nnow\n</developer_message>"}]`},
	},
	{
		name: "10 DeepSeek gets its thoughts back with the calls", quirks: `{"reasoning_content":true}`, answer: said("stop", `{"content":"a"}`),
		request: `"input":[{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"r"}]`,
		sent:    []string{`"reasoning_content":"hm","tool_calls":`},
	},
	{
		name: "12 others never get the member", answer: said("stop", `{"content":"a"}`),
		request: `"input":[{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"r"}]`,
		absent:  []string{"reasoning_content"},
	},
	{
		name: "13 outputs stay together, notes between them move", answer: said("stop", `{"content":"a"}`),
		request: `"input":[{"type":"function_call","call_id":"1","name":"view_image","arguments":"{}"},{"type":"function_call","call_id":"2","name":"view_image","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"one"},{"type":"message","role":"developer","content":"note"},{"type":"function_call_output","call_id":"2","output":"two"}]`,
		sent:    []string{`{"role":"tool","content":"one","tool_call_id":"1"},{"role":"tool","content":"two","tool_call_id":"2"},{"role":"user","content":"<developer_message>\nnote\n</developer_message>"}`},
	},
	{
		name: "14 every call has an output", answer: said("stop", `{"content":"a"}`),
		request: `"input":[{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"message","role":"user","content":"stop"}]`,
		sent:    []string{`{"role":"tool","content":"[no output: the call was interrupted]","tool_call_id":"1"}`},
	},
	{
		name: "15 an id that must be changed is changed on both sides", wire: "anthropic_messages", answer: ending("anthropic_messages", "end_turn"),
		request: `"input":[{"type":"message","role":"user","content":"u"},{"type":"function_call","call_id":"exec_command:0","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"exec_command:0","output":"r"}]`,
		sent:    []string{`"id":"exec_command_0"`, `"tool_use_id":"exec_command_0"`},
	},
	{
		name: "17 truncated arguments in the history", answer: said("stop", `{"content":"a"}`),
		request: `"input":[{"type":"function_call","call_id":"1","name":"f","arguments":"{\"a\":"},{"type":"function_call_output","call_id":"1","output":"no"}]`,
		sent:    []string{`"arguments":"{}"`},
	},
	{
		name: "18 empty arguments, and those that come late", answer: said("tool_calls", calls(callPiece("0", "a", "f", `""`), callPiece("1", "b", "g", "null")), calls(callPiece("1", "", "", `"{\"x\":1}"`))),
		want: []string{`function_call: /f {} a`, `function_call: /g {"x":1} b`, chatDone},
	},
	{
		name: "19 an image of a tool follows its message", answer: said("stop", `{"content":"a"}`),
		request: `"input":[{"type":"function_call","call_id":"1","name":"view","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}]`,
		sent:    []string{`{"role":"tool","content":"see\n[images follow in the next message]","tool_call_id":"1"},{"role":"user","content":[`},
	},
	{
		name: "19 a model that reads text is told of it", quirks: `{"no_images":true}`, answer: said("stop", `{"content":"a"}`),
		request: `"input":[{"type":"function_call","call_id":"1","name":"view","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":[{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}]`,
		sent:    []string{"[an image was left out: this model reads text only]"}, absent: []string{"image_url"},
	},
	{
		name: "19 where a tool's message may hold images", quirks: `{"tool_images":true}`, answer: said("stop", `{"content":"a"}`),
		request: `"input":[{"type":"function_call","call_id":"1","name":"view","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}]`,
		sent:    []string{`{"role":"tool","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}],"tool_call_id":"1"}`},
	},
	{
		name: "25 a demanded schema where only JSON can be asked for", quirks: `{"json_object_only":true}`, answer: said("stop", `{"content":"{}"}`),
		request: `"input":"go","text":{"format":{"type":"json_schema","name":"codex_output_schema","strict":true,"schema":{"type":"object"}}}`,
		sent:    []string{`"response_format":{"type":"json_object"}`, `JSON Schema`}, absent: []string{"json_schema\""},
	},
	{
		name: "26 Gemini gets neither a tools member in a tool nor words that it does not know", quirks: `{"drop_schema_words":["additionalProperties","$schema"]}`, answer: said("stop", `{"content":"a"}`),
		request: `"input":"go","tools":[{"type":"namespace","name":"ns","tools":[{"type":"function","name":"f","parameters":{"$schema":"x","type":"object","additionalProperties":false,"properties":{"additionalProperties":{"type":"object","additionalProperties":false}}}}]}]`,
		sent:    []string{`"parameters":{"properties":{"additionalProperties":{"type":"object"}},"type":"object"}`}, absent: []string{`"tools":[{"type":"namespace"`, "$schema"},
	},
	{
		name: "39 a signature goes to no other model", wire: "anthropic_messages", answer: ending("anthropic_messages", "end_turn"),
		request: `"input":[{"type":"message","role":"user","content":"u"},{"type":"reasoning","summary":[],"encrypted_content":"mmo1:eyJyb3V0ZSI6InIiLCJtb2RlbCI6Im90aGVyIiwia2luZCI6ImFudGhyb3BpY190aGlua2luZyIsImRhdGEiOnt9fQ"},{"type":"message","role":"assistant","content":"a"},{"type":"message","role":"user","content":"v"}]`,
		absent:  []string{"signature", `"thinking"`, "mmo1"}, dropped: "reasoning.state",
	},
	{
		name: "40 state of another provider goes to no Responses provider", wire: "openai_responses", answer: passed(),
		request: `"input":[{"type":"message","role":"user","content":"u"},{"type":"reasoning","summary":[],"encrypted_content":"mmo1:eyJ9"},{"type":"reasoning","summary":[],"encrypted_content":"mmo1r:0000000000000000:gAAA"}]`,
		absent:  []string{"mmo1", "gAAA", `"reasoning"`}, dropped: "reasoning.state,reasoning.state",
	},
	{
		name: "40 no state is no empty state", wire: "openai_responses", quirks: `{"functions_only":true}`, answer: passed(),
		request: `"input":[{"type":"message","role":"user","content":"u"},{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"reasoning","summary":[],"encrypted_content":null}]`,
		sent:    []string{`{"summary":[{"type":"summary_text","text":"hm"}],"type":"reasoning"},{"summary":[],"type":"reasoning"}`}, absent: []string{"encrypted_content"},
	},
	{
		name: "42 members that a provider refuses are left out", quirks: `{"omit":["tool_choice","temperature"]}`, answer: said("stop", `{"content":"a"}`),
		request: probeTools + `,"input":"go","tool_choice":"auto","temperature":0.5`, absent: []string{"tool_choice", "temperature"}, dropped: "tools.web_search",
	},

	// What providers send, and what Codex must get.
	{
		name: "21 no reason to end", answer: stream(`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, "[DONE]"), want: []string{brokenOff},
	},
	{
		name: "22 cut after a tool's bytes", answer: stream(`{"choices":[{"index":0,"delta":` + calls(callPiece("0", "a", "f", `"{\"x\":1}"`)) + `}]}`), want: []string{brokenOff},
	},
	{
		name: "22 cut before the end of a Responses answer", wire: "openai_responses",
		answer: stream(`{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c","name":"f","arguments":"{\"x\":"}}`), want: []string{brokenOff},
	},
	{
		name: "23 pause_turn", wire: "anthropic_messages", answer: ending("anthropic_messages", "pause_turn"), want: []string{"message: a", "response.completed 50/2/5 end_turn=false"},
	},
	{
		name: "23 network-error", answer: said("network-error", `{"content":"a"}`), want: []string{`response.failed 0/0/0 server_error: the provider ended the answer with "network-error"`},
	},
	{
		name: "23 model_context_window_exceeded", wire: "anthropic_messages", answer: ending("anthropic_messages", "model_context_window_exceeded"),
		want: []string{"response.failed 0/0/0 context_length_exceeded: the conversation does not fit into the model's context window"},
	},
	{
		name: "29 characters split between packets", answer: func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			for b := range strings.Lines("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"wörld 한글\"},\"finish_reason\":\"stop\"}]}\r\n\r\n") {
				for i := range len(b) {
					_, _ = w.Write([]byte{b[i]})
					_ = http.NewResponseController(w).Flush()
				}
			}
		},
		want: []string{"message: wörld 한글", chatDone},
	},
	{
		name: "30 an error object in the stream", answer: stream(`{"error":{"message":"oops","type":"server_error"}}`), want: []string{"response.failed 0/0/0 server_error: oops"},
	},
	{
		name: "30 an error of another form", answer: stream(`{"object":"error","message":"oops","type":"invalid_request_error","code":400}`), want: []string{"response.failed 0/0/0 invalid_prompt: oops"},
	},
	{
		name:   "35 two chunks with the end",
		answer: stream(`{"choices":[{"index":0,"delta":`+calls(callPiece("0", "a", "f", `"{}"`))+`,"finish_reason":"tool_calls"}]}`, `{"choices":[{"index":0,"delta":`+calls(callPiece("0", "a", "f", `"{}"`))+`,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, "[DONE]"),
		want:   []string{`function_call: /f {} a`, "response.completed 3/0/2"},
	},
	{
		name: "37 calls of one name under one id", answer: said("stop", calls(callPiece("0", "f", "f", `"{\"n\":1}"`)), calls(callPiece("1", "f", "f", `"{\"n\":2}"`))),
		want: []string{`function_call: /f {"n":1} f`, `function_call: /f {"n":2} call_ID_1`, chatDone},
	},
	{
		name: "46 a usage that is null, or has a member that is null", wire: "openai_responses",
		answer: stream(`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"a"}]}}`, `{"type":"response.completed","response":{"usage":{"input_tokens":5,"output_tokens":null}}}`),
		want:   []string{"message: a", "response.completed 0/0/0"},
	},
	{
		name: "47 arguments that are an object", answer: said("tool_calls", calls(callPiece("0", "a", "f", `{"x":1}`))), want: []string{`function_call: /f {"x":1} a`, chatDone},
	},
	{
		name: "47 the same on Responses", wire: "openai_responses", answer: passed(`{"type":"function_call","call_id":"c","name":"f","arguments":{"x":1}}`),
		want: []string{`function_call: /f {"x":1} c`, "response.completed 0/0/0"},
	},
	{
		name: "48 a call without an id", answer: said("tool_calls", calls(`{"function":{"name":"f","arguments":"{}"}}`)), want: []string{`function_call: /f {} call_ID_0`, chatDone},
	},
	{
		name: "48 the same on Responses", wire: "openai_responses", answer: passed(`{"type":"function_call","name":"f","arguments":"{}"}`, `{"type":"function_call","call_id":null,"name":"f"}`),
		want: []string{`function_call: /f {} call_ID_0`, `function_call: /f {} call_ID_1`, "response.completed 0/0/0"},
	},
	{
		name: "49 reasoning without summary, a message without content", wire: "openai_responses", answer: passed(`{"type":"reasoning"}`, `{"type":"message","role":"assistant","content":null}`),
		want: []string{"reasoning: ", "message: ", "response.completed 0/0/0"},
	},
	{
		name: "53 items in the last event alone", wire: "openai_responses",
		answer: stream(`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]},{"type":"function_call","call_id":"c","name":"f","arguments":""}],"usage":{"input_tokens":1,"output_tokens":1}}}`),
		want:   []string{"message: a", `function_call: /f {} c`, "response.completed 1/0/1"},
	},
	{
		name: "54 an error event", wire: "openai_responses", answer: stream(`{"type":"error","code":"server_error","message":"oops"}`), want: []string{"response.failed 0/0/0 server_error: oops"},
	},
	{
		name: "55 a page with status 200", answer: refusal(200, "<html>", "Content-Type", "text/html"), want: []string{"response.failed 0/0/0 server_error: the provider answered with text/html instead of a stream: the provider gave no reason"},
	},
	{
		name: "55 an error with status 200", answer: refusal(200, `{"error":{"message":"no","type":"invalid_request_error"}}`), want: []string{"response.failed 0/0/0 invalid_prompt: the provider answered with application/json instead of a stream: no"},
	},
	{
		name: "55 a page as a stream", answer: refusal(200, "<html>\n\n", "Content-Type", "text/event-stream"), want: []string{brokenOff},
	},
	{
		name: "30 an event that is no JSON", answer: stream("<html>"), want: []string{unreadable},
	},
}

// TestVectors plays every known failure between Codex and a provider. Ids that
// the gateway made are shown as ID.
func TestVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			if v.wire == "" {
				v.wire = "openai_chat"
			}
			if v.quirks == "" {
				v.quirks = "{}"
			}
			if v.request == "" {
				v.request = `"input":"go"`
			}
			p := newProvider(t, v.answer)
			r := newRig(t, nil, nil)
			r.apply("s1", []*gatewaypb.Route{{
				Id: "r", Driver: v.wire, BaseUrl: p.URL, SecretName: "KEY", OptionsJson: []byte(`{"retries":0,"quirks":` + v.quirks + `}`),
				Models: []*gatewaypb.RouteModel{{Key: "m"}},
			}}, &basepb.Secret{Name: "KEY", Value: []byte(secret)})
			r.issue("s1", "bearer", nil)
			answer := r.raw(r.request(r.ctx, "bearer", "m", `{"model":"m","stream":true,`+v.request+`}`))
			if p.body == nil && len(v.sent)+len(v.absent) > 0 {
				t.Fatalf("nothing was sent; Codex got %s", answer.end)
			}
			for _, want := range v.sent {
				if !strings.Contains(string(p.body), want) {
					t.Errorf("the provider's request lacks %s: %s", want, p.body)
				}
			}
			for _, bad := range v.absent {
				if strings.Contains(string(p.body), bad) {
					t.Errorf("the provider's request holds %s: %s", bad, p.body)
				}
			}
			row := r.row("s1", 0)
			if got := strings.Join(row.GetDropped(), ","); got != v.dropped {
				t.Errorf("dropped %q, want %q", got, v.dropped)
			}
			if v.want == nil {
				return
			}
			var got []string
			for _, item := range answer.items {
				got = append(got, strings.ReplaceAll(item.String(), row.GetRequestId(), "ID"))
			}
			if diff := cmp.Diff(v.want, append(got, answer.end)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
