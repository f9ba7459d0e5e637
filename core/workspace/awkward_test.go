package workspace_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codex-mmo/codex-mmo/core/workspace"
)

// awkward are trees that a careless tool would change on the way: what is
// committed, what a worker adds, changes and removes, and what the capture must
// name.
var awkward = []struct {
	name     string
	base     map[string]string
	work     map[string]string
	gone     []string
	problems []workspace.Problem
}{
	{name: "CRLF", base: map[string]string{"a": "x\r\ny\n"}, work: map[string]string{"a": "x\r\nz\r\n", "b": "\r\n"}},
	{name: "CRLF with text=auto", base: map[string]string{".gitattributes": "* text=auto\n", "a": "x\r\n"}, work: map[string]string{"a": "y\r\nz\n"}},
	{name: "eol=crlf", base: map[string]string{".gitattributes": "* text eol=crlf\n", "a": "x\n"}, work: map[string]string{"a": "y\n"}},
	{name: "ident", base: map[string]string{".gitattributes": "* ident\n", "a": "$Id$\n"}, work: map[string]string{"a": "$Id: something $\n", "b": "$Id$\n"}},
	{name: "working-tree-encoding", base: map[string]string{".gitattributes": "* working-tree-encoding=UTF-16\n", "a": "x\n"}, work: map[string]string{"a": "\xff\xfex\x00\n\x00"}},
	{name: "UTF-16", base: map[string]string{"a": "\xff\xfea\x00"}, work: map[string]string{"a": "\xff\xfeb\x00"}},
	{name: "a filter", base: map[string]string{".gitattributes": "* filter=upper\n", "a": "x\n"}, work: map[string]string{"a": "y\n"}},
	{name: "export-subst", base: map[string]string{".gitattributes": "* export-subst\n", "a": "$Format:%H$\n"}, work: map[string]string{"a": "$Format:%H$ \n"}},
	{name: "an attribute macro", base: map[string]string{".gitattributes": "[attr]m text eol=crlf filter=f\n* m\n", "a": "x\n"}, work: map[string]string{"a": "y\n"}},
	{name: "names that are not UTF-8", base: map[string]string{"non-utf8-\xff": "x"}, work: map[string]string{"non-utf8-\xff": "y", "\xfe\xfe": "z"}},
	{name: "a newline in a name", base: map[string]string{"a\nb": "x"}, work: map[string]string{"a\nb": "y", "\n": "z"}},
	{name: "control characters in a name", base: map[string]string{"a\tb\x01": "x"}, work: map[string]string{"a\tb\x01": "y", "\x1b[31m": "z"}},
	{name: "quotes in a name", base: map[string]string{`a"b'c\d`: "x"}, work: map[string]string{`a"b'c\d`: "y"}},
	{name: "spaces in names", base: map[string]string{" a ": "x", "b ": "x"}, work: map[string]string{" a ": "y", " ": "z"}},
	{name: "a leading dash", base: map[string]string{"-rf": "x", "--": "x"}, work: map[string]string{"-rf": "y", "--exec=x": "z"}},
	{name: "globs", base: map[string]string{"*": "x", "[ab]": "x"}, work: map[string]string{"*": "y", "?": "z", "**": "z"}},
	{name: "pathspec magic", base: map[string]string{":(top)x": "x", ":/x": "x"}, work: map[string]string{":(top)x": "y", ":!x": "z", ":(exclude)a": "z", ":^b": "z"}},
	{name: "names of ignore rules", base: map[string]string{"#a": "x", "!b": "x"}, work: map[string]string{"#a": "y", "!b": "y", "!c": "z", "#d": "z"}},
	{name: "composed and decomposed twins", base: map[string]string{"\u00fc": "x", "u\u0308": "y"}, work: map[string]string{"\u00fc": "xx", "\u00e9": "1", "e\u0301": "2"}},
	{name: "twins in case", base: map[string]string{"a": "x", "A": "y"}, work: map[string]string{"A": "yy", "b": "1", "B": "2"}},
	{name: "modes", base: map[string]string{"a": "x", "b": "exec:x"}, work: map[string]string{"a": "exec:x", "b": "x", "c": "exec:z"}},
	{name: "links", base: map[string]string{"l": "link:a", "a": "x"}, work: map[string]string{"l": "link:b", "m": "link:a", "n": "link:nowhere"}},
	{name: "a link becomes a file, a file a link", base: map[string]string{"l": "link:a", "a": "x"}, work: map[string]string{"l": "file", "a": "link:l"}},
	{name: "links to folders", base: map[string]string{"d/a": "x", "l": "link:d"}, work: map[string]string{"m": "link:d", "d/n": "link:../d"}},
	{name: "binaries", base: map[string]string{"a": "\x00\x01\x02"}, work: map[string]string{"a": "\x00\xff", "b": strings.Repeat("\x00\x01", 100_000)}},
	{name: "empty files", base: map[string]string{"a": "", "b": "x"}, work: map[string]string{"b": "", "c": ""}},
	{name: "no newline at the end", base: map[string]string{"a": "x"}, work: map[string]string{"a": "x\ny"}},
	{name: "a rename", base: map[string]string{"a": "same content\n"}, work: map[string]string{"b": "same content\n"}, gone: []string{"a"}},
	{name: "a folder renamed", base: map[string]string{"a/x": "1\n", "a/y": "2\n"}, work: map[string]string{"b/x": "1\n", "b/y": "2\n"}, gone: []string{"a"}},
	{name: "a swap", base: map[string]string{"a": "1\n", "b": "2\n"}, work: map[string]string{"a": "2\n", "b": "1\n"}},
	{name: "a file becomes a folder", base: map[string]string{"a": "x"}, work: map[string]string{"a/b": "y"}, gone: []string{"a"}},
	{name: "a folder becomes a file", base: map[string]string{"a/b": "x", "a/c/d": "x"}, work: map[string]string{"a": "y"}, gone: []string{"a"}},
	{name: "deep folders", base: map[string]string{"x": "x"}, work: map[string]string{strings.Repeat("d/", 60) + "f": "y"}},
	{name: "long names", base: map[string]string{"x": "x"}, work: map[string]string{strings.Repeat("n", 255): "y"}},
	{name: "everything deleted", base: map[string]string{"a": "x", "b/c": "y"}, gone: []string{"a", "b"}},
	{name: "names that sort with slashes", base: map[string]string{"a/x": "1", "a.x": "2", "a0": "3", "a-": "4"}, work: map[string]string{"a/y": "1", "a.y": "2", "a0": "5"}},
	{name: "a gitignore of the worker", base: map[string]string{"a": "x"}, work: map[string]string{".gitignore": "a\n*.log\n", "a": "y"}},
	{name: "an LFS pointer", base: map[string]string{"a": "x"}, work: map[string]string{"big": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"}, problems: []workspace.Problem{{Kind: workspace.LFSPointer, Path: "big"}}},
	{name: "an LFS pointer replaced", base: map[string]string{"big": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"}, work: map[string]string{"big": "the real thing\n"}, problems: []workspace.Problem{{Kind: workspace.LFSPointer, Path: "big"}}},
}

// TestAwkwardTrees takes each tree the whole way: the worktree is the commit
// byte for byte, the capture is the worktree, the user's tree becomes it.
//
// Spec: A059.
func TestAwkwardTrees(t *testing.T) {
	t.Parallel()
	for _, tt := range awkward {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write(w.top, map[string]string{".git/config": "[core]\n\tautocrlf = true\n\tprecomposeUnicode = true\n[filter \"upper\"]\n\tclean = tr a-z A-Z\n"})
			w.commit(tt.base)
			keep := w.unchanged(filepath.Join(w.top, ".git"))
			r := w.open()
			wt := w.add(r)
			if diff := cmp.Diff(snapshot(t, w.top, ".git"), snapshot(t, wt.Dir, ".git")); diff != "" {
				t.Fatalf("the worktree is not the commit (-commit +worktree):\n%s", diff)
			}
			if c := w.capture(r, wt); len(c.Changes) != 0 || c.Tree != wt.BaseTree || len(c.Problems) != 0 || len(c.Patch) != 0 {
				t.Errorf("capture of an untouched worktree = %v, problems %v", c.Changes, c.Problems)
			}
			for _, name := range tt.gone {
				must(t, os.RemoveAll(filepath.Join(wt.Dir, name)))
			}
			w.write(wt.Dir, tt.work)
			c := w.capture(r, wt)
			if diff := cmp.Diff(tt.problems, c.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			for name := range tt.work {
				if _, ok := paths(c.Changes)[name]; !ok {
					t.Errorf("%q is not among the changes %v", name, paths(c.Changes))
				}
			}
			plan := w.plan(c.BaseTree, c.Tree)
			out, err := r.Integrate(t.Context(), plan)
			must(t, err)
			if len(out.Written) != len(c.Changes) {
				t.Errorf("written = %q, want %d paths", out.Written, len(c.Changes))
			}
			if diff := cmp.Diff(snapshot(t, wt.Dir, ".git"), snapshot(t, w.top, ".git")); diff != "" {
				t.Errorf("the user's tree is not the worktree (-worktree +user):\n%s", diff)
			}
			if left := snapshot(t, plan.Journal); left["applied"] == "" {
				t.Errorf("the journal holds no mark of its end: %v", left)
			}
			keep()
		})
	}
}

// TestNotCapturable: what git can't hold is named, and the rest is captured.
func TestNotCapturable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n", "was": "x", ".gitignore": "ignored/\n*.log\n"})
	head := w.git("rev-parse", "HEAD")
	w.gitIn(w.top, []byte("160000 "+head+"\tmodule\n"), "update-index", "--index-info")
	w.commitTree(w.git("write-tree"))
	r := w.open()
	wt := w.add(r)
	must(t, os.Remove(filepath.Join(wt.Dir, "was")))
	must(t, mkfifo(filepath.Join(wt.Dir, "was")))
	must(t, os.Mkdir(filepath.Join(wt.Dir, "empty"), 0o755))
	w.write(wt.Dir, map[string]string{"ignored/x": "x", "y.log": "y", "kept/z": "z", "su": "exec:x", "module/inside": "x"})
	must(t, os.Chmod(filepath.Join(wt.Dir, "su"), 0o755|os.ModeSetuid))
	c := w.capture(r, wt)
	want := map[string]workspace.ChangeKind{"kept/z": workspace.Added, "su": workspace.Added, "was": workspace.Deleted}
	if diff := cmp.Diff(want, paths(c.Changes)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	problems := []workspace.Problem{
		{Kind: workspace.EmptyFolder, Path: "empty"},
		{Kind: workspace.IgnoredFile, Path: "ignored/"},
		{Kind: workspace.IgnoredFile, Path: "y.log"},
		{Kind: workspace.SpecialFile, Path: "was"},
		{Kind: workspace.SpecialMode, Path: "su"},
		{Kind: workspace.Submodule, Path: "module"},
	}
	slices.SortFunc(c.Problems, func(a, b workspace.Problem) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	slices.SortFunc(problems, func(a, b workspace.Problem) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	if diff := cmp.Diff(problems, c.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestWhole: a capture is whole unless content would be gone with the worktree.
// What .gitignore ignores is named, a hundred at most, and not counted.
func TestWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n", ".gitignore": "*.log\n/out/\n", "tracked.log": "x", "hollow/.gitkeep": ""})
	w.gitIn(w.top, []byte("160000 "+w.git("rev-parse", "HEAD")+"\tmodule\n"), "update-index", "--index-info")
	w.commitTree(w.git("write-tree"))
	r := w.open()
	tests := []struct {
		name string
		work func(dir string)
		want bool
		kind workspace.ProblemKind // of the one problem; "" for none
	}{
		{"nothing", func(string) {}, true, ""},
		{"an edit", func(dir string) { w.write(dir, map[string]string{"a": "b\n", "tracked.log": "y"}) }, true, ""},
		{"an ignored file", func(dir string) { w.write(dir, map[string]string{"new.log": "x"}) }, true, workspace.IgnoredFile},
		{"an empty folder", func(dir string) { must(t, os.Mkdir(filepath.Join(dir, "e"), 0o755)) }, true, workspace.EmptyFolder},
		{"a mode", func(dir string) { must(t, os.Chmod(filepath.Join(dir, "a"), 0o644|os.ModeSetuid)) }, true, workspace.SpecialMode},
		{"a pointer", func(dir string) {
			w.write(dir, map[string]string{"lfs": "version https://git-lfs.github.com/spec/v1\n"})
		}, true, workspace.LFSPointer},
		{"work in a submodule", func(dir string) { w.write(dir, map[string]string{"module/x": "x"}) }, false, workspace.Submodule},
		{"commits of a nested repository", func(dir string) { nest(w, filepath.Join(dir, "n"), "/bin/false") }, false, workspace.NestedRepository},
		{"a pipe", func(dir string) { must(t, mkfifo(filepath.Join(dir, "p"))) }, false, workspace.SpecialFile},
	}
	for _, tt := range tests {
		wt := w.add(r)
		tt.work(wt.Dir)
		c := w.capture(r, wt)
		var kinds []workspace.ProblemKind
		for _, p := range c.Problems {
			kinds = append(kinds, p.Kind)
		}
		if ok := len(kinds) == 0 && tt.kind == "" || len(kinds) == 1 && kinds[0] == tt.kind; !ok || c.Whole() != tt.want {
			t.Errorf("%s: Whole = %t with the problems %q, want %t with %q", tt.name, c.Whole(), kinds, tt.want, tt.kind)
		}
	}
	if c := (workspace.Capture{Problems: []workspace.Problem{{Kind: workspace.OtherFilesystem}}}); c.Whole() {
		t.Error("a capture without what is on a mount is whole")
	}
	wt := w.add(r)
	for n := range 150 {
		w.write(wt.Dir, map[string]string{fmt.Sprintf("%03d.log", n): "x"})
	}
	if c := w.capture(r, wt); len(c.Problems) != 100 || c.Problems[99].Path != "099.log" {
		t.Errorf("of 150 ignored files %d are named, want the first 100", len(c.Problems))
	}
}

// TestIgnoredWorkspace: the workspace's own folder, which a checkout makes, is
// no work of the worker; what is put there is named when it is ignored.
func TestIgnoredWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n", ".gitignore": "/out/\n"})
	must(t, os.MkdirAll(filepath.Join(w.top, "out/deep"), 0o755))
	r, err := w.openAt(filepath.Join(w.top, "out/deep"))
	must(t, err)
	wt := w.add(r)
	if c := w.capture(r, wt); len(c.Problems) != 0 {
		t.Errorf("problems of a fresh worktree = %v, want none", c.Problems)
	}
	w.write(wt.Cwd(), map[string]string{"x": "x"})
	want := []workspace.Problem{{Kind: workspace.IgnoredFile, Path: "out/"}}
	if c := w.capture(r, wt); !slices.Equal(c.Problems, want) {
		t.Errorf("problems = %v, want %v", c.Problems, want)
	}
}

// TestIgnoreRulesAsAPipe: git would wait for its other end for ever.
func TestIgnoreRulesAsAPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "a\n"})
	r := w.open()
	wt := w.add(r)
	must(t, mkfifo(filepath.Join(wt.Dir, ".gitignore")))
	w.write(wt.Dir, map[string]string{"b": "b"})
	if _, err := r.Capture(t.Context(), *wt, []string{"."}); err == nil || !strings.Contains(err.Error(), `".gitignore"`) {
		t.Errorf("Capture = %v, want an error that names .gitignore", err)
	}
}

// TestCommitsOfTheWorker: committed, staged, changed and new files are all
// captured, and a commit that moves a file into the scope shows both sides.
//
// Spec: A066.
func TestCommitsOfTheWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"README.md": "read me\n", "src/a": "a\n", "src/b": "b\n"})
	r := w.open()
	wt := w.add(r)
	must(t, os.Rename(filepath.Join(wt.Dir, "README.md"), filepath.Join(wt.Dir, "src/README.md")))
	w.gitIn(wt.Dir, nil, "add", "-A")
	w.gitIn(wt.Dir, nil, "commit", "-q", "-m", "moved")
	w.write(wt.Dir, map[string]string{"src/a": "staged\n", "src/c": "new\n"})
	w.gitIn(wt.Dir, nil, "add", "src/a")
	w.write(wt.Dir, map[string]string{"src/b": "dirty\n"})
	c := w.capture(r, wt, "src")
	want := map[string]workspace.ChangeKind{
		"README.md": workspace.Deleted, "src/README.md": workspace.Added, "src/a": workspace.Modified,
		"src/b": workspace.Modified, "src/c": workspace.Added,
	}
	if diff := cmp.Diff(want, paths(c.Changes)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"README.md"}, c.OutOfScope); diff != "" {
		t.Errorf("out of scope (-want +got):\n%s", diff)
	}
	plan := w.plan(c.BaseTree, c.Tree)
	plan.Scope = []string{"src"}
	var pathErr *workspace.PathError
	if _, err := r.Integrate(t.Context(), plan); !errors.Is(err, workspace.ErrScope) || !errors.As(err, &pathErr) || !slices.Equal(pathErr.Paths, []string{"README.md"}) {
		t.Errorf("Integrate = %v, want ErrScope naming README.md", err)
	}
}

