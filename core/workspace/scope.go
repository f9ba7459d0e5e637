package workspace

import (
	"path"
	"strings"

	"github.com/codex-mmo/codex-mmo/core"
)

// scope is a write scope: slash-separated paths relative to the top level, ""
// for all of it. An empty scope holds nothing.
type scope struct {
	roots []string
	fold  bool
}

// newScope takes the entries of a scope, each relative to the workspace: a file
// or a folder, "." for the whole workspace. None may leave the workspace.
func (r *Repo) newScope(entries []string) (*scope, error) {
	s := &scope{fold: r.opts.FoldCase}
	for _, entry := range entries {
		clean := path.Clean(entry)
		if entry == "" || path.IsAbs(entry) || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsRune(entry, 0) {
			return nil, core.Errorf(core.KindValue, "write scope %q does not lie in the workspace", entry)
		}
		if full := path.Join(r.prefix, clean); full != "." {
			s.roots = append(s.roots, s.spell(full))
		} else {
			s.roots = append(s.roots, "")
		}
	}
	return s, nil
}

func (s *scope) spell(p string) string {
	if s.fold {
		return strings.ToLower(p)
	}
	return p
}

// holds tells whether a path is an entry of the scope or below one, by
// components: the scope "a" does not hold "ab".
func (s *scope) holds(p string) bool {
	p = s.spell(p)
	for _, root := range s.roots {
		if root == "" || p == root || strings.HasPrefix(p, root+"/") {
			return true
		}
	}
	return false
}

// outside returns the paths of changes that the scope does not hold. A rename
// is two changes, so both its sides are looked at.
//
// Spec: A066.
func (s *scope) outside(changes []Change) []string {
	var out []string
	for _, c := range changes {
		if !s.holds(c.Path) {
			out = append(out, c.Path)
		}
	}
	return out
}
