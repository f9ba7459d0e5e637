package profiles_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/profiles"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := fs.ReadFile(profiles.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// schema is what these contracts use of JSON Schema: what generation can be
// constrained to as it stands, so that nothing is lost between what a model is
// made to write and what is checked afterwards.
type schema struct {
	Schema      string            `json:"$schema"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Type        string            `json:"type"`
	Additional  *bool             `json:"additionalProperties"`
	Required    []string          `json:"required"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
	Enum        []string          `json:"enum"`
}

// closed tells what of a schema is open.
func (s schema) closed(at string) (problems []string) {
	switch s.Type {
	case "object":
		if s.Additional == nil || *s.Additional {
			problems = append(problems, at+" allows more properties")
		}
		if !slices.Equal(slices.Sorted(slices.Values(s.Required)), slices.Sorted(maps.Keys(s.Properties))) {
			problems = append(problems, at+" has optional properties")
		}
		for name, p := range s.Properties {
			problems = append(problems, p.closed(at+"/"+name)...)
		}
	case "array":
		if s.Items == nil {
			return append(problems, at+" has items of any kind")
		}
		problems = append(problems, s.Items.closed(at+"/items")...)
	case "string", "integer":
	default:
		problems = append(problems, at+" has the type "+s.Type)
	}
	return problems
}

// properties are the names of an array's items' properties.
func (s schema) properties(name string) []string {
	items := s.Properties[name].Items
	if items == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(items.Properties))
}

// TestContracts: each contract is closed at every depth, its evidence is in the
// words that are correlated with trace and disk, and contracts of one name are
// one contract.
func TestContracts(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(profiles.FS, "*/contracts/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("contracts: %q, %v", files, err)
	}
	byName := map[string]string{} // file name -> its text
	for _, file := range files {
		text := read(t, file)
		if first, ok := byName[path.Base(file)]; ok && first != text {
			t.Errorf("%s differs from the contract of that name in another profile", file)
		}
		byName[path.Base(file)] = text
	}
	for name, text := range byName {
		var s schema
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&s); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Schema != "https://json-schema.org/draft/2020-12/schema" || s.Type != "object" || s.Title == "" {
			t.Errorf("%s is %q of type %q, titled %q", name, s.Schema, s.Type, s.Title)
		}
		for _, problem := range s.closed("") {
			t.Errorf("%s: %s", name, problem)
		}
		if name == "literal.json" {
			if !slices.Equal(s.Properties["operation"].Enum, []string{"summarize_supplied", "locate"}) || s.Properties["input_sha256"].Type != "string" {
				t.Errorf("%s knows the operations %q", name, s.Properties["operation"].Enum)
			}
			continue
		}
		for property, want := range map[string][]string{
			"commands": {"command", "exit_code"}, "artifacts": {"relative_path", "sha256"}, "image_artifacts": {"relative_path", "sha256"},
		} {
			if got := s.properties(property); !slices.Equal(got, want) {
				t.Errorf("%s: %s have %q, want %q", name, property, got, want)
			}
		}
	}
	for _, file := range []string{"evidence.json", "engineering.json"} {
		if _, err := fs.Stat(profiles.FS, "adaptive-engineering/contracts/"+file); err != nil {
			t.Error(err)
		}
	}
}

// TestWorkersHaveContracts: whoever is started as a job is held to a contract;
// the lead, who talks to a person, is not.
func TestWorkersHaveContracts(t *testing.T) {
	t.Parallel()
	for _, id := range teams(t) {
		s := compile(t, id)
		for name, a := range s.Agents {
			strict := a.OutputContract != "" && a.ContractEnforcement == profile.ContractStrict
			if asJob := slices.Contains(a.Backends, profile.BackendMCP); strict != asJob {
				t.Errorf("%s/%s has the contract %q, %q", id, name, a.OutputContract, a.ContractEnforcement)
			}
			if a.OutputContract != "" && s.Files[a.OutputContract] == "" {
				t.Errorf("%s/%s: %s is not part of the snapshot", id, name, a.OutputContract)
			}
		}
	}
}

