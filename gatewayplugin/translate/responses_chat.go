// Package translate turns requests and answers of one wire into those of
// another: one file for each pair and direction. It does no I/O and knows no
// provider by name; what differs between providers are members of Quirks.
package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// Call is a translated request.
type Call struct {
	Body    []byte // JSON of the provider's request
	Tools   *Tools // needed to read the answer
	Dropped []string
}

// ChatRequest translates a Responses request into a streaming Chat Completions
// request for the model of origin. quirks may be nil.
func ChatRequest(in *responses.Request, origin Origin, quirks *Quirks) (*Call, error) {
	if quirks == nil {
		quirks = &Quirks{}
	}
	call := &Call{Tools: newTools()}
	var err error
	if in, call.Dropped, err = normal(in); err != nil {
		return nil, err
	}
	out := chat.Request{
		Model: origin.Model, Stream: true, StreamOptions: &chat.StreamOptions{IncludeUsage: true},
		MaxTokens: in.MaxOutputTokens, Temperature: in.Temperature, TopP: in.TopP,
	}
	var dropped []string
	out.Tools, dropped = call.Tools.declare(in.Tools)
	call.Dropped = append(call.Dropped, dropped...)
	for i := range out.Tools {
		out.Tools[i].Function.Parameters = quirks.schema(out.Tools[i].Function.Parameters)
	}
	h := &chatHistory{quirks: quirks, tools: call.Tools, origin: origin}
	out.Messages = h.messages(in)
	call.Dropped = append(call.Dropped, h.dropped...)
	if len(out.Tools) > 0 {
		var dropped bool
		if out.ToolChoice, dropped = call.Tools.choice(in.ToolChoice); dropped {
			call.Dropped = append(call.Dropped, "tool_choice")
		}
		if !quirks.NoParallelToolCalls {
			out.ParallelToolCalls = in.ParallelToolCalls
		}
	}
	if in.Reasoning != nil {
		out.ReasoningEffort = quirks.effort(in.Reasoning.Effort)
		call.Dropped = append(call.Dropped, changedEffort(in.Reasoning.Effort, out.ReasoningEffort)...)
	}
	if in.Text != nil && in.Text.Format != nil {
		format(&out, in.Text.Format, quirks)
	}
	if quirks.Verbosity && in.Text != nil {
		out.Verbosity = in.Text.Verbosity
	} else if in.Text != nil && in.Text.Verbosity != "" {
		call.Dropped = append(call.Dropped, "text.verbosity")
	}
	if quirks.PromptCacheKey {
		out.PromptCacheKey = in.PromptCacheKey
	}
	call.Body, err = encode(out)
	return call, err
}

// changedEffort names an effort that the route asks for in another form.
func changedEffort(asked, sent string) []string {
	if asked == sent || asked == "none" {
		return nil
	}
	if sent == "" {
		sent = "none"
	}
	return []string{"reasoning.effort:" + bounded(asked) + "=" + bounded(sent)}
}

// encode is json.Marshal without the escaping of <, > and &, which costs
// tokens in providers that show the model raw JSON.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := jsonv1.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// format asks for an answer in JSON.
func format(out *chat.Request, f *responses.Format, quirks *Quirks) {
	switch {
	case f.Type == "json_schema" && quirks.JSONObjectOnly:
		out.ResponseFormat = &chat.ResponseFormat{Type: "json_object"}
		addSystem(out, "Answer with one JSON object that meets this JSON Schema:\n"+string(f.Schema))
	case f.Type == "json_schema":
		name := f.Name
		if name == "" {
			name = "answer" // the wire demands one
		}
		out.ResponseFormat = &chat.ResponseFormat{
			Type:       "json_schema",
			JSONSchema: &chat.JSONSchema{Name: name, Strict: f.Strict, Schema: f.Schema},
		}
	case f.Type == "json_object":
		out.ResponseFormat = &chat.ResponseFormat{Type: "json_object"}
	}
}

// addSystem adds a paragraph to the leading system message.
func addSystem(out *chat.Request, text string) {
	if len(out.Messages) > 0 && out.Messages[0].Role == "system" {
		if old, ok := out.Messages[0].Content.(string); ok {
			out.Messages[0].Content = old + "\n\n" + text
			return
		}
	}
	out.Messages = append([]chat.Message{{Role: "system", Content: text}}, out.Messages...)
}

// choice translates tool_choice. dropped tells that what it forces does not
// exist on this wire, so that the model is left free.
func (t *Tools) choice(raw json.RawMessage) (choice any, dropped bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, false
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		return word, false
	}
	var named struct {
		Type      string `json:"type"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	if json.Unmarshal(raw, &named) == nil && (named.Type == "function" || named.Type == "custom") {
		if flat, ok := t.byRef[named.Namespace+"\x00"+named.Name]; ok {
			return &chat.NamedTool{Type: "function", Function: chat.NamedFunc{Name: flat}}, false
		}
		if ref := t.resolve(named.Name); named.Namespace == "" && t.byRef[ref.namespace+"\x00"+ref.name] != "" {
			return &chat.NamedTool{Type: "function", Function: chat.NamedFunc{Name: t.wire(ref.namespace, ref.name)}}, false
		}
	}
	return "auto", true
}

// text joins the texts of parts.
func text(parts []responses.Part) string {
	var texts []string
	for _, p := range parts {
		switch {
		case p.Type == "refusal":
			texts = append(texts, p.Refusal)
		case p.Type == "input_image":
		case p.Type == "input_file":
			texts = append(texts, "[file "+p.Filename+" can't be shown on this route]")
		case p.Type == "input_audio":
			texts = append(texts, "[a recording can't be played on this route]")
		case p.Type == "encrypted_content":
			texts = append(texts, "[a part is encrypted for another provider]")
		default:
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// images returns the images among parts.
func images(parts []responses.Part) []chat.Part {
	var out []chat.Part
	for _, p := range parts {
		if p.Type == "input_image" && p.ImageURL != "" {
			out = append(out, chat.Part{Type: "image_url", ImageURL: &chat.ImageURL{URL: p.ImageURL, Detail: imageDetail(p.Detail)}})
		}
	}
	return out
}

// imageDetail leaves out what the wire does not know, as "original".
func imageDetail(detail string) string {
	switch detail {
	case "low", "high", "auto":
		return detail
	}
	return ""
}
