package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/testkit"
)

// writeFaultScript is writeScript with another command for the writer. The
// lead goes on after every refusal and ends with the last tool's answer.
func writeFaultScript(command string) string {
	return fmt.Sprintf(`
model m-lead
  step
    call mcp__mmo_mesh agent_spawn {"agent": "writer", "task": "write", "mode": "workspace-write", "write_scope": ["src"]}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}"], "timeout_seconds": 60}
  step
    call mcp__mmo_mesh agent_result {"job_id": "${job_id 1}"}
  step
    call mcp__mmo_mesh agent_result_accept {"job_id": "${job_id 1}", "reason": "good"}
  step
    call mcp__mmo_mesh agent_patch_integrate {"job_id": "${job_id 1}", "reason": "wanted"}
  step
    say "END ${@output last}"

  when output contains "Transport closed"
    step
      delay 500ms
      call mcp__mmo_mesh agent_patch_integrate {"job_id": "${job_id 1}", "reason": "wanted"}
    repeat

model m-writer
  step
    shell %q
  step
    say "WRITTEN"
`, command)
}

// TestWriterFaults: whatever a writer makes, the workspace holds the whole patch
// or stays as it was, nothing of it is run, and the refusal says why and what
// to do. One that writes out of its scope taints the session.
//
// Spec: R124
func TestWriterFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, command string
		before        func(tm *team)               // before the session starts
		during        func(tm *team)               // while the writer works
		files         map[string]string            // of the workspace; nil: as before
		want          []string                     // all in what the lead heard last
		job           func(control.JobView) string // "" or what is wrong
		taints        string                       // the session; empty: nothing does
	}{
		{
			name: "out of scope", command: "echo x >> README.md; echo y > src/a.txt",
			before: func(tm *team) { tm.write("README.md", "dirty\n") },
			files:  map[string]string{"src/old.txt": "old\n", "src/gone.txt": "gone\n", "README.md": "dirty\n"},
			want:   []string{"the session is tainted", "a person decides"},
			taints: "out-of-scope mutation: README.md",
			job: func(j control.JobView) string {
				if j.Status != "failed" || j.Patch != nil || j.Error != "out-of-scope mutation: README.md" {
					return fmt.Sprintf("status %s, patch %+v, error %q", j.Status, j.Patch, j.Error)
				}
				return ""
			},
		},
		{
			name: "a link that leaves the tree", command: "ln -s /etc/passwd src/link; echo y > src/a.txt",
			want: []string{"the patch was not integrated", "src/link", "reject the result"},
		},
		{
			name: "a hook and a nested repository",
			command: "mkdir -p src/nested/.git src/.husky; printf '[core]\\n\\tfsmonitor = touch /tmp/never\\n' > src/nested/.git/config; " +
				"echo 'ref: refs/heads/x' > src/nested/.git/HEAD; printf '#!/bin/sh\\n' > src/.husky/pre-commit; chmod +x src/.husky/pre-commit",
			want: []string{"the patch was not integrated", "src/.husky/pre-commit", "allow_flagged"},
		},
		{
			name: "the user's own edit in the way", command: "sleep 2; echo mine > src/old.txt",
			during: func(tm *team) { tm.write("src/old.txt", "theirs\n") },
			files:  map[string]string{"src/old.txt": "theirs\n", "src/gone.txt": "gone\n", "README.md": "hello\n"},
			want:   []string{"the patch was not integrated", "src/old.txt", "commit or move the user's changes"},
		},
		{
			name: "the user's edit elsewhere", command: "sleep 2; echo mine > src/new.txt",
			during: func(tm *team) { tm.write("src/old.txt", "theirs\n") },
			files: map[string]string{
				"src/old.txt": "theirs\n", "src/gone.txt": "gone\n", "README.md": "hello\n", "src/new.txt": "mine\n",
			},
			want: []string{`"result_state":"integrated"`, "src/new.txt"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tm := newTeam(t, writeFaultScript(tt.command), 3)
			tm.commit(baseTree)
			if tt.before != nil {
				tt.before(tm)
			}
			tm.start("go")
			tm.await("the writer's command", func(e control.FollowEvent) bool {
				return e.Agent == "writer" && strings.HasPrefix(e.Text, "runs ")
			})
			tm.look()
			if tt.during != nil {
				tt.during(tm)
			}
			out := tm.finish()
			for _, want := range tt.want {
				if !strings.Contains(strings.ReplaceAll(out.Result, `\"`, `"`), want) {
					t.Errorf("the lead did not hear %q: %s", want, out.Result)
				}
			}
			files := tt.files
			if files == nil {
				files = baseTree
			}
			if diff := cmp.Diff(files, tm.tree()); diff != "" {
				t.Errorf("the workspace (-want +got):\n%s", diff)
			}
			why := ""
			if rec := tm.record(); rec.Tainted {
				why = rec.TaintReasons[0].Reason
			}
			if why != tt.taints {
				t.Errorf("the session is tainted by %q, want %q", why, tt.taints)
			}
			if tt.job != nil {
				if wrong := tt.job(tm.job()); wrong != "" {
					t.Errorf("the job: %s", wrong)
				}
			}
			tm.assertClean()
		})
	}
}

