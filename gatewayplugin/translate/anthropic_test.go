package translate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/anthropic"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

// noCache keeps the cache marks out of what a test compares.
var noCache = &translate.Quirks{NoCacheControl: true}

// toAnthropic translates a request and reads the outcome.
func toAnthropic(t *testing.T, request string, quirks *translate.Quirks) (anthropic.Request, *translate.Call) {
	t.Helper()
	call, err := translate.AnthropicRequest(parse(t, []byte(request)), origin, quirks)
	if err != nil {
		t.Fatal(err)
	}
	var out anthropic.Request
	if err := json.Unmarshal(call.Body, &out); err != nil {
		t.Fatal(err)
	}
	return out, call
}

func said(text string) anthropic.Block { return anthropic.Block{Type: "text", Text: text} }

func used(id string) anthropic.Block {
	return anthropic.Block{Type: "tool_use", ID: id, Name: "f", Input: json.RawMessage("{}")}
}

func result(id string, content ...anthropic.Block) anthropic.Block {
	return anthropic.Block{Type: "tool_result", ToolUseID: id, Content: content}
}

func byUser(blocks ...anthropic.Block) anthropic.Message {
	return anthropic.Message{Role: "user", Content: blocks}
}

func byAssistant(blocks ...anthropic.Block) anthropic.Message {
	return anthropic.Message{Role: "assistant", Content: blocks}
}

