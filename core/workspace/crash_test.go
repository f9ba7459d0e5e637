package workspace_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// crashEnv holds an order for the test binary in its other role.
const crashEnv = "MMO_WORKSPACE_TEST_CRASH"

// order tells the other process what to integrate and when to die.
type order struct {
	Git, State, Top string
	Plan            workspace.Plan
	Step            int    // the number of the step before which it dies
	Spoil           string // a path that somebody edits just before the step Spoiled
	Spoiled         string
	Old             bool // on a file system that can't swap names
}

// MarshalJSON leaves the function of the plan out.
func (o order) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"Git": o.Git, "State": o.State, "Top": o.Top, "Step": o.Step, "Spoil": o.Spoil, "Spoiled": o.Spoiled, "Old": o.Old,
		"Plan": map[string]any{
			"Journal": o.Plan.Journal, "BaseTree": o.Plan.BaseTree, "Tree": o.Plan.Tree,
			"AllowFlagged": o.Plan.AllowFlagged, "Scope": o.Plan.Scope,
		},
	})
}

// crash plays the process that integrates and kills itself. It exits with 0
// when there was no such step any more.
func crash() int {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(crashEnv)), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 64
	}
	r, err := workspace.Open(background(), o.Top, &workspace.Options{Git: o.Git, StateDir: o.State})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 65
	}
	if o.Old {
		r.OldFilesystem()
	}
	n := 0
	o.Plan.Trace = func(step string) {
		if n == o.Step {
			fmt.Println(step)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // never goes on
		}
		n++
		if o.Spoil != "" && step == o.Spoiled {
			_ = os.WriteFile(o.Spoil, []byte("somebody's own\n"), 0o644)
		}
	}
	if _, err = r.Integrate(background(), &o.Plan); err != nil && o.Spoil == "" {
		fmt.Fprintln(os.Stderr, err)
		return 66
	}
	return 0
}

// crashing runs an order in another process. It returns the step before which
// that died, or false when it ran to its end.
func crashing(t *testing.T, o order) (step string, died bool) {
	t.Helper()
	text, err := json.Marshal(o)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{crashEnv + "=" + string(text), "GOMAXPROCS=1"}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err == nil {
		return "", false
	}
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the other process: %v", err)
	}
	return strings.TrimSpace(string(out)), true
}

// crashWorld is a repository and a change that has every kind of step.
func crashWorld(t *testing.T) (w *world, base, tree string) {
	t.Helper()
	w = newWorld(t)
	w.commit(map[string]string{
		"edit.txt": "old\r\n", "mode.sh": "echo\n", "gone/deep/a": "a\n", "gone/b": "b\n", "link": "link:edit.txt",
		"file-to-folder": "f\n", "folder-to-file/x": "x\n", "link-to-file": "link:gone", "stays": "s\n", "empty": "",
	})
	must(t, os.Chmod(filepath.Join(w.top, "edit.txt"), 0o640))
	must(t, os.Chmod(filepath.Join(w.top, "gone/deep"), 0o750))
	r := w.open()
	wt := w.add(r)
	for _, name := range []string{"gone", "file-to-folder", "folder-to-file", "link-to-file", "empty"} {
		must(t, os.RemoveAll(filepath.Join(wt.Dir, name)))
	}
	w.write(wt.Dir, map[string]string{
		"edit.txt": "new\r\n", "mode.sh": "exec:echo\n", "link": "link:stays", "file-to-folder/in": "in\n", "folder-to-file": "now a file\n",
		"link-to-file": "exec:#!/bin/sh\n", "fresh/er/file": "fresh\n", "fresh/link": "link:../edit.txt", "bin\xff": "\x00\x01",
	})
	c := w.capture(r, wt)
	return w, c.BaseTree, c.Tree
}

