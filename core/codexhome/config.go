package codexhome

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/profile"
)

// Limits that are written into the home.
const (
	toolTimeout    = 1230.0 // seconds; the longest wait of agents_wait and 30 more
	startupTimeout = 30     // seconds until the MCP server must answer
	// toolOutputTokens keeps one page of a result whole; Codex cuts the middle
	// out of what is longer.
	toolOutputTokens = 20000
	streamRetries    = 2 // by Codex; the gateway does the others
)

// config is config.toml. Keys and their meaning: Codex 0.149.0 and 0.171.0
// with --strict-config, which refuses what it does not know.
type config struct {
	Model                   string `toml:"model"`
	ModelProvider           string `toml:"model_provider"`
	ModelReasoningEffort    string `toml:"model_reasoning_effort,omitempty"`
	ModelCatalogJSON        string `toml:"model_catalog_json"`
	ApprovalPolicy          string `toml:"approval_policy"`
	DefaultPermissions      string `toml:"default_permissions"`
	WebSearch               string `toml:"web_search"`
	AllowLoginShell         bool   `toml:"allow_login_shell"`
	ToolOutputTokenLimit    int    `toml:"tool_output_token_limit"`
	CheckForUpdateOnStartup bool   `toml:"check_for_update_on_startup"`
	CLIAuthCredentialsStore string `toml:"cli_auth_credentials_store"`

	ModelProviders map[string]provider        `toml:"model_providers"`
	Features       map[string]bool            `toml:"features"`
	Agents         map[string]bool            `toml:"agents"`
	ShellEnv       shellEnvironment           `toml:"shell_environment_policy"`
	Permissions    map[string]permissionTable `toml:"permissions"`
	MCPServers     map[string]mcpServer       `toml:"mcp_servers"`
	Analytics      map[string]bool            `toml:"analytics"`
	Feedback       map[string]bool            `toml:"feedback"`
	History        map[string]string          `toml:"history"`
	Skills         map[string]map[string]bool `toml:"skills"`
	Projects       map[string]project         `toml:"projects,omitempty"`
}

type provider struct {
	Name              string `toml:"name"`
	BaseURL           string `toml:"base_url"`
	EnvKey            string `toml:"env_key"`
	WireAPI           string `toml:"wire_api"`
	RequestMaxRetries int    `toml:"request_max_retries"`
	StreamMaxRetries  int    `toml:"stream_max_retries"`
}

type shellEnvironment struct {
	Inherit string            `toml:"inherit"`
	Set     map[string]string `toml:"set"`
}

// permissionTable is a permission profile: path or special name -> access, or
// -> path -> access.
type permissionTable struct {
	Filesystem map[string]any  `toml:"filesystem"`
	Network    map[string]bool `toml:"network"`
}

type mcpServer struct {
	Command                   string            `toml:"command"`
	Args                      []string          `toml:"args"`
	Required                  bool              `toml:"required"`
	SupportsParallelToolCalls bool              `toml:"supports_parallel_tool_calls"`
	DefaultToolsApprovalMode  string            `toml:"default_tools_approval_mode"`
	ToolTimeoutSec            float64           `toml:"tool_timeout_sec"`
	StartupTimeoutSec         int               `toml:"startup_timeout_sec"`
	EnabledTools              []string          `toml:"enabled_tools"`
	EnvVars                   []string          `toml:"env_vars"`
	Env                       map[string]string `toml:"env"`
}

type project struct {
	TrustLevel string `toml:"trust_level"`
}

func newConfig(spec *Spec, agent profile.Agent, model profile.Model, home *Home) *config {
	return &config{
		Model:                   model.Key,
		ModelProvider:           Provider,
		ModelReasoningEffort:    effort(agent),
		ModelCatalogJSON:        home.CatalogPath,
		ApprovalPolicy:          agent.ApprovalPolicy,
		DefaultPermissions:      home.PermissionProfile,
		WebSearch:               "disabled",
		ToolOutputTokenLimit:    toolOutputTokens,
		CLIAuthCredentialsStore: "file",
		ModelProviders: map[string]provider{Provider: {
			Name: "codex-mmo gateway", BaseURL: spec.GatewayURL, EnvKey: BearerVar,
			WireAPI: "responses", StreamMaxRetries: streamRetries,
		}},
		Features: features(spec.CodexVersion),
		Agents:   map[string]bool{"enabled": false},
		ShellEnv: shellEnvironment{
			Inherit: "core",
			// Codex gives its commands a socket for stdin, and a bash at the first
			// level takes that for a remote login and runs the user's .bashrc.
			Set: map[string]string{"SHLVL": "1"},
		},
		Permissions: map[string]permissionTable{
			ProfileRead:  permissions("read", outermost(spec.Deny)),
			ProfileWrite: permissions("write", outermost(spec.Deny)),
		},
		MCPServers: map[string]mcpServer{MeshServer: mesh(spec)},
		Analytics:  map[string]bool{"enabled": false},
		Feedback:   map[string]bool{"enabled": false},
		History:    map[string]string{"persistence": "none"},
		Skills:     map[string]map[string]bool{"bundled": {"enabled": false}},
	}
}

