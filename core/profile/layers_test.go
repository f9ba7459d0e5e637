package profile_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/profiles"
)

// put writes a file below dir, with folders as needed.
func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// layered is the team over a bundled catalogue, with resources and a remote
// route.
func layered() fstest.MapFS {
	fsys := files()
	fsys["catalog.toml"] = &fstest.MapFile{Data: []byte(`schema_version = 2
[routes.remote]
name = "Remote"
driver = "openai_chat"
wire_protocol = "openai_chat"
billing_mode = "api"
base_url = "https://api.example.org/v1"
credential_env = "EXAMPLE_API_KEY"
resource = "shared"
[resources.shared]
max_active = 4
lock_key = "provider:example"
[models.remote__m]
route = "remote"
upstream_id = "m"
maker = "example"
modalities = ["text"]
reasoning_levels = ["low", "high"]
default_reasoning = "low"
context_window = 64000
[models.remote__m.price]
input = 1
output = 2.5
as_of = "2026-11-30"
`)}
	fsys["team/profile.toml"] = &fstest.MapFile{Data: []byte(strings.Replace(profileText, `model = "m-big"`, `model = "remote__m"`, 1))}
	return fsys
}

func origins(t *testing.T, in *profile.CompileInput) map[string]string {
	t.Helper()
	values, err := profile.Resolve(t.Context(), in)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	found := map[string]string{}
	for _, v := range values {
		found[v.Key] = string(v.Value) + " " + v.Origin.String()
	}
	return found
}

// Later layers of the catalogue win key by key, and every value says where it
// came from.
func TestLayers(t *testing.T) {
	config := testkit.PrivateDir(t)
	put(t, config, "catalog.d/10-mine.toml", "schema_version = 2\n[resources.shared]\nmax_active = 2\n")
	put(t, config, "catalog.d/20-mine.toml", "schema_version = 2\n\n[resources.shared]\nmax_active = 1\n")
	fsys := layered()
	in := &profile.CompileInput{Name: "team", Bundled: fsys, ConfigDir: config, Bindings: map[string]string{"worker": "remote__m"}}
	s := compile(t, in)
	want := profile.Resource{ID: "shared", MaxActive: 1, LockKey: "provider:example"}
	if diff := cmp.Diff(want, s.Resources["shared"]); diff != "" {
		t.Errorf("the resource (-want +got):\n%s", diff)
	}
	if s.Agents["worker"].Model != "remote__m" || s.Bindings["worker"] != "remote__m" || s.Agents["worker"].Effort != "low" {
		t.Errorf("the bound worker is %+v", s.Agents["worker"])
	}
	if unbound := compile(t, &profile.CompileInput{Name: "team", Bundled: fsys, ConfigDir: config}); unbound.Hash == s.Hash {
		t.Error("a binding is no part of the snapshot's hash")
	}
	got := origins(t, in)
	for key, want := range map[string]string{
		"resources.shared.max_active":        "1 " + filepath.Join(config, "catalog.d", "20-mine.toml") + ":4",
		"resources.shared.lock_key":          `"provider:example" bundled:catalog.toml:12`,
		"models.remote__m.price.output":      "2.5 bundled:catalog.toml:23",
		"models.m-small.context_window":      "100000 bundled:team/catalog.toml:27",
		"coordination.max_depth":             "2 bundled:team/profile.toml:8",
		"coordination.max_wakes":             "50 default",
		"agents.zoe.model":                   `"remote__m" bundled:team/profile.toml:13`,
		"agents.worker.model":                `"remote__m" command line`,
		"agents.auditor.max_active":          "1 bundled:team/profile.toml:31",
		"agents.worker.execution_mode":       `"turn" bundled:team/profile.toml:39`,
		"profile_version":                    `"1.2.3" bundled:team/profile.toml:3`,
		"agents.worker.approval_policy":      `"never" bundled:team/profile.toml:38`,
		"agents.worker.write_scope_required": "false default",
	} {
		if got[key] != want {
			t.Errorf("%s is %s, want %s", key, got[key], want)
		}
	}
}

