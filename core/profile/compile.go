package profile

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
)

// CompileInput says which profile to compile and where to look for it.
type CompileInput struct {
	Name      string            // id, or the path of a profile's folder
	Bundled   fs.FS             // the bundled catalogue and the folders of the bundled profiles, by id; may be nil
	ConfigDir string            // the user's configuration; may be empty
	Bindings  map[string]string // agent id -> model key, over what the profile says
}

// Report is what a check has found.
type Report struct {
	Problems []Problem `json:"problems"` // none: the profile can be used
	Warnings []Problem `json:"warnings"` // what whoever uses it should know
	Snapshot *Snapshot `json:"-"`        // nil when there are problems
}

// Compile reads and checks a profile and returns its snapshot. The error of a
// profile that can't be used is a *Problems, which lists everything at once.
func Compile(ctx context.Context, in *CompileInput) (*Snapshot, error) {
	report, err := Check(ctx, in)
	if err != nil {
		return nil, err
	}
	if len(report.Problems) > 0 {
		between := " "
		if len(report.Problems) > 1 {
			between = "\n"
		}
		return nil, core.Errorf(core.KindValue, "profile %s can't be used:%s%w", in.Name, between, &Problems{List: report.Problems}).
			WithRemedy("`codex-mmo profile check` shows this again; the keys are in docs/PROFILES.md")
	}
	return report.Snapshot, nil
}

// Check finds everything that is wrong with a profile. Its error is of a profile
// that can't be found or read at all.
func Check(ctx context.Context, in *CompileInput) (*Report, error) {
	c, err := compile(ctx, in)
	if err != nil {
		return nil, err
	}
	c.problems.sort()
	c.warnings.sort()
	report := &Report{Problems: c.problems.List, Warnings: c.warnings.List}
	if len(report.Problems) == 0 {
		report.Snapshot = c.out
	}
	return report, nil
}

// compiler checks the files of a team and gathers its snapshot.
type compiler struct {
	in     *CompileInput
	folder *folder

	team, catalog, tools *tree // as they were written, layers laid over each other
	bundled              *tree // the lowest layer of the catalogue

	profile profileFile
	models  catalogFile
	servers toolFile

	out                *Snapshot
	problems, warnings Problems
}

func compile(ctx context.Context, in *CompileInput) (c *compiler, err error) {
	if err := ctx.Err(); err != nil {
		return nil, core.Errorf(core.KindRuntime, "compiling profile %s: %w", in.Name, err)
	}
	f, err := open(in)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	c = &compiler{in: in, folder: f}
	if err := c.load(); err != nil {
		return nil, err
	}
	c.decode()
	c.assemble()
	if len(c.problems.List) > 0 {
		return c, nil
	}
	return c, c.out.seal()
}

// decode turns the trees into structs. What does not fit is a problem.
func (c *compiler) decode() {
	d := &decoder{problems: &c.problems, retired: retiredKeys}
	d.decode(c.team, &c.profile)
	d.decode(c.catalog, &c.models)
	d.decode(c.tools, &c.servers)
}

func (c *compiler) assemble() {
	p := &c.profile
	c.out = &Snapshot{
		Schema: SchemaVersion, ProfileID: p.ID, ProfileVersion: p.Version, Description: p.Description, RootAgent: p.RootAgent,
		Agents: map[string]Agent{}, Routes: map[string]Route{}, Models: map[string]Model{}, Resources: map[string]Resource{},
		ToolServers: map[string]ToolServer{}, Bindings: map[string]string{}, Files: map[string]string{}, Warnings: []string{},
	}
	c.top()
	c.bindings()
	for _, id := range slices.Sorted(maps.Keys(p.Agents)) {
		c.agent(id, p.Agents[id])
	}
	c.order()
	c.delegation()
	c.advise()
}

// bad records a problem with the profile.
func (c *compiler) bad(wrong, right string, path ...string) {
	c.report(&c.problems, c.team, wrong, right, path)
}

// warn records what the user should know about a key of the profile.
func (c *compiler) warn(wrong, right string, path ...string) {
	c.report(&c.warnings, c.team, wrong, right, path)
}

func (c *compiler) report(to *Problems, t *tree, wrong, right string, path []string) {
	o := t.where(path...)
	to.add(Problem{File: o.File, Line: o.Line, Key: joinKey(path), Wrong: wrong, Right: right})
}

func (c *compiler) top() {
	p := &c.profile
	if p.ID != "" && !core.ValidID(p.ID) {
		c.bad("is "+quote(p.ID), "must be of a-z, 0-9, - and _", "id")
	}
	if _, ok := p.Agents[p.RootAgent]; !ok && p.RootAgent != "" {
		c.bad("is "+quote(p.RootAgent), c.agentHint(p.RootAgent), "root_agent")
	}
	co := p.Coordination
	c.out.Coordination = Coordination{
		MaxDepth: or(co.MaxDepth, 1), MaxActiveAgents: or(co.MaxActiveAgents, 4), MaxActiveWriters: or(co.MaxActiveWriters, 1),
		NativeNestedDelegation: co.NativeNestedDelegation, MaxWakes: or(co.MaxWakes, DefaultMaxWakes), Wake: or(co.Wake, WakeAuto),
	}
	b := p.Budget
	c.out.Budget = Budget(b)
	if b.ReserveTokens > 0 && b.ReserveTokens >= b.Tokens {
		c.bad("is not below tokens", "must leave something for the work", "budget", "reserve_tokens")
	}
	if b.ReserveUSD > 0 && b.ReserveUSD >= b.USD {
		c.bad("is not below usd", "must leave something for the work", "budget", "reserve_usd")
	}
	if p.Skill != "" {
		c.out.Skill = c.file("skill/SKILL.md", p.Skill, "skill")
	}
}

// bindings takes over the models that the command line chose.
func (c *compiler) bindings() {
	for _, agent := range slices.Sorted(maps.Keys(c.in.Bindings)) {
		key := c.in.Bindings[agent]
		a, ok := c.profile.Agents[agent]
		switch {
		case !ok:
			c.problems.add(Problem{File: fromCommandLine, Key: "--bind " + agent + "=" + key, Wrong: "there is no agent " + quote(agent), Right: c.agentHint(agent)})
			continue
		case c.catalog.at("models", key) == nil:
			c.problems.add(Problem{File: fromCommandLine, Key: "--bind " + agent + "=" + key, Wrong: "model " + quote(key) + " is not in the catalogue", Right: c.modelHint(key)})
			continue
		}
		a.Model = key
		// What the profile says of the old model's efforts does not hold.
		if !slices.Contains(c.models.Models[key].ReasoningLevels, a.ReasoningEffort) {
			a.ReasoningEffort, a.AllowedReasoningEfforts = "", nil
		}
		c.profile.Agents[agent] = a
		c.out.Bindings[agent] = key
	}
}

const fromCommandLine = "command line"

func (c *compiler) agentHint(word string) string {
	return hint(word, slices.Sorted(maps.Keys(c.profile.Agents)), "the agents are")
}

func (c *compiler) modelHint(word string) string {
	return hint(word, c.catalog.at("models").sorted(), "the catalogue has")
}

// hint names what a word was probably meant to be, or what there is.
func hint(word string, known []string, lead string) string {
	if near := nearest(word, known); near != "" {
		return "did you mean " + near + "?"
	}
	const shown = 8
	text := lead
	for i, k := range known {
		if i == shown {
			return text + " and more"
		}
		text += " " + k
	}
	return text
}

// or returns what a key says, or its default.
func or[T any](said *T, otherwise T) T {
	if said == nil {
		return otherwise
	}
	return *said
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
