package profile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// defaultRecoveryAttempts is how often a lost host or engine of an agent is
// replaced when its profile says nothing.
const defaultRecoveryAttempts = 3

// CompileInput says which profile to compile and where to look for it.
type CompileInput struct {
	Name      string // id, or the path of a profile's folder
	Bundled   fs.FS  // folders of the bundled profiles, by id; may be nil
	ConfigDir string // the user's own are in its folder profiles; may be empty
}

// Compile reads and checks a profile and returns its snapshot. All problems of
// one file are told at once.
func Compile(ctx context.Context, in *CompileInput) (s *Snapshot, err error) {
	f, err := open(in)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := ctx.Err(); err != nil {
		return nil, core.Errorf(core.KindRuntime, "compiling profile %s: %w", in.Name, err)
	}
	var profile profileFile
	var catalog catalogFile
	if err := f.decode("profile.toml", &profile); err != nil {
		return nil, err
	}
	if err := f.decode("catalog.toml", &catalog); err != nil {
		return nil, err
	}
	c := &compiler{folder: f, profile: &profile, catalog: &catalog}
	c.compile()
	if len(c.problems) > 0 {
		return nil, core.Errorf(core.KindValue, "%s", strings.Join(c.problems, "; "))
	}
	return &c.out, c.out.seal()
}

// compiler checks the files and gathers what is wrong with them.
type compiler struct {
	folder   *folder
	profile  *profileFile
	catalog  *catalogFile
	out      Snapshot
	problems []string
}

// bad records a problem of a key.
func (c *compiler) bad(file, key, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%s/%s: %s %s", c.folder.name, file, key, fmt.Sprintf(format, args...)))
}

func (c *compiler) compile() {
	p := c.profile
	c.out = Snapshot{
		Schema: SchemaVersion, ProfileID: p.ID, ProfileVersion: p.Version,
		Description: p.Description, RootAgent: p.RootAgent,
		Agents: map[string]Agent{}, Routes: map[string]Route{}, Models: map[string]Model{},
	}
	c.top()
	for _, id := range slices.Sorted(maps.Keys(p.Agents)) {
		c.agent(id, p.Agents[id])
	}
	c.order()
}

func (c *compiler) top() {
	p := c.profile
	for _, file := range []struct {
		name    string
		version int
	}{{"profile.toml", p.SchemaVersion}, {"catalog.toml", c.catalog.SchemaVersion}} {
		if file.version != SchemaVersion {
			c.bad(file.name, "schema_version", "must be %d, not %d", SchemaVersion, file.version)
		}
	}
	if !core.ValidID(p.ID) {
		c.bad("profile.toml", "id", "%q can't be the id of a profile", p.ID)
	}
	if p.Version == "" {
		c.bad("profile.toml", "version", "is missing")
	}
	if _, ok := p.Agents[p.RootAgent]; !ok {
		c.bad("profile.toml", "root_agent", "%q is not one of the agents", p.RootAgent)
	}
	c.out.Coordination = Coordination{
		MaxDepth: p.Coordination.MaxDepth, MaxActiveAgents: p.Coordination.MaxActiveAgents,
		MaxActiveWriters: p.Coordination.MaxActiveWriters,
	}
	c.within("coordination.max_depth", p.Coordination.MaxDepth, 1, 8)
	c.within("coordination.max_active_agents", p.Coordination.MaxActiveAgents, 1, 64)
	c.within("coordination.max_active_writers", p.Coordination.MaxActiveWriters, 0, 64)
}

func (c *compiler) agent(id string, a agentFile) {
	key := "agents." + id + "."
	if !core.ValidID(id) {
		c.bad("profile.toml", "agents."+id, "can't be the id of an agent")
	}
	if a.Description == "" {
		c.bad("profile.toml", key+"description", "is missing")
	}
	c.oneOf(key+"permissions", a.Permissions, ReadOnly, WorkspaceWrite)
	c.oneOf(key+"approval_policy", a.ApprovalPolicy, "never", "on-request")
	c.oneOf(key+"execution_mode", a.ExecutionMode, "turn")
	for _, backend := range a.Backends {
		c.oneOf(key+"backends", backend, "mcp")
	}
	for _, kind := range a.TaskKinds {
		if !core.ValidID(kind) {
			c.bad("profile.toml", key+"task_kinds", "%q can't be the name of a kind", kind)
		}
	}
	c.within(key+"max_active", a.MaxActive, 0, 64)
	attempts := defaultRecoveryAttempts
	if a.MaxRecoveryAttempts != nil {
		attempts = *a.MaxRecoveryAttempts
		c.within(key+"max_recovery_attempts", attempts, 0, 100)
	}
	c.grants(id, a)
	model := c.model(key, a.Model)
	c.out.Agents[id] = Agent{
		ID: id, Description: a.Description, Model: a.Model, Route: model.Route,
		Effort: c.effort(key, a.ReasoningEffort, model), Permissions: a.Permissions,
		ApprovalPolicy: a.ApprovalPolicy, ExecutionMode: a.ExecutionMode,
		TaskKinds: a.TaskKinds, CanSpawn: a.CanSpawn, Backends: a.Backends,
		MaxActive: a.MaxActive, MaxRecoveryAttempts: attempts, Guidance: c.guidance(key, a.Guidance),
	}
}

// grants checks whom the agent may spawn: others of the team that are reached
// by MCP, never the root, each once.
func (c *compiler) grants(id string, a agentFile) {
	key := "agents." + id + ".can_spawn"
	seen := map[string]bool{}
	for _, target := range a.CanSpawn {
		t, ok := c.profile.Agents[target]
		switch {
		case !ok:
			c.bad("profile.toml", key, "%q is not one of the agents", target)
		case target == c.profile.RootAgent:
			c.bad("profile.toml", key, "names the root agent %q, which is spawned by nobody", target)
		case seen[target]:
			c.bad("profile.toml", key, "names %q twice", target)
		case !slices.Contains(t.Backends, "mcp"):
			c.bad("profile.toml", key, "names %q, which has no backend \"mcp\"", target)
		}
		seen[target] = true
	}
}

func (c *compiler) effort(key, wanted string, m Model) string {
	if wanted == "" {
		return m.DefaultReasoning
	}
	if !slices.Contains(m.ReasoningLevels, wanted) {
		c.bad("profile.toml", key+"reasoning_effort", "%q is not a level of model %s", wanted, m.Key)
	}
	return wanted
}

func (c *compiler) guidance(key, name string) string {
	if name == "" {
		c.bad("profile.toml", key+"guidance", "is missing")
		return ""
	}
	text, err := c.folder.read(name)
	if err != nil {
		c.bad("profile.toml", key+"guidance", "can't be read: %v", err)
	}
	return string(text)
}

// order lists the root and then the others as they are reached by delegation;
// who is not reached comes last.
func (c *compiler) order() {
	todo := append([]string{c.profile.RootAgent}, slices.Sorted(maps.Keys(c.profile.Agents))...)
	var visit func(id string)
	visit = func(id string) {
		if a, ok := c.profile.Agents[id]; ok && !slices.Contains(c.out.Order, id) {
			c.out.Order = append(c.out.Order, id)
			for _, next := range a.CanSpawn {
				visit(next)
			}
		}
	}
	for _, id := range todo {
		visit(id)
	}
}

func (c *compiler) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.bad("profile.toml", key, "must be one of %s, not %q", strings.Join(allowed, ", "), value)
	}
}

func (c *compiler) within(key string, value, low, high int) {
	if value < low || value > high {
		c.bad("profile.toml", key, "must be from %d to %d, not %d", low, high, value)
	}
}
