package workspace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// edited is a world whose worker changed, added and deleted a file.
func edited(t *testing.T) (w *world, r *workspace.Repo, plan *workspace.Plan) {
	t.Helper()
	w = newWorld(t)
	w.commit(map[string]string{"edit": "old\n", "gone": "gone\n", "other": "other\n"})
	r = w.open()
	wt := w.add(r)
	must(t, os.Remove(filepath.Join(wt.Dir, "gone")))
	w.write(wt.Dir, map[string]string{"edit": "new\n", "dir/added": "added\n"})
	c := w.capture(r, wt)
	return w, r, w.plan(c.BaseTree, c.Tree)
}

// TestDirtyFiles: whatever the user did to a path of the patch stops all of
// it, and all such paths are named.
func TestDirtyFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		edit func(w *world)
		want []string
	}{
		{"edited", func(w *world) { w.write(w.top, map[string]string{"edit": "mine\n"}) }, []string{"edit"}},
		{"deleted", func(w *world) { must(w.t, os.Remove(filepath.Join(w.top, "edit"))) }, []string{"edit"}},
		{"made a program", func(w *world) { must(w.t, os.Chmod(filepath.Join(w.top, "edit"), 0o755)) }, []string{"edit"}},
		{"made a link", func(w *world) { w.write(w.top, map[string]string{"edit": "link:other"}) }, []string{"edit"}},
		{"made a folder", func(w *world) {
			must(w.t, os.Remove(filepath.Join(w.top, "edit")))
			w.write(w.top, map[string]string{"edit/x": "x"})
		}, []string{"edit"}},
		{"edited what the patch deletes", func(w *world) { w.write(w.top, map[string]string{"gone": "mine\n"}) }, []string{"gone"}},
		{"has an untracked file there", func(w *world) { w.write(w.top, map[string]string{"dir/added": "mine\n"}) }, []string{"dir/added"}},
		{"has a file for a folder", func(w *world) { w.write(w.top, map[string]string{"dir": "mine\n"}) }, []string{"dir/added"}},
		{"several", func(w *world) {
			w.write(w.top, map[string]string{"edit": "mine\n", "gone": "mine\n", "dir/added": "mine\n", "other": "not in the patch\n"})
		}, []string{"dir/added", "edit", "gone"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, r, plan := edited(t)
			tt.edit(w)
			keep := w.unchanged(w.top)
			_, err := r.Integrate(t.Context(), plan)
			var named *workspace.PathError
			if !errors.Is(err, workspace.ErrDirty) || !errors.As(err, &named) || !slices.Equal(named.Paths, tt.want) {
				t.Errorf("Integrate = %v, want ErrDirty naming %q", err, tt.want)
			}
			keep()
		})
	}
}

// TestFilesThatAreNewAlready are left alone, and the rest is written.
func TestFilesThatAreNewAlready(t *testing.T) {
	t.Parallel()
	w, r, plan := edited(t)
	w.write(w.top, map[string]string{"edit": "new\n"})
	must(t, os.Remove(filepath.Join(w.top, "gone")))
	before, err := os.Stat(filepath.Join(w.top, "edit"))
	must(t, err)
	out, err := r.Integrate(t.Context(), plan)
	must(t, err)
	if out.State != workspace.Applied || !slices.Equal(out.Written, []string{"dir/added"}) || len(out.Changes) != 3 {
		t.Errorf("Integrate = %+v, want dir/added written of 3 changes", out)
	}
	if after, err := os.Stat(filepath.Join(w.top, "edit")); err != nil || !os.SameFile(before, after) {
		t.Errorf("edit was written anew (%v)", err)
	}
}

// TestUserFilesStay: files beside the patch, in folders that it empties, stay.
func TestUserFilesStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"d/a": "a\n", "e/f/b": "b\n"})
	r := w.open()
	wt := w.add(r)
	must(t, os.RemoveAll(filepath.Join(wt.Dir, "d")))
	must(t, os.RemoveAll(filepath.Join(wt.Dir, "e")))
	c := w.capture(r, wt)
	w.write(w.top, map[string]string{"d/mine": "mine\n"})
	plan := w.plan(c.BaseTree, c.Tree)
	_, err := r.Integrate(t.Context(), plan)
	must(t, err)
	want := map[string]string{".": "folder 700", "d": "folder 755", "d/mine": "file 644 mine\n"}
	if diff := cmp.Diff(want, snapshot(t, w.top, ".git")); diff != "" {
		t.Errorf("after the deletions (-want +got):\n%s", diff)
	}
	must(t, r.Discard(t.Context(), plan.Journal))
	if _, err := os.Lstat(plan.Journal); err == nil {
		t.Error("the journal stays after Discard")
	}
}

