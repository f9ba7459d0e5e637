package dialect

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
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

// How an effort is asked for, in Quirks.Thinking; "": as adaptive thinking.
const (
	ThinkingBudget = "budget"
	ThinkingOff    = "off"
)

// QuirkFault says what is wrong with one quirk of a catalogue, and what would
// be right; "", "" when nothing is. The value is one of JSON.
func QuirkFault(name string, value any) (wrong, right string) {
	field, known := quirkField(name)
	if !known {
		return "is no quirk", "the quirks are " + strings.Join(QuirkNames(), ", ")
	}
	right = "must be " + words[field.Type]
	raw, err := json.Marshal(value)
	if err != nil || json.NewDecoder(bytes.NewReader(raw)).Decode(reflect.New(field.Type).Interface()) != nil {
		return "can't be " + string(raw), right
	}
	if name == "thinking" && value != "" && value != ThinkingBudget && value != ThinkingOff {
		return "can't be " + string(raw), `must be "` + ThinkingBudget + `", "` + ThinkingOff + `" or ""`
	}
	return "", ""
}

// words name the types of quirks.
var words = map[reflect.Type]string{
	reflect.TypeFor[bool]():              "true or false",
	reflect.TypeFor[string]():            "a string",
	reflect.TypeFor[[]string]():          "a list of strings",
	reflect.TypeFor[map[string]string](): "a table of strings",
	reflect.TypeFor[map[string]int64]():  "a table of whole numbers",
}

// QuirkNames lists the quirks as a catalogue names them.
func QuirkNames() (names []string) {
	for field := range reflect.TypeFor[Quirks]().Fields() {
		names = append(names, quirkName(field))
	}
	return names
}

func quirkField(name string) (reflect.StructField, bool) {
	for field := range reflect.TypeFor[Quirks]().Fields() {
		if quirkName(field) == name {
			return field, true
		}
	}
	return reflect.StructField{}, false
}

func quirkName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
