package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/codexhome"
)

// Reach is what an agent's commands could do at one place, as it was tried.
type Reach struct {
	Profile string `json:"profile"` // permission profile: mmo-ro, mmo-rw
	What    string `json:"what"`
	Path    string `json:"path,omitempty"` // empty: a workspace that was made for the try, or the network
	Read    bool   `json:"read"`
	Write   bool   `json:"write"`
}

// Network is What of the network. Its Read is whether it could be reached.
const Network = "network, of roles without it"

// What else is tried.
const (
	theWorkspace     = "workspace"
	theState         = "our records, homes and evidence"
	theConfiguration = "our configuration and credentials"
	theRuntime       = "our sockets"
	theCodexHome     = "your own Codex and its login"
	theKeys          = "your keys"
	theHome          = "the rest of your home"
	theTemporary     = "temporary files"
)

// open lists what agents may read; of these only the workspace is written, by
// those that may.
var open = []string{theWorkspace, theHome, theTemporary}

// spot is a place that is tried.
type spot struct {
	what, path  string // as Reach
	dir         string // where it is tried
	read, write string // a file or a folder that is there; a file that is not, or empty
}

// spots lists the places of this machine. The four folders are scratch folders of
// ours, with a file planted in each. Of what is the operator's, folders are listed
// and of files a byte is counted; what a broken sandbox lets be written is taken
// away, and a file of the operator's is never written to.
func (p *patient) spots(workspace, state, config, runtime string) []spot {
	own := func(what, path, dir string) spot {
		return spot{what, path, dir, filepath.Join(dir, "planted"), filepath.Join(dir, "written")}
	}
	g := p.ground()
	list := []spot{own(theWorkspace, "", workspace), own(theState, g.State, state), own(theConfiguration, g.Config, config), own(theRuntime, g.Runtime, runtime)}
	theirs := func(what, path string) {
		info, err := os.Stat(path)
		switch {
		case path == "" || err != nil:
		case info.IsDir():
			list = append(list, spot{what, path, path, path, filepath.Join(path, "codex-mmo-"+filepath.Base(workspace))})
		case info.Mode().IsRegular() && info.Size() > 0: // an empty one holds no key
			list = append(list, spot{what, path, filepath.Dir(path), path, ""})
		}
	}
	theirs(theCodexHome, codexhome.OperatorHome(p.Getenv))
	for _, path := range codexhome.OperatorKeys(p.Getenv) {
		theirs(theKeys, path)
	}
	theirs(theHome, p.Getenv("HOME"))
	theirs(theTemporary, "/tmp")
	if dir := filepath.Clean(p.Getenv("TMPDIR")); dir != "/tmp" && filepath.IsAbs(dir) {
		theirs(theTemporary, dir)
	}
	return list
}

// observed is what the probe's command could do, seen from outside of the
// sandbox, and how Codex ended.
type observed struct {
	reach    []Reach // the workspace first; the network last
	exit     int
	complain string // stderr, when it did not run
}

// ran reports whether the command itself ran and read its workspace.
func (o observed) ran() bool { return len(o.reach) > 0 && o.reach[0].Read }

const remedySandbox = "let programs make user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), " +
	"or see what `codex sandbox` says"

// usageExit is how Codex's command line says that it does not know an argument.
const usageExit = 2

func judgeSandbox(name string, saw observed) Finding {
	f := finding(groupSandbox, name, OK, "")
	if !saw.ran() {
		f.Verdict, f.Remedy = Failed, remedySandbox
		f.Reason = fmt.Sprintf("no command runs in it (exit %d): %s", saw.exit, saw.complain)
		if saw.exit == usageExit && strings.Contains(saw.complain, "Usage:") {
			f.Verdict, f.Remedy = Warning, "use a reviewed Codex to have it checked"
			f.Reason = "not checked: this Codex has no `codex sandbox` that takes a permission profile"
		}
		return f
	}
	var wrong []string
	for _, r := range saw.reach {
		wrong = append(wrong, r.wrong()...)
	}
	if len(wrong) > 0 {
		f.Verdict = Failed
		f.Reason = "a command in it " + strings.Join(slices.Compact(wrong), ", ")
		f.Remedy = "run no agents on this machine until it is understood; use a reviewed Codex on Linux"
		return f
	}
	can := "reads the workspace and writes nothing"
	if name == codexhome.ProfileWrite {
		can = "reads and writes the workspace and writes nothing else"
	}
	f.Reason = "a command " + can + "; our state and your keys are closed to it"
	return f
}

// wrong tells what of it must not be.
func (r Reach) wrong() (list []string) {
	if r.What == Network {
		if r.Read {
			list = append(list, "reaches the network")
		}
		return list
	}
	writes := r.What == theWorkspace && r.Profile == codexhome.ProfileWrite
	switch {
	case r.Write && !writes:
		list = append(list, "writes "+r.What)
	case !r.Write && writes:
		list = append(list, "can't write "+r.What)
	}
	if r.Read && !slices.Contains(open, r.What) {
		list = append(list, "reads "+r.What)
	}
	return list
}
