package codexhome

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// Names that the home defines and the app-server's client uses.
const (
	Provider       = "gw"     // model_provider: the gateway
	DirectProvider = "direct" // model_provider: a route that Codex reaches by itself
	LoginProvider  = "openai" // model_provider: Codex's own, by the operator's login
	SkillName      = "team-orchestration"
	MeshServer     = "mmo_mesh" // our MCP server
	ProfileRead    = "mmo-ro"   // permission profile: reads, writes nothing
	ProfileWrite   = "mmo-rw"   // permission profile: writes the workspace
	BearerVar      = "MMO_GATEWAY_TOKEN"
	CallerTokenVar = "MMO_CALLER_TOKEN"
	RunVar         = "MMO_RUN_ID"
	JobVar         = "MMO_CALLER_JOB_ID"
	SessionVar     = "MMO_ROOT_SESSION_ID"
	AgentVar       = "MMO_CALLER_AGENT"
	SocketVar      = "MMO_CONTROL_SOCKET"
)

// untrusted is said of every workspace. Trust would have Codex read the
// workspace's own .codex/config.toml, whose MCP servers and hooks run outside the
// sandbox and which may replace the model. What the agent may do comes from the
// permission profile, which trust has no part in (0.149.0).
const untrusted = "untrusted"

// Spec says what home to write.
type Spec struct {
	Dir           string            // CODEX_HOME, made when it is absent; absolute
	Snapshot      *profile.Snapshot // the session's
	Agent         string            // role in the snapshot
	Workspace     string            // absolute, links resolved
	CodexVersion  string            // of the pinned Codex; decides how a few keys are spelt
	GatewayURL    string            // http://127.0.0.1:PORT/v1
	Binary        string            // the kept build of ours that the MCP server runs from; absolute
	SessionID     string
	ControlSocket string   // of the session; absolute
	Tools         []string // names of the mesh tools that the role has
	Tainted       bool     // the session may not delegate any more
	// Login is the operator's CODEX_HOME, whose auth.json the home of a role on
	// a ChatGPT route shares. Nothing else of it is used.
	Login     string
	CopyLogin bool // copy auth.json instead of linking to it
	// Deny lists absolute paths that no command of the model may read: the
	// state and configuration roots, the operator's CODEX_HOME, credentials.
	// They need not exist. A workspace below one of them stays open.
	Deny []string
}

// Home is what was written.
type Home struct {
	Dir               string
	Model             string            // to send with every thread
	ModelProvider     string            // likewise
	PermissionProfile string            // to send as "permissions" with every thread
	CatalogPath       string            // empty: Codex knows the model itself
	CatalogSHA256     string            // hex
	SkillPath         string            // empty: the role does not delegate
	SkillSHA256       string            // hex
	NativeAgentFiles  map[string]string // native agent -> path of its role file
	NativeAgentSHA256 map[string]string // native agent -> hex digest of that file
	DirectHeaderEnvs  []string          // names of the secrets in headers of a direct route
	ToolEnvs          []string          // names of the secrets of tool servers
	ToolHTTPEnvs      []string          // those among them that are sent in HTTP headers
	Warnings          []string          // what the operator should know of it, a sentence each
}

// Write makes the home, or brings it back to what it should be. Files are 0600
// in a 0700 folder at any umask, each replaced whole.
func Write(spec *Spec) (*Home, error) {
	agent, model, err := spec.check()
	if err != nil {
		return nil, err
	}
	if err := folders.MakeDir(spec.Dir); err != nil {
		return nil, err
	}
	var guidance []byte
	if agent.Guidance != "" {
		if guidance, err = spec.Snapshot.Text(agent.Guidance); err != nil {
			return nil, err
		}
	}
	home := spec.home(agent, model)
	var files []file
	if home.CatalogPath != "" {
		list, err := strictjson.Marshal(catalog(spec.models(agent), home.ModelProvider))
		if err != nil {
			return nil, core.Errorf(core.KindValue, "the catalogue entry of model %s can't be written: %w", model.Key, err)
		}
		home.CatalogSHA256 = digest(list)
		files = append(files, file{"models.json", list})
	}
	if home.SkillPath != "" {
		skill, err := spec.Snapshot.Text(spec.Snapshot.Skill)
		if err != nil {
			return nil, err
		}
		home.SkillSHA256 = digest(skill)
		files = append(files, file{"skills/" + SkillName + "/SKILL.md", skill})
		guidance = withSkill(guidance, skill)
	}
	if agent.OutputContract != "" && spec.Agent != spec.Snapshot.RootAgent {
		schema, err := spec.Snapshot.Text(agent.OutputContract)
		if err != nil {
			return nil, err
		}
		guidance = withContract(guidance, schema)
	}
	files = append(files, file{"AGENTS.md", guidance})
	cfg := newConfig(spec, agent, model, home)
	roles, err := spec.natives(home, cfg)
	if err != nil {
		return nil, err
	}
	files = append(files, roles...)
	text, err := encode(cfg)
	if err != nil {
		return nil, err
	}
	if err := spec.login(home); err != nil {
		return nil, err
	}
	for _, f := range append(files, file{"config.toml", text}) {
		dir := filepath.Join(spec.Dir, filepath.Dir(filepath.FromSlash(f.name)))
		if err := folders.MakeDir(dir); err != nil {
			return nil, err
		}
		if _, err := store.Publish(dir, filepath.Base(f.name), f.data); err != nil {
			return nil, err
		}
	}
	return home, nil
}

