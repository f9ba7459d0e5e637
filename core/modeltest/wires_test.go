package modeltest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/modeltest"
)

// player speaks one wire: it keeps the conversation as its wire has it.
type player interface {
	path() string
	request() any
	hears(text string)
	// takes reads an answer into the conversation and returns what it holds.
	takes(t *testing.T, stream string) exchange
	// gives adds the outputs of the latest answer's calls.
	gives(outputs ...string)
}

// exchange is an answer, free of its wire.
type exchange struct {
	Text, Thought string
	Calls         []string // name and input
	End           string
	Input, Output int
}

// TestOneScriptOnAllWires: the same script gives the same answers and the same
// conversation on Responses, Chat Completions and Anthropic Messages.
func TestOneScriptOnAllWires(t *testing.T) {
	const script = `
model a
  step
    think "Two <calls> at once."
    say "I ask."
    call ns f {"q": "ü ${@user 1}"}
    call g {}
    usage input=50 cached=7 output=12
  step
    custom h "raw ${job_id 2}"
    usage input=60 cached=50 output=5
  step
    say "They said ${@output last}."
    finish length
  when user starts "again"
    step
      say "Once more."
`
	var entries []modeltest.Entry // of the first wire
	for _, p := range []player{&responsesPlayer{}, &chatPlayer{}, &anthropicPlayer{}} {
		ctx, server := serve(t, script)
		var got []exchange
		next := func() {
			t.Helper()
			status, stream, err := ask(t, ctx, server.URL+p.path(), p.request())
			if err != nil || status != http.StatusOK {
				t.Fatalf("%s: status %d, %v: %s", p.path(), status, err, stream)
			}
			got = append(got, p.takes(t, stream))
		}
		p.hears("go")
		next()
		p.gives(`{"job_id":"j1"}`, `{"job_id":"j2"}`)
		next()
		p.gives("done")
		next()
		p.hears("again")
		next()
		want := []exchange{
			{"I ask.", "Two <calls> at once.", []string{`ns__f{"q":"ü go"}`, `g{}`}, "calls", 50, 12},
			{"", "", []string{`h{"input":"raw j2"}`}, "calls", 60, 5},
			{"They said done.", "", nil, "length", 300, 10},
			{"Once more.", "", nil, "stop", 400, 10},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", p.path(), diff)
		}
		requests := server.Engine.Requests()
		last := requests[len(requests)-1].Conversation.Entries
		if entries == nil {
			entries = spoken(last)
		}
		if diff := cmp.Diff(entries, spoken(last)); diff != "" {
			t.Errorf("%s has another conversation than %s: %s", p.path(), "/responses", diff)
		}
	}
}

// spoken leaves out the entries that only some wires have: thoughts and empty
// texts beside calls.
func spoken(entries []modeltest.Entry) []modeltest.Entry {
	var out []modeltest.Entry
	for _, e := range entries {
		if e.Text != "" || e.Call != "" {
			out = append(out, e)
		}
	}
	return out
}

// events reads the JSON of a stream's events.
func events(t *testing.T, stream string, each func(data []byte)) {
	t.Helper()
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if ok && data != "[DONE]" {
			each([]byte(data))
		}
	}
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("event %s: %v", data, err)
	}
}

type responsesPlayer struct {
	input []any
	calls []m
}

func (p *responsesPlayer) path() string   { return "/responses" }
func (p *responsesPlayer) request() any   { return m{"model": "a", "stream": true, "input": p.input} }
func (p *responsesPlayer) hears(s string) { p.input = append(p.input, user(s)) }

func (p *responsesPlayer) gives(outputs ...string) {
	for i, text := range outputs {
		p.input = append(p.input, m{"type": p.calls[i]["type"].(string) + "_output", "call_id": p.calls[i]["call_id"], "output": text})
	}
}

func (p *responsesPlayer) takes(t *testing.T, stream string) exchange {
	x := exchange{End: "stop"}
	p.calls = nil
	events(t, stream, func(data []byte) {
		var e struct {
			Type, Delta string
			Item        m
			Response    struct {
				Usage struct {
					Input  int `json:"input_tokens"`
					Output int `json:"output_tokens"`
				}
			}
		}
		decode(t, data, &e)
		switch e.Type {
		case "response.output_text.delta":
			x.Text += e.Delta
		case "response.reasoning_text.delta":
			x.Thought += e.Delta
		case "response.output_item.done":
			p.input = append(p.input, e.Item)
			if arguments, ok := e.Item["arguments"].(string); ok {
				name := e.Item["name"].(string)
				if ns, ok := e.Item["namespace"].(string); ok {
					name = ns + "__" + name
				}
				x.Calls, p.calls = append(x.Calls, name+compact(t, arguments)), append(p.calls, e.Item)
			}
			if input, ok := e.Item["input"].(string); ok {
				x.Calls, p.calls = append(x.Calls, e.Item["name"].(string)+`{"input":"`+input+`"}`), append(p.calls, e.Item)
			}
		case "response.incomplete":
			x.End = "length"
		}
		x.Input, x.Output = e.Response.Usage.Input, e.Response.Usage.Output
	})
	if len(x.Calls) > 0 {
		x.End = "calls"
	}
	return x
}

