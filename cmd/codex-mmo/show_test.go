package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// TestShowSession: a person sees who works for whom, what a writer changed and
// what went wrong, each thing in one clean line.
func TestShowSession(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local)
	in, cached, written := uint64(120), uint64(7), uint64(30)
	v := &control.SessionView{
		SessionID: "s-1", ProfileID: "my-team", ProfileVersion: "1.2.0", Kind: "noninteractive", Status: "running", Workspace: "/src/project",
		RootAgent: "lead", CreatedAt: at, RuntimeCurrent: true, Recoveries: 2, Deferred: true,
		Codex: control.CodexView{Version: "0.149.0", Verdict: "reviewed"},
		Jobs: []control.JobView{
			{
				JobID: "j-1", AgentRunRef: "ar_1", Agent: "writer", Mode: "workspace-write", Status: "completed", ResultState: "integrated",
				Patch: &control.PatchView{ChangedPaths: []string{"docs/A.md"}, TotalPaths: 1, Integrated: true},
			},
			{
				JobID: "j-2", AgentRunRef: "ar_2", Agent: "reader", Mode: "read-only", Status: "failed", RecoveryAttempts: 1,
				Error: "\n\x1b[31mthe turn failed\x1b[0m:\n a very long story",
			},
			{
				JobID: "j-3", AgentRunRef: "ar_3", Agent: "writer", Mode: "workspace-write", Status: "completed_with_warnings", ResultState: "read",
				Patch:   &control.PatchView{ChangedPaths: []string{"a", "b"}, TotalPaths: 2, FlaggedPaths: []string{"a"}, RefusedPaths: []string{"b"}},
				Warning: "b is a \u202elink",
			},
		},
		Processes: []control.ProcessView{
			{Role: "supervisor", Owner: "s-1", PID: 10, Alive: true},
			{Role: "host", Owner: "ar_root", PID: 11, Alive: true},
			{Role: "host", Owner: "ar_2", PID: 12},
			{Role: "gateway", Owner: "9f", PID: 13, Alive: true},
		},
		Usage:    []control.UsageView{{Agent: "lead", Route: "offline", Model: "m", Requests: 3, InputTokens: &in, CachedTokens: &cached, OutputTokens: &written, Scripted: true}},
		Evidence: []control.EvidenceView{{State: "present", Size: 42, Path: "/state/sessions/s-1/root-result.md"}},
	}
	var out bytes.Buffer
	(&app{out: &out}).showSession(v)
	want := `session    s-1
profile    my-team 1.2.0
workspace  /src/project
status     running: the root has answered; the session waits for jobs at work
root       lead
restarts   2 times, its processes were lost and replaced
codex      0.149.0 (reviewed)
created    2026-03-04 05:06:07

JOB  AGENT   MODE             STATUS                   RESULT      CHANGES                        RESTARTS  NOTE
j-1  writer  workspace-write  completed                integrated  docs/A.md, in the workspace    0         -
j-2  reader  read-only        failed                   -           -                              1         [31mthe turn failed[0m:
j-3  writer  workspace-write  completed_with_warnings  read        2 files, 1 flagged, 1 refused  0         b is a link

PROCESS     PID  STATE  WORKS FOR
supervisor  10   alive  the session
host        11   alive  lead
host        12   gone   reader
gateway     13   alive  all sessions with these routes

AGENT  ROUTE               MODEL  REQUESTS  TOKENS IN  CACHED  TOKENS OUT
lead   offline (scripted)  m      3         120        7       30

EVIDENCE  BYTES  FILE
present   42     /state/sessions/s-1/root-result.md
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("showSession (-want +got):\n%s", diff)
	}
}

func TestMeaning(t *testing.T) {
	tests := []struct {
		view control.SessionView
		want string
	}{
		{control.SessionView{Status: "starting"}, "the root is not there yet"},
		{control.SessionView{Status: "running", ActiveTurnID: "t"}, "the root is at work"},
		{control.SessionView{Status: "detached", Kind: "interactive", SessionID: "s-1"}, "codex-mmo attach s-1"},
		{control.SessionView{Status: "running", Kind: "noninteractive"}, ""},
		{control.SessionView{Status: "suspended", SessionID: "s-1"}, "codex-mmo stop s-1"},
		{control.SessionView{Status: "suspended", SessionID: "s-1"}, "codex-mmo continue s-1"},
		{control.SessionView{Status: "paused", SessionID: "s-1"}, "codex-mmo resume s-1"},
		{control.SessionView{Status: "finishing"}, "processes are being ended"},
		{control.SessionView{Status: "cancelling"}, "processes are being ended"},
		{control.SessionView{Status: "completed"}, ""},
	}
	for _, test := range tests {
		got := meaning(&test.view)
		if !strings.Contains(got, test.want) || (test.want == "") != (got == "") {
			t.Errorf("meaning(%+v) = %q, want %q in it", test.view, got, test.want)
		}
	}
}
