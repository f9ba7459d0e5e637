package access

import (
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
)

// Role is what a caller is. Its text is what the control API reports.
type Role string

// The roles. The zero value may do nothing.
const (
	RoleRoot     Role = "root"     // the agent that leads the session
	RoleWorker   Role = "worker"   // an agent that was given a job
	RoleNative   Role = "native"   // a subagent inside another agent's engine
	RoleOperator Role = "operator" // a person, outside of any agent
)

// Caller is who calls, once that is proven.
type Caller struct {
	Role     Role
	Agent    string   // agent id in the profile; empty for the operator
	AgentRef string   // ar_...; of a native agent: of the agent in whose engine it runs
	JobID    string   // of the worker, or of the worker in whose engine a native agent runs
	ThreadID string   //
	Chain    []string // agent refs of its ancestors, nearest first
	Between  []string // agent ids of the native agents between a native one and the agent in whose engine it runs, nearest first
	Grants   Grants
}

// Grants are what the profile gives to a role.
type Grants struct {
	Spawns       bool                // it may give jobs to others
	WholeSession bool                // it sees the jobs of the whole session, not its descendants alone
	Controls     map[string][]string // agent id -> control actions that it may use on its jobs
}

// Job is what the rights depend on of the job that a verb is about. The zero
// value stands for no particular job.
type Job struct {
	JobID       string
	AgentRef    string
	Agent       string   // its role
	ParentChain []string // agent refs of its ancestors, its own spawner first, the root's last
}

// State is what the rights depend on of the session.
type State struct {
	Status  core.SessionStatus
	Tainted bool // isolation could not be guaranteed
}

// right is a kind of authority. They are apart: who may see a job, or control
// it, has no say in what becomes of its result, nor may he cancel it.
type right int

const (
	noRight     right = iota // refused
	greet                    // whoever was let in
	identity                 // agents of ours, and the operator
	lead                     // the root, for the session as a whole
	visibility               // to see jobs and read their results
	control                  // to look into an agent and tell it what to do, action by action
	disposition              // to accept, reject or integrate a result
	cancelling               // to end a job
	delegation               // to give jobs to others
	ownership                // the operator's alone
)

// Rights that are not named like their verb or action.
const (
	RootVerb    = "root"     // to give orders to the session's root
	StopJobVerb = "stop_job" // to stop one job
)

// rights is the whole table: verb of the control API, or action of its verb
// control -> right. What is not in it is refused. Whom a caller may spawn is not
// a right but a grant of its profile, checked where jobs are admitted.
var rights = map[string]right{
	"hello":   greet,
	"caller":  identity,
	"session": lead,
	"news":    lead,

	"jobs": visibility, "wait": visibility, "result": visibility,
	"inspect": visibility, "trace": visibility,

	"steer": control, "interrupt": control, "pause": control, "continue": control, "finalize": control, "compact": control,
	"set_effort": control, "respond": control, "fork": control, "detach": control, StopJobVerb: control,

	"accept": disposition, "reject": disposition, "integrate": disposition,
	"cancel": cancelling,
	"spawn":  delegation,

	RootVerb: ownership, "join": ownership, "attach": ownership, "stop": ownership, "follow": ownership, "audit": ownership,
	"session_pause": ownership, "session_continue": ownership, "session_resume": ownership, "session_compact": ownership,
	"session_detach": ownership, "session_cancel": ownership, "session_taint": ownership,
}

// actionOf names a right as the profile's grants do.
func actionOf(verb string) string {
	if verb == StopJobVerb {
		return "stop"
	}
	return verb
}

// May returns nil when caller may use the verb on the job, which belongs to the
// caller's session. Otherwise it returns a *core.Error of kind PermissionError.
// The zero Job asks about the verb alone: an agent may list jobs, and then sees
// those for which May says yes.
//
// The operator may do everything in every state; what a state does not allow,
// the verb itself says. Agents lose their capability with the session's end, and
// once that is under way they can look, no more. In a tainted session nobody but
// the operator delegates or integrates.
func May(caller Caller, verb string, target Job, state State) error {
	what := rights[verb]
	switch {
	case what == greet && caller.Role != "", caller.Role == RoleOperator && what != noRight && what != delegation:
		return nil
	case !caller.isAgent() || what == noRight:
		return refused("%s may not use %s", caller.name(), verb)
	case what == ownership:
		return refused("%s may not use %s: it is the operator's alone", caller.name(), verb)
	}
	if err := stateAllows(caller, verb, what, state); err != nil {
		return err
	}
	return agentMay(caller, verb, what, target)
}

