package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// TestOpenRefuses: each refusal tells what is wrong and what to do.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // has no commit yet
	outside := filepath.Join(w.root, "plain")
	bare := filepath.Join(w.root, "bare")
	must(t, os.MkdirAll(outside, 0o700))
	w.gitIn(w.root, nil, "init", "-q", "--bare", bare)
	must(t, os.Symlink(w.top, filepath.Join(w.root, "link")))
	tests := []struct {
		name, dir, want string
		kind            core.Kind
	}{
		{"no commit", w.top, "has no commit yet; make a first commit", core.KindValue},
		{"outside", outside, "is not in a git repository; run `git init`", core.KindValue},
		{"bare", bare, "is in the bare repository", core.KindValue},
		{"in the git folder", filepath.Join(w.top, ".git/refs"), "lies in the git folder", core.KindValue},
		{"behind a link", filepath.Join(w.root, "link"), "is not a real absolute path", core.KindValue},
		{"relative", "user", "is not an absolute path", core.KindValue},
		{"not there", filepath.Join(w.root, "nowhere"), "can't be looked at", core.KindNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := w.openAt(tt.dir)
			if core.KindOf(err) != tt.kind || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("Open(%q) = %v (%s), want %s with %q", tt.dir, err, core.KindOf(err), tt.kind, tt.want)
			}
		})
	}
	if _, err := workspace.Open(t.Context(), w.top, nil); core.KindOf(err) != core.KindValue {
		t.Errorf("Open with no options = %v, want a ValueError", err)
	}
}

// TestOpenFinds: the repository is found wherever the workspace lies in it, by
// its exact name, and HEAD is read in each of its forms.
//
// Spec: A065.
func TestOpenFinds(t *testing.T) {
	t.Parallel()
	plain := func(*world) {}
	tests := []struct {
		name string
		init []string
		edit func(w *world)
		dir  string // the workspace below root
	}{
		{"a branch", nil, plain, "user"},
		{"a folder below", nil, func(w *world) { must(w.t, os.MkdirAll(filepath.Join(w.top, "sub/deep"), 0o755)) }, "user/sub/deep"},
		{"a folder laid out as bare", nil, func(w *world) {
			w.write(w.top, map[string]string{"sub/HEAD": "ref: x\n", "sub/objects/x": "", "sub/refs/x": ""})
		}, "user/sub"},
		{"packed refs", nil, func(w *world) { w.git("pack-refs", "--all") }, "user"},
		{"a detached HEAD", nil, func(w *world) { w.git("checkout", "-q", "--detach") }, "user"},
		{"a branch with slashes", nil, func(w *world) { w.git("checkout", "-q", "-b", "a/b/c"); w.git("pack-refs", "--all") }, "user"},
		{"SHA-256", []string{"--object-format=sha256"}, plain, "user"},
		{"a separate git folder", nil, func(w *world) { w.git("init", "-q", "--separate-git-dir", filepath.Join(w.root, "elsewhere")) }, "user"},
		{"a linked worktree", nil, func(w *world) { w.git("worktree", "add", "-q", filepath.Join(w.root, "linked")) }, "linked"},
		{"borrowed objects", nil, func(w *world) {
			w.gitIn(w.root, nil, "clone", "-q", "--shared", w.top, filepath.Join(w.root, "borrower"))
		}, "borrower"},
		{"a shallow clone", nil, func(w *world) {
			w.git("commit", "-q", "--allow-empty", "-m", "two")
			w.gitIn(w.root, nil, "clone", "-q", "--depth=1", "file://"+w.top, filepath.Join(w.root, "shallow"))
		}, "shallow"},
		{"a trailing space", nil, func(w *world) {
			w.gitIn(w.root, nil, "clone", "-q", w.top, filepath.Join(w.root, "repo "))
		}, "repo "},
		{"quotes, newline and not UTF-8", nil, func(w *world) {
			w.gitIn(w.root, nil, "clone", "-q", w.top, filepath.Join(w.root, "a\"\n\\\xff"))
		}, "a\"\n\\\xff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.init...)
			w.commit(map[string]string{"a": "a\n"})
			tt.edit(w)
			dir := filepath.Join(w.root, tt.dir)
			r, err := w.openAt(dir)
			must(t, err)
			top := filepath.Join(w.root, strings.Split(tt.dir, "/")[0])
			if r.Top() != top || filepath.Join(top, r.Prefix()) != dir {
				t.Errorf("Top, Prefix = %q, %q, want those of %q", r.Top(), r.Prefix(), dir)
			}
			wt, head := w.add(r), w.gitIn(top, nil, "rev-parse", "HEAD")
			if wt.BaseCommit != head {
				t.Errorf("the worktree begins at %s, want %s", wt.BaseCommit, head)
			}
			w.write(wt.Dir, map[string]string{"b": "b\n"})
			c := w.capture(r, wt, ".")
			plan := w.plan(c.BaseTree, c.Tree)
			if r.Prefix() != "" {
				if len(c.OutOfScope) != 1 || wt.Cwd() != filepath.Join(wt.Dir, r.Prefix()) {
					t.Errorf("out of scope = %q, Cwd = %q, want b, and the workspace's folder", c.OutOfScope, wt.Cwd())
				}
				return
			}
			_, err = r.Integrate(t.Context(), plan)
			must(t, err)
			if log := w.gitIn(wt.Dir, nil, "log", "--format=%H", "-1"); log != head {
				t.Errorf("git log in the worktree = %s, want %s", log, head)
			}
		})
	}
}

