package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// agentControl is what the command line says of a control.
type agentControl struct {
	revision int64 // -1: the present one
	input    string
	effort   string
	budget   int64
	request  string
	response string
	thread   string // of a native agent in its engine
}

// controlVerb is an action that a person may use, with what it is for.
type controlVerb struct {
	action, name, short string
	text                bool // takes an input
}

// controls are the actions on any agent.
var controls = []controlVerb{
	{control.ActionInspect, "inspect", "Show what it does and what it asks", false},
	{control.ActionSteer, "steer", "Add a text to the turn that runs", true},
	{control.ActionInterrupt, "interrupt", "End its turn; it waits for its next input", false},
	{control.ActionContinue, "continue", "Give it its next input", true},
	{control.ActionFinalize, "finalize", "Ask for the result of what there is", true},
	{control.ActionCompact, "compact", "Shorten its context, between turns", false},
	{control.ActionSetEffort, "set-effort", "Choose how hard it thinks from the next turn on", false},
	{control.ActionRespond, "respond", "Answer what it asks", false},
}

// jobControls are the actions on jobs alone.
var jobControls = []controlVerb{
	{control.ActionFork, "fork", "Begin a new job on a copy of its thread; it must not be at work", true},
	{control.ActionStop, "stop", "End it; what it has stays as a partial result", false},
	{control.ActionDetach, "detach", "Let it work on without anybody's interest", false},
}

// rootCmd is the operator's way to the root of a session without a screen.
func (a *app) rootCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "root",
		Short: "Look at the root of a session and tell it what to do, without a screen",
		Long: "root gives orders to a session's root. Each order takes the next control revision: with --expected-revision it is\n" +
			"refused when somebody else gave one since you looked.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, c := range controls {
		cmd.AddCommand(a.controlCmd(c.action, c.name, c.short, c.text))
	}
	cmd.AddCommand(a.nativeCmd(control.ActionStop, "End a native agent in the root's engine for good"), a.nativeCmd(control.ActionDetach, "Let one work on without anybody's interest"))
	return cmd
}

func (a *app) controlCmd(action, name, short string, text bool) *cobra.Command {
	var o agentControl
	cmd := a.sessionVerb(name+" SESSION", short, short+".", exactArgs("SESSION"), func(ctx context.Context, c *control.Client, _ []string) error {
		answer, err := a.control(ctx, c, control.ControlRequest{Action: action}, &o)
		if err != nil {
			return err
		}
		return a.showControl(answer)
	})
	o.addFlags(cmd, action, text)
	return cmd
}

// addFlags adds what an action takes.
func (o *agentControl) addFlags(cmd *cobra.Command, action string, text bool) {
	if action != control.ActionInspect {
		cmd.Flags().Int64Var(&o.revision, "expected-revision", -1, "control_revision that you have seen; without it the present one")
	}
	if text {
		cmd.Flags().StringVar(&o.input, "input", "", "the text")
	}
	switch action {
	case control.ActionInspect, control.ActionStop, control.ActionDetach:
		cmd.Flags().StringVar(&o.thread, "thread", "", "of a native agent inside its engine, as inspect lists them: the order is about that one")
	case control.ActionContinue:
		cmd.Flags().Int64Var(&o.budget, "goal-token-budget", 0, "raise the goal's budget, in tokens")
	case control.ActionSetEffort:
		cmd.Flags().StringVar(&o.effort, "effort", "", "one of the role's allowed efforts")
	case control.ActionRespond:
		cmd.Flags().StringVar(&o.request, "request", "", "request_id, as inspect shows it")
		cmd.Flags().StringVar(&o.response, "response", "", `JSON object, e.g. {"answers":{"q1":{"answers":["yes"]}}} or {"decision":"accept"}`)
	}
}

// control sends an order. Where no revision was seen, it looks first.
func (a *app) control(ctx context.Context, c *control.Client, r control.ControlRequest, o *agentControl) (*control.ControlResponse, error) {
	r.TargetThreadID = o.thread
	if r.Action == control.ActionInspect {
		return c.Control(ctx, control.Meta{}, r)
	}
	revision := uint64(max(o.revision, 0))
	if o.revision < 0 {
		look := r
		look.Action = control.ActionInspect
		seen, err := c.Control(ctx, control.Meta{}, look)
		if err != nil {
			return nil, err
		}
		revision = seen.ControlRevision
	}
	r.ExpectedRevision, r.Input, r.Effort, r.GoalTokenBudget, r.RequestID = &revision, o.input, o.effort, o.budget, o.request
	if o.response != "" {
		if !json.Valid([]byte(o.response)) || !strings.HasPrefix(strings.TrimSpace(o.response), "{") {
			return nil, usagef("--response must be a JSON object")
		}
		r.Response = json.RawMessage(o.response)
	}
	return c.Control(ctx, control.Meta{}, r)
}

func (a *app) showControl(answer *control.ControlResponse) error {
	if a.json {
		return a.printJSON(answer)
	}
	a.printf("control revision %d\n", answer.ControlRevision)
	if live := answer.Live; live != nil {
		turn := "idle"
		if live.ActiveTurnID != "" {
			turn = "at work, turn " + live.ActiveTurnID
		}
		a.facts([2]string{"thread", live.ThreadID}, [2]string{"turn", turn}, [2]string{"goal", live.GoalStatus}, [2]string{"effort", live.Effort})
		for _, p := range live.PendingRequests {
			a.printf("\nasks (%s, request %s):\n%s\n", p.Method, p.RequestID, p.Params)
		}
	}
	a.showNatives(answer)
	for key, value := range answer.Result {
		a.printf("%s: %v\n", key, value)
	}
	return nil
}