// teams are the bundled profiles for real models.
func teams(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(ids(t), func(id string) bool { return id == "offline-demo" })
}

var frontMatter = regexp.MustCompile(`\A---\nname: ([a-z-]+)\ndescription: ([^\n]{80,})\n---\n`)

// TestTexts: what agents are told is short enough to be read at each turn, says
// what every role must know, and fits the place where it is shown.
func TestTexts(t *testing.T) {
	t.Parallel()
	const (
		longestDescription = 300  // code points of an agent in the tool that starts it
		longestTogether    = 1500 // of all that one agent may start
		longestGuidance    = 3000 // bytes; about 700 tokens
		longestSkill       = 7000
	)
	for _, id := range teams(t) {
		s := compile(t, id)
		skill := read(t, id+"/"+"skill/SKILL.md")
		if !frontMatter.MatchString(skill) || len(skill) > longestSkill || !strings.Contains(skill, "# Running "+id) {
			t.Errorf("the skill of %s has %d bytes, front matter: %v", id, len(skill), frontMatter.MatchString(skill))
		}
		for name, a := range s.Agents {
			text, err := s.Text(a.Guidance)
			if err != nil {
				t.Fatal(err)
			}
			guidance := string(text)
			if len(guidance) > longestGuidance || !strings.Contains(guidance, "\n## Always\n") {
				t.Errorf("the guidance of %s/%s has %d bytes and must have a part Always", id, name, len(guidance))
			}
			if !strings.Contains(guidance, "is data") && !strings.Contains(guidance, "give you no orders") {
				t.Errorf("the guidance of %s/%s does not say whose orders count", id, name)
			}
			if a.Permissions == profile.WorkspaceWrite && name != s.RootAgent && !strings.Contains(guidance, "Do not commit") {
				t.Errorf("the guidance of the writer %s/%s does not say who commits", id, name)
			}
			together := 0
			for _, target := range a.CanSpawn {
				n := utf8.RuneCountInString(s.Agents[target].Description)
				if together += n; n > longestDescription {
					t.Errorf("%s/%s is described in %d characters", id, target, n)
				}
			}
			if together > longestTogether {
				t.Errorf("%s/%s may start agents described in %d characters", id, name, together)
			}
		}
	}
}

// toolWord is how our tools are called.
var toolWord = regexp.MustCompile(`\bagents?_[a-z_]+`)

// tools are all that an agent may be offered, in whatever role.
var tools = []string{
	"agent_spawn", "agents_spawn", "agent_status", "agents_wait", "agent_result", "agent_cancel",
	"agent_result_accept", "agent_result_reject", "agent_patch_integrate",
	"agent_inspect", "agent_trace", "agent_trace_record", "agent_steer", "agent_interrupt", "agent_pause", "agent_continue", "agent_finalize",
	"agent_compact", "agent_set_effort", "agent_respond", "agent_fork", "agent_detach", "agent_stop",
}

// TestToolsOfTexts: no agent is told to use a tool that there is not.
func TestToolsOfTexts(t *testing.T) {
	t.Parallel()
	named := 0
	err := fs.WalkDir(profiles.FS, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		for _, word := range toolWord.FindAllString(read(t, name), -1) {
			if named++; !slices.Contains(tools, word) {
				t.Errorf("%s names the tool %s, which there is not", name, word)
			}
		}
		return nil
	})
	if err != nil || named == 0 {
		t.Errorf("%d tools are named, %v", named, err)
	}
}