type chatPlayer struct {
	messages []any
	calls    []m
}

func (p *chatPlayer) path() string { return "/chat/completions" }
func (p *chatPlayer) request() any { return m{"model": "a", "stream": true, "messages": p.messages} }

func (p *chatPlayer) hears(s string) {
	p.messages = append(p.messages, m{"role": "user", "content": s})
}

func (p *chatPlayer) gives(outputs ...string) {
	for i, text := range outputs {
		p.messages = append(p.messages, m{"role": "tool", "tool_call_id": p.calls[i]["id"], "content": text})
	}
}

func (p *chatPlayer) takes(t *testing.T, stream string) exchange {
	var x exchange
	p.calls = nil
	events(t, stream, func(data []byte) {
		var c struct {
			Choices []struct {
				Delta struct {
					Content          string
					ReasoningContent string `json:"reasoning_content"`
					ToolCalls        []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				FinishReason string `json:"finish_reason"`
			}
			Usage struct {
				Input  int `json:"prompt_tokens"`
				Output int `json:"completion_tokens"`
			}
		}
		decode(t, data, &c)
		x.Input, x.Output = c.Usage.Input, c.Usage.Output
		for _, choice := range c.Choices {
			x.Text += choice.Delta.Content
			x.Thought += choice.Delta.ReasoningContent
			for _, call := range choice.Delta.ToolCalls {
				if call.ID != "" {
					p.calls = append(p.calls, m{"id": call.ID, "type": "function", "function": m{"name": call.Function.Name, "arguments": ""}})
				}
				f := p.calls[call.Index]["function"].(m)
				f["arguments"] = f["arguments"].(string) + call.Function.Arguments
			}
			if choice.FinishReason != "" {
				x.End = strings.ReplaceAll(choice.FinishReason, "tool_calls", "calls")
			}
		}
	})
	for _, call := range p.calls {
		f := call["function"].(m)
		x.Calls = append(x.Calls, f["name"].(string)+compact(t, f["arguments"].(string)))
	}
	p.messages = append(p.messages, m{"role": "assistant", "content": x.Text, "tool_calls": p.calls})
	return x
}

type anthropicPlayer struct {
	messages []any
	blocks   []m
}

func (p *anthropicPlayer) path() string { return "/messages" }
func (p *anthropicPlayer) request() any {
	return m{"model": "a", "stream": true, "max_tokens": 100, "messages": p.messages}
}

func (p *anthropicPlayer) hears(s string) {
	p.messages = append(p.messages, m{"role": "user", "content": s})
}

func (p *anthropicPlayer) gives(outputs ...string) {
	var results []m
	for _, b := range p.blocks {
		if b["type"] == "tool_use" {
			results = append(results, m{"type": "tool_result", "tool_use_id": b["id"], "content": outputs[len(results)]})
		}
	}
	p.messages = append(p.messages, m{"role": "user", "content": results})
}

func (p *anthropicPlayer) takes(t *testing.T, stream string) exchange {
	var x exchange
	p.blocks = nil
	var inputs []string
	events(t, stream, func(data []byte) {
		var e struct {
			Type  string
			Index int
			Block m `json:"content_block"`
			Delta struct {
				Type, Text, Thinking, Signature string
				PartialJSON                     string `json:"partial_json"`
				StopReason                      string `json:"stop_reason"`
			}
			Usage struct {
				Input  int `json:"input_tokens"`
				Read   int `json:"cache_read_input_tokens"`
				Output int `json:"output_tokens"`
			}
		}
		decode(t, data, &e)
		switch e.Type {
		case "content_block_start":
			p.blocks, inputs = append(p.blocks, e.Block), append(inputs, "")
		case "content_block_delta":
			b := p.blocks[e.Index]
			for member, piece := range map[string]string{"text": e.Delta.Text, "thinking": e.Delta.Thinking, "signature": e.Delta.Signature} {
				if piece != "" {
					b[member] = b[member].(string) + piece
				}
			}
			inputs[e.Index] += e.Delta.PartialJSON
		case "content_block_stop":
			if p.blocks[e.Index]["type"] == "tool_use" {
				p.blocks[e.Index]["input"] = json.RawMessage(inputs[e.Index])
			}
		case "message_delta":
			x.End = map[string]string{"end_turn": "stop", "tool_use": "calls", "max_tokens": "length"}[e.Delta.StopReason]
			x.Input, x.Output = e.Usage.Input+e.Usage.Read, e.Usage.Output
		}
	})
	for i, b := range p.blocks {
		switch b["type"] {
		case "text":
			x.Text += b["text"].(string)
		case "thinking":
			x.Thought += b["thinking"].(string)
		case "tool_use":
			x.Calls = append(x.Calls, b["name"].(string)+compact(t, inputs[i]))
		}
	}
	p.messages = append(p.messages, m{"role": "assistant", "content": p.blocks})
	return x
}

// compact returns JSON without spaces.
func compact(t *testing.T, raw string) string {
	t.Helper()
	var value any
	decode(t, []byte(raw), &value)
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
