package codexhome_test

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/modeltest"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// hybrid is a team whose lead has a worker, reader, and a native scout, with two
// tool servers: firecrawl, of which the lead has one tool and the scout all, and
// ida_pro, of which only the scout has a tool.
func hybrid() *profile.Snapshot {
	snap := team(profile.ReadOnly)
	snap.Order = []string{"lead", "reader", "scout"}
	snap.Skill = "skill/SKILL.md"
	snap.AddText(snap.Skill, []byte("---\nname: team-orchestration\ndescription: How this team works.\n---\nDelegate.\n"))
	small := snap.Models["scripted"]
	small.Key, small.ReasoningLevels, small.DefaultReasoning = "small", []string{"low", "high"}, "low"
	snap.Models["small"] = small

	lead, scout := snap.Agents["lead"], snap.Agents["reader"]
	lead.CanSpawn = []string{"reader", "scout"}
	lead.ToolServers = map[string]profile.ToolUse{"firecrawl": {EnabledTools: []string{"search"}, Required: true}}
	scout.ID, scout.Model, scout.Effort, scout.Description = "scout", "small", "high", "Finds things."
	scout.Guidance, scout.Backends = "guidance/scout.md", []string{profile.BackendNative}
	scout.ToolServers = map[string]profile.ToolUse{"firecrawl": {}, "ida_pro": {EnabledTools: []string{"list"}}}
	snap.AddText(scout.Guidance, []byte("# The scout\n"))
	reader := snap.Agents["reader"]
	reader.Backends = []string{profile.BackendMCP}
	snap.Agents = map[string]profile.Agent{"lead": lead, "reader": reader, "scout": scout}
	snap.ToolServers = map[string]profile.ToolServer{
		"firecrawl": {
			ID: "firecrawl", Transport: profile.TransportHTTP, URL: "http://127.0.0.1:1/mcp", BearerTokenEnvVar: "FIRECRAWL_API_KEY",
			EnabledTools: []string{"search", "scrape"}, DefaultApprovalMode: "writes", StartupTimeoutSec: 20,
		},
		"ida_pro": {
			ID: "ida_pro", Transport: profile.TransportStdio, Command: "/nowhere/ida", Args: []string{"tools"}, EnvVars: []string{"IDA_MCP_TOKEN"},
			EnabledTools: []string{"list", "decompile"}, DefaultApprovalMode: "prompt", StartupTimeoutSec: 12.5,
		},
	}
	return snap
}

type table = map[string]any

// parsed reads a TOML file.
func parsed(t *testing.T, path string) table {
	t.Helper()
	out := table{}
	if err := toml.Unmarshal([]byte(read(t, path)), &out); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return out
}

func list(words ...string) []any {
	out := []any{}
	for _, w := range words {
		out = append(out, w)
	}
	return out
}

