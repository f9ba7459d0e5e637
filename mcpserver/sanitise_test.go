package mcpserver_test

import (
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/control/controltest"
	"github.com/codex-mmo/codex-mmo/mcpserver"
)

// supervisorPaths are the keys that no result may have.
var supervisorPaths = []string{"result_path", "events_path", "stderr_path", "socket_path", "full_result_path"}

// opaque is a worker's text. It is full of those names, which mean nothing there.
const opaque = "{\"result_path\": \"/kept\", \"nested\": {\"socket_path\": \"<kept>\"}}\nevents_path: \u2028 stderr_path full_result_path"

// leak adds the keys to every object at any depth, as a supervisor of another
// build might, or one that passes a record on as it is. The maps whose keys are
// job ids get none themselves.
func leak(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{"live": map[string]any{"content": map[string]any{"socket_path": "/leaked"}}}
		for _, key := range supervisorPaths {
			out[key] = "/leaked/" + key
		}
		for key, member := range v {
			if ids, ok := member.(map[string]any); ok && (key == "results" || key == "progress_revisions") {
				ids = maps.Clone(ids)
				for id := range ids {
					ids[id] = leak(ids[id])
				}
				out[key] = ids
				continue
			}
			out[key] = leak(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = leak(v[i])
		}
		return out
	}
	return value
}

// leakySupervisor answers every verb with its typed answer and leaks.
func leakySupervisor(t *testing.T, answers map[string]any) string {
	t.Helper()
	path := controltest.SocketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var plain any
		data, err := json.Marshal(answers[strings.TrimPrefix(r.URL.Path, "/v1/")])
		if err == nil {
			err = json.Unmarshal(data, &plain)
		}
		if err != nil {
			t.Error(err)
		}
		if err := json.NewEncoder(w).Encode(leak(plain)); err != nil {
			t.Error(err)
		}
	}))
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return path
}

// forbidden lists the keys of supervisorPaths that value has at any depth.
func forbidden(value any) (found []string) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range supervisorPaths {
			if _, has := v[key]; has {
				found = append(found, key)
			}
		}
		for _, member := range v {
			found = append(found, forbidden(member)...)
		}
	case []any:
		for _, member := range v {
			found = append(found, forbidden(member)...)
		}
	}
	return found
}

// TestResultsHoldNoSupervisorPaths pins that no tool shows a path of the
// supervisor, whatever that says, and that a worker's text stays as it is.
//
// Spec: A001, R109
func TestResultsHoldNoSupervisorPaths(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	next := 9
	job := control.JobView{
		JobID: "j", Status: "completed", ResultState: "read", Error: opaque, StartedAt: &now, FinishedAt: &now,
		Failure: &control.FailureView{Kind: "turn_failed", Message: "m"},
		Usage:   &control.TokenUsage{EventCount: 1},
		Patch:   &control.PatchView{ChangedPaths: []string{"result_path"}, TotalPaths: 1},
	}
	jobs := []control.JobView{job, job}
	accepted := []control.AcceptedJob{{JobID: "j", AgentRunRef: "ar_1", Agent: "reader", Status: "queued"}}
	path := leakySupervisor(t, map[string]any{
		"caller": team(),
		"spawn":  control.SpawnResponse{Atomic: true, BatchID: "b", Accepted: accepted},
		"jobs":   control.JobsResponse{Jobs: jobs},
		"wait": control.WaitResponse{
			Jobs: jobs, ProgressRevisions: map[string]uint64{"j": 4},
			Results: map[string]control.ResultPreview{"j": {Preview: opaque}},
		},
		"result":    control.ResultResponse{JobID: "j", ContentFormat: "json", Content: opaque, NextCursor: &next},
		"cancel":    control.CancelResponse{Jobs: jobs},
		"accept":    control.DispositionResponse{Job: job},
		"reject":    control.DispositionResponse{Job: job},
		"integrate": control.IntegrateResponse{Job: job, ChangedPaths: []string{"socket_path"}},
	})
	c := connect(t, mcpserver.Config{Socket: path, Token: "tok"})
	c.handshake("codex-mcp-client")
	structured := map[string]map[string]any{}
	for tool, arguments := range map[string]string{
		"agent_spawn":           `{"agent":"reader","task":"x"}`,
		"agents_spawn":          `{"agents":[{"agent":"reader","task":"x"}]}`,
		"agent_status":          `{}`,
		"agents_wait":           `{"job_ids":["j"],"include_results":true}`,
		"agent_result":          `{"job_id":"j"}`,
		"agent_cancel":          `{"job_id":"j"}`,
		"agent_result_accept":   `{"job_id":"j","reason":"x"}`,
		"agent_result_reject":   `{"job_id":"j","reason":"x"}`,
		"agent_patch_integrate": `{"job_id":"j","reason":"x"}`,
	} {
		result := c.call(tool, arguments).tool(t)
		if result.IsError {
			t.Fatalf("%s = %+v, want a result", tool, result)
		}
		for place, data := range map[string]string{"text": result.Content[0].Text, "structured content": string(result.Structured)} {
			var value map[string]any
			if err := json.Unmarshal([]byte(data), &value); err != nil {
				t.Fatal(err)
			}
			if found := forbidden(value); found != nil || strings.Contains(data, "/leaked") {
				t.Errorf("the %s of %s has the keys %v: %s", place, tool, found, data)
			}
			structured[tool] = value
		}
	}
	if tools := listFor(t, team()); len(structured) != len(tools) {
		t.Errorf("%d tools were called, but there are %d", len(structured), len(tools))
	}
	if got := structured["agent_result"]["content"]; got != opaque {
		t.Errorf("content = %q, want %q", got, opaque)
	}
	if d := cmp.Diff(map[string]any{"j": map[string]any{"preview": opaque, "truncated": false}}, structured["agents_wait"]["results"]); d != "" {
		t.Errorf("results differ (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]any{"socket_path"}, structured["agent_patch_integrate"]["changed_paths"]); d != "" {
		t.Errorf("changed paths differ (-want +got):\n%s", d)
	}
	for _, tool := range []string{"agent_result_accept", "agent_result_reject", "agent_patch_integrate"} {
		if got := structured[tool]["job"].(map[string]any)["error"]; got != opaque {
			t.Errorf("the error of the job in %s = %q, want %q", tool, got, opaque)
		}
	}
}
