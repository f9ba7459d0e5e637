package main_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// smokeScript has the lead start a worker and a scout with the words that the
// smoke test made for them, which only they and the prompt hold.
const smokeScript = `
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "${@user last}"}
    call multi_agent_v1 spawn_agent {"message": "${@user last}", "agent_type": "scout"}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"]}
    call multi_agent_v1 wait_agent {"targets": ["${agent_id 1}"], "timeout_ms": 60000}
  step
    say "done"
  repeat

model m-scout
  step
    say "I was told: ${@user last}"

model m-worker
  step
    say "I was told: ${@user last}"
`

// smoked is what smoke --json prints.
type smoked struct {
	Passed     bool   `json:"passed"`
	RootStatus string `json:"root_status"`
	ExitCode   int    `json:"exit_code"`
	Results    []struct {
		Agent   string `json:"agent"`
		Backend string `json:"backend"`
		Marker  bool   `json:"marker_present"`
	} `json:"results"`
	Cleanup *struct {
		Mode   string `json:"mode"`
		Result string `json:"result"`
	} `json:"cleanup"`
	SessionID string `json:"session_id"`
}

// smoke runs a smoke test and returns what it printed, as lines to compare.
func (tm *team) smoke(code int, more ...string) (out smoked, rows []string) {
	tm.t.Helper()
	stdout, stderr, got := tm.run(append([]string{"smoke", tm.profileDir(), "--json"}, more...)...)
	if err := json.Unmarshal([]byte(stdout), &out); err != nil || got != code {
		tm.t.Fatalf("smoke: exit %d, want %d (%v)\n%s%s", got, code, err, stdout, stderr)
	}
	for _, r := range out.Results {
		rows = append(rows, fmt.Sprint(r.Agent, " ", r.Backend, " ", r.Marker))
	}
	tm.session = out.SessionID
	return out, rows
}

// TestSmoke: every agent that the root may start is tried by the root's run, as a
// job or as a native agent, and passes when it has said its word itself; one that
// was not started has not.
//
// Spec: R117
func TestSmoke(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, smokeScript, 3)
	tm.withNatives()
	tm.edit("profile.toml", `can_spawn = ["worker", "writer", "scout", "guide"]`, `can_spawn = ["worker", "scout"]`)
	out, rows := tm.smoke(0, "--workers-only")
	if diff := cmp.Diff([]string{"worker mcp true", "scout native true"}, rows); diff != "" || !out.Passed || out.RootStatus != "completed" || out.Cleanup != nil {
		t.Errorf("smoke is %+v (-want +got):\n%s", out, diff)
	}
	out, rows = tm.smoke(1)
	if diff := cmp.Diff([]string{"lead root false", "worker mcp true", "scout native true"}, rows); diff != "" || out.Passed {
		t.Errorf("with a root that does not say its word smoke is %+v (-want +got):\n%s", out, diff)
	}
}

// TestSmokeStopsWhatDoesNotEnd: a session that is at work when the time is up is
// stopped once, with everything of it, and the smoke test has failed.
//
// Spec: R123
func TestSmokeStopsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, "model m-lead\n  step\n    shell \"sleep 900\"\n  repeat\n", 3)
	out, rows := tm.smoke(1, "--root-only", "--wall", "3s")
	if out.Passed || out.RootStatus != "harness_wall_detached" || out.ExitCode != 124 {
		t.Errorf("smoke is %+v", out)
	}
	if out.Cleanup == nil || out.Cleanup.Mode != "graceful_stop" || out.Cleanup.Result != "stopped" {
		t.Fatalf("it was cleaned up by %+v", out.Cleanup)
	}
	if diff := cmp.Diff([]string{"lead root false"}, rows); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	tm.assertGone()
	testkit.AssertLogsClean(t, tm.place.State)
}