// TestFlaggedNeedsPermission: and with it, it is written.
func TestFlaggedNeedsPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n"})
	r := w.open()
	wt := w.add(r)
	w.write(wt.Dir, map[string]string{"AGENTS.md": "obey\n", "b": "b\n"})
	c := w.capture(r, wt)
	plan := w.plan(c.BaseTree, c.Tree)
	plan.AllowFlagged = false
	keep := w.unchanged(w.top)
	_, err := r.Integrate(t.Context(), plan)
	if !errors.Is(err, workspace.ErrFlagged) || core.KindOf(err) != core.KindPermission || !strings.Contains(err.Error(), `"AGENTS.md"`) {
		t.Errorf("Integrate = %v, want ErrFlagged naming AGENTS.md", err)
	}
	keep()
	plan.AllowFlagged = true
	_, err = r.Integrate(t.Context(), plan)
	must(t, err)
}

// TestUndo takes an applied patch back, for a caller that could not record it.
//
// Spec: R104 (files and folders that were made are gone again).
func TestUndo(t *testing.T) {
	t.Parallel()
	w, r, plan := edited(t)
	keep := w.unchanged(w.top)
	_, err := r.Integrate(t.Context(), plan)
	must(t, err)
	if out, err := r.Resume(t.Context(), plan.Journal); err != nil || out.State != workspace.Applied {
		t.Errorf("Resume = %v, %v, want applied", out, err)
	}
	for range 2 {
		out, err := r.Undo(t.Context(), plan.Journal)
		if err != nil || out.State != workspace.RolledBack {
			t.Errorf("Undo = %v, %v, want rolled back", out, err)
		}
	}
	if out, err := r.Resume(t.Context(), plan.Journal); err != nil || out.State != workspace.RolledBack {
		t.Errorf("Resume after Undo = %v, %v, want rolled back", out, err)
	}
	keep()
}

// TestUndoAfterAnEdit: what the user edited since is not overwritten, the rest
// is taken back, and the error says that the tree is neither old nor new.
//
// Spec: R105 (the part of the working tree).
func TestUndoAfterAnEdit(t *testing.T) {
	t.Parallel()
	w, r, plan := edited(t)
	_, err := r.Integrate(t.Context(), plan)
	must(t, err)
	w.write(w.top, map[string]string{"edit": "mine\n"})
	_, err = r.Undo(t.Context(), plan.Journal)
	var named *workspace.PathError
	if !errors.Is(err, workspace.ErrTaint) || !errors.As(err, &named) || !slices.Equal(named.Paths, []string{"edit"}) {
		t.Errorf("Undo = %v, want ErrTaint naming edit", err)
	}
	want := map[string]string{".": "folder 700", "edit": "file 644 mine\n", "gone": "file 644 gone\n", "other": "file 644 other\n"}
	if diff := cmp.Diff(want, snapshot(t, w.top, ".git")); diff != "" {
		t.Errorf("after Undo (-want +got):\n%s", diff)
	}
}

// TestEditsWhileIntegrating: somebody edits a path just before its turn. The
// edit stays, all else is as before, and the tree is not tainted: nothing of
// ours is in it.
func TestEditsWhileIntegrating(t *testing.T) {
	t.Parallel()
	w, r, first := edited(t)
	for _, path := range []string{"edit", "gone", "dir/added"} {
		for _, before := range []string{"save", "plan", "delete gone", "write edit", "place edit", "place dir/added", "sync"} {
			must(t, os.RemoveAll(filepath.Join(w.top, "dir")))
			w.write(w.top, map[string]string{"edit": "old\n", "gone": "gone\n"})
			plan := w.plan(first.BaseTree, first.Tree)
			old := snapshot(t, w.top, ".git")
			done := false
			plan.Trace = func(step string) {
				if !done && strings.HasPrefix(step, before) {
					done = true
					w.write(w.top, map[string]string{path: "mine\n"})
				}
			}
			_, err := r.Integrate(t.Context(), plan)
			got := snapshot(t, w.top, ".git")
			if got[path] != "file 644 mine\n" {
				t.Errorf("edit of %s before %q: it is %q, want the edit", path, before, got[path])
			}
			if err == nil {
				continue // it came after its path was written
			}
			if errors.Is(err, workspace.ErrTaint) && got["edit"] != "file 644 old\n" && got["edit"] != "file 644 mine\n" {
				t.Errorf("edit of %s before %q: %v", path, before, err)
			}
			old[path] = got[path]
			if path == "dir/added" {
				old["dir"] = got["dir"]
			}
			if diff := cmp.Diff(old, got); diff != "" {
				t.Errorf("edit of %s before %q: the rest differs (-want +got):\n%s", path, before, diff)
			}
		}
	}
}

