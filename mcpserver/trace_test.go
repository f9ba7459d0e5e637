package mcpserver_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// A trace is asked for in pages that a model can take, and one record of it in
// full; the record reader takes the agent's run.
func TestTraceTools(t *testing.T) {
	var asked control.TraceRequest
	var record control.TraceRecordRequest
	h := teamHandler()
	h.OnCaller = func(context.Context, control.Call, control.CallerRequest) (*control.CallerResponse, error) {
		return controllingAll(worker()), nil
	}
	h.OnTrace = func(_ context.Context, _ control.Call, r control.TraceRequest) (*control.TraceResponse, error) {
		asked = r
		return &control.TraceResponse{AgentRunRef: "ar_1", Records: []json.RawMessage{json.RawMessage(`{"seq":1}`)}, NextCursor: 8, Untrusted: true}, nil
	}
	next := 30_000
	h.OnTraceRecord = func(_ context.Context, _ control.Call, r control.TraceRecordRequest) (*control.TraceRecordResponse, error) {
		record = r
		return &control.TraceRecordResponse{AgentRunRef: "ar_1", Content: "{", NextCursor: &next, TotalChars: 40_000, FilteredSHA256: "ab", Untrusted: true}, nil
	}
	c := start(t, h)
	call := func(name, arguments string) string {
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`)
		m := c.next()
		if m.Error != nil {
			return string(m.Error.Data)
		}
		var got struct {
			Structured json.RawMessage `json:"structuredContent"`
		}
		if err := json.Unmarshal(m.Result, &got); err != nil {
			t.Fatal(err)
		}
		return string(got.Structured)
	}
	want := `{"agent_run_ref":"ar_1","records":[{"seq":1}],"next_cursor":8,"at_end":false,"private_reasoning_included":false,"untrusted":true}`
	if got := call("agent_trace", `{"job_id":"j","cursor":7,"limit":1}`); got != want {
		t.Errorf("agent_trace answers %s, want %s", got, want)
	}
	if diff := cmp.Diff(control.TraceRequest{JobID: "j", Cursor: 7, Limit: 1, MaxBytes: 24_000}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	want = `{"agent_run_ref":"ar_1","record_cursor":0,"content":"{","next_cursor":30000,"total_chars":40000,"filtered_sha256":"ab","private_reasoning_included":false,"untrusted":true}`
	if got := call("agent_trace_record", `{"agent_run_ref":"ar_1","record_cursor":3,"cursor":5,"max_chars":30000}`); got != want {
		t.Errorf("agent_trace_record answers %s, want %s", got, want)
	}
	if diff := cmp.Diff(control.TraceRecordRequest{AgentRunRef: "ar_1", RecordCursor: 3, Cursor: 5, MaxChars: 30_000}, record); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if got := call("agent_trace_record", `{"agent_run_ref":"ar_1","record_cursor":3,"max_chars":30001}`); !strings.Contains(got, "max_chars") {
		t.Errorf("a page that is too long: %s", got)
	}
}
