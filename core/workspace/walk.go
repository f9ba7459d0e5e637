package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

// maxEntries bounds how many names of one tree are looked at.
const maxEntries = 2_000_000

// ProblemKind says what can't be captured, or not as what it seems to be.
type ProblemKind string

// The kinds of problems.
const (
	NestedRepository ProblemKind = "nested repository" // its files are captured, its .git is not
	Submodule        ProblemKind = "submodule"         // what is in it is not captured
	LFSPointer       ProblemKind = "LFS pointer"       // the pointer is captured, not what it points to
	SpecialFile      ProblemKind = "special file"      // a device, pipe or socket; not captured
	SpecialMode      ProblemKind = "special mode"      // setuid, setgid or sticky; captured without
	EmptyFolder      ProblemKind = "empty folder"      // git has no folders; not captured
	OtherFilesystem  ProblemKind = "other file system" // a mount; not captured
	IgnoredFile      ProblemKind = "ignored file"      // .gitignore ignores it; not captured. A folder's path ends in a slash
)

// maxIgnored bounds how many ignored files and folders a capture names.
const maxIgnored = 100

// loses tells whether content that a worker made is in the worktree alone.
func (k ProblemKind) loses() bool {
	switch k {
	case NestedRepository, Submodule, SpecialFile, OtherFilesystem:
		return true
	}
	return false
}

// Problem names something that a capture does not carry whole.
type Problem struct {
	Kind ProblemKind `json:"kind"`
	Path string      `json:"path"` // relative to the top level, raw bytes
}

// walker goes through a working tree. It does not follow links, enter .git
// folders, or trust any configuration.
type walker struct {
	repo     *Repo
	dir      string // the tree's absolute path
	tree     *tree
	device   uint64
	visit    func(file) error
	problems []Problem
	entries  int
	ignored  int // how many of the problems are ignored files
}

// file is a file or link that the walk found.
type file struct {
	path string
	stat unix.Stat_t
	mode uint32
	base *item // the same path in the base tree; nil: not there
}

// entry is a name in a folder that the base tree does not have.
type entry struct {
	file
	isFolder bool
}

// walk visits every file and link that the base tree has, and every other one
// that is not ignored.
//
// Folders of the base are gone through at once. The rest goes level by level,
// so that one question per level finds out what is ignored, and an ignored
// folder is never entered.
func (w *walker) walk(ctx context.Context, base *item) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(w.tree.dir.Fd()), &st); err != nil {
		return err
	}
	w.device = uint64(st.Dev)
	level, err := w.tracked(w.tree.dir, ".", "", base)
	for err == nil && len(level) > 0 {
		level, err = w.untracked(ctx, level)
	}
	return err
}