// file is a file of the home, named by its path in it.
type file struct {
	name string
	data []byte
}

// home says what the home of a role is to have.
func (s *Spec) home(agent profile.Agent, model profile.Model) *Home {
	route := s.Snapshot.Routes[model.Route]
	h := &Home{
		Dir: s.Dir, PermissionProfile: permissionProfile(agent), NativeAgentFiles: map[string]string{}, NativeAgentSHA256: map[string]string{},
		ModelProvider: Provider, CatalogPath: filepath.Join(s.Dir, "models.json"),
	}
	switch route.Driver {
	case profile.DriverCodexLogin:
		h.ModelProvider, h.CatalogPath = LoginProvider, ""
		if s.CopyLogin {
			h.Warnings = append(h.Warnings, profile.LoginNote(profile.AuthCopy))
		}
	case profile.DriverCodexCustom:
		h.ModelProvider, h.DirectHeaderEnvs = DirectProvider, sortedValues(route.EnvHTTPHeaders)
	}
	h.Model = modelName(model, h.ModelProvider)
	if s.Snapshot.Skill != "" && s.delegates() {
		h.SkillPath = filepath.Join(s.Dir, "skills", SkillName, "SKILL.md")
	}
	for _, id := range toolServers(s.Snapshot, s.Agent, s.Tainted) {
		t := s.Snapshot.ToolServers[id]
		h.ToolEnvs = append(h.ToolEnvs, t.EnvVars...)
		if t.BearerTokenEnvVar != "" {
			h.ToolEnvs = append(h.ToolEnvs, t.BearerTokenEnvVar)
			h.ToolHTTPEnvs = append(h.ToolHTTPEnvs, t.BearerTokenEnvVar)
		}
	}
	h.ToolEnvs, h.ToolHTTPEnvs = sortedSet(h.ToolEnvs), sortedSet(h.ToolHTTPEnvs)
	return h
}

// withSkill is an agent's guidance followed by the team's skill, less the front
// matter that is for lists of skills.
func withSkill(guidance, skill []byte) []byte {
	if rest, ok := bytes.CutPrefix(skill, []byte("---\n")); ok {
		if _, body, ok := bytes.Cut(rest, []byte("\n---\n")); ok {
			skill = body
		}
	}
	return slices.Concat(bytes.TrimRight(guidance, "\n"), []byte("\n\n"), bytes.TrimLeft(skill, "\n"))
}

// delegates reports whether the role has anybody to delegate to, as jobs or as
// native agents. The root always is told how its team works.
func (s *Spec) delegates() bool {
	return s.Agent == s.Snapshot.RootAgent || s.Snapshot.CanDelegate(s.Agent) || s.hasNatives()
}

// models lists the models of a role and of its native agents.
func (s *Spec) models(agent profile.Agent) []profile.Model {
	list := []profile.Model{s.Snapshot.Models[agent.Model]}
	for _, id := range s.nativeAgents() {
		m := s.Snapshot.Models[s.Snapshot.Agents[id].Model]
		if !slices.ContainsFunc(list, func(have profile.Model) bool { return have.Key == m.Key }) {
			list = append(list, m)
		}
	}
	return list
}

func sortedValues(m map[string]string) []string { return sortedSet(slices.Collect(maps.Values(m))) }

func sortedSet(words []string) []string { return slices.Compact(slices.Sorted(slices.Values(words))) }

func (s *Spec) check() (profile.Agent, profile.Model, error) {
	agent, ok := s.Snapshot.Agents[s.Agent]
	if !ok {
		return profile.Agent{}, profile.Model{}, core.Errorf(core.KindValue, "profile %s has no agent %q", s.Snapshot.ProfileID, s.Agent)
	}
	model, ok := s.Snapshot.Models[agent.Model]
	if !ok {
		return profile.Agent{}, profile.Model{}, core.Errorf(core.KindValue, "profile %s has no model %q", s.Snapshot.ProfileID, agent.Model)
	}
	for what, path := range map[string]string{"home": s.Dir, "workspace": s.Workspace, "binary": s.Binary, "control socket": s.ControlSocket} {
		if !filepath.IsAbs(path) {
			return agent, model, core.Errorf(core.KindValue, "the home of agent %s needs an absolute path of the %s, not %q", s.Agent, what, path)
		}
	}
	for _, path := range s.Deny {
		if !filepath.IsAbs(path) {
			return agent, model, core.Errorf(core.KindValue, "a path to deny must be absolute, not %q", path)
		}
		if filepath.Clean(path) == filepath.Clean(s.Workspace) {
			return agent, model, core.Errorf(core.KindValue, "workspace %s is a folder that no agent may read", s.Workspace).
				WithRemedy("name another workspace")
		}
	}
	return agent, model, nil
}

func permissionProfile(agent profile.Agent) string {
	if agent.Permissions == profile.WorkspaceWrite {
		return ProfileWrite
	}
	return ProfileRead
}

func encode(cfg *config) ([]byte, error) {
	var out bytes.Buffer
	if err := toml.NewEncoder(&out).Encode(cfg); err != nil {
		return nil, core.Errorf(core.KindValue, "config.toml can't be written: %w", err)
	}
	return out.Bytes(), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
