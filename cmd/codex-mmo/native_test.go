package main_test

import (
	"testing"
	"strings"
	"time"
	"os"
	"fmt"

	"github.com/codex-mmo/codex-mmo/core/control"
)

// nativeProfile gives the lead two native agents, of which one delegates.
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
description = "Delegates."
permissions = "read-only"
approval_policy = "never"
execution_mode = "turn"
task_kinds = []
can_spawn = ["worker"]
backends = ["native"]
guidance = "guidance/worker.md"
`

const nativeScript = `
model m-lead
  when any user starts "other"
    step
      call mcp__mmo_mesh agent_status {}
    step
      say "OTHER"
  otherwise
  step
    call multi_agent_v1 spawn_agent {"message": "look", "agent_type": "scout"}
    call multi_agent_v1 spawn_agent {"message": "guide", "agent_type": "guide"}
    call multi_agent_v1 spawn_agent {"message": "other"}
  step
    shell "until test -f go-on; do sleep 0.1; done"
  step
    say "END"
  repeat

model m-scout
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "for the scout"}
    call mcp__mmo_mesh agent_status {}
  step
    shell "until test -f go-on; do sleep 0.1; done"
  step
    say "SCOUT"
  repeat

model m-guide
  step
    call mcp__mmo_mesh agent_spawn {"agent": "worker", "task": "for the guide"}
  step
    say "GUIDE"
  repeat

model m-worker
  step
    say "DONE"
  repeat
`

func (tm *team) withNatives() {
	tm.t.Helper()
	tm.edit("profile.toml", `can_spawn = ["worker", "writer"]`, `can_spawn = ["worker", "writer", "scout", "guide"]`)
	tm.edit("profile.toml", "max_depth = 1\n", "max_depth = 2\nnative_nested_delegation = true\n")
	tm.edit("profile.toml", "[agents.writer]", nativeProfile+"\n[agents.writer]")
	tm.edit("catalog.toml", "\n[models.m-worker]", fmt.Sprintf(teamModel, "m-scout")+fmt.Sprintf(teamModel, "m-guide")+"\n[models.m-worker]")
}

func TestNativeIdentity(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, nativeScript, 3)
	tm.withNatives()
	tm.start("go")
	tm.await("the root's command", func(e control.FollowEvent) bool { return e.Agent == "lead" && strings.HasPrefix(e.Text, "runs ") })
	time.Sleep(8*time.Second)
	out, errs, code := tm.run("root", "inspect", tm.session)
	t.Log(out, errs, code)
	t.Log(tm.rootTrail())
	out, errs, code = tm.run("status", tm.session)
	t.Log(out, errs, code)
	os.WriteFile("/tmp/native-trail.txt", []byte(tm.rootTrail()), 0o600)
}
