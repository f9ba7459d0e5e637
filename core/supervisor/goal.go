package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/profile"
	"github.com/codex-mmo/codex-mmo/core/store"
	hostpb "github.com/codex-mmo/codex-mmo/plugins/host/proto"
)

// The states of a goal, in the engine's words (app-server 0.149.0,
// ThreadGoalStatus).
const (
	goalActive        = "active"
	goalPaused        = "paused"
	goalComplete      = "complete"
	goalBudgetLimited = "budgetLimited"
	goalBlocked       = "blocked"
	goalUsageLimited  = "usageLimited"
)

// maxObjective bounds a goal's objective in code points: longer ones are
// refused by the engine.
const maxObjective = 4000

// idleObjective is the goal of a root that is launched without a prompt.
const idleObjective = "Work with the operator on what they ask for in this session, until they say that it is done."

// goalNote tells the root of a session that nobody types in how its goal ends.
const goalNote = "\n\nYou work towards an active goal, and a final message alone does not terminate an active goal. " +
	"When all of it is done and checked, call `update_goal` with `status=\"complete\"`; when you can't go on, with `status=\"blocked\"`."

// harnessPrompt is the first input of a root: the prompt, and in mode goal how
// the goal ends, where no person types.
func harnessPrompt(prompt, kind string, role profile.Agent) string {
	if kind != kindNoninteractive || role.ExecutionMode != profile.ModeGoal {
		return prompt
	}
	return prompt + goalNote
}

// boundedObjective is the objective for a task: the task itself, or as much of
// its beginning as fits, with the digest of the whole. The whole is always in
// the turn.
func boundedObjective(task string) (string, error) {
	text := strings.TrimSpace(task)
	if text == "" {
		return "", core.Errorf(core.KindValue, "a goal's objective must be non-empty")
	}
	runes := []rune(task)
	if len(runes) <= maxObjective {
		return task, nil
	}
	sum := sha256.Sum256([]byte(text))
	tail := "\n[The whole task is in the first message; sha256=" + hex.EncodeToString(sum[:]) + "]"
	return string(runes[:maxObjective-len([]rune(tail))]) + tail, nil
}

func (a *agent) goalMode() bool { return a.role.ExecutionMode == profile.ModeGoal }

// seedGoal gives a fresh thread in mode goal its objective, paused: its first
// turn activates it. An active goal would begin a turn by itself.
func (a *agent) seedGoal(ctx context.Context) error {
	if !a.goalMode() || a.rec.Goal != nil {
		return nil
	}
	text := idleObjective
	if in, err := a.lastInput(ctx); err != nil {
		return err
	} else if in != nil {
		text = strings.TrimSuffix(in.Text, goalNote)
	}
	objective, err := boundedObjective(text)
	if err != nil {
		return err
	}
	goal := &store.Goal{Objective: objective, Status: goalPaused, TokenBudget: a.role.GoalTokenBudget, MaxTokenBudget: a.role.MaxGoalTokenBudget, BootstrapPending: true}
	err = a.setGoal(ctx, &hostpb.SetGoalRequest{Objective: objective, Status: goalPaused, TokenBudget: uint64(goal.TokenBudget)})
	if err != nil {
		return err
	}
	a.rec.Goal = goal
	return a.save(ctx, nil)
}

// activateGoal lets a thread go on by itself once a turn of it runs.
func (a *agent) activateGoal(ctx context.Context) error {
	g := a.rec.Goal
	if g == nil || a.rec.Holding || a.goalWaits || a.rec.ActiveTurnID == "" || g.Status == goalActive || g.Status == goalComplete || g.Finalizing {
		return nil
	}
	if a.jobID == "" && a.sup.cachedSession().Status.Terminal() {
		return nil
	}
	// Once a turn: what the engine says of the goal may be older than our order,
	// and a second one could undo what the model has said since.
	if a.activated == a.rec.ActiveTurnID {
		return nil
	}
	err := a.setGoal(ctx, &hostpb.SetGoalRequest{Status: goalActive, TokenBudget: uint64(g.TokenBudget)})
	if err != nil {
		return err
	}
	a.activated = a.rec.ActiveTurnID
	a.changeGoal(func(g *store.Goal) { g.BootstrapPending = false })
	return a.save(ctx, waking)
}

func (a *agent) setGoal(ctx context.Context, req *hostpb.SetGoalRequest) error {
	req.Fence, req.CommandId = a.fence(), a.newCommand()
	_, err := a.command(ctx, "setting the goal", func(ctx context.Context) (*hostpb.CommandResponse, error) { return a.host.SetGoal(ctx, req) })
	if err == nil && req.GetStatus() != "" {
		a.changeGoal(func(g *store.Goal) { g.Status = req.GetStatus() })
	}
	return err
}

// changeGoal changes the goal, if there is one, on a copy: others may hold the
// one that is on record.
func (a *agent) changeGoal(change func(*store.Goal)) {
	if a.rec.Goal == nil {
		return
	}
	goal := *a.rec.Goal
	change(&goal)
	a.rec.Goal = &goal
}

// goalUpdated notes what the engine says of the goal.
func (a *agent) goalUpdated(ctx context.Context, status string) error {
	if a.rec.Goal == nil || status == "" || a.rec.Goal.Status == status {
		return nil
	}
	if status == goalActive && a.rec.Goal.Status == goalComplete && a.rec.ActiveTurnID == a.activated {
		// The model reached the goal before our activation came to the engine:
		// that must not begin it again.
		return a.setGoal(ctx, &hostpb.SetGoalRequest{Status: goalComplete})
	}
	a.changeGoal(func(g *store.Goal) { g.Status = status })
	return a.save(ctx, waking)
}

// goalUnfinished reports whether the agent works on between the turns of a goal.
func (a *agent) goalUnfinished() bool {
	if !a.goesOnByItself() || a.rec.Goal.Status == goalComplete {
		return false
	}
	if a.jobID == "" {
		return !a.sup.cachedSession().RootDone
	}
	j, err := a.sup.cachedJob(a.jobID)
	return err == nil && (j.Status == core.JobRunning || j.Status == core.JobWaiting || j.Status == core.JobDetached || j.Status == core.JobRecovering)
}

// goalEnding says what a turn's end means for an agent in mode goal. goesOn
// reports that the engine begins the next turn by itself.
func (a *agent) goalEnding(e ending) (_ ending, goesOn bool) {
	if a.rec.Goal == nil {
		return e, false
	}
	limited := func(kind, message string) ending {
		return ending{
			job: core.JobSuspended, session: core.SessionSuspended, kind: core.ResultPartial, text: e.text,
			failure: &store.Failure{Kind: kind, Message: message, Retryable: true},
		}
	}
	switch a.rec.Goal.Status {
	case goalActive:
		return e, true
	case goalBudgetLimited:
		return limited("goal_budget_limited", "the goal's token budget is used up"), false
	case goalBlocked:
		return limited("goal_blocked", "the agent says that it can't go on"), false
	case goalUsageLimited:
		return limited("provider_usage_limited", "the provider's usage limit is reached"), false
	}
	return e, false
}
