package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/codexhome"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/profile"
)

// readMark is printed by the probe's command for what it could read, by its
// number.
const readMark = "doctor-read-"

// reachedMark is printed when it reached the network.
const reachedMark = "doctor-reached"

// probeScript tries what agents must and must not be able to do. Its arguments
// are a port of this machine, then pairs of paths: one to read, a file or a
// folder, and one to write, or nothing. A file counts as read when a byte came: a
// closed one may be there and empty.
const probeScript = `port=$1; shift; n=0
while [ $# -gt 0 ]; do
  if [ -d "$1" ]; then ls "$1" >/dev/null 2>&1; else [ $(head -c 1 "$1" 2>/dev/null | wc -c) -eq 1 ]; fi && echo "` + readMark + `$n."
  [ -z "$2" ] || echo x 2>/dev/null >"$2"
  n=$((n+1)); shift 2
done
bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null && echo ` + reachedMark + `
exit 0`

// sandbox runs a command in the sandbox of each permission profile of a
// generated home, as Codex does for agents.
func (p *patient) sandbox(ctx context.Context) outcome {
	var o outcome
	var pin codexbin.Pin
	admitted := false
	select {
	case pin, admitted = <-p.codex:
	case <-ctx.Done():
	}
	for _, name := range []string{codexhome.ProfileRead, codexhome.ProfileWrite} {
		if p.ground().err != nil {
			o.findings = append(o.findings, notChecked(groupSandbox, name, "the folders"))
			continue
		}
		if !admitted {
			o.findings = append(o.findings, notChecked(groupSandbox, name, "an admitted Codex"))
			continue
		}
		saw, err := p.probeSandbox(ctx, pin, name)
		if err != nil {
			o.findings = append(o.findings, found(groupSandbox, name, Failed, fmt.Errorf("the probe did not run: %w", err), remedySandbox))
			continue
		}
		o.findings = append(o.findings, judgeSandbox(name, saw))
		if saw.ran() {
			o.reach = append(o.reach, saw.reach...)
		}
	}
	return o
}

// probeSandbox tries one permission profile, with something planted in each
// folder of ours.
func (p *patient) probeSandbox(ctx context.Context, pin codexbin.Pin, name string) (saw observed, err error) {
	g := p.ground()
	var dirs []string
	for _, root := range []string{g.State, filepath.Join(g.State, closedPart), g.Config, g.Runtime} {
		dir, remove, failed := p.scratch(root)
		if failed != nil {
			return saw, failed
		}
		defer func() { err = errors.Join(err, remove()) }()
		if err := os.WriteFile(filepath.Join(dir, "planted"), []byte("planted by codex-mmo doctor\n"), 0o600); err != nil {
			return saw, err
		}
		dirs = append(dirs, dir)
	}
	return p.tryCommand(ctx, pin, name, p.spots(dirs[0], dirs[1], dirs[2], dirs[3]))
}

// tryCommand runs the probe's command in the sandbox of a permission profile.
// The first spot is the workspace, the second a closed part of the state.
func (p *patient) tryCommand(ctx context.Context, pin codexbin.Pin, name string, spots []spot) (saw observed, err error) {
	open, closed := spots[0].dir, spots[1].dir
	home := filepath.Join(closed, "home")
	if err := folders.MakeDir(home); err != nil {
		return saw, err
	}
	generated, err := codexhome.Write(p.probeHome(filepath.Join(closed, "codex"), open, pin))
	if err != nil {
		return saw, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return saw, err
	}
	defer func() { err = errors.Join(err, listener.Close()) }()
	_, port, _ := net.SplitHostPort(listener.Addr().String()) // as Listen made it
	args := []string{"sandbox", "-P", name, "-C", open, "--", "/bin/sh", "-c", probeScript, "sh", port}
	for _, s := range spots {
		args = append(args, s.read, s.write)
	}
	s, err := p.await(ctx, closed, process.Spec{
		Path: pin.Path, SHA256: pin.SHA256, Stamp: pin.Stamp, Dir: open, Args: args,
		Env: []string{
			"PATH=/usr/bin:/bin" + string(filepath.ListSeparator) + codexbin.HelperDir(pin.Path),
			"LANG=C.UTF-8", "HOME=" + home, "CODEX_HOME=" + generated.Dir,
		},
	})
	saw = observed{exit: s.exit, complain: s.err}
	for i, spot := range spots {
		r := Reach{Profile: name, What: spot.what, Path: spot.path, Read: strings.Contains(s.stdout, fmt.Sprintf("%s%d.", readMark, i)), Write: exists(spot.write)}
		if r.Write {
			err = errors.Join(err, os.Remove(spot.write))
		}
		saw.reach = append(saw.reach, r)
	}
	reached := strings.Contains(s.stdout, reachedMark)
	saw.reach = append(saw.reach, Reach{Profile: name, What: Network, Read: reached, Write: reached})
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

// closedPart is the part of the state that is planted in: the gate's cache is
// there by now.
const closedPart = "codex"

// exists reports whether something is at the path. What can't be looked at
// counts as there: the probe must not pass for it.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
