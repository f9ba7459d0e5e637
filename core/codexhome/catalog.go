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

func catalog(models []profile.Model) modelCatalog {
	list := modelCatalog{Models: []modelEntry{}}
	for _, m := range models {
		list.Models = append(list.Models, entryOf(m))
	}
	return list
}

func entryOf(m profile.Model) modelEntry {
	entry := modelEntry{
		Slug: m.Key, DisplayName: m.Key, Description: m.UpstreamID + " by " + m.Maker,
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
