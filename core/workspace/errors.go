package workspace

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// What went wrong, for errors.Is. An error that concerns paths has a PathError
// in its chain that lists all of them.
var (
	ErrLost    = errors.New("the worktree is lost")                           // folder or registration gone; never replaced by another
	ErrDirty   = errors.New("files differ from what the patch was made from") // the user's edits are in the way
	ErrRefused = errors.New("the patch holds paths that are never written")
	ErrFlagged = errors.New("the patch holds paths that need the explicit permission")
	ErrScope   = errors.New("the patch leaves its write scope")
	ErrTaint   = errors.New("the working tree is neither old nor new") // a roll back failed
)

// maxNamed is how many paths the text of an error holds; PathError has all.
const maxNamed = 20

// PathError says what is wrong with some paths. Err is one of this package's
// sentinel errors.
type PathError struct {
	Err   error
	Paths []string // relative to the top level, raw bytes
	Notes []string // why, beside each path; may be shorter or nil
}

// Error names the paths, quoted, so that no name can forge a line or a colour.
func (e *PathError) Error() string {
	var b strings.Builder
	b.WriteString(e.Err.Error())
	for i, path := range e.Paths {
		if i == maxNamed {
			fmt.Fprintf(&b, " and %d more", len(e.Paths)-i)
			break
		}
		b.WriteString(map[bool]string{true: ": ", false: ", "}[i == 0])
		b.WriteString(strconv.QuoteToASCII(path))
		if i < len(e.Notes) && e.Notes[i] != "" {
			b.WriteString(" (" + e.Notes[i] + ")")
		}
	}
	return b.String()
}

// Unwrap returns the sentinel.
func (e *PathError) Unwrap() error { return e.Err }

func (e *PathError) add(path, note string) {
	e.Paths = append(e.Paths, path)
	e.Notes = append(e.Notes, note)
}
