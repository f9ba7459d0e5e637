package supervisor

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// order is a control whose arguments were checked.
type order struct {
	action   string
	expected uint64
	revision uint64 // that it was given; 0 before
	caller   string

	input    string // of steer, continue, finalize
	effort   string
	budget   int64 // of the goal, in tokens; 0 leaves it
	request  string
	response json.RawMessage

	deferred bool // what it waits for settles it
}

// holds reports whether the agent does nothing by itself afterwards.
func (o *order) holds() bool {
	return o.action == control.ActionPause || o.action == control.ActionInterrupt
}

// toGoal applies a continue or finalize to the agent's goal.
func (o *order) toGoal(g *store.Goal) {
	g.Finalizing = o.action == control.ActionFinalize
	if o.budget > 0 {
		g.TokenBudget = o.budget
	}
}

// Default texts, where the caller gives none.
const (
	continueRoot = "Go on with your task from where you stopped. Check what is done already, and finish it."
	continueJob  = "Continue your task from where you stopped. Do not repeat what is done already."
	finalizeRoot = "Finish now: stop new work, and give your final report of what was done, what was not, and what you know."
	finalizeJob  = "Finalize now: stop new work and give your final result from the evidence you have. Say what is missing."
)

// normaliseOrder checks the arguments of a control and fills in what the caller
// left out. The same rules hold for the root (a run) and for workers (jobs).
func normaliseOrder(role profile.Agent, root bool, rec store.AgentRun, r control.ControlRequest) (*order, error) {
	o := &order{
		action: r.Action, input: strings.TrimSpace(r.Input), effort: r.Effort, budget: r.GoalTokenBudget,
		request: r.RequestID, response: r.Response,
	}
	subject, goOn, finish := "job", continueJob, finalizeJob
	if root {
		subject, goOn, finish = "run", continueRoot, finalizeRoot
	}
	if r.ExpectedRevision == nil {
		return nil, core.Errorf(core.KindValue, "%s needs expected_revision", r.Action).WithRemedy("inspect the agent: its control_revision is what to pass")
	}
	o.expected = *r.ExpectedRevision
	if !utf8.ValidString(o.input) || utf8.RuneCountInString(o.input) > maxTaskRunes {
		return nil, core.Errorf(core.KindValue, "the input of %s must be at most %d characters of valid UTF-8", r.Action, maxTaskRunes)
	}
	switch o.action {
	case control.ActionSteer:
		if o.input == "" {
			return nil, core.Errorf(core.KindValue, "steer needs an input")
		}
	case control.ActionContinue:
		o.input = cmp.Or(o.input, goOn)
		return o, checkBudget(role, rec, subject, o.budget)
	case control.ActionFinalize:
		o.input = cmp.Or(o.input, finish)
	case control.ActionSetEffort:
		if !slices.Contains(role.Efforts, o.effort) {
			return nil, core.Errorf(core.KindValue, "agent %s may not think with effort %q", role.ID, o.effort).WithRemedy("choose one of %q", role.Efforts)
		}
	case control.ActionRespond:
		if o.request == "" || len(o.response) == 0 {
			return nil, core.Errorf(core.KindValue, "respond needs request_id and response").WithRemedy("inspect the agent: pending_requests lists them")
		}
	case control.ActionInterrupt, control.ActionPause, control.ActionCompact:
	case control.ActionFork, control.ActionDetach, control.ActionStop:
		if root {
			return nil, errNotOfRoot(o.action)
		}
		if o.action == control.ActionFork {
			o.input = cmp.Or(o.input, goOn)
		}
	default:
		return nil, core.Errorf(core.KindValue, "there is no action %q", o.action)
	}
	if o.budget != 0 {
		return nil, core.Errorf(core.KindValue, "goal_token_budget goes with continue, not with %s", o.action)
	}
	return o, nil
}

// errNotOfRoot refuses what only a job can be told.
func errNotOfRoot(action string) error {
	if action == control.ActionFork {
		return core.Errorf(core.KindValue, "the root can't be forked: a session has one").WithRemedy("begin another session")
	}
	return core.Errorf(core.KindValue, "the root has no %s of its own: it goes with its session", action).WithRemedy("use `codex-mmo %s`", action)
}

// checkBudget refuses a goal's budget that is below the present one or above
// what the role may have.
func checkBudget(role profile.Agent, rec store.AgentRun, subject string, budget int64) error {
	switch {
	case budget == 0:
		return nil
	case role.ExecutionMode != profile.ModeGoal:
		return core.Errorf(core.KindValue, "goal_token_budget needs a goal-mode %s; agent %s works in mode %s", subject, role.ID, role.ExecutionMode)
	}
	current := role.GoalTokenBudget
	if rec.Goal != nil {
		current = rec.Goal.TokenBudget
	}
	if budget < current || budget > role.MaxGoalTokenBudget {
		return core.Errorf(core.KindValue, "goal_token_budget %d of agent %s must be from %d to %d", budget, role.ID, current, role.MaxGoalTokenBudget)
	}
	return nil
}