func (tm *team) write(name, text string) {
	tm.t.Helper()
	if err := os.WriteFile(filepath.Join(tm.place.Workspace, name), []byte(text), 0o644); err != nil {
		tm.t.Fatal(err)
	}
}

// batchScript starts two members of which the second can't be launched, and
// then two that can.
const batchScript = `
model m-lead
  step
    call mcp__mmo_mesh agents_spawn {"agents": [{"agent": "worker", "task": "look"}, {"agent": "writer", "task": "write", "mode": "workspace-write"}]}
  step
    call mcp__mmo_mesh agents_spawn {"agents": [{"agent": "worker", "task": "look"}, {"agent": "worker", "task": "look"}]}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}", "${job_id 2}"], "timeout_seconds": 60}
  step
    say "END ${@output 1}"

model m-worker
  step
    say "DONE"

model m-writer
  step
    say "never"
`

// TestBatchRollsBackWhole: when one member can't be launched, none is left: the
// batch is refused by name, every member is failed and marked, and the next
// batch is accepted.
//
// Spec: A072
func TestBatchRollsBackWhole(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, batchScript, 3)
	tm.commit(baseTree)
	if err := os.WriteFile(filepath.Join(tm.place.State, "worktrees"), nil, 0o600); err != nil { // in the way of a folder
		t.Fatal(err)
	}
	tm.start("go")
	out := tm.finish()
	if out.Status != "completed" || !strings.Contains(out.Result, "atomic batch launch rolled back") {
		t.Errorf("exec ended %s with %q", out.Status, out.Result)
	}
	jobs := tm.stored().Jobs
	if len(jobs) != 4 {
		t.Fatalf("%d jobs are on record, want 4", len(jobs))
	}
	for _, j := range jobs[2:] {
		if j.Status != "completed" || j.RolledBack {
			t.Errorf("of the next batch %s is %s, rolled back %v", j.Agent, j.Status, j.RolledBack)
		}
	}
	for _, j := range jobs[:2] {
		if j.Status != "failed" || !j.RolledBack || !strings.Contains(j.Error, "worktrees") {
			t.Errorf("%s is %s, rolled back %v, %q", j.Agent, j.Status, j.RolledBack, j.Error)
		}
	}
	if diff := cmp.Diff(baseTree, tm.tree()); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
}

// TestSupervisorKilledWhileIntegrating: the tree is old or new, never between,
// the record says which, and asking again brings the patch in.
func TestSupervisorKilledWhileIntegrating(t *testing.T) {
	t.Parallel()
	const files = 300
	tm := newTeam(t, writeFaultScript(fmt.Sprintf("for i in $(seq 1 %d); do echo $i > src/f$i; done", files)), 3)
	tm.commit(baseTree)
	tm.start("go")
	tm.await("the integration", func(e control.FollowEvent) bool { return e.Agent == "lead" && e.Text == "calls agent_patch_integrate" })
	supervisor := tm.process("supervisor", false)
	deadline, again := time.NewTimer(testkit.Patience), time.NewTicker(time.Millisecond)
	defer deadline.Stop()
	defer again.Stop()
	for len(tm.tree()) == len(baseTree) { // until the first file is there
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatal("the integration never began")
		}
	}
	testkit.Kill9(t, supervisor)
	out := tm.finish()
	if out.Status != "completed" || !strings.Contains(strings.ReplaceAll(out.Result, `\"`, `"`), `"result_state":"integrated"`) {
		t.Errorf("exec ended %s with %q", out.Status, out.Result)
	}
	if got, want := len(tm.tree()), len(baseTree)+files; got != want {
		t.Errorf("the workspace has %d files, want all %d", got, want)
	}
	if j := tm.job(); j.ResultState != "integrated" {
		t.Errorf("the job's result is %s", j.ResultState)
	}
	tm.assertSentOnce()
}
