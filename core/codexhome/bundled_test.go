package codexhome_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/profiles"
)

// Every home of every bundled team loads in every reviewed Codex with
// --strict-config, without a warning or a word on stderr, and Codex says that the
// thread has what the team's role has: model, effort, guidance, permission
// profile, and the team's skill where it delegates.
//
// Spec: R052
func TestBundledHomesLoad(t *testing.T) {
	entries, err := fs.ReadDir(profiles.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		snap, err := profile.Compile(t.Context(), &profile.CompileInput{Name: entry.Name(), Bundled: profiles.FS})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range snap.Order {
			if id != snap.RootAgent && !slices.Contains(snap.Agents[id].Backends, profile.BackendMCP) {
				continue // lives in its parent's engine
			}
			t.Run(entry.Name()+"/"+id, func(t *testing.T) {
				t.Parallel()
				onEachCodex(t, func(t *testing.T, version string) { loads(t, version, snap, id) })
			})
		}
	}
}

func loads(t *testing.T, version string, snap *profile.Snapshot, id string) {
	t.Helper()
	place := testkit.NewPlace(t)
	spec := specOf(place, snap, id)
	spec.CodexVersion, spec.Binary, spec.Login = version, self(t), filepath.Join(place.Home, ".codex")
	plant(t, spec.Login, "auth.json", login)
	th := &thread{home: write(t, spec), place: place}
	th.server = startCodex(t, version, place, th.home, askForModels(t, snap), engineVars...)
	th.begin("thread/start", map[string]any{})
	th.assertQuiet()

	agent := snap.Agents[id]
	want := echo{
		Thread: th.echo.Thread, Model: th.home.Model, ModelProvider: th.home.ModelProvider, Effort: agent.Effort,
		Instructions: []string{filepath.Join(spec.Dir, "AGENTS.md")}, ApprovalPolicy: agent.ApprovalPolicy,
	}
	want.Profile.ID, want.Sandbox.Type = codexhome.ProfileRead, "readOnly"
	if agent.Permissions == profile.WorkspaceWrite {
		want.Profile.ID, want.Sandbox.Type, want.Sandbox.WritableRoots = codexhome.ProfileWrite, "workspaceWrite", []string{}
	}
	want.Sandbox.NetworkAccess = agent.Network
	if agent.Effort == "none" {
		want.Effort = ""
	}
	if diff := cmp.Diff(want, th.echo); diff != "" {
		t.Errorf("the thread is not what the role says (-want +got):\n%s", diff)
	}
	wantSkills := []string{}
	if th.home.SkillPath != "" {
		wantSkills = []string{th.home.SkillPath}
	}
	if diff := cmp.Diff(wantSkills, th.skills()); diff != "" {
		t.Errorf("the skills that are on (-want +got):\n%s", diff)
	}
}

// skills lists the paths of the skills that Codex has switched on.
func (th *thread) skills() []string {
	th.t.Helper()
	var list struct {
		Data []struct {
			Skills []struct {
				Path    string `json:"path"`
				Enabled bool   `json:"enabled"`
			} `json:"skills"`
		} `json:"data"`
	}
	if err := json.Unmarshal(th.call("skills/list", map[string]any{"cwds": []string{th.place.Workspace}}, th.listen), &list); err != nil {
		th.t.Fatal(err)
	}
	paths := []string{}
	for _, of := range list.Data {
		for _, skill := range of.Skills {
			if skill.Enabled {
				paths = append(paths, skill.Path)
			}
		}
	}
	return paths
}

// askForModels has a Codex on a login ask us, instead of OpenAI, which models
// there are.
func askForModels(t *testing.T, snap *profile.Snapshot) (args []string) {
	t.Helper()
	var models []any
	for _, m := range snap.Models {
		var levels []any
		for _, level := range m.ReasoningLevels {
			levels = append(levels, map[string]any{"effort": level, "description": ""})
		}
		models = append(models, map[string]any{
			"slug": m.UpstreamID, "display_name": m.UpstreamID, "description": "", "default_reasoning_level": m.DefaultReasoning,
			"supported_reasoning_levels": levels, "shell_type": "unified_exec",
			"visibility": "list", "supported_in_api": true, "priority": 1, "support_verbosity": false,
			"truncation_policy": map[string]any{"mode": "tokens", "limit": 10000}, "experimental_supported_tools": []string{},
			"base_instructions": "You are an agent.", "context_window": 100000, "input_modalities": []string{"text", "image"},
		})
	}
	text, err := json.Marshal(map[string]any{"models": models})
	if err != nil {
		t.Fatal(err)
	}
	openai := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/models" || r.Header.Get("Authorization") != "Bearer canary-access" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // a client that left sees nothing
	}))
	t.Cleanup(openai.Close)
	return []string{"-c", `openai_base_url="` + openai.URL + `"`}
}
