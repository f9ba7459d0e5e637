package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
)

func (a *app) execCmd() *cobra.Command {
	var o sessionOptions
	var wall time.Duration
	cmd := &cobra.Command{
		Use:   "exec [PROFILE] \"PROMPT\"",
		Short: "Run a team on a prompt, without a screen, and print what comes of it",
		Long: "exec starts a session of the profile in the workspace, gives the prompt to its root, shows live who does\n" +
			"what, and prints the root's result. Interrupting it (Ctrl-C) leaves the session at work, as `codex-mmo detach`\n" +
			"from elsewhere does: `codex-mmo status` shows it, `codex-mmo stop` ends it. So does --wall, which keeps what the\n" +
			"root has said so far as a partial result.\n\n" +
			"Exit codes: 0 completed, 1 failed, suspended or paused, 2 wrong command line, 3 detached, 124 detached by\n" +
			"--wall, 130 stopped, cancelled or interrupted.",
		Example: "  codex-mmo exec offline-demo \"look around\"\n  codex-mmo exec ./my-team \"fix the build\" --cwd ~/src/project --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 2 {
				return usagef("`codex-mmo exec` takes a PROFILE and a PROMPT, or a PROMPT alone for the active profile, got %d argument(s): see `codex-mmo exec --help`", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				o.profile = args[0]
			}
			if wall < 0 {
				return usagef("--wall must be longer than nothing, not %s", wall)
			}
			out, err := a.exec(cmd.Context(), &o, args[len(args)-1], wall)
			if err != nil {
				return err
			}
			return a.report(out)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().DurationVar(&wall, "wall", 0, "how long to wait for the session, e.g. 30m; then it is detached and works on (default: to its end)")
	return cmd
}

// execResult is what `exec --json` prints.
type execResult struct {
	Session        *control.SessionView `json:"session"`
	Status         string               `json:"status"`
	RootStatus     string               `json:"root_status"` // status; harness_wall_detached: the wall limit detached it
	ExitCode       int                  `json:"exit_code"`
	ElapsedSeconds float64              `json:"elapsed_seconds"`
	EventsPath     string               `json:"events_path"`
	Result         string               `json:"result"`
}

// exec runs a session to its end, or at most until the wall limit (0: none), and
// returns what came of it.
func (a *app) exec(ctx context.Context, o *sessionOptions, prompt string, wall time.Duration) (*execResult, error) {
	if err := a.outside(); err != nil {
		return nil, err
	}
	f, err := a.folders()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	rec, err := a.create(ctx, f, o, prompt, "noninteractive")
	if err != nil {
		return nil, err
	}
	view, walled, err := a.followFor(ctx, f, rec, wall)
	if err != nil {
		return nil, launchError(err, rec)
	}
	out, err := a.result(ctx, f, view, time.Since(started))
	if err == nil && walled && out.Status == string(core.SessionDetached) {
		out.RootStatus, out.ExitCode = wallDetached, exitWall
	}
	return out, err
}

const (
	wallDetached = "harness_wall_detached"
	wallReason   = "external harness wall expired"
	// wallAgain is how long to let a session be that can't be detached yet: its
	// root has no thread, or its supervisor is being replaced.
	wallAgain = 250 * time.Millisecond
)

// followFor is follow until a session is detached because a time is up (0: never).
func (a *app) followFor(ctx context.Context, f folders.Folders, rec *store.Session, wall time.Duration) (view *control.SessionView, walled bool, err error) {
	if wall == 0 {
		view, err = a.follow(ctx, f, rec)
		return view, false, err
	}
	detached := a.detachAfter(ctx, f, rec, wall)
	view, err = a.follow(ctx, f, rec)
	return view, detached(), err
}

// detachAfter detaches a session when a time is up. The function it returns ends
// that and says whether the session was detached by it.
func (a *app) detachAfter(ctx context.Context, f folders.Folders, rec *store.Session, wall time.Duration) func() bool {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan bool, 1)
	go func() {
		timer := time.NewTimer(wall)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				done <- false
				return
			case <-timer.C:
			}
			_, err := a.client(f, rec.SessionID, 0).DetachSession(context.WithoutCancel(ctx), control.DetachRequest{Reason: wallReason})
			if err == nil {
				done <- true
				return
			}
			timer.Reset(wallAgain)
		}
	}()
	return func() bool {
		cancel()
		return <-done
	}
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

