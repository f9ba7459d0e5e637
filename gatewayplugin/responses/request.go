// Package responses has the types of the OpenAI Responses wire as Codex speaks
// it, and nothing of what becomes of them.
//
// Members that the gateway does not look into stay raw JSON. Unknown members
// are ignored: newer versions of Codex add some.
package responses

import (
	"encoding/json"
	"errors"

	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Request is the body of POST /v1/responses.
type Request struct {
	Model             string                     `json:"model"`
	Instructions      string                     `json:"instructions"`
	Input             []Item                     `json:"input"`
	Tools             []Tool                     `json:"tools"`
	ToolChoice        json.RawMessage            `json:"tool_choice"`
	ParallelToolCalls *bool                      `json:"parallel_tool_calls"`
	Reasoning         *Reasoning                 `json:"reasoning"`
	Text              *Text                      `json:"text"`
	MaxOutputTokens   *int64                     `json:"max_output_tokens"`
	Temperature       json.RawMessage            `json:"temperature"`
	TopP              json.RawMessage            `json:"top_p"`
	Stream            bool                       `json:"stream"`
	PromptCacheKey    string                     `json:"prompt_cache_key"`
	ClientMetadata    map[string]json.RawMessage `json:"client_metadata"`
}

// Reasoning says how much the model shall think.
type Reasoning struct {
	Effort string `json:"effort"` // minimal, low, medium, high, xhigh; may be empty
}

// Text says what the answer must look like.
type Text struct {
	Format    *Format `json:"format"`
	Verbosity string  `json:"verbosity"`
}

// Format is a demanded format of the answer.
type Format struct {
	Type   string          `json:"type"` // text, json_object, json_schema
	Name   string          `json:"name"`
	Strict *bool           `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

// Tool is a tool that the model may call, or a namespace of tools.
type Tool struct {
	Type        string          `json:"type"` // function, custom, namespace, tool_search, or a hosted tool
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Strict      bool            `json:"strict"`
	Parameters  json.RawMessage `json:"parameters"` // of a function and of tool_search
	Execution   string          `json:"execution"`  // of tool_search: client when Codex does it
	Format      *ToolFormat     `json:"format"`     // of a custom tool
	Tools       []Tool          `json:"tools"`      // of a namespace
}

// ToolFormat is the grammar of a custom tool's input.
type ToolFormat struct {
	Type       string `json:"type"`   // text, grammar
	Syntax     string `json:"syntax"` // lark, regex
	Definition string `json:"definition"`
}

// Item is one entry of the conversation. Which members count depends on Type.
type Item struct {
	Type             string          `json:"type"` // "" means message
	Role             string          `json:"role"`
	Content          json.RawMessage `json:"content"` // of a message: string or parts; of reasoning: parts
	CallID           string          `json:"call_id"`
	Name             string          `json:"name"`
	Namespace        string          `json:"namespace"`
	Arguments        json.RawMessage `json:"arguments"`         // a string that holds JSON, not always valid
	Input            string          `json:"input"`             // of a custom tool's call
	Output           json.RawMessage `json:"output"`            // string or parts
	Summary          json.RawMessage `json:"summary"`           // of reasoning: parts
	EncryptedContent string          `json:"encrypted_content"` // of reasoning and compaction: what the provider gave, byte for byte
	Author           string          `json:"author"`            // of an agent_message
	Recipient        string          `json:"recipient"`         // of an agent_message
	Action           json.RawMessage `json:"action"`            // of a local_shell_call
	Tools            []Tool          `json:"tools"`             // of tool_search_output and additional_tools
}

// Decode reads the body of a request. The wire allows a string in place of the
// conversation, for a user's message.
func Decode(body []byte) (*Request, error) {
	var r Request
	err := jsonv1.Unmarshal(body, &r)
	if wrong := (*jsonv1.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field == "input" && wrong.Value == "string" {
		var text struct {
			Request
			Input json.RawMessage `json:"input"` // in place of the other
		}
		if err = jsonv1.Unmarshal(body, &text); err == nil {
			r = text.Request
			r.Input = []Item{{Type: "message", Role: "user", Content: text.Input}}
		}
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// Part is a piece of content.
type Part struct {
	Type     string `json:"type"` // input_text, output_text, input_image, refusal, …
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL string `json:"image_url"`
	Detail   string `json:"detail"`
	Filename string `json:"filename"`
}

// Parts reads a content or output member: null, a string, or an array of
// parts. Anything else becomes one text part that holds its JSON.
func Parts(raw json.RawMessage) []Part {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	switch raw[0] { // a decoder that is given the wrong type has read it all for nothing
	case '"':
		return []Part{{Type: "input_text", Text: String(raw)}}
	case '[':
		var parts []Part
		if jsonv1.Unmarshal(raw, &parts) == nil {
			return parts
		}
	}
	return []Part{{Type: "input_text", Text: string(raw)}}
}

// String reads a member that should be a string; other JSON is returned as it
// stands, null and nothing as "".
func String(raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var text string
	if raw[0] == '"' && jsonv1.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
