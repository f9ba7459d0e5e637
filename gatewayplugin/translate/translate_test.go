package translate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/sse"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/translate"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func inputs(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no inputs %s: %v", pattern, err)
	}
	return paths
}

func parse(t *testing.T, raw []byte) *responses.Request {
	t.Helper()
	req, err := responses.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// members prints a JSON object with a line for each member, and for each
// element of a member that is an array.
func members(t *testing.T, raw []byte) string {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var elements []json.RawMessage
		if json.Unmarshal(object[name], &elements) != nil {
			fmt.Fprintf(&out, "%s: %s\n", name, object[name])
			continue
		}
		for _, e := range elements {
			fmt.Fprintf(&out, "%s[]: %s\n", name, e)
		}
	}
	return out.String()
}

// TestRequestGolden translates requests that real Codex sent (0.149.0 and
// 0.171.0, long texts cut) for each wire; "functions" is Responses where the
// provider knows functions alone.
func TestRequestGolden(t *testing.T) {
	for _, path := range inputs(t, "testdata/request/*.responses.json") {
		name := strings.TrimSuffix(filepath.Base(path), ".responses.json")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for wire, translated := range map[string]func() (*translate.Call, error){
				"chat":      func() (*translate.Call, error) { return translate.ChatRequest(parse(t, raw), origin, nil) },
				"anthropic": func() (*translate.Call, error) { return translate.AnthropicRequest(parse(t, raw), origin, nil) },
				"functions": func() (*translate.Call, error) {
					return translate.ResponsesRequest(parse(t, raw), raw, origin, &translate.Quirks{FunctionsOnly: true}, nil)
				},
			} {
				call, err := translated()
				if err != nil {
					t.Fatal(err)
				}
				got := members(t, call.Body) + "dropped: " + strings.Join(call.Dropped, ", ") + "\n"
				golden(t, "testdata/request/"+name+"."+wire+".golden", got)
			}
		})
	}
}

// origin is where the tests' answers come from.
var origin = translate.Origin{Route: "r", Model: "upstream-model"}

const toolsRequest = `{
	"model": "m", "stream": true, "input": "go",
	"tools": [
		{"type": "function", "name": "exec_command", "parameters": {"type": "object"}},
		{"type": "namespace", "name": "mcp__probe", "tools": [
			{"type": "function", "name": "echo_x"},
			{"type": "function", "name": "a_very_long_tool_name_with_slash_and_more_than_sixty_four_characters_in_total_length"}
		]},
		{"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}}
	]
}`

// taker is an answer of any wire.
type taker interface {
	Take(data []byte) (done bool, err error)
	Finish() (translate.Result, error)
}

// newAnswer begins an answer to toolsRequest on a wire.
func newAnswer(t *testing.T, wire string, emit translate.Emit) taker {
	t.Helper()
	if wire == "anthropic" {
		call, err := translate.AnthropicRequest(parse(t, []byte(toolsRequest)), origin, nil)
		if err != nil {
			t.Fatal(err)
		}
		return translate.NewAnthropicAnswer("id", origin, call.Tools, emit)
	}
	call, err := translate.ChatRequest(parse(t, []byte(toolsRequest)), origin, nil)
	if err != nil {
		t.Fatal(err)
	}
	return translate.NewChatAnswer("id", origin, call.Tools, emit)
}

// feed hands a stream to an answer, up to its end or what can't be read.
func feed(a taker, stream []byte) error {
	events := sse.NewReader(bytes.NewReader(stream))
	for {
		e, err := events.Next()
		if err != nil {
			return nil // the end
		}
		if done, err := a.Take(e.Data); done || err != nil {
			return err
		}
	}
}

// answer feeds a stream to a translator and prints what comes out.
func answer(t *testing.T, wire string, stream []byte) string {
	t.Helper()
	var out strings.Builder
	a := newAnswer(t, wire, func(e responses.Event) error {
		raw, err := json.Marshal(e)
		fmt.Fprintf(&out, "%s\n", raw)
		return err
	})
	if err := feed(a, stream); err != nil {
		t.Fatal(err)
	}
	result, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	usage, err := json.Marshal(result.Usage)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "finish=%q error=%s usage=%s model=%q provider=%q\n", result.Finish, result.Error, usage, result.Model, result.Provider)
	return out.String()
}

