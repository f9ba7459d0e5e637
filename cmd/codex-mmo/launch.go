package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/codexbin"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

func (a *app) launchCmd() *cobra.Command {
	var o sessionOptions
	cmd := &cobra.Command{
		Use:   "launch [PROFILE] [\"PROMPT\"]",
		Short: "Start a session of a team and talk to its root in Codex's own screen",
		Long: "launch starts a session of the profile in the workspace and opens Codex's own screen on its root. Leaving the\n" +
			"screen (/quit, or a closed terminal) detaches: root and workers go on, and `codex-mmo attach` brings the screen\n" +
			"back. Ctrl-C is Codex's own: it interrupts a turn, and leaves where there is none. `codex-mmo stop` ends the session.\n\n" +
			"Of a root in mode goal Codex asks whether to resume the paused goal. Leave it paused: your first message starts it.",
		Example: "  codex-mmo launch offline-demo\n  codex-mmo launch ./my-team \"fix the build\" --cwd ~/src/project",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 {
				return usagef("`codex-mmo launch` takes perhaps a PROFILE and perhaps a PROMPT, got %d argument(s): see `codex-mmo launch --help`", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			prompt := ""
			if len(args) > 0 {
				o.profile = args[0]
			}
			if len(args) == 2 {
				prompt = args[1]
			}
			return a.launch(cmd.Context(), &o, prompt)
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (a *app) attachCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "attach [SESSION]",
		Short: "Open Codex's screen on the root of a session that works",
		Long:  "attach opens the screen on the newest session, or on the one that is named. Leaving the screen detaches again.",
		Args:  atMostOne("SESSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.outside(); err != nil {
				return err
			}
			f, err := a.folders()
			if err != nil {
				return err
			}
			id := ""
			if len(args) == 1 {
				id = args[0]
			}
			rec, err := a.pick(cmd.Context(), f, id)
			if err != nil {
				return err
			}
			if !supervised(rec.Status) {
				return core.Errorf(core.KindRuntime, "session %s is %s: there is nothing to attach to", rec.SessionID, rec.Status).
					WithRemedy("see `codex-mmo status %s`", rec.SessionID)
			}
			if err := a.needsTerminal(); err != nil {
				return err
			}
			if _, err := a.bringBack(cmd.Context(), f, rec); err != nil {
				return err
			}
			return a.screenOn(cmd.Context(), f, rec)
		},
	}
}

func (a *app) launch(ctx context.Context, o *sessionOptions, prompt string) error {
	if err := errors.Join(a.outside(), a.needsTerminal()); err != nil {
		return err
	}
	f, err := a.folders()
	if err != nil {
		return err
	}
	rec, err := a.create(ctx, f, o, prompt, "interactive")
	if err != nil {
		return err
	}
	if err := a.screenOn(ctx, f, rec); err != nil {
		return launchError(err, rec)
	}
	return nil
}

// needsTerminal refuses a screen where there is none to show it on.
func (a *app) needsTerminal() error {
	in, ok := a.in.(*os.File)
	if !ok || !term(in) || !isTerminal(a.out) {
		return core.Errorf(core.KindValue, "Codex's screen needs a terminal, and stdin or stdout is none").
			WithRemedy("use `codex-mmo exec` without one")
	}
	return nil
}

// term reports whether f is a terminal that can be read from.
func term(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

// screenOn runs Codex's own screen on the session's root as our foreground
// child, and says how to come back when it has ended. The session goes on
// whatever becomes of the screen.
func (a *app) screenOn(ctx context.Context, f folders.Folders, rec *store.Session) error {
	client := a.client(f, rec.SessionID, bringBackTimeout)
	way, err := client.Attach(ctx, control.Meta{}, control.AttachRequest{})
	if err != nil {
		return err
	}
	if err := terminalHome(way.Home, rec.Workspace); err != nil {
		return err
	}
	screen := exec.Command(way.CodexPath, "--remote", "unix://"+way.Socket, "resume", way.ThreadID)
	screen.Stdin, screen.Stdout, screen.Stderr = os.Stdin, os.Stdout, os.Stderr
	screen.Dir = rec.Workspace
	screen.Env = append(supervisor.BaseEnv(a.getenv), "CODEX_HOME="+way.Home, "COLORTERM="+a.getenv("COLORTERM"))
	if dir := codexbin.HelperDir(way.CodexPath); dir != "" {
		screen.Env = append(screen.Env, "PATH="+a.getenv("PATH")+string(filepath.ListSeparator)+dir)
	}
	// The terminal sends its signals to the whole foreground group: the screen
	// acts on them, we wait for it.
	held := make(chan os.Signal, 1)
	signal.Notify(held, os.Interrupt, syscall.SIGQUIT)
	defer signal.Stop(held)
	if err := screen.Start(); err != nil {
		return core.Errorf(core.KindOS, "Codex's screen can't be started: %w", err).
			WithRemedy("the session works on; try `codex-mmo attach %s`", rec.SessionID)
	}
	if _, err := client.Attach(ctx, control.Meta{}, control.AttachRequest{PID: screen.Process.Pid}); err != nil {
		a.notice("the screen is not on record: %s", err) // it shows and works all the same
	}
	err = screen.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return core.Errorf(core.KindOS, "Codex's screen: %w", err)
	}
	return a.sayHowToComeBack(f, rec.SessionID)
}

func (a *app) sayHowToComeBack(f folders.Folders, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), bringBackTimeout)
	defer cancel()
	rec, err := a.readSession(ctx, f, id)
	if err != nil {
		return err
	}
	if !supervised(rec.Status) || rec.Status == core.SessionFinishing || rec.Status == core.SessionCancelling {
		a.notice("session %s is %s; see it: codex-mmo status %s", id, rec.Status, id)
		return nil
	}
	a.notice("detached: session %s works on.\n  come back:  codex-mmo attach %s\n  look at it: codex-mmo status %s\n  end it:     codex-mmo stop %s", id, id, id, id)
	return nil
}

// terminalConfig is the CODEX_HOME of the screen: it shows a thread that lives
// elsewhere, so it needs no login and no tools of its own. The provider is a
// name only: with one that asks for no login, the screen asks for none either.
const terminalConfig = `model = "remote"
model_provider = "remote"
check_for_update_on_startup = false
cli_auth_credentials_store = "file"

[model_providers.remote]
name = "the session's own"
base_url = "http://127.0.0.1:9/v1"
wire_api = "responses"

[features]
plugins = false
apps = false
remote_plugin = false
shell_snapshot = false

[analytics]
enabled = false

[feedback]
enabled = false

[history]
persistence = "none"

[projects.%q]
trust_level = "untrusted"
`

func terminalHome(dir, workspace string) error {
	_, err := store.Publish(dir, "config.toml", fmt.Appendf(nil, terminalConfig, workspace))
	return err
}
