package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/profiles"
)

// planted stands in every planted file: where it turns up, one was read.
const planted = "planted-canary-7f3a"

// plantedScript keeps a worker at a command, so that both engines can be looked
// at; nobody is told to read the planted files.
const plantedScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "wait"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
  step
    say "END"

model m-worker
  step
    call exec_command {"cmd": "sleep 2", "yield_time_ms": 20000}
  step
    say "DONE"
`

// keyedRoute is a route whose key is in planted files alone.
const keyedRoute = `
[routes.keyed]
name = "Needs a key"
driver = "openai_chat"
wire_protocol = "openai_chat"
billing_mode = "api"
base_url = "https://api.example.org/v1"
credential_env = "PLANTED_API_KEY"
`

// TestPlantedFilesAreNotRead: files of a workspace that have the names of those
// that we or Codex are configured by have no effect. A session there has the
// team, the engines and the keys that it has anywhere else, and nothing of the
// files reaches its records, its homes or its processes.
func TestPlantedFilesAreNotRead(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, plantedScript, 0)
	model := strings.Replace(fmt.Sprintf(teamModel, "m-keyed"), `"offline"`, `"keyed"`, 1)
	putFile(t, filepath.Join(tm.profileDir(), "catalog.toml"), teamCatalog+fmt.Sprintf(teamModel, "m-lead")+fmt.Sprintf(teamModel, "m-worker")+keyedRoute+model)
	putFile(t, filepath.Join(tm.profileDir(), "profile.toml"), strings.Replace(fmt.Sprintf(teamProfile, "test-team", 0), `"m-writer"`, `"m-keyed"`, 1))
	marker := filepath.Join(tm.place.Dir, "ran")
	for name, text := range map[string]string{
		".env":                            "PLANTED_API_KEY=%[1]s\nMMO_CODEX_BIN=/%[1]s\nMMO_STATE_HOME=/%[1]s\n",
		".codex/.env":                     "PLANTED_API_KEY=%[1]s\n",
		".codex/config.toml":              "model = '%[1]s'\ndeveloper_instructions = '%[1]s'\nnotify = ['touch', '%[2]s']\n[mcp_servers.planted]\ncommand = 'touch'\nargs = ['%[2]s']\n",
		".codex/hooks.json":               `{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch %[2]s"}]}]}, "%[1]s": 1}`,
		".codex/skills/planted/SKILL.md":  "---\nname: planted\ndescription: %[1]s\n---\n",
		".agents/skills/planted/SKILL.md": "---\nname: planted\ndescription: %[1]s\n---\n",
		".codex/agents/planted.toml":      "developer_instructions = '%[1]s'\n",
		"profile.toml":                    "id = '%[1]s'\n",
		"profiles/x/profile.toml":         "id = '%[1]s'\n",
		"catalog.toml":                    "[routes.offline]\nbase_url = 'https://%[1]s'\n",
		"catalog.d/x.toml":                "%[1]s is not TOML",
		"tool-mcp.d/x.toml":               "%[1]s is not TOML",
		"settings.toml":                   "codex_bin = '/%[1]s'\nprofile = '%[1]s'\n",
		"credentials.env":                 "PLANTED_API_KEY=%[1]s\n",
	} {
		putFile(t, filepath.Join(tm.place.Workspace, name), strings.NewReplacer("%[1]s", planted, "%[2]s", marker).Replace(text))
	}
	want, err := profile.Compile(t.Context(), &profile.CompileInput{Name: tm.profileDir(), Bundled: profiles.FS, ConfigDir: tm.place.Config})
	if err != nil {
		t.Fatal(err)
	}
	tm.start("go")
	tm.awaitWorkerShell()
	view := tm.look()
	if keyed := (control.RouteAvailability{Reason: "missing credential PLANTED_API_KEY"}); view.SnapshotHash != want.Hash || view.RouteAvailability["keyed"] != keyed {
		t.Errorf("the session has snapshot %s and route %+v, want %s and a missing credential", view.SnapshotHash, view.RouteAvailability["keyed"], want.Hash)
	}
	assertNotPlanted(t, view)
	if out := tm.finish(); out.Status != "completed" || out.Result != "END" {
		t.Errorf("exec ended %s with %q", out.Status, out.Result)
	}
	tm.assertClean()
	if out, errs, code := tm.run("profile", "check"); code != 0 || strings.Contains(out+errs, planted) {
		t.Errorf("profile check exited %d:\n%s%s", code, out, errs)
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("a planted command ran")
	}
	for _, dir := range []string{tm.place.State, tm.place.Config, tm.place.Runtime, tm.place.Home} {
		testkit.AssertNoSecret(t, dir, []string{planted})
	}
}

