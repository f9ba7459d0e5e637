// Package anthropic has the types of the Anthropic Messages wire in the
// dialects that providers speak, and nothing of what becomes of them.
package anthropic

import "encoding/json"

// Version is the value of the anthropic-version header for this package's
// types. There has been no later one since 2023.
const Version = "2023-06-01"

// Request is the body of POST /v1/messages.
type Request struct {
	Model        string          `json:"model"`
	MaxTokens    int64           `json:"max_tokens"` // of the answer, thinking included; the wire demands it
	System       []Block         `json:"system,omitempty"`
	Messages     []Message       `json:"messages"` // the first is the user's, roles alternate
	Tools        []Tool          `json:"tools,omitempty"`
	ToolChoice   *ToolChoice     `json:"tool_choice,omitempty"`
	Thinking     *Thinking       `json:"thinking,omitempty"`
	OutputConfig *OutputConfig   `json:"output_config,omitempty"`
	Temperature  json.RawMessage `json:"temperature,omitempty"`
	TopP         json.RawMessage `json:"top_p,omitempty"`
	Stream       bool            `json:"stream"`
}

// Message is one message of the conversation.
type Message struct {
	Role    string  `json:"role"`    // user, assistant
	Content []Block `json:"content"` // at least one
}

// Block is a piece of a message. Which members count depends on Type.
type Block struct {
	Type string `json:"type"` // text, image, tool_use, tool_result, thinking, redacted_thinking

	Text   string  `json:"text,omitempty"`   // text; the wire refuses one of white space alone
	Source *Source `json:"source,omitempty"` // image

	ID    string          `json:"id,omitempty"`    // tool_use; of letters, digits, _ and -
	Name  string          `json:"name,omitempty"`  // tool_use
	Input json.RawMessage `json:"input,omitempty"` // tool_use: a JSON object

	ToolUseID string  `json:"tool_use_id,omitempty"` // tool_result
	Content   []Block `json:"content,omitempty"`     // tool_result: text and images
	IsError   bool    `json:"is_error,omitempty"`    // tool_result

	Thinking  *string `json:"thinking,omitempty"`  // thinking; may be the empty text
	Signature string  `json:"signature,omitempty"` // thinking: the provider's seal, bound to the model
	Data      string  `json:"data,omitempty"`      // redacted_thinking

	CacheControl *CacheControl `json:"cache_control,omitempty"`
}

// Source is where an image comes from.
type Source struct {
	Type      string `json:"type"`                 // base64, url
	MediaType string `json:"media_type,omitempty"` // of base64: image/jpeg, image/png, image/gif, image/webp
	Data      string `json:"data,omitempty"`       // of base64
	URL       string `json:"url,omitempty"`        // of url
}

// CacheControl marks the end of a prefix that the provider shall keep. A
// request may have four marks.
type CacheControl struct {
	Type string `json:"type"` // ephemeral
}

// Tool is a tool that the model may call.
type Tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"` // its type must be object
	CacheControl *CacheControl   `json:"cache_control,omitempty"`
}

// ToolChoice says which tools the model must call.
type ToolChoice struct {
	Type                   string `json:"type"`           // auto, any, tool, none
	Name                   string `json:"name,omitempty"` // of tool
	DisableParallelToolUse bool   `json:"disable_parallel_tool_use,omitempty"`
}

// Thinking says how the model thinks before it answers.
type Thinking struct {
	Type         string `json:"type"`                    // adaptive, enabled
	BudgetTokens int64  `json:"budget_tokens,omitempty"` // of enabled: 1024 up to max_tokens
	Display      string `json:"display,omitempty"`       // summarized, omitted
}

// OutputConfig says how much work goes into the answer, and its form.
type OutputConfig struct {
	Effort string  `json:"effort,omitempty"` // low, medium, high, xhigh, max
	Format *Format `json:"format,omitempty"`
}

// Format demands JSON.
type Format struct {
	Type   string          `json:"type"` // json_schema
	Schema json.RawMessage `json:"schema"`
}
