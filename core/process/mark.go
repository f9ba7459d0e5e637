package process

import (
	"bytes"
	"errors"
	"strings"
)

// MarkEnv is the environment variable that marks every process of an agent:
// its value is "<agent run ref>/<generation>". It is how a process that left
// its session and lost its parent is still found.
const MarkEnv = "MMO_AGENT"

// Environ returns the environment that a process was started with. Only
// processes of the same user can be read. The error wraps ErrGone when there
// is no such process.
func Environ(pid int) (map[string]string, error) {
	raw, err := rawEnviron(pid)
	if err != nil {
		return nil, err
	}
	env := make(map[string]string)
	for assignment := range bytes.SplitSeq(raw, []byte{0}) {
		name, value, ok := strings.Cut(string(assignment), "=")
		if !ok {
			continue
		}
		if _, seen := env[name]; !seen { // getenv(3) takes the first
			env[name] = value
		}
	}
	return env, nil
}

// Marked returns the living processes of this user whose environment holds
// MarkEnv with a value that match accepts. Processes whose environment can't
// be read are left out: the kernel shows it to their own user only.
func Marked(match func(mark string) bool) ([]Identity, error) {
	return WithEnv(MarkEnv, match)
}

// WithEnv is Marked for another variable: it finds what was started with it
// and never recorded.
func WithEnv(name string, match func(value string) bool) ([]Identity, error) {
	entries, err := readTable()
	if err != nil {
		return nil, err
	}
	var found []Identity
	for _, e := range entries {
		if e.ended() || !ownedByUs(e.PID) {
			continue
		}
		value, err := readEnv(e.PID, name)
		if err != nil || value == "" || !match(value) {
			continue
		}
		if e.Alive() { // the number may have changed hands since the table was read
			found = append(found, e.Identity)
		}
	}
	return found, nil
}

// readMark returns the mark of a process, or "" when it has none.
func readMark(pid int) (string, error) { return readEnv(pid, MarkEnv) }

// readEnv returns a variable of a process's environment, or "".
func readEnv(pid int, name string) (string, error) {
	raw, err := rawEnviron(pid)
	if err != nil {
		return "", err
	}
	prefix := []byte(name + "=")
	for assignment := range bytes.SplitSeq(raw, []byte{0}) {
		if value, ok := bytes.CutPrefix(assignment, prefix); ok {
			return string(value), nil
		}
	}
	return "", nil
}

// markBelongs reports whether a process with this mark belongs to the owner:
// an agent run ref, with or without its final "/", or a whole mark.
func markBelongs(mark, owner string) bool {
	owner = strings.TrimSuffix(owner, "/")
	rest, ok := strings.CutPrefix(mark, owner)
	return ok && owner != "" && (rest == "" || rest[0] == '/')
}

// Descendants returns the living processes below the one that id names,
// parents before children. It is empty when that process is gone: its children
// have another parent then.
func Descendants(id Identity) ([]Identity, error) {
	entries, err := readTable()
	if err != nil {
		return nil, err
	}
	var found []Identity
	for _, e := range below(entries, func(e Entry) bool { return e.Same(id) }) {
		if !e.Same(id) && !e.ended() {
			found = append(found, e.Identity)
		}
	}
	return found, nil
}

// below returns the entries that root accepts and everything below them,
// parents before children.
func below(entries []Entry, root func(Entry) bool) []Entry {
	children := make(map[int][]Entry) // parent's pid -> entries
	var found []Entry
	for _, e := range entries {
		if root(e) {
			found = append(found, e)
		} else {
			children[e.PPID] = append(children[e.PPID], e)
		}
	}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].PID]...)
		delete(children, found[i].PID)
	}
	return found
}

// isGone reports whether err means that a process does not exist.
func isGone(err error) bool { return errors.Is(err, ErrGone) }
