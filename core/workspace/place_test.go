package workspace_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// save writes a file as an editor does: beside its name, then over it.
func (w *world) save(path, content string) {
	w.t.Helper()
	temp := filepath.Join(w.root, "editor")
	must(w.t, os.WriteFile(temp, []byte(content), 0o644))
	must(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(w.t, os.Rename(temp, path))
}

// TestNoSaveIsLost: an editor saves a path before any of the steps of an
// integration, also between the last look at the path and the rename. What was
// saved last is there in the end, the rest is all old or all new, and nothing
// of ours lies about, with and without file systems that can swap names.
func TestNoSaveIsLost(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*workspace.Repo){"swapping": func(*workspace.Repo) {}, "old": (*workspace.Repo).OldFilesystem} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r, first := edited(t)
			prepare(r)
			steps := integrationSteps(t, w, r, first)
			for _, want := range []string{"swap edit", "swap dir/added", "move aside gone", "look aside gone", "look aside edit", "drop aside edit"} {
				if !slices.Contains(steps, want) {
					t.Fatalf("there is no step %q: %q", want, steps)
				}
			}
			after := map[string]string{"edit": "file 644 new\n", "dir/added": "file 644 added\n", "other": "file 644 other\n"}
			before := map[string]string{"edit": "file 644 old\n", "gone": "file 644 gone\n", "other": "file 644 other\n"}
			for n := range steps {
				for _, path := range []string{"edit", "gone", "dir/added"} {
					w.reset()
					plan := w.plan(first.BaseTree, first.Tree)
					plan.Trace = onStep(n, func() { w.save(filepath.Join(w.top, path), "mine\n") })
					_, err := r.Integrate(t.Context(), plan)
					want := maps.Clone(before)
					if err == nil {
						want = maps.Clone(after)
					}
					want[path] = "file 644 mine\n"
					if diff := cmp.Diff(want, files(t, w.top)); diff != "" {
						t.Errorf("%s saved before %q, Integrate = %v (-want +got):\n%s", path, steps[n], err, diff)
					}
				}
			}
		})
	}
}

// TestSaveAtTheLastLook: what was swapped out turns out to be somebody's save.
// It is brought back and the patch rolled back, without a taint: the path was
// never anybody else's.
func TestSaveAtTheLastLook(t *testing.T) {
	t.Parallel()
	for _, at := range []struct{ step, path string }{
		{"swap edit", "edit"}, {"move aside gone", "gone"}, {"swap dir/added", "dir/added"},
	} {
		w, r, plan := edited(t)
		plan.Trace = func(step string) {
			if step == at.step {
				w.save(filepath.Join(w.top, at.path), "mine\n")
			}
		}
		_, err := r.Integrate(t.Context(), plan)
		if err == nil || errors.Is(err, workspace.ErrTaint) || !strings.Contains(err.Error(), "changed meanwhile") {
			t.Errorf("%s saved before %q: Integrate = %v, want it rolled back as it was changed meanwhile", at.path, at.step, err)
		}
		out, err := r.Resume(t.Context(), plan.Journal)
		if err != nil || out.State != workspace.RolledBack {
			t.Errorf("%s saved before %q: Resume = %v, %v, want rolled back", at.path, at.step, out.State, err)
		}
	}
}

// TestSaveInTheRollBack: the patch is whole, but that can't be recorded; then an
// editor saves a path right when it is taken back. The save stays, the rest is
// old.
func TestSaveInTheRollBack(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		for _, at := range []struct{ step, path string }{
			{"swap edit", "edit"}, {"move aside dir/added", "dir/added"}, {"swap gone", "gone"},
		} {
			w, r, plan := edited(t)
			if old {
				r.OldFilesystem()
			}
			back := false
			plan.Trace = func(step string) {
				switch {
				case step == "mark applied":
					back = true
					must(t, os.MkdirAll(filepath.Join(plan.Journal, "applied/in the way"), 0o700))
				case back && step == at.step:
					w.save(filepath.Join(w.top, at.path), "mine\n")
				}
			}
			_, err := r.Integrate(t.Context(), plan)
			var named *workspace.PathError
			if errors.As(err, &named); !errors.Is(err, workspace.ErrTaint) || !slices.Equal(named.Paths, []string{at.path}) {
				t.Errorf("%s saved before %q of the roll back: Integrate = %v, want ErrTaint naming it", at.path, at.step, err)
			}
			want := map[string]string{"edit": "file 644 old\n", "gone": "file 644 gone\n", "other": "file 644 other\n"}
			want[at.path] = "file 644 mine\n"
			if diff := cmp.Diff(want, files(t, w.top)); diff != "" {
				t.Errorf("old file system: %t; %s saved before %q of the roll back (-want +got):\n%s", old, at.path, at.step, diff)
			}
		}
	}
}

