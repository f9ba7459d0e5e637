package modeltest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
)

// anthropicWire is the Anthropic Messages wire, streaming.
type anthropicWire struct{}

func (anthropicWire) name() string { return "anthropic" }

func (anthropicWire) errorBody(e *ProviderError) any {
	body := members{"type": e.Type, "message": e.Message}
	if e.ResetsAt != "" {
		body["resets_at"] = e.ResetsAt
	}
	return members{"type": "error", "error": body}
}

func (anthropicWire) encoder(w io.Writer, r *reply) encoder {
	return &anthropicEncoder{w: w, reply: r}
}

// anthropicEncoder keeps the block that is being streamed, and closes it when
// another kind of output begins.
type anthropicEncoder struct {
	w       io.Writer
	reply   *reply
	index   int    // of the current or next block
	open    string // text, thinking, or "" when no block is open
	thought string // text of the open thinking block so far
	calls   int
}

func (e *anthropicEncoder) event(kind string, fields members) error {
	fields["type"] = kind
	return writeEvent(e.w, kind, fields)
}

func (e *anthropicEncoder) begin() error {
	message := members{
		"id": "msg_" + e.reply.id, "type": "message", "role": "assistant", "model": e.reply.model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
	}
	if e.reply.usage != nil {
		message["usage"] = e.usage(1) // the wire begins with some output counted
	}
	if err := e.event("message_start", members{"message": message}); err != nil {
		return err
	}
	return e.event("ping", members{})
}

// usage is the usage so far. The wire's input_tokens leave out what was read
// from the cache.
func (e *anthropicEncoder) usage(output int) members {
	u := e.reply.usage
	return members{
		"input_tokens": max(0, u.Input-u.Cached), "cache_read_input_tokens": u.Cached,
		"cache_creation_input_tokens": 0, "output_tokens": output,
	}
}

// enter makes sure that a block of the kind is open.
func (e *anthropicEncoder) enter(kind string, block members) error {
	if e.open == kind {
		return nil
	}
	if err := e.close(); err != nil {
		return err
	}
	e.open, e.thought = kind, ""
	block["type"] = kind
	return e.event("content_block_start", members{"index": e.index, "content_block": block})
}

func (e *anthropicEncoder) delta(kind, member, piece string) error {
	return e.event("content_block_delta", members{"index": e.index, "delta": members{"type": kind, member: piece}})
}

// close ends the open block; a thinking block is signed first.
func (e *anthropicEncoder) close() error {
	if e.open == "" {
		return nil
	}
	if e.open == "thinking" {
		if err := e.delta("signature_delta", "signature", signature(e.reply.model, e.thought)); err != nil {
			return err
		}
	}
	e.open = ""
	err := e.event("content_block_stop", members{"index": e.index})
	e.index++
	return err
}

func (e *anthropicEncoder) text(piece string) error {
	if err := e.enter("text", members{"text": ""}); err != nil {
		return err
	}
	return e.delta("text_delta", "text", piece)
}

func (e *anthropicEncoder) think(piece string) error {
	if err := e.enter("thinking", members{"thinking": "", "signature": ""}); err != nil {
		return err
	}
	e.thought += piece
	return e.delta("thinking_delta", "thinking", piece)
}

// call sends a call's input in two pieces, since the wire promises no more
// than that the pieces together are JSON.
func (e *anthropicEncoder) call(p part) error {
	input := p.text
	if p.kind == actCustom {
		input = string(object("input", p.text))
	}
	if err := e.close(); err != nil {
		return err
	}
	block := members{"id": p.callID, "name": joined(p.namespace, p.name), "input": members{}}
	if err := e.enter("tool_use", block); err != nil {
		return err
	}
	e.calls++
	half := len(input) / 2
	for half > 0 && input[half]&0xc0 == 0x80 {
		half-- // not within a character
	}
	for _, piece := range []string{input[:half], input[half:]} {
		if err := e.delta("input_json_delta", "partial_json", piece); err != nil {
			return err
		}
	}
	return e.close()
}

func (e *anthropicEncoder) fail(p *ProviderError) error {
	if err := writeEvent(e.w, "error", anthropicWire{}.errorBody(p)); err != nil {
		return err
	}
	return errCut
}

func (e *anthropicEncoder) finish() error {
	if err := e.close(); err != nil {
		return err
	}
	end := members{"delta": members{"stop_reason": e.stopReason(), "stop_sequence": nil}}
	if e.reply.usage != nil {
		end["usage"] = e.usage(e.reply.usage.Output)
	}
	if err := e.event("message_delta", end); err != nil {
		return err
	}
	return e.event("message_stop", members{})
}

func (e *anthropicEncoder) stopReason() string {
	switch {
	case e.reply.finish == "length":
		return "max_tokens"
	case e.reply.finish == "content_filter":
		return "refusal"
	case e.calls > 0:
		return "tool_use"
	}
	return "end_turn"
}

// signature stands for the provider's seal on what the model thought. A
// thinking block that comes back is refused unless it bears it.
func signature(model, thought string) string {
	sum := sha256.Sum256([]byte(model + "\x00" + thought))
	return "mts_" + hex.EncodeToString(sum[:12])
}

// anthropicRequest is the body of a request.
type anthropicRequest struct {
	Model     string             `json:"model"`
	Stream    bool               `json:"stream"`
	MaxTokens int                `json:"max_tokens"`
	System    json.RawMessage    `json:"system"` // a string, or text blocks
	Messages  []anthropicMessage `json:"messages"`
	Tools     []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"` // a string, or blocks
}

// anthropicBlock is a block of a message. Which members count depends on Type.
type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"` // of a tool_result: a string, or blocks
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
}

// blocks reads a content member.
func blocks(raw json.RawMessage) ([]anthropicBlock, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}, nil
	}
	var out []anthropicBlock
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, badRequest("a content is neither text nor a list of blocks: %v", err)
	}
	return out, nil
}
