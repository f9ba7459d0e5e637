package workspace

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"
)

// content is what is or should be at a path. The zero value: nothing.
type content struct {
	Mode uint32 `json:"mode"`           // git's mode; folders and special files have one too
	ID   string `json:"id,omitempty"`   // blob id of a file or link
	Size int64  `json:"size,omitempty"` // bytes
	Perm uint32 `json:"perm,omitempty"` // permission bits; 0: as the umask has it
}

// same compares what git compares: kind, executable bit and bytes.
func (c content) same(o content) bool { return c.Mode == o.Mode && c.ID == o.ID }

// isBlob tells whether there are bytes to save or write.
func (c content) isBlob() bool { return c.Mode == modeFile || c.Mode == modeExec || c.Mode == modeLink }

// describe says what is in the way.
func (c content) describe() string {
	switch c.Mode {
	case modeAbsent:
		return "is gone"
	case modeFolder:
		return "is a folder"
	case modeLink:
		return "is another link"
	case modeSpecial:
		return "is a special file"
	}
	return "is changed, or kept in another form than in git"
}

// permFor returns the permission bits of a file that takes the place of c:
// those of c but for the executable bits.
func (c content) permFor(mode uint32) uint32 {
	if c.Mode != modeFile && c.Mode != modeExec {
		return 0
	}
	perm := c.Perm & 0o777
	switch {
	case mode == modeExec && c.Mode == modeFile:
		return perm | perm&0o444>>2
	case mode == modeFile && c.Mode == modeExec:
		return perm &^ 0o111
	}
	return perm
}

// contentAt reads what is at a name in a folder.
func contentAt(dir *os.File, name string, idLength int) (content, error) {
	st, mode, err := lstatAt(dir, name)
	if err != nil {
		return content{}, err
	}
	c := content{Mode: mode, Perm: uint32(st.Mode) & 0o7777}
	switch mode {
	case modeAbsent:
		return content{}, nil
	case modeLink:
		target, err := readLink(dir, name)
		if err != nil {
			return content{}, err
		}
		c.ID, c.Size, c.Perm = hashBytes(idLength, "blob", target), int64(len(target)), 0
	case modeFile, modeExec:
		f, st, err := openRegular(dir, name)
		if err != nil {
			return content{}, err
		}
		c.Mode, c.Size, c.Perm = gitMode(uint32(st.Mode)), st.Size, uint32(st.Mode)&0o7777
		c.ID, err = hashReader(idLength, f, st.Size, io.Discard)
		if err = errors.Join(err, f.Close()); err != nil {
			return content{}, err
		}
	}
	return c, nil
}

// QuotePath returns a path of raw bytes as text for people and JSON: as it is
// when it is plain UTF-8, else quoted with escapes.
func QuotePath(path string) string {
	if utf8.ValidString(path) && hidden([]byte(path)) == "" && path != "" && path[0] != '"' {
		return path
	}
	return strconv.QuoteToASCII(path)
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
