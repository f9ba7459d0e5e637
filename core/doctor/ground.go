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
	"github.com/codex-mmo/codex-mmo/core/profile"
)

// ground is where the product's things lie, prepared as every command prepares
// it, or why it can't be, and what the user has configured there.
type ground struct {
	folders.Folders
	err error

	settings       *profile.Settings // empty when the user's can't be read
	settingsErr    error
	credentials    *profile.Credentials // those of the environment when the file can't be read
	credentialsErr error
}

func findGround(in *Input) ground {
	g := ground{settings: &profile.Settings{}, credentials: profile.EnvCredentials(in.Getenv)}
	if g.Folders, g.err = folders.Resolve(in.Getenv, in.UID); g.err == nil {
		g.err = g.Prepare()
	}
	if g.err != nil {
		return g
	}
	if settings, err := profile.LoadSettings(g.Config); err != nil {
		g.settingsErr = err
	} else {
		g.settings = settings
	}
	if credentials, err := profile.LoadCredentials(g.Config, in.Getenv); err != nil {
		g.credentialsErr = err
	} else {
		g.credentials = credentials
	}
	return g
}

// folders tells about the roots, the sockets that will lie in one, and the files
// of the configuration.
func (p *patient) folders(context.Context) outcome {
	if err := p.ground().err; err != nil {
		return outcome{findings: []Finding{
			found(groupFolders, "roots", Failed, err, "see which of MMO_CONFIG_HOME, MMO_STATE_HOME and MMO_RUNTIME_DIR it is, and set another"),
			notChecked(groupFolders, "socket paths", "the folders"),
		}}
	}
	return outcome{findings: []Finding{
		p.judgeConfiguration(),
		finding(groupFolders, "state", OK, p.ground().State),
		finding(groupFolders, "runtime", OK, p.ground().Runtime),
		judgeSockets(p.ground().Folders),
	}}
}

// judgeConfiguration tells about the configuration folder and the two files in it
// that are no profile's.
func (p *patient) judgeConfiguration() Finding {
	if err := errors.Join(p.ground().settingsErr, p.ground().credentialsErr); err != nil {
		return found(groupFolders, "configuration", Failed, err, "mend the file")
	}
	return finding(groupFolders, "configuration", OK, p.ground().Config)
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
