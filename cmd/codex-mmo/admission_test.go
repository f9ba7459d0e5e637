package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// sequentialScript uses the one place of a role five times, one after the other.
const sequentialScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "1"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "2"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 2}"], "timeout_seconds": 60}
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "3"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 3}"], "timeout_seconds": 60}
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "4"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 4}"], "timeout_seconds": 60}
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "5"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 5}"], "timeout_seconds": 60}
  step
    say "END"

model m-worker
  step
    say "DONE"
`

// TestSequentialReuse: each end of a job frees its place for the next of its
// role.
//
// Spec: R114
func TestSequentialReuse(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, sequentialScript, 3)
	tm.edit("profile.toml", "[agents.worker]\n", "[agents.worker]\nmax_active = 1\n")
	tm.start("go")
	tm.await("a worker's turn", func(e control.FollowEvent) bool { return e.Agent == "worker" && e.Type == "turn" })
	tm.look()
	if out := tm.finish(); out.Status != "completed" || out.Result != "END" {
		t.Errorf("exec ended %s with %q", out.Status, out.Result)
	}
	ids := map[string]bool{}
	for _, j := range tm.stored().Jobs {
		ids[j.JobID] = true
		if j.Status != "completed" {
			t.Errorf("job %s is %s", j.JobID, j.Status)
		}
	}
	if len(ids) != 5 {
		t.Errorf("%d jobs are on record, want 5", len(ids))
	}
	tm.assertClean()
}

// batchesScript asks for a batch with a member that can't be, and for a good
// one.
const batchesScript = `
model m-lead
  step
    call mcp__mmo_mesh agents_spawn {"agents": [{"agent": "worker", "task": "look"}, {"agent": "scout", "literal_task": {"operation": "architecture"}}]}
  step
    call mcp__mmo_mesh agents_spawn {"agents": [{"agent": "worker", "task": "look"}, {"agent": "scout", "literal_task": {"operation": "locate", "needle": "x", "paths": ["."]}}]}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}", "${job_id 2}"], "timeout_seconds": 60}
  step
    say "${@output 1}\n@@@\n${@output 2}"

model m-worker
  step
    say "DONE"
`

// TestBatchesAreWhole: a batch with one invalid member starts nothing; a good
// one starts all its members under one batch id.
//
// Spec: R061, A071
func TestBatchesAreWhole(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, batchesScript, 3)
	tm.edit("profile.toml", `"worker", "writer"]`, `"worker", "writer", "scout"]`)
	tm.edit("profile.toml", "[agents.worker]\n", `[agents.scout]
model = "m-worker"
description = "Finds."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"
task_kinds = []
can_spawn = []
backends = ["mcp"]
trust = "low"
guidance = "guidance/worker.md"

[agents.worker]
`)
	tm.start("go")
	tm.look()
	out := tm.finish()
	refused, accepted, ok := strings.Cut(out.Result, "\n@@@\n")
	if !ok || !strings.Contains(refused, "ValueError: unsupported literal_task operation") {
		t.Errorf("the bad batch was answered %q", refused)
	}
	var answer control.SpawnResponse
	if i := strings.Index(accepted, `{"atomic"`); i < 0 || json.Unmarshal([]byte(accepted[i:]), &answer) != nil {
		t.Fatalf("the good batch was answered %q", accepted)
	}
	jobs := tm.stored().Jobs
	if !answer.Atomic || len(answer.Accepted) != 2 || answer.Rejected == nil || len(answer.Rejected) != 0 || len(jobs) != 2 {
		t.Errorf("the good batch was answered %+v; %d jobs are on record", answer, len(jobs))
	}
	for _, j := range jobs {
		if j.BatchID != answer.BatchID || j.Status != "completed" {
			t.Errorf("job %s of batch %s is %s, want completed in %s", j.JobID, j.BatchID, j.Status, answer.BatchID)
		}
	}
}

// budgetScript has a worker that uses more than its part, call by call, and a
// lead that reports.
const budgetScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "spend"}
    usage input=100 output=10
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
    usage input=100 output=10
  step
    say "END ${status last else nothing}"
    usage input=100 output=10

model m-worker
  step
    shell "true"
    usage input=900 output=100
  step
    shell "true"
    usage input=900 output=100
  step
    shell "true"
    usage input=900 output=100
  step
    say "NEVER"
    usage input=900 output=100
`

// TestBudgetEndsAWorker: a worker that has used its part of the budget sends
// nothing more and says limit_reached; the root has its reserve to report with.
func TestBudgetEndsAWorker(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, budgetScript, 3)
	tm.edit("profile.toml", "[agents.lead]\n", "[budget]\ntokens = 6000\nreserve_tokens = 500\n\n[agents.lead]\n")
	tm.start("go")
	tm.awaitWorkerShell()
	view := tm.look()
	if view.Capacity == nil || view.Capacity.Budget == nil || view.Capacity.Budget.Tokens.Limit != "6000" {
		t.Errorf("status shows the budget %+v", view.Capacity)
	}
	out := tm.finish()
	if out.Status != "completed" || out.Result != "END failed" {
		t.Errorf("exec ended %s with %q", out.Status, out.Result)
	}
	j := tm.job()
	if j.Status != "failed" || j.Failure == nil || j.Failure.Kind != "limit_reached" || j.Failure.Retryable {
		t.Errorf("the job ended %s with %+v", j.Status, j.Failure)
	}
	// A quarter of the 5,500, or of what the lead's first answer of 110 left:
	// Codex may call the tool before that answer is counted.
	if j.BudgetTokens != 5500/4 && j.BudgetTokens != 5390/4 {
		t.Errorf("its part was %d tokens, want 1375 or 1347", j.BudgetTokens)
	}
	var worker int
	for _, u := range tm.stored().Usage {
		if u.Agent == "worker" {
			worker += int(*u.InputTokens + *u.OutputTokens)
		}
	}
	// The second answer of 1,000 goes over it, and nothing more leaves.
	if worker != 2000 {
		t.Errorf("the worker used %d tokens, want 2000", worker)
	}
	tm.assertClean()
}
