package codexhome

import (
	"bytes"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
)

// roleFile is agents/<id>.toml: what a native agent has of its own. Codex
// 0.149.0 and 0.171.0 go by its model, effort and instructions; they give a
// native agent the tool servers and the sandbox of its parent all the same, so
// our own tools are granted by thread, and the profile's check tells the rest.
type roleFile struct {
	Model                 string               `toml:"model"`
	ModelReasoningEffort  string               `toml:"model_reasoning_effort,omitempty"`
	DeveloperInstructions string               `toml:"developer_instructions"`
	SandboxWorkspaceWrite map[string]bool      `toml:"sandbox_workspace_write"`
	MCPServers            map[string]mcpServer `toml:"mcp_servers"`
	Skills                skills               `toml:"skills"`
}

// natives makes the role files of the agents that run inside the role's engine,
// and names them in the configuration.
func (s *Spec) natives(home *Home, cfg *config) (files []file, err error) {
	if !s.hasNatives() {
		return nil, nil
	}
	if c := s.Snapshot.Coordination; c.NativeNestedDelegation {
		cfg.Agents["max_depth"] = c.MaxDepth // Codex's own is 1: no natives of natives
	}
	for _, id := range s.nativeAgents() {
		agent := s.Snapshot.Agents[id]
		text, err := s.roleFile(home, agent)
		if err != nil {
			return nil, err
		}
		name := "agents/" + id + ".toml"
		home.NativeAgentFiles[id], home.NativeAgentSHA256[id] = filepath.Join(s.Dir, filepath.FromSlash(name)), digest(text)
		cfg.Agents[id] = map[string]string{"description": agent.Description, "config_file": home.NativeAgentFiles[id]}
		files = append(files, file{name, text})
	}
	return files, nil
}

func (s *Spec) roleFile(home *Home, agent profile.Agent) ([]byte, error) {
	guidance, err := s.Snapshot.Text(agent.Guidance)
	if err != nil {
		return nil, err
	}
	if s.Snapshot.CanDelegate(agent.ID) && home.SkillPath != "" {
		skill, err := s.Snapshot.Text(s.Snapshot.Skill)
		if err != nil {
			return nil, err
		}
		guidance = withSkill(guidance, skill)
	}
	model := s.Snapshot.Models[agent.Model]
	role := roleFile{
		Model: modelName(model, home.ModelProvider), ModelReasoningEffort: effort(agent), DeveloperInstructions: string(guidance),
		SandboxWorkspaceWrite: map[string]bool{"network_access": agent.Network},
		MCPServers:            map[string]mcpServer{MeshServer: mesh(s, agent.ID, s.Tools)},
		Skills:                skillsOf(home, s.Snapshot.CanDelegate(agent.ID)),
	}
	for _, id := range toolServers(s.Snapshot, s.Agent, s.Tainted) {
		if use, ok := agent.ToolServers[id]; ok {
			role.MCPServers[id] = toolServer(s.Snapshot.ToolServers[id], use, true)
		}
	}
	var out bytes.Buffer
	if err := toml.NewEncoder(&out).Encode(role); err != nil {
		return nil, core.Errorf(core.KindValue, "the role file of native agent %s can't be written: %w", agent.ID, err)
	}
	return out.Bytes(), nil
}
