package main_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/store"
)

// writersScript has two writers make a file each; the lead stays at work.
const writersScript = `
model m-lead
  step
    call mcp__mmo_mesh agents_spawn {"agents": [{"agent": "writer", "task": "one", "mode": "workspace-write", "write_scope": ["one"]}, {"agent": "writer", "task": "two", "mode": "workspace-write", "write_scope": ["two"]}]}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}", "${job_id 2}"], "timeout_seconds": 60}
  step
    shell "sleep 600"

  when output has timed_out_waiting true
    step
      call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}", "${job_id 2}"], "timeout_seconds": 60}
    repeat

model m-writer
  when user starts "one"
    step
      shell "mkdir -p one && printf 'new\\n' > one/new.txt"
    step
      json {"artifacts": [{"relative_path": "one/new.txt", "sha256": "%[1]s"}]}

  when user starts "two"
    step
      shell "mkdir -p two && printf 'new\\n' > two/new.txt"
    step
      json {"artifacts": [{"relative_path": "two/new.txt", "sha256": "%[1]s"}]}

model m-worker
  step
    say "never"
`

// TestDispositions: what a writer made changes nothing until its result was
// read, accepted and integrated, each in its turn and on record; what was
// rejected is never accepted.
//
// Spec: R103
func TestDispositions(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, fmt.Sprintf(writersScript, fmt.Sprintf("%x", sha256.Sum256([]byte("new\n")))), 3)
	tm.holdTo("writer", `{"type":"object"}`, "strict")
	tm.edit("profile.toml", "max_active_writers = 1", "max_active_writers = 2")
	tm.commit(baseTree)
	tm.start("go")
	for range 2 {
		tm.await("a writer's end", func(e control.FollowEvent) bool { return e.Agent == "writer" && e.Status == "completed" })
	}
	tm.until("both writers' ends", func() bool {
		jobs := tm.look().Jobs
		return len(jobs) == 2 && jobs[0].Status == "completed" && jobs[1].Status == "completed"
	})
	jobs := tm.look().Jobs
	one, two := jobs[0], jobs[1]
	for _, j := range jobs {
		if j.ResultState != "unread" || j.Patch == nil || len(j.Patch.ChangedPaths) != 1 || len(j.Artifacts) != 1 ||
			j.Artifacts[0].RelativePath != j.Patch.ChangedPaths[0] || !strings.HasSuffix(j.Patch.ChangedPaths[0], "/new.txt") {
			t.Errorf("the writer ended %+v", j)
		}
	}
	if diff := cmp.Diff(baseTree, tm.tree()); diff != "" {
		t.Errorf("the workspace changed before it was asked to (-want +got):\n%s", diff)
	}
	ctx := t.Context()
	refused := func(what string, err error, text string) {
		t.Helper()
		if core.KindOf(err) != core.KindRuntime || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want a RuntimeError with %q", what, err, text)
		}
	}
	_, err := tm.client.Accept(ctx, control.Meta{}, control.DispositionRequest{JobID: one.JobID, Reason: "good"})
	refused("accepted unread", err, "result must be read")
	tm.read(one.JobID)
	if _, err := tm.client.Integrate(ctx, control.Meta{}, control.IntegrateRequest{JobID: one.JobID, Reason: "wanted"}); err == nil {
		t.Error("a result that was not accepted was integrated")
	}
	accepted, err := tm.client.Accept(ctx, control.Meta{}, control.DispositionRequest{JobID: one.JobID, Reason: "good"})
	if err != nil || accepted.Job.ResultState != "accepted" {
		t.Fatalf("accept: %v, %+v", err, accepted)
	}
	integrated, err := tm.client.Integrate(ctx, control.Meta{}, control.IntegrateRequest{JobID: one.JobID, Reason: "wanted"})
	if err != nil || integrated.Job.ResultState != "integrated" {
		t.Fatalf("integrate: %v, %+v", err, integrated)
	}
	tm.read(two.JobID)
	rejected, err := tm.client.Reject(ctx, control.Meta{}, control.DispositionRequest{JobID: two.JobID, Reason: "not wanted"})
	if err != nil || rejected.Job.ResultState != "rejected" {
		t.Fatalf("reject: %v, %+v", err, rejected)
	}
	_, err = tm.client.Accept(ctx, control.Meta{}, control.DispositionRequest{JobID: two.JobID, Reason: "after all"})
	refused("accepted after it was rejected", err, "result must be read")

	want := map[string]string{}
	for name, text := range baseTree {
		want[name] = text
	}
	want[one.Patch.ChangedPaths[0]] = "new\n"
	if diff := cmp.Diff(want, tm.tree()); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
	runs := map[string]string{}
	tm.view(func(tx *store.Tx) error {
		rows, err := tx.AuditRows(tm.session, 0, 1000)
		for _, row := range rows {
			runs[row.Event+" "+row.JobID] = row.RunID
		}
		return err
	})
	run := tm.record().CurrentRunID
	for _, event := range []string{"agent_result_accepted " + one.JobID, "agent_patch_integrated " + one.JobID, "agent_result_rejected " + two.JobID} {
		if runs[event] != run || run == "" {
			t.Errorf("%s is on record for run %q, want %q", event, runs[event], run)
		}
	}
	tm.over()
}

