package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// nativeProfile adds two native agents to the team: one that looks, and one that
// gives jobs to others.
const nativeProfile = `
[agents.scout]
model = "m-scout"
description = "Looks."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"
task_kinds = []
can_spawn = []
backends = ["native"]
guidance = "guidance/worker.md"

[agents.guide]
model = "m-guide"
description = "Gives jobs to others."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"
task_kinds = []
can_spawn = ["worker", "writer"]
backends = ["native"]
guidance = "guidance/worker.md"

`

// withNatives gives the native agents to the lead and to the worker.
func (tm *team) withNatives() {
	tm.t.Helper()
	tm.edit("profile.toml", "max_depth = 1\n", "max_depth = 4\nnative_nested_delegation = true\n")
	tm.edit("profile.toml", `can_spawn = ["worker", "writer"]`, `can_spawn = ["worker", "writer", "scout", "guide"]`)
	tm.edit("profile.toml", "can_spawn = []", `can_spawn = ["guide", "writer"]`) // the worker's
	tm.edit("profile.toml", "[agents.writer]", nativeProfile+"[agents.writer]")
	tm.edit("catalog.toml", "\n[models.m-worker]", fmt.Sprintf(teamModel, "m-scout")+fmt.Sprintf(teamModel, "m-guide")+"\n[models.m-worker]")
}

// nativeScript has the lead start a native agent of each role and one of none.
// All of them call our tools. The scout works on until it is stopped, and the
// lead until it may go on.
const nativeScript = `
model m-lead
  when user starts "of no role"
    step
      call mcp__mmo_mesh agent_status {}
    step
      say "NONE"
  when output contains "LET-GO"
    step
      say "END"
  when user starts "[inbox]"
    step
      say "END"
    repeat
  otherwise
  step
    call multi_agent_v1 spawn_agent {"message": "look", "agent_type": "scout"}
    call multi_agent_v1 spawn_agent {"message": "from the lead", "agent_type": "guide"}
    call multi_agent_v1 spawn_agent {"message": "of no role"}
  step
    shell "until test -f go-on; do sleep 0.1; done; echo LET-GO"
  repeat

model m-scout
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "for the scout"}
  step
    shell "exec sleep 12345"
  step
    say "SCOUT"

model m-guide
  when user starts "from the worker"
    step
      call mcp__mmo_mesh agent_spawn {"agent": "writer", "task": "for the guide below", "mode": "read-only"}
    step
      say "BELOW"
  otherwise
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "for the guide"}
  step
    say "GUIDE"

model m-worker
  when output contains "LET-GO"
    step
      say "DONE"
  otherwise
  step
    call multi_agent_v1 spawn_agent {"message": "from the worker", "agent_type": "guide"}
  step
    shell "until test -f go-on; do sleep 0.1; done; echo LET-GO"
  repeat

model m-writer
  step
    say "WRITTEN"
`

// natives are the native agents of the session by role, once they are as many
// and have the statuses that are wanted of them.
func (tm *team) natives(want map[string]string) map[string]control.NativeView {
	tm.t.Helper()
	var byRole map[string]control.NativeView
	tm.until("the native agents "+fmt.Sprint(want), func() bool {
		byRole = map[string]control.NativeView{}
		got := map[string]string{}
		for _, n := range tm.look().NativeRuns {
			byRole[n.Agent], got[n.Agent] = n, n.Status
		}
		return cmp.Equal(want, got)
	})
	return byRole
}

// told is what our tools answered to a call that a thread made.
func (tm *team) told(trail, thread, tool string) string {
	tm.t.Helper()
	for line := range strings.Lines(trail) {
		var row struct {
			Message struct {
				Method string `json:"method"`
				Params struct {
					ThreadID string `json:"threadId"`
					Item     struct {
						Type   string `json:"type"`
						Tool   string `json:"tool"`
						Result struct {
							Content []struct {
								Text string `json:"text"`
							} `json:"content"`
						} `json:"result"`
					} `json:"item"`
				} `json:"params"`
			} `json:"message"`
		}
		_ = json.Unmarshal([]byte(line), &row) // other shapes are not looked for
		m := row.Message
		if it := m.Params.Item; m.Method == "item/completed" && m.Params.ThreadID == thread && it.Type == "mcpToolCall" && it.Tool == tool && len(it.Result.Content) == 1 {
			return it.Result.Content[0].Text
		}
	}
	tm.t.Fatalf("thread %s has no answer to %s on record", thread, tool)
	return ""
}

// TestNativeAgents: native agents share the MCP process of the agent in whose
// engine they run and are told apart by their threads: each may do what its own
// role may, one of no role nothing. They are listed with the session and with
// the job; one that is stopped by its thread ends, with its command, and stays
// so, and the root works on.
//
// Spec: R052, R058, R059, A031
func TestNativeAgents(t *testing.T) {
	t.Parallel()
	for _, version := range testkit.CodexVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			tm := newTeam(t, nativeScript, 3)
			tm.withNatives()
			tm.startWith([]string{"MMO_CODEX_BIN=" + testkit.CodexOf(t, version)}, "exec", tm.profileDir(), "go", "--json")
			tm.tellNatives(t, version)
		})
	}
}

