// Package chat has the types of the OpenAI Chat Completions wire in the
// dialects that providers speak, and nothing of what becomes of them.
package chat

import "encoding/json"

// Request is the body of POST /chat/completions.
type Request struct {
	Model             string          `json:"model"`
	Messages          []Message       `json:"messages"`
	Tools             []Tool          `json:"tools,omitempty"`
	ToolChoice        any             `json:"tool_choice,omitempty"` // string or *NamedTool
	ParallelToolCalls *bool           `json:"parallel_tool_calls,omitempty"`
	ResponseFormat    *ResponseFormat `json:"response_format,omitempty"`
	ReasoningEffort   string          `json:"reasoning_effort,omitempty"`
	Verbosity         string          `json:"verbosity,omitempty"`
	PromptCacheKey    string          `json:"prompt_cache_key,omitempty"`
	MaxTokens         *int64          `json:"max_completion_tokens,omitempty"`
	Temperature       json.RawMessage `json:"temperature,omitempty"`
	TopP              json.RawMessage `json:"top_p,omitempty"`
	Stream            bool            `json:"stream"`
	StreamOptions     *StreamOptions  `json:"stream_options,omitempty"`
}

// StreamOptions asks for the usage at the stream's end.
type StreamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// Message is one message of the conversation.
type Message struct {
	Role             string `json:"role"`    // system, user, assistant, tool
	Content          any    `json:"content"` // string, []Part, or nil beside tool calls
	ReasoningContent string `json:"reasoning_content,omitempty"`
	// ReasoningDetails is what OpenRouter gave, in the same order.
	ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
	ToolCalls        []ToolCall      `json:"tool_calls,omitempty"`
	ToolCallID       string          `json:"tool_call_id,omitempty"`
}

// Part is a piece of a user's message.
type Part struct {
	Type     string    `json:"type"` // text, image_url
	Text     string    `json:"text,omitempty"`
	ImageURL *ImageURL `json:"image_url,omitempty"`
}

// ImageURL is an image by URL, mostly a data URL.
type ImageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

// ToolCall is a call in the history.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"` // function
	Function Function `json:"function"`
	// ExtraContent is what Gemini gave with the call: its thought's signature.
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

// Function is a called function.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON text
}

// Tool is a function that the model may call.
type Tool struct {
	Type     string       `json:"type"` // function
	Function ToolFunction `json:"function"`
}

// ToolFunction describes a function.
type ToolFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict,omitempty"`
}

// NamedTool as a tool choice forces one function.
type NamedTool struct {
	Type     string    `json:"type"` // function
	Function NamedFunc `json:"function"`
}

// NamedFunc names a function.
type NamedFunc struct {
	Name string `json:"name"`
}

// ResponseFormat demands JSON.
type ResponseFormat struct {
	Type       string      `json:"type"` // json_object, json_schema
	JSONSchema *JSONSchema `json:"json_schema,omitempty"`
}

// JSONSchema is a schema for the answer.
type JSONSchema struct {
	Name   string          `json:"name"`
	Strict *bool           `json:"strict,omitempty"`
	Schema json.RawMessage `json:"schema"`
}

// Chunk is one event of the answer's stream.
type Chunk struct {
	ID       string          `json:"id"`
	Model    string          `json:"model"`
	Provider string          `json:"provider"` // OpenRouter: who served it
	Choices  []Choice        `json:"choices"`
	Usage    json.RawMessage `json:"usage"` // a Usage, when it can be read as one
	Metadata *Metadata       `json:"openrouter_metadata"`
	Error    json.RawMessage `json:"error"` // an error within the stream
	Object   string          `json:"object"`
	Message  string          `json:"message"` // of an error whose object is "error"
}

// Text is text of the model. Mistral sends it in parts, of which only those
// of type text have a text.
type Text string

// UnmarshalJSON reads a string, null, or an array of parts.
func (t *Text) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '[' {
		return json.Unmarshal(raw, (*string)(t))
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type == "text" {
			*t += Text(p.Text)
		}
	}
	return nil
}

// Metadata is what OpenRouter says of its own way to a provider, when it was
// asked to with a header.
type Metadata struct {
	Attempt   *uint32 `json:"attempt"` // the one that succeeded, from 1
	Endpoints struct {
		Available []Endpoint `json:"available"`
	} `json:"endpoints"`
}

// Endpoint is one place that could serve.
type Endpoint struct {
	Provider string `json:"provider"`
	Tag      string `json:"tag"`
	Selected bool   `json:"selected"`
}

// Choice is one alternative; only the first is asked for.
type Choice struct {
	Index        int    `json:"index"`
	Delta        Delta  `json:"delta"`
	FinishReason string `json:"finish_reason"`
}

// Delta is what a chunk adds.
type Delta struct {
	Content          Text            `json:"content"`
	Refusal          string          `json:"refusal"`
	ReasoningContent string          `json:"reasoning_content"` // DeepSeek, Kimi, GLM, vLLM
	Reasoning        string          `json:"reasoning"`         // OpenRouter, Ollama
	ReasoningDetails json.RawMessage `json:"reasoning_details"` // OpenRouter: an array
	ToolCalls        []CallDelta     `json:"tool_calls"`
}

// CallDelta is a piece of a tool call.
type CallDelta struct {
	Index        *int            `json:"index"`
	ID           string          `json:"id"`
	Function     FunctionDelta   `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"` // Gemini
}

// FunctionDelta is a piece of a called function.
type FunctionDelta struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a string piece; some send the whole object
}

// Usage counts tokens. A count that was not sent is nil.
type Usage struct {
	PromptTokens        *uint64         `json:"prompt_tokens"`
	CompletionTokens    *uint64         `json:"completion_tokens"`
	TotalTokens         *uint64         `json:"total_tokens"`
	PromptTokensDetails *PromptDetails  `json:"prompt_tokens_details"`
	CompletionDetails   *OutputDetails  `json:"completion_tokens_details"`
	Cost                json.RawMessage `json:"cost"` // OpenRouter: USD, a number
}

// PromptDetails splits the prompt's tokens.
type PromptDetails struct {
	CachedTokens     *uint64 `json:"cached_tokens"`
	CacheWriteTokens *uint64 `json:"cache_write_tokens"` // OpenRouter
}

// OutputDetails splits the answer's tokens.
type OutputDetails struct {
	ReasoningTokens *uint64 `json:"reasoning_tokens"`
}
