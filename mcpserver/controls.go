package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// controlTools are the tools that act on one agent at work, in the order they
// are offered in. There are many and they are much alike, so they say little:
// the instructions tell what they have in common.
var controlTools = []struct {
	action, description string
	hints               hints
	more                []property
}{
	{control.ActionInspect, "See what a job does now, what it asks, and its control_revision.", hints{readOnly: true, idempotent: true}, nil},
	{control.ActionSteer, "Add a text to the running turn.", hints{}, []property{inputProperty("The text", true)}},
	{control.ActionInterrupt, "End the turn; the job is paused.", hints{destructive: true}, nil},
	{control.ActionPause, "The same as agent_interrupt.", hints{destructive: true}, nil},
	{control.ActionContinue, "Give a paused or suspended job its next input.", hints{}, []property{
		inputProperty("Default: go on", false),
		{"goal_token_budget", false, integer("Raised budget of a goal.")},
	}},
	{control.ActionFinalize, "Have it give its result now.", hints{}, []property{inputProperty("What it must say", false)}},
	{control.ActionCompact, "Shorten its context between turns.", hints{}, nil},
	{control.ActionSetEffort, "Choose the effort of later turns.", hints{idempotent: true}, []property{{"effort", true, text("Of its role's.")}}},
	{control.ActionRespond, "Answer what a waiting job asks. Approve nothing that its task does not need.", hints{destructive: true}, []property{
		{"request_id", true, text("From agent_inspect.")},
		{"response", true, fields{{"type", "object"}, {"description", `{"decision":"accept"|"decline"}, {"answers":{"<id>":{"answers":["…"]}}} or {"action":"decline"}.`}}},
	}},
	{control.ActionFork, "Start a new job on a copy of the thread of one that is not at work.", hints{}, []property{inputProperty("Its task. Default: go on", false)}},
	{control.ActionDetach, "Let it work on without your interest.", hints{idempotent: true}, nil},
	{control.ActionStop, "End it; what it has stays.", hints{destructive: true}, nil},
}

// controlTool makes the tool of an action.
func controlTool(i int) *tool {
	c := controlTools[i]
	properties := []property{{"job_id", true, text("Job.")}}
	if c.action != control.ActionInspect {
		properties = append(properties, property{"expected_revision", true, integer("As seen last.")})
	}
	return &tool{
		name: "agent_" + c.action, description: c.description, hints: c.hints,
		schema: object(append(properties, c.more...)), limit: time.Minute,
		run: func(ctx context.Context, inv invocation) (any, error) {
			return runControl(ctx, inv, c.action)
		},
	}
}

func inputProperty(description string, required bool) property {
	return property{"input", required, text(description + ".")}
}

// controlled is the result of a control. What an agent asks is its own text, or
// its model's: untrusted.
type controlled struct {
	*control.ControlResponse
	OmittedPaths int  `json:"omitted_paths,omitempty"`
	Untrusted    bool `json:"untrusted,omitempty"`
}

func runControl(ctx context.Context, inv invocation, action string) (any, error) {
	var request control.ControlRequest
	if err := decode(inv.arguments, &request); err != nil {
		return nil, err
	}
	request.Action = action
	response, err := inv.control.Control(ctx, inv.meta, request)
	if err != nil {
		return nil, err
	}
	out := controlled{ControlResponse: response}
	if response.Job != nil {
		jobs := []control.JobView{*response.Job}
		out.OmittedPaths = shortenPatches(jobs)
	}
	if live := response.Live; live != nil {
		out.Untrusted = len(live.PendingRequests) > 0
		for i, p := range live.PendingRequests {
			if len(p.Params) > longestPreview {
				live.PendingRequests[i].Params = json.RawMessage(fmt.Sprintf(`{"truncated":true,"bytes":%d}`, len(p.Params)))
			}
		}
	}
	return out, nil
}
