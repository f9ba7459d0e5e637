package translate

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Quirks says how a route differs from what the maker of its wire takes:
// OpenAI for Responses and Chat Completions, Anthropic for Messages. The zero
// value is the maker's own dialect. On disk it is JSON in the route's options.
type Quirks struct {
	// Effort maps Codex's reasoning efforts to the provider's; an effort
	// mapped to "" is left out. Efforts that are not named pass as they are.
	Effort map[string]string `json:"effort,omitempty"`
	// ReasoningContent sends earlier reasoning back with the calls it led to,
	// as DeepSeek and Kimi demand on Chat Completions; others refuse the
	// member.
	ReasoningContent bool `json:"reasoning_content,omitempty"`
	// NoParallelToolCalls leaves out whether the model may call several tools
	// at once.
	NoParallelToolCalls bool `json:"no_parallel_tool_calls,omitempty"`
	// NoImages replaces images by a note, for models that only read text.
	NoImages bool `json:"no_images,omitempty"`
	// JSONObjectOnly puts a demanded schema into the instructions; on Chat
	// Completions with json_object asked for.
	JSONObjectOnly bool `json:"json_object_only,omitempty"`

	// Verbosity and PromptCacheKey send what Codex says of them on Chat
	// Completions; OpenAI takes both, many others refuse unknown members.
	Verbosity      bool `json:"verbosity,omitempty"`
	PromptCacheKey bool `json:"prompt_cache_key,omitempty"`
	// ToolImages leaves images in the tool's message on Chat Completions, where
	// a provider takes them there. Else they follow in a user's message.
	ToolImages bool `json:"tool_images,omitempty"`
	// DropSchemaWords are JSON Schema keywords that are taken out of the tools'
	// parameters at any depth, as "additionalProperties" for Gemini.
	DropSchemaWords []string `json:"drop_schema_words,omitempty"`
	// Omit are members of the provider's request that are left out, as
	// "tool_choice" where it is refused together with thinking.
	Omit []string `json:"omit,omitempty"`
	// FunctionsOnly counts on Responses alone: namespaces, freeform tools and
	// the search for tools become functions, as for the other wires, since the
	// provider knows nothing else. Hosted tools are left out.
	FunctionsOnly bool `json:"functions_only,omitempty"`

	// Those below count on Anthropic Messages alone.

	// Thinking is how an effort is asked for: "" as adaptive thinking with an
	// effort, which newer models demand; "budget" as a number of tokens, which
	// older ones demand; "off" not at all.
	Thinking string `json:"thinking,omitempty"`
	// ThinkingBudget is the tokens of each effort, with Thinking "budget".
	ThinkingBudget map[string]int64 `json:"thinking_budget,omitempty"`
	// MaxTokens bounds the answers of a model, by the provider's id; that of
	// "*" goes for all others. The wire demands a number.
	MaxTokens map[string]int64 `json:"max_tokens,omitempty"`
	// ForcedTool makes the model give a demanded JSON answer as the input of a
	// tool, where output_config.format is not known.
	ForcedTool bool `json:"forced_tool,omitempty"`
	// NoCacheControl leaves out the marks for the provider's prompt cache.
	NoCacheControl bool `json:"no_cache_control,omitempty"`
}

// schema returns a tool's parameters without the words that the route does not
// know.
func (q *Quirks) schema(raw json.RawMessage) json.RawMessage {
	if len(q.DropSchemaWords) == 0 {
		return raw
	}
	var schema any
	if json.Unmarshal(raw, &schema) != nil {
		return raw // it came as JSON; the provider judges it
	}
	out, err := encode(withoutWords(schema, q.DropSchemaWords, false))
	if err != nil {
		return raw // what was decoded can be encoded
	}
	return out
}

// withoutWords removes keywords at every depth. The names of properties are
// not keywords.
func withoutWords(schema any, words []string, names bool) any {
	switch s := schema.(type) {
	case map[string]any:
		for key, value := range s {
			if !names && slices.Contains(words, key) {
				delete(s, key)
				continue
			}
			s[key] = withoutWords(value, words, !names && (key == "properties" || key == "$defs" || key == "definitions"))
		}
	case []any:
		for i := range s {
			s[i] = withoutWords(s[i], words, false)
		}
	}
	return schema
}

// Adjust leaves members out of a provider's request and adds those that it
// lacks; nothing that stands in it is replaced.
func Adjust(body []byte, omit []string, add map[string]json.RawMessage) ([]byte, error) {
	if len(omit) == 0 && len(add) == 0 {
		return body, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, fmt.Errorf("read the provider's request: %w", err)
	}
	for _, name := range omit {
		delete(members, name)
	}
	for name, value := range add {
		if _, taken := members[name]; !taken {
			members[name] = value
		}
	}
	return encode(members)
}

func (q *Quirks) effort(effort string) string {
	if mapped, ok := q.Effort[effort]; ok {
		return mapped
	}
	return effort
}

// anthropicEffort is effort for a wire that has no minimal one.
func (q *Quirks) anthropicEffort(effort string) string {
	mapped := q.effort(effort)
	if mapped == "minimal" && q.Thinking != "budget" {
		return "low"
	}
	return mapped
}

// defaultMaxTokens fits all models of Anthropic since Claude 4 (Opus 4 and 4.1
// take 32000 at most), and is enough for a step of an agent.
const defaultMaxTokens = 32000

func (q *Quirks) maxTokens(model string) int64 {
	for _, key := range []string{model, "*"} {
		if n := q.MaxTokens[key]; n > 0 {
			return n
		}
	}
	return defaultMaxTokens
}

// minThinking is the smallest budget that Anthropic takes, in tokens.
const minThinking = 1024

// thinkingBudgets are the tokens of efforts that a route says nothing about.
var thinkingBudgets = map[string]int64{
	"minimal": minThinking, "low": 4096, "medium": 10240, "high": 20480, "xhigh": 32768, "max": 32768,
}

// budget returns the tokens for an effort, with room left for the answer; 0:
// the model shall not think.
func (q *Quirks) budget(effort string, maxTokens int64) int64 {
	n, ok := q.ThinkingBudget[effort]
	if !ok {
		n = thinkingBudgets[effort]
	}
	if n = min(n, maxTokens-maxTokens/4); n < minThinking {
		return 0
	}
	return n
}
