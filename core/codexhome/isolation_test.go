package codexhome_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/modeltest"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// thread is a thread of a real Codex on a generated home, whose model runs
// commands.
type thread struct {
	*server
	model  *modeltest.Server
	home   *codexhome.Home
	place  *testkit.Place
	id     string
	echo   echo
	notice []string // warnings that came with it
}

// echo is what Codex says the thread has.
type echo struct {
	Thread struct {
		ID string `json:"id"`
	} `json:"thread"`
	Model          string `json:"model"`
	ApprovalPolicy string `json:"approvalPolicy"`
	Sandbox        struct {
		Type          string   `json:"type"`
		WritableRoots []string `json:"writableRoots"`
		NetworkAccess bool     `json:"networkAccess"`
	} `json:"sandbox"`
	Profile struct {
		ID string `json:"id"`
	} `json:"activePermissionProfile"`
}

const bearer = "bearer-canary-1f7a"

// startThread opens a thread for the reader, whose model runs the commands one
// after the other, calls a tool of the mesh and ends.
func startThread(t *testing.T, place *testkit.Place, permissions string, commands ...string) *thread {
	t.Helper()
	script := "model scripted\n"
	for _, command := range commands {
		script += "step\nshell " + strconv.Quote(command) + "\n"
	}
	script += "step\ncall mcp__mmo_mesh agent_spawn {}\nstep\nsay \"done\"\n"
	parsed, err := modeltest.Parse(script)
	if err != nil {
		t.Fatalf("the script: %v", err)
	}
	model, err := modeltest.NewServer(t.Context(), parsed, bearer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	spec := specOf(place, team(permissions), "reader")
	spec.GatewayURL, spec.Tools = model.URL, []string{"agent_spawn"}
	if spec.Binary, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	th := &thread{model: model, home: write(t, spec), place: place}
	th.server = startCodex(t, place, th.home, codexhome.BearerVar+"="+bearer,
		codexhome.CallerTokenVar+"=caller-canary-9c2e", codexhome.RunVar+"=run-1", codexhome.JobVar+"=job-1")
	th.initialize()
	answer := th.call("thread/start", map[string]any{"cwd": place.Workspace, "permissions": th.home.PermissionProfile}, th.listen)
	if err := json.Unmarshal(answer, &th.echo); err != nil {
		t.Fatalf("thread/start answered %s: %v", answer, err)
	}
	th.id = th.echo.Thread.ID
	return th
}

func (th *thread) listen(m message) {
	switch m.Method {
	case "configWarning", "warning", "deprecationNotice", "error":
		th.notice = append(th.notice, m.Method+" "+string(m.Params))
	}
}

// run lets the model work and returns what it was told of each tool call.
func (th *thread) run() (outputs []string) {
	th.t.Helper()
	input := []any{map[string]any{"type": "text", "text": "go"}}
	th.call("turn/start", map[string]any{"threadId": th.id, "input": input}, th.listen)
	var ended struct {
		Turn struct {
			Status string `json:"status"`
		} `json:"turn"`
	}
	th.until(func(m message) bool {
		th.listen(m)
		return m.Method == "turn/completed" && json.Unmarshal(m.Params, &ended) == nil
	})
	if ended.Turn.Status != "completed" {
		th.t.Fatalf("the turn ended %q: %v", ended.Turn.Status, th.notice)
	}
	requests := th.model.Engine.Requests()
	for _, entry := range requests[len(requests)-1].Conversation.Entries {
		if entry.Role == modeltest.RoleTool {
			outputs = append(outputs, entry.Text)
		}
	}
	return outputs
}

// A generated home loads in real Codex with --strict-config, and neither an
// event nor a line on stderr warns of anything.
func TestLoadsWithoutWarning(t *testing.T) {
	place := testkit.NewPlace(t)
	th := startThread(t, place, profile.ReadOnly)
	if got := th.run(); len(got) != 1 || !strings.Contains(got[0], "spawned indeed") {
		t.Errorf("the mesh tool returned %q, want it called without a question", got)
	}
	if len(th.notice) > 0 {
		t.Errorf("codex warned: %q", th.notice)
	}
	if text := th.stderr.String(); text != "" {
		t.Errorf("codex wrote on stderr: %s", text)
	}
	if th.echo.Model != "scripted" || th.echo.ApprovalPolicy != "never" {
		t.Errorf("the thread has model %q and policy %q, want those of the home", th.echo.Model, th.echo.ApprovalPolicy)
	}
	offered := strings.Join(th.model.Engine.Requests()[0].Conversation.Tools, " ")
	for _, never := range []string{"agent_other", "multi_agent", "spawn_agent", "web_search"} {
		if strings.Contains(offered, never) {
			t.Errorf("the model is offered %q, want no %s", offered, never)
		}
	}
	if got := read(t, th.home.Dir, "config.toml"); !strings.Contains(got, "trust_level = 'untrusted'") {
		t.Errorf("codex changed the trust entry: %s", got)
	}
	mesh := read(t, place.Runtime, "c.sock.env")
	for _, want := range []string{"MMO_CALLER_TOKEN=caller-canary-9c2e", "MMO_RUN_ID=run-1", "MMO_CALLER_JOB_ID=job-1", "MMO_ROOT_SESSION_ID=s1", "MMO_CALLER_AGENT=reader"} {
		if !strings.Contains(mesh, want+"\n") && !strings.HasSuffix(mesh, want) {
			t.Errorf("the mesh server lacks %s in %s", want, mesh)
		}
	}
	if strings.Contains(mesh, bearer) {
		t.Error("the mesh server has the gateway's bearer")
	}
}

func TestIsolation(t *testing.T) {
	for _, tc := range []struct {
		permissions, profile, sandbox string
		writes                        bool
	}{
		{profile.ReadOnly, codexhome.ProfileRead, "readOnly", false},
		{profile.WorkspaceWrite, codexhome.ProfileWrite, "workspaceWrite", true},
	} {
		t.Run(tc.permissions, func(t *testing.T) {
			place := testkit.NewPlace(t)
			plant(t, place.State, "secret", "planted-secret")
			plant(t, place.Config, "credentials.env", "planted-secret")
			plant(t, place.Workspace, "open", "open text")
			outside := filepath.Join(place.Dir, "outside")
			th := startThread(t, place, tc.permissions,
				"cat open",
				"env",
				fmt.Sprintf("cat %s/secret %s/credentials.env %s/config.toml", place.State, place.Config, "$CODEX_HOME"),
				"echo hi > written",
				fmt.Sprintf("echo hi > %s; echo hi > /tmp/mmo-isolation; echo hi > $HOME/x", outside),
			)
			if th.echo.Profile.ID != tc.profile || th.echo.Sandbox.Type != tc.sandbox || th.echo.Sandbox.NetworkAccess || len(th.echo.Sandbox.WritableRoots) > 0 {
				t.Fatalf("the thread has %+v, want profile %s and sandbox %s without network", th.echo, tc.profile, tc.sandbox)
			}
			out := th.run()
			if len(out) != 6 {
				t.Fatalf("the commands printed %q, want six outputs", out)
			}
			if !strings.Contains(out[0], "open text") {
				t.Errorf("reading the workspace printed %q, want its text", out[0])
			}
			if strings.Contains(out[1], "canary") || !strings.Contains(out[1], "CODEX_PERMISSION_PROFILE="+tc.profile) {
				t.Errorf("the model's shell has the environment %q, want no token in it", out[1])
			}
			if strings.Contains(out[2], "planted-secret") || strings.Count(out[2], "denied") < 2 {
				t.Errorf("reading denied files printed %q", out[2])
			}
			if _, err := os.Stat(filepath.Join(place.Workspace, "written")); (err == nil) != tc.writes {
				t.Errorf("writing the workspace: %v, printed %q, want written %t", err, out[3], tc.writes)
			}
			for _, path := range []string{outside, "/tmp/mmo-isolation", filepath.Join(place.Home, "x")} {
				if _, err := os.Lstat(path); err == nil {
					t.Errorf("the model wrote %s", path)
					_ = os.Remove(path)
				}
			}
		})
	}
}

// A workspace's own Codex configuration is a stranger's text: it must not
// start a server outside the sandbox or replace the model.
func TestHostileWorkspace(t *testing.T) {
	place := testkit.NewPlace(t)
	mark := filepath.Join(place.Dir, "ran")
	plant(t, filepath.Join(place.Workspace, ".codex"), "config.toml",
		fmt.Sprintf("model = \"stranger\"\n[mcp_servers.evil]\ncommand = \"touch\"\nargs = [%q]\n", mark))
	th := startThread(t, place, profile.WorkspaceWrite)
	th.run()
	if _, err := os.Lstat(mark); err == nil {
		t.Error("the workspace's MCP server was started")
	}
	if th.echo.Model != "scripted" || th.echo.Profile.ID != codexhome.ProfileWrite {
		t.Errorf("the thread has model %q and profile %q, want those of the home", th.echo.Model, th.echo.Profile.ID)
	}
}

func plant(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
