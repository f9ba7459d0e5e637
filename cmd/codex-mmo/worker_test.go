package main_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// ruledScript has a worker at work for longer than any test, and a lead that
// waits for it and then has time, so that the session lives on. Told to go on,
// the worker gives its result.
const ruledScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "work for long"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 240}
  step
    shell "sleep 600"

  when output has timed_out_waiting true
    step
      call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 240}
    repeat

model m-worker
  step
    think "A SECRET THOUGHT."
    shell "sleep 600 & sleep 600"
    usage input=101 output=3
  step
    say "STEERED"
    usage input=101 output=3

  when user starts "Continue your task"
    step
      say "DONE"
      usage input=101 output=3

  when user starts "Finalize now"
    step
      say "FINAL"
      usage input=101 output=3

  when user starts "And then"
    step
      say "FORKED"

  when user starts "[recovery]"
    step
      say "RECOVERED"
`

// newRuledTeam is a team whose worker can think in two ways.
func newRuledTeam(t *testing.T, recoveries int) *team {
	t.Helper()
	tm := newTeam(t, ruledScript, recoveries)
	tm.edit("catalog.toml", `upstream_id = "m-worker"
maker = "scripted"
modalities = ["text"]
reasoning_levels = ["none"]
default_reasoning = "none"`, `upstream_id = "m-worker"
maker = "scripted"
modalities = ["text"]
reasoning_levels = ["low", "max"]
default_reasoning = "low"`)
	tm.edit("profile.toml", "[agents.worker]\n", "[agents.worker]\nallowed_reasoning_efforts = [\"low\", \"max\"]\n")
	return tm
}

// working starts the team and returns its worker's job at work.
func (tm *team) working() control.JobView {
	tm.t.Helper()
	tm.start("go")
	tm.awaitWorkerShell()
	return tm.look().Jobs[0]
}

// jobNow is the session's first job as its supervisor tells it.
func (tm *team) jobNow() control.JobView {
	tm.t.Helper()
	return tm.look().Jobs[0]
}

// order gives one to the job, as an agent or a person who saw that revision.
func (tm *team) order(r control.ControlRequest, revision uint64) (*control.ControlResponse, error) {
	tm.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	r.ExpectedRevision = &revision
	return tm.client.Control(ctx, control.Meta{}, r)
}

// mustOrder gives an order, which must be taken and make the next revision.
func (tm *team) mustOrder(r control.ControlRequest, revision uint64) *control.ControlResponse {
	tm.t.Helper()
	answer, err := tm.order(r, revision)
	if err != nil {
		tm.t.Fatalf("%s at revision %d: %v", r.Action, revision, err)
	}
	if answer.ControlRevision != revision+1 || answer.Job.ControlRevision != revision+1 || answer.Job.ControlStatus != "applied" && answer.Job.ControlStatus != "pending" {
		tm.t.Errorf("%s made revision %d (job %d, %s), want %d", r.Action, answer.ControlRevision, answer.Job.ControlRevision, answer.Job.ControlStatus, revision+1)
	}
	return answer
}

// inspect looks at the job.
func (tm *team) inspect(job string) *control.ControlResponse {
	tm.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	answer, err := tm.client.Control(ctx, control.Meta{}, control.ControlRequest{JobID: job, Action: control.ActionInspect})
	if err != nil {
		tm.t.Fatal(err)
	}
	return answer
}

// awaitJob waits until the job has a status.
func (tm *team) awaitJob(job, status string) control.JobView {
	tm.t.Helper()
	tm.await("job "+status, func(e control.FollowEvent) bool { return e.JobID == job && e.Status == status })
	view := tm.look()
	i := slices.IndexFunc(view.Jobs, func(j control.JobView) bool { return j.JobID == job })
	if view.Jobs[i].Status != status {
		tm.t.Fatalf("job %s is %s, want %s: %+v", job, view.Jobs[i].Status, status, view.Jobs[i])
	}
	return view.Jobs[i]
}

// result reads a whole result from its file.
func (tm *team) result(job, name string) string {
	tm.t.Helper()
	raw, err := os.ReadFile(filepath.Join(tm.folders.JobDir(job), name))
	if err != nil {
		tm.t.Fatal(err)
	}
	return string(raw)
}

// over stops the session, which its lead would keep for long, and makes the
// sweeps.
func (tm *team) over() {
	tm.t.Helper()
	tm.look()
	if out, errs, code := tm.run("stop", tm.session); code != 0 {
		tm.t.Errorf("stop exited %d: %s%s", code, out, errs)
	}
	testkit.Await(tm.t, tm.exited, "the end of exec")
	tm.assertSentOnce()
	tm.assertClean()
}

// TestWorkerControlsAndTrace: each control takes the next revision, one for a
// state that is past is refused, and the usage of all turns is summed. The trace
// tells what happened, without private reasoning, and is lossless record by
// record.
//
// Spec: R067
func TestWorkerControlsAndTrace(t *testing.T) {
	t.Parallel()
	tm := newRuledTeam(t, 3)
	j := tm.working()
	live := tm.inspect(j.JobID).Live
	if live == nil || live.ActiveTurnID == "" || live.ActiveTurnID != tm.jobNow().ActiveTurnID || live.ThreadID != j.ThreadID || live.Effort != "low" {
		t.Errorf("live is %+v, the record has turn %s on %s", live, tm.jobNow().ActiveTurnID, j.ThreadID)
	}

	at := func(action string) control.ControlRequest {
		return control.ControlRequest{JobID: j.JobID, Action: action}
	}
	effort, steer := at(control.ActionSetEffort), at(control.ActionSteer)
	effort.Effort, steer.Input = "max", "look left"
	tm.mustOrder(effort, 0)
	tm.mustOrder(steer, 1)
	if got := tm.mustOrder(at(control.ActionPause), 2); got.Job.Status != "paused" || got.Live.ActiveTurnID != "" || got.Live.Effort != "max" {
		t.Errorf("after the pause the job is %s, live %+v", got.Job.Status, got.Live)
	}
	if _, err := tm.order(steer, 2); core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "stale control revision") {
		t.Errorf("an order for a past revision: %v", err)
	}
	tm.mustOrder(at(control.ActionContinue), 3)
	end := tm.awaitJob(j.JobID, "completed")
	if end.ThreadID != j.ThreadID || end.ResultKind != "final" || end.ControlRevision != 4 || end.Usage == nil || end.Usage.InputTokens != 202 {
		t.Errorf("it ended %+v (usage %+v), want 202 input tokens on thread %s", end, end.Usage, j.ThreadID)
	}
	if got := tm.result(j.JobID, "result.md"); got != "DONE" {
		t.Errorf("the result is %q", got)
	}

	// Nobody writes to the log of a job whose processes are gone.
	tm.until("the end of the job's processes", func() bool { return tm.runOf(j.AgentRunRef).Retired })
	path := filepath.Join(tm.folders.JobDir(j.JobID), "events.jsonl")
	before := len(rows(t, path))
	size, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := `{"broken":"` + strings.Repeat("y", 300<<10) + "\n"
	output := strings.Repeat("x", 600<<10)
	appendTo(t, path, `{"gen":9,"seq":1,"recorded_at":"2026-01-02T03:04:05Z","direction":"received","message":{"method":"item/completed","params":{"tool_output":"`+output+`"}}}`+"\n"+broken)

	trace := tm.trace(control.TraceRequest{JobID: j.JobID})
	if trace.PrivateReasoningIncluded || !trace.Untrusted || !trace.AtEnd || trace.NextCursor != before+2 || len(trace.Records) != before+2 {
		t.Errorf("the trace has %d records up to %d (end %v), want %d", len(trace.Records), trace.NextCursor, trace.AtEnd, before+2)
	}
	whole := string(slices.Concat(anyBytes(trace.Records)...))
	if raw := tm.result(j.JobID, "events.jsonl"); !strings.Contains(raw, "A SECRET THOUGHT") {
		t.Error("the event log has no reasoning: that the trace has none proves nothing")
	}
	if strings.Contains(whole, "SECRET") || !strings.Contains(whole, `"method":"turn/steer"`) || !strings.Contains(whole, "look left") {
		t.Errorf("the trace tells of reasoning, or not of the steering: %.4000s", whole)
	}
	one := tm.trace(control.TraceRequest{AgentRunRef: j.AgentRunRef, Cursor: before, Limit: 1})
	var stub struct {
		Truncated bool `json:"trace_record_truncated"`
		Cursor    int  `json:"record_cursor"`
	}
	if err := json.Unmarshal(one.Records[0], &stub); err != nil || !stub.Truncated || stub.Cursor != before || one.NextCursor != before+1 || one.AgentRunRef != j.AgentRunRef {
		t.Errorf("the page of the long record: %s, next %d of %s", one.Records[0], one.NextCursor, one.AgentRunRef)
	}
	var record struct {
		Message struct {
			Params map[string]string `json:"params"`
		} `json:"message"`
	}
	text := tm.traceRecord(j.AgentRunRef, stub.Cursor)
	if err := json.Unmarshal([]byte(text), &record); err != nil || record.Message.Params["tool_output"] != output {
		t.Errorf("the long record in full has %d characters: %v", len(text), err)
	}
	var bad map[string]string
	if err := json.Unmarshal([]byte(tm.traceRecord(j.AgentRunRef, before+1)), &bad); err != nil || bad["malformed_event"] != broken[:2000] {
		t.Errorf("the line that is no JSON: %v, %.80s", err, bad["malformed_event"])
	}

	// A person reads the same, live or not.
	out, errs, code := tm.run("job", "trace", j.JobID)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); code != 0 || len(lines) != before+2 || strings.Contains(out, "SECRET") ||
		!strings.Contains(out, "turn/start") || !strings.Contains(lines[before], "--record") || !strings.Contains(lines[before+1], "no JSON") {
		t.Errorf("job trace exited %d with %d lines, want %d: %s%.3000s", code, len(lines), before+2, errs, out)
	}
	if out, _, code := tm.run("job", "trace", j.JobID, "--record", "0"); code != 0 || strings.TrimSpace(out) != string(trace.Records[0]) {
		t.Errorf("job trace --record exited %d: %s", code, out)
	}
	if err := os.Truncate(path, size.Size()); err != nil {
		t.Fatal(err)
	}
	tm.over()
	out, _, code = tm.run("job", "trace", j.JobID, "--json", "--cursor", "1", "--limit", "2")
	var page control.TraceResponse
	if err := json.Unmarshal([]byte(out), &page); code != 0 || err != nil || len(page.Records) != 2 || page.NextCursor != 3 {
		t.Errorf("job trace of the ended session exited %d (%v): %s", code, err, out)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func anyBytes(records []json.RawMessage) (list [][]byte) {
	for _, r := range records {
		list = append(list, r)
	}
	return list
}

func (tm *team) trace(r control.TraceRequest) *control.TraceResponse {
	tm.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	page, err := tm.client.Trace(ctx, control.Meta{}, r)
	if err != nil {
		tm.t.Fatal(err)
	}
	size := 0
	for _, record := range page.Records {
		size += len(record)
	}
	if size >= 512<<10 {
		tm.t.Errorf("a page of the trace has %d bytes", size)
	}
	return page
}

// traceRecord reads a record in full, page by page.
func (tm *team) traceRecord(ref string, record int) string {
	tm.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	var text strings.Builder
	digests := map[string]bool{}
	for cursor := 0; ; {
		page, err := tm.client.TraceRecord(ctx, control.Meta{}, control.TraceRecordRequest{AgentRunRef: ref, RecordCursor: record, Cursor: cursor, MaxChars: 30_000})
		if err != nil {
			tm.t.Fatal(err)
		}
		text.WriteString(page.Content)
		digests[page.FilteredSHA256] = true
		if page.NextCursor == nil {
			if len(digests) != 1 || text.Len() != page.TotalChars {
				tm.t.Errorf("record %d has %d characters of %d and %d digests", record, text.Len(), page.TotalChars, len(digests))
			}
			return text.String()
		}
		cursor = *page.NextCursor
	}
}

// TestInterruptedWorkerGoesOn: an interrupt ends the turn and what it left in
// the background; continued, the worker ends well on the same thread.
//
// Spec: R068
func TestInterruptedWorkerGoesOn(t *testing.T) {
	t.Parallel()
	tm := newRuledTeam(t, 3)
	j := tm.working()
	sleepers := tm.sleepers(j.AgentRunRef)
	if len(sleepers) == 0 {
		t.Fatal("the worker's command runs nothing")
	}
	got := tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionInterrupt}, 0)
	if got.Job.Status != "paused" || got.Job.ActiveTurnID != "" || got.Live.ActiveTurnID != "" || got.Live.ThreadID != j.ThreadID {
		t.Errorf("after the interrupt: %+v, live %+v", got.Job, got.Live)
	}
	for _, id := range sleepers {
		testkit.AwaitGone(t, id)
	}
	tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionContinue}, 1)
	if end := tm.awaitJob(j.JobID, "completed"); end.ThreadID != j.ThreadID || end.ResultKind != "final" || end.RecoveryAttempts != 0 || tm.result(j.JobID, "result.md") != "DONE" {
		t.Errorf("it ended %+v", end)
	}
	tm.assertInputs("worker", "task turn_done", "control turn_done")
	tm.over()
}

