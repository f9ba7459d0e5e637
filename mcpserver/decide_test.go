package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
)

// codexCall is a tools/call with the ids that Codex sends.
func codexCall(tool, arguments string) string {
	return `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":{"callId":"ca","threadId":"th",` +
		`"x-codex-turn-metadata":{"turn_id":"tu"}},"name":"` + tool + `","arguments":` + arguments + `}}`
}

// TestDecisions follows each decision about a result to the supervisor and its
// answer back, with the key that makes a repeat harmless.
func TestDecisions(t *testing.T) {
	var got []any
	var keys []string
	h := teamHandler()
	decide := func(verb string) func(context.Context, control.Call, control.DispositionRequest) (*control.DispositionResponse, error) {
		return func(_ context.Context, call control.Call, r control.DispositionRequest) (*control.DispositionResponse, error) {
			got, keys = append(got, verb, r), append(keys, call.Key())
			return &control.DispositionResponse{Job: control.JobView{JobID: r.JobID, ResultState: verb + "ed"}}, nil
		}
	}
	h.OnAccept, h.OnReject = decide("accept"), decide("reject")
	h.OnIntegrate = func(_ context.Context, call control.Call, r control.IntegrateRequest) (*control.IntegrateResponse, error) {
		got, keys = append(got, "integrate", r), append(keys, call.Key())
		return &control.IntegrateResponse{
			Job: control.JobView{JobID: r.JobID, ResultState: "integrated"}, ChangedPaths: []string{"a/b.go"},
		}, nil
	}
	c := start(t, h)
	for _, tc := range []struct{ tool, arguments, state, paths string }{
		{"agent_result_accept", `{"job_id":"j","reason":"checked"}`, "accepted", ""},
		{"agent_result_reject", `{"job_id":"k","reason":"wrong"}`, "rejected", ""},
		{"agent_patch_integrate", `{"job_id":"j","reason":"needed"}`, "integrated", "a/b.go"},
		{"agent_patch_integrate", `{"job_id":"j","reason":"needed","allow_flagged":true}`, "integrated", "a/b.go"},
	} {
		c.send(codexCall(tc.tool, tc.arguments))
		result := c.next().tool(t)
		var answer struct {
			Job          control.JobView `json:"job"`
			ChangedPaths []string        `json:"changed_paths"`
		}
		if err := json.Unmarshal(result.Structured, &answer); err != nil || result.IsError {
			t.Fatalf("%s = %+v, want a result", tc.tool, result)
		}
		if answer.Job.ResultState != tc.state || strings.Join(answer.ChangedPaths, " ") != tc.paths {
			t.Errorf("%s = %s, want state %q and paths %q", tc.tool, result.Structured, tc.state, tc.paths)
		}
	}
	want := []any{
		"accept",
		control.DispositionRequest{JobID: "j", Reason: "checked"},
		"reject",
		control.DispositionRequest{JobID: "k", Reason: "wrong"},
		"integrate",
		control.IntegrateRequest{JobID: "j", Reason: "needed"},
		"integrate",
		control.IntegrateRequest{JobID: "j", Reason: "needed", AllowFlagged: true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("decisions that reached the supervisor differ (-want +got):\n%s", d)
	}
	const key = "call/th/tu/ca"
	if d := cmp.Diff([]string{key, key, key, key}, keys); d != "" {
		t.Errorf("keys differ (-want +got):\n%s", d)
	}
}

// TestRefusedDecisions pins that a model reads why, and that a reason that is
// too long does nothing.
func TestRefusedDecisions(t *testing.T) {
	h := teamHandler()
	refuse := func(context.Context, control.Call, control.DispositionRequest) (*control.DispositionResponse, error) {
		return nil, core.Errorf(core.KindValue, "the result must be read first").WithRemedy("call agent_result")
	}
	h.OnAccept, h.OnReject = refuse, refuse
	h.OnIntegrate = func(context.Context, control.Call, control.IntegrateRequest) (*control.IntegrateResponse, error) {
		return nil, &core.Error{Kind: core.KindAdmission, Message: "the patch changes flagged paths", Reason: "flagged_paths"}
	}
	c := start(t, h)
	long := strings.Repeat("é", 501)
	for _, tc := range []struct{ tool, reason, want string }{
		{"agent_result_accept", "good", "ValueError: the result must be read first; call agent_result"},
		{"agent_result_reject", strings.Repeat("é", 500), "ValueError: the result must be read first; call agent_result"},
		{"agent_patch_integrate", "good", "AdmissionError: the patch changes flagged paths (reason: flagged_paths)"},
		{"agent_result_accept", long, "ValueError: the reason has 501 characters, at most 500 are allowed; shorten it and call again; nothing was done"},
		{"agent_result_reject", long, "ValueError: the reason has 501 characters, at most 500 are allowed; shorten it and call again; nothing was done"},
		{"agent_patch_integrate", long, "ValueError: the reason has 501 characters, at most 500 are allowed; shorten it and call again; nothing was done"},
	} {
		got := c.call(tc.tool, `{"job_id":"j","reason":"`+tc.reason+`"}`).tool(t)
		if !got.IsError || got.Content[0].Text != tc.want {
			t.Errorf("%s = %+v, want the error %q", tc.tool, got, tc.want)
		}
	}
}

// TestRefusedSpawnNamesHolders: a model that is refused capacity reads who has
// it and what would set it free.
func TestRefusedSpawnNamesHolders(t *testing.T) {
	h := teamHandler()
	h.OnSpawn = func(context.Context, control.Call, control.SpawnRequest) (*control.SpawnResponse, error) {
		return nil, &core.Error{
			Kind: core.KindAdmission, Message: "write scope conflicts", Reason: "write_scope_conflict", Remedy: "wait",
			Holders: []core.Holder{
				{SessionID: "s2", JobID: "j2", Agent: "writer", Status: "running", WriteScope: []string{"/w/src"}, Frees: "when the job ends"},
				{SessionID: "s3", Status: "detached", Units: 2, Frees: "when session s3 ends"},
			},
		}
	}
	got := start(t, h).call("agents_spawn", `{"agents":[{"agent":"reader","task":"x"}]}`).tool(t)
	want := "AdmissionError: write scope conflicts; wait (reason: write_scope_conflict)\nHeld by:\n" +
		"- job j2 (writer) of session s2, running, writes [\"/w/src\"]; free when the job ends\n" +
		"- the root of session s3, detached, 2 units; free when session s3 ends"
	if !got.IsError || got.Content[0].Text != want {
		t.Errorf("the refusal reads %+v, want %q", got, want)
	}
}

// TestBatch sends several jobs as one spawn.
func TestBatch(t *testing.T) {
	var got []control.SpawnRequest
	var keys []string
	short := false
	h := teamHandler()
	h.OnSpawn = func(_ context.Context, call control.Call, r control.SpawnRequest) (*control.SpawnResponse, error) {
		got, keys = append(got, r), append(keys, call.Key())
		answer := &control.SpawnResponse{Atomic: true, BatchID: "batch-1"}
		for i, spec := range r.Agents {
			if short && i > 0 {
				break
			}
			answer.Accepted = append(answer.Accepted, control.AcceptedJob{
				JobID: fmt.Sprint("j", i), AgentRunRef: fmt.Sprint("ar_", i), Agent: spec.Agent, Status: "queued",
			})
		}
		return answer, nil
	}
	c := start(t, h)
	const arguments = `{"agents":[{"agent":"checker","task":"a","task_kind":"check","mode":"workspace-write","write_scope":["x"]},{"agent":"reader","task":"b"}]}`
	c.send(codexCall("agents_spawn", arguments))
	result := c.next().tool(t)
	want := `{"atomic":true,"batch_id":"batch-1","accepted":[` +
		`{"job_id":"j0","agent_run_ref":"ar_0","agent":"checker","status":"queued"},` +
		`{"job_id":"j1","agent_run_ref":"ar_1","agent":"reader","status":"queued"}],"rejected":[],"repeated":false}`
	if result.Content[0].Text != want || string(result.Structured) != want {
		t.Errorf("agents_spawn = %q and %s, want %s in both", result.Content[0].Text, result.Structured, want)
	}
	request := control.SpawnRequest{Agents: []control.SpawnSpec{
		{Agent: "checker", Task: "a", TaskKind: "check", Mode: "workspace-write", WriteScope: []string{"x"}},
		{Agent: "reader", Task: "b"},
	}}
	if d := cmp.Diff([]control.SpawnRequest{request}, got); d != "" {
		t.Errorf("spawns that reached the supervisor differ (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"call/th/tu/ca"}, keys); d != "" {
		t.Errorf("keys differ (-want +got):\n%s", d)
	}
	short = true
	if r := c.call("agents_spawn", arguments).tool(t); !r.IsError || !strings.Contains(r.Content[0].Text, "a spawn of 2 jobs with 1; call agent_status") {
		t.Errorf("a batch that was answered in part = %+v, want an error and the advice to look", r)
	}
}

// crowdedPatch is the patch of a worker that made far too many files.
func crowdedPatch() *control.PatchView {
	paths := func(prefix string) (list []string) {
		for i := range 200 {
			list = append(list, fmt.Sprintf("%s/%s/%03d", prefix, strings.Repeat("d", 80), i))
		}
		return list
	}
	return &control.PatchView{ChangedPaths: paths("changed"), FlaggedPaths: paths("flagged"), RefusedPaths: paths("refused"), TotalPaths: 9000}
}

// TestPatchesShareAPage pins that a worker's file names can't flood its
// reader, whoever looks, and that the result says how many entries it leaves
// out.
func TestPatchesShareAPage(t *testing.T) {
	jobs := func(n int) (list []control.JobView) {
		for i := range n {
			list = append(list, control.JobView{JobID: fmt.Sprint("j", i), Status: "completed", Patch: crowdedPatch()})
		}
		return list
	}
	h := teamHandler()
	h.OnJobs = func(context.Context, control.Call, control.JobsRequest) (*control.JobsResponse, error) {
		return &control.JobsResponse{Jobs: jobs(3)}, nil
	}
	h.OnWait = func(_ context.Context, _ control.Call, r control.WaitRequest) (*control.WaitResponse, error) {
		return &control.WaitResponse{Jobs: jobs(len(r.JobIDs))}, nil
	}
	h.OnCancel = func(context.Context, control.Call, control.CancelRequest) (*control.CancelResponse, error) {
		return &control.CancelResponse{Jobs: jobs(2)}, nil
	}
	h.OnAccept = func(context.Context, control.Call, control.DispositionRequest) (*control.DispositionResponse, error) {
		return &control.DispositionResponse{Job: jobs(1)[0]}, nil
	}
	h.OnIntegrate = func(context.Context, control.Call, control.IntegrateRequest) (*control.IntegrateResponse, error) {
		return &control.IntegrateResponse{Job: jobs(1)[0], ChangedPaths: crowdedPatch().ChangedPaths}, nil
	}
	c := start(t, h)
	for _, tc := range []struct {
		tool, arguments string
		all             int // entries before
	}{
		{"agent_status", `{}`, 3 * 600},
		{"agents_wait", `{"job_ids":["a","b","c","d"]}`, 4 * 600},
		{"agent_cancel", `{"job_id":"j"}`, 2 * 600},
		{"agent_result_accept", `{"job_id":"j","reason":"x"}`, 600},
		{"agent_patch_integrate", `{"job_id":"j","reason":"x"}`, 800},
	} {
		result := c.call(tc.tool, tc.arguments).tool(t)
		var got struct {
			Jobs         []control.JobView `json:"jobs"`
			Job          control.JobView   `json:"job"`
			ChangedPaths []string          `json:"changed_paths"`
			Omitted      int               `json:"omitted_paths"`
		}
		if err := json.Unmarshal(result.Structured, &got); err != nil {
			t.Fatal(err)
		}
		shown := len(got.ChangedPaths)
		for _, j := range append(got.Jobs, got.Job) {
			p := j.Patch
			if p == nil {
				continue
			}
			if len(p.RefusedPaths) == 0 || len(p.FlaggedPaths) == 0 || len(p.ChangedPaths) == 0 || p.TotalPaths != 9000 {
				t.Errorf("%s leaves a list of a patch out: %+v", tc.tool, p)
			}
			shown += len(p.RefusedPaths) + len(p.FlaggedPaths) + len(p.ChangedPaths)
		}
		if shown+got.Omitted != tc.all {
			t.Errorf("%s shows %d paths and tells of %d omitted ones, want %d together", tc.tool, shown, got.Omitted, tc.all)
		}
		if n := len([]rune(string(result.Structured))); n > 12_000 {
			t.Errorf("%s has %d characters, want about a page", tc.tool, n)
		}
	}
}

// TestSmallPatchesAreWhole pins that an ordinary patch is shown as it is.
func TestSmallPatchesAreWhole(t *testing.T) {
	patch := &control.PatchView{ChangedPaths: []string{"a", "b"}, TotalPaths: 2, FlaggedPaths: []string{"b"}, SHA256: "00", BaseCommit: "11"}
	h := teamHandler()
	h.OnJobs = func(context.Context, control.Call, control.JobsRequest) (*control.JobsResponse, error) {
		return &control.JobsResponse{Jobs: []control.JobView{{JobID: "j", Patch: patch}}}, nil
	}
	result := start(t, h).call("agent_status", `{"job_id":"j"}`).tool(t)
	var got struct {
		Jobs []control.JobView `json:"jobs"`
	}
	if err := json.Unmarshal(result.Structured, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(patch, got.Jobs[0].Patch); d != "" || strings.Contains(string(result.Structured), "omitted_paths") {
		t.Errorf("patch in %s differs (-want +got):\n%s", result.Structured, d)
	}
}