// tracked goes through a folder that the base has, the one of this name in
// above. It returns what the base does not have.
func (w *walker) tracked(above *os.File, name, path string, base *item) (rest []entry, err error) {
	dir, err := subfolder(above, name, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	found, err := w.read(dir, path)
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		_, name := split(e.path)
		e.base = base.below[name]
		switch {
		case e.base == nil || e.isFolder != (e.base.below != nil || e.base.mode == modeGitlink):
			rest = append(rest, e)
		case !e.isFolder:
			err = w.visit(e.file)
		case e.base.mode == modeGitlink:
			err = w.submodule(e.file)
		default:
			var below []entry
			below, err = w.tracked(dir, name, e.path, e.base)
			rest = append(rest, below...)
		}
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// submodule keeps a gitlink of the base as it is.
func (w *walker) submodule(f file) error {
	empty, err := w.empty(f.path)
	if err != nil {
		return err
	}
	if !empty {
		w.problem(Submodule, f.path)
	}
	f.mode = modeGitlink
	return w.visit(f)
}

// untracked visits one level of what the base does not have, and returns the
// next.
func (w *walker) untracked(ctx context.Context, level []entry) ([]entry, error) {
	paths := make([]string, len(level))
	for i, e := range level {
		paths[i] = e.path
	}
	ignored, err := w.repo.ignored(ctx, w.dir, paths)
	if err != nil {
		return nil, err
	}
	var next []entry
	for _, e := range level {
		if ignored[e.path] {
			if err := w.ignore(e); err != nil {
				return nil, err
			}
			continue
		}
		if !e.isFolder {
			if err := w.visit(e.file); err != nil {
				return nil, err
			}
			continue
		}
		below, err := w.enter(e.path)
		if err != nil {
			return nil, err
		}
		next = append(next, below...)
	}
	return next, nil
}

// ignore names an ignored file or folder. As a checkout holds only what the
// base has, it was made by the worker; but for the workspace's own folder (see
// makeFolders), which must have got something in it.
func (w *walker) ignore(e entry) error {
	path := e.path
	if e.isFolder {
		if bare, err := w.bare(path); err != nil || bare {
			return err
		}
		path += "/"
	}
	if w.ignored < maxIgnored {
		w.ignored++
		w.problem(IgnoredFile, path)
	}
	return nil
}

// bare tells whether a folder on the way to the workspace's folder, or that
// itself, holds nothing else.
func (w *walker) bare(path string) (bool, error) {
	rest, ok := strings.CutPrefix(w.repo.prefix+"/", path+"/")
	for ok {
		dir, err := w.tree.folder(path)
		if err != nil {
			return false, err
		}
		names, err := readNames(dir)
		if err = errors.Join(err, dir.Close()); err != nil || rest == "" {
			return len(names) == 0, err
		}
		var next string
		next, rest, _ = strings.Cut(rest, "/")
		ok = len(names) == 1 && names[0] == next
		path = join(path, next)
	}
	return false, nil
}

func (w *walker) problem(kind ProblemKind, path string) {
	w.problems = append(w.problems, Problem{Kind: kind, Path: path})
}

func (w *walker) empty(path string) (bool, error) {
	dir, err := w.tree.folder(path)
	if err != nil {
		return false, err
	}
	names, err := readNames(dir)
	return len(names) == 0, errors.Join(err, dir.Close())
}

// enter reads a folder that the base does not have.
func (w *walker) enter(path string) (entries []entry, err error) {
	if empty, err := w.empty(path); err != nil {
		return nil, err
	} else if empty && path != w.repo.prefix {
		w.problem(EmptyFolder, path)
	}
	dir, err := w.tree.folder(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return w.read(dir, path)
}

// read returns the entries of a folder in the order of their names. What can't
// be captured is named and left out.
func (w *walker) read(dir *os.File, path string) (entries []entry, err error) {
	names, err := readNames(dir)
	if err != nil {
		return nil, err
	}
	if w.entries += len(names); w.entries > maxEntries {
		return nil, core.Errorf(core.KindValue, "the working tree %s holds more than %d names", w.dir, maxEntries)
	}
	for _, name := range names {
		e := entry{file: file{path: join(path, name)}}
		if e.stat, e.mode, err = lstatAt(dir, name); err != nil {
			return nil, err
		}
		if keep, err := w.look(path, name, &e); err != nil {
			return nil, err
		} else if keep {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// look decides whether an entry is gone into or visited.
func (w *walker) look(dir, name string, e *entry) (keep bool, err error) {
	switch {
	case name == ".git":
		if dir != "" { // the one at the top is ours
			w.problem(NestedRepository, dir)
		}
	case e.mode == modeAbsent:
		return false, fmt.Errorf("%q: %w", e.path, errChanging)
	case e.mode == modeSpecial && name == ".gitignore":
		return false, core.Errorf(core.KindValue, "%q is no ordinary file: what it ignores can't be told", e.path)
	case e.mode == modeSpecial:
		w.problem(SpecialFile, e.path)
	case e.mode == modeFolder && uint64(e.stat.Dev) != w.device:
		w.problem(OtherFilesystem, e.path)
	case e.mode == modeFolder && depth(e.path) >= maxDepth:
		return false, core.Errorf(core.KindValue, "folder %s of the working tree %s is too deep: at most %d folders are gone into",
			strconv.QuoteToASCII(e.path), w.dir, maxDepth)
	default:
		if e.isFolder = e.mode == modeFolder; !e.isFolder && e.stat.Mode&0o7000 != 0 {
			w.problem(SpecialMode, e.path)
		}
		return true, nil
	}
	return false, nil
}

func depth(path string) int {
	n := 0
	for range components(path) {
		n++
	}
	return n
}

func readNames(dir *os.File) ([]string, error) {
	names, err := dir.Readdirnames(maxEntries + 1)
	if errors.Is(err, io.EOF) { // an empty folder
		err = nil
	}
	slices.Sort(names)
	return names, err
}
