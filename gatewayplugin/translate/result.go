package translate

import (
	"encoding/json"

	"github.com/codex-mmo/codex-mmo/gatewayplugin/chat"
	"github.com/codex-mmo/codex-mmo/gatewayplugin/responses"
)

// Result is how an answer ended.
type Result struct {
	// Finish is stop, pause, length, content_filter or context_window; "" when
	// the stream broke off, and the provider's own word when it is none of
	// ours. After pause the model goes on when it is asked again.
	Finish   string
	Error    json.RawMessage // error object within the stream; nil: none
	Usage    *responses.Usage
	Counts   *chat.Usage // as the provider sent them; nil: none
	Model    string      // as the provider says
	Provider string      // who served it, when told
	Endpoint string      // which of that provider's, when told
	Bytes    int         // of text and arguments that came
	// Generation is the provider's id of the answer.
	Generation string
	// Router is what a provider that routes on said of that; nil: nothing.
	Router *chat.Metadata
}

// SetUsage takes over the counts that a provider sent.
func (r *Result) SetUsage(u *chat.Usage) { r.Counts, r.Usage = u, usage(u) }

// noteRouter takes over what a provider that routes on said of that.
func (r *Result) noteRouter(m *chat.Metadata) {
	if m == nil {
		return
	}
	r.Router = m
	for _, e := range m.Endpoints.Available {
		if e.Selected {
			r.Provider, r.Endpoint = e.Provider, e.Tag
		}
	}
}

// Whole reports whether all of the answer is there.
func (r *Result) Whole() bool { return r.Error == nil && (r.Finish == "stop" || r.Finish == "pause") }

// usage returns what Codex may be told: all counts that it needs, or nil.
func usage(u *chat.Usage) *responses.Usage {
	if u.PromptTokens == nil || u.CompletionTokens == nil {
		return nil
	}
	out := &responses.Usage{InputTokens: *u.PromptTokens, OutputTokens: *u.CompletionTokens}
	out.TotalTokens = out.InputTokens + out.OutputTokens
	if u.TotalTokens != nil {
		out.TotalTokens = *u.TotalTokens
	}
	if d := u.PromptTokensDetails; d != nil && d.CachedTokens != nil {
		out.InputTokensDetails.CachedTokens = *d.CachedTokens
	}
	if d := u.CompletionDetails; d != nil && d.ReasoningTokens != nil {
		out.OutputTokensDetails.ReasoningTokens = *d.ReasoningTokens
	}
	return out
}

// finishWord maps the reasons to end that providers use to ours.
func finishWord(reason string) string {
	switch reason {
	case "stop", "tool_calls", "function_call", "eos", "end_turn", "stop_sequence", "tool_use":
		return "stop"
	case "pause_turn":
		return "pause"
	case "length", "max_tokens", "max_output_tokens":
		return "length"
	case "content_filter", "refusal", "safety", "SAFETY":
		return "content_filter"
	case "model_context_window_exceeded", "context_length_exceeded":
		return "context_window"
	}
	return reason
}
