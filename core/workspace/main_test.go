package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core/testkit"
	"github.com/codex-mmo/codex-mmo/core/workspace"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashEnv) != "" {
		os.Exit(crash())
	}
	goleak.VerifyTestMain(m)
}

// world is one test's user: a repository, a state root and a place for
// worktrees.
type world struct {
	t     testing.TB
	root  string // all of it
	top   string // the user's repository
	state string
	trees int
}

// newWorld makes a user with an empty repository.
func newWorld(t testing.TB, initArgs ...string) *world {
	t.Helper()
	w := &world{t: t, root: testkit.PrivateDir(t)}
	w.top, w.state = filepath.Join(w.root, "user"), filepath.Join(w.root, "state")
	for _, dir := range []string{w.top, w.state, filepath.Join(w.root, "home"), filepath.Join(w.root, "trees")} {
		must(t, os.Mkdir(dir, 0o700))
	}
	if len(initArgs) > 0 {
		w.git(append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
		return w
	}
	for _, dir := range []string{"hooks", "info", "objects", "refs/heads"} { // what git init makes, in less time
		must(t, os.MkdirAll(filepath.Join(w.top, ".git", dir), 0o755))
	}
	w.write(filepath.Join(w.top, ".git"), map[string]string{
		"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
	})
	return w
}

// gitPath is the git program.
func gitPath(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("no git: %v; install git", err)
	}
	return path
}

// git runs git in the user's repository as the user would: its configuration
// counts, hostile or not.
func (w *world) git(args ...string) string {
	w.t.Helper()
	return w.gitIn(w.top, nil, args...)
}