// TestAnthropicHistory: user and assistant take turns, and the results of all
// calls of a message begin the next one, whatever the history looks like.
func TestAnthropicHistory(t *testing.T) {
	const fc = `{"type":"function_call","name":"f","arguments":"{}","call_id":`
	const fo = `{"type":"function_call_output","output":"r","call_id":`
	const image = `{"type":"input_image","image_url":"data:image/png;base64,AA==","detail":"high"}`
	interrupted := result("1", said("[no output: the call was interrupted]"))
	interrupted.IsError = true
	picture := anthropic.Block{Type: "image", Source: &anthropic.Source{Type: "base64", MediaType: "image/png", Data: "AA=="}}
	for _, tt := range []struct {
		name, input string
		want        []anthropic.Message
	}{
		{
			"neighbours are one message",
			`[{"role":"user","content":"a"},{"role":"user","content":[{"type":"input_text","text":"b"},{"type":"input_text","text":"c"}]},{"role":"developer","content":"n"}]`,
			[]anthropic.Message{byUser(said("a"), said("b\nc"), said("<developer_message>\nn\n</developer_message>"))},
		},
		{
			"results come first, in one message",
			`[{"role":"user","content":"u"},{"role":"assistant","content":"a"},` + fc + `"1"},` + fc + `"2"},` + fo + `"2"},{"role":"developer","content":"n"},` + fo + `"1"},{"role":"user","content":"v"}]`,
			[]anthropic.Message{
				byUser(said("u")), byAssistant(said("a"), used("1"), used("2")),
				byUser(result("1", said("r")), result("2", said("r")), said("<developer_message>\nn\n</developer_message>"), said("v")),
			},
		},
		{
			"two turns stay apart",
			`[{"role":"user","content":"u"},` + fc + `"1"},` + fo + `"1"},` + fc + `"2"},` + fo + `"2"}]`,
			[]anthropic.Message{
				byUser(said("u")), byAssistant(used("1")), byUser(result("1", said("r"))),
				byAssistant(used("2")), byUser(result("2", said("r"))),
			},
		},
		{
			"a call without output gets one",
			`[{"role":"user","content":"u"},` + fc + `"1"},{"role":"user","content":"v"}]`,
			[]anthropic.Message{byUser(said("u")), byAssistant(used("1")), byUser(interrupted, said("v"))},
		},
		{
			"an output without call is told as text",
			`[` + fo + `"9"}]`,
			[]anthropic.Message{byUser(said("<tool_output call_id=\"9\">\nr\n</tool_output>"))},
		},
		{
			"ids become legal and unique",
			`[{"role":"user","content":"u"},` + fc + `"a.b:0"},` + fc + `"a_b_0"},` + fo + `"a_b_0"},` + fo + `"a.b:0"}]`,
			[]anthropic.Message{byUser(said("u")), byAssistant(used("a_b_0"), used("a_b_0_2")), byUser(result("a_b_0", said("r")), result("a_b_0_2", said("r")))},
		},
		{
			"an image stays where it is",
			`[{"role":"user","content":[{"type":"input_text","text":"a"},` + image + `,{"type":"input_text","text":"b"}]},` + fc + `"1"},{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"see"},` + image + `]}]`,
			[]anthropic.Message{byUser(said("a"), picture, said("b")), byAssistant(used("1")), byUser(result("1", said("see"), picture))},
		},
		{
			"what can't be shown is told",
			`[{"role":"user","content":[{"type":"input_image","image_url":"data:image/tiff;base64,AA=="},{"type":"input_image","image_url":"https://h/i.png"}]}]`,
			[]anthropic.Message{byUser(said("[an image was left out: its form can't be shown on this route]"), anthropic.Block{Type: "image", Source: &anthropic.Source{Type: "url", URL: "https://h/i.png"}})},
		},
		{
			"the user begins and ends",
			`[{"role":"assistant","content":"a"}]`,
			[]anthropic.Message{
				byUser(said("<developer_message>\nThe conversation's beginning is left out.\n</developer_message>")),
				byAssistant(said("a")), byUser(said("<developer_message>\nGo on.\n</developer_message>")),
			},
		},
		{
			"empty texts and outputs",
			`[{"role":"user","content":"u"},{"role":"assistant","content":" \n"},` + fc + `"1"},{"type":"function_call_output","call_id":"1","output":""},{"role":"user","content":""}]`,
			[]anthropic.Message{byUser(said("u")), byAssistant(used("1")), byUser(result("1"))},
		},
		{
			"a custom tool and bad arguments",
			`[{"role":"user","content":"u"},{"type":"custom_tool_call","name":"f","input":"<&>","call_id":"1"},{"type":"function_call","name":"f","arguments":"{\"a\":","call_id":"2"},{"type":"custom_tool_call_output","call_id":"1","output":"r"},` + fo + `"2"}]`,
			[]anthropic.Message{
				byUser(said("u")),
				byAssistant(anthropic.Block{Type: "tool_use", ID: "1", Name: "f", Input: json.RawMessage(`{"input":"<&>"}`)}, used("2")),
				byUser(result("1", said("r")), result("2", said("r"))),
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := toAnthropic(t, `{"model":"m","stream":true,"input":`+tt.input+`}`, noCache)
			if diff := cmp.Diff(tt.want, out.Messages); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAnthropicToolChoice: every form of tool_choice, with and without calls
// side by side.
func TestAnthropicToolChoice(t *testing.T) {
	for _, tt := range []struct{ choice, parallel, want string }{
		{`"auto"`, "true", `{"type":"auto"}`},
		{`"auto"`, "false", `{"type":"auto","disable_parallel_tool_use":true}`},
		{`null`, "true", `null`},
		{`null`, "false", `{"type":"auto","disable_parallel_tool_use":true}`},
		{`"required"`, "true", `{"type":"any"}`},
		{`"none"`, "false", `{"type":"none"}`},
		{`{"type":"function","namespace":"mcp__probe","name":"echo_x"}`, "true", `{"type":"tool","name":"mcp__probe__echo_x"}`},
		{`{"type":"custom","name":"apply_patch"}`, "false", `{"type":"tool","name":"apply_patch","disable_parallel_tool_use":true}`},
		{`{"type":"web_search"}`, "true", `{"type":"auto"}`},
	} {
		request := strings.Replace(toolsRequest, `"input": "go"`, `"input": "go", "tool_choice": `+tt.choice+`, "parallel_tool_calls": `+tt.parallel, 1)
		out, _ := toAnthropic(t, request, nil)
		got, err := json.Marshal(out.ToolChoice)
		if err != nil || string(got) != tt.want {
			t.Errorf("tool_choice %s, parallel %s = %s, %v, want %s", tt.choice, tt.parallel, got, err, tt.want)
		}
	}
}

// TestAnthropicSchemas: a tool's schema is of type object, without
// alternatives at the top.
func TestAnthropicSchemas(t *testing.T) {
	for parameters, want := range map[string]string{
		`{"type":"object","properties":{"b":{},"a":{}}}`: `{"type":"object","properties":{"b":{},"a":{}}}`,
		`{}`:                                `{"type":"object"}`,
		`null`:                              `{"type":"object","properties":{}}`,
		`[]`:                                `{"type":"object","properties":{}}`,
		`{"type":"object","anyOf":[{},{}]}`: `{"type":"object"}`,
		`{"type":["object","null"],"properties":{}}`: `{"properties":{},"type":"object"}`,
	} {
		out, _ := toAnthropic(t, `{"model":"m","stream":true,"input":"x","tools":[{"type":"function","name":"f","parameters":`+parameters+`}]}`, nil)
		if got := string(out.Tools[0].InputSchema); got != want {
			t.Errorf("parameters %s = %s, want %s", parameters, got, want)
		}
	}
}

// TestAnswerAsTool: where the wire has no format, the answer is a tool's
// input, and Codex sees it as text.
func TestAnswerAsTool(t *testing.T) {
	const format = `"text":{"format":{"type":"json_schema","name":"codex_output_schema","strict":true,"schema":{"type":"object","properties":{"ok":{}}}}}`
	quirks := &translate.Quirks{ForcedTool: true}
	out, call := toAnthropic(t, `{"model":"m","stream":true,"input":"x",`+format+`}`, quirks)
	if len(out.Tools) != 1 || out.ToolChoice.Type != "tool" || out.ToolChoice.Name != out.Tools[0].Name || out.OutputConfig != nil {
		t.Fatalf("tools %+v, choice %+v, config %+v", out.Tools, out.ToolChoice, out.OutputConfig)
	}
	if got := string(out.Tools[0].InputSchema); got != `{"type":"object","properties":{"ok":{}}}` {
		t.Errorf("schema %s", got)
	}
	var items []string
	a := translate.NewAnthropicAnswer("id", origin, call.Tools, func(e responses.Event) error {
		if e.Type == "response.output_item.done" {
			raw, err := json.Marshal(e.Item)
			items = append(items, string(raw))
			return err
		}
		return nil
	})
	for _, data := range []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"` + out.Tools[0].Name + `","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"ok\":true}"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`,
	} {
		if _, err := a.Take([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Finish(); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"type":"message","id":"msg_id_0","role":"assistant","status":"completed","content":[{"type":"output_text","text":"{\"ok\":true}","annotations":[]}]}`}
	if diff := cmp.Diff(want, items); diff != "" {
		t.Error(diff)
	}

	out, _ = toAnthropic(t, strings.Replace(toolsRequest, `"input"`, format+`,"input"`, 1), quirks)
	if len(out.Tools) != 5 || out.ToolChoice.Type != "any" {
		t.Errorf("beside other tools: %d tools, choice %+v", len(out.Tools), out.ToolChoice)
	}
	out, _ = toAnthropic(t, `{"model":"m","stream":true,"input":"x","instructions":"i",`+format+`}`, &translate.Quirks{JSONObjectOnly: true})
	if got := out.System[0].Text; got != "i\n\nAnswer with one JSON object that meets this JSON Schema:\n"+`{"type":"object","properties":{"ok":{}}}` {
		t.Errorf("instructions %q", got)
	}
}

// TestMaxTokensAndMarks: the wire demands a bound of the answer, and takes
// four marks of its cache at most.
func TestMaxTokensAndMarks(t *testing.T) {
	for _, tt := range []struct {
		name, request string
		quirks        translate.Quirks
		max           int64
		marks         int
	}{
		{"default", `{"input":"x","instructions":"i"}`, translate.Quirks{}, 32000, 2},
		{"asked", `{"input":"x","max_output_tokens":7,"tools":[{"type":"function","name":"f"}]}`, translate.Quirks{}, 7, 2},
		{"of the model", `{"input":"x"}`, translate.Quirks{MaxTokens: map[string]int64{"upstream-model": 64000, "*": 1}}, 64000, 1},
		{"of the rest", `{"input":"x","instructions":"i"}`, translate.Quirks{MaxTokens: map[string]int64{"other": 64000, "*": 8192}, NoCacheControl: true}, 8192, 0},
	} {
		out, call := toAnthropic(t, tt.request, &tt.quirks)
		if marks := strings.Count(string(call.Body), `"cache_control":{"type":"ephemeral"}`); out.MaxTokens != tt.max || marks != tt.marks {
			t.Errorf("%s: max_tokens %d, %d marks, want %d, %d", tt.name, out.MaxTokens, marks, tt.max, tt.marks)
		}
	}
}

// TestUsageOfTheCache: what was read from and written to the cache is part of
// the input, and only what was read counts as cached.
func TestUsageOfTheCache(t *testing.T) {
	for _, tt := range []struct{ name, start, end, want string }{
		{"Anthropic", `{"input_tokens":50,"cache_creation_input_tokens":3,"cache_read_input_tokens":7,"output_tokens":1}`, `{"output_tokens":12}`, "60/7/12/72"},
		{"sums at the end", `{"input_tokens":50,"output_tokens":1}`, `{"input_tokens":50,"cache_read_input_tokens":0,"output_tokens":12}`, "50/0/12/62"},
		{"nothing at the beginning", `{"input_tokens":0,"output_tokens":0}`, `{"input_tokens":9,"output_tokens":2}`, "9/0/2/11"},
		{"no output", `{"input_tokens":9,"output_tokens":4}`, `null`, ""},
		{"no input", `null`, `{"output_tokens":4}`, ""},
	} {
		a := translate.NewAnthropicAnswer("id", origin, nil, func(responses.Event) error { return nil })
		for _, data := range []string{`{"type":"message_start","message":{"usage":` + tt.start + `}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + tt.end + `}`} {
			if _, err := a.Take([]byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		var got string
		if u := a.SoFar().Usage; u != nil {
			raw, err := json.Marshal([]uint64{u.InputTokens, u.InputTokensDetails.CachedTokens, u.OutputTokens, u.TotalTokens})
			if err != nil {
				t.Fatal(err)
			}
			got = strings.ReplaceAll(strings.Trim(string(raw), "[]"), ",", "/")
		}
		if got != tt.want {
			t.Errorf("%s: usage %s, want %s", tt.name, got, tt.want)
		}
	}
}
