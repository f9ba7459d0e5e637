package supervisor

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/access"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// watching gives the reader controls over the writer's jobs.
func watching(files map[string]string) {
	delegating(roomy, "")(files)
	files["profile.toml"] += "[agents.reader.controls.writer]\nactions = [\"inspect\", \"steer\", \"trace\", \"stop\"]\n"
}

// TestControlToolsFollowGrants: a role is offered the control tools of the
// actions that it was granted, and no others.
func TestControlToolsFollowGrants(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	snap := compileTeam(t, filepath.Join(place.Dir, "team"), watching)
	for agent, want := range map[string][]string{
		"reader": {
			"agent_spawn", "agents_spawn", "agent_status", "agents_wait", "agent_result", "agent_cancel",
			"agent_result_accept", "agent_result_reject", "agent_patch_integrate",
			"agent_inspect", "agent_trace", "agent_trace_record", "agent_steer", "agent_stop",
		},
		"writer": {"agent_status", "agents_wait", "agent_result"},
	} {
		if diff := cmp.Diff(want, toolsFor(snap, access.Caller{Role: access.RoleWorker, Agent: agent})); diff != "" {
			t.Errorf("%s is offered (-want +got):\n%s", agent, diff)
		}
	}
}

// TestControlsAreNoAuthorityToCancel: a worker that may stop a sibling's jobs
// may not cancel them.
//
// Spec: R072
func TestControlsAreNoAuthorityToCancel(t *testing.T) {
	t.Parallel()
	place := testkit.NewPlace(t)
	r := &rig{Supervisor: openSession(t, place, compileTeam(t, filepath.Join(place.Dir, "team"), watching), "s1", place.Workspace), t: t}
	r.seed(core.SessionRunning, nil)
	watcher, target := r.mustSpawn(r.lead(), read("reader"))[0], r.mustSpawn(r.lead(), write("src"))[0]
	r.become(watcher, core.JobRunning)
	r.become(target, core.JobRunning)
	j, err := r.cachedJob(target)
	if err != nil {
		t.Fatal(err)
	}
	caller := r.caller(watcher)
	if err := access.May(caller, access.StopJobVerb, r.target(j), r.state()); err != nil {
		t.Errorf("it may not stop the job: %v", err)
	}
	err = access.May(caller, "cancel", r.target(j), r.state())
	if core.KindOf(err) != core.KindPermission || !strings.Contains(err.Error(), "not a descendant") {
		t.Errorf("its cancel: %v, want a PermissionError", err)
	}
	if now, _ := r.cachedJob(target); now.Status.Terminal() {
		t.Errorf("the job is %s", now.Status)
	}
}