// The root of a team with tool servers and a native agent: what its home and the
// role file of its native say of each server, and that none of the secrets that
// these need is in a file.
//
// Spec: R052
func TestHybridHome(t *testing.T) {
	place := testkit.NewPlace(t)
	spec := specOf(place, hybrid(), "lead")
	home := write(t, spec)
	config := parsed(t, filepath.Join(home.Dir, "config.toml"))

	skill := filepath.Join(home.Dir, "skills", codexhome.SkillName, "SKILL.md")
	mesh := table{
		"command": spec.Binary, "args": list("mcp"), "required": true, "supports_parallel_tool_calls": true,
		"default_tools_approval_mode": "approve", "tool_timeout_sec": 1230.0, "startup_timeout_sec": 30.0,
		"enabled_tools": list("agent_spawn", "agents_wait"), "env_vars": list("MMO_CALLER_TOKEN", "MMO_RUN_ID"),
		"env": table{"MMO_ROOT_SESSION_ID": "s1", "MMO_CALLER_AGENT": "lead", "MMO_CONTROL_SOCKET": spec.ControlSocket},
	}
	firecrawl := table{
		"url": "http://127.0.0.1:1/mcp", "bearer_token_env_var": "FIRECRAWL_API_KEY", "enabled": true, "required": true,
		"default_tools_approval_mode": "writes", "startup_timeout_sec": 20.0,
		"enabled_tools": list("search", "scrape"), "disabled_tools": list("scrape"),
	}
	ida := table{
		"command": "/nowhere/ida", "args": list("tools"), "env_vars": list("IDA_MCP_TOKEN"), "enabled": false, "required": false,
		"default_tools_approval_mode": "prompt", "startup_timeout_sec": 12.5, "enabled_tools": list("list", "decompile"),
	}
	if diff := cmp.Diff(table{"mmo_mesh": mesh, "firecrawl": firecrawl, "ida_pro": ida}, config["mcp_servers"]); diff != "" {
		t.Errorf("the servers of the root (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(table{"enabled": true, "scout": table{"description": "Finds things.", "config_file": home.NativeAgentFiles["scout"]}}, config["agents"]); diff != "" {
		t.Errorf("the agents of the root (-want +got):\n%s", diff)
	}
	if got := config["features"].(table)["multi_agent"]; got != true {
		t.Errorf("features.multi_agent = %v, want true", got)
	}
	if diff := cmp.Diff(table{"include_instructions": false, "bundled": table{"enabled": false}, "config": []any{table{"path": skill, "enabled": true}}}, config["skills"]); diff != "" {
		t.Errorf("the skills of the root (-want +got):\n%s", diff)
	}

	role := parsed(t, home.NativeAgentFiles["scout"])
	firecrawl["required"], ida["enabled"] = false, true
	delete(firecrawl, "disabled_tools")
	ida["disabled_tools"] = list("decompile")
	want := table{
		"model": "small", "model_reasoning_effort": "high", "developer_instructions": "# The scout\n",
		"sandbox_workspace_write": table{"network_access": false},
		"mcp_servers":             table{"mmo_mesh": mesh, "firecrawl": firecrawl, "ida_pro": ida},
		"skills":                  table{"include_instructions": false, "bundled": table{"enabled": false}, "config": []any{table{"path": skill, "enabled": false}}},
	}
	if diff := cmp.Diff(want, role); diff != "" {
		t.Errorf("the role file of the native (-want +got):\n%s", diff)
	}

	wantHome := &codexhome.Home{
		Dir: spec.Dir, Model: "scripted", ModelProvider: codexhome.Provider, PermissionProfile: codexhome.ProfileRead,
		CatalogPath: filepath.Join(spec.Dir, "models.json"), CatalogSHA256: home.CatalogSHA256,
		SkillPath: skill, SkillSHA256: home.SkillSHA256,
		NativeAgentFiles:  map[string]string{"scout": filepath.Join(spec.Dir, "agents", "scout.toml")},
		NativeAgentSHA256: home.NativeAgentSHA256,
		ToolEnvs:          []string{"FIRECRAWL_API_KEY", "IDA_MCP_TOKEN"}, ToolHTTPEnvs: []string{"FIRECRAWL_API_KEY"},
	}
	if diff := cmp.Diff(wantHome, home); diff != "" {
		t.Errorf("what the home was given (-want +got):\n%s", diff)
	}
	for file, text := range map[string]string{"AGENTS.md": "# The lead\n\nDelegate.\n", "skills/" + codexhome.SkillName + "/SKILL.md": "---\nname: team-orchestration\ndescription: How this team works.\n---\nDelegate.\n"} {
		if got := read(t, home.Dir, file); got != text {
			t.Errorf("%s = %q, want the snapshot's %q", file, got, text)
		}
	}
	assertNowhere(t, home.Dir, "model_context_window", "model_supports_reasoning_summaries")
}

// A worker that delegates, and its native agent, name three variables that say
// who calls; the team's skill is on for a native that may spawn jobs too, and off
// for one that may not.
//
// Spec: R059
func TestWorkerThatDelegates(t *testing.T) {
	for _, delegates := range []bool{true, false} {
		snap := hybrid()
		snap.RootAgent = "reader" // so that the lead is a worker
		scout := snap.Agents["scout"]
		if delegates {
			scout.CanSpawn = []string{"reader"}
		}
		snap.Agents["scout"] = scout
		home := write(t, specOf(testkit.NewPlace(t), snap, "lead"))
		for _, path := range []string{filepath.Join(home.Dir, "config.toml"), home.NativeAgentFiles["scout"]} {
			mesh := parsed(t, path)["mcp_servers"].(table)["mmo_mesh"].(table)
			if diff := cmp.Diff(list("MMO_CALLER_TOKEN", "MMO_RUN_ID", "MMO_CALLER_JOB_ID"), mesh["env_vars"]); diff != "" {
				t.Errorf("%s: env_vars (-want +got):\n%s", path, diff)
			}
		}
		skills := parsed(t, home.NativeAgentFiles["scout"])["skills"].(table)["config"].([]any)
		if got := skills[0].(table)["enabled"]; got != delegates {
			t.Errorf("the skill of a native is enabled %v, want %t", got, delegates)
		}
	}
}

// In a session that is tainted nobody delegates inside an engine either.
func TestTaintedHasNoNatives(t *testing.T) {
	spec := specOf(testkit.NewPlace(t), hybrid(), "lead")
	spec.Tainted = true
	home := write(t, spec)
	config := parsed(t, filepath.Join(home.Dir, "config.toml"))
	if diff := cmp.Diff(table{"enabled": false}, config["agents"]); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	if got := config["features"].(table)["multi_agent"]; got != false {
		t.Errorf("features.multi_agent = %v, want false", got)
	}
	if len(home.NativeAgentFiles) != 0 {
		t.Errorf("native agents = %v, want none", home.NativeAgentFiles)
	}
}

// The lead's tool servers start in real Codex, one over a pipe, one over HTTP:
// each gets its own secret and no other, the model is offered the tools that are
// granted and no others, and no file and no command of the model has a secret.
func TestToolServersOnCodex(t *testing.T) {
	onEachCodex(t, func(t *testing.T, version string) {
		place := testkit.NewPlace(t)
		authorised := make(chan string, 64)
		http := httptest.NewServer(serveHTTP(authorised, "search", "scrape", "other"))
		t.Cleanup(http.Close)
		snap := hybrid()
		seen := filepath.Join(place.Dir, "seen")
		firecrawl, ida, lead := snap.ToolServers["firecrawl"], snap.ToolServers["ida_pro"], snap.Agents["lead"]
		firecrawl.URL = http.URL + "/mcp"
		ida.Command, ida.Env = self(t), map[string]string{"TOOLS_SEEN": seen}
		snap.ToolServers["firecrawl"], snap.ToolServers["ida_pro"] = firecrawl, ida
		lead.ToolServers["ida_pro"] = profile.ToolUse{EnabledTools: []string{"list"}, Required: true}
		spec := specOf(place, snap, "lead")
		spec.CodexVersion = version
		model := serve(t, spec, commands("env"))
		th := open(t, place, spec, model, "FIRECRAWL_API_KEY=fire-canary", "IDA_MCP_TOKEN=ida-canary")
		out := th.run()
		th.assertQuiet()

		var tools []string
		for _, name := range model.Engine.Requests()[0].Conversation.Tools {
			if strings.HasPrefix(name, "mcp__") {
				tools = append(tools, name)
			}
		}
		slices.Sort(tools)
		if diff := cmp.Diff([]string{"mcp__firecrawl__search", "mcp__ida_pro__list", "mcp__mmo_mesh__agent_spawn"}, tools); diff != "" {
			t.Errorf("the tools of MCP servers (-want +got):\n%s", diff)
		}
		if got := <-authorised; got != "Bearer fire-canary" {
			t.Errorf("the HTTP server was called with %q, want its secret", got)
		}
		env := read(t, seen)
		if !strings.Contains(env, "IDA_MCP_TOKEN=ida-canary") {
			t.Errorf("the stdio server has the environment %s, want its secret in it", env)
		}
		for _, other := range []string{"fire-canary", bearer, caller} {
			if strings.Contains(env, other) {
				t.Errorf("the stdio server has %s in its environment", other)
			}
		}
		if strings.Contains(out[0], "canary") {
			t.Errorf("the model's shell has the environment %s, want no secret in it", out[0])
		}
		th.kill()
		assertNowhere(t, place.State, "fire-canary", bearer, caller)
	})
}

// A route that Codex reaches by itself: it is a provider of its own with its
// headers, whose secrets are named in the home and in the environment of the
// engine alone.
func TestDirectRouteOnCodex(t *testing.T) {
	onEachCodex(t, func(t *testing.T, version string) {
		place := testkit.NewPlace(t)
		snap := team(profile.WorkspaceWrite)
		scripted := snap.Models["scripted"]
		scripted.UpstreamID = "up-1"
		snap.Models["scripted"] = scripted
		spec := specOf(place, snap, "reader")
		spec.CodexVersion = version
		// The model is known to Codex under the upstream's name.
		model := serve(t, spec, strings.Replace(commands("env"), "model scripted", "model up-1", 1))
		snap.Routes = map[string]profile.Route{"offline": {
			ID: "offline", Name: "Direct", Driver: profile.DriverCodexCustom, BaseURL: model.URL, CredentialEnv: "DIRECT_API_KEY",
			Headers: map[string]string{"X-Team": "one"}, EnvHTTPHeaders: map[string]string{"X-Secret": "EXAMPLE_HEADER_SECRET"},
		}}
		spec.GatewayURL = "http://127.0.0.1:1/v1"
		th := open(t, place, spec, model, "DIRECT_API_KEY="+bearer, "EXAMPLE_HEADER_SECRET=header-canary")
		out := th.run()
		th.assertQuiet()
		header := model.Engine.Requests()[0].Header
		if header.Get("X-Team") != "one" || header.Get("X-Secret") != "header-canary" {
			t.Errorf("the route was asked with the headers %v, want its own; its key was right, or it had not answered", header)
		}
		if strings.Contains(out[0], "canary") {
			t.Errorf("the model's shell has the environment %s, want no secret in it", out[0])
		}
		if diff := cmp.Diff([]string{"EXAMPLE_HEADER_SECRET"}, th.home.DirectHeaderEnvs); diff != "" {
			t.Errorf("direct header secrets (-want +got):\n%s", diff)
		}
		th.kill()
		assertNowhere(t, place.State, "header-canary", bearer)
	})
}

// A native agent runs in its parent's engine with the model, the effort and the
// guidance of its role, and delegates inside it only where the team says so.
func TestNativeAgentOnCodex(t *testing.T) {
	for name, nested := range map[string]bool{"flat": false, "nested": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachCodex(t, func(t *testing.T, version string) { runNative(t, version, nested) })
		})
	}
}

