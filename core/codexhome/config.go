package codexhome

import (
	"strconv"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/profile"
)

// Limits that are written into the home.
const (
	startupTimeout = 30 // seconds until the MCP server must answer
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
	ModelCatalogJSON        string `toml:"model_catalog_json,omitempty"`
	ApprovalPolicy          string `toml:"approval_policy"`
	DefaultPermissions      string `toml:"default_permissions"`
	WebSearch               string `toml:"web_search"`
	AllowLoginShell         bool   `toml:"allow_login_shell"`
	SuppressUnstableWarning bool   `toml:"suppress_unstable_features_warning,omitempty"`
	ToolOutputTokenLimit    int    `toml:"tool_output_token_limit"`
	CheckForUpdateOnStartup bool   `toml:"check_for_update_on_startup"`
	CLIAuthCredentialsStore string `toml:"cli_auth_credentials_store"`

	ModelProviders map[string]provider        `toml:"model_providers,omitempty"`
	Features       map[string]bool            `toml:"features"`
	Agents         map[string]any             `toml:"agents"`
	ShellEnv       shellEnvironment           `toml:"shell_environment_policy"`
	Permissions    map[string]permissionTable `toml:"permissions"`
	MCPServers     map[string]mcpServer       `toml:"mcp_servers"`
	Analytics      map[string]bool            `toml:"analytics"`
	Feedback       map[string]bool            `toml:"feedback"`
	History        map[string]string          `toml:"history"`
	Skills         skills                     `toml:"skills"`
	Projects       map[string]project         `toml:"projects,omitempty"`
}

// skills switches the bundled skills off, and the team's own on or off. Models are
// told of none: Codex would list those of the workspace too, however untrusted it
// is. The team's own stands in AGENTS.md, since no command may read the home.
type skills struct {
	IncludeInstructions bool            `toml:"include_instructions"`
	Bundled             map[string]bool `toml:"bundled"`
	Config              []skill         `toml:"config,omitempty"`
}

type skill struct {
	Path    string `toml:"path"`
	Enabled bool   `toml:"enabled"`
}

type provider struct {
	Name              string            `toml:"name"`
	BaseURL           string            `toml:"base_url"`
	EnvKey            string            `toml:"env_key,omitempty"`
	WireAPI           string            `toml:"wire_api"`
	RequestMaxRetries int               `toml:"request_max_retries"`
	StreamMaxRetries  int               `toml:"stream_max_retries"`
	HTTPHeaders       map[string]string `toml:"http_headers,omitempty"`
	EnvHTTPHeaders    map[string]string `toml:"env_http_headers,omitempty"`
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
	Command                   string            `toml:"command,omitempty"`
	Args                      []string          `toml:"args,omitempty"`
	URL                       string            `toml:"url,omitempty"`
	BearerTokenEnvVar         string            `toml:"bearer_token_env_var,omitempty"`
	Enabled                   *bool             `toml:"enabled,omitempty"`
	Required                  bool              `toml:"required"`
	SupportsParallelToolCalls bool              `toml:"supports_parallel_tool_calls,omitempty"`
	DefaultToolsApprovalMode  string            `toml:"default_tools_approval_mode"`
	ToolTimeoutSec            float64           `toml:"tool_timeout_sec,omitempty"`
	StartupTimeoutSec         float64           `toml:"startup_timeout_sec"`
	EnabledTools              []string          `toml:"enabled_tools,omitempty"`
	DisabledTools             []string          `toml:"disabled_tools,omitempty"`
	EnvVars                   []string          `toml:"env_vars,omitempty"`
	Env                       map[string]string `toml:"env,omitempty"`
}

type project struct {
	TrustLevel string `toml:"trust_level"`
}