// TestWorktreeIsARepository: git's reading commands work in it as in any
// other, and what it does there does not show in the user's repository.
func TestWorktreeIsARepository(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n", "d/b": "b\n"})
	keep := w.unchanged(filepath.Join(w.top, ".git"))
	r := w.open()
	wt := w.add(r)
	if got := w.gitIn(wt.Dir, nil, "status", "--porcelain"); got != "" {
		t.Errorf("git status = %q, want nothing", got)
	}
	w.write(wt.Dir, map[string]string{"a": "changed\n", "new": "n\n"})
	if got, want := w.gitIn(wt.Dir, nil, "status", "--porcelain"), " M a\n?? new"; got != want {
		t.Errorf("git status = %q, want %q", got, want)
	}
	if got := w.gitIn(wt.Dir, nil, "diff", "--stat"); !strings.Contains(got, "a | 2 +-") {
		t.Errorf("git diff --stat = %q, want a", got)
	}
	if got, want := w.gitIn(wt.Dir, nil, "rev-parse", "HEAD"), w.git("rev-parse", "HEAD"); got != want || wt.BaseCommit != want {
		t.Errorf("HEAD = %s, base = %s, want %s", got, wt.BaseCommit, want)
	}
	info, err := os.Stat(wt.Dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the worktree's mode = %v, %v, want 0700", info.Mode(), err)
	}
	if again, err := w.open().Worktree(*wt); err != nil || *again != *wt {
		t.Errorf("Worktree(record) = %v, %v, want the record", again, err)
	}
	must(t, r.Keep(t.Context(), "job/one", wt.BaseTree))
	keep()
}

// TestWorktreePlace: a place that others could reach into is refused.
func TestWorktreePlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n"})
	r := w.open()
	must(t, os.Symlink(filepath.Join(w.root, "trees"), filepath.Join(w.root, "alias")))
	for dir, want := range map[string]string{
		filepath.Join(os.TempDir(), "mmo-worktree"):    "world-writable",
		filepath.Join(w.top, "inside"):                 "not apart",
		w.root:                                         "not apart",
		filepath.Join(w.root, "alias", "x"):            "behind a link",
		filepath.Join(w.root, "nowhere", "x"):          "can't be looked at",
		filepath.Join(w.root, "trees"):                 "already",
		"relative":                                     "absolute",
		filepath.Join(w.root, "trees") + "/../trees/x": "clean",
	} {
		if _, err := r.AddWorktree(t.Context(), dir); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("AddWorktree(%q) = %v, want an error with %q", dir, err, want)
		}
	}
}

// TestForecast: a checkout that would fill the disk is refused before it
// begins.
func TestForecast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": strings.Repeat("a", 1<<20)})
	r, err := workspace.Open(t.Context(), w.top, &workspace.Options{
		Git: gitPath(t), StateDir: w.state,
		Free: func(string) (uint64, error) { return 65 << 20, nil },
	})
	must(t, err)
	dir := filepath.Join(w.root, "trees/x")
	_, err = r.AddWorktree(t.Context(), dir)
	if core.KindOf(err) != core.KindOS || !strings.Contains(err.Error(), "1 files of 1048576 bytes need about 65 MiB, 65 MiB are free") {
		t.Errorf("AddWorktree = %v, want an OSError with both figures", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Errorf("%s was made", dir)
	}
}

// TestSixteenWorktrees adds 16 at once: none fails, and the user's repository
// is the same byte for byte.
func TestSixteenWorktrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n", "d/b": "exec:b\n"})
	keep := w.unchanged(w.top)
	want := snapshot(t, w.top, ".git")
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			r, err := w.openAt(w.top)
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			wt, err := r.AddWorktree(t.Context(), filepath.Join(w.root, "trees", fmt.Sprint(n)))
			if err != nil {
				t.Errorf("AddWorktree %d: %v", n, err)
				return
			}
			if diff := cmp.Diff(want, snapshot(t, wt.Dir, ".git")); diff != "" {
				t.Errorf("worktree %d differs:\n%s", n, diff)
			}
		})
	}
	wg.Wait()
	keep()
}

