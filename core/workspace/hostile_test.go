package workspace_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// traps are repositories and workers that try to make us run their code. Each
// gets the path of a program that leaves a canary, and sets its trap in the
// user's repository (before the worktree is made) or in the worktree.
var traps = []struct {
	name string
	user func(w *world, evil string)
	work func(w *world, dir, evil string)
}{
	{name: "fsmonitor of the repository", user: func(w *world, evil string) { w.git("config", "core.fsmonitor", evil) }},
	{name: "hooks of the repository", user: func(w *world, evil string) {
		for _, hook := range []string{"post-checkout", "post-index-change", "pre-commit", "reference-transaction", "post-merge", "pre-auto-gc"} {
			must(w.t, os.Symlink(evil, filepath.Join(w.top, ".git/hooks", hook)))
		}
	}},
	{name: "hooks in the tree", user: func(w *world, evil string) {
		w.commit(map[string]string{"a": "a", ".husky/post-checkout": "exec:#!/bin/sh\n" + evil, ".husky/post-index-change": "exec:#!/bin/sh\n" + evil})
		w.git("config", "core.hooksPath", ".husky")
	}, work: func(w *world, dir, evil string) {
		w.write(dir, map[string]string{".husky/post-index-change": "exec:#!/bin/sh\n" + evil + " again\n"})
	}},
	{name: "included configuration", user: func(w *world, evil string) {
		w.commit(map[string]string{"a": "a", "conf": "[core]\n\tfsmonitor = " + evil + "\n[filter \"f\"]\n\tclean = " + evil + "\n"})
		w.git("config", "include.path", "../conf")
	}},
	{name: "clean and smudge filters", user: func(w *world, evil string) {
		w.commit(map[string]string{"a": "a", ".gitattributes": "* filter=f\n"})
		w.git("config", "filter.f.clean", evil)
		w.git("config", "filter.f.smudge", evil)
		w.git("config", "filter.f.required", "true")
	}},
	{name: "a filter process", user: func(w *world, evil string) {
		w.commit(map[string]string{"a": "a", ".gitattributes": "* filter=f\n"})
		w.git("config", "filter.f.process", evil)
	}},
	{name: "a filter of the user's own configuration", user: func(w *world, evil string) {
		w.commit(map[string]string{"a": "a", ".gitattributes": "* filter=f diff=d merge=m\n"})
		w.git("config", "--global", "filter.f.clean", evil)
		w.git("config", "--global", "core.fsmonitor", evil)
		w.git("config", "--global", "diff.external", evil)
		w.git("config", "--global", "core.pager", evil)
	}},
	{name: "textconv and external diff", user: func(w *world, evil string) {
		w.commit(map[string]string{"a": "a", ".gitattributes": "* diff=d\n"})
		w.git("config", "diff.d.textconv", evil)
		w.git("config", "diff.d.command", evil)
		w.git("config", "diff.external", evil)
	}},
	{name: "a merge driver", user: func(w *world, evil string) {
		w.commit(map[string]string{"a": "a", ".gitattributes": "* merge=m\n"})
		w.git("config", "merge.m.driver", evil)
	}},
	{name: "attributes in the git folder", user: func(w *world, evil string) {
		must(w.t, os.WriteFile(filepath.Join(w.top, ".git/info/attributes"), []byte("* filter=f\n"), 0o644))
		w.git("config", "filter.f.smudge", evil)
		w.git("config", "filter.f.clean", evil)
	}},
	{name: "pager, editor, askpass, credential helper", user: func(w *world, evil string) {
		for _, key := range []string{"core.pager", "core.editor", "core.askPass", "core.sshCommand", "credential.helper", "sequence.editor"} {
			w.git("config", key, evil)
		}
	}},
	{name: "an alias of each command", user: func(w *world, evil string) {
		for _, name := range []string{"ls-tree", "read-tree", "diff-tree", "cat-file", "check-ignore", "rev-parse", "update-ref"} {
			w.git("config", "alias."+name, "!"+evil)
		}
	}},
	{name: "a promisor remote", user: func(w *world, evil string) {
		w.git("config", "remote.o.url", "ext::"+evil)
		w.git("config", "remote.o.promisor", "true")
		w.git("config", "remote.o.uploadpack", evil)
		w.git("config", "protocol.ext.allow", "always")
	}},
	{name: "a submodule with an update command", user: func(w *world, evil string) {
		w.git("config", "submodule.recurse", "true")
		w.git("config", "submodule.s.update", "!"+evil)
		w.git("config", "submodule.s.url", "ext::"+evil)
	}},
	{name: "a nested repository with fsmonitor", work: func(w *world, dir, evil string) {
		nest(w, filepath.Join(dir, "nested"), evil)
	}},
	{name: "a nested repository in a tracked folder", work: func(w *world, dir, evil string) {
		nest(w, filepath.Join(dir, "sub"), evil)
	}},
	{name: "a nested repository by a file .git", work: func(w *world, dir, evil string) {
		nest(w, filepath.Join(dir, "real"), evil)
		w.write(dir, map[string]string{"other/.git": "gitdir: ../real/.git\n", "other/x": "x"})
	}},
	{name: "a bare layout below", work: func(w *world, dir, evil string) {
		w.write(dir, map[string]string{
			"sub/HEAD": "ref: refs/heads/main\n", "sub/objects/x": "", "sub/refs/x": "",
			"sub/config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = " + evil + "\n",
		})
	}},
	{name: "a bare layout at the top", work: func(w *world, dir, evil string) {
		w.write(dir, map[string]string{
			"HEAD": "ref: refs/heads/main\n", "objects/x": "", "refs/x": "", "hooks/post-index-change": "exec:#!/bin/sh\n" + evil,
			"config": "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = " + evil + "\n",
		})
	}},
	{name: "another .git at the top", work: func(w *world, dir, evil string) {
		nest(w, filepath.Join(dir, "fake"), evil)
		must(w.t, os.Remove(filepath.Join(dir, ".git")))
		must(w.t, os.Rename(filepath.Join(dir, "fake/.git"), filepath.Join(dir, ".git")))
	}},
	{name: "attributes made by the worker", user: func(w *world, evil string) {
		w.git("config", "filter.f.clean", evil)
		w.git("config", "diff.d.textconv", evil)
	}, work: func(w *world, dir, _ string) {
		w.write(dir, map[string]string{".gitattributes": "* filter=f diff=d text eol=crlf\n", "sub/.gitattributes": "* filter=f\n"})
	}},
	{name: "programs beside the tools", work: func(w *world, dir, evil string) {
		for _, name := range []string{"git", "sh", "git-diff-tree", "git-remote-ext"} {
			w.write(dir, map[string]string{name: "exec:#!/bin/sh\n" + evil + " " + name + "\n"})
		}
	}},
}

