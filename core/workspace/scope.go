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

// CheckScope refuses a write scope that does not lie in its workspace, and
// names the entry. It is what Capture and Integrate ask of a scope, for a
// caller that wants to know before it makes a worktree. It is pure.
func CheckScope(entries []string) error {
	for _, entry := range entries {
		reason := ""
		switch clean := path.Clean(entry); {
		case entry == "":
			reason = "it is empty"
		case strings.ContainsRune(entry, 0):
			reason = "it holds a NUL"
		case path.IsAbs(entry):
			reason = "it is absolute"
		case clean == "..", strings.HasPrefix(clean, "../"):
			reason = "it leads out"
		default:
			continue
		}
		return core.Errorf(core.KindValue, "write scope %q does not lie in the workspace: %s", entry, reason).
			WithRemedy("name files or folders by their path from the workspace's folder, as in \"src\"; \".\" is all of it")
	}
	return nil
}

// newScope takes the entries of a scope, each relative to the workspace: a file
// or a folder, "." for the whole workspace. None may leave the workspace.
func (r *Repo) newScope(entries []string) (*scope, error) {
	if err := CheckScope(entries); err != nil {
		return nil, err
	}
	s := &scope{fold: r.opts.FoldCase}
	for _, entry := range entries {
		if full := path.Join(r.prefix, entry); full != "." {
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
