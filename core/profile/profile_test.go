package profile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/profiles"
)

const profileText = `schema_version = 2
id = "team"
version = "1.2.3"
description = "A team."
root_agent = "zoe"

[coordination]
max_depth = 2
max_active_agents = 4
max_active_writers = 1

[agents.zoe]
model = "m-big"
description = "Leads."
permissions = "workspace-write"
approval_policy = "never"
execution_mode = "turn"
can_spawn = ["worker", "auditor"]
max_recovery_attempts = 0
guidance = "zoe.md"

[agents.auditor]
model = "m-small"
description = "Audits."
permissions = "read-only"
approval_policy = "on-request"
execution_mode = "turn"
task_kinds = ["audit"]
backends = ["mcp"]
reasoning_effort = "high"
max_active = 1
guidance = "zoe.md"

[agents.worker]
model = "m-small"
description = "Works."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"
can_spawn = ["auditor"]
backends = ["mcp"]
guidance = "zoe.md"
`

const catalogText = `schema_version = 2

[routes.r]
name = "Scripted"
driver = "offline"
wire_protocol = "openai_chat"
billing_mode = "scripted"
script = "s.script"

[models.m-big]
route = "r"
upstream_id = "vendor/big"
maker = "vendor"
modalities = ["text", "image"]
reasoning_levels = ["none"]
default_reasoning = "none"
context_window = 200000
base_instructions = "Be big."

[models.m-small]
route = "r"
upstream_id = "vendor/small"
maker = "vendor"
modalities = ["text"]
reasoning_levels = ["low", "high"]
default_reasoning = "low"
context_window = 100000
base_instructions = "Be small."
`

// files are a valid profile with id "team".
func files() fstest.MapFS {
	return fstest.MapFS{
		"team/profile.toml": {Data: []byte(profileText)},
		"team/catalog.toml": {Data: []byte(catalogText)},
		"team/zoe.md":       {Data: []byte("# Zoe\n")},
		"team/s.script":     {Data: []byte("model m-big\n")},
	}
}

func edit(t *testing.T, fsys fstest.MapFS, file, from, to string) {
	t.Helper()
	text := string(fsys["team/"+file].Data)
	if !strings.Contains(text, from) {
		t.Fatalf("%s has no %q to replace", file, from)
	}
	fsys["team/"+file] = &fstest.MapFile{Data: []byte(strings.Replace(text, from, to, 1))}
}

func compile(t *testing.T, in *profile.CompileInput) *profile.Snapshot {
	t.Helper()
	s, err := profile.Compile(t.Context(), in)
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return s
}

func TestCompile(t *testing.T) {
	s := compile(t, &profile.CompileInput{Name: "team", Bundled: files()})
	if diff := cmp.Diff([]string{"zoe", "worker", "auditor"}, s.Order); diff != "" {
		t.Errorf("Order (-want +got):\n%s", diff)
	}
	want := profile.Agent{
		ID: "auditor", Description: "Audits.", Model: "m-small", Route: "r", Effort: "high", Efforts: []string{"high"}, Permissions: profile.ReadOnly,
		ApprovalPolicy: "on-request", ExecutionMode: "turn", TaskKinds: []string{"audit"}, Backends: []string{"mcp"}, CanSpawn: []string{},
		Controls: map[string][]string{}, ToolServers: map[string]profile.ToolUse{}, Trust: "standard", Visibility: "descendants",
		StallWarningSeconds: 600, FinalizationGraceSeconds: 120, MaxActive: 1, MaxRecoveryAttempts: 3, Guidance: "guidance/auditor.md",
	}
	if diff := cmp.Diff(want, s.Agents["auditor"]); diff != "" {
		t.Errorf("auditor (-want +got):\n%s", diff)
	}
	if got := s.Agents["zoe"]; got.MaxRecoveryAttempts != 0 || got.Effort != "none" {
		t.Errorf("zoe has %d recovery attempts and effort %q, want 0 and none", got.MaxRecoveryAttempts, got.Effort)
	}
	if diff := cmp.Diff(profile.Coordination{MaxDepth: 2, MaxActiveAgents: 4, MaxActiveWriters: 1, MaxWakes: 50, Wake: "auto"}, s.Coordination); diff != "" {
		t.Errorf("Coordination (-want +got):\n%s", diff)
	}
	route, ok := s.Routes["r"]
	if !ok || len(s.Routes) != 1 || route.BillingMode != profile.BillingScripted {
		t.Errorf("Routes = %+v, want the used one alone", s.Routes)
	}
	if options, err := s.RouteOptions("r"); err != nil || string(options) != `{"prices":{"m-big":{"input":"0","output":"0"},"m-small":{"input":"0","output":"0"}},"script":"model m-big\n","wire":"openai_chat"}` {
		t.Errorf("RouteOptions = %s, %v", options, err)
	}
}

