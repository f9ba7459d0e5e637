package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codex-mmo/codex-mmo/core"
)

// TestRemove removes what AddWorktree made, also when the worker locked its
// folders, and nothing else.
func TestRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n"})
	r := w.open()
	wt := w.add(r)
	w.write(wt.Dir, map[string]string{"locked/x": "x"})
	must(t, os.Symlink(w.top, filepath.Join(wt.Dir, "out")))
	must(t, os.Chmod(filepath.Join(wt.Dir, "locked"), 0))
	keep := w.unchanged(w.top)
	forged := *wt
	forged.Dir = w.top
	if err := r.Remove(t.Context(), forged); core.KindOf(err) != core.KindValue {
		t.Errorf("Remove of the user's tree = %v, want a ValueError", err)
	}
	for range 2 { // the second finds nothing to do
		must(t, r.Remove(t.Context(), *wt))
	}
	if _, err := os.Lstat(wt.Dir); err == nil {
		t.Errorf("%s is still there", wt.Dir)
	}
	if left, err := os.ReadDir(filepath.Join(r.GitDir(), "worktrees")); err != nil || len(left) != 0 {
		t.Errorf("registrations left: %v, %v", left, err)
	}
	keep()
}

// TestRemoveUnrecorded removes whatever AddWorktree left at any point, and only
// that, and only from the folder that is for worktrees.
func TestRemoveUnrecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n"})
	r := w.open()
	home := filepath.Join(w.state, "worktrees")
	dir := filepath.Join(home, "job")
	must(t, r.RemoveUnrecorded(t.Context(), dir)) // not even the folder worktrees is there
	must(t, os.Mkdir(home, 0o700))
	add := func() {
		_, err := r.AddWorktree(t.Context(), dir)
		must(t, err)
	}
	tests := []struct {
		name string
		make func()
	}{
		{"nothing", func() {}},
		{"a folder alone", func() { must(t, os.Mkdir(dir, 0o700)) }},
		{"a whole worktree", add},
		{"one half erased", func() { add(); must(t, os.RemoveAll(dir)) }},
		{"one without its .git", func() { add(); must(t, os.Remove(filepath.Join(dir, ".git"))) }},
	}
	for _, tt := range tests {
		tt.make()
		if err := r.RemoveUnrecorded(t.Context(), dir); err != nil {
			t.Errorf("%s: RemoveUnrecorded = %v", tt.name, err)
		}
		if left, err := os.ReadDir(home); err != nil || len(left) != 0 {
			t.Errorf("%s: %v is left (%v)", tt.name, left, err)
		}
		if left, err := os.ReadDir(filepath.Join(r.GitDir(), "worktrees")); err != nil || len(left) != 0 {
			t.Errorf("%s: registrations left: %v, %v", tt.name, left, err)
		}
	}
	w.write(home, map[string]string{"foreign/x": "x", "file": "x", "link": "link:" + w.top})
	inTrees := w.add(r).Dir
	for _, bad := range []string{
		w.top, w.state, home, home + "/", "worktrees/x", filepath.Join(home, "foreign/x"), home + "/../git", inTrees,
		filepath.Join(home, "foreign"), filepath.Join(home, "file"), filepath.Join(home, "link"),
	} {
		keep := w.unchanged(w.root)
		if err := r.RemoveUnrecorded(t.Context(), bad); core.KindOf(err) != core.KindValue {
			t.Errorf("RemoveUnrecorded(%q) = %v, want a ValueError", bad, err)
		}
		keep()
	}
}
