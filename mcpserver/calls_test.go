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
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

func noJobs(context.Context, control.Call, control.JobsRequest) (*control.JobsResponse, error) {
	return &control.JobsResponse{}, nil
}

// TestBadCallsAndCancelReason is the server's part of the row: what a call may
// not look like, and what reaches the supervisor.
//
// Spec: R116
func TestBadCallsAndCancelReason(t *testing.T) {
	var cancelled []control.CancelRequest
	h := teamHandler()
	h.OnResult = func(_ context.Context, _ control.Call, r control.ResultRequest) (*control.ResultResponse, error) {
		return nil, core.Errorf(core.KindNotFound, "there is no job %q", r.JobID).WithRemedy("list the jobs with agent_status")
	}
	h.OnCancel = func(_ context.Context, _ control.Call, r control.CancelRequest) (*control.CancelResponse, error) {
		cancelled = append(cancelled, r)
		return &control.CancelResponse{Jobs: []control.JobView{{JobID: r.JobID, Status: "cancelled", CancelReason: r.Reason}}}, nil
	}
	c := start(t, h)
	for _, tc := range []struct{ tool, arguments, data string }{
		{"agent_status", `{"unexpected":true}`, "invalid tool arguments: additional properties 'unexpected' not allowed"},
		{"agent_status", `[]`, "invalid tool arguments: got array, want object"},
		{"agent_status", `{"job_id":1}`, "invalid tool arguments: job_id: got number, want string"},
		{"agent_result", `{}`, "invalid tool arguments: missing property 'job_id'"},
		{"agent_spawn", `{"agent":"nobody","task":"x"}`, "invalid tool arguments: agent: value must be one of 'reader', 'checker'"},
		{"agent_result", `{"job_id":"j","cursor":-1}`, "invalid tool arguments: cursor: minimum: got -1, want 0"},
		{"agents_wait", `{"job_ids":[]}`, "invalid tool arguments: job_ids: minItems: got 0, want 1"},
		{"agents_wait", `{"job_ids":["a"],"after_revision":{"a":-1}}`, "invalid tool arguments: after_revision/a: minimum: got -1, want 0"},
		{"not_an_advertised_tool", `{}`, `unknown tool "not_an_advertised_tool"`},
		{"agent_unknown", `{}`, `unknown tool "agent_unknown"`},
		{"agents_spawn", `{}`, "invalid tool arguments: missing property 'agents'"},
		{"agents_spawn", `{"agents":[]}`, "invalid tool arguments: agents: minItems: got 0, want 1"},
		{"agents_spawn", `{"agents":[` + strings.Repeat(`{"agent":"reader","task":"x"},`, 32) + `{"agent":"reader","task":"x"}]}`, "invalid tool arguments: agents: maxItems: got 33, want 32"},
		{"agents_spawn", `{"agents":[{"agent":"reader","task":"x"},{"agent":"nobody","task":"x"}]}`, "invalid tool arguments: agents/1/agent: value must be one of 'reader', 'checker'"},
		{"agents_spawn", `{"agents":[{"agent":"reader","task":"x","timeout_seconds":5}]}`, "invalid tool arguments: agents/0: additional properties 'timeout_seconds' not allowed"},
		{"agent_result_accept", `{"job_id":"j"}`, "invalid tool arguments: missing property 'reason'"},
		{"agent_result_reject", `{"job_id":"j","reason":""}`, "invalid tool arguments: reason: minLength: got 0, want 1"},
		{"agent_result_accept", `{"job_id":"j","reason":"x","cascade":true}`, "invalid tool arguments: additional properties 'cascade' not allowed"},
		{"agent_patch_integrate", `{"job_id":"j","reason":"x","allow_flagged":"yes"}`, "invalid tool arguments: allow_flagged: got string, want boolean"},
	} {
		r := c.call(tc.tool, tc.arguments)
		if r.Error == nil || r.Error.Code != -32602 || r.Error.Message != "invalid params" || r.Error.Data != tc.data {
			t.Errorf("%s %s = %s %+v, want -32602 invalid params with %q", tc.tool, tc.arguments, r.Result, r.Error, tc.data)
		}
	}

	failed := c.call("agent_result", `{"job_id":"20000101-000000-missing-result-0000000000"}`).tool(t)
	want := `FileNotFoundError: there is no job "20000101-000000-missing-result-0000000000"; list the jobs with agent_status`
	if !failed.IsError || failed.Content[0].Text != want || failed.Structured != nil {
		t.Errorf("failing call = %+v, want isError with the text %q alone", failed, want)
	}

	long := c.call("agent_cancel", `{"job_id":"j","reason":"`+strings.Repeat("é", 501)+`"}`).tool(t)
	if !long.IsError || !strings.HasPrefix(long.Content[0].Text, "ValueError: ") || !strings.Contains(long.Content[0].Text, "at most 500") {
		t.Errorf("long reason = %+v, want a ValueError with `at most 500`", long)
	}
	ok := c.call("agent_cancel", `{"job_id":"j","reason":"`+strings.Repeat("é", 500)+`","cascade":true}`)
	if got := ok.tool(t); got.IsError || strings.Contains(string(ok.Result), `"error"`) {
		t.Errorf("cancel = %s, want success", ok.Result)
	}
	if d := cmp.Diff([]control.CancelRequest{{JobID: "j", Reason: strings.Repeat("é", 500), Cascade: true}}, cancelled); d != "" {
		t.Errorf("cancels that reached the supervisor differ (-want +got):\n%s", d)
	}
}