// TestCompactAndFinalizeAWorker: a compaction waits for the turn's end, which it
// never is the cause of; a finalization reaches the turn at once.
//
// Spec: R069
func TestCompactAndFinalizeAWorker(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, strings.Replace(ruledScript, `shell "sleep 600 & sleep 600"`, `shell "while [ ! -e go ]; do sleep 0.1; done"`, 1), 3)
	j := tm.working()
	if got := tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionCompact}, 0); got.Job.ControlStatus != "pending" || got.Job.ActiveTurnID != j.ActiveTurnID {
		t.Errorf("the compaction is %s, the turn %s; want pending, %s", got.Job.ControlStatus, got.Job.ActiveTurnID, j.ActiveTurnID)
	}
	got := tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionFinalize}, 1)
	if got.Job.ControlStatus != "applied" || got.Result["turn_id"] != j.ActiveTurnID {
		t.Errorf("the finalization is %s with %v, want applied in turn %s", got.Job.ControlStatus, got.Result, j.ActiveTurnID)
	}
	if err := os.WriteFile(filepath.Join(tm.place.Workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if end := tm.awaitJob(j.JobID, "completed"); end.LastTurnID != j.ActiveTurnID || end.RecoveryAttempts != 0 || tm.result(j.JobID, "result.md") != "FINAL" {
		t.Errorf("it ended %+v with %q", end, tm.result(j.JobID, "result.md"))
	}
	var sent []string
	for _, r := range rows(t, filepath.Join(tm.folders.JobDir(j.JobID), "events.jsonl")) {
		if r.Direction == "sent" && (strings.HasPrefix(r.Message.Method, "turn/") || r.Message.Method == "thread/compact/start") {
			sent = append(sent, r.Message.Method)
		}
	}
	if diff := cmp.Diff([]string{"turn/start", "turn/steer", "thread/compact/start"}, sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	tm.view(func(tx *store.Tx) error {
		list, err := tx.Controls(j.AgentRunRef)
		for _, c := range list {
			if c.Status != store.ControlApplied {
				t.Errorf("%s of revision %d is %s: %s", c.Action, c.Revision, c.Status, c.Error)
			}
		}
		return err
	})
	tm.over()
}

// TestForkedWorker: a fork is a job of its own, admitted as any other, on a copy
// of the thread of one that has ended.
//
// Spec: R073
func TestForkedWorker(t *testing.T) {
	t.Parallel()
	tm := newRuledTeam(t, 3)
	j := tm.working()
	if _, err := tm.order(control.ControlRequest{JobID: j.JobID, Action: control.ActionFork}, 0); core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), "no thread at rest") {
		t.Errorf("a fork of a job at work: %v", err)
	}
	tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionInterrupt}, 0)
	tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionContinue}, 1)
	source := tm.awaitJob(j.JobID, "completed")

	out, errs, code := tm.run("job", "fork", j.JobID, "--expected-revision", "2", "--input", "And then what?", "--json")
	var answer control.ControlResponse
	if err := json.Unmarshal([]byte(out), &answer); code != 0 || err != nil {
		t.Fatalf("job fork exited %d (%v): %s%s", code, err, out, errs)
	}
	if answer.ControlRevision != 3 || answer.Job.ControlRevision != 3 || answer.Job.ControlStatus != "applied" || answer.Job.Status != "completed" {
		t.Errorf("the source is at revision %d, %+v", answer.ControlRevision, answer.Job)
	}
	id, _ := answer.Result["job_id"].(string)
	end := tm.awaitJob(id, "completed")
	if end.ForkSourceJobID != j.JobID || end.ForkThreadID != source.ThreadID || end.ThreadID == source.ThreadID || end.ThreadID == "" || end.Agent != "worker" || tm.result(id, "result.md") != "FORKED" {
		t.Errorf("the fork ended %+v, its source is %+v", end, source)
	}
	if view := tm.stored(); view.Jobs[0].ForkThreadID != "" || view.Jobs[0].ThreadID != source.ThreadID {
		t.Errorf("the source became %+v", view.Jobs[0])
	}
	forks := 0
	for _, r := range rows(t, filepath.Join(tm.folders.JobDir(id), "events.jsonl")) {
		if r.Direction == "sent" && r.Message.Method == "thread/fork" {
			forks++
		}
		if r.Direction == "sent" && (r.Message.Method == "thread/start" || r.Message.Method == "thread/resume") {
			t.Errorf("the fork's thread was opened by %s", r.Message.Method)
		}
	}
	if forks != 1 {
		t.Errorf("thread/fork was sent %d times", forks)
	}
	if got := tm.audited("agent_started"); got["fork_source_job_id"] != j.JobID || got["fork_thread_id"] != source.ThreadID {
		t.Errorf("the audit says of the fork %v", got)
	}
	tm.over()
}

