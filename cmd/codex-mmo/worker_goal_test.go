package main_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/codex-mmo/codex-mmo/core/store"
)

// goalScript has the lead give a goal of more text than an objective may have.
const goalScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": %q}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 240}
  step
    say "The lead is done."

model m-worker
  step
    goal complete
  step
    say "REACHED"
`

// TestGoalOfAWorker: a worker in mode goal is given its whole task in its first
// turn, and as much of it as fits as its objective; its record says what it may
// spend and how its app-server was started.
//
// Spec: R120
func TestGoalOfAWorker(t *testing.T) {
	t.Parallel()
	task := "Find out why: " + strings.Repeat("é", 5000) + " END"
	tm := newTeam(t, fmt.Sprintf(goalScript, task), 3)
	tm.edit("profile.toml", `description = "Works."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"`, `description = "Works."
permissions = "read-only"
approval_policy = "never"
goal_token_budget = 100000
max_goal_token_budget = 200000
execution_mode = "goal"`)
	tm.start("go")
	if out := tm.finish(); out.Status != "completed" {
		t.Errorf("exec ended %s", out.Status)
	}
	j := tm.job()
	if j.Status != "completed" || j.ExecutionMode != "goal" || j.GoalTokenBudget != 100_000 || j.MaxGoalBudget != 200_000 || j.ResultKind != "final" || tm.result(j.JobID, "result.md") != "REACHED" {
		t.Errorf("the job ended %+v", j)
	}
	run := tm.runOf(j.AgentRunRef)
	sum := sha256.Sum256([]byte(task))
	if n := utf8.RuneCountInString(run.Goal.Objective); n != 4000 || !strings.HasPrefix(run.Goal.Objective, "Find out why: é") || !strings.Contains(run.Goal.Objective, "sha256="+hex.EncodeToString(sum[:])) {
		t.Errorf("the objective has %d characters: …%s", n, run.Goal.Objective[max(0, len(run.Goal.Objective)-120):])
	}
	if run.Goal.Status != "complete" {
		t.Errorf("the goal is %s", run.Goal.Status)
	}
	if got := tm.result(j.JobID, "prompt.txt"); got != task {
		t.Errorf("the stored task has %d bytes, want %d", len(got), len(task))
	}
	var first string
	tm.view(func(tx *store.Tx) error {
		list, err := tx.Inputs(j.AgentRunRef)
		first = list[0].Text
		return err
	})
	var sent struct {
		Message struct {
			Params struct {
				Input []struct {
					Text string `json:"text"`
				} `json:"input"`
			} `json:"params"`
		} `json:"message"`
	}
	for line := range strings.Lines(tm.result(j.JobID, "events.jsonl")) {
		if strings.Contains(line, `"method":"turn/start"`) {
			if err := json.Unmarshal([]byte(line), &sent); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if len(sent.Message.Params.Input) != 1 || sent.Message.Params.Input[0].Text != task || first != task {
		t.Errorf("the first turn was given %+v", sent.Message.Params.Input)
	}
	if !slices.Contains(run.Command, "app-server") || slices.Contains(run.Command, "exec") || slices.Contains(run.Command, "--output-schema") {
		t.Errorf("its app-server was started by %q", run.Command)
	}
	raw, err := json.Marshal(map[string]any{"run": run, "job": j})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"progress_interval_seconds", "timeout_seconds", "execution_policy", "active_work_seconds", "output_schema_path"} {
		if strings.Contains(string(raw), `"`+name+`"`) {
			t.Errorf("its record has %s", name)
		}
	}
	tm.assertSentOnce()
	tm.assertGone()
}
