package codexhome

import (
	"slices"

	"github.com/codex-mmo/codex-mmo/core/profile"
)

// servers lists the MCP servers of a role's home: ours, and the tool servers that
// the role or one of its native agents is granted. What only a native agent has
// is there and off: its role file is to switch it on.
func servers(spec *Spec) map[string]mcpServer {
	all := map[string]mcpServer{MeshServer: mesh(spec, spec.Agent, spec.Tools)}
	agent := spec.Snapshot.Agents[spec.Agent]
	for _, id := range toolServers(spec.Snapshot, spec.Agent, spec.Tainted) {
		use, granted := agent.ToolServers[id]
		all[id] = toolServer(spec.Snapshot.ToolServers[id], use, granted)
	}
	return all
}

// toolServer is a tool server for one who is granted it, or is not. All tools
// that the catalogue enables are listed, and those that the grant leaves out
// are switched off.
func toolServer(t profile.ToolServer, use profile.ToolUse, granted bool) mcpServer {
	s := mcpServer{
		Command: t.Command, Args: t.Args, URL: t.URL, BearerTokenEnvVar: t.BearerTokenEnvVar, Enabled: &granted,
		Required: granted && use.Required, DefaultToolsApprovalMode: t.DefaultApprovalMode, StartupTimeoutSec: t.StartupTimeoutSec,
		EnabledTools: t.EnabledTools, EnvVars: t.EnvVars, Env: t.Env,
	}
	if granted && len(use.EnabledTools) > 0 {
		for _, tool := range t.EnabledTools {
			if !slices.Contains(use.EnabledTools, tool) {
				s.DisabledTools = append(s.DisabledTools, tool)
			}
		}
		if len(t.EnabledTools) == 0 {
			s.EnabledTools = use.EnabledTools
		}
	}
	return s
}

// mesh is our MCP server. It is required, so that no turn begins without its
// tools, and approved, because under policy never Codex would refuse them.
func mesh(spec *Spec, agent string, tools []string) mcpServer {
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
		ToolTimeoutSec:            spec.Snapshot.MeshTimeout(agent),
		StartupTimeoutSec:         startupTimeout,
		EnabledTools:              tools,
		EnvVars:                   vars,
		Env:                       map[string]string{SessionVar: spec.SessionID, AgentVar: spec.Agent, SocketVar: spec.ControlSocket},
	}
}
