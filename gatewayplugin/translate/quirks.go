package translate

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/codex-mmo/codex-mmo/core/dialect"
)

// Quirks says how a route differs from what the maker of its wire takes.
type Quirks dialect.Quirks

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
	adjust(members, omit, add)
	return encode(members)
}

func adjust(members map[string]json.RawMessage, omit []string, add map[string]json.RawMessage) {
	for _, name := range omit {
		delete(members, name)
	}
	for name, value := range add {
		if _, taken := members[name]; !taken {
			members[name] = value
		}
	}
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
	if mapped == "minimal" && q.Thinking != dialect.ThinkingBudget {
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
