package access

import (
	"errors"
	"io/fs"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/process"
)

// Peer is the process at the other end of a unix socket, as the kernel recorded
// it when it connected.
type Peer struct {
	PID     int
	UID     int
	Process process.Identity
}

// maxAncestors bounds the walk to the first process; real chains are short.
const maxAncestors = 256

// Ancestors returns pid and the numbers of its parents, nearest first, without
// the first process of the machine. The error wraps process.ErrGone when pid is
// gone; a parent that ends during the walk ends the list there.
func Ancestors(pid int) ([]int, error) {
	chain := []int{pid}
	for len(chain) < maxAncestors {
		parent, err := process.Parent(chain[len(chain)-1])
		switch {
		case errors.Is(err, process.ErrGone) && len(chain) > 1:
			return chain, nil
		case err != nil:
			return nil, err
		case parent <= 1:
			return chain, nil
		}
		chain = append(chain, parent)
	}
	return nil, core.Errorf(core.KindOS, "process %d has more than %d ancestors", pid, maxAncestors)
}

// hostEnv is in the environment of every plugin of ours. What an engine starts
// and abandons is re-parented to its host, the nearest subreaper, so a host
// among the ancestors tells as much as a mark.
const hostEnv = "MMO_PLUGIN_DIR"

// MarkedAncestor returns the mark of the first process, from pid upwards, that
// was started with process.MarkEnv in its environment, and whether there is
// one. Whoever carries it was started by an agent of ours; so was whatever is
// below one of our plugins.
//
// A process that may not be read (another user's, or one that forbids it, like
// an SSH session's) counts as unmarked: otherwise nobody could work below it.
// The supervisor also compares Ancestors with the hosts and engines on record.
func MarkedAncestor(pid int) (mark string, found bool, err error) {
	chain, err := Ancestors(pid)
	if err != nil {
		return "", false, err
	}
	for _, p := range chain {
		env, err := process.Environ(p)
		switch {
		case errors.Is(err, fs.ErrPermission):
			continue
		case errors.Is(err, process.ErrGone) && p != pid:
			continue
		case err != nil:
			return "", false, err
		}
		for _, name := range []string{process.MarkEnv, hostEnv} {
			if mark, ok := env[name]; ok {
				return mark, true, nil
			}
		}
	}
	return "", false, nil
}