func newConfig(spec *Spec, agent profile.Agent, model profile.Model, home *Home) *config {
	return &config{
		Model:                   home.Model,
		ModelProvider:           home.ModelProvider,
		ModelReasoningEffort:    effort(agent),
		ModelCatalogJSON:        home.CatalogPath,
		ApprovalPolicy:          agent.ApprovalPolicy,
		DefaultPermissions:      home.PermissionProfile,
		WebSearch:               "disabled",
		SuppressUnstableWarning: agent.MayAsk, // of the feature that lets it ask
		ToolOutputTokenLimit:    toolOutputTokens,
		CLIAuthCredentialsStore: "file",
		ModelProviders:          providers(spec, model),
		Features:                features(spec, agent),
		Agents:                  map[string]any{"enabled": spec.hasNatives()},
		ShellEnv: shellEnvironment{
			Inherit: "core",
			// Codex gives its commands a socket for stdin, and a bash at the first
			// level takes that for a remote login and runs the user's .bashrc.
			Set: map[string]string{"SHLVL": "1"},
		},
		Permissions: map[string]permissionTable{
			ProfileRead:  permissions("read", agent.Network, outermost(spec.Deny)),
			ProfileWrite: permissions("write", agent.Network, outermost(spec.Deny)),
		},
		MCPServers: servers(spec),
		Projects:   map[string]project{spec.Workspace: {TrustLevel: untrusted}},
		Analytics:  map[string]bool{"enabled": false},
		Feedback:   map[string]bool{"enabled": false},
		History:    map[string]string{"persistence": "none"},
		Skills:     skillsOf(home, true),
	}
}

// effort is what the config says: a model without reasoning gets no key.
func effort(agent profile.Agent) string {
	if agent.Effort == "none" {
		return ""
	}
	return agent.Effort
}

// providers says how the role's model is reached. The bearer of the gateway and
// the keys of a direct route are named here, and stand in the environment alone.
func providers(spec *Spec, model profile.Model) map[string]provider {
	route := spec.Snapshot.Routes[model.Route]
	switch route.Driver {
	case profile.DriverCodexLogin:
		return nil // Codex's own
	case profile.DriverCodexCustom:
		return map[string]provider{DirectProvider: {
			Name: route.Name, BaseURL: route.BaseURL, EnvKey: route.CredentialEnv, WireAPI: "responses",
			RequestMaxRetries: streamRetries, StreamMaxRetries: streamRetries,
			HTTPHeaders: route.Headers, EnvHTTPHeaders: route.EnvHTTPHeaders,
		}}
	}
	return map[string]provider{Provider: {
		Name: "codex-mmo gateway", BaseURL: spec.GatewayURL, EnvKey: BearerVar, WireAPI: "responses", StreamMaxRetries: streamRetries,
	}}
}

// nativeAgents lists the role's subagents inside its engine: none in a session
// whose isolation is in doubt.
func (s *Spec) nativeAgents() []string { return nativesOf(s.Snapshot, s.Agent, s.Tainted) }

func (s *Spec) hasNatives() bool { return len(s.nativeAgents()) > 0 }

func nativesOf(snap *profile.Snapshot, agent string, tainted bool) []string {
	if tainted {
		return nil
	}
	return snap.NativeAgents(agent)
}

// toolServers lists the tool servers of an agent's engine.
func toolServers(snap *profile.Snapshot, agent string, tainted bool) []string {
	return snap.ToolServersOf(append(nativesOf(snap, agent, tainted), agent)...)
}

func skillsOf(home *Home, enabled bool) skills {
	s := skills{Bundled: map[string]bool{"enabled": false}}
	if home.SkillPath != "" {
		s.Config = []skill{{Path: home.SkillPath, Enabled: enabled}}
	}
	return s
}

// features switches off what calls home, what starts processes of its own and
// what retries without end. Goals stay on: a paused goal is what makes a fresh
// paginated thread durable. Native subagents are off in every form that the version
// knows, unless the role has some. 0.171.0 warns of these keys, and goes by
// agents.enabled alone: there they stay at what they are without being named, the
// first on, the second off.
func features(spec *Spec, agent profile.Agent) map[string]bool {
	set := map[string]bool{
		"plugins":                      false,
		"apps":                         false,
		"remote_plugin":                false,
		"shell_snapshot":               false,
		"unbounded_connection_retries": false,
	}
	if before(spec.CodexVersion, 0, 171) {
		set["multi_agent"], set["multi_agent_v2"] = spec.hasNatives(), false
	}
	if agent.MayAsk {
		set["default_mode_request_user_input"] = true
	}
	return set
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

// permissions is a profile that reads everything but what is denied, has the
// network or not, and reads or writes the workspace. Nothing else is writable, /tmp
// and TMPDIR included: a worker must not reach another one's files there.
func permissions(workspace string, network bool, deny []string) permissionTable {
	files := map[string]any{
		":root":            "read",
		":workspace_roots": map[string]string{".": workspace},
	}
	for _, path := range deny {
		files[path] = "deny"
	}
	return permissionTable{Filesystem: files, Network: map[string]bool{"enabled": network}}
}