// TestAnswerGolden translates streams of providers: whole ones, odd ones and
// broken ones. A broken one never yields a tool call.
func TestAnswerGolden(t *testing.T) {
	for folder, wire := range map[string]string{"testdata/answer/": "chat", "testdata/anthropic_answer/": "anthropic"} {
		for _, path := range inputs(t, folder+"*.sse") {
			name := strings.TrimSuffix(filepath.Base(path), ".sse")
			t.Run(wire+"/"+name, func(t *testing.T) {
				raw, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				golden(t, folder+name+".golden", answer(t, wire, raw))
			})
		}
	}
}

// TestNoHalfCallAtAnyCut: however short a stream is cut, no call comes out
// before the provider has ended the answer.
func TestNoHalfCallAtAnyCut(t *testing.T) {
	for _, tt := range []struct{ wire, path, end string }{
		{"chat", "testdata/answer/calls.sse", `"finish_reason":"tool_calls"`},
		{"anthropic", "testdata/anthropic_answer/calls.sse", `"stop_reason":"tool_use"`},
	} {
		whole, err := os.ReadFile(tt.path)
		if err != nil {
			t.Fatal(err)
		}
		end := bytes.Index(whole, []byte(tt.end))
		if end < 0 {
			t.Fatalf("%s has no %s", tt.path, tt.end)
		}
		for n := range end {
			a := newAnswer(t, tt.wire, func(e responses.Event) error {
				if _, ok := e.Item.(*responses.FunctionCall); ok {
					t.Errorf("%s cut after %d bytes: %s of a call", tt.wire, n, e.Type)
				}
				return nil
			})
			_ = feed(a, whole[:n]) // half an event can't be read
			if result, err := a.Finish(); err != nil || result.Finish != "" {
				t.Errorf("%s cut after %d bytes: finish %q, %v", tt.wire, n, result.Finish, err)
			}
		}
	}
}

// messages translates input items and returns the messages.
func messages(t *testing.T, input string, quirks *translate.Quirks) []map[string]any {
	t.Helper()
	call, err := translate.ChatRequest(parse(t, []byte(`{"model":"m","stream":true,"input":`+input+`}`)), origin, quirks)
	if err != nil {
		t.Fatal(err)
	}
	var out struct{ Messages []map[string]any }
	if err := json.Unmarshal(call.Body, &out); err != nil {
		t.Fatal(err)
	}
	return out.Messages
}

type o = map[string]any

func toolCall(id, arguments string) o {
	return o{"id": id, "type": "function", "function": o{"name": "f", "arguments": arguments}}
}

