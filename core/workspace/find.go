package workspace

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
)

// place says where a repository lies. All paths are real and absolute.
type place struct {
	top    string // top level of the working tree
	gitDir string // its git folder: .git, or what the file .git names
	common string // the git folder that all its working trees share
}

const (
	maxPointer = 16 << 10 // bytes of a .git file, commondir, HEAD or a loose ref
	maxRefs    = 64 << 20 // bytes of packed-refs
	maxSymrefs = 5        // as git's own SYMREF_MAXDEPTH
)

// find looks for the repository of a folder, upwards, by reading files alone.
// A folder laid out as a bare repository within a working tree is a folder.
//
// Spec: A065 (names are taken as they are, with white space at their ends).
func find(workspace string) (place, error) {
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return place{}, core.Errorf(core.KindNotFound, "workspace %q can't be looked at: %w", workspace, err)
	}
	if real != workspace {
		return place{}, core.Errorf(core.KindValue, "workspace %q is not a real absolute path: it is %q", workspace, real)
	}
	bare := ""
	for dir := workspace; ; dir = filepath.Dir(dir) {
		gitDir, err := gitDirOf(dir)
		if err != nil {
			return place{}, err
		}
		if gitDir != "" {
			if Within(workspace, gitDir) {
				return place{}, core.Errorf(core.KindValue, "workspace %q lies in the git folder %q", workspace, gitDir)
			}
			common, err := commonOf(gitDir)
			return place{top: dir, gitDir: gitDir, common: common}, err
		}
		if isGitDir(dir) {
			bare = dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if bare != "" {
		return place{}, core.Errorf(core.KindValue, "workspace %q is in the bare repository %q, which has no working tree", workspace, bare).
			WithRemedy("use a clone with a working tree")
	}
	return place{}, core.Errorf(core.KindValue, "workspace %q is not in a git repository", workspace).
		WithRemedy("run `git init` there and make a first commit")
}

// gitDirOf returns the git folder that dir/.git is or names, or nothing.
func gitDirOf(dir string) (string, error) {
	path := filepath.Join(dir, ".git")
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return "", nil
	}
	if err != nil {
		return "", core.Errorf(core.KindOS, "looking at %q: %w", path, err)
	}
	if !info.IsDir() {
		data, err := readSmall(path, maxPointer)
		if err != nil {
			return "", core.Errorf(core.KindOS, "reading %q: %w", path, err)
		}
		target, ok := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), "gitdir: ")
		if !ok {
			return "", nil // git, too, goes on above
		}
		path = absolute(target, dir)
	}
	if !isGitDir(path) {
		return "", nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", core.Errorf(core.KindOS, "looking at %q: %w", path, err)
	}
	return real, nil
}

// commonOf returns the git folder that the working trees of gitDir share.
func commonOf(gitDir string) (string, error) {
	path := filepath.Join(gitDir, "commondir")
	data, err := readSmall(path, maxPointer)
	if errors.Is(err, fs.ErrNotExist) {
		return gitDir, nil
	}
	if err != nil {
		return "", core.Errorf(core.KindOS, "reading %q: %w", path, err)
	}
	real, err := filepath.EvalSymlinks(absolute(strings.TrimRight(string(data), "\r\n"), gitDir))
	if err != nil {
		return "", core.Errorf(core.KindOS, "%q names a folder that can't be looked at: %w", path, err)
	}
	return real, nil
}

// isGitDir is git's own test: a HEAD, and objects and refs here or in the
// common folder.
func isGitDir(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	if _, err := os.Lstat(filepath.Join(dir, "commondir")); err == nil {
		return true
	}
	return isFolder(filepath.Join(dir, "objects")) && isFolder(filepath.Join(dir, "refs"))
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// head resolves HEAD to a commit id by reading the files of the refs.
func (p place) head() (string, error) {
	dir, name := p.gitDir, "HEAD"
	for range maxSymrefs {
		value, err := p.ref(dir, name)
		if err != nil {
			return "", core.Errorf(core.KindOS, "reading %s of %q: %w", name, p.gitDir, err)
		}
		target, symbolic := strings.CutPrefix(value, "ref:")
		switch target = strings.TrimSpace(target); {
		case value == "":
			return "", core.Errorf(core.KindValue, "the repository %q has no commit yet", p.top).
				WithRemedy("make a first commit there")
		case !symbolic && isID(value):
			return value, nil
		case target == "refs/heads/.invalid":
			return "", core.Errorf(core.KindValue, "the repository %q keeps its refs in a reftable, which is not read", p.top).
				WithRemedy("run `git refs migrate --ref-format=files` there")
		case !symbolic || !strings.HasPrefix(target, "refs/") || !filepath.IsLocal(target):
			return "", core.Errorf(core.KindValue, "%s of %q is neither a commit nor a ref", name, p.gitDir)
		}
		dir, name = p.common, target
	}
	return "", core.Errorf(core.KindValue, "HEAD of %q is a chain of more than %d refs", p.gitDir, maxSymrefs)
}

// ref returns the text of a ref, loose or packed; "" means there is none.
func (p place) ref(dir, name string) (string, error) {
	data, err := readSmall(filepath.Join(dir, name), maxPointer)
	if err == nil {
		return strings.TrimSpace(string(data)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, errNotRegular) {
		return "", err
	}
	data, err = readSmall(filepath.Join(p.common, "packed-refs"), maxRefs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for line := range bytes.Lines(data) {
		if id, packed, ok := strings.Cut(strings.TrimRight(string(line), "\n"), " "); ok && packed == name {
			return id, nil
		}
	}
	return "", nil
}

// isID tells whether s is an object id: SHA-1 or SHA-256, lower case hex.
func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

var errNotRegular = errors.New("not a regular file")

// readSmall reads a regular file of at most limit bytes. It never blocks on a
// file that only looks like one.
func readSmall(path string, limit int64) (data []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, errors.New("the file is too large")
	}
	return data, err
}

func absolute(path, base string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// Within reports whether path is dir or lies below it, by components. Both are
// absolute.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
