package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// ResolveScope returns where the entries of a write scope are on disk: absolute
// paths, links resolved, without those that lie in another one. An entry that
// does not exist yet is where it would be made. workspace is absolute with its
// links resolved. An entry that a link leads out of it is refused. foldsCase
// says whether one of the file systems there takes names of another case for the
// same.
func ResolveScope(workspace string, entries []string) (paths []string, foldsCase bool, err error) {
	if err := CheckScope(entries); err != nil {
		return nil, false, err
	}
	for _, entry := range entries {
		path, exists, err := resolve(filepath.Join(workspace, filepath.FromSlash(entry)))
		if err != nil {
			return nil, false, core.Errorf(core.KindValue, "write scope %q can't be resolved: %w", entry, err)
		}
		if !Within(path, workspace) {
			return nil, false, core.Errorf(core.KindValue, "write scope %q does not lie in the workspace: a link leads out of it, to %s", entry, path).
				WithRemedy("name what lies in the workspace itself")
		}
		foldsCase = foldsCase || FoldsCase(exists)
		paths = append(paths, path)
	}
	return outermost(paths), foldsCase || FoldsCase(workspace), nil
}

// maxLinks bounds the links of one path, as the kernel does.
const maxLinks = 40

// resolve resolves the links of an absolute path as far as it exists, and
// returns the nearest folder or file that does. What lies behind a link that
// leads nowhere is where the link leads.
func resolve(path string) (real, exists string, err error) {
	links := 0
	done, rest := string(filepath.Separator), names(path)
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(done, name)
		if name == ".." {
			done = filepath.Dir(done)
			continue
		}
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return filepath.Join(append([]string{next}, rest...)...), done, nil
		case err != nil:
			return "", "", err
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", "", core.Errorf(core.KindOS, "%s: too many links", path)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", "", err
		}
		if filepath.IsAbs(target) {
			done = string(filepath.Separator)
		}
		rest = append(names(target), rest...)
	}
	return done, done, nil
}

func names(path string) []string {
	return slices.DeleteFunc(strings.Split(path, string(filepath.Separator)), func(s string) bool { return s == "" || s == "." })
}

// outermost drops paths that are, or lie in, another one; sorted.
func outermost(paths []string) []string {
	slices.Sort(paths)
	var out []string
	for _, p := range slices.Compact(paths) {
		if !slices.ContainsFunc(out, func(outer string) bool { return Within(p, outer) }) {
			out = append(out, p)
		}
	}
	return out
}

// FoldsCase reports whether the file system at path, a folder or file that
// exists, takes names of another case for the same. It asks the file system
// itself: some fold on Linux, and some don't on macOS. When it can't be told,
// it does not.
func FoldsCase(path string) bool {
	return foldsCase(path, os.ReadDir, os.Lstat)
}

// foldsCase looks a name up that is there, in another case: in the folder
// itself, else among its siblings, else the folder's own name, and so on.
func foldsCase(path string, list func(string) ([]fs.DirEntry, error), stat func(string) (fs.FileInfo, error)) bool {
	for ; ; path = filepath.Dir(path) {
		if entries, err := list(path); err == nil {
			for _, e := range entries {
				if folds, told := looksUp(filepath.Join(path, e.Name()), stat); told {
					return folds
				}
			}
		}
		if path == filepath.Dir(path) {
			return false
		}
		if folds, told := looksUp(path, stat); told {
			return folds
		}
	}
}

// looksUp looks for the path with the case of its last name changed. told is
// false when the name has no letter.
func looksUp(path string, stat func(string) (fs.FileInfo, error)) (folds, told bool) {
	name := filepath.Base(path)
	other := strings.Map(swapCase, name)
	if other == name {
		return false, false
	}
	one, err := stat(path)
	if err != nil {
		return false, false
	}
	two, err := stat(filepath.Join(filepath.Dir(path), other))
	return err == nil && os.SameFile(one, two), true
}

func swapCase(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z':
		return r - 'a' + 'A'
	case r >= 'A' && r <= 'Z':
		return r - 'A' + 'a'
	}
	return r
}
