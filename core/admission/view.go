package admission

import (
	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// View is what the store says at the moment of the decision.
type View struct {
	SessionID     string
	ProfileID     string
	SessionStatus core.SessionStatus
	Limits        Limits
	Agents        map[string]Agent // agent id -> role
	Caller        Caller
	Holders       []store.Holder // who counts, of all sessions; see Counting
	Purse         *Purse         // of the session; nil: it has no budget
}

// Limits are the session's limits from its snapshot.
type Limits struct {
	MaxDepth        int // of delegation; the root's jobs have depth 1
	MaxActiveAgents int
	MaxWriters      int
}

// Caller is the agent that asks.
type Caller struct {
	Agent     string
	Depth     int            // 0: the root; a native agent has one more than its parent
	Ancestors []string       // agent ids from the caller up to the root
	JobStatus core.JobStatus // of the caller's job, or of the job that it runs in; empty: the root's
}

// Agent is what a role may do, from the snapshot.
type Agent struct {
	CanSpawn           []string
	TaskKinds          []string
	Permissions        string // read-only, workspace-write, danger-full-access
	LowTrust           bool
	WriteScopeRequired bool
	MaxActive          int    // over all sessions of the profile; 0: no limit
	Unavailable        string // why its route can't be used; empty: it can
	Resource           Resource
	GoalTokens         int64 // tokens that its goal may take; 0: it has no such bound
	Unpriced           bool  // nobody knows what its route costs
}

// Resource is the capacity that one job of a role occupies. The zero value is
// none.
type Resource struct {
	ID      string // the resource group, for messages
	LockKey string // resources of one key share
	Units   int
	Max     int // units at once, over all sessions
}

// Request is one job to be.
type Request struct {
	Agent    string
	TaskKind string
	Mode     string // read-only, workspace-write
	HasTask  bool
	Literal  *Literal
	Scope    Scope // of a writer
	// GoalTokens is what its goal may take; 0: as its role says.
	GoalTokens int64
}

// Scope is a write scope on disk.
type Scope struct {
	Named     bool     // it was asked for; else it is the whole workspace
	Paths     []string // absolute, links resolved
	FoldsCase bool     // its file system takes names of another case for the same
}

// Modes of a job.
const (
	ModeReadOnly  = "read-only"
	ModeWorkspace = "workspace-write"
	modeUnsafe    = "danger-full-access"
)

// Counting returns those of the accounting who count now: class held always,
// class live while alive says so of the host or of the engine.
//
// A detached session counts whatever its processes do; a paused one, and a
// paused job, only while a process of theirs lives. Who was suspended has none
// as a rule; one that was kept for a resume counts.
func Counting(list []store.Holder, alive func(store.Process) bool) []store.Holder {
	var counting []store.Holder
	for _, h := range list {
		if h.Class == store.ClassHeld || lives(&h, alive) {
			counting = append(counting, h)
		}
	}
	return counting
}

func lives(h *store.Holder, alive func(store.Process) bool) bool {
	for _, p := range h.Processes() {
		if alive(p) {
			return true
		}
	}
	return false
}

// Usage sums the units in use by lock key: roots and jobs alike.
func Usage(counting []store.Holder) map[string]int {
	used := map[string]int{}
	for _, h := range counting {
		if h.LockKey != "" {
			used[h.LockKey] += h.Units
		}
	}
	return used
}

// without returns the holders but for one.
func without(list []store.Holder, ref string) []store.Holder {
	var rest []store.Holder
	for _, h := range list {
		if h.AgentRef != ref {
			rest = append(rest, h)
		}
	}
	return rest
}