// tellNatives is TestNativeAgents on one Codex.
func (tm *team) tellNatives(t *testing.T, version string) {
	t.Helper()
	tm.until("a job of each guide", func() bool { return len(tm.look().Jobs) == 2 })
	list := tm.natives(map[string]string{"scout": "active", "guide": "idle", "": "idle"})
	view := tm.look()
	if view.Codex.Version != version {
		t.Errorf("the session runs on Codex %s, want %s", view.Codex.Version, version)
	}

	jobs := map[string]control.JobView{}
	for _, j := range view.Jobs {
		jobs[j.Agent] = j
	}
	if len(jobs) != 2 || jobs["worker"].ParentJobID != "" || jobs["writer"].ParentJobID != jobs["worker"].JobID {
		t.Errorf("jobs %+v, want the worker's under the root and the writer's under the worker", view.Jobs)
	}
	for _, j := range tm.jobs() {
		if want := map[string]int{"worker": 2, "writer": 4}[j.Agent]; j.Depth != want {
			t.Errorf("the job of %s has depth %d, want %d", j.Agent, j.Depth, want)
		}
	}
	below := jobs["worker"].NativeRuns
	for ref, n := range below {
		if ref != n.AgentRunRef || n.Agent != "guide" || n.ParentThreadID != jobs["worker"].ThreadID {
			t.Errorf("the worker's native agent is %+v", n)
		}
	}
	if len(below) != 1 {
		t.Errorf("the worker has the native agents %v, want one", below)
	}
	trail := tm.rootTrail()
	if got, want := tm.told(trail, list["scout"].ThreadID, "agent_spawn"), "PermissionError: native scout may not use spawn: its role has nobody to give jobs to"; !strings.HasPrefix(got, want) {
		t.Errorf("the scout was told %q, want %q", got, want)
	}
	if got, want := tm.told(trail, list[""].ThreadID, "agent_status"), `PermissionError: invalid native-agent: thread `+list[""].ThreadID+` runs as "", which is no native agent of lead`; !strings.HasPrefix(got, want) {
		t.Errorf("the agent of no role was told %q, want %q", got, want)
	}

	scout, sleeper := list["scout"], tm.sleeperFor("12345")
	stdout, stderr, code := tm.run("root", "stop", tm.session, "--thread", scout.ThreadID)
	if code != 0 || !strings.Contains(stdout, "stopping: true") {
		t.Fatalf("stopping the scout: exit %d\n%s%s", code, stdout, stderr)
	}
	testkit.AwaitGone(t, sleeper)
	stdout, stderr, code = tm.run("root", "inspect", tm.session)
	if code != 0 || strings.Count(stdout, scout.AgentRunRef) != 1 {
		t.Errorf("inspect: exit %d\n%s%s", code, stdout, stderr)
	}
	list = tm.natives(map[string]string{"scout": "stopped", "guide": "idle", "": "idle"})
	if list["scout"].ControlRevision != 1 || list["scout"].AgentRunRef != scout.AgentRunRef {
		t.Errorf("the stopped scout is %+v", list["scout"])
	}
	if view := tm.look(); view.ActiveTurnID == "" || view.Status != "running" {
		t.Errorf("after the scout's end the session is %s, the root's turn %q", view.Status, view.ActiveTurnID)
	}
	_, stderr, code = tm.run("root", "stop", tm.session, "--thread", scout.ThreadID)
	if code != 1 || !strings.Contains(stderr, "is stopped: there is nothing to stop") {
		t.Errorf("stopping it again: exit %d\n%s", code, stderr)
	}
	_, stderr, code = tm.run("root", "stop", tm.session, "--thread", view.RootThreadID)
	if code != 1 || !strings.Contains(stderr, "has no native agent on thread") {
		t.Errorf("stopping the root's own thread: exit %d\n%s", code, stderr)
	}
	worker := jobs["worker"]
	for ref, n := range worker.NativeRuns {
		stdout, stderr, code = tm.run("job", "inspect", worker.JobID, "--thread", n.ThreadID)
		if code != 0 || strings.Count(stdout, ref) != 1 {
			t.Errorf("inspecting the worker's guide: exit %d\n%s%s", code, stdout, stderr)
		}
		stdout, stderr, code = tm.run("job", "stop", worker.JobID, "--thread", n.ThreadID)
		if after := tm.look().Jobs[0]; code != 0 || after.Status != "running" || after.NativeRuns[ref].Status != "stopped" {
			t.Errorf("stopping the worker's guide: exit %d, then job %s is %s with %+v\n%s%s", code, after.JobID, after.Status, after.NativeRuns, stdout, stderr)
		}
	}
	tm.letGo("on")
	if out := tm.finish(); out.Status != "completed" {
		t.Errorf("the session ended %s", out.Status)
	}
	tm.assertClean()
}

// sleeperFor is the root's or one of its native agents' command that sleeps so
// long.
func (tm *team) sleeperFor(seconds string) (found process.Identity) {
	tm.t.Helper()
	tm.until("the command that sleeps "+seconds, func() bool {
		for _, id := range tm.sleepers(tm.record().RootAgentRef) {
			argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
			if err == nil && string(argv) == "sleep\x00"+seconds+"\x00" {
				found = id
				return true
			}
		}
		return false
	})
	return found
}
