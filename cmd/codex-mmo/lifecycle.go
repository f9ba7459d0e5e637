package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-mmo/codex-mmo/core"
	"github.com/codex-mmo/codex-mmo/core/control"
	"github.com/codex-mmo/codex-mmo/core/folders"
	"github.com/codex-mmo/codex-mmo/core/store"
	"github.com/codex-mmo/codex-mmo/core/supervisor"
)

// sessionVerb is a command that does one thing to one session, through its
// supervisor, which is brought back for it where none is.
func (a *app) sessionVerb(use, short, long string, args cobra.PositionalArgs, run func(ctx context.Context, c *control.Client, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := a.folders()
			if err != nil {
				return err
			}
			rec, err := a.readSession(cmd.Context(), f, args[0])
			if err != nil {
				return err
			}
			over := func(rec *store.Session) error { return a.overAlready(rec, cmd.Name()) }
			return a.ask(cmd.Context(), f, rec, over, func(c *control.Client) error {
				return run(cmd.Context(), c, args)
			})
		},
	}
}

// maxAsks is how many supervisors of a session are asked for one thing: one
// that goes down as it is asked is followed by one that can do it, or leaves a
// session that has ended. More in a row means that something else is wrong.
const maxAsks = 3

// ask has a session's supervisor do something, and its successor when it went
// down before it did. Of a session that has ended, perhaps meanwhile, over
// tells.
func (a *app) ask(ctx context.Context, f folders.Folders, rec *store.Session, over func(*store.Session) error, do func(*control.Client) error) error {
	for asked := 1; ; asked++ {
		if rec.Status.Terminal() {
			return over(rec)
		}
		client, err := a.bringBack(ctx, f, rec)
		if err != nil {
			return err
		}
		err = do(client)
		undone := errors.Is(err, control.ErrUnreachable) && core.KindOf(err) == core.KindUnavailable
		if !undone || ctx.Err() != nil || asked == maxAsks {
			return err
		}
		if rec, err = a.readSession(ctx, f, rec.SessionID); err != nil {
			return err
		}
	}
}

// overAlready answers for a session that has ended: what would have ended or
// rested it finds it so, nothing takes it up.
func (a *app) overAlready(rec *store.Session, verb string) error {
	switch verb {
	case "pause", "detach", "cancel":
		return a.tellStatus(supervisor.ViewSession(rec), nil)
	}
	return overError(rec)
}

func overError(rec *store.Session) error {
	return core.Errorf(core.KindRuntime, "terminal immutable session: %s is %s", rec.SessionID, rec.Status).
		WithRemedy("start a new one; its results stay: codex-mmo status %s", rec.SessionID)
}

func (a *app) pauseCmd() *cobra.Command {
	return a.sessionVerb("pause SESSION", "Pause a session cold: every process ends, every thread is kept",
		"pause interrupts the root and its workers, keeps what they have said so far, and ends all processes of the session:\n"+
			"it holds no memory, no capacity and no money until `codex-mmo continue` or `codex-mmo resume` takes it up on the\n"+
			"same threads, a week later if need be.",
		exactArgs("SESSION"), func(ctx context.Context, c *control.Client, _ []string) error {
			answer, err := c.PauseSession(ctx, control.PauseRequest{})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(answer)
			}
			a.printf("session %s is %s\n", answer.Session.SessionID, answer.Session.Status)
			for _, id := range answer.AffectedJobs {
				a.notice("paused with it: job %s", id)
			}
			return nil
		})
}

func (a *app) continueCmd() *cobra.Command {
	var tainted bool
	var input string
	cmd := a.sessionVerb("continue SESSION", "Take a paused or suspended session up, without a screen",
		"continue brings the root back on its thread with a next input, and with it the jobs that were paused with the\n"+
			"session. To go on in Codex's own screen use `codex-mmo resume`.",
		exactArgs("SESSION"), func(ctx context.Context, c *control.Client, _ []string) error {
			answer, err := c.ContinueSession(ctx, control.ContinueRequest{Input: input, AllowTainted: tainted})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(answer)
			}
			a.printf("session %s is %s\n", answer.Session.SessionID, answer.Session.Status)
			for _, id := range answer.ResumedJobs {
				a.notice("goes on: job %s", id)
			}
			for id, why := range answer.ResumeErrors {
				a.notice("stays paused: job %s: %s", id, why)
			}
			return nil
		})
	cmd.Flags().StringVar(&input, "input", "", "what to tell the root (default: to go on)")
	cmd.Flags().BoolVar(&tainted, "allow-tainted", false, "also when the session is tainted; it then delegates and integrates no more")
	return cmd
}

func (a *app) compactCmd() *cobra.Command {
	return a.sessionVerb("compact SESSION", "Shorten the context of a paused session's root",
		"compact has the root's model sum its thread up, so that the session goes on with less context. The session must be\n"+
			"paused, and stays so.",
		exactArgs("SESSION"), func(ctx context.Context, c *control.Client, _ []string) error {
			view, err := c.CompactSession(ctx, control.CompactRequest{})
			return a.tellStatus(view, err)
		})
}