// nest makes a repository with a commit whose git runs a program.
func nest(w *world, dir, evil string) {
	must(w.t, os.MkdirAll(dir, 0o755))
	w.gitIn(dir, nil, "init", "-q")
	must(w.t, os.WriteFile(filepath.Join(dir, "inside"), []byte("inside\n"), 0o644))
	w.gitIn(dir, nil, "add", "inside")
	w.gitIn(dir, nil, "commit", "-q", "-m", "nested")
	w.gitIn(dir, nil, "config", "core.fsmonitor", evil)
	w.gitIn(dir, nil, "config", "core.hooksPath", filepath.Dir(evil))
}

// TestNothingOfTheirsRuns goes the whole way through each trap: open, add a
// worktree, capture, keep, integrate, undo, remove.
//
// Spec: R057.
func TestNothingOfTheirsRuns(t *testing.T) {
	t.Parallel()
	for _, trap := range traps {
		t.Run(trap.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			evil, check := w.program()
			w.commit(map[string]string{"a": "a\n", "sub/b": "b\r\n"})
			if trap.user != nil {
				trap.user(w, evil)
			}
			keep := w.unchanged(filepath.Join(w.top, ".git"))
			r := w.open()
			wt := w.add(r)
			w.write(wt.Dir, map[string]string{"a": "changed\n", "new/file": "new\n"})
			if trap.work != nil {
				trap.work(w, wt.Dir, evil)
			}
			c := w.capture(r, wt)
			if got := paths(c.Changes); got["a"] != workspace.Modified || got["new/file"] != workspace.Added {
				t.Errorf("changes = %v, want a modified and new/file added", got)
			}
			must(t, r.Keep(t.Context(), "job/one", c.Tree))
			plan := w.plan(c.BaseTree, c.Tree)
			_, err := r.Integrate(t.Context(), plan)
			must(t, err)
			_, err = r.Undo(t.Context(), plan.Journal)
			must(t, err)
			must(t, r.Remove(t.Context(), *wt))
			check()
			keep()
		})
	}
}

// TestTrapsWork proves that the traps are not harmless: the user's own git
// runs the program in some of them.
func TestTrapsWork(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"fsmonitor of the repository", "hooks in the tree", "clean and smudge filters", "included configuration"} {
		for _, trap := range traps {
			if trap.name != name {
				continue
			}
			w := newWorld(t)
			evil, _ := w.program()
			w.commit(map[string]string{"a": "a\n"})
			trap.user(w, evil)
			must(t, os.WriteFile(filepath.Join(w.top, "a"), []byte("changed"), 0o644))
			_ = w.git("-c", "filter.f.required=false", "add", "-A")
			if _, err := os.Stat(filepath.Join(w.root, "canary")); err != nil {
				t.Errorf("%s: plain git did not fall into the trap: %v", name, err)
			}
		}
	}
}