// TestLeadControlsItsWorker: an agent that was granted controls has their tools,
// and uses them over MCP.
func TestLeadControlsItsWorker(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "look"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 240}
  step
    call mcp__mmo_mesh agent_trace {"job_id": "${job_id 1}", "limit": 2}
  step
    call mcp__mmo_mesh agent_trace_record {"agent_run_ref": "${agent_run_ref 1}", "record_cursor": 0, "max_chars": 30000}
  step
    call mcp__mmo_mesh agent_fork {"job_id": "${job_id 1}", "expected_revision": 0, "input": "And then what?"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 2}"], "timeout_seconds": 240}
  step
    call mcp__mmo_mesh agent_result {"job_id": "${job_id 2}"}
  step
    say "${content last else nothing}"

model m-worker
  step
    say "DONE"

  when user starts "And then"
    step
      say "FORKED"
`, 3)
	tm.edit("profile.toml", "guidance = \"guidance/lead.md\"\n", "guidance = \"guidance/lead.md\"\n[agents.lead.controls.worker]\nactions = [\"trace\", \"fork\"]\n")
	tm.start("go")
	if out := tm.finish(); out.Status != "completed" || out.Result != "FORKED" {
		t.Errorf("exec ended %s with %q", out.Status, out.Result)
	}
	trail := tm.rootTrail()
	for _, want := range []string{`"private_reasoning_included":false`, `"filtered_sha256"`, `fork_thread_id`} {
		if !strings.Contains(trail, strings.ReplaceAll(want, `"`, `\"`)) && !strings.Contains(trail, want) {
			t.Errorf("no tool told the lead %s", want)
		}
	}
	jobs := tm.jobs()
	slices.SortFunc(jobs, func(a, b *store.Job) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if len(jobs) != 2 || jobs[1].ForkSourceJobID != jobs[0].JobID || jobs[1].ParentJobID != "" || jobs[1].Depth != 1 {
		t.Errorf("the jobs are %+v", jobs)
	}
	tm.assertGone()
}

