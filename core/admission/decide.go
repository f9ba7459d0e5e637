package admission

import (
	"slices"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// Decide returns what each job may spend when all requests may start together,
// in their order, or the first refusal.
func Decide(v View, requests []Request) ([]store.Allowance, error) {
	if len(requests) == 0 {
		return nil, core.Errorf(core.KindValue, "no agents were named").WithRemedy("name at least one agent to spawn")
	}
	if err := admitting(v); err != nil {
		return nil, err
	}
	for _, r := range requests {
		if err := allowed(v, r); err != nil {
			return nil, err
		}
	}
	return fit(v, requests)
}

// fit finds the capacity for all requests, or says what is missing.
func fit(v View, requests []Request) ([]store.Allowance, error) {
	taken := newCounts(v)
	allowances := make([]store.Allowance, len(requests))
	for i, r := range requests {
		agent := v.Agents[r.Agent]
		if agent.Unavailable != "" {
			return nil, refusal(ReasonRouteUnavailable, "agent %q can't start: %s", r.Agent, agent.Unavailable).
				WithRemedy("give its task to another agent, or ask a person to mend the route")
		}
		amount, err := taken.take(agent, r)
		if err != nil {
			return nil, err
		}
		allowances[i] = amount
	}
	return allowances, nil
}

// DecideContinue returns what a job without processes may spend when it may
// have its capacity back, or why it may not. It is the holder with the given
// agent run ref, which does not count against itself. What it was allowed to do
// when it was spawned is not asked again.
func DecideContinue(v View, ref string, r Request) (store.Allowance, error) {
	if !v.SessionStatus.Admitting() {
		return store.Allowance{}, refusal(ReasonSession, "the session is %s and not admitting jobs", v.SessionStatus)
	}
	v.Holders = without(v.Holders, ref)
	if v.Purse != nil {
		purse := v.Purse.without(ref)
		v.Purse = &purse
	}
	amounts, err := fit(v, []Request{r})
	if err != nil || v.Purse == nil {
		return store.Allowance{}, err
	}
	return withSpent(amounts[0], v.Purse.spentBy(ref)), nil
}

// DecideRoot returns nil when the root of a session may have the capacity of
// its route. The holder with its agent run ref does not count against itself.
func DecideRoot(holders []store.Holder, ref string, r Resource) error {
	taken := &counts{holders: without(holders, ref)}
	taken.used = Usage(taken.holders)
	return taken.resource(r)
}

func admitting(v View) error {
	if !v.SessionStatus.Admitting() {
		return refusal(ReasonSession, "the session is %s and not admitting jobs", v.SessionStatus).
			WithRemedy("a session takes jobs while it is running or detached")
	}
	switch v.Caller.JobStatus {
	case "", core.JobRunning, core.JobWaiting, core.JobDetached:
		return nil
	}
	return refusal(ReasonParent, "the caller is a non-admitting agent job (%s)", v.Caller.JobStatus).
		WithRemedy("end your turn: this job is being ended")
}

// allowed checks what no waiting changes.
func allowed(v View, r Request) error {
	agent, known := v.Agents[r.Agent]
	if grants := v.Agents[v.Caller.Agent].CanSpawn; !known || !slices.Contains(grants, r.Agent) {
		return core.Errorf(core.KindPermission, "agent %q may not spawn %q", v.Caller.Agent, r.Agent).
			WithRemedy("choose one of %q", grants)
	}
	if depth := v.Caller.Depth + 1; depth > v.Limits.MaxDepth {
		return refusal(ReasonDepth, "delegation depth %d exceeds the profile's max_depth %d", depth, v.Limits.MaxDepth).
			WithRemedy("do the work yourself, or return it to whoever gave it to you")
	}
	if slices.Contains(v.Caller.Ancestors, r.Agent) {
		return refusal(ReasonAncestor, "ancestor-role repetition: %q already leads to this call", r.Agent).
			WithRemedy("choose a role that is not above you")
	}
	if err := task(agent, r); err != nil {
		return err
	}
	return mode(agent, r)
}

func task(agent Agent, r Request) error {
	if agent.LowTrust {
		if r.Literal == nil || r.HasTask || r.TaskKind != "" {
			return core.Errorf(core.KindValue, "agent %q has low trust, and low-trust agents accept literal_task and nothing else", r.Agent).
				WithRemedy("give it literal_task with an operation of %q, without task and task_kind", Operations())
		}
		return r.Literal.check()
	}
	switch {
	case r.Literal != nil:
		if err := r.Literal.check(); err != nil {
			return err
		}
		return core.Errorf(core.KindValue, "agent %q takes no literal_task", r.Agent).WithRemedy("say in `task` what it is to do")
	case !r.HasTask:
		return core.Errorf(core.KindValue, "agent %q was given no task", r.Agent).WithRemedy("say in `task` what it is to do")
	case len(agent.TaskKinds) > 0 && !slices.Contains(agent.TaskKinds, r.TaskKind):
		return core.Errorf(core.KindValue, "agent %q does not take task kind %q", r.Agent, r.TaskKind).
			WithRemedy("choose one of %q", agent.TaskKinds)
	}
	return nil
}

func mode(agent Agent, r Request) error {
	switch r.Mode {
	case ModeReadOnly:
		return nil
	case ModeWorkspace:
	default:
		return core.Errorf(core.KindValue, "mode %q is unknown", r.Mode).WithRemedy("use %q or %q", ModeReadOnly, ModeWorkspace)
	}
	switch {
	case agent.LowTrust:
		return core.Errorf(core.KindPermission, "agent %q has low trust and never writes", r.Agent).WithRemedy("ask for mode %q", ModeReadOnly)
	case agent.Permissions != ModeWorkspace && agent.Permissions != modeUnsafe:
		return core.Errorf(core.KindPermission, "agent %q is permanently read-only", r.Agent).WithRemedy("ask for mode %q", ModeReadOnly)
	case agent.WriteScopeRequired && !r.Scope.Named:
		return core.Errorf(core.KindValue, "agent %q must be told what it may change", r.Agent).
			WithRemedy("name files or folders in write_scope")
	}
	return nil
}