// TestCrash kills the process that integrates before each of its steps, and
// holds the tree after Resume against the old and the new one, byte for byte.
func TestCrash(t *testing.T) {
	t.Parallel()
	w, base, tree := crashWorld(t)
	old := snapshot(t, w.top, ".git")
	keep := w.unchanged(filepath.Join(w.top, ".git"))
	fresh := filepath.Join(w.root, "copy")
	r := w.open()
	steps := map[string]int{} // first word of a step -> times
	for n := 0; ; n++ {
		plan := w.plan(base, tree)
		step, died := crashing(t, order{Git: gitPath(t), State: w.state, Top: w.top, Plan: *plan, Step: n})
		if !died {
			break
		}
		steps[strings.Fields(step)[0]]++
		for round := range 2 { // it is idempotent
			out, err := r.Resume(t.Context(), plan.Journal)
			if err != nil || out.State != workspace.RolledBack {
				t.Fatalf("Resume after a crash before %q (round %d) = %v, %v, want rolled back", step, round, out.State, err)
			}
		}
		if diff := cmp.Diff(old, snapshot(t, w.top, ".git")); diff != "" {
			t.Fatalf("after a crash before %q the tree is not the old one:\n%s", step, diff)
		}
	}
	for _, step := range []string{"stage", "save", "plan", "delete", "drop", "make", "write", "place", "sync", "mark"} {
		if steps[step] == 0 {
			t.Errorf("no crash before a step %q; steps: %v", step, steps)
		}
	}
	w.gitIn(w.root, nil, "clone", "-q", w.top, fresh)
	w.gitIn(fresh, nil, "read-tree", "-m", "-u", "HEAD", tree)
	got, want := snapshot(t, w.top, ".git"), snapshot(t, fresh, ".git")
	want["edit.txt"] = "file 640 new\r\n" // permissions stay the user's
	want["."] = got["."]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the integrated tree differs from git's own (-git +ours):\n%s", diff)
	}
	keep()
}

// TestCrashInRollBack kills the process while it rolls back, after somebody's
// edit stopped it half way. The edit is there in the end, and nothing else.
func TestCrashInRollBack(t *testing.T) {
	t.Parallel()
	w, base, tree := crashWorld(t)
	old := snapshot(t, w.top, ".git")
	spoil := filepath.Join(w.top, "mode.sh") // the last path but for one
	r, undone := w.open(), 0
	for n := stepsBefore(t, w, r, base, tree, "write mode.sh"); ; n++ {
		plan := w.plan(base, tree)
		step, died := crashing(t, order{
			Git: gitPath(t), State: w.state, Top: w.top, Plan: *plan, Step: n, Spoil: spoil, Spoiled: "write mode.sh",
		})
		if !died {
			break
		}
		edited := snapshotOf(t, spoil) == "somebody's own\n"
		_, err := r.Resume(t.Context(), plan.Journal)
		if !edited {
			must(t, err) // TestCrash has been here
			continue
		}
		undone++
		if !errors.Is(err, workspace.ErrTaint) {
			t.Fatalf("Resume after a crash before %q = %v, want ErrTaint: the edit is neither old nor new", step, err)
		}
		must(t, os.WriteFile(spoil, []byte("echo\n"), 0o644)) // the user clears it up
		if out, err := r.Resume(t.Context(), plan.Journal); err != nil || out.State != workspace.RolledBack {
			t.Fatalf("Resume after the edit was taken back = %v, %v, want rolled back", out.State, err)
		}
		if diff := cmp.Diff(old, snapshot(t, w.top, ".git")); diff != "" {
			t.Fatalf("after a crash before %q the tree is not the old one:\n%s", step, diff)
		}
	}
	if undone < 10 {
		t.Errorf("only %d crashes in the roll back", undone)
	}
	want := snapshot(t, w.top, ".git") // the last round ran to its end: it rolled back, the edit stays
	old["mode.sh"] = "file 644 somebody's own\n"
	if diff := cmp.Diff(old, want); diff != "" {
		t.Errorf("after the roll back the tree is not the old one with the edit:\n%s", diff)
	}
}

// snapshotOf reads one file.
func snapshotOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

// stepsBefore counts the steps of an integration before one of them, by doing
// it, and takes it back.
func stepsBefore(t *testing.T, w *world, r *workspace.Repo, base, tree, name string) (n int) {
	t.Helper()
	plan := w.plan(base, tree)
	count, found := 0, false
	plan.Trace = func(step string) {
		if step == name && !found {
			found, n = true, count
		}
		count++
	}
	_, err := r.Integrate(t.Context(), plan)
	must(t, err)
	_, err = r.Undo(t.Context(), plan.Journal)
	must(t, err)
	if !found {
		t.Fatalf("there is no step %q", name)
	}
	return n
}
