package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/process"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

// app is what every verb needs.
type app struct {
	getenv   func(string) string
	in       io.Reader
	out, err io.Writer
	json     bool
}

func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "codex-mmo",
		Short: "Run a team of Codex agents on many models",
		Long: "codex-mmo runs teams of coding agents. A profile names the team: a root that leads, and workers\n" +
			"that it spawns through our MCP server, each a real Codex thread with its own home, model and sandbox.\n" +
			"A session survives the crash of any process; `codex-mmo status` shows and brings back what is there.",
		Example: "  codex-mmo demo                                # a team at work, offline, in a throw-away workspace\n" +
			"  codex-mmo exec offline-demo \"look around\"     # one run of a team in this folder\n" +
			"  codex-mmo sessions                            # what there is",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q: see `codex-mmo --help`", args[0])
			}
			return nil
		},
		RunE:         func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	cmd.SetOut(a.out)
	cmd.SetErr(a.err)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON for scripts")
	cmd.AddCommand(
		a.launchCmd(), a.execCmd(), a.attachCmd(), a.demoCmd(), a.smokeCmd(), a.sessionsCmd(), a.statusCmd(), a.pauseCmd(), a.continueCmd(), a.resumeCmd(),
		a.compactCmd(), a.detachCmd(), a.stopCmd(), a.cancelCmd(), a.taintCmd(), a.cleanCmd(), a.rootCmd(), a.jobCmd(), a.inboxCmd(), a.answerCmd(), a.auditCmd(), a.profileCmd(), a.doctorCmd(), a.versionCmd(),
		a.mcpCmd(), a.superviseCmd(), a.pluginCmd(),
	)
	return cmd
}

// exactArgs is cobra's check with our kind of error.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usagef("`%s` takes %d argument(s), got %d: see `%[1]s --help`", cmd.CommandPath(), len(names), len(args))
		}
		return nil
	}
}

func (a *app) folders() (folders.Folders, error) {
	f, err := folders.Resolve(a.getenv, os.Getuid())
	if err != nil {
		return f, err
	}
	return f, nil
}

func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// outside refuses to start anything from within an agent: what is started
// there would belong to the agent's sandbox and die with it.
func (a *app) outside() error {
	if mark := a.getenv(process.MarkEnv); mark != "" {
		return core.Errorf(core.KindPermission, "this command runs inside agent %s and starts nothing", mark).
			WithRemedy("run it in your own terminal")
	}
	return nil
}

// withStore runs fn on the store when no supervisor answers for what is asked.
func (a *app) withStore(ctx context.Context, f folders.Folders, fn func(*store.Store) error) error {
	if _, err := os.Lstat(f.Database()); errors.Is(err, fs.ErrNotExist) {
		return core.Errorf(core.KindNotFound, "there is no session yet").WithRemedy("start one with `codex-mmo demo` or `codex-mmo exec`")
	}
	if err := f.Prepare(); err != nil {
		return err
	}
	st, err := store.Open(ctx, f.Database(), nil)
	if err != nil {
		return err
	}
	defer st.Close()
	return fn(st)
}

// readSession reads a session's row as it stands.
func (a *app) readSession(ctx context.Context, f folders.Folders, id string) (rec *store.Session, err error) {
	if !core.ValidID(id) {
		return nil, usagef("%q is not the id of a session; see `codex-mmo sessions`", id)
	}
	err = a.withStore(ctx, f, func(st *store.Store) error {
		return st.View(ctx, func(tx *store.Tx) (err error) {
			rec, err = tx.Session(id)
			return err
		})
	})
	var e *core.Error
	if core.KindOf(err) == core.KindNotFound && asError(err, &e) && e.Remedy == "" {
		err = e.WithRemedy("see `codex-mmo sessions`")
	}
	return rec, err
}

// client returns a client of the session's supervisor, for the operator.
func (a *app) client(f folders.Folders, id string, retry time.Duration) *control.Client {
	return control.Dial(f.ControlSocket(id), &control.ClientOptions{Build: build(), Retry: retry})
}

// bringBackTimeout is how long a session may take until its supervisor
// answers.
const bringBackTimeout = 20 * time.Second