func runNative(t *testing.T, version string, nested bool) {
	t.Helper()
	place := testkit.NewPlace(t)
	snap := hybrid()
	snap.Coordination = profile.Coordination{MaxDepth: 2, NativeNestedDelegation: nested}
	snap.ToolServers = nil
	for id, agent := range snap.Agents {
		agent.ToolServers = nil
		snap.Agents[id] = agent
	}
	spec := specOf(place, snap, "lead")
	spec.CodexVersion = version
	model := serve(t, spec, `
		model scripted
		step
			call multi_agent_v1 spawn_agent {"message": "find it", "agent_type": "scout"}
		step
			call multi_agent_v1 wait_agent {"targets": ["${agent_id 1}"], "timeout_ms": 30000}
		step
			say "done"
		model small
		step
			say "found"
	`)
	th := open(t, place, spec, model)
	th.run()
	th.assertQuiet()
	requests := model.Engine.Requests()
	if last := string(requests[len(requests)-1].Body); !strings.Contains(last, "found") {
		t.Errorf("the lead was told %.2000s, want the native's answer", last)
	}
	i := slices.IndexFunc(requests, func(r modeltest.Request) bool { return r.Conversation.Model == "small" })
	if i < 0 {
		t.Fatal("the native's model was not asked")
	}
	r := requests[i]
	var of struct {
		Reasoning struct {
			Effort string `json:"effort"`
		} `json:"reasoning"`
	}
	if err := json.Unmarshal(r.Body, &of); err != nil || of.Reasoning.Effort != "high" || !strings.Contains(string(r.Body), "# The scout") {
		t.Errorf("the native was asked with effort %q, %v: %.400s, want its role's effort and guidance", of.Reasoning.Effort, err, r.Body)
	}
	if got := slices.ContainsFunc(r.Conversation.Tools, func(name string) bool { return strings.Contains(name, "spawn_agent") }); got != nested {
		t.Errorf("the native is offered %q, want subagents of its own %t", r.Conversation.Tools, nested)
	}
}
