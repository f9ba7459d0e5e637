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
	Agent    string // agent id in the profile; empty for the operator
	AgentRef string // ar_...; empty for the operator
	JobID    string // the worker's own job
	ThreadID string
}

// Job is what the rights depend on of the job that a verb is about. The zero
// value stands for no particular job.
type Job struct {
	JobID       string
	AgentRef    string
	ParentChain []string // agent refs of its ancestors, its own spawner first, the root's last
}

// reach is how far a right goes.
type reach int

const (
	nothing     reach = iota // refused
	descendants              // jobs below the caller; a list is filtered by asking for each job
	session                  // everything in the session
)

// rights is the whole table: verb of the control API -> role -> how far. What
// is not in it is refused. Which agents a caller may spawn is not a right but a
// grant of its profile, checked where jobs are admitted.
var rights = map[string]map[Role]reach{
	"hello":     {RoleRoot: session, RoleWorker: session, RoleNative: session, RoleOperator: session},
	"caller":    {RoleRoot: session, RoleWorker: session, RoleOperator: session},
	"spawn":     {RoleRoot: session, RoleWorker: session},
	"session":   {RoleRoot: session, RoleOperator: session},
	"jobs":      {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"wait":      {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"result":    {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"cancel":    {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"accept":    {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"reject":    {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"integrate": {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"attach":    {RoleOperator: session},
	"stop":      {RoleOperator: session},
	"follow":    {RoleOperator: session},
	"audit":     {RoleOperator: session},

	RootVerb:           {RoleOperator: session},
	"inspect":          {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"steer":            {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"interrupt":        {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"pause":            {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"continue":         {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"finalize":         {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"compact":          {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"set_effort":       {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"respond":          {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"detach":           {RoleRoot: session, RoleWorker: descendants, RoleOperator: session},
	"session_pause":    {RoleOperator: session},
	"session_continue": {RoleOperator: session},
	"session_resume":   {RoleOperator: session},
	"session_compact":  {RoleOperator: session},
	"session_detach":   {RoleOperator: session},
	"session_cancel":   {RoleOperator: session},
	"session_taint":    {RoleOperator: session},
}

// Rights that are not named like their verb or action.
const (
	RootVerb    = "root"     // to give orders to the session's root
	StopJobVerb = "stop_job" // to stop one job
)

// May returns nil when caller may use the verb on the job, which belongs to the
// caller's session. Otherwise it returns a *core.Error of kind PermissionError.
// The zero Job asks about the verb alone: a worker may list jobs, and then sees
// those for which May says yes.
func May(caller Caller, verb string, target Job) error {
	switch rights[verb][caller.Role] {
	case session:
		return nil
	case descendants:
		if target.JobID == "" && target.AgentRef == "" && verb == "jobs" {
			return nil
		}
		if caller.AgentRef != "" && slices.Contains(target.ParentChain, caller.AgentRef) {
			return nil
		}
		return core.Errorf(core.KindPermission, "%s %s may not use %s on job %q: it is not a descendant of the caller",
			caller.Role, caller.Agent, verb, target.JobID).
			WithRemedy("name a job that you spawned yourself; agent_status lists them")
	}
	return core.Errorf(core.KindPermission, "%s may not use %s", caller.name(), verb)
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