func (w *world) gitIn(dir string, stdin []byte, args ...string) string {
	w.t.Helper()
	cmd := exec.Command(gitPath(w.t), args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(w.root, "home"), "LC_ALL=C",
		"GIT_AUTHOR_NAME=U", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=U", "GIT_COMMITTER_EMAIL=u@example.org",
	}
	if private, _ := filepath.Glob(filepath.Join(w.state, "git", "*", "objects")); len(private) == 1 {
		cmd.Env = append(cmd.Env, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+private[0]) // captured trees are there
	}
	cmd.Stdin = bytes.NewReader(stdin)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("git %q: %v: %s", args, err, said.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// commit commits these files alone, byte for byte, whatever the repository's
// attributes say, and puts them on the disk; "link:" before a content makes a
// link, "exec:" a program.
func (w *world) commit(files map[string]string) {
	w.t.Helper()
	w.write(w.top, files)
	var in bytes.Buffer
	in.WriteString("commit refs/heads/main\ncommitter U <u@example.org> 1 +0000\ndata 4\nbase\ndeleteall\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode, content := "100644", files[name]
		if rest, ok := strings.CutPrefix(content, "link:"); ok {
			mode, content = "120000", rest
		} else if rest, ok := strings.CutPrefix(content, "exec:"); ok {
			mode, content = "100755", rest
		}
		in.WriteString("M " + mode + " inline \"")
		for i := range len(name) {
			fmt.Fprintf(&in, "\\%03o", name[i])
		}
		fmt.Fprintf(&in, "\"\ndata %d\n%s\n", len(content), content)
	}
	w.gitIn(w.top, in.Bytes(), "fast-import", "--quiet", "--force")
	w.git("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "read-tree", "HEAD")
}

// commitTree commits a tree and makes the index agree.
func (w *world) commitTree(tree string) {
	w.t.Helper()
	commit := w.git("commit-tree", "-m", "base", tree)
	w.git("update-ref", "HEAD", commit)
	w.git("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "read-tree", tree)
}

// write puts files into a folder.
func (w *world) write(dir string, files map[string]string) {
	w.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path, content := filepath.Join(dir, name), files[name]
		must(w.t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(w.t, os.RemoveAll(path))
		if target, ok := strings.CutPrefix(content, "link:"); ok {
			must(w.t, os.Symlink(target, path))
		} else if program, ok := strings.CutPrefix(content, "exec:"); ok {
			must(w.t, os.WriteFile(path, []byte(program), 0o755))
		} else {
			must(w.t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
}

func (w *world) open() *workspace.Repo {
	w.t.Helper()
	r, err := w.openAt(w.top)
	if err != nil {
		w.t.Fatalf("Open(%q): %v", w.top, err)
	}
	return r
}

func (w *world) openAt(dir string) (*workspace.Repo, error) {
	return workspace.Open(w.t.Context(), dir, &workspace.Options{Git: gitPath(w.t), StateDir: w.state})
}

// add makes a worktree.
func (w *world) add(r *workspace.Repo) *workspace.Worktree {
	w.t.Helper()
	w.trees++
	tree, err := r.AddWorktree(w.t.Context(), filepath.Join(w.root, "trees", fmt.Sprint("w", w.trees)))
	if err != nil {
		w.t.Fatalf("AddWorktree: %v", err)
	}
	return tree
}

// capture takes down what is in a worktree.
func (w *world) capture(r *workspace.Repo, tree *workspace.Worktree, scope ...string) *workspace.Capture {
	w.t.Helper()
	if len(scope) == 0 {
		scope = []string{"."}
	}
	c, err := r.Capture(w.t.Context(), *tree, scope)
	if err != nil {
		w.t.Fatalf("Capture: %v", err)
	}
	return c
}

// plan is a plan that allows all that may be allowed.
func (w *world) plan(base, tree string) *workspace.Plan {
	w.trees++
	return &workspace.Plan{
		Journal: filepath.Join(w.state, fmt.Sprint("journal", w.trees)), BaseTree: base, Tree: tree,
		AllowFlagged: true, Scope: []string{"."},
	}
}

// snapshot reads a folder byte for byte: name -> kind, permissions and bytes.
func snapshot(t testing.TB, dir string, skip ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if slices.Contains(skip, rel) {
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			files[rel] = fmt.Sprintf("folder %o", info.Mode().Perm())
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			files[rel] = "link " + target
			return err
		case e.Type().IsRegular():
			data, err := os.ReadFile(path)
			files[rel] = fmt.Sprintf("file %o %s", info.Mode().Perm(), data)
			return err
		default:
			files[rel] = "special"
		}
		return nil
	})
	must(t, err)
	return files
}

// unchanged fails the test if a folder is not as it was, and returns a
// function to be called at the end.
func (w *world) unchanged(dir string, skip ...string) func() {
	w.t.Helper()
	before := snapshot(w.t, dir, skip...)
	return func() {
		w.t.Helper()
		if diff := cmp.Diff(before, snapshot(w.t, dir, skip...)); diff != "" {
			w.t.Errorf("%s changed (-before +after):\n%s", dir, diff)
		}
	}
}

// program writes a shell script outside the repository that leaves a canary
// when it runs, and returns its path and a check.
func (w *world) program() (path string, check func()) {
	w.t.Helper()
	path, canary := filepath.Join(w.root, "evil"), filepath.Join(w.root, "canary")
	must(w.t, os.WriteFile(path, []byte("#!/bin/sh\necho ran \"$0\" \"$@\" >>"+canary+"\ncat 2>/dev/null\n"), 0o755))
	return path, func() {
		w.t.Helper()
		if data, err := os.ReadFile(canary); !errors.Is(err, fs.ErrNotExist) {
			w.t.Errorf("code of the repository ran: %s", data)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// paths lists the paths of changes with their kinds.
func paths(changes []workspace.Change) map[string]workspace.ChangeKind {
	m := map[string]workspace.ChangeKind{}
	for _, c := range changes {
		m[c.Path] = c.Kind
	}
	return m
}

func mkfifo(path string) error { return unix.Mkfifo(path, 0o600) }

// background is a context for work outside any test.
func background() context.Context { return context.Background() }