// A model on one's own machine costs nothing unless it is given a price, in the
// check, for admission and at the gateway; any other needs one for usd.
func TestPrices(t *testing.T) {
	for name, tc := range map[string]struct {
		mode     string
		unpriced bool
		want     string // what the gateway is told
		problem  string
	}{
		"paid":            {"api", false, `"prices":{"remote__m":{"input":"1","output":"2.5"}}`, ""},
		"local, priced":   {"local", false, `"prices":{"remote__m":{"input":"1","output":"2.5"}}`, ""},
		"local, unpriced": {"local", true, `"prices":{"remote__m":{"input":"0","output":"0"}}`, ""},
		"paid, unpriced":  {"api", true, "", "budget.usd: is 5, and the price of model remote__m is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := layered()
			edit(t, fsys, "profile.toml", "[coordination]", "[budget]\nusd = 5\n[coordination]")
			catalog := strings.Replace(string(fsys["catalog.toml"].Data), `billing_mode = "api"`, "billing_mode = \""+tc.mode+`"`, 1)
			if tc.unpriced {
				catalog, _, _ = strings.Cut(catalog, "[models.remote__m.price]")
			}
			fsys["catalog.toml"] = &fstest.MapFile{Data: []byte(catalog)}
			s, err := profile.Compile(t.Context(), &profile.CompileInput{Name: "team", Bundled: fsys})
			if tc.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("Compile = %v, want %q", err, tc.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if options, err := s.RouteOptions("remote"); err != nil || string(options) != "{"+tc.want+"}" {
				t.Errorf("RouteOptions = %s, %v, want %s", options, err, tc.want)
			}
			if s.Unpriced("remote__m") || s.Unpriced("m-small") {
				t.Error("the cost of a model is said to be unknown")
			}
		})
	}
}

// TestLayerIsWrong: what is wrong with a layer is told once, at its place.
func TestLayerIsWrong(t *testing.T) {
	for name, tc := range map[string]struct{ folder, text, want string }{
		"old catalogue":    {"catalog.d", "schema_version = 1\n", ":1: schema_version: must be there, and 2; schema_version = 2"},
		"no version":       {"catalog.d", "\n[resources.shared]\nmax_active = 2\n", ":1: schema_version: must be there, and 2; schema_version = 2"},
		"no TOML":          {"catalog.d", "schema_version = 2\n[\n", ":2: invalid character at start of key"},
		"old tool servers": {"tool-mcp.d", "schema_version = 3\n", ":1: schema_version: must be there, and 2; schema_version = 2"},
	} {
		config := testkit.PrivateDir(t)
		put(t, config, tc.folder+"/x.toml", tc.text)
		report, err := profile.Check(t.Context(), &profile.CompileInput{Name: "team", Bundled: layered(), ConfigDir: config})
		if err != nil || len(report.Problems) != 1 || !strings.HasPrefix(report.Problems[0].String(), filepath.Join(config, tc.folder, "x.toml")+tc.want) {
			t.Errorf("%s: %v, %v, want one problem, %q", name, report, err, tc.want)
		}
	}
}

// A layer that sends a key to another host is told, with the host.
func TestRedirectedRoute(t *testing.T) {
	config := testkit.PrivateDir(t)
	put(t, config, "catalog.d/x.toml", "schema_version = 2\n[routes.remote]\nbase_url = \"https://evil.example.net/v1\"\n")
	report, err := profile.Check(t.Context(), &profile.CompileInput{Name: "team", Bundled: layered(), ConfigDir: config})
	if err != nil || len(report.Problems) > 0 {
		t.Fatalf("Check = %+v, %v", report, err)
	}
	want := profile.Problem{
		File: filepath.Join(config, "catalog.d", "x.toml"), Line: 3, Key: "routes.remote.base_url",
		Wrong: "sends EXAMPLE_API_KEY to https://evil.example.net/v1 instead of https://api.example.org/v1", Right: "make sure that you meant it",
	}
	if !slices.Contains(report.Warnings, want) {
		t.Errorf("the warnings are %v, want %v among them", report.Warnings, want)
	}
}

