package profile_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// chapters are the formats and where docs/PROFILES.md describes them.
var chapters = map[string]string{"profile": "profile.toml", "catalog": "catalog.toml", "tool-mcp": "tool-mcp.d", "settings": "settings.toml"}

// keySchema is what the reference is held against of a JSON Schema.
type keySchema struct {
	Type                 string               `json:"type"`
	Properties           map[string]keySchema `json:"properties"`
	AdditionalProperties json.RawMessage      `json:"additionalProperties"`
	Required             []string             `json:"required"`
	Enum                 []string             `json:"enum"`
	Items                *keySchema           `json:"items"`
	Minimum              *float64             `json:"minimum"`
	Maximum              *float64             `json:"maximum"`
	Default              any                  `json:"default"`
}

// entries is the schema of what a table of named entries holds.
func (s keySchema) entries() (keySchema, bool) {
	var sub keySchema
	ok := s.Type == "object" && json.Unmarshal(s.AdditionalProperties, &sub) == nil && sub.Type == "object"
	return sub, ok
}

// kind is the type as the reference writes it.
func (s keySchema) kind() string {
	words := func(list []string) string { return "`" + strings.Join(list, "`, `") + "`" }
	bounds := func(text string) string {
		switch {
		case s.Minimum != nil && s.Maximum != nil && *s.Minimum == *s.Maximum:
			return fmt.Sprintf("`%g`", *s.Minimum)
		case s.Maximum != nil:
			return fmt.Sprintf("%s, %.0f to %.0f", text, *s.Minimum, *s.Maximum)
		case s.Minimum != nil:
			return fmt.Sprintf("%s, from %.0f", text, *s.Minimum)
		}
		return text
	}
	switch {
	case len(s.Enum) > 0:
		return "one of " + words(s.Enum)
	case s.Type == "array" && len(s.Items.Enum) > 0:
		return "list of " + words(s.Items.Enum)
	}
	switch s.Type {
	case "array":
		return "list of strings"
	case "boolean":
		return "true or false"
	case "integer":
		return bounds("whole number")
	case "number":
		return bounds("number")
	case "object":
		if len(s.AdditionalProperties) > 0 {
			return "table of strings"
		}
		return "table"
	}
	return s.Type
}

// preset is the default as the reference writes it.
func (s keySchema) preset(required bool) string {
	switch {
	case required:
		return "required"
	case s.Default == nil:
		return "-"
	}
	text, _ := json.Marshal(s.Default) // it came from JSON
	return "`" + string(text) + "`"
}

// rows lists every key of a format as the beginning of its row in the
// reference, by the heading that it must stand under.
func rows(s keySchema, path []string, heading string, to map[string][]string) {
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		sub, here := s.Properties[key], append(slices.Clone(path), key)
		if entry, ok := sub.entries(); ok {
			sub, here = entry, append(here, "ID")
		}
		if len(sub.Properties) > 0 {
			rows(sub, here, "### `["+strings.Join(here, ".")+"]`", to)
			continue
		}
		to[heading] = append(to[heading], fmt.Sprintf("| `%s` | %s | %s | ", key, sub.kind(), sub.preset(slices.Contains(s.Required, key))))
	}
}

// sections cuts the reference at its headings: heading -> text below it, up to
// the next one of any level.
func sections(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "PROFILES.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	heading, fenced := "", false
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if strings.HasPrefix(line, "#") && !fenced {
			heading = strings.TrimSpace(line)
			continue
		}
		found[heading] += line
	}
	return found
}

// TestReferenceNamesEveryKey holds docs/PROFILES.md to the formats: each key has
// a row with its type, bounds and default below its table's heading, and no row
// is of a key that there is not.
func TestReferenceNamesEveryKey(t *testing.T) {
	page := sections(t)
	want := map[string][]string{}
	for name, chapter := range chapters {
		data, err := profile.Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		var schema keySchema
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		rows(schema, nil, "## "+chapter, want)
	}
	for heading, keys := range want {
		for _, row := range keys {
			if !strings.Contains(page[heading], "\n"+row) {
				t.Errorf("docs/PROFILES.md, %s: there is no row %s", heading, row)
			}
		}
	}
	key := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| .* \\| .* \\| ")
	for heading, keys := range want {
		for _, row := range key.FindAllStringSubmatch(page[heading], -1) {
			known := slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, "| `"+row[1]+"` ") })
			_, table := want[strings.TrimSuffix(heading, "]`")+"."+row[1]+".ID]`"]
			if !known && !table {
				t.Errorf("docs/PROFILES.md, %s: there is no key %s", heading, row[1])
			}
		}
	}
}

// examples puts the examples of a chapter together to one file.
func examples(t testing.TB, chapter string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "PROFILES.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "\n## "+chapter+"\n")
	if !ok {
		t.Fatalf("docs/PROFILES.md has no chapter %s", chapter)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var file strings.Builder
	for _, block := range regexp.MustCompile("(?ms)^```toml\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		file.WriteString(block[1] + "\n")
	}
	return file.String()
}

// TestReferenceExamples compiles the examples of docs/PROFILES.md as one team:
// each key stands in one of them, and nothing is wrong with any.
func TestReferenceExamples(t *testing.T) {
	config := testkit.PrivateDir(t)
	team := filepath.Join("profiles", "my-team")
	files := map[string]string{
		"profile": filepath.Join(team, "profile.toml"), "catalog": filepath.Join(team, "catalog.toml"),
		"tool-mcp": filepath.Join("tool-mcp.d", "mine.toml"), "settings": "settings.toml",
	}
	for name, file := range files {
		text := examples(t, chapters[name])
		put(t, config, file, text)
		data, err := profile.Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range regexp.MustCompile(`(?m)^ +"([a-z_]+)": \{$`).FindAllStringSubmatch(string(data), -1) {
			said := regexp.MustCompile(`(?m)^(\[.*\b` + key[1] + `\b.*\]|` + key[1] + ` = )`)
			if !said.MatchString(text) && !slices.Contains([]string{"properties", "items"}, key[1]) {
				t.Errorf("docs/PROFILES.md, %s: no example of %s", chapters[name], key[1])
			}
		}
	}
	for _, name := range []string{"guidance/lead.md", "guidance/engineer.md", "guidance/scout.md", "guidance/reader.md", "guidance/releaser.md", "skill/SKILL.md"} {
		put(t, config, filepath.Join(team, name), "# Words\n")
	}
	put(t, config, filepath.Join(team, "contracts", "engineering.json"), `{"type": "object"}`)
	put(t, config, filepath.Join(team, "offline.script"), "model m\n")
	report, err := profile.Check(t.Context(), &profile.CompileInput{Name: "my-team", ConfigDir: config})
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range report.Problems {
		t.Errorf("an example of docs/PROFILES.md: %s", problem)
	}
	if _, err := profile.LoadSettings(config); err != nil {
		t.Error(err)
	}
}