// TestPagesOfAResult: a long result comes in pages that make up exactly what the
// worker said; a wait shows its beginning and says that it is no more.
//
// Spec: R109
func TestPagesOfAResult(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("é😀 line\\n", 700) + "END"
	tm := newTeam(t, fmt.Sprintf(contractScript, "  step\n    say \""+text+"\"\n"), 3)
	whole := strings.ReplaceAll(text, "\\n", "\n")
	tm.openAfter()
	j := tm.awaitJob(tm.jobNow().JobID, "completed")
	ctx := t.Context()
	total := utf8.RuneCountInString(whole)
	wait, err := tm.client.Wait(ctx, control.Meta{}, control.WaitRequest{JobIDs: []string{j.JobID}, IncludeResults: true})
	if err != nil {
		t.Fatal(err)
	}
	head := string([]rune(whole)[:4000])
	if got := wait.Results[j.JobID]; got.Preview != head || !got.Truncated || !strings.Contains(wait.ResultReadingNote, "bounded previews") {
		t.Errorf("the wait shows %d characters, truncated %v, and notes %q", utf8.RuneCountInString(got.Preview), got.Truncated, wait.ResultReadingNote)
	}
	var pages strings.Builder
	for cursor := 0; ; {
		page, err := tm.client.Result(ctx, control.Meta{}, control.ResultRequest{JobID: j.JobID, Cursor: cursor, MaxChars: 700})
		if err != nil {
			t.Fatal(err)
		}
		part, _ := page.Content.(string)
		n := utf8.RuneCountInString(part)
		last := cursor+n == total
		if page.Cursor != cursor || page.ContentFormat != "text" || page.TotalChars != total || page.Truncated == last || (page.NextCursor == nil) != last || !last && (n != 700 || *page.NextCursor != cursor+n) || page.ResultState != "read" {
			t.Fatalf("the page at %d is %+v", cursor, page)
		}
		pages.WriteString(part)
		if last {
			break
		}
		cursor = *page.NextCursor
	}
	if pages.String() != whole {
		t.Error("the pages do not make up the result")
	}
	_, err = tm.client.Result(ctx, control.Meta{}, control.ResultRequest{JobID: j.JobID, Cursor: total + 1})
	if core.KindOf(err) != core.KindValue || !strings.Contains(err.Error(), "exceeds the result length") {
		t.Errorf("a cursor beyond the end: %v", err)
	}
	if now := tm.jobNow(); now.ResultState != "read" {
		t.Errorf("the result is %s", now.ResultState)
	}
	tm.over()
}

// peerScript has a second worker, which sees the session, read the first one's
// result; the lead takes it without reading it again.
const peerScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "say it"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
  step
    call mcp__mmo_mesh agent_spawn {"agent": "writer", "task": "read it"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 2}"], "timeout_seconds": 60}
  step
    call mcp__mmo_mesh agent_result_accept {"job_id": "${job_id 1}", "reason": "my peer has read it"}
  step
    say "END ${result_state last else nothing}"

model m-worker
  step
    say "WHAT IT SAYS"

model m-writer
  step
    call mcp__mmo_mesh agent_status {}
  step
    call mcp__mmo_mesh agent_result {"job_id": "${job_id 1}"}
  step
    say "It says: ${content 1 else nothing}, and is ${result_state last else nothing}"
`

// TestPeerReads: a worker that sees the session reads a peer's result, which
// counts as read.
//
// Spec: R071
func TestPeerReads(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, peerScript, 3)
	tm.edit("profile.toml", "[agents.writer]\n", "[agents.writer]\nvisibility = \"session\"\n")
	tm.start("go")
	if out := tm.finish(); out.Result != "END accepted" {
		t.Errorf("the lead says %q, want END accepted", out.Result)
	}
	jobs := tm.stored().Jobs
	if got := tm.result(jobs[1].JobID, "result.md"); got != "It says: WHAT IT SAYS, and is read" {
		t.Errorf("the peer says %q", got)
	}
	if jobs[0].ResultState != "accepted" {
		t.Errorf("the result is %s", jobs[0].ResultState)
	}
	tm.assertGone()
}
