package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// TestBaseIsPruned: a captured tree is integrated although the user rewrote the
// history that it was made from, and pruned it.
func TestBaseIsPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := map[string]string{
		"a/b/edit": "old\n", "a/b/same": "same\n", "gone/x": "x\n", "moved/deep/y": "y\n", "copied/z": "z\n", "link": "link:a",
		"mode": "m\n", "swap": "s\n", "other": "other\n",
	}
	w.commit(base)
	r := w.open()
	wt := w.add(r)
	must(t, os.RemoveAll(filepath.Join(wt.Dir, "gone")))
	must(t, os.Remove(filepath.Join(wt.Dir, "swap")))
	must(t, os.Rename(filepath.Join(wt.Dir, "moved"), filepath.Join(wt.Dir, "a/moved")))
	w.write(wt.Dir, map[string]string{"a/b/edit": "new\n", "copy/z": "z\n", "link": "link:a/b", "mode": "exec:m\n", "swap/in": "in\n"})
	c := w.capture(r, wt)
	must(t, r.Keep(t.Context(), "job", c.Tree))
	testkit.AssertModes(t, filepath.Join(r.GitDir(), "objects"))
	base["other"] = "another\n"
	delete(base, "copied/z")
	w.commit(base) // without a parent: nothing leads to the base any more
	w.pruneAll()
	if w.has(c.BaseTree) {
		t.Fatal("the base tree was not pruned, so this test proves nothing")
	}
	plan := w.plan(c.BaseTree, c.Tree)
	out, err := r.Integrate(t.Context(), plan)
	must(t, err)
	if diff := cmp.Diff(paths(c.Changes), paths(out.Changes)); diff != "" {
		t.Errorf("changes after the pruning (-captured +integrated):\n%s", diff)
	}
	want := map[string]string{
		"a/b/edit": "file 644 new\n", "a/b/same": "file 644 same\n", "a/moved/deep/y": "file 644 y\n", "copied/z": "file 644 z\n", // the user's still, though in no commit
		"copy/z": "file 644 z\n", "link": "link a/b", "mode": "file 755 m\n", "swap/in": "file 644 in\n", "other": "file 644 another\n",
	}
	if diff := cmp.Diff(want, files(t, w.top)); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}
	if out, err := r.Undo(t.Context(), plan.Journal); err != nil || out.State != workspace.RolledBack {
		t.Errorf("Undo = %v, %v, want rolled back", out.State, err)
	}
}

// pruneAll has the user's git forget all that no ref leads to.
func (w *world) pruneAll() {
	w.t.Helper()
	w.git("reflog", "expire", "--expire=now", "--all")
	w.git("repack", "-q", "-a", "-d")
	w.git("prune", "--expire=now")
}

// has tells whether the user's own store has an object.
func (w *world) has(id string) bool {
	if _, err := os.Lstat(filepath.Join(w.top, ".git/objects", id[:2], id[2:])); err == nil {
		return true
	}
	packs, _ := filepath.Glob(filepath.Join(w.top, ".git/objects/pack/*.idx"))
	for _, pack := range packs {
		if list := w.git("verify-pack", "-v", pack); strings.Contains(list, id) {
			return true
		}
	}
	return false
}
