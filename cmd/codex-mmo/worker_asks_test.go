package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// askingScript has a worker that does what it is told by one action and then
// ends.
func askingScript(action string) string {
	return `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "ask"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 240}
  step
    shell "sleep 600"

  when output has status "waiting"
    step
      shell "sleep 600"

model m-worker
  step
    ` + action + `
  step
    say "It was answered: ${@output last}"
`
}

// asks starts the team and returns its worker's job once it waits, with what it
// asks.
func (tm *team) asks() (control.JobView, control.PendingView) {
	tm.t.Helper()
	tm.start("go")
	e := tm.await("a worker that waits", func(e control.FollowEvent) bool { return e.Agent == "worker" && e.Status == "waiting" })
	first := tm.inspect(e.JobID)
	if first.Live == nil || len(first.Live.PendingRequests) != 1 {
		tm.t.Fatalf("it waits for %+v", first.Live)
	}
	if diff := cmp.Diff(first.Live, tm.inspect(e.JobID).Live); diff != "" {
		tm.t.Errorf("a second look differs (-first +second):\n%s", diff)
	}
	p := first.Live.PendingRequests[0]
	if p.ThreadID != first.Job.ThreadID || p.TurnID != first.Job.ActiveTurnID || first.Job.Status != "waiting" {
		tm.t.Errorf("it asks %+v in turn %s of thread %s, as %s", p, first.Job.ActiveTurnID, first.Job.ThreadID, first.Job.Status)
	}
	return *first.Job, p
}

// TestQuestionOfAWorker: a worker that asks waits on its thread until somebody
// answers in the right form; an answer in another one takes its revision, and
// nothing else.
//
// Spec: R074
func TestQuestionOfAWorker(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, askingScript(`call request_user_input {"questions": [{"id": "q1", "header": "Side", "question": "Left or right?", "options": [{"label": "left", "description": "l"}, {"label": "right", "description": "r"}]}]}`), 3)
	tm.edit("profile.toml", "[agents.worker]\n", "[agents.worker]\nmay_ask = true\n")
	j, p := tm.asks()
	if p.Method != "item/tool/requestUserInput" || !strings.Contains(string(p.Params), "Left or right?") {
		t.Errorf("it asks %s %s", p.Method, p.Params)
	}
	respond := func(answer string) control.ControlRequest {
		return control.ControlRequest{JobID: j.JobID, Action: control.ActionRespond, RequestID: p.RequestID, Response: json.RawMessage(answer)}
	}
	if _, err := tm.order(respond(`{"decision":"accept"}`), 0); core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), "invalid fields") {
		t.Errorf("an answer of another form: %v", err)
	}
	if now := tm.inspect(j.JobID); now.ControlRevision != 1 || now.Job.ControlStatus != "rejected" || len(now.Live.PendingRequests) != 1 {
		t.Errorf("after it the job is at %d (%s) and asks %+v", now.ControlRevision, now.Job.ControlStatus, now.Live.PendingRequests)
	}
	got := tm.mustOrder(respond(`{"answers":{}}`), 1)
	if len(got.Live.PendingRequests) != 0 {
		t.Errorf("answered, it asks %+v", got.Live.PendingRequests)
	}
	if end := tm.awaitJob(j.JobID, "completed"); end.ThreadID != j.ThreadID || end.ControlRevision != 2 {
		t.Errorf("it ended %+v", end)
	}
	if _, err := tm.order(respond(`{"answers":{}}`), 2); err == nil {
		t.Error("a job that has ended took an answer")
	}
	tm.over()
}

// escalated is a command outside of the sandbox, for which Codex wants a yes.
const escalated = `call exec_command {"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "a test"}`

