package anthropic

import "encoding/json"

// Event is one event of the answer's stream. Which members count depends on
// Type.
type Event struct {
	Type    string          `json:"type"`          // message_start, content_block_start, content_block_delta, content_block_stop, message_delta, message_stop, ping, error
	Message *MessageStart   `json:"message"`       // message_start
	Index   int             `json:"index"`         // of the block: content_block_*
	Block   *Block          `json:"content_block"` // content_block_start
	Delta   Delta           `json:"delta"`         // content_block_delta, message_delta
	Usage   *Usage          `json:"usage"`         // message_delta
	Error   json.RawMessage `json:"error"`         // error
}

// MessageStart is the answer before its first block.
type MessageStart struct {
	Model string `json:"model"`
	Usage *Usage `json:"usage"`
}

// Delta is what an event adds.
type Delta struct {
	Type        string `json:"type"`         // text_delta, thinking_delta, signature_delta, input_json_delta
	Text        string `json:"text"`         // text_delta
	Thinking    string `json:"thinking"`     // thinking_delta
	Signature   string `json:"signature"`    // signature_delta
	PartialJSON string `json:"partial_json"` // input_json_delta
	StopReason  string `json:"stop_reason"`  // message_delta
}

// Usage counts tokens, each as a sum since the answer's beginning. A count
// that was not sent is nil.
type Usage struct {
	InputTokens         *uint64 `json:"input_tokens"` // without those of the cache
	CacheCreationTokens *uint64 `json:"cache_creation_input_tokens"`
	CacheReadTokens     *uint64 `json:"cache_read_input_tokens"`
	OutputTokens        *uint64 `json:"output_tokens"`
}