// TestTraceOfACancelledWorker: the evidence of a job that is ended goes on to the
// end of its engine.
func TestTraceOfACancelledWorker(t *testing.T) {
	t.Parallel()
	tm := newRuledTeam(t, 3)
	j := tm.working()
	if out, errs, code := tm.run("job", "cancel", j.JobID); code != 0 {
		t.Fatalf("job cancel exited %d: %s%s", code, out, errs)
	}
	tm.awaitJob(j.JobID, "cancelled")
	tm.until("the end of the job's processes", func() bool { return tm.runOf(j.AgentRunRef).Retired })
	list := rows(t, filepath.Join(tm.folders.JobDir(j.JobID), "events.jsonl"))
	if last := list[len(list)-1]; last.Direction != "host" || last.Message.Method != "host/exited" {
		t.Errorf("the last of %d events is %+v, want the exit of the app-server", len(list), last)
	}
	if now := tm.stored().Jobs[0]; !now.EvidenceComplete {
		t.Errorf("its evidence counts as incomplete: %+v", now)
	}
	tm.over()
}

// TestForkOfAPausedWorker: a job whose engine lives can be forked while its
// thread is at rest; both go on, each on its own.
//
// Spec: R073
func TestForkOfAPausedWorker(t *testing.T) {
	t.Parallel()
	tm := newRuledTeam(t, 3)
	j := tm.working()
	tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionInterrupt}, 0)
	got := tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionFork, Input: "And then what?"}, 1)
	id, _ := got.Result["job_id"].(string)
	if end := tm.awaitJob(id, "completed"); end.ForkThreadID != j.ThreadID || end.ThreadID == j.ThreadID || tm.result(id, "result.md") != "FORKED" {
		t.Errorf("the fork ended %+v", end)
	}
	if now := tm.inspect(j.JobID); now.Job.Status != "paused" || now.Job.ControlStatus != "applied" {
		t.Errorf("the source became %+v", now.Job)
	}
	tm.mustOrder(control.ControlRequest{JobID: j.JobID, Action: control.ActionContinue}, 2)
	if end := tm.awaitJob(j.JobID, "completed"); end.ThreadID != j.ThreadID || tm.result(j.JobID, "result.md") != "DONE" {
		t.Errorf("the source ended %+v", end)
	}
	tm.over()
}