// files is a snapshot of the user's tree without its folders.
func files(t *testing.T, top string) map[string]string {
	t.Helper()
	all := snapshot(t, top, ".git")
	maps.DeleteFunc(all, func(_, what string) bool { return strings.HasPrefix(what, "folder") })
	return all
}

// TestTwoSavesAtTheLastLook: a second save comes while the first is brought
// back. The last one has the name, the other is kept beside it and named.
func TestTwoSavesAtTheLastLook(t *testing.T) {
	t.Parallel()
	w, r, plan := edited(t)
	plan.Trace = func(step string) {
		switch step {
		case "swap edit":
			w.save(filepath.Join(w.top, "edit"), "first\n")
		case "look aside edit":
			w.save(filepath.Join(w.top, "edit"), "second\n")
		}
	}
	_, err := r.Integrate(t.Context(), plan)
	kept, _ := filepath.Glob(filepath.Join(w.top, ".mmo-*.aside"))
	var named *workspace.PathError
	if errors.As(err, &named); !errors.Is(err, workspace.ErrTaint) || !slices.Equal(named.Paths, []string{"edit"}) || len(kept) != 1 || !strings.Contains(err.Error(), filepath.Base(kept[0])) {
		t.Fatalf("Integrate = %v, want ErrTaint naming one of %q", err, kept)
	}
	if got := snapshotOf(t, kept[0]) + snapshotOf(t, filepath.Join(w.top, "edit")); got != "first\nsecond\n" {
		t.Errorf("kept and named: %q, want both saves", got)
	}
	if _, err := r.Resume(t.Context(), plan.Journal); !errors.Is(err, workspace.ErrTaint) {
		t.Errorf("Resume = %v, want ErrTaint still", err)
	}
	must(t, os.Remove(kept[0])) // the user clears it up
	w.write(w.top, map[string]string{"edit": "old\n"})
	if out, err := r.Resume(t.Context(), plan.Journal); err != nil || out.State != workspace.RolledBack {
		t.Errorf("Resume after that = %v, %v, want rolled back", out.State, err)
	}
}

// TestCrashWithASaveAside kills the process at each step from where it has
// swapped a save out. Resume brings the save back to its name.
func TestCrashWithASaveAside(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		w, r, first := edited(t)
		if old {
			r.OldFilesystem()
		}
		steps := integrationSteps(t, w, r, first)
		for _, at := range []struct{ step, path string }{{"swap edit", "edit"}, {"move aside gone", "gone"}} {
			path := filepath.Join(w.top, at.path)
			for n := slices.Index(steps, at.step) + 1; ; n++ {
				w.reset()
				plan := w.plan(first.BaseTree, first.Tree)
				step, died := crashing(t, order{
					Git: gitPath(t), State: w.state, Top: w.top, Plan: *plan, Step: n, Spoil: path, Spoiled: at.step, Old: old,
				})
				if !died {
					break
				}
				_, err := r.Resume(t.Context(), plan.Journal)
				if err != nil && !errors.Is(err, workspace.ErrTaint) {
					t.Errorf("crash before %q: Resume = %v", step, err)
				}
				want := map[string]string{".": "folder 700", "edit": "file 644 old\n", "gone": "file 644 gone\n", "other": "file 644 other\n"}
				want[at.path] = "file 644 somebody's own\n"
				if diff := cmp.Diff(want, snapshot(t, w.top, ".git")); diff != "" {
					t.Errorf("old file system: %t; %s saved before %q, crash before %q (-want +got):\n%s", old, at.path, at.step, step, diff)
				}
			}
		}
	}
}

// reset makes the tree of the world edited as it was.
func (w *world) reset() {
	w.t.Helper()
	must(w.t, os.RemoveAll(filepath.Join(w.top, "dir")))
	w.write(w.top, map[string]string{"edit": "old\n", "gone": "gone\n"})
}

// onStep calls a function before step n.
func onStep(n int, do func()) func(string) {
	count := 0
	return func(string) {
		if count == n {
			do()
		}
		count++
	}
}

// integrationSteps lists the steps of an integration, by doing it, and takes it
// back.
func integrationSteps(t *testing.T, w *world, r *workspace.Repo, like *workspace.Plan) (steps []string) {
	t.Helper()
	plan := w.plan(like.BaseTree, like.Tree)
	plan.Trace = func(step string) { steps = append(steps, step) }
	_, err := r.Integrate(t.Context(), plan)
	must(t, err)
	_, err = r.Undo(t.Context(), plan.Journal)
	must(t, err)
	return steps
}
