package modeltest_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDemoLead plays the bundled demo's root: two spawns, a wait that is
// repeated while a job is unfinished, both results, a summary that quotes them.
func TestDemoLead(t *testing.T) {
	script, err := os.ReadFile("../../profiles/offline-demo/offline.script")
	if err != nil {
		t.Fatal(err)
	}
	ctx, server := serve(t, string(script))
	items := []any{user("look around")}
	next := func() (string, []string) {
		t.Helper()
		status, stream, err := ask(t, ctx, server.URL+"/responses", m{"model": "offline-lead", "stream": true, "input": items})
		if err != nil || status != http.StatusOK {
			t.Fatalf("status %d, %v: %s", status, err, stream)
		}
		return said(t, stream)
	}
	wait := []string{`mcp__mmo_mesh/agents_wait{"job_ids":["job-a","job-b"],"timeout_seconds":120}`}

	if _, calls := next(); len(calls) != 2 {
		t.Fatalf("first step: %q, want two spawns", calls)
	}
	items = append(items, call("1"), call("2"), output("1", `{"job_id":"job-a"}`), output("2", `{"job_id":"job-b"}`))
	_, calls := next()
	if diff := cmp.Diff(wait, calls); diff != "" {
		t.Error(diff)
	}
	items = append(items, call("3"), output("3", `{"jobs":[{"job_id":"job-b"},{"job_id":"job-a"}],"unfinished":["job-b"],"timed_out_waiting":true}`))
	if _, calls = next(); !cmp.Equal(wait, calls) {
		t.Errorf("unfinished: %q, want %q", calls, wait)
	}
	items = append(items, call("4"), output("4", `{"unfinished":[],"timed_out_waiting":false}`))
	_, calls = next()
	want := []string{`mcp__mmo_mesh/agent_result{"job_id":"job-a"}`, `mcp__mmo_mesh/agent_result{"job_id":"job-b"}`}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
	items = append(items, call("5"), call("6"),
		output("5", `{"job_id":"job-a","content":"I read \"it\"."}`), output("6", `[{"type":"text","text":"{\"content\":\"I checked.\"}"}]`))
	text, calls := next()
	wantText := "Both jobs are done.\n\nThe reader reported:\nI read \"it\".\n\nThe checker reported:\nI checked."
	if text != wantText || len(calls) != 0 {
		t.Errorf("summary %q, calls %q", text, calls)
	}
}