// TestTouchedBackFile: a change that hides behind an old modification time and
// the same size is found.
func TestTouchedBackFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "old\n", "b": "b\n"})
	r := w.open()
	wt := w.add(r)
	path := filepath.Join(wt.Dir, "a")
	info, err := os.Stat(path)
	must(t, err)
	must(t, os.WriteFile(path, []byte("new\n"), 0o644))
	must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	if got := paths(w.capture(r, wt).Changes); got["a"] != workspace.Modified || len(got) != 1 {
		t.Errorf("changes = %v, want a modified", got)
	}
}

// TestPatchIsForPeople: it is text where the files are, whatever the
// attributes of the repository say, and its digest is the record's.
func TestPatchIsForPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.commit(map[string]string{"a": "one\ntwo\n", ".gitattributes": "* -diff\n", "bin": "\x00"})
	r := w.open()
	wt := w.add(r)
	w.write(wt.Dir, map[string]string{"a": "one\n2\n", "bin": "\x00\x01"})
	c := w.capture(r, wt)
	for _, want := range []string{"diff --git a/a b/a\n", "\n-two\n+2\n", "GIT binary patch\n"} {
		if !strings.Contains(string(c.Patch), want) {
			t.Errorf("the patch does not hold %q:\n%s", want, c.Patch)
		}
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(c.Patch)); c.SHA256 != got {
		t.Errorf("SHA256 = %s, want %s", c.SHA256, got)
	}
	if again := w.capture(r, wt); again.SHA256 != c.SHA256 || again.Tree != c.Tree {
		t.Errorf("a second capture = %s, %s, want %s, %s", again.Tree, again.SHA256, c.Tree, c.SHA256)
	}
}
