package codexhome

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// Names that the home defines and the app-server's client uses.
const (
	Provider       = "gw"       // model_provider: the gateway
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
	// Deny lists absolute paths that no command of the model may read: the
	// state and configuration roots, the operator's CODEX_HOME, credentials.
	// They need not exist. A workspace below one of them stays open.
	Deny []string
}

// Home is what was written.
type Home struct {
	Dir               string
	PermissionProfile string // to send as "permissions" with every thread
	CatalogPath       string
	CatalogSHA256     string // hex
	ConfigSHA256      string // hex; of config.toml less its [projects], which Codex itself extends
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
	home := &Home{Dir: spec.Dir, PermissionProfile: permissionProfile(agent), CatalogPath: filepath.Join(spec.Dir, "models.json")}
	list, err := strictjson.Marshal(catalog(model))
	if err != nil {
		return nil, core.Errorf(core.KindValue, "the catalogue entry of model %s can't be written: %w", model.Key, err)
	}
	home.CatalogSHA256 = digest(list)
	cfg := newConfig(spec, agent, model, home)
	untrusting, err := encode(cfg)
	if err != nil {
		return nil, err
	}
	home.ConfigSHA256 = digest(untrusting)
	cfg.Projects = map[string]project{spec.Workspace: {TrustLevel: untrusted}}
	text, err := encode(cfg)
	if err != nil {
		return nil, err
	}
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"models.json", list},
		{"AGENTS.md", guidance},
		{"config.toml", text},
	} {
		if _, err := store.Publish(spec.Dir, file.name, file.data); err != nil {
			return nil, err
		}
	}
	return home, nil
}

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