// TestCallCarriesWhereItCameFrom follows the ids of a call as Codex sends them.
func TestCallCarriesWhereItCameFrom(t *testing.T) {
	var seen []control.Call
	var specs []control.SpawnSpec
	h := teamHandler()
	h.OnSpawn = func(_ context.Context, call control.Call, r control.SpawnRequest) (*control.SpawnResponse, error) {
		seen = append(seen, call)
		specs = append(specs, r.Agents...)
		return &control.SpawnResponse{
			Atomic: true, BatchID: "batch-1",
			Accepted: []control.AcceptedJob{{JobID: "j1", AgentRunRef: "ar_1", Agent: "reader", Status: "running"}},
		}, nil
	}
	c := start(t, h)
	spawn := func(meta string) row {
		c.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":` + meta + `,"name":"agent_spawn","arguments":{"agent":"checker","task":"look","task_kind":"check","mode":"workspace-write","write_scope":["a"]}}}`)
		return c.next()
	}
	got := spawn(`{"callId":"call_1","threadId":"th","progressToken":3,"x-codex-turn-metadata":{"session_id":"s","thread_id":"th","turn_id":"tu","sandbox":"none"}}`).tool(t)
	wantText := `{"job_id":"j1","agent_run_ref":"ar_1","agent":"reader","status":"running","batch_id":"batch-1"}`
	if got.Content[0].Text != wantText || string(got.Structured) != wantText {
		t.Errorf("spawn = %q and %s, want %s in both", got.Content[0].Text, got.Structured, wantText)
	}
	spawn(`{"callId":"call_1","threadId":"th","request_key":"mine","x-codex-turn-metadata":{"turn_id":"tu"}}`)
	spawn(`{"callId":7,"threadId":{},"x-codex-turn-metadata":"text"}`)
	keys := []string{}
	for _, call := range seen {
		if call.Token.Reveal() != "tok" || call.Operator {
			t.Errorf("call = %+v, want the caller's token", call)
		}
		keys = append(keys, call.Key())
	}
	if d := cmp.Diff([]string{"call/th/tu/call_1", "key/mine", ""}, keys); d != "" {
		t.Errorf("keys differ (-want +got):\n%s", d)
	}
	want := control.SpawnSpec{Agent: "checker", Task: "look", TaskKind: "check", Mode: "workspace-write", WriteScope: []string{"a"}}
	if d := cmp.Diff(want, specs[0]); d != "" {
		t.Errorf("spec differs (-want +got):\n%s", d)
	}
	if r := spawn(`{"callId":"a\nb"}`); r.Error == nil || r.Error.Code != -32602 || !strings.Contains(r.Error.Data, "callId") {
		t.Errorf("spawn with a line feed in its call id = %+v, want -32602 naming callId", r)
	}
}

func TestWaitTimeouts(t *testing.T) {
	var asked []float64
	h := teamHandler()
	h.OnWait = func(_ context.Context, _ control.Call, r control.WaitRequest) (*control.WaitResponse, error) {
		asked = append(asked, r.TimeoutSeconds)
		return &control.WaitResponse{TimedOutWaiting: true}, nil
	}
	path := controltest.SocketPath(t)
	controltest.Start(t, path, h)
	for _, tc := range []struct {
		client, arguments string
		want              float64
	}{
		{"codex-mcp-client", `{"job_ids":["j"]}`, 240},
		{"codex-mcp-client", `{"job_ids":["j"],"timeout_seconds":1200}`, 1200},
		{"codex-mcp-client", `{"job_ids":["j"],"timeout_seconds":0.5}`, 0.5},
		{"codex-mcp-client", `{"job_ids":["j"],"timeout_seconds":0}`, 0},
		{"other", `{"job_ids":["j"]}`, 50},
		{"other", `{"job_ids":["j"],"timeout_seconds":240}`, 50},
		{"other", `{"job_ids":["j"],"timeout_seconds":10}`, 10},
	} {
		asked = nil
		c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
		c.handshake(tc.client)
		if got := c.call("agents_wait", tc.arguments).tool(t); got.IsError {
			t.Fatalf("agents_wait = %+v", got)
		}
		// The client of the control API takes off what has passed already.
		if len(asked) != 1 || asked[0] > tc.want || asked[0] < tc.want-1 && asked[0] != 0 {
			t.Errorf("%s %s asked for %v s, want %v", tc.client, tc.arguments, asked, tc.want)
		}
	}
	c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
	c.handshake("codex-mcp-client")
	if r := c.call("agents_wait", `{"job_ids":["j"],"timeout_seconds":1201}`); r.Error == nil || r.Error.Code != -32602 {
		t.Errorf("a timeout of 1201 s = %+v, want -32602", r)
	}
}

