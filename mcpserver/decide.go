package mcpserver

import (
	"context"
	"time"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// The tools that decide about a result. Deciding is the caller's alone: nothing
// of a worker's text has an effect before.

func acceptTool() *tool {
	return decisionTool("agent_result_accept", "Accept a result",
		"Record that a result you read and checked is good. Needed before agent_patch_integrate; changes nothing in the workspace.",
		(*control.Client).Accept)
}

func rejectTool() *tool {
	return decisionTool("agent_result_reject", "Reject a result",
		"Record that a result you read is wrong or of no use. It can't be accepted later, and its changes never reach the workspace.",
		(*control.Client).Reject)
}

// decide is Accept or Reject of the control API.
type decide func(*control.Client, context.Context, control.Meta, control.DispositionRequest) (*control.DispositionResponse, error)

// decided is the result of agent_result_accept and agent_result_reject.
type decided struct {
	Job          control.JobView `json:"job"`
	OmittedPaths int             `json:"omitted_paths,omitempty"`
}

func decisionTool(name, title, description string, send decide) *tool {
	return &tool{
		name:        name,
		title:       title,
		description: description,
		schema: object([]property{
			jobIDProperty("The job whose result you read.", true),
			reasonProperty("Why you decide so, for the record", true),
		}),
		limit: time.Minute,
		run: func(ctx context.Context, inv invocation) (any, error) {
			var request control.DispositionRequest
			if err := decode(inv.arguments, &request); err != nil {
				return nil, err
			}
			if err := checkReason(request.Reason); err != nil {
				return nil, err
			}
			response, err := send(inv.control, ctx, inv.meta, request)
			if err != nil {
				return nil, err
			}
			omitted := shortenPatch(response.Job.Patch, defaultPage)
			return decided{response.Job, omitted}, nil
		},
	}
}

func integrateTool() *tool {
	return &tool{
		name:  "agent_patch_integrate",
		title: "Integrate changes",
		description: "Bring an accepted job's changes into the workspace, all of them or none. See the job's patch in agent_status first: " +
			"refused_paths can't be integrated, flagged_paths need allow_flagged.",
		hints: hints{destructive: true},
		schema: object([]property{
			jobIDProperty("The job whose result you accepted.", true),
			reasonProperty("Why, for the record", true),
			{"allow_flagged", false, flag("Also integrate the patch's flagged_paths, which steer tools or agents (CI, hooks, agent instructions). " +
				"Only after you checked them. Default false.")},
		}),
		limit: 3 * time.Minute,
		run:   runIntegrate,
	}
}

// integrated is the result of agent_patch_integrate.
type integrated struct {
	Job          control.JobView `json:"job"`
	ChangedPaths []string        `json:"changed_paths"`
	OmittedPaths int             `json:"omitted_paths,omitempty"`
}

func runIntegrate(ctx context.Context, inv invocation) (any, error) {
	var request control.IntegrateRequest
	if err := decode(inv.arguments, &request); err != nil {
		return nil, err
	}
	if err := checkReason(request.Reason); err != nil {
		return nil, err
	}
	response, err := inv.control.Integrate(ctx, inv.meta, request)
	if err != nil {
		return nil, err
	}
	changed, left := leading(response.ChangedPaths, defaultPage)
	omitted := len(response.ChangedPaths) - len(changed) + shortenPatch(response.Job.Patch, left)
	return integrated{response.Job, changed, omitted}, nil
}
