package main

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
	"github.com/codex-mmo/codex-mmo/profiles"
)

func (a *app) execCmd() *cobra.Command {
	var cwd string
	cmd := &cobra.Command{
		Use:   "exec PROFILE \"PROMPT\"",
		Short: "Run a team on a prompt, without a screen, and print what comes of it",
		Long: "exec starts a session of the profile in the workspace, gives the prompt to its root, shows live who does\n" +
			"what, and prints the root's result. Interrupting it (Ctrl-C) leaves the session at work: `codex-mmo status`\n" +
			"shows it, `codex-mmo stop` ends it.\n\n" +
			"Exit codes: 0 completed, 1 failed or suspended, 2 wrong command line, 130 stopped, cancelled or interrupted.",
		Example: "  codex-mmo exec offline-demo \"look around\"\n  codex-mmo exec ./my-team \"fix the build\" --cwd ~/src/project --json",
		Args:    exactArgs("PROFILE", "PROMPT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := a.exec(cmd.Context(), args[0], cwd, args[1])
			if err != nil {
				return err
			}
			return a.report(out)
		},
	}
	cmd.Flags().StringVar(&cwd, "cwd", ".", "workspace: a folder inside a git repository")
	return cmd
}

// execResult is what `exec --json` prints.
type execResult struct {
	Session        *control.SessionView `json:"session"`
	Status         string               `json:"status"`
	ExitCode       int                  `json:"exit_code"`
	ElapsedSeconds float64              `json:"elapsed_seconds"`
	EventsPath     string               `json:"events_path"`
	Result         string               `json:"result"`
}

// exec runs a session to its end and returns what came of it.
func (a *app) exec(ctx context.Context, profile, cwd, prompt string) (*execResult, error) {
	if err := a.outside(); err != nil {
		return nil, err
	}
	f, err := a.folders()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	rec, err := supervisor.Create(ctx, &supervisor.CreateInput{
		Folders: f, Profile: profile, Bundled: profiles.FS, Workspace: cwd, Prompt: prompt, Kind: "noninteractive",
		Build: build(), Getenv: a.getenv, Now: started, Random: rand.Reader,
	})
	if err != nil {
		return nil, err
	}
	a.notice("session %s starts (profile %s, Codex %s)", rec.SessionID, rec.ProfileID, rec.Codex.Version)
	if err := a.startKeeper(f, rec); err != nil {
		return nil, launchError(err, rec)
	}
	view, err := a.follow(ctx, f, rec)
	if err != nil {
		return nil, launchError(err, rec)
	}
	return a.result(ctx, f, view, time.Since(started))
}

// launchError names the session that an error is about.
func launchError(err error, rec *store.Session) error {
	var e *core.Error
	if !asError(err, &e) {
		e = core.Errorf(core.KindOf(err), "%w", err)
	}
	c := *e
	c.SessionID, c.SessionStatus = rec.SessionID, rec.Status
	return &c
}

func asError(err error, target **core.Error) bool { return errors.As(err, target) }

// follow shows what happens until the session ends, over any number of
// supervisors.
func (a *app) follow(ctx context.Context, f folders.Folders, rec *store.Session) (*control.SessionView, error) {
	var last *control.SessionView
	var seq uint64
	screen := newScreen(a)
	for {
		client := a.client(f, rec.SessionID, bringBackTimeout)
		err := client.Follow(ctx, control.Meta{}, control.FollowRequest{AfterSeq: seq}, func(e control.FollowEvent) error {
			seq = e.Seq
			if e.Session != nil {
				last = e.Session
			}
			screen.show(e)
			return nil
		})
		if last != nil && (core.SessionStatus(last.Status).Terminal() || last.Status == string(core.SessionSuspended)) {
			return last, nil
		}
		if ctx.Err() != nil {
			a.notice("\nleft; the session works on. See it: codex-mmo status %s   End it: codex-mmo stop %s", rec.SessionID, rec.SessionID)
			return nil, &exitError{code: exitCancelled}
		}
		now, readErr := a.readSession(ctx, f, rec.SessionID)
		if readErr != nil {
			return nil, readErr
		}
		if !supervised(now.Status) {
			return a.storedView(ctx, f, now)
		}
		if errors.Is(err, control.ErrUnreachable) {
			if _, err := a.bringBack(ctx, f, now); err != nil {
				return nil, err
			}
		}
		seq = 0 // another supervisor counts from the beginning
	}
}

// result reads the root's result from the disk, where it was proven.
func (a *app) result(ctx context.Context, f folders.Folders, view *control.SessionView, elapsed time.Duration) (*execResult, error) {
	rec, err := a.readSession(ctx, f, view.SessionID)
	if err != nil {
		return nil, err
	}
	dir := f.SessionDir(rec.SessionID)
	out := &execResult{
		Session: view, Status: string(rec.Status), ExitCode: exitCode(rec.Status), ElapsedSeconds: elapsed.Seconds(),
		EventsPath: filepath.Join(dir, "root-events.jsonl"),
	}
	if rec.RootResult.Name == "" {
		return out, nil
	}
	raw, err := store.ReadPublished(dir, rec.RootResult, 64<<20)
	out.Result = string(raw)
	return out, err
}

func exitCode(status core.SessionStatus) int {
	switch status {
	case core.SessionCompleted:
		return 0
	case core.SessionCancelled, core.SessionStopped:
		return exitCancelled
	}
	return exitFailure
}

// report prints what came of a run.
func (a *app) report(out *execResult) error {
	if a.json {
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		a.printf("%s\n", out.Result)
		if out.Session.Error != "" {
			a.notice("the session is %s: %s", out.Status, out.Session.Error)
		}
		a.notice("session %s %s in %.1f s; events: %s", out.Session.SessionID, out.Status, out.ElapsedSeconds, out.EventsPath)
	}
	if out.ExitCode != 0 {
		return &exitError{code: out.ExitCode}
	}
	return nil
}