// Spec: A080 (the gateway's hash) and A076 (any change of text is another
// snapshot).
func TestHashes(t *testing.T) {
	base := compile(t, &profile.CompileInput{Name: "team", Bundled: files()})
	again := compile(t, &profile.CompileInput{Name: "team", Bundled: files()})
	if again.Hash != base.Hash || len(base.Hash) != 64 || len(base.GatewayHash) != 64 {
		t.Errorf("hashes %q and %q of the same files, gateway %q", base.Hash, again.Hash, base.GatewayHash)
	}
	for name, tc := range map[string]struct {
		file, from, to string
		gateway        bool // whether the gateway's hash changes
	}{
		"id":           {"profile.toml", `"team"`, `"crew"`, false},
		"description":  {"profile.toml", "A team.", "The team.", false},
		"guidance":     {"zoe.md", "Zoe", "Zoey", false},
		"instructions": {"catalog.toml", "Be big.", "Be bigger.", false},
		"script":       {"s.script", "m-big", "m-bigger", true},
		"upstream":     {"catalog.toml", "vendor/big", "vendor/huge", true},
		"modalities":   {"catalog.toml", `["text", "image"]`, `["text"]`, true},
		"price":        {"catalog.toml", `base_instructions = "Be big."`, "base_instructions = \"Be big.\"\nprice = { input = 1, output = 2 }", true},
		"header":       {"catalog.toml", `driver = "offline"`, "driver = \"offline\"\nenv_http_headers = { \"X-A\" = \"A_KEY\" }", true},
		"route name":   {"catalog.toml", `"Scripted"`, `"Written"`, false},
		"operator":     {"catalog.toml", `driver = "offline"`, "driver = \"offline\"\napi_operator = \"us\"", false},
		"resource":     {"catalog.toml", "\n[models.m-big]", "resource = \"x\"\n[resources.x]\nmax_active = 1\n[models.m-big]", false},
	} {
		fsys := files()
		edit(t, fsys, tc.file, tc.from, tc.to)
		s := compile(t, &profile.CompileInput{Name: "team", Bundled: fsys})
		if s.Hash == base.Hash || (s.GatewayHash != base.GatewayHash) != tc.gateway {
			t.Errorf("%s changed: snapshot differs %t, gateway differs %t, want true, %t",
				name, s.Hash != base.Hash, s.GatewayHash != base.GatewayHash, tc.gateway)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		file, from, to string
		want           string
	}{
		"unknown key":        {"profile.toml", "max_active = 1", "max_actve = 1", "bundled:team/profile.toml:31: agents.auditor.max_actve: unknown key; did you mean max_active?"},
		"unknown table":      {"profile.toml", "[coordination]", "[surprise]\nx = 1\n[coordination]", "profile.toml:7: surprise: unknown key; known here: agents, budget,"},
		"retired key":        {"profile.toml", "max_active = 1", "hard_wall_timeout_seconds = 1", "profile.toml:31: agents.auditor.hard_wall_timeout_seconds: is no longer a key; work is bounded by tokens: use goal_token_budget"},
		"catalogue key":      {"catalog.toml", "maker = \"vendor\"", "makers = \"vendor\"", "bundled:team/catalog.toml:13: models.m-big.makers: unknown key; did you mean maker?"},
		"type":               {"profile.toml", "max_depth = 2", "max_depth = \"2\"", "profile.toml:8: coordination.max_depth: is a string; must be a whole number"},
		"boolean number":     {"profile.toml", "max_depth = 2", "max_depth = true", "profile.toml:8: coordination.max_depth: is true or false; must be a whole number"},
		"list":               {"profile.toml", `["audit"]`, `["audit", 3]`, "agents.auditor.task_kinds: holds 3; must be a list of strings"},
		"table":              {"profile.toml", "[coordination]\n", "budget = 3\n[coordination]\n", "budget: is a whole number; must be a table"},
		"syntax":             {"profile.toml", "[coordination]", "[coordination", "profile.toml:7:"},
		"duplicate":          {"profile.toml", "max_depth = 2", "max_depth = 2\nmax_depth = 2", "profile.toml:9:"},
		"schema":             {"profile.toml", "schema_version = 2", "schema_version = 1", "profile.toml:1: schema_version: is 1; must be from 2 to 2"},
		"no schema":          {"catalog.toml", "schema_version = 2", "", "catalog.toml:1: schema_version: must be there, and 2"},
		"id":                 {"profile.toml", `id = "team"`, `id = "../team"`, `profile.toml:2: id: is "../team"; must be of a-z, 0-9, - and _`},
		"version":            {"profile.toml", `version = "1.2.3"`, "", "version: is missing"},
		"root":               {"profile.toml", `root_agent = "zoe"`, `root_agent = "zoey"`, `profile.toml:5: root_agent: is "zoey"; did you mean zoe?`},
		"depth":              {"profile.toml", "max_depth = 2", "max_depth = 9", "profile.toml:8: coordination.max_depth: is 9; must be from 1 to 8"},
		"permissions":        {"profile.toml", `"read-only"`, `"read"`, `agents.auditor.permissions: is "read"; must be one of read-only, workspace-write, danger-full-access`},
		"no sandbox":         {"profile.toml", `"read-only"`, `"danger-full-access"`, "agents.auditor.permissions: is danger-full-access: no sandbox at all; say unsafe = true if you mean it"},
		"unsafe":             {"profile.toml", "max_active = 1", "unsafe = true", "agents.auditor.unsafe: goes with permissions"},
		"more than parent":   {"profile.toml", "permissions = \"read-only\"\napproval_policy = \"on-request\"", "permissions = \"danger-full-access\"\nunsafe = true\napproval_policy = \"on-request\"", `agents.zoe.can_spawn: names "auditor", which has no sandbox that zoe itself has not`},
		"policy":             {"profile.toml", `"on-request"`, `"untrusted"`, "agents.auditor.approval_policy: is \"untrusted\"; must be one of never, on-request"},
		"goal":               {"profile.toml", `execution_mode = "turn"`, `execution_mode = "goal"`, "execution_mode: is \"goal\" without goal_token_budget and max_goal_token_budget"},
		"budget of a turn":   {"profile.toml", "max_active = 1", "goal_token_budget = 10", "agents.auditor.goal_token_budget: goes with execution_mode"},
		"budget too large":   {"profile.toml", "execution_mode = \"turn\"\ntask_kinds", "execution_mode = \"goal\"\ngoal_token_budget = 20\nmax_goal_token_budget = 10\ntask_kinds", "goal_token_budget: is 20, above max_goal_token_budget 10"},
		"stall":              {"profile.toml", "max_active = 1", "stall_warning_seconds = 59", "agents.auditor.stall_warning_seconds: is 59; must be from 60 to 86400"},
		"backend":            {"profile.toml", `backends = ["mcp"]`, `backends = ["pipe"]`, `agents.auditor.backends: is "pipe"; must be one of mcp, native`},
		"native's name":      {"profile.toml", "backends = [\"mcp\"]\nguidance = \"zoe.md\"\n", "backends = [\"mcp\"]\nguidance = \"zoe.md\"\n[agents.max_depth]\nmodel = \"m-small\"\ndescription = \"Digs.\"\nguidance = \"zoe.md\"\nbackends = [\"native\"]\n", "bundled:team/profile.toml:43: agents.max_depth: can't be the id of a native agent: Codex has a setting of that name; rename it, or run it as backend mcp"},
		"not reachable":      {"profile.toml", "backends = [\"mcp\"]\nreasoning", "reasoning", `agents.zoe.can_spawn: names "auditor", which has no backends`},
		"spawns nobody":      {"profile.toml", `["worker", "auditor"]`, `["worker", "eve"]`, `agents.zoe.can_spawn: names "eve"; the agents are auditor worker zoe`},
		"spawns the root":    {"profile.toml", `can_spawn = ["auditor"]`, `can_spawn = ["zoe"]`, "names the root agent"},
		"spawns twice":       {"profile.toml", `["worker", "auditor"]`, `["worker", "worker"]`, `names "worker" twice`},
		"controls nobody":    {"profile.toml", "max_active = 1\nguidance = \"zoe.md\"\n", "guidance = \"zoe.md\"\n[agents.auditor.controls.eve]\nactions = [\"steer\"]\n", `agents.auditor.controls.eve: there is no agent "eve"`},
		"controls how":       {"profile.toml", "max_active = 1\nguidance = \"zoe.md\"\n", "guidance = \"zoe.md\"\n[agents.auditor.controls.worker]\nactions = [\"kill\"]\n", `actions: is "kill"; must be one of inspect,`},
		"tool server":        {"profile.toml", "max_active = 1\nguidance = \"zoe.md\"\n", "guidance = \"zoe.md\"\n[agents.auditor.tool_mcp_servers.web]\n", `agents.auditor.tool_mcp_servers.web: there is no tool server "web"`},
		"low trust writes":   {"profile.toml", "permissions = \"workspace-write\"", "permissions = \"workspace-write\"\ntrust = \"low\"", "agents.zoe.permissions: is more than an agent of trust low may have"},
		"low trust network":  {"profile.toml", "max_active = 1", "trust = \"low\"\nnetwork = true", "agents.auditor.network: is more than an agent of trust low may have"},
		"kind":               {"profile.toml", `["audit"]`, `["Audit it"]`, "agents.auditor.task_kinds: names \"Audit it\""},
		"attempts":           {"profile.toml", "max_recovery_attempts = 0", "max_recovery_attempts = -1", "is -1; must be from 0 to 100"},
		"description":        {"profile.toml", `description = "Audits."`, "", "agents.auditor.description: is missing"},
		"effort":             {"profile.toml", `"high"`, `"max"`, `agents.auditor.reasoning_effort: is "max"; model m-small has ["low" "high"]`},
		"allowed efforts":    {"profile.toml", "max_active = 1", `allowed_reasoning_efforts = ["high", "max"]`, `allowed_reasoning_efforts: names "max"; model m-small has`},
		"model":              {"profile.toml", `"m-big"`, `"m-bog"`, `agents.zoe.model: is "m-bog", which is not in the catalogue; did you mean m-big?`},
		"no guidance":        {"profile.toml", `guidance = "zoe.md"`, "", "agents.zoe.guidance: is missing"},
		"missing guidance":   {"profile.toml", `"zoe.md"`, `"zoey.md"`, "team/zoey.md is missing"},
		"guidance elsewhere": {"profile.toml", `"zoe.md"`, `"../zoe.md"`, "plain path inside its folder"},
		"contract":           {"profile.toml", "max_active = 1", `output_contract = "zoe.md"`, "agents.auditor.output_contract: is no JSON Schema"},
		"enforcement":        {"profile.toml", "max_active = 1", `contract_enforcement = "warn"`, "agents.auditor.contract_enforcement: goes with output_contract"},
		"route":              {"catalog.toml", `route = "r"`, `route = "s"`, `models.m-big.route: is "s", which is not in the catalogue; did you mean r?`},
		"driver":             {"catalog.toml", `driver = "offline"`, `driver = "openai"`, `routes.r.driver: is "openai"; must be one of anthropic_messages,`},
		"plugin driver":      {"catalog.toml", `driver = "offline"`, `driver = "plugin:x"`, "a plugin's driver is plugin:<plugin>/<driver>"},
		"no URL":             {"catalog.toml", `driver = "offline"`, `driver = "openai_chat"`, "routes.r.base_url: is missing"},
		"open URL":           {"catalog.toml", `driver = "offline"`, "driver = \"openai_chat\"\nbase_url = \"http://example.org/v1\"", "routes.r.base_url: is not encrypted"},
		"key in the URL":     {"catalog.toml", `driver = "offline"`, "driver = \"openai_chat\"\nbase_url = \"https://key@example.org/v1\"", "holds more than scheme, host and path"},
		"wire":               {"catalog.toml", `driver = "offline"`, "driver = \"anthropic_messages\"\nbase_url = \"https://example.org/v1\"", "driver anthropic_messages speaks anthropic_messages"},
		"header":             {"catalog.toml", `driver = "offline"`, "driver = \"offline\"\nheaders = {\"X Y\" = \"z\"}", "routes.r.headers.X Y: is no header that can be sent"},
		"key in a header":    {"catalog.toml", `driver = "offline"`, "driver = \"offline\"\nheaders = {\"authorization\" = \"z\"}", "routes.r.headers.authorization: would put a key in the open; name a secret for what authorises"},
		"secret name":        {"catalog.toml", `driver = "offline"`, "driver = \"offline\"\ncredential_env = \"PATH\"", `routes.r.credential_env: is "PATH"; must be the name of a variable`},
		"resource":           {"catalog.toml", `driver = "offline"`, "driver = \"offline\"\nresource = \"x\"", `routes.r.resource: is "x", which is not in the catalogue`},
		"billing":            {"catalog.toml", `billing_mode = "scripted"`, "", "routes.r.billing_mode: is missing"},
		"script":             {"catalog.toml", `"s.script"`, `"t.script"`, "team/t.script is missing"},
		"upstream":           {"catalog.toml", `upstream_id = "vendor/big"`, "", "models.m-big.upstream_id: is missing"},
		"modalities":         {"catalog.toml", `["text", "image"]`, `["text", "smell"]`, `models.m-big.modalities: is "smell"; must be one of text, image`},
		"default level":      {"catalog.toml", `default_reasoning = "low"`, `default_reasoning = "max"`, `models.m-small.default_reasoning: is "max"; must be one of low, high`},
		"window":             {"catalog.toml", "200000", "10", "context_window: is 10; must be at least 1024"},
		"price":              {"catalog.toml", "context_window = 200000", "context_window = 200000\nprice = {input = -1}", "models.m-big.price.input: is -1; must be from 0 to 1000000"},
		"endless price":      {"catalog.toml", "context_window = 200000", "context_window = 200000\nprice = {output = inf}", "models.m-big.price.output: is +Inf; must be from 0 to 1000000"},
		"reserve":            {"profile.toml", "[coordination]", "[budget]\ntokens = 10\nreserve_tokens = 10\n[coordination]", "budget.reserve_tokens: is not below tokens"},
		"not UTF-8":          {"zoe.md", "# Zoe\n", "\xff", "zoe.md is not UTF-8 text"},
		"too large":          {"zoe.md", "# Zoe\n", strings.Repeat("x", 1<<20+1), "at most 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := files()
			edit(t, fsys, tc.file, tc.from, tc.to)
			_, err := profile.Compile(t.Context(), &profile.CompileInput{Name: "team", Bundled: fsys})
			if core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Compile = %v (%s), want a ValueError with %q", err, core.KindOf(err), tc.want)
			}
		})
	}
}

