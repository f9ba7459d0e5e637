package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/strictjson"
)

// SchemaVersion is the version of profile.toml, catalog.toml and of snapshots.
const SchemaVersion = 2

// Snapshot is a compiled profile. It is never changed.
//
// On disk it is <state>/snapshots/<hash>.json, the strict JSON of this struct,
// where hash is the hex sha256 of the file.
type Snapshot struct {
	Hash        string `json:"-"`
	GatewayHash string `json:"gateway_hash"` // of the routes and models alone; empty when none needs a gateway

	Schema         int              `json:"schema_version"`
	ProfileID      string           `json:"profile_id"`
	ProfileVersion string           `json:"profile_version"`
	Description    string           `json:"description"`
	RootAgent      string           `json:"root_agent"`
	Coordination   Coordination     `json:"coordination"`
	Order          []string         `json:"agent_order"` // agent ids: the root, then in order of delegation
	Agents         map[string]Agent `json:"agents"`      // by id
	Routes         map[string]Route `json:"routes"`      // by id; only those that an agent uses
	Models         map[string]Model `json:"models"`      // by key; only those that an agent uses
}

// Coordination limits the team as a whole.
type Coordination struct {
	MaxDepth         int `json:"max_depth"`          // of delegation, from 1: the root's jobs
	MaxActiveAgents  int `json:"max_active_agents"`  // workers at once in a session
	MaxActiveWriters int `json:"max_active_writers"` // of these with write access
}

// What an agent may do on disk.
const (
	ReadOnly       = "read-only"
	WorkspaceWrite = "workspace-write"
)

// Agent is one role of the team.
type Agent struct {
	ID                  string   `json:"id"`
	Description         string   `json:"description"`           // for the agent that may spawn it
	Model               string   `json:"model"`                 // key of Models
	Route               string   `json:"route"`                 // the model's
	Effort              string   `json:"effort"`                // reasoning effort; "none" sends none
	Permissions         string   `json:"permissions"`           // ReadOnly, WorkspaceWrite
	ApprovalPolicy      string   `json:"approval_policy"`       // never, on-request
	ExecutionMode       string   `json:"execution_mode"`        // turn
	TaskKinds           []string `json:"task_kinds"`            // what it may be asked for; empty: no kinds are told apart
	CanSpawn            []string `json:"can_spawn"`             // agent ids, in the order they are offered
	Backends            []string `json:"backends"`              // mcp
	MaxActive           int      `json:"max_active"`            // jobs of this role at once; 0: no limit of its own
	MaxRecoveryAttempts int      `json:"max_recovery_attempts"` // lost hosts or engines replaced; 0: none
	Guidance            string   `json:"guidance"`              // its AGENTS.md
}

// Route is a way to reach models.
type Route struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Driver       string `json:"driver"`        // of the gateway
	WireProtocol string `json:"wire_protocol"` // spoken upstream
	BillingMode  string `json:"billing_mode"`  // scripted: costs nothing, is no real model
	Script       string `json:"script"`        // text of the offline driver's script
}

// Scripted reports whether the route's models are scripted ones, so that their
// tokens are not spent.
func (r Route) Scripted() bool { return r.BillingMode == BillingScripted }

// OptionsJSON returns the driver's options as the gateway takes them.
func (r Route) OptionsJSON() ([]byte, error) {
	return strictjson.Marshal(map[string]string{"script": r.Script, "wire": r.WireProtocol})
}

// Model is a model as the team's agents see it.
type Model struct {
	Key              string   `json:"key"` // what Codex sends as "model"
	Route            string   `json:"route"`
	UpstreamID       string   `json:"upstream_id"`
	Maker            string   `json:"maker"`
	Modalities       []string `json:"modalities"`
	ReasoningLevels  []string `json:"reasoning_levels"`
	DefaultReasoning string   `json:"default_reasoning"`
	ContextWindow    int      `json:"context_window"` // tokens
	BaseInstructions string   `json:"base_instructions"`
}

// seal computes both hashes.
func (s *Snapshot) seal() error {
	gateway, err := s.gatewayHash()
	if err != nil {
		return err
	}
	s.GatewayHash = gateway
	data, err := strictjson.Marshal(s)
	if err != nil {
		return core.Errorf(core.KindValue, "profile %s can't be written as JSON: %w", s.ProfileID, err)
	}
	s.Hash = digest(data)
	return nil
}

// gatewayHash covers what a gateway is told and nothing else, so that profiles
// that differ in their texts alone share one.
func (s *Snapshot) gatewayHash() (string, error) {
	type served struct {
		Route      string   `json:"route"`
		UpstreamID string   `json:"upstream_id"`
		Modalities []string `json:"modalities"`
	}
	models := map[string]served{} // key -> what the gateway knows of it
	for key, m := range s.Models {
		models[key] = served{m.Route, m.UpstreamID, m.Modalities}
	}
	data, err := strictjson.Marshal(map[string]any{"routes": s.Routes, "models": models})
	if err != nil {
		return "", core.Errorf(core.KindValue, "the routes of profile %s can't be written as JSON: %w", s.ProfileID, err)
	}
	return digest(data), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Save writes the snapshot below the state root, unless it is there.
func (s *Snapshot) Save(stateDir string) error {
	if _, err := Load(stateDir, s.Hash); err == nil {
		return nil
	}
	data, err := strictjson.Marshal(s)
	if err != nil {
		return core.Errorf(core.KindValue, "profile %s can't be written as JSON: %w", s.ProfileID, err)
	}
	dir := filepath.Join(stateDir, "snapshots")
	if err := folders.MakeDir(dir); err != nil {
		return err
	}
	_, err = store.Publish(dir, s.Hash+".json", data)
	return err
}

var hashPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Load reads a snapshot that was saved. Its bytes are hashed again each time:
// what is not what the session was created with is refused.
func Load(stateDir, hash string) (*Snapshot, error) {
	if !hashPattern.MatchString(hash) {
		return nil, core.Errorf(core.KindValue, "%q is not the hash of a snapshot", hash)
	}
	path := filepath.Join(stateDir, "snapshots", hash+".json")
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, core.Errorf(core.KindNotFound, "no snapshot %s: %w", path, err)
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil, core.Errorf(core.KindOS, "snapshot %s is refused: it must be a regular file (%v)", path, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, core.Errorf(core.KindOS, "reading snapshot %s: %w", path, err)
	}
	if digest(data) != hash {
		return nil, core.Errorf(core.KindRuntime, "snapshot %s failed integrity validation: its bytes are not those it was named for", path)
	}
	s := &Snapshot{Hash: hash}
	if err := strictjson.Unmarshal(data, s, nil); err != nil {
		return nil, core.Errorf(core.KindValue, "snapshot %s is not valid: %w", path, err)
	}
	if s.Schema != SchemaVersion {
		return nil, core.Errorf(core.KindValue, "snapshot %s has schema %d, not %d", path, s.Schema, SchemaVersion)
	}
	return s, nil
}