// Files that somebody else could have written, links and files that are no text
// are refused by name, wherever they lie; what lies in a workspace is not looked
// at.
func TestHostileFiles(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, config string){
		"link": func(t *testing.T, config string) {
			put(t, config, "real.toml", "schema_version = 2\n")
			put(t, config, "catalog.d/a.toml", "")
			path := filepath.Join(config, "catalog.d", "x.toml")
			if err := os.Symlink(filepath.Join(config, "real.toml"), path); err != nil {
				t.Fatal(err)
			}
		},
		"binary": func(t *testing.T, config string) { put(t, config, "catalog.d/x.toml", "a = \"\x00\"") },
		"huge":   func(t *testing.T, config string) { put(t, config, "catalog.d/x.toml", strings.Repeat("#\n", 1<<20)) },
		"open to others": func(t *testing.T, config string) {
			put(t, config, "catalog.d/x.toml", "schema_version = 2\n")
			if err := os.Chmod(filepath.Join(config, "catalog.d", "x.toml"), 0o666); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := testkit.PrivateDir(t)
			spoil(t, config)
			_, err := profile.Compile(t.Context(), &profile.CompileInput{Name: "team", Bundled: layered(), ConfigDir: config})
			if err == nil || !strings.Contains(err.Error(), filepath.Join(config, "catalog.d")) {
				t.Errorf("Compile = %v, want a refusal that names the file", err)
			}
		})
	}
}

// Lifecycle and mesh timeouts cover the slowest tool server within reach.
//
// Spec: A039
func TestTimeouts(t *testing.T) {
	config := testkit.PrivateDir(t)
	put(t, config, "tool-mcp.d/slow.toml", `schema_version = 2
[tool_mcp_servers.slow]
transport = "stdio"
command = "slow-server"
startup_timeout_sec = 1500.5
`)
	fsys := layered()
	text := string(fsys["team/profile.toml"].Data)
	fsys["team/profile.toml"] = &fstest.MapFile{Data: []byte(text + "[agents.worker.tool_mcp_servers.slow]\n")}
	s := compile(t, &profile.CompileInput{Name: "team", Bundled: fsys, ConfigDir: config})
	for agent, want := range map[string][2]float64{"worker": {1530.5, 1560.5}, "zoe": {1200, 1560.5}, "auditor": {1200, 1230}} {
		if got := [2]float64{s.LifecycleTimeout(agent), s.MeshTimeout(agent)}; got != want {
			t.Errorf("%s has timeouts %v, want %v", agent, got, want)
		}
	}
}

// An engine is given what its agent and its agent's natives have; natives of
// natives are there only where the team says so.
func TestNativesOfAnEngine(t *testing.T) {
	config := testkit.PrivateDir(t)
	put(t, config, "tool-mcp.d/deep.toml", `schema_version = 2
[tool_mcp_servers.deep]
transport = "stdio"
command = "deep-server"
env_vars = ["DEEP_TOKEN"]
`)
	for nested, want := range map[bool]struct{ natives, secrets []string }{
		false: {[]string{"worker"}, nil},
		true:  {[]string{"worker", "auditor"}, []string{"DEEP_TOKEN"}},
	} {
		fsys := files()
		edit(t, fsys, "profile.toml", `["worker", "auditor"]`, `["worker"]`)
		edit(t, fsys, "profile.toml", "[coordination]", fmt.Sprintf("[coordination]\nnative_nested_delegation = %t", nested))
		text := string(fsys["team/profile.toml"].Data)
		text = strings.ReplaceAll(text, `backends = ["mcp"]`, `backends = ["mcp", "native"]`)
		fsys["team/profile.toml"] = &fstest.MapFile{Data: []byte(text + "[agents.auditor.tool_mcp_servers.deep]\n")}
		s := compile(t, &profile.CompileInput{Name: "team", Bundled: fsys, ConfigDir: config})
		if diff := cmp.Diff(want.natives, s.NativeAgents("zoe")); diff != "" {
			t.Errorf("natives of the root, nested %t (-want +got):\n%s", nested, diff)
		}
		if diff := cmp.Diff(want.secrets, s.AgentSecrets("zoe")); diff != "" {
			t.Errorf("secrets of its engine, nested %t (-want +got):\n%s", nested, diff)
		}
	}
}

