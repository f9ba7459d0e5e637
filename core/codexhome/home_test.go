package codexhome_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// team is a snapshot of a lead and a reader, or of a writer in its place.
func team(permissions string) *profile.Snapshot {
	model := profile.Model{
		Key: "scripted", Route: "offline", UpstreamID: "scripted-1", Maker: "nobody", Modalities: []string{"text"},
		ReasoningLevels: []string{"none"}, DefaultReasoning: "none", ContextWindow: 128000, BaseInstructions: "You are an agent.",
	}
	agent := func(id string) profile.Agent {
		return profile.Agent{
			ID: id, Model: "scripted", Route: "offline", Effort: "none", Permissions: permissions,
			ApprovalPolicy: "never", ExecutionMode: "turn", Guidance: "guidance/" + id + ".md",
		}
	}
	snap := &profile.Snapshot{
		ProfileID: "team", RootAgent: "lead",
		Agents: map[string]profile.Agent{"lead": agent("lead"), "reader": agent("reader")},
		Models: map[string]profile.Model{"scripted": model},
	}
	for _, id := range []string{"lead", "reader"} {
		snap.AddText("guidance/"+id+".md", []byte("# The "+id+"\n"))
	}
	return snap
}

func specOf(place *testkit.Place, snapshot *profile.Snapshot, agent string) *codexhome.Spec {
	return &codexhome.Spec{
		Dir: filepath.Join(place.State, "sessions", "s1", "homes", agent), Snapshot: snapshot, Agent: agent,
		Workspace: place.Workspace, CodexVersion: "0.149.0", GatewayURL: "http://127.0.0.1:4711/v1",
		Binary: filepath.Join(place.State, "bin", "codex-mmo"), SessionID: "s1",
		ControlSocket: filepath.Join(place.Runtime, "c.sock"), Tools: []string{"agent_spawn", "agents_wait"},
		Deny: []string{place.State, place.Config, filepath.Join(place.Home, ".codex")},
	}
}

func write(t *testing.T, spec *codexhome.Spec) *codexhome.Home {
	t.Helper()
	home, err := codexhome.Write(spec)
	if err != nil {
		t.Fatalf("Write: %v", err)
	}
	return home
}

func TestWriteGolden(t *testing.T) {
	high := team(profile.WorkspaceWrite)
	model := high.Models["scripted"]
	model.ReasoningLevels, model.DefaultReasoning = []string{"low", "high"}, "low"
	high.Models["scripted"] = model
	writer := high.Agents["reader"]
	writer.Effort = "high"
	high.Agents["reader"] = writer
	for _, tc := range []struct {
		name, agent, version string
		snapshot             *profile.Snapshot
	}{
		{"root", "lead", "0.149.0", team(profile.ReadOnly)},
		{"writer-newer-codex", "reader", "0.171.0", high},
	} {
		t.Run(tc.name, func(t *testing.T) {
			place := testkit.NewPlace(t)
			spec := specOf(place, tc.snapshot, tc.agent)
			spec.CodexVersion = tc.version
			home := write(t, spec)
			for _, file := range []string{"config.toml", "models.json", "AGENTS.md"} {
				got := strings.ReplaceAll(read(t, home.Dir, file), place.Dir, "/base")
				golden := filepath.Join("testdata", tc.name, file)
				if *update {
					if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(read(t, golden), got); diff != "" {
					t.Errorf("%s differs (-want +got):\n%s", file, diff)
				}
			}
		})
	}
}

// Spec: R052 (what it says of the mesh server's variables and timeout).
func TestMeshVariables(t *testing.T) {
	place := testkit.NewPlace(t)
	for agent, want := range map[string]string{
		"lead":   "env_vars = ['MMO_CALLER_TOKEN', 'MMO_RUN_ID']\n",
		"reader": "env_vars = ['MMO_CALLER_TOKEN', 'MMO_RUN_ID', 'MMO_CALLER_JOB_ID']\n",
	} {
		config := read(t, write(t, specOf(place, team(profile.ReadOnly), agent)).Dir, "config.toml")
		for _, line := range []string{want, "tool_timeout_sec = 1230.0\n", "required = true\n", "default_tools_approval_mode = 'approve'\n"} {
			if !strings.Contains(config, line) {
				t.Errorf("the home of %s lacks %q", agent, line)
			}
		}
		for _, never := range []string{"model_context_window", "model_supports_reasoning_summaries", "model_reasoning_effort", "trust_level = 'trusted'"} {
			if strings.Contains(config, never) {
				t.Errorf("the home of %s has %q", agent, never)
			}
		}
	}
}

// Homes are private at any umask.
func TestModesAtAnyUmask(t *testing.T) {
	for _, umask := range []int{0, 0o077, 0o777} {
		place := testkit.NewPlace(t)
		old := syscall.Umask(umask)
		home, err := codexhome.Write(specOf(place, team(profile.ReadOnly), "lead"))
		syscall.Umask(old)
		if err != nil {
			t.Fatalf("Write at umask %o: %v", umask, err)
		}
		err = filepath.WalkDir(home.Dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			want := fs.FileMode(0o600)
			if entry.IsDir() {
				want = 0o700
			}
			if info.Mode().Perm() != want {
				t.Errorf("umask %o: %s has mode %o, want %o", umask, path, info.Mode().Perm(), want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Spec: R020 (a resume restores what was tampered with).
func TestWriteRestores(t *testing.T) {
	place := testkit.NewPlace(t)
	spec := specOf(place, team(profile.ReadOnly), "reader")
	first := write(t, spec)
	want := map[string]string{}
	for _, file := range []string{"config.toml", "models.json", "AGENTS.md"} {
		want[file] = read(t, first.Dir, file)
		path := filepath.Join(first.Dir, file)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(place.Home, "elsewhere"), path); err != nil {
			t.Fatal(err)
		}
	}
	second := write(t, spec)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the second home differs (-first +second):\n%s", diff)
	}
	for file, text := range want {
		if got := read(t, second.Dir, file); got != text {
			t.Errorf("%s = %q, want %q", file, got, text)
		}
	}
	if _, err := os.Lstat(filepath.Join(place.Home, "elsewhere")); err == nil {
		t.Error("Write followed a link out of the home")
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*codexhome.Spec)
		want   string
	}{
		"unknown agent":         {func(s *codexhome.Spec) { s.Agent = "nobody" }, `no agent "nobody"`},
		"relative workspace":    {func(s *codexhome.Spec) { s.Workspace = "here" }, "absolute path of the workspace"},
		"relative binary":       {func(s *codexhome.Spec) { s.Binary = "codex-mmo" }, "absolute path of the binary"},
		"relative denied path":  {func(s *codexhome.Spec) { s.Deny = []string{"~/.codex"} }, "a path to deny must be absolute"},
		"workspace is denied":   {func(s *codexhome.Spec) { s.Deny = []string{s.Workspace + "/"} }, "no agent may read"},
		"model not in snapshot": {func(s *codexhome.Spec) { s.Snapshot.Models = nil }, `no model "scripted"`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specOf(testkit.NewPlace(t), team(profile.ReadOnly), "reader")
			tc.change(spec)
			_, err := codexhome.Write(spec)
			if core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Write = %v, want a ValueError with %q", err, tc.want)
			}
		})
	}
}