func (a *app) detachCmd() *cobra.Command {
	var reason string
	cmd := a.sessionVerb("detach SESSION", "Leave a session at work to itself",
		"detach takes the interest of whoever waits for the session: root and workers go on, `codex-mmo exec` returns\n"+
			"with exit code 3. A session that waits for your decision after a provider's failure is suspended instead. With\n"+
			"--reason, what the root has said so far is kept as its partial result.",
		exactArgs("SESSION"), func(ctx context.Context, c *control.Client, _ []string) error {
			view, err := c.DetachSession(ctx, control.DetachRequest{Reason: reason})
			return a.tellStatus(view, err)
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the records")
	return cmd
}

func (a *app) cancelCmd() *cobra.Command {
	var reason string
	cmd := a.sessionVerb("cancel SESSION", "End a session at once, its jobs cancelled",
		"cancel cuts off what is at work and ends every process. What was saved stays. `codex-mmo stop` ends a session more\n"+
			"gently.",
		exactArgs("SESSION"), func(ctx context.Context, c *control.Client, _ []string) error {
			view, err := c.CancelSession(ctx, control.CancelSessionRequest{Reason: reason})
			return a.tellStatus(view, err)
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the records")
	return cmd
}

func (a *app) taintCmd() *cobra.Command {
	var reason string
	cmd := a.sessionVerb("taint SESSION --reason WHY", "Mark that a session's isolation is in doubt",
		"taint keeps a session from delegating and integrating, and from being resumed without --allow-tainted.",
		exactArgs("SESSION"), func(ctx context.Context, c *control.Client, _ []string) error {
			view, err := c.TaintSession(ctx, control.TaintRequest{Reason: reason})
			return a.tellStatus(view, err)
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the records")
	return cmd
}

func (a *app) tellStatus(view *control.SessionView, err error) error {
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(view)
	}
	a.printf("session %s is %s\n", view.SessionID, view.Status)
	return nil
}

func (a *app) resumeCmd() *cobra.Command {
	var in supervisor.SelectInput
	var tainted, upgrade bool
	cmd := &cobra.Command{
		Use:   "resume [SESSION | THREAD]",
		Short: "Go on with a session in Codex's own screen, whatever became of its processes",
		Long: "resume brings the session's root back on its thread, after a pause, a crash or a reboot, and opens Codex's screen\n" +
			"on it. The session is named by its id, by the id of any thread that is or was its root, or is the newest of this\n" +
			"workspace with --last. Its profile is the one that it began with; nothing is compiled again.",
		Example: "  codex-mmo resume --last\n  codex-mmo resume 20261130-101500-codex-harness-team-1a2b3c4d",
		Args:    atMostOne("SESSION or THREAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 == in.Last {
				return usagef("`codex-mmo resume` takes a SESSION or THREAD, or --last: see `codex-mmo resume --help`")
			}
			if len(args) == 1 {
				in.Ref = args[0]
			}
			return a.resume(cmd.Context(), in, tainted, upgrade)
		},
	}
	cmd.Flags().BoolVar(&in.Last, "last", false, "the newest session of the workspace that can be resumed")
	cmd.Flags().BoolVar(&in.AllCwds, "all-cwds", false, "with --last: of any workspace")
	cmd.Flags().StringVar(&in.Cwd, "cwd", ".", "with --last: the workspace")
	cmd.Flags().BoolVar(&upgrade, "upgrade-runtime", false, "first move a session at rest to this build of codex-mmo")
	cmd.Flags().BoolVar(&tainted, "allow-tainted", false, "also when the session is tainted; it then delegates and integrates no more")
	return cmd
}

func (a *app) resume(ctx context.Context, in supervisor.SelectInput, tainted, upgrade bool) error {
	if err := a.outside(); err != nil {
		return err
	}
	if err := a.needsTerminal(); err != nil {
		return err
	}
	f, err := a.folders()
	if err != nil {
		return err
	}
	rec, err := a.selectSession(ctx, f, in)
	if err != nil {
		return err
	}
	if upgrade && !rec.Status.Terminal() {
		if rec, err = a.upgradeRuntime(ctx, f, rec.SessionID); err != nil {
			return err
		}
	}
	if err := a.ask(ctx, f, rec, overError, func(c *control.Client) error {
		_, err := c.ResumeSession(ctx, control.ResumeRequest{AllowTainted: tainted})
		return err
	}); err != nil {
		return err
	}
	return a.screenOn(ctx, f, rec)
}

// upgradeRuntime moves a session at rest to this build.
func (a *app) upgradeRuntime(ctx context.Context, f folders.Folders, id string) (*store.Session, error) {
	err := a.withStore(ctx, f, func(st *store.Store) error {
		return supervisor.UpgradeRuntime(ctx, st, f, id, build(), time.Now())
	})
	if err != nil {
		return nil, err
	}
	return a.readSession(ctx, f, id)
}

func (a *app) selectSession(ctx context.Context, f folders.Folders, in supervisor.SelectInput) (rec *store.Session, err error) {
	err = a.withStore(ctx, f, func(st *store.Store) error {
		rec, err = supervisor.Select(ctx, st, in)
		return err
	})
	return rec, err
}