// TestApprovalOfAWorker: under on-request a command outside of the sandbox waits
// for a yes or a no, which the agent is told; under never nobody is asked.
//
// Spec: R075
func TestApprovalOfAWorker(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"on-request", "never"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			tm := newTeam(t, askingScript(escalated), 3)
			tm.edit("profile.toml", `description = "Works."
permissions = "read-only"
approval_policy = "never"`, `description = "Works."
permissions = "read-only"
approval_policy = "`+policy+`"`)
			var job string
			if policy == "never" {
				tm.start("go")
				job = tm.await("the end of the worker", func(e control.FollowEvent) bool { return e.Agent == "worker" && e.Status == "completed" }).JobID
			} else {
				j, p := tm.asks()
				job = j.JobID
				if p.Method != "item/commandExecution/requestApproval" || !strings.Contains(string(p.Params), "touch made") {
					t.Errorf("it asks %s %s", p.Method, p.Params)
				}
				tm.mustOrder(control.ControlRequest{JobID: job, Action: control.ActionRespond, RequestID: p.RequestID, Response: json.RawMessage(`{"decision":"decline"}`)}, 0)
				tm.awaitJob(job, "completed")
			}
			asked := 0
			for _, r := range rows(t, filepath.Join(tm.folders.JobDir(job), "events.jsonl")) {
				if r.Direction == "received" && strings.HasSuffix(r.Message.Method, "/requestApproval") {
					asked++
				}
			}
			if want := map[string]int{"on-request": 1, "never": 0}[policy]; asked != want {
				t.Errorf("Codex asked %d times, want %d", asked, want)
			}
			if j := tm.jobNow(); j.ApprovalPolicy != policy || tm.runOf(j.AgentRunRef).ApprovalPolicy != policy {
				t.Errorf("the record says policy %q", j.ApprovalPolicy)
			}
			if _, err := os.Stat(filepath.Join(tm.place.Workspace, "made")); err == nil {
				t.Error("the command ran")
			}
			tm.over()
		})
	}
}

// TestQuestionSurvivesUs: what a worker asks waits through the death of the
// supervisor and of its host, under the same id, and can be answered then.
func TestQuestionSurvivesUs(t *testing.T) {
	t.Parallel()
	for _, victims := range [][]string{{"supervisor"}, {"host"}, {"host", "supervisor"}} {
		t.Run(strings.Join(victims, " and "), func(t *testing.T) {
			t.Parallel()
			tm := newTeam(t, askingScript(`call request_user_input {"questions": [{"id": "q1", "header": "Side", "question": "Left or right?", "options": [{"label": "left", "description": "l"}, {"label": "right", "description": "r"}]}]}`), 3)
			tm.edit("profile.toml", "[agents.worker]\n", "[agents.worker]\nmay_ask = true\n")
			j, p := tm.asks()
			for _, role := range victims {
				testkit.Kill9(t, tm.process(role, role == "host"))
			}
			if victims[0] == "host" {
				tm.until("another host", func() bool { return tm.runOf(j.AgentRunRef).RecoveryAttempts == 1 })
			}
			var now *control.ControlResponse
			tm.until("the question", func() bool {
				now = tm.inspect(j.JobID)
				return now.Live != nil && len(now.Live.PendingRequests) == 1
			})
			if got := now.Live.PendingRequests[0]; got.RequestID != p.RequestID || got.ThreadID != p.ThreadID || now.Job.Status != "waiting" {
				t.Errorf("it asks %+v as %s, want %+v", got, now.Job.Status, p)
			}
			tm.mustOrder(control.ControlRequest{
				JobID: j.JobID, Action: control.ActionRespond, RequestID: p.RequestID, Response: json.RawMessage(`{"answers":{"q1":{"answers":["left"]}}}`),
			}, 0)
			if end := tm.awaitJob(j.JobID, "completed"); end.ThreadID != j.ThreadID || !strings.Contains(tm.result(j.JobID, "result.md"), "left") {
				t.Errorf("it ended %+v with %q", end, tm.result(j.JobID, "result.md"))
			}
			tm.over()
		})
	}
}