// putFile writes a file, with its folder.
func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// assertNotPlanted fails when a process of the session has something of the
// planted files in its environment.
func assertNotPlanted(t *testing.T, view *control.SessionView) {
	t.Helper()
	engines := 0
	for _, p := range view.Processes {
		env, err := process.Environ(p.PID)
		if err != nil {
			continue // it has ended
		}
		if p.Role == "app-server" {
			engines++
		}
		for name, value := range env {
			if strings.Contains(value, planted) {
				t.Errorf("the %s has %s of a planted file", p.Role, name)
			}
		}
	}
	if engines != 2 {
		t.Errorf("%d engines were looked at, want the lead's and the worker's", engines)
	}
}

// environmentScript has a worker print all the environment that it can see.
const environmentScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "look around"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
  step
    call exec_command {"cmd": "env; cat /proc/[0-9]*/environ"}
  step
    say "END ${@output last}"

model m-worker
  step
    call exec_command {"cmd": "env; cat /proc/[0-9]*/environ; sleep 1", "yield_time_ms": 20000}
  step
    say "DONE ${@output last}"
`

// TestShellsHaveNoSecret: the command of a model, the root's or a worker's, sees
// neither a token of ours nor a key of the team's, in its own environment or in
// that of another process.
func TestShellsHaveNoSecret(t *testing.T) {
	t.Parallel()
	const key = "sk-canary-51c2e8"
	tm := newTeam(t, environmentScript, 0)
	model := strings.Replace(fmt.Sprintf(teamModel, "m-writer"), `"offline"`, `"keyed"`, 1)
	putFile(t, filepath.Join(tm.profileDir(), "catalog.toml"), teamCatalog+fmt.Sprintf(teamModel, "m-lead")+fmt.Sprintf(teamModel, "m-worker")+keyedRoute+model)
	putFile(t, filepath.Join(tm.place.Config, "credentials.env"), "PLANTED_API_KEY="+key+"\n")
	tm.start("go")
	tm.await("the worker's command", func(e control.FollowEvent) bool {
		return e.Agent == "worker" && strings.HasPrefix(e.Text, "runs ")
	})
	if view := tm.look(); !view.RouteAvailability["keyed"].Available {
		t.Errorf("the keyed route is %+v, want it available: its key is there", view.RouteAvailability["keyed"])
	}
	out := tm.finish()
	if out.Status != "completed" {
		t.Errorf("exec ended %s: %s", out.Status, tm.log())
	}
	assertBareEnvironment(t, "root", out.Result)
	tm.assertClean() // no token lies anywhere, also not in what the commands printed
	testkit.AssertNoSecret(t, tm.place.State, []string{key})
	testkit.AssertNoSecret(t, tm.place.Runtime, []string{key})
	view := tm.stored()
	if len(view.Jobs) != 1 {
		t.Fatalf("the session has the jobs %+v, want the worker's", view.Jobs)
	}
	result, err := os.ReadFile(filepath.Join(tm.folders.JobDir(view.Jobs[0].JobID), "result.md"))
	if err != nil {
		t.Fatal(err)
	}
	assertBareEnvironment(t, "worker", string(result))
}

// assertBareEnvironment fails when what an agent's command printed of its
// environment is not that of a sandbox, or has a variable of ours but the mark
// by which its processes are found.
func assertBareEnvironment(t *testing.T, agent, printed string) {
	t.Helper()
	ours := strings.ReplaceAll(printed, "MMO_AGENT=", "")
	if !strings.Contains(printed, "CODEX_PERMISSION_PROFILE=mmo-ro") || strings.Contains(ours, "MMO_") || strings.Contains(ours, "_KEY=") {
		t.Errorf("the %s's command printed %q, want the environment of the sandbox", agent, printed)
	}
}