// TestNestedRepositoryIsNamed: its files are in the patch, its .git is named.
func TestNestedRepositoryIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n"})
	r := w.open()
	wt := w.add(r)
	nest(w, filepath.Join(wt.Dir, "deep/nested"), "/bin/false")
	c := w.capture(r, wt)
	if got := paths(c.Changes); len(got) != 1 || got["deep/nested/inside"] != workspace.Added {
		t.Errorf("changes = %v, want deep/nested/inside added alone", got)
	}
	if want := (workspace.Problem{Kind: workspace.NestedRepository, Path: "deep/nested"}); len(c.Problems) != 1 || c.Problems[0] != want {
		t.Errorf("problems = %v, want %v", c.Problems, want)
	}
}

// entryOf is one entry of a tree object that is written literally.
type entryOf struct{ mode, name, id string }

// literal writes a tree that no porcelain would write.
func (w *world) literal(entries ...entryOf) string {
	w.t.Helper()
	var b strings.Builder
	for _, e := range entries {
		var raw []byte
		_, err := fmt.Sscanf(e.id, "%x", &raw)
		must(w.t, err)
		b.WriteString(e.mode + " " + e.name + "\x00" + string(raw))
	}
	return w.gitIn(w.top, []byte(b.String()), "hash-object", "-w", "-t", "tree", "--stdin", "--literally")
}

func (w *world) blob(content string) string {
	w.t.Helper()
	return w.gitIn(w.top, []byte(content), "hash-object", "-w", "--stdin", "--no-filters")
}

