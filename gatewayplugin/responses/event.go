package responses

import "encoding/json"

// Event is one event of the answer's stream. Members that an event lacks are
// left out.
type Event struct {
	Type         string    `json:"type"`
	Response     *Response `json:"response,omitempty"`
	ItemID       string    `json:"item_id,omitempty"`
	OutputIndex  *int      `json:"output_index,omitempty"`
	ContentIndex *int      `json:"content_index,omitempty"`
	Item         any       `json:"item,omitempty"` // *Message, *FunctionCall, *CustomToolCall, *ToolSearchCall, *ReasoningItem
	Delta        string    `json:"delta,omitempty"`
}

// Response is the answer as a whole.
type Response struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"` // always "response"
	Model             string             `json:"model,omitempty"`
	Status            string             `json:"status"` // in_progress, completed, incomplete, failed
	Output            []any              `json:"output"` // never nil: Codex wants the array, and reads the items from their own events
	Error             *Error             `json:"error"`
	IncompleteDetails *IncompleteDetails `json:"incomplete_details"`
	// Usage is left out when the provider gave none: Codex takes a null or
	// partial one for a broken stream and samples the whole turn again.
	Usage *Usage `json:"usage,omitempty"`
	// EndTurn, when false, makes Codex ask again for the rest of the answer.
	EndTurn *bool `json:"end_turn,omitempty"`
}

// Error says why an answer failed. Codex decides by Code what it does next.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// IncompleteDetails says why an answer stopped early.
type IncompleteDetails struct {
	Reason string `json:"reason"` // max_output_tokens, content_filter
}

// Usage counts tokens. Cached is part of input, reasoning part of output.
type Usage struct {
	InputTokens         uint64        `json:"input_tokens"`
	InputTokensDetails  InputDetails  `json:"input_tokens_details"`
	OutputTokens        uint64        `json:"output_tokens"`
	OutputTokensDetails OutputDetails `json:"output_tokens_details"`
	TotalTokens         uint64        `json:"total_tokens"`
}

// InputDetails splits the input's tokens.
type InputDetails struct {
	CachedTokens uint64 `json:"cached_tokens"`
}

// OutputDetails splits the output's tokens.
type OutputDetails struct {
	ReasoningTokens uint64 `json:"reasoning_tokens"`
}

// Message is a message of the assistant.
type Message struct {
	Type    string       `json:"type"` // message
	ID      string       `json:"id"`
	Role    string       `json:"role"`   // assistant
	Status  string       `json:"status"` // in_progress, completed
	Content []OutputText `json:"content"`
}

// OutputText is text of the assistant.
type OutputText struct {
	Type        string `json:"type"` // output_text
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
}

// FunctionCall is a call of a function. Codex drops one without call_id, and
// one whose arguments are no string.
type FunctionCall struct {
	Type      string `json:"type"` // function_call
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Status    string `json:"status"`
}

// CustomToolCall is a call of a tool with freeform input.
type CustomToolCall struct {
	Type      string `json:"type"` // custom_tool_call
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Input     string `json:"input"`
	Status    string `json:"status"`
}

// ToolSearchCall is a search for tools, which Codex does itself.
type ToolSearchCall struct {
	Type      string          `json:"type"` // tool_search_call
	ID        string          `json:"id"`
	CallID    string          `json:"call_id"`
	Execution string          `json:"execution"` // client
	Arguments json.RawMessage `json:"arguments"` // an object
	Status    string          `json:"status"`
}

// ReasoningItem is what the model thought. Codex drops one without summary.
type ReasoningItem struct {
	Type             string          `json:"type"` // reasoning
	ID               string          `json:"id"`
	Summary          []any           `json:"summary"`
	Content          []ReasoningText `json:"content"`
	EncryptedContent *string         `json:"encrypted_content"`
}

// ReasoningText is raw reasoning.
type ReasoningText struct {
	Type string `json:"type"` // reasoning_text
	Text string `json:"text"`
}