// All problems are told at once, always in the same order.
func TestCompileTellsAll(t *testing.T) {
	fsys := files()
	edit(t, fsys, "profile.toml", `version = "1.2.3"`, "")
	edit(t, fsys, "profile.toml", "schema_version = 2", "schema_version = 3")
	edit(t, fsys, "catalog.toml", "schema_version = 2", "schema_version = 3")
	edit(t, fsys, "catalog.toml", `maker = "vendor"`, "")
	edit(t, fsys, "catalog.toml", `upstream_id = "vendor/big"`, "")
	_, first := profile.Compile(t.Context(), &profile.CompileInput{Name: "team", Bundled: fsys})
	var problems *profile.Problems
	if !errors.As(first, &problems) || len(problems.List) != 5 {
		t.Fatalf("Compile = %v, want five problems", first)
	}
	for range 20 {
		if _, err := profile.Compile(t.Context(), &profile.CompileInput{Name: "team", Bundled: fsys}); err.Error() != first.Error() {
			t.Fatalf("Compile = %v, before %v", err, first)
		}
	}
}

// onDisk writes the files of a profile into a folder.
func onDisk(t *testing.T, dir string, fsys fs.FS) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	sub, err := fs.Sub(fsys, "team")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, sub); err != nil {
		t.Fatal(err)
	}
}

