package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"

	"github.com/codex-mmo/codex-mmo/core"
)

// Capture is what a writer made of its base tree. What Integrate needs of both
// trees is in the private git folder and on disk; Keep keeps it.
type Capture struct {
	BaseTree   string    `json:"base_tree"`
	Tree       string    `json:"tree"` // equals BaseTree when nothing changed
	Changes    []Change  `json:"changes"`
	OutOfScope []string  `json:"out_of_scope"`
	Problems   []Problem `json:"problems"`
	Patch      []byte    `json:"-"`      // git's binary patch, for people and the record; never applied
	SHA256     string    `json:"sha256"` // of Patch, hex
}

// Whole tells whether the capture carries all that the worker made, so that
// nothing is lost with the worktree. What .gitignore ignores, modes that git
// does not know and empty folders don't count; Problems names them.
func (c *Capture) Whole() bool {
	for _, p := range c.Problems {
		if p.Kind.loses() {
			return false
		}
	}
	return true
}

// Capture compares the files of a worktree with its base tree: what the worker
// committed, what it left changed and what it added, all the same. Ignored
// files are not captured, but named. Bytes are taken as they are; the worker must have
// ended. The scope is relative to the workspace (see Plan).
//
// Spec: A066, R124 (paths out of scope are named, whatever their state in the
// user's tree).
func (r *Repo) Capture(ctx context.Context, w Worktree, writeScope []string) (*Capture, error) {
	s, err := r.newScope(writeScope)
	if err != nil {
		return nil, err
	}
	if err := r.check(w); err != nil {
		return nil, err
	}
	c := &Capture{BaseTree: w.BaseTree}
	if c.Tree, c.Problems, err = r.takeTree(ctx, w); err != nil {
		return nil, core.Errorf(core.KindOf(err), "capturing worktree %s: %w", w.Dir, err)
	}
	if c.Changes, err = r.changes(ctx, c.BaseTree, c.Tree); err != nil {
		return nil, err
	}
	if err := r.own(ctx, c.BaseTree, c.Tree); err != nil {
		return nil, core.Errorf(core.KindOS, "capturing worktree %s: %w", w.Dir, err)
	}
	pointers, err := r.pointers(ctx, c.Changes)
	if err != nil {
		return nil, core.Errorf(core.KindRuntime, "capturing worktree %s: %w", w.Dir, err)
	}
	c.Problems = append(c.Problems, pointers...)
	c.OutOfScope = s.outside(c.Changes)
	if c.Patch, err = r.patch(ctx, c.BaseTree, c.Tree); err != nil {
		return nil, core.Errorf(core.KindRuntime, "capturing worktree %s: %w", w.Dir, err)
	}
	sum := sha256.Sum256(c.Patch)
	c.SHA256 = hex.EncodeToString(sum[:])
	return c, nil
}

// patch writes the difference of two trees in git's own format.
func (r *Repo) patch(ctx context.Context, base, tree string) ([]byte, error) {
	if base == tree {
		return nil, nil
	}
	return r.git.output(ctx, maxPatch, call{
		args: []string{
			"diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--ignore-submodules=none",
			"--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", base, tree,
		},
		gitDir: r.private,
	})
}

// takeTree writes what a worktree holds as a tree object.
func (r *Repo) takeTree(ctx context.Context, w Worktree) (tree string, problems []Problem, err error) {
	base, err := r.list(ctx, w.BaseTree, false)
	if err != nil {
		return "", nil, err
	}
	seen, err := r.readSnapshot(w.Dir)
	if err != nil {
		return "", nil, err
	}
	t, err := openTree(w.Dir)
	if err != nil {
		return "", nil, err
	}
	defer t.close()
	took := &taker{objects: newObjects(r.private, len(w.BaseTree)), seen: seen, tree: t, root: newFolder()}
	walk := &walker{repo: r, dir: w.Dir, tree: t, visit: took.take}
	if err := walk.walk(ctx, base.root); err != nil {
		return "", nil, err
	}
	if tree, err = took.root.store(took.objects, base.trees); err != nil {
		return "", nil, err
	}
	return tree, walk.problems, took.objects.sync()
}

// taker makes blobs of the files that a walk finds.
type taker struct {
	objects *objects
	seen    *snapshot
	tree    *tree
	root    *item
	size    int64 // bytes that were new or changed
}

func (t *taker) take(f file) error {
	id, err := t.blob(f)
	if err != nil {
		return core.Errorf(core.KindOf(err), "file %s: %w", strconv.QuoteToASCII(f.path), err)
	}
	t.root.put(f.path, f.mode, id)
	return nil
}

func (t *taker) blob(f file) (string, error) {
	known := ""
	if f.base != nil {
		known = f.base.id
	}
	if f.mode == modeGitlink || t.seen.unchanged(f) && known != "" {
		return known, nil
	}
	dir, name, err := t.tree.parent(f.path)
	if err != nil {
		return "", err
	}
	defer func() { _ = dir.Close() }()
	if f.mode == modeLink {
		target, err := readLink(dir, name)
		if err != nil {
			return "", err
		}
		if hashBytes(t.objects.idLength, "blob", target) == known {
			return known, nil
		}
		return t.objects.blob(bytes.NewReader(target), int64(len(target)))
	}
	in, st, err := openRegular(dir, name)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	if t.seen.stamps[f.path] != stampOf(st) {
		t.size += st.Size
	}
	if t.size > maxChangeSize {
		return "", core.Errorf(core.KindValue, "the worktree holds more than %d MiB of new content, which is refused", maxChangeSize>>20)
	}
	if known != "" { // mostly a file of which time alone could not tell
		id, err := hashReader(len(known), in, st.Size, io.Discard)
		if err != nil || id == known {
			return id, err
		}
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
	}
	return t.objects.blob(in, st.Size)
}

// pointerHead starts a Git LFS pointer; maxPointerSize bounds one, in bytes.
// Source: the specification of Git LFS, docs/spec.md.
const (
	pointerHead    = "version https://git-lfs.github.com/spec/"
	maxPointerSize = 1024
)

// pointers names the changes that touch LFS pointers.
func (r *Repo) pointers(ctx context.Context, changes []Change) ([]Problem, error) {
	owners := map[string][]string{} // id of a small blob -> paths
	var ids []string
	note := func(path, id string, mode uint32, size int64) {
		if (mode == modeFile || mode == modeExec) && size < maxPointerSize {
			if owners[id] == nil {
				ids = append(ids, id)
			}
			owners[id] = append(owners[id], path)
		}
	}
	for _, c := range changes {
		note(c.Path, c.OldID, c.OldMode, c.OldSize)
		note(c.Path, c.NewID, c.NewMode, c.Size)
	}
	blobs, err := r.readBlobs(ctx, ids)
	if err != nil {
		return nil, err
	}
	var problems []Problem
	named := map[string]bool{} // path -> named
	for _, id := range ids {
		if !bytes.HasPrefix(blobs[id], []byte(pointerHead)) {
			continue
		}
		for _, path := range owners[id] {
			if !named[path] {
				named[path] = true
				problems = append(problems, Problem{Kind: LFSPointer, Path: path})
			}
		}
	}
	return problems, nil
}