// TestReadmes: each team says what it is for, what it needs and costs, and how
// it is started; and names every credential that one of its routes takes.
func TestReadmes(t *testing.T) {
	t.Parallel()
	for _, id := range teams(t) {
		s := compile(t, id)
		text := read(t, id+"/README.md")
		for _, part := range []string{"# " + id + "\n", "\n## The team\n", "\n## When to use it, and when not\n", "\n## What it takes\n", "\n## Try it\n", "codex-mmo profile clone " + id} {
			if !strings.Contains(text, part) {
				t.Errorf("the README of %s lacks %q", id, strings.TrimSpace(part))
			}
		}
		_, needs, _ := strings.Cut(text, "\n## What it takes\n")
		needs, _, _ = strings.Cut(needs, "\n## ")
		for _, r := range s.Routes {
			credential := r.CredentialEnv
			if r.Driver == profile.DriverCodexLogin {
				credential = "ChatGPT login"
			}
			if !strings.Contains(needs, credential) {
				t.Errorf("the README of %s does not say that %s takes %s", id, r.ID, credential)
			}
		}
		for name := range s.Agents {
			if !strings.Contains(text, "| `"+name+"` |") {
				t.Errorf("the README of %s lacks %s", id, name)
			}
		}
	}
}

var (
	notInSlug  = regexp.MustCompile(`[^a-z0-9]+`)
	modelTable = regexp.MustCompile(`(?m)^\[models\.([^].]+)]$`)
)

// wholeCatalogue compiles a team that has an agent on every model there is.
func wholeCatalogue(t *testing.T) *profile.Snapshot {
	t.Helper()
	catalogue := read(t, "catalog.toml")
	team := "schema_version = 2\nid = \"all\"\nversion = \"1\"\nroot_agent = \"a0\"\n"
	keys := modelTable.FindAllStringSubmatch(catalogue, -1)
	for i, key := range keys {
		team += fmt.Sprintf("[agents.a%d]\nmodel = %q\ndescription = \"One.\"\nguidance = \"a.md\"\n", i, key[1])
	}
	s, err := profile.Compile(t.Context(), &profile.CompileInput{Name: "all", Bundled: fstest.MapFS{
		"catalog.toml": {Data: []byte(catalogue)}, "all/profile.toml": {Data: []byte(team)}, "all/a.md": {Data: []byte("# One\n")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(catalogue, "\nupstream_id ="); n == 0 || len(s.Models) != n || len(s.Routes) != strings.Count(catalogue, "\ndriver =") {
		t.Fatalf("%d models and %d routes were compiled, want all of the catalogue: %d models", len(s.Models), len(s.Routes), n)
	}
	return s
}

// TestCatalogue: what the bundled catalogue says is complete and sane: keys tell
// route and model, providers are reached over TLS with a key, a price has its day,
// and whoever bills by the token has a capacity.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	day := regexp.MustCompile(`^2026-\d\d-\d\d$`)
	s := wholeCatalogue(t)
	for key, m := range s.Models {
		if want := m.Route + "__" + strings.Trim(notInSlug.ReplaceAllString(strings.ToLower(m.UpstreamID), "_"), "_"); key != want {
			t.Errorf("model %s should be called %s", key, want)
		}
		if m.Price != nil && (!day.MatchString(m.Price.AsOf) || m.Price.Input == nil || m.Price.Output == nil || *m.Price.Input < 0 || *m.Price.Output < *m.Price.Input) {
			t.Errorf("model %s has the price %+v", key, m.Price)
		}
		if route := s.Routes[m.Route]; m.Price != nil && route.BillingMode != profile.BillingAPI {
			t.Errorf("model %s has a price, and its route is paid by the month or not at all", key)
		}
	}
	for name, r := range s.Routes {
		capacity := s.Resources[r.Resource].MaxActive
		switch {
		case r.Direct():
			if r.BaseURL != "" || r.CredentialEnv != "" {
				t.Errorf("route %s needs no %q and no %q", name, r.BaseURL, r.CredentialEnv)
			}
		case r.BillingMode == profile.BillingLocal:
			if !strings.HasPrefix(r.BaseURL, "http://127.0.0.1:") || r.CredentialEnv != "" || capacity < 1 {
				t.Errorf("route %s is reached at %q with %q, capacity %d", name, r.BaseURL, r.CredentialEnv, capacity)
			}
		case !strings.HasPrefix(r.BaseURL, "https://") || r.CredentialEnv == "" || capacity < 1:
			t.Errorf("route %s is reached at %q with %q, capacity %d", name, r.BaseURL, r.CredentialEnv, capacity)
		}
	}
}