func TestWhereProfilesAre(t *testing.T) {
	config := testkit.PrivateDir(t)
	bundled := compile(t, &profile.CompileInput{Name: "team", Bundled: files(), ConfigDir: config})
	own := files()
	edit(t, own, "profile.toml", "A team.", "My team.")
	onDisk(t, filepath.Join(config, "profiles", "team"), own)
	mine := compile(t, &profile.CompileInput{Name: "team", Bundled: files(), ConfigDir: config})
	if bundled.Description != "A team." || mine.Description != "My team." {
		t.Errorf("Compile found %q, then %q, want the bundled one, then the user's", bundled.Description, mine.Description)
	}
	byPath := compile(t, &profile.CompileInput{Name: filepath.Join(config, "profiles", "team") + "/"})
	if byPath.Hash != mine.Hash {
		t.Error("the same profile by path has another hash")
	}
	for name, kind := range map[string]core.Kind{
		"none": core.KindNotFound, "Team": core.KindValue, "": core.KindValue,
		filepath.Join(config, "none"): core.KindNotFound,
	} {
		_, err := profile.Compile(t.Context(), &profile.CompileInput{Name: name, Bundled: files(), ConfigDir: config})
		if core.KindOf(err) != kind {
			t.Errorf("Compile(%q) = %v, want a %s", name, err, kind)
		}
	}
	// A link out of the folder is not followed.
	secret := filepath.Join(config, "secret.md")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	guidance := filepath.Join(config, "profiles", "team", "zoe.md")
	if err := os.Remove(guidance); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, guidance); err != nil {
		t.Fatal(err)
	}
	if s, err := profile.Compile(t.Context(), &profile.CompileInput{Name: "team", ConfigDir: config}); err == nil {
		t.Errorf("Compile followed a link and read %q", s.Agents["zoe"].Guidance)
	}
}

