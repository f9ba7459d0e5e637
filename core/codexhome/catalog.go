package codexhome

import "github.com/codex-mmo/codex-mmo/core/profile"

// modelCatalog is models.json: what Codex must know of a model that it has no
// built-in entry for. Without one it warns with every turn and guesses the
// context window.
type modelCatalog struct {
	Models []modelEntry `json:"models"`
}

// modelEntry has the keys that Codex 0.149.0 and 0.171.0 require, and those
// that say what the snapshot knows.
type modelEntry struct {
	Slug                       string           `json:"slug"`
	DisplayName                string           `json:"display_name"`
	Description                string           `json:"description"`
	DefaultReasoningLevel      *string          `json:"default_reasoning_level"`
	SupportedReasoningLevels   []reasoningLevel `json:"supported_reasoning_levels"`
	ShellType                  string           `json:"shell_type"`
	Visibility                 string           `json:"visibility"`
	SupportedInAPI             bool             `json:"supported_in_api"`
	Priority                   int              `json:"priority"`
	SupportVerbosity           bool             `json:"support_verbosity"`
	TruncationPolicy           truncation       `json:"truncation_policy"`
	ContextWindow              int              `json:"context_window"` // tokens
	ExperimentalSupportedTools []string         `json:"experimental_supported_tools"`
	InputModalities            []string         `json:"input_modalities"`
	BaseInstructions           string           `json:"base_instructions"`
}

type reasoningLevel struct {
	Effort      string `json:"effort"`
	Description string `json:"description"`
}

type truncation struct {
	Mode  string `json:"mode"`
	Limit int    `json:"limit"` // tokens
}

// catalog lists models under the names that a provider knows them by.
func catalog(models []profile.Model, provider string) modelCatalog {
	list := modelCatalog{Models: []modelEntry{}}
	for _, m := range models {
		list.Models = append(list.Models, entryOf(m, modelName(m, provider)))
	}
	return list
}

// modelName is what Codex calls a model: its key where the gateway serves it, else
// the name that its provider has for it.
func modelName(m profile.Model, provider string) string {
	if provider == Provider {
		return m.Key
	}
	return m.UpstreamID
}

func entryOf(m profile.Model, name string) modelEntry {
	entry := modelEntry{
		Slug: name, DisplayName: name, Description: m.UpstreamID + " by " + m.Maker,
		ShellType: "unified_exec", Visibility: "list", SupportedInAPI: true, Priority: 1,
		TruncationPolicy: truncation{Mode: "tokens", Limit: toolOutputTokens},
		ContextWindow:    m.ContextWindow, InputModalities: m.Modalities, BaseInstructions: m.BaseInstructions,
	}
	for _, level := range m.ReasoningLevels {
		if level != "none" {
			entry.SupportedReasoningLevels = append(entry.SupportedReasoningLevels, reasoningLevel{Effort: level, Description: level})
		}
	}
	if m.DefaultReasoning != "none" {
		entry.DefaultReasoningLevel = &m.DefaultReasoning
	}
	return entry
}