// A route is available when its secrets are there and the session was not told
// to do without it; an empty secret is none.
func TestAvailability(t *testing.T) {
	config := testkit.PrivateDir(t)
	put(t, config, "credentials.env", "EXAMPLE_API_KEY=\n")
	s := compile(t, &profile.CompileInput{Name: "team", Bundled: layered(), ConfigDir: config})
	at := func(env map[string]string, faults map[string]string) map[string]profile.RouteAvailability {
		keys, err := profile.LoadCredentials(config, func(name string) string { return env[name] })
		if err != nil {
			t.Fatal(err)
		}
		return s.Availability(func(name string) bool { _, ok := keys.Lookup(name); return ok }, false, faults)
	}
	for name, tc := range map[string]struct {
		env, faults map[string]string
		want        profile.RouteAvailability
	}{
		"missing": {nil, nil, profile.RouteAvailability{Reason: "missing credential EXAMPLE_API_KEY"}},
		"empty":   {map[string]string{"EXAMPLE_API_KEY": ""}, nil, profile.RouteAvailability{Reason: "missing credential EXAMPLE_API_KEY"}},
		"there":   {map[string]string{"EXAMPLE_API_KEY": "k"}, nil, profile.RouteAvailability{Available: true}},
		"fault": {
			map[string]string{"EXAMPLE_API_KEY": "k"},
			map[string]string{"remote": "rate_limit"},
			profile.RouteAvailability{Reason: "injected route fault: rate_limit", Fault: "rate_limit"},
		},
	} {
		if diff := cmp.Diff(tc.want, at(tc.env, tc.faults)["remote"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !at(tc.env, tc.faults)["r"].Available {
			t.Errorf("%s: the scripted route is not available", name)
		}
	}
	for want, faults := range map[string]map[string]string{
		"must be one of": {"remote": "generic_unavailable"}, "unknown route": {"nowhere": "timeout"},
	} {
		if err := s.CheckFaults(faults); core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckFaults(%v) = %v, want %q", faults, err, want)
		}
	}
	if diff := cmp.Diff([]string{"EXAMPLE_API_KEY"}, s.SecretNames()); diff != "" {
		t.Errorf("SecretNames (-want +got):\n%s", diff)
	}
	if names := s.AgentSecrets("zoe"); len(names) > 0 {
		t.Errorf("the engine of an agent on the gateway gets %v", names)
	}
}

// The published schemas are valid JSON, closed, and the ones in docs/schemas.
func TestSchemas(t *testing.T) {
	for _, name := range profile.SchemaNames {
		data, err := profile.Schema(name)
		if err != nil {
			t.Fatal(err)
		}
		var schema map[string]any
		if err := json.Unmarshal(data, &schema); err != nil || schema["additionalProperties"] != false {
			t.Errorf("the schema of %s is no closed object: %v", name, err)
		}
		published, err := os.ReadFile(filepath.Join("..", "..", "docs", "schemas", name+".schema.json"))
		if err != nil || string(published) != string(data) {
			t.Errorf("docs/schemas/%s.schema.json is not what `codex-mmo profile schema %s` prints (%v)", name, name, err)
		}
	}
}

// A value that the snapshot calls otherwise than the file has its origin, too.
func TestOriginOfAnEffort(t *testing.T) {
	values, err := profile.Resolve(t.Context(), &profile.CompileInput{Name: "codex-harness-team", Bundled: profiles.FS})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(values, func(v profile.Value) bool { return v.Key == "agents.integrator.effort" })
	if i < 0 || !strings.HasPrefix(values[i].Origin.File, "bundled:") || values[i].Origin.Line == 0 {
		t.Fatalf("agents.integrator.effort is value %d of %d, want one with its place", i, len(values))
	}
}