// The bundled profiles compile, and say what they are.
func TestBundled(t *testing.T) {
	entries, err := fs.ReadDir(profiles.FS, ".")
	if err != nil || len(entries) == 0 {
		t.Fatalf("bundled profiles: %v, %v", entries, err)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		s := compile(t, &profile.CompileInput{Name: entry.Name(), Bundled: profiles.FS})
		if s.ProfileID != entry.Name() {
			t.Errorf("the profile in folder %s has the id %s", entry.Name(), s.ProfileID)
		}
	}
	demo := compile(t, &profile.CompileInput{Name: "offline-demo", Bundled: profiles.FS})
	if diff := cmp.Diff([]string{"lead", "reader", "checker", "writer"}, demo.Order); diff != "" {
		t.Errorf("the team of offline-demo (-want +got):\n%s", diff)
	}
	wires := map[string]bool{}
	for id, agent := range demo.Agents {
		want := profile.ReadOnly
		if id == "writer" {
			want = profile.WorkspaceWrite
		}
		route := demo.Routes[agent.Route]
		if agent.Permissions != want || route.BillingMode != profile.BillingScripted {
			t.Errorf("%s of offline-demo is %s on %q, want %s on a scripted route", id, agent.Permissions, route.Name, want)
		}
		wires[route.WireProtocol] = true
	}
	if !wires[profile.WireChat] || !wires[profile.WireAnthropic] {
		t.Errorf("offline-demo speaks %v, want two wires", wires)
	}
}