// errDetached ends the stream of a session that was detached.
var errDetached = errors.New("the session was detached")

// follow shows what happens until the session ends, rests or is detached, over
// any number of supervisors.
func (a *app) follow(ctx context.Context, f folders.Folders, rec *store.Session) (*control.SessionView, error) {
	var last *control.SessionView
	var seq uint64
	screen, bad := newScreen(a), setbacks{}
	for {
		client, began := a.client(f, rec.SessionID, bringBackTimeout), time.Now()
		err := client.Follow(ctx, control.Meta{}, control.FollowRequest{AfterSeq: seq}, func(e control.FollowEvent) error {
			seq = e.Seq
			if e.Session != nil {
				last = e.Session
			}
			screen.show(e)
			if e.Session != nil && e.Session.Status == string(core.SessionDetached) {
				return errDetached
			}
			return nil
		})
		if last != nil && (core.SessionStatus(last.Status).Terminal() || last.Status == string(core.SessionSuspended)) || errors.Is(err, errDetached) {
			return last, nil
		}
		if ctx.Err() != nil {
			return nil, a.leave(rec.SessionID)
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
		if err := a.pauseAfter(ctx, &bad, now, err, time.Since(began)); err != nil {
			return nil, err
		}
		seq = 0 // another supervisor counts from the beginning
	}
}

// leave ends the command and not the session.
func (a *app) leave(id string) error {
	a.notice("\nleft; the session works on. See it: codex-mmo status %s   End it: codex-mmo stop %s", id, id)
	return &exitError{code: exitCancelled}
}

// pauseAfter says that a stream of events ended before its session did, and
// waits until it is worth asking for another; the error says that it is not.
func (a *app) pauseAfter(ctx context.Context, bad *setbacks, rec *store.Session, err error, lived time.Duration) error {
	if err == nil {
		err = core.Errorf(core.KindUnavailable, "the supervisor ended the stream of events")
	}
	pause, news, more := bad.add(err, lived)
	if !more {
		return core.Errorf(core.KindOf(err), "session %s works on, but its events can't be followed: %w", rec.SessionID, err).
			WithRemedy("see it with `codex-mmo status %s`, end it with `codex-mmo stop %s`", rec.SessionID, rec.SessionID)
	}
	if news {
		a.notice("the events of session %s broke off: %s; trying again", rec.SessionID, err)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return a.leave(rec.SessionID)
	}
}

// setbacks counts the streams of events in a row that ended too soon, so that a
// refusal that stays is not asked for without end.
type setbacks struct {
	count int
	text  string // of the last error
}

const (
	// settled is how long a stream must have lived for its end to be the first
	// of its kind again.
	settled = 10 * time.Second
	// maxRefusals is how many refusals in a row are believed to pass.
	maxRefusals = 5
	// maxAbsences is the same for supervisors that come and go: more than the
	// keeper's own bound, which gives up first and records why.
	maxAbsences = 30

	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second
)

// add counts one end of a stream that lived for a time. It says how long to
// wait before the next, whether the error is another one than before, and
// whether there should be a next at all.
func (s *setbacks) add(err error, lived time.Duration) (pause time.Duration, news, more bool) {
	if lived >= settled {
		*s = setbacks{}
	}
	news = err.Error() != s.text
	s.count, s.text = s.count+1, err.Error()
	limit := maxRefusals
	if core.KindOf(err) == core.KindUnavailable {
		limit = maxAbsences
	}
	return min(lastPause, firstPause<<min(s.count-1, 10)), news, s.count < limit
}

// result reads the root's result from the disk, where it was proven.
func (a *app) result(ctx context.Context, f folders.Folders, view *control.SessionView, elapsed time.Duration) (*execResult, error) {
	rec, err := a.readSession(ctx, f, view.SessionID)
	if err != nil {
		return nil, err
	}
	dir := f.SessionDir(rec.SessionID)
	out := &execResult{
		Session: view, Status: string(rec.Status), RootStatus: string(rec.Status), ExitCode: exitCode(rec.Status), ElapsedSeconds: elapsed.Seconds(),
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
	case core.SessionDetached:
		return exitDetached
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
		if out.Result != "" {
			a.printf("%s\n", out.Result)
		}
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