// TestHistoryRegrouping: every call has its output right behind its message,
// whatever the history looks like.
func TestHistoryRegrouping(t *testing.T) {
	const fc = `{"type":"function_call","name":"f","arguments":"{}","call_id":`
	const fo = `{"type":"function_call_output","output":"r","call_id":`
	for _, tt := range []struct {
		name, input string
		want        []o
	}{
		{
			"text and parallel calls are one message",
			`[{"role":"assistant","content":[{"type":"output_text","text":"a"}]},` + fc + `"1"},` + fc + `"2"},` + fo + `"1"},` + fo + `"2"}]`,
			[]o{
				{"role": "assistant", "content": "a", "tool_calls": []any{toolCall("1", "{}"), toolCall("2", "{}")}},
				{"role": "tool", "tool_call_id": "1", "content": "r"},
				{"role": "tool", "tool_call_id": "2", "content": "r"},
			},
		},
		{
			"a note between outputs moves behind them",
			`[` + fc + `"1"},` + fc + `"2"},` + fo + `"2"},{"role":"developer","content":"n"},` + fo + `"1"}]`,
			[]o{
				{"role": "assistant", "content": nil, "tool_calls": []any{toolCall("1", "{}"), toolCall("2", "{}")}},
				{"role": "tool", "tool_call_id": "1", "content": "r"},
				{"role": "tool", "tool_call_id": "2", "content": "r"},
				{"role": "user", "content": "<developer_message>\nn\n</developer_message>"},
			},
		},
		{
			"two turns stay apart",
			`[` + fc + `"1"},` + fo + `"1"},` + fc + `"2"},` + fo + `"2"}]`,
			[]o{
				{"role": "assistant", "content": nil, "tool_calls": []any{toolCall("1", "{}")}},
				{"role": "tool", "tool_call_id": "1", "content": "r"},
				{"role": "assistant", "content": nil, "tool_calls": []any{toolCall("2", "{}")}},
				{"role": "tool", "tool_call_id": "2", "content": "r"},
			},
		},
		{
			"a call without output gets one",
			`[` + fc + `"1"},{"role":"user","content":"u"}]`,
			[]o{
				{"role": "assistant", "content": nil, "tool_calls": []any{toolCall("1", "{}")}},
				{"role": "tool", "tool_call_id": "1", "content": "[no output: the call was interrupted]"},
				{"role": "user", "content": "u"},
			},
		},
		{
			"an output without call is told as text",
			`[` + fo + `"9"}]`,
			[]o{{"role": "user", "content": "<tool_output call_id=\"9\">\nr\n</tool_output>"}},
		},
		{
			"one id for two calls",
			`[` + fc + `"1"},` + fc + `"1"},{"type":"function_call_output","output":"first","call_id":"1"},{"type":"function_call_output","output":"second","call_id":"1"}]`,
			[]o{
				{"role": "assistant", "content": nil, "tool_calls": []any{toolCall("1", "{}"), toolCall("1_2", "{}")}},
				{"role": "tool", "tool_call_id": "1", "content": "first"},
				{"role": "tool", "tool_call_id": "1_2", "content": "second"},
			},
		},
		{
			"bad arguments become an empty object",
			`[{"type":"function_call","name":"f","arguments":"{\"a\":","call_id":"1"},{"type":"function_call","name":"f","arguments":"","call_id":"2"},` + fo + `"1"},` + fo + `"2"}]`,
			[]o{
				{"role": "assistant", "content": nil, "tool_calls": []any{toolCall("1", "{}"), toolCall("2", "{}")}},
				{"role": "tool", "tool_call_id": "1", "content": "r"},
				{"role": "tool", "tool_call_id": "2", "content": "r"},
			},
		},
		{
			"leading instructions are one system message",
			`[{"role":"developer","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"u"}]`,
			[]o{{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "u"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, messages(t, tt.input, nil)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestQuirks: what a route can't take is replaced as its quirks say.
func TestQuirks(t *testing.T) {
	const image = `{"type":"input_image","image_url":"data:image/png;base64,AA==","detail":"high"}`
	got := messages(t, `[{"role":"user","content":[{"type":"input_text","text":"see"},`+image+`]}]`, &translate.Quirks{NoImages: true})
	want := []o{{"role": "user", "content": "see\n[an image was left out: this model reads text only]"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = messages(t, `[{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},{"role":"assistant","content":"a"}]`, &translate.Quirks{ReasoningContent: true})
	want = []o{{"role": "assistant", "content": "a", "reasoning_content": "hm"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	req := parse(t, []byte(`{"model":"m","stream":true,"input":"x","parallel_tool_calls":true,"tools":[{"type":"function","name":"f"}],"reasoning":{"effort":"xhigh"},"text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}}}`))
	call, err := translate.ChatRequest(req, origin, &translate.Quirks{Effort: map[string]string{"xhigh": "high"}, NoParallelToolCalls: true, JSONObjectOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var out chat.Request
	if err := json.Unmarshal(call.Body, &out); err != nil {
		t.Fatal(err)
	}
	if out.ReasoningEffort != "high" || out.ParallelToolCalls != nil || out.ResponseFormat.Type != "json_object" {
		t.Errorf("effort %q, parallel %v, format %+v", out.ReasoningEffort, out.ParallelToolCalls, out.ResponseFormat)
	}
	if s, _ := out.Messages[0].Content.(string); out.Messages[0].Role != "system" || !strings.Contains(s, `{"type":"object"}`) {
		t.Errorf("the schema is not in the instructions: %+v", out.Messages[0])
	}
}