// bringBack makes sure that a session that is to be supervised is, and returns
// a client of it. A supervisor that lives and does not answer is reported,
// never replaced by force.
func (a *app) bringBack(ctx context.Context, f folders.Folders, rec *store.Session) (*control.Client, error) {
	client := a.client(f, rec.SessionID, 0)
	if _, err := client.Hello(ctx); err == nil {
		return client, nil
	} else if !errors.Is(err, control.ErrUnreachable) {
		return nil, err
	}
	if _, err := lockHeld(filepath.Join(f.SessionDir(rec.SessionID), "supervisor.lock")); err != nil {
		return nil, err // its supervisor would only fail of it
	}
	keeperLock := filepath.Join(f.SessionDir(rec.SessionID), "keeper.lock")
	held, err := lockHeld(keeperLock)
	if err != nil {
		return nil, err
	}
	if !held {
		if err := a.startKeeper(f, rec); err != nil {
			return nil, err
		}
	}
	client = a.client(f, rec.SessionID, bringBackTimeout)
	answered := make(chan error, 1)
	go func() {
		_, err := client.Hello(ctx)
		answered <- err
	}()
	if held { // by a keeper that brings a supervisor back, or that leaves with one
		err = a.succeedKeeper(ctx, f, rec, keeperLock, answered)
	} else {
		err = <-answered
	}
	if err != nil {
		return nil, core.Errorf(core.KindUnavailable, "the supervisor of session %s does not answer: %w", rec.SessionID, err).
			WithRemedy("nothing is lost; see supervisor.log in %s", f.SessionDir(rec.SessionID))
	}
	return client, nil
}

// succeedKeeper waits for a supervisor's answer beside a keeper that may be about
// to leave: when its lock is free first, another keeper is started.
func (a *app) succeedKeeper(ctx context.Context, f folders.Folders, rec *store.Session, lockPath string, answered <-chan error) error {
	c, cancel := context.WithCancel(ctx)
	defer cancel()
	left := make(chan bool, 1)
	go func() {
		lock := flock.New(lockPath, flock.SetPermissions(0o600))
		// The kernel's own waiting can't be cancelled, hence the looking.
		free, err := lock.TryLockContext(c, keeperLook)
		if free {
			err = lock.Unlock()
		}
		left <- free && err == nil
	}()
	select {
	case err := <-answered:
		return err
	case free := <-left:
		if free {
			if err := a.startKeeper(f, rec); err != nil {
				return err
			}
		}
	}
	return <-answered
}

// keeperLook is how often a leaving keeper's lock is looked at.
const keeperLook = 20 * time.Millisecond

// startKeeper starts a keeper of the session. An agent may not: its sandbox would
// be the keeper's.
func (a *app) startKeeper(f folders.Folders, rec *store.Session) error {
	if err := a.outside(); err != nil {
		return err
	}
	secrets, err := a.secretsFor(f, rec)
	if err != nil {
		return err
	}
	return supervisor.StartKeeper(&supervisor.KeeperConfig{
		Folders: f, SessionID: rec.SessionID, Executable: rec.Binary.Path,
		Env: a.superviseEnv(f), Secrets: secrets,
	})
}

// superviseEnv is the environment of a session's processes: an allow-list, and
// our folders by name, so that all of them mean the same ones.
func (a *app) superviseEnv(f folders.Folders) []string {
	set := map[string]string{"MMO_CONFIG_HOME": f.Config, "MMO_STATE_HOME": f.State, "MMO_RUNTIME_DIR": f.Runtime}
	return supervisor.BaseEnv(func(name string) string {
		if v, ok := set[name]; ok {
			return v
		}
		return a.getenv(name)
	})
}

// lockHeld reports whether another process holds a lock file.
func lockHeld(path string) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return false, core.Errorf(core.KindOS, "lifecycle lock cannot traverse %s: it is not a regular file", path).
			WithRemedy("remove it and try again")
	}
	lock := flock.New(path, flock.SetPermissions(0o600))
	free, err := lock.TryLock()
	if err != nil {
		return false, core.Errorf(core.KindOS, "looking at the lock %s: %w", path, err)
	}
	if free {
		err = lock.Unlock()
	}
	return !free, err
}

// supervised reports whether a session in this status is to have a supervisor.
func supervised(status core.SessionStatus) bool {
	switch status {
	case core.SessionStarting, core.SessionRunning, core.SessionDetached, core.SessionFinishing, core.SessionCancelling:
		return true
	}
	return false
}