// TestForkOfAWriter: a writer's fork works in a tree of its own, which begins as
// the workspace is; what its source made is in the source's patch alone.
func TestForkOfAWriter(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "writer", "task": "write", "mode": "workspace-write", "write_scope": ["src"]}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 240}
  step
    shell "sleep 600"

model m-writer
  step
    shell "echo one > src/one.txt"
  step
    say "DONE"

  when user starts "And then"
    step
      shell "echo two > src/two.txt; ls src"
    step
      say "FORKED ${@output last}"
`, 3)
	tm.commit(baseTree)
	tm.start("go")
	source := tm.await("the end of the writer", func(e control.FollowEvent) bool { return e.Agent == "writer" && e.Status == "completed" }).JobID
	got := tm.mustOrder(control.ControlRequest{JobID: source, Action: control.ActionFork, Input: "And then what?"}, 0)
	id, _ := got.Result["job_id"].(string)
	end := tm.awaitJob(id, "completed")
	if end.Patch == nil || !cmp.Equal(end.Patch.ChangedPaths, []string{"src/two.txt"}) || end.Mode != "workspace-write" || strings.Contains(tm.result(id, "result.md"), "\none.txt") {
		t.Errorf("the fork ended %+v (patch %+v) with %q", end, end.Patch, tm.result(id, "result.md"))
	}
	if h := tm.history(source); len(h.Turns) != 1 || h.Turns[0].Status != "completed" {
		t.Errorf("the source's history is %+v", h)
	}
	tm.view(func(tx *store.Tx) error {
		a, err := tx.Job(source)
		if err != nil {
			return err
		}
		b, err := tx.Job(id)
		if a.Cwd == b.Cwd || !cmp.Equal(a.Lease, b.Lease) || !cmp.Equal(a.Patch.Changed, []string{"src/one.txt"}) {
			t.Errorf("source and fork work in %s and %s, with the leases %v and %v; the source changed %v", a.Cwd, b.Cwd, a.Lease, b.Lease, a.Patch.Changed)
		}
		return err
	})
	tm.over()
}
