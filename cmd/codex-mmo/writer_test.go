package main_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/store"
)

// writeScript delegates to a reader and a writer in one batch and brings the
// writer's patch home.
const writeScript = `
model m-lead
  step
    call mcp__mmo_mesh agents_spawn {"agents": [{"agent": "worker", "task": "look"}, {"agent": "writer", "task": "write", "mode": "workspace-write", "write_scope": ["src"]}]}
  step
    call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}", "${job_id 2}"], "timeout_seconds": 60}
  step
    call mcp__mmo_mesh agent_result {"job_id": "${job_id 2}"}
  step
    call mcp__mmo_mesh agent_result_accept {"job_id": "${job_id 2}", "reason": "it is what was asked for"}
  step
    call mcp__mmo_mesh agent_patch_integrate {"job_id": "${job_id 2}", "reason": "wanted"}
  step
    say "END ${result_state last else nothing}: ${content 1 else nothing}"

  when output has timed_out_waiting true
    step
      call mcp__mmo_mesh agents_wait {"job_ids": ["${job_id 1}", "${job_id 2}"], "timeout_seconds": 60}
    repeat

model m-worker
  step
    say "LOOKED"

model m-writer
  step
    shell "mkdir -p src && printf 'new\\r\\n' > src/new.txt && printf 'changed\\n' > src/old.txt && rm src/gone.txt && git status --porcelain --untracked-files=all && git log --oneline | wc -l"
  step
    say "WRITTEN ${@output last}"
`

// commit puts files into the team's workspace and commits them.
func (tm *team) commit(files map[string]string) {
	tm.t.Helper()
	for name, text := range files {
		path := filepath.Join(tm.place.Workspace, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tm.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			tm.t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"add", "-A"}, {"commit", "--quiet", "-m", "base"}} {
		cmd := exec.Command("git", append([]string{"-C", tm.place.Workspace, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + tm.place.Home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
		if out, err := cmd.CombinedOutput(); err != nil {
			tm.t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

// tree reads the files of the workspace, without .git.
func (tm *team) tree() map[string]string {
	tm.t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(tm.place.Workspace, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(d.Name(), ".mmo-") {
			return nil // of an integration under way
		}
		if err != nil {
			return err
		}
		if d.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(tm.place.Workspace, path)
			files[rel] = string(raw)
		}
		return nil
	})
	if err != nil {
		tm.t.Fatal(err)
	}
	return files
}

var baseTree = map[string]string{"src/old.txt": "old\n", "src/gone.txt": "gone\n", "README.md": "hello\n"}

// TestWriterPatchLands: a batch of a reader and a writer; the writer works in a
// tree of its own, and what it made is in the workspace byte for byte once the
// root has read, accepted and integrated it. The audit shows each step.
func TestWriterPatchLands(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, writeScript, 3)
	tm.commit(baseTree)
	config := readFile(t, filepath.Join(tm.place.Workspace, ".git", "config"))
	index := readFile(t, filepath.Join(tm.place.Workspace, ".git", "index"))
	tm.start("go")
	out := tm.finish()
	if out.Status != "completed" || !strings.HasPrefix(out.Result, "END integrated: ") {
		t.Fatalf("exec ended %s with %q", out.Status, out.Result)
	}
	for _, line := range []string{" M src/old.txt", " D src/gone.txt", "?? src/new.txt"} { // git works where the writer works
		if !strings.Contains(out.Result, line) {
			t.Errorf("the writer's git status does not say %q: %s", line, out.Result)
		}
	}
	want := map[string]string{"src/old.txt": "changed\n", "src/new.txt": "new\r\n", "README.md": "hello\n"}
	if diff := cmp.Diff(want, tm.tree()); diff != "" {
		t.Errorf("the workspace (-want +got):\n%s", diff)
	}
	if readFile(t, filepath.Join(tm.place.Workspace, ".git", "config")) != config || readFile(t, filepath.Join(tm.place.Workspace, ".git", "index")) != index {
		t.Error("the user's git configuration or index changed")
	}
	wantAudit := []string{
		"run_started", "agent_started", "agent_started", "agent_ended", "agent_ended", "agent_result_accepted",
		"agent_patch_integrating", "agent_patch_integrated", "session_completed",
	}
	if diff := cmp.Diff(wantAudit, tm.auditEvents()); diff != "" {
		t.Errorf("the audit trail (-want +got):\n%s", diff)
	}
	tm.view(func(tx *store.Tx) error {
		jobs, err := tx.Jobs(store.JobFilter{SessionID: tm.session})
		for _, j := range jobs {
			if j.BatchID != jobs[0].BatchID {
				t.Errorf("jobs of one batch have ids %s and %s", jobs[0].BatchID, j.BatchID)
			}
			if j.Agent == "writer" && (j.Patch == nil || j.Patch.Total != 3 || !j.Worktree.Removed || j.Integrating) {
				t.Errorf("the writer's record: patch %+v, worktree %+v, integrating %v", j.Patch, j.Worktree, j.Integrating)
			}
		}
		return err
	})
	tm.assertSentOnce()
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
