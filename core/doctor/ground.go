package doctor

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/folders"
)

// ground is where the product's things lie, prepared as every command prepares
// it, or why it can't be.
type ground struct {
	folders.Folders
	err error
}

func findGround(in *Input) ground {
	f, err := folders.Resolve(in.Getenv, in.UID)
	if err == nil {
		err = f.Prepare()
	}
	return ground{f, err}
}

// folders tells about the roots and the sockets that will lie in one.
func (p *patient) folders(context.Context) outcome {
	if err := p.ground().err; err != nil {
		return outcome{findings: []Finding{
			found(groupFolders, "roots", Failed, err, "see which of MMO_CONFIG_HOME, MMO_STATE_HOME and MMO_RUNTIME_DIR it is, and set another"),
			notChecked(groupFolders, "socket paths", "the folders"),
		}}
	}
	return outcome{findings: []Finding{
		finding(groupFolders, "configuration", OK, p.ground().Config),
		finding(groupFolders, "state", OK, p.ground().State),
		finding(groupFolders, "runtime", OK, p.ground().Runtime),
		judgeSockets(p.ground().Folders),
	}}
}

// judgeSockets measures the longest paths of sockets: a session's own, its
// engines' and, the longest, its plugins'. All sessions' folders have names of
// the same length.
func judgeSockets(f folders.Folders) Finding {
	longest := ""
	for _, path := range []string{
		f.ControlSocket("any"),
		filepath.Join(f.RuntimeDir("any"), "e00000000.sock"),
		filepath.Join(f.RuntimeDir("any"), "h00000000", "plugin4294967295"), // go-plugin's name with its largest number
	} {
		if err := folders.CheckSocketPath(path); err != nil {
			return found(groupFolders, "socket paths", Failed, err, "set "+folders.RuntimeVar+" to a shorter path")
		}
		if len(path) > len(longest) {
			longest = path
		}
	}
	return finding(groupFolders, "socket paths", OK, fmt.Sprintf("%d of %d bytes", len(longest), folders.MaxSocketPath))
}

// scratch makes a private folder below a root, and says how to remove it. Its
// name is as long as that of a session's runtime folder.
func (p *patient) scratch(root string) (dir string, remove func() error, err error) {
	var salt [4]byte
	if _, err := io.ReadFull(p.Random, salt[:]); err != nil {
		return "", nil, core.Errorf(core.KindOS, "naming a folder: %w", err)
	}
	dir = filepath.Join(root, "dr--"+hex.EncodeToString(salt[:]))
	if err := folders.MakeDir(dir); err != nil {
		return "", nil, err
	}
	return dir, func() error {
		if err := os.RemoveAll(dir); err != nil {
			return core.Errorf(core.KindOS, "removing %s: %w", dir, err).WithRemedy("remove it")
		}
		return nil
	}, nil
}

// inScratch runs a probe with a private folder of its own below a root. What
// the probe or its end ran into is the error.
func (p *patient) inScratch(root string, probe func(dir string) error) error {
	dir, remove, err := p.scratch(root)
	if err != nil {
		return err
	}
	return errors.Join(probe(dir), remove())
}