// TestRollBackFails: an edit stops the work, another its roll back. The error
// holds both, and says that the tree is neither old nor new.
//
// Spec: R105 (the part of the working tree).
func TestRollBackFails(t *testing.T) {
	t.Parallel()
	w, r, plan := edited(t)
	plan.Trace = func(step string) {
		if step == "write edit" { // dir/added is in place
			w.write(w.top, map[string]string{"dir/added": "mine\n", "edit": "mine\n"})
		}
	}
	_, err := r.Integrate(t.Context(), plan)
	var named *workspace.PathError
	if !errors.Is(err, workspace.ErrTaint) || !errors.As(err, &named) || !slices.Equal(named.Paths, []string{"dir/added"}) {
		t.Errorf("Integrate = %v, want ErrTaint naming dir/added", err)
	}
	for _, want := range []string{"it began with: writing edit: it was changed meanwhile", "by hand with the journal " + plan.Journal} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Integrate = %v, want it to hold %q", err, want)
		}
	}
	want := map[string]string{
		".": "folder 700", "dir": "folder 755", "dir/added": "file 644 mine\n", "edit": "file 644 mine\n",
		"gone": "file 644 gone\n", "other": "file 644 other\n",
	}
	if diff := cmp.Diff(want, snapshot(t, w.top, ".git")); diff != "" {
		t.Errorf("after the failed roll back (-want +got):\n%s", diff)
	}
}

// TestParentSwappedWhileIntegrating: a folder becomes a link between the look
// and the write; nothing is written beyond it.
func TestParentSwappedWhileIntegrating(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"stage", "plan", "write d/new"} {
		w := newWorld(t)
		w.commit(map[string]string{"d/a": "a\n"})
		outside := filepath.Join(w.root, "outside")
		w.write(outside, map[string]string{"a": "a\n"})
		r := w.open()
		wt := w.add(r)
		w.write(wt.Dir, map[string]string{"d/a": "changed\n", "d/new": "new\n"})
		c := w.capture(r, wt)
		keep := w.unchanged(outside)
		plan := w.plan(c.BaseTree, c.Tree)
		plan.Trace = func(step string) {
			if step == before {
				must(t, os.Rename(filepath.Join(w.top, "d"), filepath.Join(w.root, "moved")))
				must(t, os.Symlink(outside, filepath.Join(w.top, "d")))
			}
		}
		if _, err := r.Integrate(t.Context(), plan); err == nil {
			t.Errorf("Integrate with d swapped before %q = nil, want an error", before)
		}
		keep()
	}
}

// TestGivingUpHalfWay: a caller that gives up leaves the old tree.
func TestGivingUpHalfWay(t *testing.T) {
	t.Parallel()
	w, r, plan := edited(t)
	keep := w.unchanged(w.top)
	cause := errors.New("the caller gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	plan.Trace = func(step string) {
		if step == "place dir/added" {
			cancel(cause)
		}
	}
	if _, err := r.Integrate(ctx, plan); !errors.Is(err, cause) || errors.Is(err, workspace.ErrTaint) {
		t.Errorf("Integrate = %v, want the cause without a taint", err)
	}
	keep()
}

// TestPermissionsStay: a changed file keeps its permissions, a new one has
// those of the umask.
func TestPermissionsStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n", "b": "b\n", "c": "exec:c\n"})
	r := w.open()
	wt := w.add(r)
	w.write(wt.Dir, map[string]string{"a": "aa\n", "b": "exec:b\n", "c": "c\n", "d": "exec:d\n"})
	c := w.capture(r, wt)
	must(t, os.Chmod(filepath.Join(w.top, "a"), 0o600))
	must(t, os.Chmod(filepath.Join(w.top, "b"), 0o640))
	_, err := r.Integrate(t.Context(), w.plan(c.BaseTree, c.Tree))
	must(t, err)
	want := map[string]string{".": "folder 700", "a": "file 600 aa\n", "b": "file 750 b\n", "c": "file 644 c\n", "d": "file 755 d\n"}
	if diff := cmp.Diff(want, snapshot(t, w.top, ".git")); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
}
