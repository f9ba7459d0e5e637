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

// thought plays a stream with one thinking block and returns the reasoning
// item as Codex sends it back.
func thought(t *testing.T, answer string, from translate.Origin, block string) string {
	t.Helper()
	var item string
	a := translate.NewAnthropicAnswer(answer, from, nil, func(e responses.Event) error {
		if e.Type == "response.output_item.done" {
			raw, err := json.Marshal(e.Item)
			item = string(raw)
			return err
		}
		return nil
	})
	for _, data := range []string{`{"type":"content_block_start","index":0,"content_block":` + block + `}`, `{"type":"content_block_stop","index":0}`} {
		if _, err := a.Take([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	return item
}

// TestThinkingComesBack: what a model thought goes back to that model on that
// route, byte for byte, and to no other.
func TestThinkingComesBack(t *testing.T) {
	const tail = `,{"type":"function_call","name":"f","arguments":"{}","call_id":"1"},{"type":"function_call_output","call_id":"1","output":"r"}]}`
	const head = `{"model":"m","stream":true,"input":[{"role":"user","content":"u"},`
	const signed = `{"type":"thinking","thinking":"hm <é>","signature":"c2ln+/="}`
	hm, nothing := "hm <é>", ""
	kept := anthropic.Block{Type: "thinking", Thinking: &hm, Signature: "c2ln+/="}
	other := thought(t, "A", translate.Origin{Route: "r", Model: "other"}, signed)
	for _, tt := range []struct {
		name    string
		items   string
		want    []anthropic.Block
		dropped bool
	}{
		{"signed", thought(t, "A", origin, signed), []anthropic.Block{kept}, false},
		{"redacted", thought(t, "A", origin, `{"type":"redacted_thinking","data":"b3BhcXVl"}`), []anthropic.Block{{Type: "redacted_thinking", Data: "b3BhcXVl"}}, false},
		{"not shown", thought(t, "A", origin, `{"type":"thinking","thinking":"","signature":"s"}`), []anthropic.Block{{Type: "thinking", Thinking: &nothing, Signature: "s"}}, false},
		{"of another model", other, nil, true},
		{"of another route", thought(t, "A", translate.Origin{Route: "q", Model: origin.Model}, signed), nil, true},
		{"foreign", `{"type":"reasoning","summary":[],"encrypted_content":"gAAAAAB"}`, nil, true},
		{"damaged", strings.Replace(thought(t, "A", origin, signed), "mmo1:", "mmo1:!", 1), nil, true},
		{"raw", `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":null}`, nil, false},
		{"of an answer that broke off", thought(t, "A", origin, `{"type":"thinking","thinking":"stale","signature":"x"}`) + "," + thought(t, "B", origin, signed), []anthropic.Block{kept}, false},
		{"two of one answer", thought(t, "A", origin, signed) + "," + thought(t, "A", origin, signed), []anthropic.Block{kept, kept}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, call := toAnthropic(t, head+tt.items+tail, noCache)
			want := byAssistant(append(append([]anthropic.Block{}, tt.want...), used("1"))...)
			if diff := cmp.Diff(want, out.Messages[1]); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(call.Dropped, ","); (got == "reasoning.state") != tt.dropped {
				t.Errorf("dropped %q", got)
			}
		})
	}
	out, _ := toAnthropic(t, head+thought(t, "A", origin, signed)+`,{"role":"user","content":"v"}]}`, noCache)
	if diff := cmp.Diff([]anthropic.Message{byUser(said("u"), said("v"))}, out.Messages); diff != "" {
		t.Errorf("thinking that led to nothing: %s", diff)
	}
}

// TestAnthropicThinking: how an effort is asked for, and when it is not.
func TestAnthropicThinking(t *testing.T) {
	const midst = `[{"role":"user","content":"u"},{"type":"function_call","name":"f","arguments":"{}","call_id":"1"},{"type":"function_call_output","call_id":"1","output":"r"}]`
	adaptive := &anthropic.Thinking{Type: "adaptive", Display: "summarized"}
	budget := func(n int64) *anthropic.Thinking { return &anthropic.Thinking{Type: "enabled", BudgetTokens: n} }
	for _, tt := range []struct {
		name     string
		effort   string
		input    string
		choice   string
		quirks   translate.Quirks
		thinking *anthropic.Thinking
		sent     string // output_config.effort
		dropped  string
	}{
		{name: "no effort"},
		{name: "none", effort: "none"},
		{name: "xhigh", effort: "xhigh", thinking: adaptive, sent: "xhigh"},
		{name: "minimal", effort: "minimal", thinking: adaptive, sent: "low", dropped: "reasoning.effort:minimal=low"},
		{name: "mapped", effort: "xhigh", quirks: translate.Quirks{Effort: map[string]string{"xhigh": "max"}}, thinking: adaptive, sent: "max", dropped: "reasoning.effort:xhigh=max"},
		{name: "mapped to nothing", effort: "low", quirks: translate.Quirks{Effort: map[string]string{"low": ""}}, dropped: "reasoning.effort:low=none"},
		{name: "off", effort: "high", quirks: translate.Quirks{Thinking: "off"}},
		{name: "in the midst", effort: "high", input: midst, thinking: adaptive, sent: "high"},
		{name: "forced tool", effort: "high", choice: `"required"`, sent: "high", dropped: "thinking"},
		{name: "budget", effort: "high", quirks: translate.Quirks{Thinking: "budget"}, thinking: budget(20480)},
		{name: "least budget", effort: "minimal", quirks: translate.Quirks{Thinking: "budget"}, thinking: budget(1024)},
		{name: "own budget", effort: "high", quirks: translate.Quirks{Thinking: "budget", ThinkingBudget: map[string]int64{"high": 5000}}, thinking: budget(5000)},
		{name: "room for the answer", effort: "xhigh", quirks: translate.Quirks{Thinking: "budget"}, thinking: budget(24000)},
		{name: "no room", effort: "high", quirks: translate.Quirks{Thinking: "budget", MaxTokens: map[string]int64{"*": 1000}}},
		{name: "budget in the midst", effort: "high", input: midst, quirks: translate.Quirks{Thinking: "budget"}, dropped: "thinking"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.input == "" {
				tt.input = `"u"`
			}
			if tt.choice == "" {
				tt.choice = "null"
			}
			out, call := toAnthropic(t, `{"model":"m","stream":true,"input":`+tt.input+`,"tools":[{"type":"function","name":"f"}],"tool_choice":`+tt.choice+`,"temperature":0.5,"reasoning":{"effort":"`+tt.effort+`"}}`, &tt.quirks)
			if diff := cmp.Diff(tt.thinking, out.Thinking); diff != "" {
				t.Error(diff)
			}
			var sent string
			if out.OutputConfig != nil {
				sent = out.OutputConfig.Effort
			}
			if got := strings.Join(call.Dropped, ","); sent != tt.sent || got != tt.dropped {
				t.Errorf("effort %q, dropped %q, want %q, %q", sent, got, tt.sent, tt.dropped)
			}
			if (out.Temperature != nil) == (tt.thinking != nil) && tt.name != "no room" {
				t.Errorf("temperature %s beside thinking %v", out.Temperature, out.Thinking)
			}
		})
	}
}

// TestBudgetWithoutThoughts: a model that must not think gets no thoughts back.
func TestBudgetWithoutThoughts(t *testing.T) {
	item := thought(t, "A", origin, `{"type":"thinking","thinking":"hm","signature":"s"}`)
	out, _ := toAnthropic(t, `{"model":"m","stream":true,"reasoning":{"effort":"high"},"tools":[{"type":"function","name":"f"}],"tool_choice":"required","input":[{"role":"user","content":"u"},`+item+`,{"role":"assistant","content":"a"},{"role":"user","content":"v"}]}`, noCache)
	if diff := cmp.Diff([]anthropic.Message{byUser(said("u")), byAssistant(said("a")), byUser(said("v"))}, out.Messages); diff != "" {
		t.Error(diff)
	}
}