// TestLostWorktree: a worktree that is gone or is another is a state of its
// own, never replaced by anything.
func TestLostWorktree(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world, r *workspace.Repo, wt *workspace.Worktree){
		"removed": func(w *world, _ *workspace.Repo, wt *workspace.Worktree) { must(w.t, os.RemoveAll(wt.Dir)) },
		"a link": func(w *world, _ *workspace.Repo, wt *workspace.Worktree) {
			must(w.t, os.RemoveAll(wt.Dir))
			must(w.t, os.Symlink(w.top, wt.Dir))
		},
		"finished": func(w *world, r *workspace.Repo, wt *workspace.Worktree) { must(w.t, r.Remove(w.t.Context(), *wt)) },
		"unregistered": func(w *world, r *workspace.Repo, _ *workspace.Worktree) {
			must(w.t, os.RemoveAll(filepath.Join(r.GitDir(), "worktrees")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.commit(map[string]string{"a": "a\n"})
			r := w.open()
			wt := w.add(r)
			lose(w, r, wt)
			if _, err := r.Worktree(*wt); !errors.Is(err, workspace.ErrLost) {
				t.Errorf("Worktree = %v, want ErrLost", err)
			}
			if _, err := r.Capture(t.Context(), *wt, []string{"."}); !errors.Is(err, workspace.ErrLost) {
				t.Errorf("Capture = %v, want ErrLost", err)
			}
		})
	}
}

// TestScope reads as the rules of a write scope do.
func TestScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"ws/a": "a\n"})
	r, err := w.openAt(filepath.Join(w.top, "ws"))
	must(t, err)
	wt := w.add(r)
	w.write(wt.Dir, map[string]string{"top": "1", "ws/src/x": "2", "ws/src2/y": "3", "ws/Src/z": "4"})
	tests := []struct {
		scope []string
		want  []string // out of scope
	}{
		{nil, []string{"top", "ws/Src/z", "ws/src/x", "ws/src2/y"}},
		{[]string{"."}, []string{"top"}},
		{[]string{"src"}, []string{"top", "ws/Src/z", "ws/src2/y"}},
		{[]string{"src/"}, []string{"top", "ws/Src/z", "ws/src2/y"}},
		{[]string{"src/x", "src2"}, []string{"top", "ws/Src/z"}},
		{[]string{"./src/../src2"}, []string{"top", "ws/Src/z", "ws/src/x"}},
	}
	for _, tt := range tests {
		c, err := r.Capture(t.Context(), *wt, tt.scope)
		must(t, err)
		if diff := cmp.Diff(tt.want, c.OutOfScope); diff != "" {
			t.Errorf("scope %q: out of scope (-want +got):\n%s", tt.scope, diff)
		}
	}
	for _, bad := range []string{"", "..", "../ws", "/etc", "src/../..", "a\x00"} {
		if _, err := r.Capture(t.Context(), *wt, []string{bad}); core.KindOf(err) != core.KindValue {
			t.Errorf("scope %q = %v, want a ValueError", bad, err)
		}
		var refusal *core.Error
		err := workspace.CheckScope([]string{"src", bad})
		if !errors.As(err, &refusal) || refusal.Kind != core.KindValue || refusal.Remedy == "" || !strings.Contains(err.Error(), strconv.Quote(bad)) {
			t.Errorf("CheckScope(src, %q) = %v, want a ValueError with a remedy that names it", bad, err)
		}
	}
	if err := workspace.CheckScope([]string{".", "src", "src/", "..x", "./a/../b"}); err != nil {
		t.Errorf("CheckScope = %v, want nil", err)
	}
	folded, err := workspace.Open(t.Context(), filepath.Join(w.top, "ws"), &workspace.Options{Git: gitPath(t), StateDir: w.state, FoldCase: true})
	must(t, err)
	c, err := folded.Capture(t.Context(), *wt, []string{"SRC"})
	must(t, err)
	if diff := cmp.Diff([]string{"top", "ws/src2/y"}, c.OutOfScope); diff != "" {
		t.Errorf("scope SRC with folded case: out of scope (-want +got):\n%s", diff)
	}
}

// TestGivingUp: a caller whose context ended gets its cause, and nothing stays.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n"})
	r := w.open()
	cause := errors.New("the caller gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	dir := filepath.Join(w.root, "trees/x")
	if _, err := r.AddWorktree(ctx, dir); !errors.Is(err, cause) {
		t.Errorf("AddWorktree = %v, want the cause", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Errorf("%s stays", dir)
	}
}