func TestPreviewsShareAPage(t *testing.T) {
	h := teamHandler()
	h.OnWait = func(_ context.Context, _ control.Call, r control.WaitRequest) (*control.WaitResponse, error) {
		out := &control.WaitResponse{Results: map[string]control.ResultPreview{}}
		for _, id := range r.JobIDs {
			out.Results[id] = control.ResultPreview{Preview: strings.Repeat("é", 4000)}
		}
		return out, nil
	}
	c := start(t, h)
	for n, want := range map[int]int{1: 4000, 2: 4000, 4: 2000, 32: 500} {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("%q", fmt.Sprint("j", i))
		}
		var got control.WaitResponse
		r := c.call("agents_wait", `{"job_ids":[`+strings.Join(ids, ",")+`],"include_results":true}`).tool(t)
		if err := json.Unmarshal(r.Structured, &got); err != nil {
			t.Fatal(err)
		}
		p := got.Results["j0"]
		if len([]rune(p.Preview)) != want || p.Truncated != (want < 4000) {
			t.Errorf("preview of %d jobs has %d characters (truncated %v), want %d", n, len([]rune(p.Preview)), p.Truncated, want)
		}
	}
}

// TestStatusStaysSmall asks about a session with thousands of finished jobs.
func TestStatusStaysSmall(t *testing.T) {
	h := teamHandler()
	h.OnJobs = func(_ context.Context, _ control.Call, r control.JobsRequest) (*control.JobsResponse, error) {
		var jobs []control.JobView
		for i := range 5000 {
			j := control.JobView{JobID: fmt.Sprint("j", i), Status: "completed"}
			if i == 3 {
				j.Status = "running"
			}
			jobs = append(jobs, j)
		}
		return &control.JobsResponse{Jobs: jobs}, nil
	}
	r := start(t, h).call("agent_status", `{}`).tool(t)
	var got struct {
		Jobs    []control.JobView `json:"jobs"`
		Omitted int               `json:"omitted_finished_jobs"`
	}
	if err := json.Unmarshal(r.Structured, &got); err != nil {
		t.Fatal(err)
	}
	if len(r.Structured) > 8300 || len(got.Jobs) < 5 || len(got.Jobs)+got.Omitted != 5000 {
		t.Errorf("status has %d bytes with %d jobs and %d omitted, want a page that accounts for 5000", len(r.Structured), len(got.Jobs), got.Omitted)
	}
	if got.Jobs[0].JobID != "j3" || got.Jobs[len(got.Jobs)-1].JobID != "j4999" {
		t.Errorf("status has jobs from %s to %s, want the running one first and the latest last", got.Jobs[0].JobID, got.Jobs[len(got.Jobs)-1].JobID)
	}
}

func TestResultPage(t *testing.T) {
	var asked []control.ResultRequest
	h := teamHandler()
	h.OnResult = func(_ context.Context, _ control.Call, r control.ResultRequest) (*control.ResultResponse, error) {
		asked = append(asked, r)
		return &control.ResultResponse{JobID: r.JobID, Content: "<b>&", ContentFormat: "text", Untrusted: true}, nil
	}
	c := start(t, h)
	got := c.call("agent_result", `{"job_id":"j"}`).tool(t)
	c.call("agent_result", `{"job_id":"j","cursor":9,"max_chars":700}`)
	if d := cmp.Diff([]control.ResultRequest{{JobID: "j", MaxChars: 8000}, {JobID: "j", Cursor: 9, MaxChars: 700}}, asked); d != "" {
		t.Errorf("requests differ (-want +got):\n%s", d)
	}
	var text, structured any
	if json.Unmarshal([]byte(got.Content[0].Text), &text) != nil || json.Unmarshal(got.Structured, &structured) != nil || !cmp.Equal(text, structured) {
		t.Errorf("text %s and structured %s are not the same JSON", got.Content[0].Text, got.Structured)
	}
	if !strings.Contains(got.Content[0].Text, `"next_cursor":null`) || !strings.Contains(got.Content[0].Text, `"content":"<b>&"`) {
		t.Errorf("result = %s, want next_cursor null and the content as it is", got.Content[0].Text)
	}
}
