package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/profile"
)

// Texts of planted files. Whether a command printed them tells what it could
// read.
const (
	openText   = "doctor-open-text"
	secretText = "doctor-secret-text"
)

// probeScript tries what agents must and must not be able to do. Its arguments
// are the paths: one outside, one in the state, the secret.
const probeScript = `echo x > inside; echo x > "$1"; echo x > "$2"; cat "$3"; cat open`

// sandbox runs a command in the sandbox of each permission profile of a
// generated home, as Codex does for agents.
func (p *patient) sandbox(ctx context.Context) outcome {
	var list []Finding
	var pin codexbin.Pin
	admitted := false
	select {
	case pin, admitted = <-p.codex:
	case <-ctx.Done():
	}
	for _, name := range []string{codexhome.ProfileRead, codexhome.ProfileWrite} {
		if p.ground().err != nil {
			list = append(list, notChecked(groupSandbox, name, "the folders"))
			continue
		}
		if !admitted {
			list = append(list, notChecked(groupSandbox, name, "an admitted Codex"))
			continue
		}
		var saw observed
		err := p.inScratch(filepath.Join(p.ground().State, closedPart), func(closed string) error {
			return p.inScratch(p.ground().State, func(open string) (err error) {
				saw, err = p.tryCommand(ctx, closed, open, pin, name)
				return err
			})
		})
		if err != nil {
			list = append(list, found(groupSandbox, name, Failed, fmt.Errorf("the probe did not run: %w", err), remedySandbox))
			continue
		}
		list = append(list, judgeSandbox(name, saw))
	}
	return outcome{findings: list}
}

// observed is what the probe's command could do, seen from outside of the
// sandbox, and how Codex ended.
type observed struct {
	ran      bool // the command itself ran and read its workspace
	inside   bool // wrote its workspace
	outside  bool // wrote where everybody may write
	state    bool // wrote our state
	secret   bool // read our state
	exit     int
	complain string // stderr, when it did not run
}

const remedySandbox = "let programs make user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), " +
	"or see what `codex sandbox` says"

// usageExit is how Codex's command line says that it does not know an argument.
const usageExit = 2

func judgeSandbox(name string, saw observed) Finding {
	f := finding(groupSandbox, name, OK, "")
	writes := name == codexhome.ProfileWrite
	if !saw.ran {
		f.Verdict, f.Remedy = Failed, remedySandbox
		f.Reason = fmt.Sprintf("no command runs in it (exit %d): %s", saw.exit, saw.complain)
		if saw.exit == usageExit && strings.Contains(saw.complain, "Usage:") {
			f.Verdict, f.Remedy = Warning, "use a reviewed Codex to have it checked"
			f.Reason = "not checked: this Codex has no `codex sandbox` that takes a permission profile"
		}
		return f
	}
	var wrong []string
	for _, c := range []struct {
		wrong bool
		what  string
	}{
		{saw.inside && !writes, "writes the workspace"},
		{!saw.inside && writes, "can't write the workspace"},
		{saw.outside, "writes outside of the workspace"},
		{saw.state, "writes the state folder"},
		{saw.secret, "reads the state folder"},
	} {
		if c.wrong {
			wrong = append(wrong, c.what)
		}
	}
	if len(wrong) > 0 {
		f.Verdict = Failed
		f.Reason = "a command in it " + strings.Join(wrong, ", ")
		f.Remedy = "run no agents on this machine until it is understood; use a reviewed Codex on Linux"
		return f
	}
	can := "reads the workspace and writes nothing"
	if writes {
		can = "reads and writes the workspace and writes nothing else"
	}
	f.Reason = "a command " + can + "; our state is closed to it"
	return f
}

// tryCommand runs the probe's command in the sandbox of a permission profile.
// closed is a folder in a part of our state that is closed to agents; open is
// one that is not, for the workspace.
func (p *patient) tryCommand(ctx context.Context, closed, open string, pin codexbin.Pin, name string) (observed, error) {
	home := filepath.Join(closed, "home")
	if err := folders.MakeDir(home); err != nil {
		return observed{}, err
	}
	secret, state := filepath.Join(closed, "secret"), filepath.Join(closed, "written")
	outside := filepath.Join("/tmp", "codex-mmo-"+filepath.Base(open))
	if err := errors.Join(
		os.WriteFile(secret, []byte(secretText), 0o600),
		os.WriteFile(filepath.Join(open, "open"), []byte(openText), 0o600),
	); err != nil {
		return observed{}, err
	}
	generated, err := codexhome.Write(p.probeHome(filepath.Join(closed, "codex"), open, pin))
	if err != nil {
		return observed{}, err
	}
	s, err := p.await(ctx, closed, process.Spec{
		Path: pin.Path, SHA256: pin.SHA256, Stamp: pin.Stamp, Dir: open,
		Args: []string{"sandbox", "-P", name, "-C", open, "--", "/bin/sh", "-c", probeScript, "sh", outside, state, secret},
		Env: []string{
			"PATH=/usr/bin:/bin" + string(filepath.ListSeparator) + codexbin.HelperDir(pin.Path),
			"LANG=C.UTF-8", "HOME=" + home, "CODEX_HOME=" + generated.Dir,
		},
	})
	saw := observed{
		ran: strings.Contains(s.stdout, openText), secret: strings.Contains(s.stdout, secretText),
		inside: exists(filepath.Join(open, "inside")), outside: exists(outside), state: exists(state),
		exit: s.exit, complain: s.err,
	}
	if saw.outside {
		err = errors.Join(err, os.Remove(outside))
	}
	return saw, err
}

// probeHome is a home like that of any agent.
func (p *patient) probeHome(dir, workspace string, pin codexbin.Pin) *codexhome.Spec {
	return &codexhome.Spec{
		Dir: dir, Agent: probeID, Workspace: workspace, CodexVersion: pin.Version, Deny: codexhome.Closed(p.ground().Folders, p.Getenv),
		Snapshot: &profile.Snapshot{
			ProfileID: probeID, RootAgent: probeID,
			Agents: map[string]profile.Agent{probeID: {
				ID: probeID, Model: probeID, Effort: "none", Permissions: profile.ReadOnly, ApprovalPolicy: "never",
			}},
			Models: map[string]profile.Model{probeID: {
				Key: probeID, Modalities: []string{"text"}, ReasoningLevels: []string{"none"}, DefaultReasoning: "none", ContextWindow: 1000,
			}},
		},
		// No thread is opened, so neither of these is ever reached.
		GatewayURL: "http://127.0.0.1:1/v1", Binary: p.Binary, SessionID: probeID, ControlSocket: p.ground().ControlSocket(probeID),
		Tools: []string{},
	}
}

// closedPart is the part of the state that the secret is planted in: the gate's
// cache is there by now.
const closedPart = "codex"

// exists reports whether something is at the path. What can't be looked at
// counts as there: the probe must not pass for it.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
