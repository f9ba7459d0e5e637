package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
)

func spawnTool(grants []control.SpawnGrant) *tool {
	return &tool{
		name:  "agent_spawn",
		title: "Start a job",
		description: "Give one task to another agent. Returns job_id at once; the agent works on its own and does not see your conversation. " +
			"Then call agents_wait.",
		hints:  hints{openWorld: true},
		starts: true,
		schema: object(spawnProperties(grants)),
		limit:  3 * time.Minute,
		run:    runSpawn,
	}
}

// maxBatch is how many jobs one call of agents_spawn may start.
const maxBatch = 32

func spawnsTool(grants []control.SpawnGrant) *tool {
	return &tool{
		name:  "agents_spawn",
		title: "Start several jobs",
		description: "Give tasks to several agents at once: all jobs start, or none does. Returns their job_ids, in your order, as accepted. " +
			"Then call agents_wait with all of them.",
		hints:  hints{openWorld: true},
		starts: true,
		schema: object([]property{{"agents", true, fields{
			{"type", "array"},
			{"description", "One entry for each job, like the arguments of agent_spawn."},
			{"items", object(spawnProperties(grants))},
			{"minItems", 1},
			{"maxItems", maxBatch},
		}}}),
		limit: 10 * time.Minute, // working copies are made one after the other
		run:   runSpawns,
	}
}

func spawnProperties(grants []control.SpawnGrant) []property {
	var agents, kinds, modes []string
	literal := false // somebody takes nothing else
	var about strings.Builder
	about.WriteString("Which agent does it.")
	room := max(shortestAbout, min(longestAbout, allAbout/max(1, len(grants))))
	for _, g := range grants {
		agents = append(agents, g.Agent)
		kinds = append(kinds, g.TaskKinds...)
		modes = append(modes, g.Modes...)
		fmt.Fprintf(&about, "\n%s: %s", g.Agent, oneLine(g.Description, room))
		if len(g.TaskKinds) > 0 {
			fmt.Fprintf(&about, " Task kinds: %s.", strings.Join(g.TaskKinds, ", "))
		}
		if len(g.Modes) > 0 {
			fmt.Fprintf(&about, " Modes: %s.", strings.Join(g.Modes, ", "))
		}
		if g.LiteralOnly {
			literal = true
			about.WriteString(" Takes literal_task instead of task.")
		}
		if g.WriteScopeRequired {
			about.WriteString(" Needs write_scope to write.")
		}
	}
	properties := []property{
		{"agent", true, text(about.String(), field{"enum", agents})},
		{"task", !literal, text("The whole task: goal, context, paths, and what the answer must contain.", field{"minLength", 1})},
	}
	if literal {
		properties = append(properties, property{"literal_task", false, literalSchema()})
	}
	if kinds = unique(kinds); len(kinds) > 0 {
		properties = append(properties, property{"task_kind", false, text("One of the agent's task kinds; needed when it has several.", field{"enum", kinds})})
	}
	if modes = unique(modes); slices.Contains(modes, "workspace-write") {
		properties = append(properties,
			property{"mode", false, text("workspace-write lets the agent change files in a working copy of its own. Default read-only.", field{"enum", modes})},
			property{"write_scope", false, list("With workspace-write: paths it may change, relative to the workspace.", field{"maxItems", maxJobs})})
	}
	return properties
}

// literalSchema is the only kind of task that an agent of low trust takes.
func literalSchema() fields {
	props := fields{
		{"operation", text("summarize_supplied {text, max_points?} or locate {needle, paths}.")},
		{"text", text("What to summarise.")},
		{"max_points", integer("At most so many points.", field{"minimum", 1}, field{"maximum", 100})},
		{"needle", text("The text to find.")},
		{"paths", list("Where to look, relative to the workspace.", field{"maxItems", 256})},
	}
	return fields{
		{"type", "object"},
		{"description", "For agents that take it: one operation with its data, no words of your own."},
		{"properties", props},
		{"required", []string{"operation"}},
		{"additionalProperties", false},
	}
}

// oneLine takes a profile's text into a description: hostile enough to be kept
// on its line and cut to room, in code points.
func oneLine(s string, room int) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > room {
		s = string([]rune(s)[:room-1]) + "…"
	}
	return s
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// spawned is the result of agent_spawn.
type spawned struct {
	JobID       string `json:"job_id"`
	AgentRunRef string `json:"agent_run_ref"`
	Agent       string `json:"agent"`
	Status      string `json:"status"`
	BatchID     string `json:"batch_id"`
	Repeated    bool   `json:"repeated,omitempty"` // the same call was answered before
}

func runSpawn(ctx context.Context, inv invocation) (any, error) {
	var spec control.SpawnSpec
	if err := decode(inv.arguments, &spec); err != nil {
		return nil, err
	}
	response, err := spawn(ctx, inv, control.SpawnRequest{Agents: []control.SpawnSpec{spec}})
	if err != nil {
		return nil, err
	}
	job := response.Accepted[0]
	return spawned{job.JobID, job.AgentRunRef, job.Agent, job.Status, response.BatchID, response.Repeated}, nil
}

func runSpawns(ctx context.Context, inv invocation) (any, error) {
	var request control.SpawnRequest
	if err := decode(inv.arguments, &request); err != nil {
		return nil, err
	}
	return spawn(ctx, inv, request)
}

// spawn sends a batch and holds the answer to what makes it atomic: a job for
// each entry.
func spawn(ctx context.Context, inv invocation, request control.SpawnRequest) (*control.SpawnResponse, error) {
	response, err := inv.control.Spawn(ctx, inv.meta, request)
	if err != nil {
		return nil, err
	}
	if got, want := len(response.Accepted), len(request.Agents); got != want {
		return nil, core.Errorf(core.KindRuntime, "the supervisor answered a spawn of %d jobs with %d", want, got).
			WithRemedy("call agent_status to see which jobs there are")
	}
	return response, nil
}