// effort is what the config says: a model without reasoning gets no key.
func effort(agent profile.Agent) string {
	if agent.Effort == "none" {
		return ""
	}
	return agent.Effort
}

// features switches off what calls home, what starts processes of its own and
// what retries without end. Goals stay on: a paused goal is what makes a fresh
// paginated thread durable. Native subagents are off in every form that the version
// knows; 0.171.0 warns of the older keys.
func features(version string) map[string]bool {
	off := map[string]bool{
		"plugins":                      false,
		"apps":                         false,
		"remote_plugin":                false,
		"shell_snapshot":               false,
		"unbounded_connection_retries": false,
	}
	if before(version, 0, 171) {
		off["multi_agent"] = false
		off["multi_agent_v2"] = false
	}
	return off
}

// before reports whether a version is older than major.minor. One that can't
// be read counts as newer.
func before(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA == nil && errB == nil && (a < major || a == major && b < minor)
}

// permissions is a profile that reads everything but what is denied, has no
// network, and reads or writes the workspace. Nothing else is writable, /tmp
// and TMPDIR included: a worker must not reach another one's files there.
func permissions(workspace string, deny []string) permissionTable {
	files := map[string]any{
		":root":            "read",
		":workspace_roots": map[string]string{".": workspace},
	}
	for _, path := range deny {
		files[path] = "deny"
	}
	return permissionTable{Filesystem: files, Network: map[string]bool{"enabled": false}}
}

// mesh is our MCP server. It is required, so that no turn begins without its
// tools, and approved, because under policy never Codex would refuse them.
func mesh(spec *Spec) mcpServer {
	vars := []string{CallerTokenVar, RunVar}
	if spec.Agent != spec.Snapshot.RootAgent {
		vars = append(vars, JobVar)
	}
	return mcpServer{
		Command:                   spec.Binary,
		Args:                      []string{"mcp"},
		Required:                  true,
		SupportsParallelToolCalls: true,
		DefaultToolsApprovalMode:  "approve",
		ToolTimeoutSec:            toolTimeout,
		StartupTimeoutSec:         startupTimeout,
		EnabledTools:              spec.Tools,
		EnvVars:                   vars,
		Env: map[string]string{
			SessionVar: spec.SessionID,
			AgentVar:   spec.Agent,
			SocketVar:  spec.ControlSocket,
		},
	}
}

// Closed lists what no command of a model may read, for Spec.Deny: our state,
// which holds capabilities, homes and evidence, our configuration with its
// credentials, our sockets, and the operator's own Codex with its login. The
// private git folders and the worktrees stay open: writers work there.
func Closed(f folders.Folders, getenv func(string) string) []string {
	list := []string{f.Config, f.Runtime}
	for _, name := range []string{"sessions", "jobs", "gateways", "snapshots", "codex", "state.db", "state.db-wal", "state.db-shm"} {
		list = append(list, filepath.Join(f.State, name))
	}
	switch codex, home := getenv("CODEX_HOME"), getenv("HOME"); {
	case codex != "":
		list = append(list, codex)
	case home != "":
		list = append(list, filepath.Join(home, ".codex"))
	}
	return list
}

// outermost drops the paths that lie below another one: they are denied with
// it, and a denied path inside a denied folder makes every sandboxed command of
// Codex 0.149.0 fail.
func outermost(paths []string) []string {
	var kept []string
	for _, path := range slices.Sorted(slices.Values(paths)) {
		if n := len(kept); n > 0 && (path == kept[n-1] || strings.HasPrefix(path, kept[n-1]+"/")) {
			continue
		}
		kept = append(kept, path)
	}
	return kept
}