// TestHostilePatches: none changes anything, in the tree or beside it, and
// each is refused for its own reason.
func TestHostilePatches(t *testing.T) {
	t.Parallel()
	file := func(path string) func(*world, string, string) string { // a path of many components
		return func(w *world, base, blob string) string {
			names := strings.Split(path, "/")
			id, mode := blob, "100644"
			for i := len(names) - 1; i >= 0; i-- {
				id = w.literal(entryOf{mode, names[i], id})
				mode = "40000"
			}
			return id
		}
	}
	one := func(mode, name, content string) func(*world, string, string) string {
		return func(w *world, _, _ string) string { return w.literal(entryOf{mode, name, w.blob(content)}) }
	}
	tests := []struct {
		name string
		tree func(w *world, base, blob string) string
		disk func(w *world, outside string) // what is on the user's disk
		want error
	}{
		{name: ".git/config", tree: file(".git/config"), want: workspace.ErrRefused},
		{name: ".git/hooks", tree: file(".git/hooks/pre-commit"), want: workspace.ErrRefused},
		{name: ".GIT", tree: file(".GIT/config"), want: workspace.ErrRefused},
		{name: "sub/.git", tree: file("sub/.git/config"), want: workspace.ErrRefused},
		{name: "git~1", tree: file("git~1/config"), want: workspace.ErrRefused},
		{name: ".git with a zero-width character", tree: file(".g\u200cit/config"), want: workspace.ErrRefused},
		{name: ".git with a dot", tree: file(".git./config"), want: workspace.ErrRefused},
		{name: ".git as a file", tree: file(".git"), want: workspace.ErrRefused},
		{name: "up", tree: file("../outside/esc"), want: workspace.ErrRefused},
		{name: "up in one name", tree: one("100644", "../outside/esc", "x"), want: workspace.ErrRefused},
		{name: "up from below", tree: file("sub/../../outside/esc"), want: workspace.ErrRefused},
		{name: "absolute", tree: one("100644", "/etc/esc", "x"), want: workspace.ErrRefused},
		{name: "an empty name", tree: file("sub//esc")},
		{name: "here", tree: file("./esc"), want: workspace.ErrRefused},
		{name: "up on Windows", tree: one("100644", `..\esc`, "x"), want: workspace.ErrRefused},
		{name: "a gitlink", tree: func(w *world, _, _ string) string {
			return w.literal(entryOf{"160000", "module", w.git("rev-parse", "HEAD")})
		}, want: workspace.ErrRefused},
		{name: "an absolute link", tree: one("120000", "l", "/etc/passwd"), want: workspace.ErrRefused},
		{name: "a link out", tree: one("120000", "l", "../outside"), want: workspace.ErrRefused},
		{name: "a link out by a name", tree: one("120000", "l", "sub/../../outside"), want: workspace.ErrRefused},
		{name: "a link into .git", tree: one("120000", "l", ".git/config"), want: workspace.ErrRefused},
		{name: ".gitattributes as a link", tree: one("120000", ".gitattributes", "a"), want: workspace.ErrRefused},
		{name: "a huge link", tree: one("120000", "l", strings.Repeat("x/", 4000)), want: workspace.ErrRefused},
		{name: "a blob as a folder", tree: func(w *world, _, blob string) string { return w.literal(entryOf{"40000", "d", blob}) }},
		{name: "a tree as a file", tree: func(w *world, base, _ string) string { return w.literal(entryOf{"100644", "d", base}) }},
		{name: "an object that is not there", tree: func(w *world, _, _ string) string {
			return w.literal(entryOf{"100644", "d", strings.Repeat("12", 20)})
		}},
		{name: "a path twice", tree: func(w *world, _, blob string) string {
			return w.literal(entryOf{"100644", "d", blob}, entryOf{"100644", "d", w.blob("other")})
		}, want: workspace.ErrRefused},
		{name: "a file and a folder of one name", tree: func(w *world, base, blob string) string {
			return w.literal(entryOf{"100644", "d", blob}, entryOf{"40000", "d", base})
		}, want: workspace.ErrRefused},
		{name: "beyond a link of the same patch", tree: func(w *world, base, _ string) string {
			return w.literal(entryOf{"120000", "d", w.blob("sub")}, entryOf{"40000", "d", base})
		}, want: workspace.ErrRefused},
		{name: "beyond the user's untracked link", tree: file("lnk2/esc"), disk: func(w *world, outside string) {
			must(w.t, os.Symlink(outside, filepath.Join(w.top, "lnk2")))
		}, want: workspace.ErrDirty},
		{name: "beyond the user's link that stays inside", tree: file("lnk2/esc"), disk: func(w *world, _ string) {
			must(w.t, os.Symlink("sub", filepath.Join(w.top, "lnk2")))
		}, want: workspace.ErrDirty},
		{name: "onto the user's link", tree: file("esc"), disk: func(w *world, outside string) {
			must(w.t, os.Symlink(filepath.Join(outside, "new"), filepath.Join(w.top, "esc")))
		}, want: workspace.ErrDirty},
		{name: "into the user's nested repository", tree: file("nested/x"), disk: func(w *world, _ string) {
			nest(w, filepath.Join(w.top, "nested"), "/bin/false")
		}, want: workspace.ErrDirty},
		{name: "a tracked folder swapped for a link", tree: file("sub/esc"), disk: func(w *world, outside string) {
			must(w.t, os.RemoveAll(filepath.Join(w.top, "sub")))
			must(w.t, os.Symlink(outside, filepath.Join(w.top, "sub")))
		}, want: workspace.ErrDirty},
		{name: "onto a pipe", tree: file("pipe"), disk: func(w *world, _ string) {
			must(w.t, mkfifo(filepath.Join(w.top, "pipe")))
		}, want: workspace.ErrDirty},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.commit(map[string]string{"a": "a\n", "sub/b": "b\n"})
			outside := filepath.Join(w.root, "outside")
			must(t, os.Mkdir(outside, 0o700))
			r := w.open()
			base := w.git("rev-parse", "HEAD^{tree}")
			tree := tt.tree(w, base, w.blob("esc\n"))
			if tt.disk != nil {
				tt.disk(w, outside)
			}
			keep, keepOutside := w.unchanged(w.top), w.unchanged(outside)
			_, err := r.Integrate(t.Context(), w.plan(base, tree))
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Integrate = %v, want %v", err, tt.want)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("the error %q holds control characters", err)
			}
			keep()
			keepOutside()
		})
	}
}

// TestSetuidIsNeverWritten: git reads such a mode as a plain program's, or
// tells it, and then it is refused.
func TestSetuidIsNeverWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n"})
	tree := w.literal(entryOf{"100644", "a", w.blob("a\n")}, entryOf{"104755", "su", w.blob("x")})
	_, err := w.open().Integrate(t.Context(), w.plan(w.git("rev-parse", "HEAD^{tree}"), tree))
	if info, statErr := os.Lstat(filepath.Join(w.top, "su")); statErr == nil && info.Mode()&os.ModeSetuid != 0 {
		t.Errorf("Integrate = %v and made a file of mode %v", err, info.Mode())
	} else if statErr != nil && !errors.Is(err, workspace.ErrRefused) {
		t.Errorf("Integrate = %v, want ErrRefused or a file without setuid", err)
	}
}
