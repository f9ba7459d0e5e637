// Package admission decides whether jobs may start. Decide is pure: it sees
// one consistent view of the store and answers for a whole batch, so that the
// caller can commit the answer in the same transaction that took the view.
//
// It knows limits, grants, depth and modes; it does not know who proved what
// about himself (core/access) and starts nothing.
package admission

import (
	"github.com/codex-mmo/codex-mmo/core"
)

// View is what the store says at the moment of the decision.
type View struct {
	SessionStatus core.SessionStatus
	Limits        Limits
	Agents        map[string]Agent // agent id -> role
	CallerAgent   string           // the agent that asks
	CallerDepth   int              // 0 for the root
	Ancestors     []string         // agent ids from the caller up to the root
	ParentStatus  core.JobStatus   // of the caller's job; empty for the root
	Active        []ActiveJob      // of the session
	RoleActive    map[string]int   // agent id -> active jobs over all sessions of the profile
}

// Limits are the session's limits from its snapshot.
type Limits struct {
	MaxDepth        int // of delegation; the root's jobs have depth 1
	MaxActiveAgents int
	MaxWriters      int
}

// Agent is what a role may do, from the snapshot.
type Agent struct {
	CanSpawn    []string
	TaskKinds   []string
	Permissions string // read-only, workspace-write
	MaxActive   int    // over all sessions of the profile; 0 means no limit
	Unavailable string // why its route can't be used; empty when it can
}

// ActiveJob is one job that holds capacity.
type ActiveJob struct {
	JobID string
	Agent string
	Mode  string
}

// Request is one job to be.
type Request struct {
	Agent    string
	TaskKind string
	Mode     string // read-only, workspace-write
	HasTask  bool
}

// Modes of a job.
const (
	ModeReadOnly  = "read-only"
	ModeWorkspace = "workspace-write"
)

// Decide returns nil when all requests may start together, or the first
// refusal. Checks run in the order session, parent, then per member grant,
// kind, depth, ancestry, mode, route, limits.
func Decide(v View, requests []Request) error {
	if len(requests) == 0 {
		return core.Errorf(core.KindValue, "no agents were named").WithRemedy("name at least one agent to spawn")
	}
	if !v.SessionStatus.Admitting() {
		return refusal("session_not_admitting", "the session is %s and not admitting jobs", v.SessionStatus)
	}
	if v.ParentStatus != "" && v.ParentStatus != core.JobRunning && v.ParentStatus != core.JobWaiting && v.ParentStatus != core.JobDetached {
		return refusal("parent_not_admitting", "the caller is a non-admitting agent job (%s)", v.ParentStatus)
	}
	count := newCounts(v)
	for _, r := range requests {
		if err := decideOne(v, count, r); err != nil {
			return err
		}
	}
	return nil
}

func decideOne(v View, count *counts, r Request) error {
	agent, known := v.Agents[r.Agent]
	if !known || !contains(v.Agents[v.CallerAgent].CanSpawn, r.Agent) {
		return core.Errorf(core.KindPermission, "agent %q may not spawn %q", v.CallerAgent, r.Agent).
			WithRemedy("choose one of %q", v.Agents[v.CallerAgent].CanSpawn)
	}
	if !r.HasTask {
		return core.Errorf(core.KindValue, "agent %q was given no task", r.Agent).WithRemedy("say in `task` what it is to do")
	}
	if len(agent.TaskKinds) > 0 && !contains(agent.TaskKinds, r.TaskKind) {
		return core.Errorf(core.KindValue, "agent %q does not take task kind %q", r.Agent, r.TaskKind).
			WithRemedy("choose one of %q", agent.TaskKinds)
	}
	if v.CallerDepth+1 > v.Limits.MaxDepth {
		return refusal("depth", "delegation depth %d exceeds the profile's max_depth %d", v.CallerDepth+1, v.Limits.MaxDepth)
	}
	if contains(v.Ancestors, r.Agent) {
		return refusal("ancestor_role", "ancestor-role repetition: %q already leads to this call", r.Agent)
	}
	if err := mode(agent, r); err != nil {
		return err
	}
	if agent.Unavailable != "" {
		return refusal("route_unavailable", "agent %q can't start: %s", r.Agent, agent.Unavailable)
	}
	return count.take(v, agent, r)
}

func mode(agent Agent, r Request) error {
	switch r.Mode {
	case ModeReadOnly:
		return nil
	case ModeWorkspace:
		if agent.Permissions != ModeWorkspace {
			return core.Errorf(core.KindPermission, "agent %q is permanently read-only", r.Agent).
				WithRemedy("ask for mode %q", ModeReadOnly)
		}
		return nil
	}
	return core.Errorf(core.KindValue, "mode %q is unknown", r.Mode).
		WithRemedy("use %q or %q", ModeReadOnly, ModeWorkspace)
}

// counts is capacity in use, including the members decided before.
type counts struct {
	active, writers int
	byRole          map[string]int // agent id -> active
}

func newCounts(v View) *counts {
	c := &counts{active: len(v.Active), byRole: make(map[string]int, len(v.RoleActive))}
	for _, j := range v.Active {
		if j.Mode == ModeWorkspace {
			c.writers++
		}
	}
	for role, n := range v.RoleActive {
		c.byRole[role] = n
	}
	return c
}

func (c *counts) take(v View, agent Agent, r Request) error {
	if c.active+1 > v.Limits.MaxActiveAgents {
		return refusal("active_agent_limit", "active-agent limit %d is reached by %s", v.Limits.MaxActiveAgents, holders(v.Active))
	}
	if agent.MaxActive > 0 && c.byRole[r.Agent]+1 > agent.MaxActive {
		return refusal("role_limit", "active %s limit %d is reached", r.Agent, agent.MaxActive)
	}
	if r.Mode == ModeWorkspace && c.writers+1 > v.Limits.MaxWriters {
		return refusal("writer_limit", "active-writer limit %d is reached", v.Limits.MaxWriters)
	}
	c.active++
	c.byRole[r.Agent]++
	if r.Mode == ModeWorkspace {
		c.writers++
	}
	return nil
}

func holders(active []ActiveJob) string {
	text := ""
	for i, j := range active {
		if i > 0 {
			text += ", "
		}
		text += j.JobID
	}
	if text == "" {
		return "this batch"
	}
	return text
}

func refusal(reason, format string, args ...any) error {
	e := core.Errorf(core.KindAdmission, format, args...)
	e.Reason = reason
	return e.WithRemedy("wait for a job to end with agents_wait, or ask for less")
}

func contains(list []string, want string) bool {
	for _, v := range list {
		if v == want {
			return true
		}
	}
	return false
}