// stateAllows checks what the session's state leaves to its agents.
func stateAllows(caller Caller, verb string, what right, state State) error {
	switch {
	case state.Status.Terminal():
		return refused("the capability of %s is unavailable: the session is %s", caller.name(), state.Status)
	case state.Tainted && (what == delegation || verb == "integrate"):
		return refused("%s may not use %s: the session is tainted", caller.name(), verb).
			WithRemedy("tell in your answer what you would delegate or integrate; a person decides")
	case what == identity || what == visibility || what == lead || what == delegation: // admission refuses jobs by itself
		return nil
	case state.Status == core.SessionFinishing || state.Status == core.SessionCancelling:
		return refused("%s may not use %s: the session is %s", caller.name(), verb, state.Status)
	}
	return nil
}

func agentMay(caller Caller, verb string, what right, target Job) error {
	switch what {
	case identity:
		return nil
	case lead:
		if caller.Role != RoleRoot {
			return refused("%s may not use %s: only the root role may", caller.name(), verb)
		}
		return nil
	case delegation:
		if !caller.Grants.Spawns {
			return refused("%s may not use %s: its role has nobody to give jobs to", caller.name(), verb)
		}
		return nil
	case visibility:
		return caller.maySee(verb, target)
	case control:
		return caller.mayControl(verb, target)
	}
	if caller.Role == RoleNative && !caller.Grants.Spawns {
		return refused("%s may not use %s: it gives no jobs to others", caller.name(), verb)
	}
	if caller.above(target) {
		return nil
	}
	return refused("%s may not use %s on job %q: it is not a descendant of the caller", caller.name(), verb, target.JobID).
		WithRemedy("leave it to whoever spawned the job; agent_status lists yours")
}

// maySee: the root sees all; others their descendants, all when their role sees
// the session, and the jobs of roles that they control in any way.
func (c Caller) maySee(verb string, target Job) error {
	listing := verb == "jobs" && target.JobID == "" && target.AgentRef == ""
	if listing || c.Role == RoleRoot || c.Grants.WholeSession || len(c.Grants.Controls[target.Agent]) > 0 || c.above(target) {
		return nil
	}
	return refused("%s may not use %s on job %q: it is not a descendant of the caller, whose role does not see the session", c.name(), verb, target.JobID).
		WithRemedy("name a job that you spawned yourself; agent_status lists them")
}

// mayControl: an action that the role was granted on the target's role. Nobody
// controls himself or whoever is above him.
func (c Caller) mayControl(verb string, target Job) error {
	action := actionOf(verb)
	switch granted := c.Grants.Controls[target.Agent]; {
	case target.AgentRef == "" || target.AgentRef == c.AgentRef || slices.Contains(c.Chain, target.AgentRef):
		return refused("%s may not use %s on itself or on an agent above it", c.name(), action)
	case !slices.Contains(granted, action):
		return refused("%s may not use %s on job %q: its role was not granted that on %q", c.name(), action, target.JobID, target.Agent).
			WithRemedy("choose one of %q", granted)
	}
	return nil
}

// above reports whether the job is a descendant of the caller. All jobs are the
// root's.
func (c Caller) above(target Job) bool {
	return c.Role == RoleRoot || c.AgentRef != "" && slices.Contains(target.ParentChain, c.AgentRef)
}

func (c Caller) isAgent() bool {
	return c.Role == RoleRoot || c.Role == RoleWorker || c.Role == RoleNative
}

func (c Caller) name() string {
	switch {
	case c.Role == "":
		return "an unknown caller"
	case c.Agent == "":
		return "the " + string(c.Role)
	}
	return string(c.Role) + " " + c.Agent
}

func refused(format string, args ...any) *core.Error {
	return core.Errorf(core.KindPermission, format, args...)
}
