package workspace

import (
	"bytes"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Class says what may happen to a change.
type Class string

// The classes.
const (
	Clean   Class = "clean"   // written when its scope allows it
	Flagged Class = "flagged" // may steer agents, hooks, CI or editors: only by explicit permission
	Refused Class = "refused" // never written
)

// Bounds of a path and of a symbolic link's target, in bytes and components.
const (
	maxPath  = 4096
	maxName  = 255
	maxDepth = 64
	maxLink  = 4095
)

// Classify judges one change by its path, relative to the top level, its git
// modes before and after (0: not there), and the target when it becomes a
// symbolic link. It is pure: what is on disk is looked at elsewhere. The reason
// is empty for a clean change.
func Classify(path []byte, oldMode, newMode uint32, linkTarget []byte) (class Class, reason string) {
	if reason := refusedPath(path); reason != "" {
		return Refused, reason
	}
	if reason := refusedMode(oldMode, newMode); reason != "" {
		return Refused, reason
	}
	if newMode == modeLink {
		if reason := refusedLink(path, linkTarget); reason != "" {
			return Refused, reason
		}
	}
	if reason := flaggedPath(path); reason != "" {
		return Flagged, reason
	}
	if newMode == modeLink {
		if reason := hidden(linkTarget); reason != "" {
			return Flagged, "its target " + reason
		}
	}
	return Clean, ""
}

func refusedPath(path []byte) string {
	switch {
	case len(path) == 0:
		return "the path is empty"
	case len(path) > maxPath:
		return "the path is too long"
	case path[0] == '/':
		return "the path is absolute"
	case bytes.IndexByte(path, 0) >= 0:
		return "the path holds a NUL"
	case bytes.Count(path, []byte("/")) >= maxDepth:
		return "the path is too deep"
	}
	for name := range bytes.SplitSeq(path, []byte("/")) {
		if len(name) > maxName {
			return "a name in the path is too long"
		}
		for part := range bytes.SplitSeq(name, []byte(`\`)) { // a separator on Windows
			switch {
			case len(name) == 0:
				return "the path has an empty name"
			case string(part) == "." || string(part) == "..":
				return "the path leaves the tree"
			case isDotGit(part):
				return "the path is in a git folder"
			}
		}
	}
	return ""
}

func refusedMode(oldMode, newMode uint32) string {
	for _, mode := range []uint32{oldMode, newMode} {
		switch mode {
		case modeAbsent, modeFile, modeExec, modeLink:
		case modeGitlink:
			return "it is a nested repository or submodule"
		default:
			return "its mode is not that of a file or link"
		}
	}
	if oldMode == modeAbsent && newMode == modeAbsent {
		return "it changes nothing"
	}
	return ""
}

// refusedLink refuses a link that leaves the tree. Going up is allowed only at
// the start of a target: after a name, which may be a link itself, `..` can
// lead anywhere.
func refusedLink(path, target []byte) string {
	switch {
	case len(target) == 0:
		return "the link has no target"
	case len(target) > maxLink:
		return "the link's target is too long"
	case bytes.IndexByte(target, 0) >= 0:
		return "the link's target holds a NUL"
	case target[0] == '/' || target[0] == '\\' || len(target) > 1 && target[1] == ':':
		return "the link's target is absolute"
	}
	if name := fold(path[bytes.LastIndexByte(path, '/')+1:]); gitFiles[name] {
		return "git refuses this file as a link"
	}
	depth, named := bytes.Count(path, []byte("/")), false
	for name := range bytes.FieldsFuncSeq(target, func(r rune) bool { return r == '/' || r == '\\' }) {
		switch {
		case string(name) == ".":
		case string(name) == "..":
			if depth--; named || depth < 0 {
				return "the link leads out of the tree"
			}
		case isDotGit(name):
			return "the link leads into a git folder"
		default:
			named = true
		}
	}
	return ""
}

// gitFiles are read by git itself and must not be links; see git-fsck(1),
// messages gitmodulesSymlink and the like.
var gitFiles = map[string]bool{".gitmodules": true, ".gitattributes": true, ".gitignore": true, ".mailmap": true}

// shortGit is how NTFS may shorten .git, with what it ignores at the end.
var shortGit = regexp.MustCompile(`^git~[0-9]+$`)

// isDotGit tells whether some file system takes a name for `.git`.
func isDotGit(name []byte) bool {
	folded := fold(name)
	return folded == ".git" || shortGit.MatchString(folded)
}

// fold spells a name as the least careful file system compares it: HFS+ drops
// the code points that don't show, NTFS a stream's name and dots and spaces at
// the end, and both the case. Sources: next_hfs_char in git's utf8.c,
// is_ntfs_dotgit in its path.c.
func fold(name []byte) string {
	var b strings.Builder
	for len(name) > 0 {
		r, size := utf8.DecodeRune(name)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteByte(name[0])
		case !ignoredByHFS(r):
			b.WriteRune(simple(r))
		}
		name = name[size:]
	}
	folded := b.String()
	if i := strings.IndexByte(folded, ':'); i > 0 {
		folded = folded[:i]
	}
	return strings.TrimRight(folded, ". ")
}

// simple folds the case of a rune; the two that fold to ASCII letters, too.
func simple(r rune) rune {
	switch r {
	case '\u212a': // Kelvin sign
		return 'k'
	case '\u017f': // long s
		return 's'
	}
	return unicode.ToLower(r)
}

func ignoredByHFS(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff
}

// hidden says why a name may show as something else than it is.
func hidden(name []byte) string {
	for len(name) > 0 {
		r, size := utf8.DecodeRune(name)
		switch {
		case r == utf8.RuneError && size == 1:
		case unicode.IsControl(r):
			return "holds a control character"
		case unicode.Is(unicode.Cf, r) || r == 0x2028 || r == 0x2029:
			return "holds a character that does not show"
		}
		name = name[size:]
	}
	return ""
}

func flaggedPath(path []byte) string {
	if reason := hidden(path); reason != "" {
		return "its path " + reason
	}
	names := bytes.Split(path, []byte("/"))
	for i, name := range names {
		if reason := flaggedName(name, i == len(names)-1); reason != "" {
			return reason
		}
	}
	return ""
}

func flaggedName(name []byte, last bool) string {
	folded := fold(name)
	switch {
	case steeringFolders[folded]:
		return "it is in a folder that steers tools"
	case last && (steeringFiles[folded] || steeringPattern.MatchString(folded)):
		return "it steers agents, CI or tools"
	case last && hookNames[folded]:
		return "it has the name of a git hook"
	case deviceName.MatchString(folded):
		return "its name is a device on Windows"
	case bytes.IndexByte(name, '\\') >= 0 || bytes.IndexByte(name, ':') >= 0:
		return "its name is a path on Windows"
	case bytes.HasSuffix(name, []byte(".")) || bytes.HasSuffix(name, []byte(" ")):
		return "its name ends in a dot or space, which Windows drops"
	case shortName.MatchString(folded):
		return "its name may be the short form of another on Windows"
	}
	return ""
}
